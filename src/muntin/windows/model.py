"""What every window model has in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Literal, TypeAlias, TypeVar

import numpy as np

from muntin.arrays import Int64Array
from muntin.checks import encodable, is_integer
from muntin.errors import MuntinError
from muntin.written import call

ForwardContext = Literal["free", "aware"]
Ids = TypeVar("Ids", int, Int64Array)
Parameters: TypeAlias = dict[str, str | int | float]
_NAMED = ("offset", "max_wait")
"""The arguments that are written with their names."""
NEVER = np.iinfo(np.int64).min
"""The end of a window that is not there."""


@dataclass(frozen=True, repr=False)
class Window(ABC):
    """A window model: which tuples each window holds (its extent), and which windows a tuple is in (its mapping).

    `forward_context` is the paper's taxonomy (sliding-window parallelism, section 2.2): *free* if the windows of a
    tuple are known when it arrives, *aware* if they depend on tuples that are still to come.
    """

    name: str | None
    forward_context: ClassVar[ForwardContext]
    extent_formula: ClassVar[str]
    """The extent E(w) of window w, in the paper's notation: tuples t with index i and time τ(t)."""

    @property
    @abstractmethod
    def label(self) -> str:
        """The window as the user wrote it; its name where none was given."""

    @property
    @abstractmethod
    def parameters(self) -> tuple[str, Parameters]:
        """The function of `muntin.windows` that makes it, and its arguments but for the name, in the user's units."""

    def __repr__(self) -> str:
        function, parameters = self.parameters
        named = {name: parameters[name] for name in parameters if name in _NAMED}
        positional = [value for name, value in parameters.items() if name not in _NAMED]
        return call(f"W.{function}", *positional, **named, **({} if self.name is None else {"name": self.name}))

    @property
    def title(self) -> str:
        return self.name if self.name is not None else self.label

    @abstractmethod
    def last_ends(self, times: Int64Array) -> Int64Array:
        """From which watermark on a tuple at each time is too late for all windows; `NEVER` if there are none."""


@dataclass(frozen=True, repr=False)
class PaneWindow(Window):
    """Windows whose bounds are known beforehand, so that each is a run of panes of event time.

    The mapping of a tuple is the ids from `first_containing` to `last_containing`; both grow with its time.
    """

    offset: int

    @property
    @abstractmethod
    def lengths(self) -> tuple[int, ...]:
        """Panes whose length divides all of these, and that begin at `offset`, meet every start and end."""

    @property
    @abstractmethod
    def longest(self) -> int:
        """The longest window, in microseconds."""

    @property
    @abstractmethod
    def copies(self) -> int:
        """How many windows hold a tuple at most: how often Spark's `window()` would copy each row."""

    @property
    def has_gaps(self) -> bool:
        """Whether a time can fall between all windows."""
        return False

    @abstractmethod
    def start(self, window_id: Ids) -> Ids: ...

    @abstractmethod
    def end(self, window_id: Ids) -> Ids: ...

    @abstractmethod
    def first_containing(self, times: Int64Array) -> Int64Array:
        """The mapping, lower end: the id of the first window that holds each time."""

    @abstractmethod
    def last_containing(self, times: Int64Array) -> Int64Array:
        """The mapping, upper end. Smaller than the first where a time falls between windows."""

    @abstractmethod
    def last_ended(self, time: int) -> int:
        """The id of the last window whose end is at or before `time`."""

    def told_id(self, ids: Int64Array) -> Int64Array:
        """The ids as results tell them."""
        return ids

    def last_ends(self, times: Int64Array) -> Int64Array:
        last = self.last_containing(times)
        return np.where(last >= self.first_containing(times), self.end(last), NEVER)


@dataclass(frozen=True, repr=False)
class TupleWindow(Window):
    """Windows that depend on the tuples themselves: per key, over tuples in event-time order.

    Tuples are settled once they are further behind the latest one than the watermark allows. A tuple that comes behind
    that would change the numbers of those that have been settled, so it is too late.
    """

    def last_ends(self, times: Int64Array) -> Int64Array:
        return times + 1


def check_name(name: str | None) -> str | None:
    if name is not None and (not isinstance(name, str) or not name):
        raise MuntinError(f"name must be a non-empty string, got {name!r}; it labels the window in the results.")
    return name if name is None else encodable(name, "name")


def positive_count(value: object, argument: str) -> int:
    if is_integer(value) and 1 <= value < 1 << 53:
        return int(value)
    raise MuntinError(f"{argument} must be a whole number of tuples, at least 1 and below 2**53, got {value!r}.")
