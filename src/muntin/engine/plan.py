"""The plan: a query with everything resolved, which is sent to the workers. It is independent of Spark.

A query begins as a `Draft`, to which its options add features, hidden aggregates and columns. The plan is made from it:
schema, layout, window operators, and the list of features.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TypeVar

import pyarrow as pa

from muntin.aggregates.aggregate import Bound
from muntin.aggregates.decomposable import CountAggregate
from muntin.devices.device import Device
from muntin.engine.answers import AnswerLink, Exact, FromPartials
from muntin.engine.contents import ShardTuples
from muntin.engine.description import DESCRIBED, Description, description
from muntin.engine.features import Collect, Feature, Option, Spread
from muntin.engine.fingerprint import fingerprint
from muntin.engine.functions import WindowFunction
from muntin.engine.hidden import SIZE, is_hidden
from muntin.engine.host import NO_HOST, Host
from muntin.engine.layout import lay_out
from muntin.engine.metrics import ENGINE_METRICS, Metric
from muntin.engine.operators.operator import NEVER_MORE, Output, WindowOperator
from muntin.engine.operators.time import TimeOperator
from muntin.engine.schema import Schema
from muntin.errors import MuntinError
from muntin.panes.grid import PaneGrid
from muntin.panes.table import Layout
from muntin.panes.tuples import WEIGHT
from muntin.panes.watermarks import Watermarks
from muntin.windows import DeltaWindow, Window
from muntin.windows.calendar import in_zone_of_key, zone_column_of

MOST_CHUNKS = 256
"""The maximal number of chunks per longest window: each is a value in the state and an entry in the header."""

F = TypeVar("F", bound=Feature)


@dataclass(frozen=True)
class Draft:
    """A query on its way to a plan."""

    time: str
    windows: tuple[Window, ...]
    types: Mapping[str, pa.DataType]
    keys: tuple[str, ...]
    aggregates: Mapping[str, Bound]
    shards: tuple[int, ...]
    late_row: pa.DataType | None = None
    streaming: bool = False
    delay: int | None = None
    function: WindowFunction | None = None
    options: tuple[Option, ...] = ()
    """The options of the user."""
    features: tuple[Feature, ...] = ()
    hidden: Mapping[str, Bound] = field(default_factory=dict)
    """Aggregates that features need, and that are not emitted."""
    eager: frozenset[str] = frozenset()
    """The hidden aggregates that every window needs. The others are lazy."""
    needs_size: bool = False
    """Whether a feature needs the number of tuples of windows."""
    kept_columns: tuple[str, ...] | None = None
    """Columns of tuples that a feature reads on arrival; None if no feature reads tuples."""
    weighs: bool = False
    """Whether tuples have weights, as a feature drops others."""
    writes_through: bool = False
    """Whether tuples are written to chunks on arrival, instead of waiting in memory until a chunk is complete."""
    statistic: Callable[[str, Bound], Bound] = lambda name, bound: bound
    """How a running statistic of all tuples is computed: from estimates where tuples are dropped."""
    answers_all_windows: bool = True
    """Whether a shard answers all windows of its keys by itself."""
    correctable: int = 0
    """How long windows stay correctable after they have closed, in microseconds."""
    tells_rows_apart: bool = True
    """Whether the source can decide for every row by itself; else equal rows of a batch share their fate."""
    device: Device | None = None
    """What kernels run on; None for the processor, with NumPy."""
    marks: str | None = None
    """The column with watermarks that rows carry; None where the watermark follows the event time."""
    delays: tuple[int | None, ...] = (None,)
    """The delay of each input of a stream, in microseconds; None for an input with a watermark of its own."""

    def planned(self) -> Draft:
        """The draft after all options have planned, in their order."""
        draft = self
        for option in sorted(self.options, key=lambda option: option.order):
            draft = option.plan(draft)
        return draft

    def with_feature(self, feature: Feature) -> Draft:
        if self.has(feature.name) or feature.name in DESCRIBED - {"join"}:
            raise MuntinError(f"There is a feature {feature.name!r} already; give each its own name.")
        features = sorted([*self.features, feature], key=lambda feature: feature.order)
        return replace(self, features=tuple(features))

    def with_hidden(self, hidden: Mapping[str, Bound], eager: bool = False) -> Draft:
        """The draft with more hidden aggregates."""
        names = frozenset(hidden) if eager else frozenset()
        return replace(self, hidden={**self.hidden, **hidden}, eager=self.eager | names)

    def has(self, name: str) -> bool:
        """Whether there is a feature with this name."""
        return any(feature.name == name for feature in self.features)

    @property
    def tuple_types(self) -> Mapping[str, pa.DataType]:
        """The types of all columns that tuples may have."""
        return {**self.types, WEIGHT: pa.float64()}

    def plan(self) -> Plan:
        aggregates = dict(self.aggregates)
        if self.hidden or self.needs_size:
            size = CountAggregate(None, None).bind(self.types, None, self.types[self.time])
            aggregates = {**aggregates, SIZE: size, **self.hidden}
        function_columns = None
        if self.function is not None:
            read = self.function.columns
            function_columns = [name for name in read if name != self.time and name not in self.keys]
        lazy = {SIZE, *self.hidden} - self.eager
        layout, operators = lay_out(
            self.keys,
            self.tuple_types,
            self.windows,
            aggregates,
            function_columns,
            self.kept_columns,
            self.weighs,
            lazy,
        )
        emitted = [pa.field(name, bound.result) for name, bound in self.aggregates.items() if not is_hidden(name)]
        schema = Schema(
            self.time,
            dict(self.types),
            self.keys,
            self.windows,
            tuple(emitted),
            () if self.function is None else tuple(self.function.schema),
            self.late_row,
            any(feature.estimates for feature in self.features),
            tuple(column for feature in self.features for column in feature.added_columns),
            any(feature.estimates_size for feature in self.features),
        )
        return Plan(
            schema,
            layout,
            operators,
            self.features,
            self.shards,
            self.streaming,
            self.delay,
            self.function,
            self.writes_through,
            correctable=self.correctable,
            device=self.device,
            marks=self.marks,
        )


@dataclass(frozen=True)
class Plan:
    schema: Schema
    layout: Layout
    operators: tuple[WindowOperator, ...]
    """The window operators; that of time windows comes first."""
    features: tuple[Feature, ...]
    """The features of the query, the outermost first."""
    shards: tuple[int, ...]
    streaming: bool
    """Whether there is a watermark: then every shard runs in every batch, so that it knows what is late."""
    delay: int | None = None
    """How far behind the latest time tuples may be, in microseconds, for operators that need tuples in order."""
    function: WindowFunction | None = None
    """The window function, if the query computes one instead of aggregates."""
    writes_through: bool = False
    """Whether tuples are written to chunks on arrival, instead of waiting in memory until a chunk is complete."""
    correctable: int = 0
    """How long windows stay correctable after they have closed, in microseconds: the watermarks of a shard are that far
    behind those of the stream."""
    host: Host = NO_HOST
    """Storage for copies and notes on the hosts of the workers."""
    device: Device | None = None
    """What kernels run on; None for the processor, with NumPy. The state does not depend on it."""
    marks: str | None = None
    """The column with watermarks that rows carry; None where the watermark follows the event time. The state does not
    depend on it."""
    follows_checkpoint: bool = False
    """Whether a stream has as many shards as its checkpoint, whatever `shards` says."""

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
        function: WindowFunction | None = None,
        options: Sequence[Option] = (),
        marks: str | None = None,
    ) -> Plan:
        draft = Draft(
            time,
            tuple(windows),
            types,
            tuple(keys),
            aggregates,
            tuple(shards),
            late_row,
            streaming,
            delay,
            function,
            tuple(options),
            marks=marks,
            delays=(delay,),
        )
        return draft.planned().plan()

    @property
    def time(self) -> str:
        return self.schema.time

    @property
    def types(self) -> Mapping[str, pa.DataType]:
        return self.schema.types

    @property
    def keys(self) -> tuple[str, ...]:
        return self.schema.keys

    @property
    def windows(self) -> tuple[Window, ...]:
        """All windows of the query."""
        return self.schema.windows

    @cached_property
    def own_windows(self) -> tuple[Window, ...]:
        """The windows as the operators have them: only a share of them where workers split the windows."""
        numbered = [pair for operator in self.operators for pair in operator.windows]
        return tuple(window for _, window in sorted(numbered, key=lambda pair: pair[0]))

    @property
    def result_schema(self) -> pa.Schema:
        return self.schema.results

    @property
    def late_row(self) -> pa.DataType | None:
        return self.schema.late_row

    def feature(self, kind: type[F]) -> F | None:
        """The feature of this type, if the query has it."""
        return next((feature for feature in self.features if isinstance(feature, kind)), None)

    @cached_property
    def zone_column(self) -> str | None:
        """The key column with the time zone of each key, if windows are in that zone."""
        return zone_column_of(self.windows)

    def of_zone(self, zone: str) -> Plan:
        """The plan for the keys of one zone."""
        windows = tuple(in_zone_of_key(window, zone) for window in self.windows)
        operators = tuple(
            replace(
                operator, windows=tuple((index, in_zone_of_key(window, zone)) for index, window in operator.windows)
            )
            for operator in self.operators
        )
        return replace(self, schema=replace(self.schema, windows=windows), operators=operators)

    def of_shard(self, shard: int) -> Plan:
        """The plan that a shard follows."""
        plan, index = self, self.shards.index(shard)
        for feature in self.features:
            plan = feature.of_shard(plan, index)
        return plan

    @property
    def innermost(self) -> Callable[[ShardTuples], AnswerLink]:
        """Makes the innermost link of the chain of answers."""
        if self.function is not None:
            return self.function.link
        return Exact if self.keeps_tuples else FromPartials

    def job_results(self, payload: Any) -> Iterator[pa.RecordBatch]:
        """The results of a job that one of the features handed out."""
        results = (feature.job_results(self, payload) for feature in self.features)
        yield from next(batches for batches in results if batches is not None)

    @property
    def only_merges_panes(self) -> bool:
        """Whether shards do nothing but merge panes and answer windows from them: little work for each row."""
        leaf_sets = () if self.over_time is None else self.over_time.leaf_sets
        is_plain = len(self.operators) == 1 and self.function is None and not self.features
        is_plain = is_plain and not self.keeps_tuples and self.zone_column is None
        return is_plain and len(leaf_sets) == 1 and leaf_sets[0].custom is None

    @cached_property
    def steps(self) -> tuple[Spread | Collect, ...]:
        """The steps that results go through after the shards, in order."""
        return tuple(step for feature in self.features for step in feature.steps(self))

    def is_exact(self, name: str) -> bool:
        """Whether an aggregate is exact although answers may be estimates."""
        return all(feature.is_exact(name) for feature in self.features)

    @cached_property
    def metrics(self) -> tuple[Metric, ...]:
        """All metrics of a shard."""
        declared = [*ENGINE_METRICS, *(metric for feature in self.features for metric in feature.metrics)]
        for metric in declared:
            if any(other.name == metric.name and other != metric for other in declared):
                raise MuntinError(f"Two metrics are called {metric.name!r}; give each its own name.")
        return tuple({metric.name: metric for metric in declared}.values())

    @cached_property
    def reported(self) -> tuple[Metric, ...]:
        """The metrics that can be anything but 0. Spark plans each of them in every batch."""
        has = {
            "": True,
            "tuples": self.keeps_tuples or self.keeps_chunks,
            "jobs": any(isinstance(step, Spread) for step in self.steps),
        }
        return tuple(metric for metric in self.metrics if has[metric.about])

    @property
    def over_time(self) -> TimeOperator | None:
        """The operator of the time windows, if there are any."""
        first = self.operators[0]
        return first if isinstance(first, TimeOperator) else None

    @cached_property
    def lives(self) -> bool:
        """Whether time windows can be answered from trees that live from batch to batch.

        Where shards hand their windows to tasks, these get the leaves.
        """
        is_spread = any(isinstance(step, Spread) for step in self.steps)
        return self.streaming and self.over_time is not None and self.over_time.lives and not is_spread

    @property
    def needs_order(self) -> bool:
        """Whether tuples wait in the state until they are finalized."""
        return any(operator.needs_order for operator in self.operators)

    @property
    def keeps_tuples(self) -> bool:
        """Whether tuples are sent to the window stage, for answers that read them or for samples."""
        return self.layout.keeps_tuples

    @property
    def keeps_chunks(self) -> bool:
        """Whether an answer may need all tuples of a window."""
        return self.function is not None or any(output.bound.holistic is not None for output in self.outputs)

    @cached_property
    def chunk_length(self) -> int | None:
        """The event time that a chunk covers: one pane, or several where a window has very many panes.

        None where there is no time window: then chunks are cut by number of tuples. The same holds with a delta
        window, which separates invalid tuples when they are finalized: chunks are then written at once.
        """
        if self.over_time is None or any(isinstance(window, DeltaWindow) for window in self.windows):
            return None
        longest = max(window.longest for window in self.over_time.models)
        return self.grid.shortest * max(1, longest // (self.grid.shortest * MOST_CHUNKS))

    def complete_until(self, watermarks: Watermarks) -> int:
        """The event time up to which tuples are in chunks."""
        in_memory = not self.writes_through or watermarks.waits
        if not in_memory and not self.needs_order:
            return NEVER_MORE  # no tuple waits in memory for others
        length = self.chunk_length
        if length is None or not in_memory:
            return watermarks.finalized
        return (watermarks.finalized - self.grid.offset) // length * length + self.grid.offset

    @property
    def grid(self) -> PaneGrid:
        assert self.over_time is not None, "only windows over time have panes of time"
        return self.over_time.grid

    @cached_property
    def outputs(self) -> tuple[Output, ...]:
        """The emitted aggregates, with their slots in the first operator."""
        return tuple(output for output in self.operators[0].outputs if not is_hidden(output.name))

    @cached_property
    def fingerprint(self) -> str:
        """A digest: two queries can only share state if theirs are equal."""
        return fingerprint(self)

    @cached_property
    def description(self) -> Description:
        """What the fingerprint covers, so that differences can be reported."""
        return description(self)
