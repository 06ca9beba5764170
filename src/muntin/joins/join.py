"""The join as an immutable value: what to compute of the pairs of rows with the same key and window."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NoReturn

import pyarrow as pa

from muntin.aggregates.aggregate import Aggregate, Bound
from muntin.aggregates.decomposable import CountAggregate
from muntin.checks import encodable, one_of
from muntin.engine.hidden import HIDDEN
from muntin.errors import MuntinError
from muntin.expressions import Given
from muntin.joins.backend import spark
from muntin.joins.multiplied import multiplied, why_not
from muntin.joins.names import PLACES, SIDE_FLAGS, SIDES, TIME, WEIGHTS, SideName, other
from muntin.joins.pairs import OverPairs
from muntin.joins.product import PLACE, Origin, Product
from muntin.joins.shown import join_shown, rows_shown
from muntin.joins.sides import Condition, JoinedAggregate, Side
from muntin.panes.tuples import WEIGHT
from muntin.query import RESERVED, LatePolicy, Query, check_named
from muntin.query.backend import Source
from muntin.query.inputs import column_names
from muntin.windows import PaneWindow

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_COUNTS = {side: HIDDEN + side for side in SIDES}
"""The hidden aggregates that count the tuples of each side in a window."""


@dataclass(frozen=True)
class Prepared:
    """How a join runs."""

    query: Query
    over_pairs: OverPairs | None = None
    """Aggregates the pairs, if an aggregate needs them."""
    conditions: Mapping[str, Any] = field(default_factory=dict)
    """The conditions on pairs, by the name of their column."""


@dataclass(frozen=True, repr=False)
class Join:
    """A windowed join, started by `join()`. Every method returns a new join; `to_df()` gives the DataFrame."""

    left: Side
    right: Side
    query: Query
    """The query over the union of both sides, with the options of the join, and nothing to compute yet."""
    aggregates: Mapping[str, JoinedAggregate] = field(default_factory=dict)
    conditions: Mapping[str, Condition] = field(default_factory=dict)

    def __repr__(self) -> str:
        return join_shown(self)

    def agg(self, *unnamed: Aggregate, **named: Aggregate) -> Join:
        """Compute aggregates of the pairs of every window and key.

        Each aggregate is given by keyword; the keyword names its column in the results. Columns have the names that
        `rows()` gives them. Pairs are only made if an aggregate needs them: a count is the product of two counts.

        Examples
        --------
        >>> pairs(table, table).agg(pairs=A.count()).to_df().select("route", "pairs").orderBy("route").collect()
        [Row(route='A', pairs=16), Row(route='B', pairs=9)]
        """
        check_named(unnamed, named)
        joined, conditions = dict(self.aggregates), dict(self.conditions)
        for name, aggregate in named.items():
            self._check_output_name(name, joined)
            aggregate = aggregate.reading([self._named(column, f"{name}'s column") for column in aggregate.columns])
            try:
                aggregate.bind(self.types, None, self.query.source.types[TIME])
                joined[name] = self._placed(aggregate, conditions)
            except MuntinError as error:
                raise MuntinError(f"{name}: {error}") from error
        return replace(self, aggregates=joined, conditions=conditions)

    def rows(self, columns: Sequence[str] | None = None) -> JoinRows:
        """Return the joined rows: window, keys, the other columns of the left side, those of the right side.

        Columns that both sides have get the prefix `left_` or `right_`.

        Parameters
        ----------
        columns
            The columns to return beside window and keys, by these names; by default all. Other columns are neither
            shuffled nor kept.

        Examples
        --------
        >>> "right_km" in pairs(table, table).rows(["left_fare", "right_km"]).to_df().columns
        True
        """
        if self.aggregates:
            raise MuntinError("The join computes something already; use .agg() or .rows(), in two joins for both.")
        if isinstance(columns, str):
            raise MuntinError(f"columns must be a list of names, got {columns!r}; write [{columns!r}].")
        if columns is None:
            columns = [name for side in self.sides for name in side.names]
        columns = [self._named(name, "column") for name in column_names(columns, "columns")]
        for position, name in enumerate(columns):
            if name in RESERVED:
                raise MuntinError(
                    f"column {name!r} has the name of a column that Muntin adds to results; rename it first, or leave "
                    "it out with columns=[...]."
                )
            if name in columns[:position]:
                raise MuntinError(f"columns names {name!r} twice; name it once.")
        return JoinRows(self, tuple(columns))

    def compress(self, *args: Any, **kwargs: Any) -> Join:
        """Compress the rows that the state keeps, as `Query.compress()` does.

        Examples
        --------
        >>> pairs(table, table).rows().compress(after="10 minutes")
        join(...).compress(after="10 minutes")
        """
        return replace(self, query=self.query.compress(*args, **kwargs))

    def late(self, policy: LatePolicy) -> Join:
        """Choose what happens to late rows, as `Query.late()` does.

        With "emit", the column `late` has the whole row in its field `left` or in its field `right`. Windows of a join
        are not corrected by late rows.

        Examples
        --------
        >>> pairs(streamed, streamed).rows().late("emit")
        join(...).late("emit")
        """
        one_of(policy, "late policy", {"drop": "", "emit": ""})
        return replace(self, query=self.query.late(policy))

    def shed(self, *args: Any, **kwargs: Any) -> Join:
        """Drop a share of the rows of both sides, as `Query.shed()` does. Results get the column `quality`.

        Aggregates are scaled back to all pairs, with intervals. `rows()` returns the pairs of the kept rows.

        Examples
        --------
        >>> pairs(table, table).agg(n=A.count()).shed(0.5, seed=1)
        join(...).shed(rate=0.5, seed=1)
        """
        query = self.query.shed(*args, **kwargs)
        if query.kept_at_source is not None:
            raise MuntinError(
                "shed(at='source') is not available for joins: a pair is only kept if both of its rows are, so few "
                "pairs are left, and those of a row depend on each other. Shed at='panes', where each side keeps rows "
                "of every key, and keys without a partner cost nothing."
            )
        return replace(self, query=query)

    def drain(self) -> Join:
        """Close all windows when a bounded run finds no new rows, as `Query.drain()` does.

        Examples
        --------
        >>> pairs(streamed, streamed).rows().drain()
        join(...).drain()
        """
        return replace(self, query=self.query.drain())

    def approximate(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Not available for joins: the pairs of two samples are not a sample of the pairs.

        Examples
        --------
        >>> pairs(table, table).approximate()
        Traceback (most recent call last):
            ...
        muntin.errors.MuntinError: ...
        """
        raise MuntinError(
            "approximate() is not available for joins: the pairs of two samples are not a sample of the pairs, so "
            "that their error is unknown. Use .shed(rate=...), which scales aggregates back to all pairs, with "
            "intervals. Or leave it out: what .explain() calls multiplied is exact, and makes no pairs."
        )

    def to_df(self) -> DataFrame:
        """Return the results as a DataFrame: of streams, windows as they close; of tables, all windows.

        Examples
        --------
        >>> pairs(table, table).agg(n=A.count()).to_df().columns
        ['window', 'window_id', 'route', 'n', 'window_time']
        """
        return spark().build_join(self, self.prepared())

    def explain(self) -> None:
        """Print how the join will run: panes, state per key, pairs, options, and the number of results.

        Examples
        --------
        >>> pairs(table, table).agg(n=A.count()).explain()
        Muntin: join of two tables on 'route', within tumbling(1 hour)...
        """
        from muntin.joins.explain import explanation

        print(explanation(self, self.prepared()))

    @property
    def sides(self) -> tuple[Side, Side]:
        return self.left, self.right

    @property
    def window(self) -> PaneWindow:
        """The window of the pairs.

        Examples
        --------
        >>> pairs(table, table).window
        W.tumbling("1 hour")
        """
        (window,) = self.query.windows
        assert isinstance(window, PaneWindow), "join() checks this"
        return window

    @cached_property
    def types(self) -> dict[str, pa.DataType]:
        """The types of the columns of joined rows."""
        keys = {key: self.query.source.types[key] for key in self.query.by}
        return keys | self.left.types | self.right.types

    def prepared(self) -> Prepared:
        """The query that runs, and how its results become those of the join."""
        if not self.aggregates:
            raise MuntinError("The join computes nothing yet; call .agg(...) with at least one aggregate, or .rows().")
        if any(joined.why_pairs is not None for joined in self.aggregates.values()):
            return self._over_pairs()
        time = self.query.source.types[TIME]
        counts = {_COUNTS[side]: CountAggregate(None, None).bind({}, SIDE_FLAGS[side], time) for side in SIDES}
        bound = {name: self._multiplied(joined) for name, joined in self.aggregates.items()}
        query = replace(self.query, source=self._source(), aggregates={**bound, **counts})
        from muntin.joins.both_sides import BothSides  # a feature: other queries do not import it

        query = query.use(BothSides(tuple(_COUNTS.values())))
        query.check_complete()
        return Prepared(query)

    def prepared_rows(self, columns: Sequence[str]) -> Prepared:
        query = self._with_both_sides(replace(self.query, function=Product.of(self._origins(columns), self.types)))
        query.check_complete()
        return Prepared(query)

    def _multiplied(self, joined: JoinedAggregate) -> Bound:
        flags = dict(SIDE_FLAGS)
        if joined.condition is not None:
            side = self.conditions[joined.condition].side
            assert side is not None, "a condition of both sides needs the pairs"
            flags[side] = joined.condition
        time = self.query.source.types[TIME]
        bound = multiplied(joined.aggregate, self.types, flags[joined.side], flags[other(joined.side)], time)
        return replace(bound, written=repr(joined.aggregate))

    def _over_pairs(self) -> Prepared:
        """Compute all aggregates over the pairs, since they are made anyway."""
        on_pairs = {name: condition.where for name, condition in self.conditions.items() if condition.side is None}
        read = [column for joined in self.aggregates.values() for column in joined.aggregate.columns]
        read += [column for where in on_pairs.values() for column in spark().read_by(where, self)]
        origins = self._origins(read)
        for name, condition in self.conditions.items():
            if condition.side is not None:
                origins[name] = Origin(name, condition.side)
        origins[TIME] = Origin(TIME, "later")
        time = self.query.source.types[TIME]
        kinds = {**self.types, **dict.fromkeys(self.conditions, pa.bool_()), TIME: time}
        types = {name: kinds[name] for name in (*self.query.by, *origins, *on_pairs)}
        shedding = self.query.option("shed")
        if shedding is not None:
            for side in SIDES:
                origins |= {WEIGHTS[side]: Origin(WEIGHT, side), PLACES[side]: Origin(PLACE, side)}
                kinds |= {WEIGHTS[side]: pa.float64(), PLACES[side]: pa.int64()}
        query = replace(self.query, source=self._source(), function=Product.of(origins, kinds))
        query = self._with_both_sides(query)
        query.check_complete()
        bound = {name: joined.aggregate.bind(kinds, joined.condition, time) for name, joined in self.aggregates.items()}
        late_row = query.plan([0]).late_row
        estimates = None
        if shedding is not None:
            from muntin.features.shedding.policy import Shedding
            from muntin.joins.shed_pairs import PairEstimates

            assert isinstance(shedding, Shedding)
            estimates = PairEstimates(shedding)
        over_pairs = OverPairs.of(self.window, self.query.by, types, bound, late_row, estimates)
        return Prepared(query, over_pairs, on_pairs)

    def _with_both_sides(self, query: Query) -> Query:
        """Where rows are shed, keys without a partner cost nothing more once a window is known.

        Without shedding, they are left out only when pairs are made: older checkpoints have no counts of the sides.
        """
        if query.option("shed") is None:
            return query
        from muntin.joins.both_sides import BothSidesOfPairs

        return query.use(BothSidesOfPairs((_COUNTS["left"],)))

    def _origins(self, columns: Sequence[str]) -> dict[str, Origin]:
        """The side that each column of pairs comes from, without the keys."""
        origins = {}
        for name in columns:
            if name not in self.query.by:
                side = self.left if name in self.left.names else self.right
                origins[name] = Origin(TIME if side.names[name] == side.time.read else name, side.which)
        return origins

    def _source(self) -> Source:
        """The union of both sides, with the conditions that one side can compute."""
        on_sides = {name: condition for name, condition in self.conditions.items() if condition.side is not None}
        return spark().union_source(self.left, self.right, self.query.by, on_sides)

    def _placed(self, aggregate: Aggregate, conditions: dict[str, Condition]) -> JoinedAggregate:
        """The aggregate with its side, and the reason if it needs the pairs. Its condition is added to `conditions`."""
        sides_of_columns = [
            side.which
            for side in self.sides
            if all(column in side.names or column in self.query.by for column in aggregate.columns)
        ]
        condition, where_side = None, None
        if aggregate.where is not None:
            where_side = self._side_of_condition(aggregate.where, sides_of_columns)
            text = f"{where_side}: {aggregate.where}"
            condition = f"__muntin_where_{hashlib.sha256(text.encode()).hexdigest()[:16]}"
            conditions[condition] = Condition(aggregate.where, where_side)
        why = why_not(aggregate)
        if not sides_of_columns:
            why = "its columns are of both sides"
        elif condition is not None and where_side is None:
            why = "its condition needs both sides"
        side = where_side if where_side in sides_of_columns else (sides_of_columns or list(SIDES))[0]
        assert side is not None, "there is a side"
        return JoinedAggregate(aggregate, side, condition, why)

    def _side_of_condition(self, where: Any, preferred: Sequence[SideName]) -> SideName | None:
        """The side that can compute a condition; None if it needs both."""
        for side in sorted(self.sides, key=lambda side: side.which not in preferred):
            if spark().is_condition(where, spark().named(side, self.query.by)):
                return side.which
        try:
            spark().both_sides(self).filter(where)
        except MuntinError as error:
            raise MuntinError(f"{error} Columns have the names that .rows() gives them.") from error
        return None

    def _named(self, column: Given, what: str) -> str:
        """The name of a column in the joined rows."""
        if isinstance(column, str):
            if column in self.types:
                return column
            prefixed = [f"{side}_{column}" for side in SIDES]
            if all(name in self.types for name in prefixed):
                raise MuntinError(
                    f"{what} {column!r} is not in the joined rows. Both sides have it: give {prefixed[0]!r} or "
                    f"{prefixed[1]!r}."
                )
        resolved = spark().resolved(spark().both_sides(self), column, what, "the joined rows")
        if resolved.computed is not None:
            raise MuntinError(
                f"{what} {column!r} is an expression, and a join reads columns by their names; compute it on its side "
                "first, such as left.withColumn('x', ...), and give 'x'."
            )
        return resolved.read

    def _check_output_name(self, name: str, existing: Mapping[str, JoinedAggregate]) -> None:
        encodable(name, "a name")
        if name in RESERVED:
            raise MuntinError(f"{name!r} is a column that Muntin adds to results; choose another name.")
        if name in self.query.by:
            raise MuntinError(f"{name!r} is a key column already; choose another name.")
        if name in existing:
            raise MuntinError(f"There is an aggregate {name!r} already; give each its own name.")


