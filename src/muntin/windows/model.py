"""The base classes of all window models."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import ClassVar, Literal, TypeAlias, TypeVar

import numpy as np

from muntin.arrays import Int64Array
from muntin.checks import encodable, is_integer
from muntin.durations import Duration, describe, positive_microseconds
from muntin.errors import MuntinError
from muntin.written import call

ForwardContext = Literal["free", "aware"]
Ids = TypeVar("Ids", int, Int64Array)
Parameters: TypeAlias = dict[str, str | int | float]
_NAMED = ("offset", "max_wait", "forget_after", "zone", "zone_column", "week_start")
"""The arguments that `repr` writes with their names."""
NEVER = np.iinfo(np.int64).min
"""The end of the last window of a tuple that is in no window."""


@dataclass(frozen=True, repr=False)
class Window(ABC):
    """A window model: which tuples each window contains (its extent), and which windows a tuple is in (its mapping).

    `forward_context` is from the taxonomy of Mencagli 2018 (sliding-window parallelism, section 2.2): *free* if the
    windows of a tuple are known when it arrives, *aware* if they depend on later tuples.
    """

    name: str | None
    forward_context: ClassVar[ForwardContext]
    ends_at_tuple: ClassVar[bool] = False
    """Whether its end is the time of a tuple, and not the first instant behind the window."""
    extent_formula: ClassVar[str]
    """The extent E(w) of window w, in the notation of Mencagli 2018: tuples t with index i and time τ(t)."""

    @property
    @abstractmethod
    def label(self) -> str:
        """The window as the user wrote it; used as its name if none was given."""

    @property
    @abstractmethod
    def parameters(self) -> tuple[str, Parameters]:
        """The function of `muntin.windows` that makes it, and its arguments without `name`, in the user's units."""

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
        """The watermark from which a tuple at each time is too late for all windows; `NEVER` if it is in none."""

    def closed_at(self, time: int) -> int:
        """The watermark at which all windows of tuples up to a time have closed, except those that lack tuples."""
        return max(int(self.last_ends(np.array([time]))[0]), time + 1)


@dataclass(frozen=True, repr=False)
class PaneWindow(Window):
    """Windows whose bounds do not depend on the tuples, so that each is a run of panes of event time.

    The mapping of a tuple is the ids from `first_containing` to `last_containing`; both grow with its time.
    """

    offset: int

    @property
    @abstractmethod
    def lengths(self) -> tuple[int, ...]:
        """The lengths that panes must divide, so that their edges, from `offset` on, include every start and end."""

    @property
    @abstractmethod
    def longest(self) -> int:
        """The longest window, in microseconds."""

    @property
    @abstractmethod
    def copies(self) -> int:
        """The most windows that a tuple can be in: the number of copies that Spark's `window()` makes of each row."""

    @property
    def shortest_step(self) -> int | None:
        """For windows of uneven lengths, how far apart two starts or two ends are at least; None for even ones."""
        return None

    @property
    def has_gaps(self) -> bool:
        """Whether there are times between windows."""
        return False

    @abstractmethod
    def start(self, window_id: Ids) -> Ids: ...

    @abstractmethod
    def end(self, window_id: Ids) -> Ids: ...

    @abstractmethod
    def first_containing(self, times: Int64Array) -> Int64Array:
        """The lower end of the mapping: the id of the first window that contains each time."""

    @abstractmethod
    def last_containing(self, times: Int64Array) -> Int64Array:
        """The upper end of the mapping: smaller than the lower end if a time is between windows."""

    @abstractmethod
    def last_ended(self, time: int) -> int:
        """The id of the last window whose end is at or before `time`."""

    def public_id(self, ids: Int64Array) -> Int64Array:
        """The ids that results report."""
        return ids

    def last_ends(self, times: Int64Array) -> Int64Array:
        last = self.last_containing(times)
        return np.where(last >= self.first_containing(times), self.end(last), NEVER)


@dataclass(frozen=True, repr=False)
class TupleWindow(Window):
    """Windows whose bounds depend on the tuples: per key, over tuples in event-time order.

    Tuples are finalized once they are further behind the latest one than the watermark allows. A tuple that arrives
    after that is too late: it would change the numbers of finalized tuples.
    """

    forget_after: int | None = field(default=None, kw_only=True, metadata={"later": True})
    """After how much event time without a tuple a key is forgotten, in microseconds: then its numbers begin anew."""

    @property
    def _forgetting(self) -> Parameters:
        """The argument, as the user gives it."""
        return {} if self.forget_after is None else {"forget_after": describe(self.forget_after)}

    @property
    def _forgetting_label(self) -> str:
        return "".join(f", {name}={value}" for name, value in self._forgetting.items())

    def last_ends(self, times: Int64Array) -> Int64Array:
        return times + 1


def forgetting(window: Window) -> int | None:
    """After how much time without a tuple the window's keys are forgotten, if they are."""
    return window.forget_after if isinstance(window, TupleWindow) else None


def checked_forgetting(forget_after: Duration | None, at_least: int | None = None, argument: str = "") -> int | None:
    """`forget_after` in microseconds; at least as long as another argument, which is in microseconds."""
    if forget_after is None:
        return None
    length = positive_microseconds(forget_after, "forget_after")
    if at_least is not None and length < at_least:
        raise MuntinError(
            f"forget_after is {forget_after!r}, shorter than {argument}, which is {describe(at_least)}: a key would be "
            f"forgotten before its windows are complete. Give at least {describe(at_least)}, or leave it out."
        )
    return length


def check_name(name: str | None) -> str | None:
    if name is not None and (not isinstance(name, str) or not name):
        raise MuntinError(f"name must be a non-empty string, got {name!r}; it labels the window in the results.")
    return name if name is None else encodable(name, "name")


def positive_count(value: object, argument: str) -> int:
    if is_integer(value) and 1 <= value < 1 << 53:
        return int(value)
    raise MuntinError(f"{argument} must be a whole number of tuples, at least 1 and below 2**53, got {value!r}.")
