"""What a shard knows of the inputs of its stream: their latest event times, and when they last had data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from muntin.engine.map_stage import NO_TIME

MILLISECOND = 1000
"""The clock is in milliseconds, and event time in microseconds."""


@dataclass(frozen=True)
class Input:
    """An input that has had rows."""

    latest: int
    """Its latest event time, in microseconds."""
    clock: int
    """The clock of the last batch in which it had data, in milliseconds."""

    def idle_for(self, clock: int | None) -> int:
        """How long it has had nothing by then, in microseconds."""
        return 0 if clock is None else max(clock - self.clock, 0) * MILLISECOND


@dataclass(frozen=True)
class Inputs:
    """The inputs of a stream: one, or the two sides of a join. None for those without a row so far."""

    states: tuple[Input | None, ...]

    @classmethod
    def of(cls, header: Sequence[Sequence[int] | None], count: int) -> Inputs:
        """Those in the header of the state, if there is one."""
        known = [None if state is None else Input(*state) for state in header]
        return cls(tuple(known) or (None,) * count)

    @property
    def header(self) -> list[Any]:
        return [None if state is None else [state.latest, state.clock] for state in self.states]

    @property
    def latest(self) -> int:
        """The latest event time of all."""
        return max((state.latest for state in self.states if state is not None), default=NO_TIME)

    def after(self, arrived: Mapping[int, int], clock: int | None) -> Inputs:
        """The inputs after a batch in which some had data, up to these event times."""
        return Inputs(tuple(_after(state, arrived.get(number), clock) for number, state in enumerate(self.states)))

    def watermark(
        self, arrived: Mapping[int, int], clock: int | None, after: int, delays: Sequence[int | None], watermark: int
    ) -> int:
        """The watermark that the stream would have, had the event time of idle inputs gone on with the clock.

        As Spark's watermark, it is that of the slowest input, and knows the batches before this one.

        Parameters
        ----------
        arrived
            The inputs with data in this batch.
        clock
            The clock of the batch, in milliseconds.
        after
            How long an input has nothing before it is idle, in microseconds.
        delays
            The delay of each input; None for an input with a watermark of its own, which only Spark knows.
        watermark
            Spark's.
        """
        found, is_idle = list[int](), False
        for number, (state, delay) in enumerate(zip(self.states, delays, strict=True)):
            own = watermark if state is None or delay is None else state.latest - delay
            if state is not None and number not in arrived and state.idle_for(clock) >= after:
                own += state.idle_for(clock)
                is_idle = True
            found.append(own)
        return max(watermark, min(found)) if is_idle else watermark


def _after(state: Input | None, latest: int | None, clock: int | None) -> Input | None:
    if latest is None or clock is None:
        return state
    if state is None:
        return None if latest == NO_TIME else Input(latest, clock)
    return replace(state, latest=max(state.latest, latest), clock=max(state.clock, clock))
