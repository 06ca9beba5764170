"""A complete feature: a checksum of the rows of every window and key, whatever order they came in.

Runs with equal checksums saw the same rows: a stream and a table, or a stream before and after a restart.

    muntin.over(rides, window, time="pickup", by="route").agg(n=A.count()).use(Checksum(("fare", "tip"))).to_df()
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from muntin import MuntinError
from muntin.aggregates.aggregate import Bound, Dictionaries
from muntin.arrays import State
from muntin.engine.batch import ShardBatch
from muntin.engine.emitted import Emitted
from muntin.engine.features import Knob, ShardFeature, Task
from muntin.engine.metrics import Metric
from muntin.engine.plan import Draft, Plan
from muntin.expressions import shown
from muntin.panes.keys import check_key_type, hashes
from muntin.partials.partial import Field, Partial
from muntin.partials.rows import Rows


@dataclass(frozen=True)
class HashSum(Partial):
    """The sum of the hashes of all rows, modulo 2**64."""

    columns: tuple[str, ...]

    @property
    def fields(self) -> tuple[Field, ...]:
        return (Field("int64"),)

    @property
    def inputs(self) -> tuple[str, ...]:
        return self.columns

    def lift(self, rows: Rows) -> State:
        hashed = hashes([pa.array(rows.times), *map(rows.array, self.columns)], len(rows.times))
        total = np.zeros(rows.group_count, np.int64)
        np.add.at(total, rows.groups, hashed.view(np.int64))
        return (total,)

    def combine(self, left: State, right: State) -> State:
        return (left[0] + right[0],)


def lower(states: Sequence[State], dictionaries: Dictionaries) -> pa.Array:
    ((total,),) = states
    return pa.array(total)


@dataclass(frozen=True)
class Checksum(Knob):
    """The option and the feature: it adds the column `checksum` to the results."""

    columns: tuple[str, ...]
    name = "checksum"
    order = 1
    metrics = (Metric("checksummed_windows", "Windows of keys that closed with a checksum.", counter=True),)

    def __post_init__(self) -> None:
        if not isinstance(self.columns, tuple) or not self.columns:
            raise MuntinError(f"columns must be a tuple of column names, such as ('fare',), got {self.columns!r}.")

    @property
    def written(self) -> str:
        return f".use(Checksum({tuple(map(shown, self.columns))!r}))"

    @property
    def reads(self) -> tuple[str, ...]:
        return self.columns

    def reading(self, names: Sequence[str]) -> Checksum:
        return replace(self, columns=tuple(names))

    def check(self, draft: Draft, complete: bool = False) -> None:
        if draft.function is not None:
            raise MuntinError("Checksum stands beside aggregates, and the query applies a function; use .agg().")
        if self.name in draft.aggregates or self.name in draft.keys:
            raise MuntinError("Checksum adds a column 'checksum', and there is one already; give that another name.")
        if any(option.name == "shed" for option in draft.options):
            raise MuntinError("Checksum is of all rows, and shed() drops some; leave one of them out.")
        for column in self.columns:
            check_key_type(draft.types[column], shown(column), "Checksum")

    def plan(self, draft: Draft) -> Draft:
        checksum = Bound((HashSum(None, self.columns),), pa.int64(), lower, written=self.written)
        return replace(super().plan(draft), aggregates={**draft.aggregates, self.name: checksum})

    def on_shard(self, plan: Plan, shard: int, task: Task) -> ShardFeature:
        return CountedWindows()

    def explained(self, plan: Plan) -> list[str]:
        return [f"Checksum: of the event time and {', '.join(map(shown, self.columns))}, 8 bytes per pane."]


class CountedWindows(ShardFeature):
    """The feature's part in one batch of one shard."""

    def emit(self, emitted: Iterator[Emitted], batch: ShardBatch | None) -> Iterator[Emitted]:
        for each in emitted:
            if batch is not None:
                batch.metrics.add(checksummed_windows=len(each))
            yield each
