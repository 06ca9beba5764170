"""The plan: a query with everything resolved, which is what travels to the workers. It knows nothing of Spark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from muntin.aggregates.aggregate import Bound
from muntin.aggregates.decomposable import CountAggregate
from muntin.description import Description, description
from muntin.engine.layout import lay_out
from muntin.engine.operators.operator import NEVER_MORE, Family, Output, TupleFamily
from muntin.engine.operators.time import TimeFamily
from muntin.features.compression.policy import NEVER_COMPRESSED, Compression
from muntin.features.ranking.policy import Top
from muntin.features.sampling import plan as sampling_plan
from muntin.features.sampling.plan import SamplingPlan
from muntin.features.sampling.policy import Approximation
from muntin.features.sampling.quality import QualityFields, quality_type
from muntin.features.sampling.windows import is_hidden
from muntin.features.shedding import plan as shedding_plan
from muntin.features.shedding.policy import Shedding
from muntin.features.shedding.registry import scaled_of
from muntin.features.shedding.scaled import Scaled
from muntin.features.workers.dealing import Dealing, Worker
from muntin.features.workers.policy import KEYED, Workers
from muntin.fingerprint import fingerprint
from muntin.holistic.applied import Applied
from muntin.host.folder import HERE, HostFolder
from muntin.joins.product import Product
from muntin.panes.grid import PaneGrid
from muntin.panes.table import Layout
from muntin.panes.tuples import WEIGHT
from muntin.panes.watermarks import Marks
from muntin.windows import CountWindow, DeltaWindow, Window

MOST_CHUNKS = 256
"""How many chunks the longest window is cut into at most: each is a value in the state and a line in the header."""


@dataclass(frozen=True)
class Plan:
    time: str
    windows: tuple[Window, ...]
    types: Mapping[str, pa.DataType]
    """Every column that the stages read, with its type; times are in UTC."""
    keys: tuple[str, ...]
    layout: Layout
    families: tuple[Family, ...]
    """The windows by what they are answered from; those over panes of time come first."""
    shards: tuple[int, ...]
    late_row: pa.DataType | None
    """The type of a whole input row, if rows that came too late are to be emitted."""
    streaming: bool
    """Whether there is a watermark: then every shard hears of every batch, so that it knows what is late."""
    delay: int | None = None
    """How far behind the latest time a tuple may come, in microseconds, for families that settle tuples."""
    applied: Applied | Product | None = None
    """The function of whole windows, if that is what the query computes, or the pairs of a join."""
    compression: Compression = NEVER_COMPRESSED
    sampling: SamplingPlan | None = None
    """What is sampled, and what samples are good for, if answers may be approximate."""
    shedding: Shedding | None = None
    """How tuples are shed, if they may be."""
    top: Top | None = None
    """Which groups of each window are wanted, if not all of them."""
    measures_drift: bool = False
    """Whether it is counted how much the groups change from window to window."""
    required: tuple[str, ...] = ()
    """Counts, hidden or not, of which none may be 0 in a window that is told: a join has both sides in it."""
    workers: Workers = KEYED
    """How windows are spread over workers."""
    worker: Worker | None = None
    """Which of the active workers this is the plan of, if it is of one: then `windows` are its own."""
    host: HostFolder = HERE
    """Where copies and notes are kept on the hosts of the workers, if at all."""

    @classmethod
    def make(
        cls,
        *,
        time: str,
        windows: Sequence[Window],
        types: Mapping[str, pa.DataType],
        keys: Sequence[str],
        aggregates: Mapping[str, Bound],
        shards: Sequence[int],
        late_row: pa.DataType | None = None,
        streaming: bool = False,
        delay: int | None = None,
        applied: Applied | Product | None = None,
        compression: Compression = NEVER_COMPRESSED,
        approximation: Approximation | None = None,
        shedding: Shedding | None = None,
        top: Top | None = None,
        required: Sequence[str] = (),
        workers: Workers = KEYED,
        weighed: bool = False,
    ) -> Plan:
        """`weighed` tuples stand for others, though this query sheds none."""
        sampling, sampled = None, None
        of_tuples = {**types, WEIGHT: pa.float64()}
        hidden: dict[str, Bound] = {}
        if shedding is not None:
            shedding_plan.check(windows, aggregates)
            hidden |= shedding_plan.hidden(aggregates, shedding.by_chance)
        if approximation is not None:
            sampling = sampling_plan.make(approximation, aggregates, of_tuples, keys, len(shards), shedding is not None)
            for name, ((_, statistic), bound) in sampling_plan.statistics(sampling.estimators).items():
                hidden[name] = bound if shedding is None else shedding_plan.statistic(statistic, bound)
            if sampling.specs:
                sampled = [column for each in sampling.estimators.values() for column in each.inputs]
        # What is compared are neighbouring windows, and only a shard that answers all of them has both.
        ranks_or_sheds = top is not None or shedding is not None
        measures_drift = streaming and applied is None and bool(keys) and ranks_or_sheds and workers.model == "keyed"
        if hidden or sampling is not None or measures_drift:
            size = CountAggregate(None, None).bind(types, None, types[time])
            aggregates = {**aggregates, sampling_plan.SIZE: size, **hidden}
        later = {sampling_plan.SIZE, *hidden} if shedding is None else shedding_plan.later(aggregates)
        if measures_drift:
            later -= {sampling_plan.SIZE}
        stored = None if applied is None else [c for c in applied.columns if c != time and c not in keys]
        weighed = weighed or shedding is not None
        layout, families = lay_out(keys, of_tuples, windows, aggregates, stored, sampled, weighed, later)
        return cls(
            time,
            tuple(windows),
            dict(types),
            tuple(keys),
            layout,
            families,
            tuple(shards),
            late_row,
            streaming,
            delay,
            applied,
            compression,
            sampling,
            shedding,
            top,
            measures_drift,
            tuple(required),
            workers,
        )

    @property
    def over_time(self) -> TimeFamily | None:
        """The family of the windows over panes of time, if there are such."""
        first = self.families[0]
        return first if isinstance(first, TimeFamily) else None

    @property
    def over_tuples(self) -> tuple[TupleFamily, ...]:
        return tuple(family for family in self.families if isinstance(family, TupleFamily))

    @cached_property
    def dealing(self) -> Dealing | None:
        """How windows are dealt to active workers, if they are."""
        if self.workers.model != "active":
            return None
        return Dealing(self.windows, len(self.shards), self.workers.batch)

    @property
    def all_windows(self) -> tuple[Window, ...]:
        """Those of all workers."""
        return self.windows if self.worker is None else self.worker.dealing.windows

    @property
    def settles(self) -> bool:
        """Whether tuples wait in the state until their order is final."""
        return any(family.settles for family in self.families)

    @property
    def whole(self) -> bool:
        """Whether tuples go to the window stage for answers that need a whole window's, or a sample of them."""
        return self.layout.whole

    @property
    def samples(self) -> bool:
        """Whether any are kept."""
        return self.sampling is not None and bool(self.sampling.specs)

    @property
    def keeps_chunks(self) -> bool:
        """Whether some answer may need all tuples of a window."""
        return self.applied is not None or any(output.bound.whole is not None for output in self.outputs)

    @cached_property
    def chunk_length(self) -> int | None:
        """The event time that a chunk covers: a pane, or several where panes are very many to a window.

        None where no window goes by time: then chunks are of a number of tuples. So they are beside a delta window,
        which tells bad tuples from good ones as they are settled: there they are written at once.
        """
        if self.over_time is None or any(isinstance(window, DeltaWindow) for window in self.windows):
            return None
        longest = max(window.longest for window in self.over_time.models)
        return self.grid.length * max(1, longest // (self.grid.length * MOST_CHUNKS))

    def complete_until(self, marks: Marks) -> int:
        """Up to where tuples are in chunks."""
        in_memory = not self.samples or marks.waits
        if not in_memory and not self.settles:
            return NEVER_MORE  # no tuple waits in memory for others: that is what the budget is for
        length = self.chunk_length
        if length is None or not in_memory:
            return marks.settled
        return (marks.settled - self.grid.offset) // length * length + self.grid.offset

    @property
    def grid(self) -> PaneGrid:
        assert self.over_time is not None, "only windows over time have panes of time"
        return self.over_time.grid

    @cached_property
    def outputs(self) -> tuple[Output, ...]:
        """The aggregates that are told. Their slots are those of the first family."""
        return tuple(output for output in self.families[0].outputs if not is_hidden(output.name))

    @cached_property
    def scaled(self) -> dict[str, Scaled | None]:
        """How the aggregates are scaled back where tuples were shed."""
        return {output.name: scaled_of(output.bound.aggregate, output.bound) for output in self.outputs}

    @cached_property
    def quality_type(self) -> pa.StructType | None:
        """The type of the column that says how good an answer is, if there is one."""
        if self.sampling is None and self.shedding is None:
            return None
        return quality_type({output.name: output.bound.result for output in self.outputs})

    @cached_property
    def quality_fields(self) -> QualityFields | None:
        return None if self.quality_type is None else QualityFields.of(self.quality_type)

    @cached_property
    def window_fields(self) -> tuple[pa.Field, ...]:
        """Of the column `window`."""
        return tuple(self.result_schema.field("window").type)

    def knows_exactly(self, name: str) -> bool:
        """Whether an aggregate is exact even where answers are approximate."""
        return self.shedding is None and self.sampling is not None and name not in self.sampling.estimators

    @cached_property
    def has_partial(self) -> bool:
        """Whether a result can be that of an incomplete window."""
        return any(isinstance(window, CountWindow) and window.max_wait is not None for window in self.windows)

    @cached_property
    def result_schema(self) -> pa.Schema:
        time = self.types[self.time]
        fields = [
            pa.field("window", pa.struct([("start", time), ("end", time)])),
            pa.field("window_id", pa.int64()),
        ]
        if len(self.windows) > 1:
            fields.append(pa.field("window_name", pa.string()))
        if self.has_partial:
            fields.append(pa.field("partial", pa.bool_()))
        fields += [pa.field(key, self.types[key]) for key in self.keys]
        fields += [pa.field(output.name, output.bound.result) for output in self.outputs]
        if self.applied is not None:
            fields += list(self.applied.schema)
        if self.quality_type is not None:
            fields.append(pa.field("quality", self.quality_type))
        if self.late_row is not None:
            fields.append(pa.field("late", self.late_row))
        return pa.schema(fields)

    @cached_property
    def fingerprint(self) -> str:
        """Changes whenever state of one query would mean something else to the other."""
        return fingerprint(self)

    @cached_property
    def description(self) -> Description:
        """What the fingerprint covers, so that differences can be told."""
        return description(self)
