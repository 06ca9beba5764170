"""The window models. Each is a frozen value; `muntin.over` takes one or several of them.

| model | windows | forward context |
| --- | --- | --- |
| `tumbling(size)` | of `size`, one after the other | free |
| `sliding(size, slide)` | of `size`, one every `slide` | free |
"""

from muntin.windows.model import Window
from muntin.windows.time import TimeWindow, sliding, tumbling

__all__ = ["TimeWindow", "Window", "sliding", "tumbling"]
