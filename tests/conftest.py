from hypothesis import HealthCheck, Phase, settings

settings.register_profile(
    "muntin",
    deadline=None,  # the first example of a run pays for imports and warm-up
    suppress_health_check=[HealthCheck.too_slow],  # nor does a busy machine make a test wrong
    max_examples=60,
    phases=(Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink),  # explaining costs minutes
)
settings.load_profile("muntin")
