"""The query: an immutable description, checked while it is built."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import EllipsisType
from typing import TYPE_CHECKING, Any, Literal, get_args

import pyarrow as pa

from muntin import aggregates
from muntin.aggregates.aggregate import Aggregate, Bound
from muntin.checks import encodable, one_of, public_name
from muntin.durations import Duration
from muntin.engine.features import Option
from muntin.engine.functions import AppliedFunction, WindowFunction
from muntin.engine.plan import Draft, Plan
from muntin.errors import MuntinError
from muntin.expressions import ColumnLike
from muntin.holistic.applied import Applied, form_of
from muntin.query.backend import Source, spark
from muntin.query.inputs import Computed, Filters, column_names
from muntin.query.shown import query_shown
from muntin.windows import DeltaWindow, Window

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


LatePolicy = Literal["drop", "emit"]
Method = Literal["concept", "uniform"]
Wish = Literal["auto", "keyed", "active", "agnostic"]
Codec = Literal["snappy", "lz4", "zstd"]
RESERVED = ("window", "window_id", "window_name", "partial", "late", "quality", "rank")
"""Names that results have of their own."""


@dataclass(frozen=True, repr=False)
class Query:
    """What to compute. Every method returns a new query; `to_df()` gives the DataFrame."""

    source: Source
    windows: tuple[Window, ...]
    time: str
    """The name that the stages read the event time by, as for all columns here."""
    watermark: int | None
    """The delay in microseconds, given or that of the input's own; None for a table without one."""
    by: tuple[str, ...]
    aggregates: Mapping[str, Bound] = field(default_factory=dict)
    filters: Filters = field(default_factory=Filters)
    late_policy: LatePolicy = "drop"
    function: WindowFunction | None = None
    """The function of windows, if the query computes that instead of aggregates."""
    options: tuple[Option, ...] = ()
    """What the query is to do beyond exact windows; none of a name stands twice."""
    computed: Computed = field(default_factory=Computed)
    """The expressions among the columns."""
    key_names: Mapping[str, str] = field(default_factory=dict)
    """What keys are called in results, where that is not what they are read by."""
    max_ahead: int | None = None
    """How far ahead of the clock a row may be, in microseconds; None for any time."""

    def __repr__(self) -> str:
        return query_shown(self)

    def agg(self, *unnamed: Aggregate, **named: Aggregate) -> Query:
        """What to compute of every window: `agg(trips=A.count(), mean=A.mean("fare"))`."""
        check_named(unnamed, named)
        if self.function is not None:
            raise MuntinError("The query applies a function already; use .agg() or .apply(), in two queries for both.")
        query = self
        for name, aggregate in named.items():
            query._check_output_name(name, query.aggregates)
            query, columns = query._reading(aggregate.columns, f"{name}'s column")
            filters, where = query.filters.add(aggregate.where, query.source)
            try:
                bound = aggregate.reading([read for read, _ in columns]).bind(
                    query.types, where, query.types[query.time]
                )
                bound = replace(bound, written=repr(aggregate))
            except MuntinError as error:
                raise MuntinError(f"{name}: {error}") from error
            query = replace(query, aggregates={**query.aggregates, name: bound}, filters=filters)
        query._check_options()
        return query

    def apply(
        self,
        function: Callable[[Any], Any],
        schema: str | Any,
        *,
        columns: ColumnLike | Sequence[ColumnLike] | None = None,
    ) -> Query:
        """A function of the whole window: it gets the window's tuples, in time order, and returns rows.

        It gets an Arrow table, or a pandas frame if its argument is annotated as `pandas.DataFrame`, with all columns
        of the data or those given here, under the names that Spark gives them, and returns either with the columns of
        `schema`: a Spark schema or its string form, such as "stops long, longest double". The window and the key are
        put in front of each row.
        """
        if self.function is not None or self.aggregates:
            raise MuntinError("The query computes something already; use .agg() or .apply(), in two queries for both.")
        form = form_of(function)
        fields = spark().result_fields(schema)
        for position, name in enumerate(fields.names):
            self._check_output_name(name, {})
            if name in fields.names[:position]:
                raise MuntinError(f"schema names the column {name!r} twice; give each its own name.")
        given = tuple(self.source.types) if columns is None else column_names(columns, "columns")
        query, chosen = self._reading(given, "apply's column")
        for position, (column, name) in enumerate(chosen):
            if any(column == other or name == called for other, called in chosen[:position]):
                raise MuntinError(f"apply gets the column {name!r} twice; name it once, or tell two apart by .alias().")
        read, names = (tuple(each) for each in zip(*chosen, strict=True)) if chosen else ((), ())
        return replace(query, function=AppliedFunction(Applied(function, fields, read, form, names)))

    def compress(
        self,
        after: Duration | EllipsisType | None = ...,
        *,
        memory: str | int | None = None,
        codec: Codec = "zstd",
        level: int | None = None,
    ) -> Query:
        """How much memory the tuples of whole windows may take, at the price of time.

        `after` is the knob: chunks of tuples that were not updated for so much event time are compressed, the oldest
        first; "0 seconds" compresses all of them at once and None none. Or name the `memory` that they may take in
        all workers together, such as "2 GB", and Muntin finds out when to compress. Results are the same either way.
        """
        delay = None if isinstance(after, EllipsisType) else after
        from muntin.features.compression.policy import Compression

        return self.use(Compression.of(delay, codec, level, memory, given_after=not isinstance(after, EllipsisType)))

    def approximate(
        self,
        budget: int | str,
        error: float,
        confidence: float = 0.95,
        *,
        groups: Sequence[Any] | None = None,
        combine: Literal["l1", "max"] = "l1",
        incremental: bool = True,
        seed: int = 0,
    ) -> Query:
        """Answer a window from a sample where that is good enough, and exactly where it is not.

        `budget` is what the sample of a window may take in a shard: a number of tuples, a size such as "1 MB", or
        "auto". A sample is good enough if, with the given `confidence`, the answer is off by no more than `error`: for
        quantiles that is the rank, so that an answer for 0.5 with an error of 0.1 lies between the exact quantiles for
        0.4 and 0.6; for means and sums it is relative to the answer. The errors of a window's groups are combined to
        their mean ("l1"), or the largest counts ("max"). Aggregates that panes answer exactly stay exact, unless
        `incremental` is False. If all keys are known beforehand, name them in `groups`.

        Results get a column `quality`.
        """
        from muntin.features.sampling.policy import Approximation

        return self.use(Approximation.of(budget, error, confidence, groups, combine, incremental, seed))

    def shed(
        self,
        rate: float | None = None,
        *,
        target_latency: Duration | None = None,
        method: Method = "concept",
        seed: int = 0,
        confidence: float = 0.95,
    ) -> Query:
        """Drop tuples before they cost anything, and answer from the rest.

        `rate` is the share of the tuples that is dropped. Or name the `target_latency`, how long a batch may take:
        while the stream outruns the machine, Muntin sheds as much as it must, and nothing when the burst is over. The
        method "concept" counts how often every group occurs and keeps some tuples of each; "uniform" treats all tuples
        alike. Counts and sums are scaled back to all tuples.

        Results get a column `quality`, with intervals of this `confidence`.
        """
        from muntin.features.shedding.policy import Shedding

        policy = Shedding.of(rate, target_latency, method, seed, confidence)
        if policy.target_latency is not None and not self.source.streaming:
            raise MuntinError(
                "target_latency is for streams, and the data are a table, which has no batches; give a rate, such as "
                "rate=0.9."
            )
        return self.use(policy)

    def top(self, k: int, *, by: str, descending: bool = True) -> Query:
        """Only the k best groups of each window, of all shards together, with their rank.

        Groups are compared by the aggregate that `by` names, the largest value first, or the smallest with
        `descending=False`. NaN is larger than all numbers, as in Spark; a group without a value comes last either way.
        Equal groups go by their keys, ascending.

        Results get a column `rank`, from 1. Where they have the column `quality`, that says between which places the
        group may be (`first_rank` and `last_rank`), as values are known within their intervals only.
        """
        from muntin.features.ranking.policy import Top

        return self.use(Top.of(k, by, descending))

    def parallel(
        self,
        model: Wish = "auto",
        workers: int | None = None,
        *,
        batch: int | None = None,
        ordered: bool = False,
        keys: int | None = None,
        skewed: bool = False,
    ) -> Query:
        """Spread windows, and not only keys, over workers, so that few keys use all cores.

        "keyed" workers have keys of their own, which is how a query runs without this. "active" workers have windows
        of their own, one after the other or `batch` consecutive ones at a time; for windows that know their tuples
        beforehand. With "agnostic" workers, complete windows are jobs that whoever is free takes; for all windows.
        "auto" chooses, from the windows, from what is computed, and from what you know of the data: how many `keys`
        there are, and whether they are `skewed`, so that a few have most of the tuples. `explain()` tells the choice.

        `workers` is how many there are, by default one per shuffle partition. Results are the same either way. They
        come in window order from each worker; with `ordered`, the results of a batch are in one order.
        """
        from muntin.features.workers.policy import Parallel

        return self.use(Parallel.of(model, workers, batch, ordered, keys, skewed))

    def use(self, option: Option) -> Query:
        """Add an option of Muntin's own or of yours, in the place of one with the same name."""
        query, columns = self._reading(option.reads, f"{option.name}'s column")
        others = tuple(each for each in self.options if each.name != option.name)
        query = replace(query, options=(*others, option.reading([read for read, _ in columns])))
        query._check_options()
        return query

    def option(self, name: str) -> Option | None:
        """The option of this name, if the query has it."""
        return next((option for option in self.options if option.name == name), None)

    def late(self, policy: LatePolicy) -> Query:
        """What becomes of rows that count nowhere: "drop" (and count them), or "emit" them as results of their own.

        With "emit" the result has a column `late` with the whole row; it is null for ordinary results, and a late
        row has no window. It costs a shuffle of all rows, because only the window stage knows the watermark.
        """
        one_of(policy, "late policy", dict.fromkeys(get_args(LatePolicy), ""))
        if policy == "emit" and self.source.unreadable:
            name, kind = next(iter(self.source.unreadable.items()))
            raise MuntinError(f"late('emit') emits whole rows, but column {name!r} ({kind}) cannot; drop or cast it.")
        return replace(self, late_policy=policy)

    def to_df(self) -> DataFrame:
        """The results, as a DataFrame: a stream of closed windows, or all windows of a table."""
        self.check_complete()
        return spark().build(self)

    def explain(self) -> None:
        """Print how the query will run, and why."""
        from muntin.query.explain import explanation

        self.check_complete()
        print(explanation(self))

    def resolved(self, cores: Callable[[], int]) -> Query:
        """The query with what only a session knows: `cores` tells how many workers there are at most."""
        if not self.options:
            return self
        plan = self.plan([0])
        return replace(self, options=tuple(option.resolved(plan, cores) for option in self.options))

    @property
    def types(self) -> dict[str, pa.DataType]:
        """Of all columns that can be read, those of the data and those that are computed."""
        return {**self.source.types, **self.computed.types}

    @property
    def named_keys(self) -> tuple[str, ...]:
        """The keys by their names in results."""
        return tuple(self.key_names.get(key, key) for key in self.by)

    def draft(self, shards: Sequence[int]) -> Draft:
        """The query as its options see it."""
        read = [self.time, *self.by]
        read += [window.column for window in self.windows if isinstance(window, DeltaWindow)]
        read += [c for bound in self.aggregates.values() for c in bound.inputs if c not in self.filters.columns]
        read += [column for option in self.options for column in option.reads]
        types = {column: self.types[column] for column in dict.fromkeys(read)}
        types |= {name: pa.bool_() for name in self.filters.columns}
        if self.function is not None:
            types |= {column: self.types[column] for column in self.function.columns}
        return Draft(
            time=self.time,
            windows=self.windows,
            types=types,
            keys=self.by,
            aggregates=self.aggregates,
            shards=tuple(shards),
            late_row=pa.struct(list(self.source.types.items())) if self.late_policy == "emit" else None,
            streaming=self.source.streaming,
            # Of several inputs, as there may be behind a watermark of the input's own, only Spark's watermark knows
            # which is the furthest behind.
            delay=None if self.source.beside or self.time in self.source.watermarks else self.watermark,
            function=self.function,
            options=self.options,
        )

    def plan(self, shards: Sequence[int]) -> Plan:
        return self.draft(shards).planned().plan()

    def _reading(self, given: Sequence[ColumnLike], what: str) -> tuple[Query, list[tuple[str, str]]]:
        """The query with what computes these columns; of each, the name that it is read by and Spark's name for it."""
        computed, read = self.computed, []
        for column in given:
            found = spark().resolved(self.source, column, what)
            computed, name = computed.add(found, self.source)
            read.append((name, found.name))
        return replace(self, computed=computed), read

    def check_complete(self) -> None:
        """That it computes something, and that all its options go together."""
        if not self.aggregates and self.function is None:
            raise MuntinError("The query computes nothing yet; call .agg(...) with at least one aggregate.")
        for option in self.options:
            option.check(self.draft([0]), complete=True)

    def _check_options(self) -> None:
        """That its options go together as far as it is known yet what it computes."""
        for option in self.options:
            option.check(self.draft([0]))

    def _check_output_name(self, name: str, taken: Mapping[str, Bound]) -> None:
        encodable(name, "a name")
        if name in RESERVED:
            raise MuntinError(f"{name!r} is a column that results have of their own; choose another name.")
        if name in self.named_keys:
            raise MuntinError(f"{name!r} is a key column already; choose another name.")
        if name in taken:
            raise MuntinError(f"There is an aggregate {name!r} already; give each its own name.")


def check_named(unnamed: Sequence[object], named: Mapping[str, object]) -> None:
    """What `agg()` got: aggregates, each with the name of its column in the results."""
    if unnamed:
        first = unnamed[0] if isinstance(unnamed[0], Aggregate) else "A.count()"
        raise MuntinError(
            f"agg() got {unnamed[0]!r} without a name; the name is that of the column in the results: agg(n={first!s})."
        )
    if not named:
        raise MuntinError("agg() got nothing to compute; name at least one aggregate, such as agg(n=A.count()).")
    for name, aggregate in named.items():
        if isinstance(aggregate, Aggregate):
            continue
        function = public_name(aggregate, aggregates)
        if function is not None:
            raise MuntinError(f"{name}=A.{function} is a function; call it: agg({name}=A.{function}(...)).")
        raise MuntinError(f"{name}={aggregate!r} is not an aggregate; use one of muntin.aggregates, such as A.count().")
