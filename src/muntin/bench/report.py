"""The output of a benchmark: records as JSON, and a table on the screen."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from rich.console import Console
from rich.table import Table


@dataclass(frozen=True)
class Record:
    """One measured figure and its baseline."""

    name: str
    rows_per_s: float | None
    """The measured rate, in input rows per second, if the figure is a rate."""
    baseline: float | None
    """The rate or value of the baseline."""
    ratio: float | None
    target: float | None
    better: Literal["higher", "lower"] = "higher"
    baseline_name: str = ""
    note: str = ""

    @property
    def meets(self) -> bool | None:
        if self.target is None or self.ratio is None:
            return None
        return self.ratio >= self.target if self.better == "higher" else self.ratio <= self.target


def write(records: Sequence[Record], path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    entries = [{**asdict(record), "meets": record.meets} for record in records]
    path.write_text(json.dumps(entries, indent=2) + "\n")


def show(records: Sequence[Record], title: str, console: Console) -> None:
    table = Table(title=title, title_justify="left", header_style="bold")
    table.add_column("what")
    for heading in ("rows/s", "baseline", "ratio", "target"):
        table.add_column(heading, justify="right")
    table.add_column("")
    for record in records:
        sign = "≥" if record.better == "higher" else "≤"
        verdict = {True: "[green]✓[/]", False: "[red]✗[/]", None: ""}[record.meets]
        table.add_row(
            record.name,
            _rate(record.rows_per_s),
            f"{_rate(record.baseline)} {record.baseline_name}".strip(),
            "" if record.ratio is None else f"{record.ratio:,.2f}×",
            "" if record.target is None else f"{sign} {record.target:,g}×",
            verdict,
        )
    console.print(table)
    for record in records:
        if record.note:
            console.print(f"[dim]{record.name}: {record.note}[/]")


def _rate(value: float | None) -> str:
    return "" if value is None else f"{value:,.0f}"


def ms(seconds: float) -> str:
    return f"{seconds * 1e3:,.2f} ms"
