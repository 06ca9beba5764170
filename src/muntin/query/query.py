"""The query: an immutable value that is checked while it is built."""

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
from muntin.engine.features import Finish, KeptAtSource, Option
from muntin.engine.functions import AppliedFunction, WindowFunction
from muntin.engine.map_stage import MARKS
from muntin.engine.plan import Draft, Plan
from muntin.errors import MuntinError
from muntin.expressions import ColumnLike
from muntin.holistic.applied import Applied, form_of, gets_window
from muntin.query.backend import Source, backend_of
from muntin.query.inputs import Computed, Filters, column_names
from muntin.query.shown import query_shown
from muntin.windows import DeltaWindow, Window
from muntin.windows.calendar import zone_column_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from muntin.features.updates.policy import Updates


LatePolicy = Literal["drop", "emit", "update"]
Emission = Literal["on_close", "on_change"]
Method = Literal["concept", "uniform"]
Place = Literal["panes", "source"]
Wish = Literal["auto", "keyed", "active", "agnostic"]
Codec = Literal["snappy", "lz4", "zstd"]
Unit = Literal["pane", "key"]
RESERVED = ("window", "window_id", "window_name", "window_time", "partial", "late", "quality", "rank")
"""Column names that Muntin uses in results."""


@dataclass(frozen=True, repr=False)
class Query:
    """A windowed aggregation, started by `over()`. Every method returns a new query; `to_df()` gives the DataFrame."""

    source: Source
    windows: tuple[Window, ...]
    time: str
    """The column of the event time. This and all other column names here are those that the stages read."""
    watermark: int | None
    """The delay in microseconds, as given or as the input has it; None for a table without one."""
    by: tuple[str, ...]
    aggregates: Mapping[str, Bound] = field(default_factory=dict)
    filters: Filters = field(default_factory=Filters)
    late_policy: LatePolicy = "drop"
    function: WindowFunction | None = None
    """The function of windows, if the query computes that instead of aggregates."""
    options: tuple[Option, ...] = ()
    """The options beyond exact windows, such as `shed()`: at most one of each name."""
    computed: Computed = field(default_factory=Computed)
    """The expressions among the columns."""
    key_names: Mapping[str, str] = field(default_factory=dict)
    """The names of keys in results, where they differ from the names that the stages read."""
    max_ahead: int | None = None
    """How far ahead of the clock a row may be, in microseconds; None for no limit."""
    name: str | None = None
    """What the query is called in metrics."""
    watermark_column: str | None = None
    """The column that carries watermarks; None where the watermark follows the event time."""

    def __repr__(self) -> str:
        return query_shown(self)

    def _repr_html_(self) -> str:
        from muntin.query.picture import query_html

        return query_html(self)

    def agg(self, *unnamed: Aggregate, **named: Aggregate) -> Query:
        """Compute aggregates of every window and key.

        Each aggregate is given by keyword; the keyword names its column in the results. Further calls add aggregates.

        Examples
        --------
        >>> show(lambda rides: fares(rides).agg(largest=A.max("fare")))
        12:00 to 13:00: A 4 30.5 9.5
        12:00 to 13:00: B 3 13.0 6.5
        """
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
        function: Callable[..., Any],
        schema: str | Any,
        *,
        columns: ColumnLike | Sequence[ColumnLike] | None = None,
    ) -> Query:
        """Apply a function to the rows of every window and key.

        The function gets the rows of one window and key, in time order, and returns any number of rows. The results
        have these rows, with the window and the key in front.

        Parameters
        ----------
        function
            Takes and returns an Arrow table or a pandas frame. It gets a pandas frame if its argument is annotated as
            `pandas.DataFrame`, else an Arrow table. If it needs a second argument, it gets the window: an object with
            `id`, `start`, `end`, `key` (the values of `by`) and `name`.
        schema
            The columns that the function returns: a Spark schema, or its string form such as
            "stops long, longest double".
        columns
            The columns that the function gets, under the names that Spark gives them; by default all columns of the
            data.

        Examples
        --------
        >>> def dearest(rides):
        ...     return rides.sort_by([("fare", "descending")]).slice(0, 1).select(["fare", "km"])
        >>> hours = lambda rides: muntin.over(rides, HOUR, time="at", watermark="0 seconds")
        >>> show(lambda rides: hours(rides).apply(dearest, "fare double, km long"))
        12:00 to 13:00: 9.5 127
        """
        if self.function is not None or self.aggregates:
            raise MuntinError("The query computes something already; use .agg() or .apply(), in two queries for both.")
        form = form_of(function)
        fields = backend_of(self.source).result_fields(schema)
        for position, name in enumerate(fields.names):
            self._check_output_name(name, {})
            if name in fields.names[:position]:
                raise MuntinError(f"schema names the column {name!r} twice; give each its own name.")
        given = tuple(self.source.types) if columns is None else column_names(columns, "columns")
        query, selected = self._reading(given, "apply's column")
        for position, (column, name) in enumerate(selected):
            if any(column == other or name == other_name for other, other_name in selected[:position]):
                raise MuntinError(
                    f"apply gets the column {name!r} twice; name it once, or give one another name with .alias(...)."
                )
        read, names = tuple(column for column, _ in selected), tuple(name for _, name in selected)
        applied = Applied(function, fields, read, form, names, gets_window(function))
        query = replace(query, function=AppliedFunction(applied))
        query._check_options()
        return query

    def compress(
        self,
        after: Duration | EllipsisType | None = ...,
        *,
        memory: str | int | None = None,
        codec: Codec = "zstd",
        level: int | None = None,
        unit: Unit = "pane",
    ) -> Query:
        """Compress the rows that the state keeps, which saves memory and takes time.

        Holistic aggregates and functions of windows keep the rows themselves, in chunks. Chunks are compressed from
        the oldest on. Give either `after` or `memory`; the results are the same either way.

        Parameters
        ----------
        after
            The age in event time at which rows are compressed: "0 seconds" compresses all rows at once, None none.
        memory
            The memory that the chunks may take in all workers together, such as "2 GB". Muntin then chooses when to
            compress.
        codec
            "zstd", "lz4" or "snappy".
        level
            The compression level, for codecs that have levels.
        unit
            What has that age. "pane": the rows of a pane, since its last row. "key": all rows of a key, since the last
            row of that key, so that idle keys are compressed and active ones are not. It needs `after`.

        Examples
        --------
        >>> medians(rides).compress(after="10 minutes")
        over(...).compress(after="10 minutes")
        """
        delay = None if isinstance(after, EllipsisType) else after
        from muntin.features.compression.policy import Compression

        given_after = not isinstance(after, EllipsisType)
        return self.use(Compression.of(delay, codec, level, memory, given_after, unit))

    def approximate(
        self,
        budget: int | str,
        error: float,
        confidence: float = 0.95,
        *,
        groups: Sequence[Any] | None = None,
        combine: Literal["l1", "l2", "max"] | Callable[[Any, Any], float] = "l1",
        incremental: bool = True,
        seed: int = 0,
        metric: Callable[[Any], Any] | Mapping[str, Callable[[Any], Any]] | None = None,
    ) -> Query:
        """Answer windows from a sample where its estimated error is small enough, and exactly elsewhere.

        Results get a column `quality`, with the mode of each answer, its estimated error and its interval.

        Parameters
        ----------
        budget
            The most that the sample of a window may take in a shard: a number of tuples, a size such as "1 MB", or
            "auto".
        error
            The largest error of an answer from a sample. For quantiles it is that of the rank: an answer for 0.5 with
            an error of 0.1 lies between the exact quantiles for 0.4 and 0.6. For means and sums it is relative.
        confidence
            The probability that the error is within `error`.
        groups
            All keys, if they are known beforehand.
        combine
            How the errors of the groups of a window are combined: to their mean ("l1"), their root mean square ("l2")
            or the largest ("max"), or by your function of two arrays, the errors and the numbers of rows.
        incremental
            Whether aggregates that panes answer exactly stay exact.
        seed
            Makes the samples reproducible.
        metric
            Your own error, which `error` then limits: a function of estimates, or a dict of functions by aggregate. It
            gets an object with the arrays `value`, `low`, `high`, `error`, `sampled` and `size`, with one value per
            group, and returns their errors. NaN means unknown, and unknown is answered exactly.

        Examples
        --------
        >>> medians(rides).approximate(budget=400, error=0.05)
        over(...).approximate(budget=400, error=0.05)
        """
        from muntin.features.sampling.policy import Approximation

        return self.use(Approximation.of(budget, error, confidence, groups, combine, incremental, seed, metric))

    def shed(
        self,
        rate: float | None = None,
        *,
        target_latency: Duration | None = None,
        error: float | None = None,
        method: Method = "concept",
        at: Place = "panes",
        incremental: bool = True,
        least: int = 2,
        seed: int = 0,
        confidence: float = 0.95,
    ) -> Query:
        """Drop a share of the rows before they cost anything, and estimate from the rest what needs the rows.

        Aggregates that panes answer stay exact. Results get a column `quality`, with intervals. Give one of `rate`,
        `target_latency` and `error`.

        Parameters
        ----------
        rate
            The share of the rows to drop, such as 0.9.
        target_latency
            How long a batch may take. Muntin finds the rate: it sheds only while the stream is faster than the
            machine.
        error
            The largest error of an answer, such as 0.05. Muntin finds how much of each group and pane may be shed.
        method
            "concept" counts how often every group occurs, and keeps rows of each; "uniform" keeps every row with the
            same probability.
        at
            "panes" sheds in the pane stage, which knows every row. "source" sheds in Spark's own plan, before rows are
            sent to Python: that saves their way there, and sizes and counts are estimates as well.
        incremental
            Whether aggregates that panes answer see all rows, and stay exact. With False they are estimated from the
            kept rows, too.
        least
            The fewest rows that "concept" keeps of a group in a pane.
        seed
            Makes the choice of rows reproducible.
        confidence
            The confidence of the intervals.

        Examples
        --------
        >>> fares(rides).shed(0.9, seed=1)
        over(...).shed(rate=0.9, seed=1)
        """
        from muntin.features.shedding.policy import Shedding

        policy = Shedding.of(rate, target_latency, method, seed, confidence, error, at, incremental, least)
        if policy.target_latency is not None and not self.source.streaming:
            raise MuntinError(
                "target_latency is for streams, and the data are a table, which has no batches; give a rate, such as "
                "rate=0.9."
            )
        if policy.at_source is not None and self.marks is not None:
            raise MuntinError(
                "shed(at='source') drops rows before their watermarks are read, and watermark= is a column of them; "
                "use at='panes', or give a delay such as watermark='10 minutes'."
            )
        return self.use(policy)

    def top(self, k: int, *, by: str, descending: bool = True) -> Query:
        """Return only the k best groups of each window, ranked.

        Results get a column `rank`, from 1. NaN is larger than all numbers, as in Spark. A group whose value is null
        comes last. Equal groups are ordered by their keys, ascending. If results have the column `quality`, its
        `first_rank` and `last_rank` are the range of ranks that the intervals allow.

        Parameters
        ----------
        k
            The number of groups per window.
        by
            The name of the aggregate to compare.
        descending
            Whether the largest value comes first.

        Examples
        --------
        >>> show(lambda rides: fares(rides).top(1, by="paid"))
        12:00 to 13:00: A 4 30.5 1
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
        """Spread windows over the workers, so that queries with few keys use all cores.

        The results are the same with every model. `explain()` shows which model is used, and why.

        Parameters
        ----------
        model
            "keyed": each worker owns keys, as without this call. "active": each worker owns windows, for window models
            where the row alone decides which windows it is in. "agnostic": closed windows become jobs for any free
            worker, for all windows. "auto" chooses from the windows, the aggregates, `keys` and `skewed`.
        workers
            The number of workers; by default one per shuffle partition.
        batch
            For "active": how many consecutive windows a worker gets at a time.
        ordered
            Whether the results of a batch are in window order across all workers. Those of each worker always are.
        keys
            The number of keys in the data, if you know it.
        skewed
            Whether a few keys have most of the rows.

        Examples
        --------
        >>> fares(rides).parallel("active", workers=2)
        over(...).parallel("active", workers=2)
        """
        from muntin.features.workers.policy import Parallel

        return self.use(Parallel.of(model, workers, batch, ordered, keys, skewed))

    def device(self, name: str, *, library: Literal["torch", "cupy", "numpy"] | None = None) -> Query:
        """Choose the device on which rows are reduced to panes, and the tree over panes lives.

        What has no kernel for devices is computed on the processor, aggregate by aggregate; `explain()` says what and
        why.

        Parameters
        ----------
        name
            "cuda" for a GPU ("cuda:1" for the second of several), or "cpu", the default.
        library
            "torch" or "cupy". By default PyTorch for a GPU, and NumPy for the processor. PyTorch can also run on the
            processor: "cpu" with "torch".

        Examples
        --------
        >>> fares(rides).device("cpu")
        over(...).agg(rides=A.count(), paid=A.sum("fare"))
        """
        from muntin.features.device.policy import OnDevice

        option = OnDevice.of(name, library)
        if option.device.is_default:
            return replace(self, options=tuple(other for other in self.options if other.name != option.name))
        return self.use(option)

    def wide(self) -> Query:
        """Put the windows of a key that end at the same time into one row, as tables of features have them.

        Each window adds a suffix to the names of columns: `n_1h`, `n_24h`, `n_7d`, or `n_` and its `name=`. The column
        `as_of` is the time at which the windows end. They contain rows before that time only, so a join with the latest
        row at or before an event is correct at the point in time of that event. A column is null where the key had no
        row in the window.

        Examples
        --------
        >>> windows = W.sliding("30 minutes", "30 minutes"), W.sliding("1 hour", "30 minutes")
        >>> def both(rides):
        ...     return muntin.over(rides, *windows, time="at", watermark="0 seconds").agg(n=A.count()).wide()
        >>> stream = Stream(both, SCHEMA)
        >>> steps = stream.batch(RIDES), stream.watermark("2024-05-01 13:00")
        >>> for row in stream.results:
        ...     print(row["as_of"].time(), row["n_30min"], row["n_1h"])
        12:30:00 5 5
        13:00:00 2 7
        """
        from muntin.features.wide.policy import Wide

        return self.use(Wide())

    def use(self, option: Option) -> Query:
        """Add an option, one of Muntin's or your own. It replaces an option of the same name.

        Examples
        --------
        >>> from examples.feature_checksum import Checksum
        >>> fares(rides).use(Checksum(("fare",)))
        over(...).use(Checksum(('fare',)))
        """
        query, columns = self._reading(option.reads, f"{option.name}'s column")
        others = tuple(other for other in self.options if other.name != option.name)
        query = replace(query, options=(*others, option.reading([read for read, _ in columns])))
        query._check_options()
        return query

    def option(self, name: str) -> Option | None:
        """The option of this name, if the query has it."""
        return next((option for option in self.options if option.name == name), None)

    def emit(self, mode: Emission = "on_close", *, every: Duration | None = None) -> Query:
        """Choose when windows are emitted.

        With "on_change", results get the columns `timing` ("early", "on_time" or "late") and `revision`, from 0 for
        each window and key. The last revision is the answer of the window.

        Parameters
        ----------
        mode
            "on_close": once, when they close. "on_change": also while they are open, a row for every window and key
            that has changed since its last row.
        every
            The shortest time between two early rows of a window and key, by the clock, such as "10 seconds". By default
            there may be one in each batch.

        Examples
        --------
        >>> show(lambda rides: fares(rides).emit("on_change"))
        12:00 to 13:00: A 4 30.5 early 0
        12:00 to 13:00: B 3 13.0 early 0
        """
        return self._updating(self._updates.with_emission(mode, every, self.source.streaming))

    def late(self, policy: LatePolicy, *, within: Duration | None = None) -> Query:
        """Choose what happens to rows that come after their windows have closed.

        Parameters
        ----------
        policy
            "drop" counts rows that are too late for all of their windows and drops them. "emit" also emits each as a
            result without a window: the column `late` has the whole row, and is null in all other results; `lateness`
            says by how much it was late, and for which windows. It takes a shuffle of all rows, because only the window
            stage knows the watermark. "update" corrects closed windows: a late row gives them another row of results,
            with `timing` "late" and the next `revision`.
        within
            For "update": how long a window stays correctable after its end, such as "1 hour".

        Examples
        --------
        >>> stream = Stream(lambda rides: fares(rides).late("emit"), SCHEMA)
        >>> _ = stream.batch(RIDES)
        >>> _ = stream.watermark("2024-05-01 13:00")
        >>> stream.batch([("2024-05-01 12:59", "A", 7.0, 140)]).late_rows
        1
        """
        one_of(policy, "late policy", dict.fromkeys(get_args(LatePolicy), ""))
        if policy == "emit" and self.source.unreadable:
            name, kind = next(iter(self.source.unreadable.items()))
            raise MuntinError(f"late('emit') emits whole rows, but column {name!r} ({kind}) cannot; drop or cast it.")
        if policy != "update" and within is not None:
            raise MuntinError(
                f"within={within!r} is how long late rows correct windows, and late({policy!r}) corrects none; use "
                "late('update', within=...), or leave it out."
            )
        if policy == "update":
            return replace(self._updating(self._updates.with_corrections(within)), late_policy=policy)
        query = self
        if self.late_policy == "update":
            query = self._updating(replace(self._updates, within=None))
        query = replace(query, late_policy=policy)
        query._check_options()
        return query

    @property
    def _updates(self) -> Updates:
        from muntin.features.updates.policy import Updates

        option = self.option(Updates.name)
        return option if isinstance(option, Updates) else Updates()

    def _updating(self, updates: Updates) -> Query:
        """The query with these updates, or without any."""
        if updates.is_needed:
            return self.use(updates)
        return replace(self, options=tuple(option for option in self.options if option.name != updates.name))

    def drain(self) -> Query:
        """Close all windows when a bounded run (`trigger(availableNow=True)`) of the stream finds no new rows.

        A run with new rows leaves windows open, as every run does without this call. `muntin.drain` runs a stream until
        all its rows are read and all windows have closed. Rows that later runs bring for closed windows are late.

        Examples
        --------
        >>> stream = Stream(lambda rides: fares(rides).drain(), SCHEMA)
        >>> _ = stream.batch(RIDES)
        >>> len(stream.drain().results)
        2
        """
        from muntin.features.idle.policy import Idle

        option = self.option(Idle.name)
        return self.use((option if isinstance(option, Idle) else Idle()).draining())

    def to_df(self) -> DataFrame:
        """Return the results as a DataFrame: of a stream, windows as they close; of a table, all windows.

        Examples
        --------
        >>> fares(table).to_df().select("route", "rides", "paid").orderBy("route").collect()
        [Row(route='A', rides=4, paid=30.5), Row(route='B', rides=3, paid=13.0)]
        """
        self.check_complete()
        return backend_of(self.source).to_df(self)

    def show(self, n: int = 20, truncate: bool | int = True) -> None:
        """Print the first results of a table, in the order of their windows; the arguments are those of Spark's `show`.

        A stream has no results before it is started.

        Examples
        --------
        >>> fares(table).show(1)
        +...+
        only showing top 1 row
        """
        if self.source.streaming:
            raise MuntinError(
                "show() prints the results of a table, and the data are a stream; start it with "
                "to_df().writeStream.format('console').start(), or call .explain() for its plan."
            )
        results = self.to_df()
        windows = "as_of" if self.option("wide") is not None else "window"
        results.orderBy(windows, *(name for name in ("window_name",) if name in results.columns)).show(n, truncate)

    def explain(self) -> None:
        """Print how the query will run: panes, state per key, workers, options, and the number of results.

        Examples
        --------
        >>> fares(rides).explain()
        Muntin: stream, windows over 'at' per 'route'
        ...
        """
        from muntin.query.explain import explanation

        self.check_complete()
        print(explanation(self))

    @property
    def followed(self) -> str:
        """The column that the watermark follows."""
        return self.watermark_column or self.time

    @property
    def has_own_watermark(self) -> bool:
        """Whether the watermark comes with the input."""
        return self.followed in self.source.watermarks

    @property
    def marks(self) -> str | None:
        """The column with watermarks that the map stage reads, if there is one."""
        if self.watermark_column is None or not self.source.streaming:
            return None
        if self.has_own_watermark and not self.source.beside:
            return None
        return self.watermark_column if self.max_ahead is None else MARKS

    def resolved(self, cores: Callable[[], int]) -> Query:
        """The query with options that depend on the session; `cores` returns the largest number of workers."""
        if not self.options:
            return self
        plan = self.plan([0])
        return replace(self, options=tuple(option.resolved(plan, cores) for option in self.options))

    @property
    def kept_at_source(self) -> KeptAtSource | None:
        """Which rows are kept before any stage reads them; None for all."""
        return next((option.at_source for option in self.options if option.at_source is not None), None)

    @property
    def computed_by_spark(self) -> bool:
        """Whether Spark computes columns before the stages read the rows: expressions, filters or the clock.

        A scan computes simple filters while it reads.
        """
        filters = self.filters.columns.keys() - self.filters.conditions.keys()
        return bool(self.computed.columns or filters) or self.max_ahead is not None

    @property
    def types(self) -> dict[str, pa.DataType]:
        """The types of all readable columns: those of the data, and computed ones."""
        return {**self.source.types, **self.computed.types}

    @property
    def named_keys(self) -> tuple[str, ...]:
        """The keys by their names in results."""
        return tuple(self.key_names.get(key, key) for key in self.by)

    def draft(self, shards: Sequence[int]) -> Draft:
        """The query as its options see it."""
        read = [self.time, *self.by]
        read += [window.column for window in self.windows if isinstance(window, DeltaWindow)]
        inputs = [column for bound in self.aggregates.values() for column in bound.inputs]
        read += [column for column in inputs if column not in self.filters.columns]
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
            # With several inputs, only Spark's watermark knows which one is the furthest behind. An input that has a
            # watermark already may be a union of several.
            delay=None if self.source.beside or self.has_own_watermark else self.watermark,
            marks=self.marks,
            function=self.function,
            options=self.options,
            tells_rows_apart=self._tells_rows_apart,
            delays=self._delays,
        )

    @property
    def _delays(self) -> tuple[int | None, ...]:
        """The delay of each input, in microseconds; None for those with a watermark of their own."""
        beside = (None if source.own_watermark else source.delay for source in self.source.beside)
        return None if self.has_own_watermark else self.watermark, *beside

    @property
    def _tells_rows_apart(self) -> bool:
        """Whether every row can be kept or dropped at the source by itself."""
        if self.kept_at_source is None or (self.source.scan is not None and not self.computed_by_spark):
            return True  # nothing is dropped there, or tasks draw the rows of the files that they read
        return self.source.tells_rows_apart

    def finish(self, plan: Plan) -> Finish | None:
        """What turns the results of a shard into rows of another form, if an option does that."""
        finishes = (option.finish(plan) for option in self.options)
        return next((finish for finish in finishes if finish is not None), None)

    def plan(self, shards: Sequence[int]) -> Plan:
        return self.draft(shards).planned().plan()

    def _reading(self, given: Sequence[ColumnLike], what: str) -> tuple[Query, list[tuple[str, str]]]:
        """The query with the expressions of these columns; for each column, its name in the stages and in Spark."""
        computed, read = self.computed, []
        for column in given:
            resolved = backend_of(self.source).resolved(self.source, column, what)
            computed, name = computed.add(resolved, self.source)
            read.append((name, resolved.name))
        return replace(self, computed=computed), read

    def check_complete(self) -> None:
        """Check that the query computes something, and that its options are compatible."""
        if not self.aggregates and self.function is None:
            raise MuntinError("The query computes nothing yet; call .agg(...) with at least one aggregate.")
        for option in self.options:
            option.check(self.draft([0]), complete=True)
        self._check_added_columns()

    def _check_added_columns(self) -> None:
        """Check that the columns that options add to results have names of their own."""
        plan = self.plan([0])
        schema, finish = plan.schema, self.finish(plan)
        for name in () if finish is None else self.named_keys:
            if finish is not None and name not in self.by and name in finish.schema.names:
                raise MuntinError(
                    f"{name!r} is a column of the results and a key, too; give the key another name with .alias(...)."
                )
        names = (*self.named_keys, *(column.name for column in schema.columns))
        for column in (*schema.added, *schema.late_fields):
            if column.name in names:
                raise MuntinError(
                    f"{column.name!r} is a column that this query adds to results; give the column of that name, a key "
                    "or what is computed, another one."
                )

    def _check_options(self) -> None:
        """Check that the options are compatible with the query as far as it is built."""
        for option in self.options:
            option.check(self.draft([0]))
            if zone_column_of(self.windows) is not None and option.not_by_zone is not None:
                raise MuntinError(
                    f"{option.name}() does not go with zone_column=: {option.not_by_zone}. Leave one of them out, or "
                    "write one query per zone, with zone=."
                )

    def _check_output_name(self, name: str, existing: Mapping[str, Bound]) -> None:
        encodable(name, "a name")
        if name in RESERVED:
            raise MuntinError(f"{name!r} is a column that Muntin adds to results; choose another name.")
        if name in self.named_keys:
            raise MuntinError(f"{name!r} is a key column already; choose another name.")
        if name in existing:
            raise MuntinError(f"There is an aggregate {name!r} already; give each its own name.")


def check_named(unnamed: Sequence[object], named: Mapping[str, object]) -> None:
    """Check the arguments of `agg()`: aggregates, each with the name of its column in the results."""
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
