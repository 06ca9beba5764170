import atexit
import os
import shutil
import tempfile

from hypothesis import HealthCheck, Phase, settings

# Copies of state go to the host's temporary folder, where another run of the tests would meet them.
_TEMPORARY = tempfile.mkdtemp(prefix="muntin-tests-")
atexit.register(shutil.rmtree, _TEMPORARY, ignore_errors=True)
os.environ["TMPDIR"] = _TEMPORARY  # for Spark's workers, too
tempfile.tempdir = None

settings.register_profile(
    "muntin",
    deadline=None,  # the first example of a run pays for imports and warm-up
    suppress_health_check=[HealthCheck.too_slow],  # nor does a busy machine make a test wrong
    max_examples=30,
    phases=(Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink),  # explaining costs minutes
)
settings.load_profile("muntin")
