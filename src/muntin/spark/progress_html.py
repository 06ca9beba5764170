"""What notebooks show of the progress of a stream: a small table."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import TYPE_CHECKING

from muntin.sizes import describe_size

if TYPE_CHECKING:
    from muntin.spark.metrics import Progress

_COUNTERS = ("rows", "late_rows", "invalid_rows", "outside_rows", "shed_rows", "skipped_files", "results")
_SIZES = ("panes", "tuples", "hot_bytes", "state_bytes", "uncompressed_bytes", "compressed_bytes")


def progress_html(progress: Progress) -> str:
    """Counters of the last batch and in all, and the sizes of the state. Lines of zeros are left out."""
    if progress.batch_id < 0:
        return "<p>No batch yet.</p>"
    meanings = progress.meanings()
    counted = [
        _line(name, meanings, f"{getattr(progress, f'batch_{name}'):,}", f"{getattr(progress, name):,}")
        for name in _COUNTERS
        if getattr(progress, name) or name in ("rows", "results")
    ]
    sizes = [
        _line(name, meanings, "", describe_size(value) if name.endswith("bytes") else f"{value:,}")
        for name in _SIZES
        if (value := getattr(progress, name))
    ]
    warning = "" if progress.warning is None else f'<p role="alert"><strong>{escape(progress.warning)}</strong></p>'
    return (
        f"<table><caption>Batch {progress.batch_id:,}: {progress.batch_seconds:.1f} s, "
        f"{progress.rows_per_s:,.0f} rows/s</caption><thead><tr><th scope='col'></th><th scope='col'>last batch</th>"
        f"<th scope='col'>in all</th></tr></thead><tbody>{''.join(counted + sizes)}</tbody></table>{warning}"
    )


def _line(name: str, meanings: Mapping[str, str], last: str, total: str) -> str:
    label = escape(name.replace("_", " "))
    return f"<tr title='{escape(meanings[name])}'><th scope='row'>{label}</th><td>{last}</td><td>{total}</td></tr>"
