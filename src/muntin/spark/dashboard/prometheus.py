"""The metrics of a stream in Prometheus' text format."""

from __future__ import annotations

from typing import Any

from muntin.spark.dashboard.figures import figures
from muntin.spark.metrics import all_metrics, reports_of

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def exposition(query: Any, name: str | None = None) -> str:
    """Every metric that the query reports. Counters are totals since it first started."""
    shown = figures(query, name)
    label = f'{{query="{_escaped(shown["name"])}"}}'
    lines = [*_metric("muntin_running", "gauge", "Whether the stream runs.", [(label, int(shown["running"]))])]
    if not shown["batches"]:
        return "\n".join([*lines, ""])
    last = shown["batches"][-1]
    _, values = reports_of(query, name)[0]
    for metric in all_metrics():
        if metric.name not in values:
            continue
        if metric.counter:
            total = int(values.get(f"total_{metric.name}") or 0)
            lines += _metric(f"muntin_{metric.name}_total", "counter", metric.meaning, [(label, total)])
        else:
            gauge, value = _in_base_unit(metric.name, int(values.get(metric.name) or 0))
            lines += _metric(f"muntin_{gauge}", "gauge", metric.meaning, [(label, value)])
    of_batch = {
        "batch_id": ("The number of the last batch.", last["batch"]),
        "batch_seconds": ("How long the last batch took.", last["seconds"]),
        "input_rows_per_second": ("Rows that arrived, as Spark measures it.", last["input_rows_per_s"]),
        "processed_rows_per_second": ("Rows of the last batch per second of it.", last["processed_rows_per_s"]),
        "watermark_lag_seconds": ("How far the watermark is behind the clock.", last["lag_seconds"]),
    }
    for name_of, (meaning, number) in of_batch.items():
        if number is not None:
            lines += _metric(f"muntin_{name_of}", "gauge", meaning, [(label, number)])
    parts = [(f'{label[:-1]},part="{_escaped(part)}"}}', value) for part, value in last["parts"].items()]
    lines += _metric("muntin_batch_part_seconds", "gauge", "The parts of the last batch's time, as in Spark.", parts)
    return "\n".join([*lines, ""])


def _in_base_unit(name: str, value: int) -> tuple[str, float]:
    """The name of a gauge and its value as Prometheus wants them: in seconds, and without the suffix of counters."""
    if name.endswith("_nanoseconds"):
        return f"{name.removesuffix('_nanoseconds')}_seconds", value / 1e9
    return (f"{name.removesuffix('_total')}_all" if name.endswith("_total") else name), value


def _metric(name: str, kind: str, meaning: str, samples: list[tuple[str, float]]) -> list[str]:
    help_text = meaning.replace("\\", "\\\\").replace("\n", " ")
    return [f"# HELP {name} {help_text}", f"# TYPE {name} {kind}", *(f"{name}{at} {value}" for at, value in samples)]


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
