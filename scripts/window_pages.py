"""Write, for each window model of docs/windows.md, the code, rows and results of its picture: make pictures.

The results are computed from the code that the page shows.
"""

from __future__ import annotations

import sys
from datetime import datetime, timedelta
from pathlib import Path

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
            results(code),
        ]
    )


def results(code: str) -> str:
    # A table has no watermark; a stream that waits for all rows answers the same.
    code = code.replace('time="at"', 'time="at", watermark="1 hour"')
    names = {"muntin": muntin, "A": A, "W": W}
    stream = Stream(lambda rows: eval(code, {**names, "rows": rows}), "at timestamp, km long, bit long")
    stream.batch(TUPLES)
    stream.watermark(EPOCH + timedelta(days=1))
    shown = [name for name in stream.results[0] if name != "window_time"]
    heads = [part for name in shown for part in (["start", "end"] if name == "window" else [name])]
    lines = [heads]
    for row in stream.results:
        values = [value for name in shown for value in (row[name].values() if name == "window" else [row[name]])]
        lines.append([written(value) for value in values])
    return table(*lines)


def written(value: object) -> str:
    if isinstance(value, datetime):
        value = (value - EPOCH) // timedelta(minutes=1)
    return str(value).lower().replace("-", "−")


def page() -> str:
    text = PAGE.read_text(encoding="utf-8")
    for name in PICTURES:
        begin, end = f"<!-- rows of {name} -->", f"<!-- /rows of {name} -->"
        before, *behind = text.split(begin)
        assert len(behind) == 1, f"{PAGE.name} has no place for {name}"
        text = f"{before}{begin}\n\n{block(name)}\n\n{end}{behind[0].split(end)[1]}"
    return text


if __name__ == "__main__":
    written_page = page()
    if "--check" in sys.argv:
        same = written_page == PAGE.read_text(encoding="utf-8")
        sys.exit(0 if same else f"{PAGE.name} is not up to date; run python {sys.argv[0]}.")
    PAGE.write_text(written_page, encoding="utf-8")
