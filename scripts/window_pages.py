"""Write, for each window model of docs/windows.md, the code, rows and results of its picture: make pictures.

The results are computed from the code that the page shows.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT)]

from scripts.draw_windows import EPOCH, KILOMETRES, MINUTES, PICTURES, TUPLES  # noqa: E402

import muntin  # noqa: E402
from muntin import aggregates as A  # noqa: E402
from muntin import windows as W  # noqa: E402
from muntin.testing import Stream  # noqa: E402

LINE = 120
"""As long as the formatter lets code be."""
PAGE = ROOT / "docs" / "windows.md"


def table(*rows: list[str]) -> str:
    head, *body = ("| " + " | ".join(row) + " |" for row in rows)
    return "\n".join([head, "|" + " --- |" * len(rows[0]), *body])


def block(name: str) -> str:
    column = "km" if name == "delta" else "at"
    begin = f'muntin.over(rows, {PICTURES[name].code}, time="at").agg('
    named = f'count=A.count(), first=A.first("{column}"), last=A.last("{column}")'
    short = f"{begin}{named})"
    code = short if len(short) <= LINE else f"{begin}\n    {named}\n)"
    given = [["at, minutes", *map(str, MINUTES)], ["km", *map(str, KILOMETRES)]]
    return "\n\n".join(
        [
            "The rows of the picture:",
            table(*given[: 2 if name == "delta" else 1]),
            f"```python\n{code}\n```",
            results(code, TUPLES, in_minutes),
        ]
    )


CALENDAR = """muntin.over(rows, W.calendar("1 day", zone="Europe/Berlin"), time="at").agg(
    count=A.count(), first=A.first("at"), last=A.last("at")
)"""
HOURS = [datetime(2024, 3, 28, 23, tzinfo=timezone.utc) + timedelta(hours=hour) for hour in range(5 * 24 - 1)]
"""Those of the picture: five days in Berlin, one of 23 hours."""


def calendar_block() -> str:
    given = [at_hour(HOURS[0]), at_hour(HOURS[1]), "…", at_hour(HOURS[-1])]
    return "\n\n".join(
        [
            f"A row at every full hour of the picture, {len(HOURS)} in all, with times in UTC:",
            table(["at", *given]),
            f"```python\n{CALENDAR}\n```",
            results(CALENDAR, [(hour, 0, 0) for hour in HOURS], at_hour),
        ]
    )


def at_hour(value: object) -> str:
    return f"{value.day} {value:%b %H:%M}" if isinstance(value, datetime) else str(value)


def results(code: str, tuples: Sequence[Any], written: Callable[[object], str]) -> str:
    # A table has no watermark; a stream that waits for all rows answers the same.
    code = code.replace('time="at"', 'time="at", watermark="1 hour"')
    names = {"muntin": muntin, "A": A, "W": W}
    stream = Stream(lambda rows: eval(code, {**names, "rows": rows}), "at timestamp, km long, bit long")
    stream.batch(tuples)
    stream.watermark(datetime(2030, 1, 1, tzinfo=timezone.utc))
    shown = [name for name in stream.results[0] if name != "window_time"]
    heads = [part for name in shown for part in (["start", "end"] if name == "window" else [name])]
    lines = [heads]
    for row in stream.results:
        values = [value for name in shown for value in (row[name].values() if name == "window" else [row[name]])]
        lines.append([written(value) for value in values])
    return table(*lines)


def in_minutes(value: object) -> str:
    if isinstance(value, datetime):
        value = (value - EPOCH) // timedelta(minutes=1)
    return str(value).lower().replace("-", "−")


def page() -> str:
    text = PAGE.read_text(encoding="utf-8")
    for name in (*PICTURES, "calendar"):
        begin, end = f"<!-- rows of {name} -->", f"<!-- /rows of {name} -->"
        before, *behind = text.split(begin)
        assert len(behind) == 1, f"{PAGE.name} has no place for {name}"
        made = calendar_block() if name == "calendar" else block(name)
        text = f"{before}{begin}\n\n{made}\n\n{end}{behind[0].split(end)[1]}"
    return text


if __name__ == "__main__":
    written_page = page()
    if "--check" in sys.argv:
        same = written_page == PAGE.read_text(encoding="utf-8")
        sys.exit(0 if same else f"{PAGE.name} is not up to date; run python {sys.argv[0]}.")
    PAGE.write_text(written_page, encoding="utf-8")
