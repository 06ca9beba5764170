"""The metrics of all built-in features, for readers of metrics; queries declare their own."""

from __future__ import annotations

from muntin.features.drift.feature import Drift
from muntin.features.idle.feature import Idling
from muntin.features.sampling.feature import Sampling
from muntin.features.shedding.feature import LoadShedding
from muntin.features.shedding.source import SourceShedding
from muntin.features.updates.feature import Updating

_FEATURES = (Sampling, LoadShedding, SourceShedding, Drift, Updating, Idling)
METRICS = tuple(metric for feature in _FEATURES for metric in feature.metrics)
