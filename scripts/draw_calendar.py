"""Draw docs/windows/calendar.svg: five days in Berlin over hours in UTC, one of them without an hour.

Run it with `make pictures`.
"""

from __future__ import annotations

from datetime import date
from pathlib import Path

from matplotlib import rc_context
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch

from muntin import windows as W

TARGET = Path(__file__).parents[1] / "docs" / "windows" / "calendar.svg"
HOUR = 3_600 * 10**6
FIRST = (date(2024, 3, 29) - date(1970, 1, 1)).days
DAYS, LONG = 5, 3
INK, BOX, CHANGED = "#33302c", "#c9d8e6", "#f0c987"


def main() -> None:
    days = W.calendar("1 day", zone="Europe/Berlin")
    long = W.calendar("3 days", "1 day", zone="Europe/Berlin")
    begin = FIRST * 24 * HOUR
    figure = Figure(figsize=(9, 2.6), dpi=110, layout="constrained")
    axes = figure.add_subplot()
    for row, window, count in ((1, days, DAYS), (0, long, LONG)):
        for number in range(FIRST, FIRST + count):
            start, end = ((edge - begin) / HOUR for edge in (window.start(number), window.end(number)))
            changed = (end - start) % 24 != 0
            height = 0.62 / (1 if window is days else count)
            y = row + (0 if window is days else (FIRST + count - 1 - number) * height * 1.15)
            box = FancyBboxPatch(
                (start + 0.4, y), end - start - 0.8, height, "round,pad=0,rounding_size=0.6", mutation_aspect=0.04
            )
            box.set(facecolor=CHANGED if changed else BOX, edgecolor=INK, linewidth=0.8)
            axes.add_patch(box)
            day = date.fromordinal(date(1970, 1, 1).toordinal() + number).strftime("%d %b")
            axes.text(
                (start + end) / 2, y + height / 2, f"{day}: {end - start:.0f} h", ha="center", va="center", size=8
            )
    axes.set(xlim=(-3, 24 * DAYS + 1), ylim=(-0.15, 1.8), yticks=[0.35, 1.31])
    axes.set_yticklabels(['W.calendar("3 days", "1 day", …)', 'W.calendar("1 day", zone="Europe/Berlin")'], size=8)
    axes.set_xticks(
        range(0, 24 * DAYS + 1, 12), [f"{hour % 24:02d}:00" for hour in range(0, 24 * DAYS + 1, 12)], size=8
    )
    axes.set_xlabel("UTC. Clocks are put forward on 31 March: that day has 23 hours.", size=9, color=INK)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(axis="y", length=0)
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "calendar"}):
        figure.savefig(TARGET, metadata={"Date": None})
    print(TARGET)


if __name__ == "__main__":
    main()
