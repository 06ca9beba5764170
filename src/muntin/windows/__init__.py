"""The window models. Each is a frozen value; `muntin.over` takes one or several of them.

| model | windows | forward context |
| --- | --- | --- |
| `tumbling(size)` | of `size`, back to back | free |
| `sliding(size, slide)` | of `size`, one every `slide` | free |
| `cumulative(size, step)` | from the start of each `size`, growing by `step` | free |
| `calendar(size, slide, zone)` | of days, weeks or months in the local time of a zone | free |
| `session(gap)` | bursts of tuples, each until `gap` passes without one | free |
| `count(size, slide)` | the last `size` tuples, every `slide` tuples | free |
| `slide_by_tuple(size, every)` | the last `size` of time, every `every` tuples | aware |
| `slide_by_time(last, every)` | the last `last` tuples, every `every` of time | aware |
| `delta(column, size, slide)` | the last `size` of a growing column, every `slide` of it | aware |
"""

from muntin.windows.calendar import CalendarWindow, calendar
from muntin.windows.count import CountWindow, count
from muntin.windows.cumulative import CumulativeWindow, cumulative
from muntin.windows.delta import DeltaWindow, delta
from muntin.windows.model import PaneWindow, TupleWindow, Window
from muntin.windows.session import SessionWindow, session
from muntin.windows.slide_by import SlideByTime, SlideByTuple, slide_by_time, slide_by_tuple
from muntin.windows.time import TimeWindow, sliding, tumbling

__all__ = [
    "CalendarWindow",
    "CountWindow",
    "CumulativeWindow",
    "DeltaWindow",
    "PaneWindow",
    "SessionWindow",
    "SlideByTime",
    "SlideByTuple",
    "TimeWindow",
    "TupleWindow",
    "Window",
    "calendar",
    "count",
    "cumulative",
    "delta",
    "session",
    "slide_by_time",
    "slide_by_tuple",
    "sliding",
    "tumbling",
]