@dataclass(frozen=True, repr=False)
class JoinRows:
    """The joined rows: a query with `to_df()`, `explain()` and the options of a join.

    All other attributes are those of its DataFrame: `rows.writeStream`, `rows.count()`,
    `rows.where("left_fare > 10")`.
    """

    _join: Join
    _names: tuple[str, ...]
    """The columns beside window and keys."""

    def __repr__(self) -> str:
        return rows_shown(self._join, self._names)

    def to_df(self) -> DataFrame:
        """Return the joined rows as a DataFrame."""
        return spark().build_join(self._join, self._join.prepared_rows(self._names))

    def explain(self) -> None:
        """Print how the join will run: panes, state per key, pairs, options, and the number of results."""
        from muntin.joins.explain import explanation

        print(explanation(self._join, self._join.prepared_rows(self._names)))

    def compress(self, *args: Any, **kwargs: Any) -> JoinRows:
        return replace(self, _join=self._join.compress(*args, **kwargs))

    def late(self, policy: LatePolicy) -> JoinRows:
        return replace(self, _join=self._join.late(policy))

    def drain(self) -> JoinRows:
        return replace(self, _join=self._join.drain())

    def approximate(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Not available for joins, as with `Join.approximate()`."""
        self._join.approximate(*args, **kwargs)

    def shed(self, *args: Any, **kwargs: Any) -> JoinRows:
        return replace(self, _join=self._join.shed(*args, **kwargs))

    @cached_property
    def _frame(self) -> DataFrame:
        return self.to_df()

    def __getattr__(self, name: str) -> Any:
        """Look up the attribute in the DataFrame. Names with a leading underscore are private."""
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._frame, name)
