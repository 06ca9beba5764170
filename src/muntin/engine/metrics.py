"""What one shard did in one batch, in numbers."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace

from muntin.engine.store import Totals
from muntin.features.shedding.windows import ShedWindows


@dataclass
class ShardMetrics:
    """What one shard did in one batch."""

    rows: int = 0
    late_rows: int = 0
    bad_rows: int = 0
    outside_rows: int = 0
    ahead_rows: int = 0
    results: int = 0
    panes: int = 0
    tuples: int = 0
    hot_bytes: int = 0
    state_bytes: int = 0
    segments: int = 0
    cache_hits: int = 0
    cache_misses: int = 0
    answer_nanoseconds: int = 0
    answer_bytes: int = 0
    exact_windows: int = 0
    approximate_windows: int = 0
    jobs: int = 0
    arrived_bytes: int = 0
    job_bytes: int = 0
    sample_tuples: int = 0
    sample_bytes: int = 0
    shed_rows: int = 0
    shed_rate: int = 0
    error_millionths: int = 0
    windows_with_error: int = 0
    drift_common: int = 0
    drift_union: int = 0
    drift_apart: int = 0
    drift_total: int = 0
    chunks: int = 0
    compressed_chunks: int = 0
    chunk_tuples: int = 0
    uncompressed_bytes: int = 0
    compressed_bytes: int = 0
    resident_bytes: int = 0
    left_chunks: int = 0
    compressed_after: int = 0
    compressions: int = 0
    decompressions: int = 0
    total_rows: int = 0
    total_late_rows: int = 0
    total_bad_rows: int = 0
    total_outside_rows: int = 0
    total_results: int = 0
    total_compressions: int = 0
    total_decompressions: int = 0
    total_exact_windows: int = 0
    total_approximate_windows: int = 0
    total_shed_rows: int = 0
    total_ahead_rows: int = 0

    def count_shed(self, batch: Totals, shed: ShedWindows) -> Totals:
        """Take over what is known of windows of which tuples were shed."""
        told = shed.counted
        self.error_millionths = round(told.error * 1e6)
        self.windows_with_error = told.with_error
        return replace(batch, exact_windows=told.exact, approximate_windows=told.approximate)

    def count(self, batch: Totals, totals: Totals) -> None:
        """Take over the counters of this batch, and those since the query first started."""
        for name, value in asdict(batch).items():
            setattr(self, name, value)
        for name, value in asdict(totals).items():
            setattr(self, f"total_{name}", value)
