"""The metrics of a stream in Prometheus' text format."""

from __future__ import annotations

import time

from muntin.spark.dashboard.figures import Source
from muntin.spark.metrics import all_metrics

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def exposition(source: Source) -> str:
    """Every metric that is known. Counters are totals since the query first started."""
    shown = source.figures()
    label = f'{{query="{_escaped(shown["name"])}"}}'
    lines = []
    if shown["running"] is not None:
        lines += _metric("muntin_running", "gauge", "Whether the stream runs.", [(label, int(shown["running"]))])
    if not shown["batches"]:
        return "\n".join([*lines, ""])
    last = shown["batches"][-1]
    values = source.metrics()
    for metric in all_metrics():
        reported = f"total_{metric.name}" if metric.counter else metric.name
        if reported not in values:
            continue
        if metric.counter:
            total = int(values[reported] or 0)
            lines += _metric(f"muntin_{metric.name}_total", "counter", metric.meaning, [(label, total)])
        else:
            gauge, value = _in_base_unit(metric.name, int(values[reported] or 0))
            lines += _metric(f"muntin_{gauge}", "gauge", metric.meaning, [(label, value)])
    of_batch = {
        "batch_id": ("The number of the last batch.", last["batch"]),
        "batch_seconds": ("How long the last batch took.", last["seconds"]),
        "input_rows_per_second": ("Rows that arrived, as Spark measures it.", last["input_rows_per_s"]),
        "processed_rows_per_second": ("Rows of the last batch per second of it.", last["processed_rows_per_s"]),
        "watermark_lag_seconds": ("How far the watermark is behind the clock.", last["lag_seconds"]),
    }
    committed = shown.get("checkpoint", {}).get("committed")
    if committed is not None:
        of_batch["commit_age_seconds"] = ("How long ago the last batch was committed.", time.time() - committed)
    for name, (meaning, number) in of_batch.items():
        if number is not None:
            lines += _metric(f"muntin_{name}", "gauge", meaning, [(label, number)])
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
