"""The metrics of all built-in features, for readers of metrics; queries declare their own."""

from __future__ import annotations

from muntin.features.compression.aging import CompressedChunks
from muntin.features.drift.feature import Drift
from muntin.features.sampling.feature import Sampling
from muntin.features.shedding.feature import LoadShedding
from muntin.features.workers.feature import AgnosticWorkers

METRICS = tuple(
    metric
    for feature in (CompressedChunks, Sampling, LoadShedding, Drift, AgnosticWorkers)
    for metric in feature.metrics
)
