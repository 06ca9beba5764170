"""The join as a value: what to compute of the pairs of tuples that have a key and a window in common."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from muntin.aggregates.aggregate import Aggregate, Bound
from muntin.aggregates.decomposable import CountAggregate
from muntin.checks import encodable
from muntin.engine.hidden import HIDDEN
from muntin.errors import MuntinError
from muntin.expressions import Given
from muntin.joins.backend import spark
from muntin.joins.both_sides import BothSides
from muntin.joins.multiplied import multiplied, why_not
from muntin.joins.names import MARKS, PLACES, SIDES, TIME, WEIGHTS, Which, other
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

HELD = {which: HIDDEN + which for which in SIDES}
"""The hidden aggregates that count the tuples of each side in a window."""


@dataclass(frozen=True)
class Prepared:
    """What a join runs as."""

    query: Query
    over_pairs: OverPairs | None = None
    """What makes results of the pairs, if aggregates need them."""
    conditions: Mapping[str, Any] = field(default_factory=dict)
    """The conditions that are computed on the pairs, by the name of their column."""


@dataclass(frozen=True, repr=False)
class Join:
    """What to compute of the pairs. Every method returns a new join; `to_df()` gives the DataFrame."""

    left: Side
    right: Side
    query: Query
    """Over the union of both sides, as yet with nothing to compute; it carries what `compress` and others say."""
    aggregates: Mapping[str, JoinedAggregate] = field(default_factory=dict)
    conditions: Mapping[str, Condition] = field(default_factory=dict)

    def __repr__(self) -> str:
        return join_shown(self)

    def agg(self, *unnamed: Aggregate, **named: Aggregate) -> Join:
        """What to compute of the pairs of every window and key: `agg(pairs=A.count(), fare=A.sum("fare"))`.

        Columns go by the names that `rows()` gives them. Pairs are only made where an aggregate needs them.
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
        """The pairs themselves, as rows: window, keys, left's other columns, right's other columns.

        Names that both sides have get `left_` and `right_` in front. `columns` are those that are wanted beside window
        and keys, by these names; what is not named is neither shuffled nor kept.
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
                    f"column {name!r} has the name of a result's own column; rename it first, or leave it out with "
                    "columns=[...]."
                )
            if name in columns[:position]:
                raise MuntinError(f"columns names {name!r} twice; name it once.")
        return JoinRows(self, tuple(columns))

    def compress(self, *args: Any, **kwargs: Any) -> Join:
        """As for any query: how much memory the tuples may take, where they are kept."""
        return replace(self, query=self.query.compress(*args, **kwargs))

    def late(self, policy: LatePolicy) -> Join:
        """As for any query. With "emit", `late` has the whole row in its field `left` or in its field `right`."""
        return replace(self, query=self.query.late(policy))

    def shed(self, *args: Any, **kwargs: Any) -> Join:
        """As for any query: tuples of both sides are dropped, and results have the column `quality`.

        Aggregates are scaled back to all pairs, with intervals; rows are those of the tuples that are kept.
        """
        return replace(self, query=self.query.shed(*args, **kwargs))

    def to_df(self) -> DataFrame:
        """The results, as a DataFrame: a stream of closed windows, or all windows of a table."""
        return spark().build_join(self, self.prepared())

    def explain(self) -> None:
        """Print how the join will run, and why."""
        from muntin.joins.explain import explanation

        print(explanation(self, self.prepared()))

    @property
    def sides(self) -> tuple[Side, Side]:
        return self.left, self.right

    @property
    def window(self) -> PaneWindow:
        (window,) = self.query.windows
        assert isinstance(window, PaneWindow), "join() takes no other"
        return window

    @cached_property
    def types(self) -> dict[str, pa.DataType]:
        """Of the columns of joined rows."""
        keys = {key: self.query.source.types[key] for key in self.query.by}
        return keys | self.left.types | self.right.types

    def prepared(self) -> Prepared:
        """The query that runs, and what is made of its results."""
        if not self.aggregates:
            raise MuntinError("The join computes nothing yet; call .agg(...) with at least one aggregate, or .rows().")
        if any(each.why_pairs is not None for each in self.aggregates.values()):
            return self._over_pairs()
        time = self.query.source.types[TIME]
        counts = {HELD[which]: CountAggregate(None, None).bind({}, MARKS[which], time) for which in SIDES}
        bound = {name: self._multiplied(each) for name, each in self.aggregates.items()}
        query = replace(self.query, source=self._source(), aggregates={**bound, **counts})
        query = query.use(BothSides(tuple(HELD.values())))
        query.check_complete()
        return Prepared(query)

    def prepared_rows(self, columns: Sequence[str]) -> Prepared:
        query = replace(self.query, function=Product.of(self._origins(columns), self.types))
        query.check_complete()
        return Prepared(query)

    def _multiplied(self, joined: JoinedAggregate) -> Bound:
        marks = dict(MARKS)
        if joined.condition is not None:
            of = self.conditions[joined.condition].side
            assert of is not None, "a condition of both sides needs the pairs"
            marks[of] = joined.condition
        time = self.query.source.types[TIME]
        bound = multiplied(joined.aggregate, self.types, marks[joined.side], marks[other(joined.side)], time)
        return replace(bound, written=repr(joined.aggregate))

    def _over_pairs(self) -> Prepared:
        """All aggregates over the pairs, since those are made anyway."""
        on_pairs = {name: each.where for name, each in self.conditions.items() if each.side is None}
        read = [column for each in self.aggregates.values() for column in each.aggregate.columns]
        read += [column for where in on_pairs.values() for column in spark().read_by(where, self)]
        origins = self._origins(read)
        origins |= {name: Origin(name, each.side) for name, each in self.conditions.items() if each.side is not None}
        origins[TIME] = Origin(TIME, "later")
        time = self.query.source.types[TIME]
        kinds = {**self.types, **dict.fromkeys(self.conditions, pa.bool_()), TIME: time}
        types = {name: kinds[name] for name in (*self.query.by, *origins, *on_pairs)}
        shedding = self.query.option("shed")
        if shedding is not None:
            for which in SIDES:
                origins |= {WEIGHTS[which]: Origin(WEIGHT, which), PLACES[which]: Origin(PLACE, which)}
                kinds |= {WEIGHTS[which]: pa.float64(), PLACES[which]: pa.int64()}
        query = replace(self.query, source=self._source(), function=Product.of(origins, kinds))
        query.check_complete()
        bound = {name: each.aggregate.bind(kinds, each.condition, time) for name, each in self.aggregates.items()}
        late_row = query.plan([0]).late_row
        estimates = None
        if shedding is not None:
            from muntin.features.shedding.policy import Shedding
            from muntin.joins.shed_pairs import PairEstimates

            assert isinstance(shedding, Shedding)
            estimates = PairEstimates(shedding)
        over_pairs = OverPairs.of(self.window, self.query.by, types, bound, late_row, estimates)
        return Prepared(query, over_pairs, on_pairs)

    def _origins(self, columns: Sequence[str]) -> dict[str, Origin]:
        """Where the columns of pairs come from; keys, which every result has, are left out."""
        origins = {}
        for name in columns:
            if name not in self.query.by:
                side = self.left if name in self.left.names else self.right
                origins[name] = Origin(TIME if side.names[name] == side.time.read else name, side.which)
        return origins

    def _source(self) -> Source:
        """Both sides with the columns that their conditions need."""
        of_sides = {name: each for name, each in self.conditions.items() if each.side is not None}
        return spark().union_source(self.left, self.right, self.query.by, of_sides)

    def _placed(self, aggregate: Aggregate, conditions: dict[str, Condition]) -> JoinedAggregate:
        """Which side an aggregate is of, and whether it needs the pairs. Its condition joins the others."""
        of_columns = [
            side.which
            for side in self.sides
            if all(column in side.names or column in self.query.by for column in aggregate.columns)
        ]
        condition, where_side = None, None
        if aggregate.where is not None:
            where_side = self._side_of_condition(aggregate.where, of_columns)
            text = f"{where_side}: {aggregate.where}"
            condition = f"__muntin_where_{hashlib.sha256(text.encode()).hexdigest()[:16]}"
            conditions[condition] = Condition(aggregate.where, where_side)
        why = why_not(aggregate)
        if not of_columns:
            why = "its columns are of both sides"
        elif condition is not None and where_side is None:
            why = "its condition needs both sides"
        side = where_side if where_side in of_columns else (of_columns or list(SIDES))[0]
        assert side is not None, "there is a side"
        return JoinedAggregate(aggregate, side, condition, why)

    def _side_of_condition(self, where: Any, preferred: Sequence[Which]) -> Which | None:
        """The side that a condition can be computed on; None if it takes both."""
        for side in sorted(self.sides, key=lambda side: side.which not in preferred):
            if spark().is_condition(where, spark().named(side, self.query.by)):
                return side.which
        try:
            spark().both_sides(self).filter(where)
        except MuntinError as error:
            raise MuntinError(f"{error} Columns go by the names that .rows() gives them.") from error
        return None

    def _named(self, column: Given, what: str) -> str:
        """The name that a column of the joined rows goes by."""
        if isinstance(column, str):
            if column in self.types:
                return column
            both = [f"{which}_{column}" for which in SIDES]
            if all(each in self.types for each in both):
                raise MuntinError(
                    f"{what} {column!r} is not in the joined rows. Both sides have it: say {both[0]!r} or {both[1]!r}."
                )
        found = spark().resolved(spark().both_sides(self), column, what, "the joined rows")
        if found.computed is not None:
            raise MuntinError(
                f"{what} {column!r} is an expression, and a join reads columns by their names; compute it on its side "
                "first, such as left.withColumn('x', ...), and give 'x'."
            )
        return found.read

    def _check_output_name(self, name: str, taken: Mapping[str, JoinedAggregate]) -> None:
        encodable(name, "a name")
        if name in RESERVED:
            raise MuntinError(f"{name!r} is a column that results have of their own; choose another name.")
        if name in self.query.by:
            raise MuntinError(f"{name!r} is a key column already; choose another name.")
        if name in taken:
            raise MuntinError(f"There is an aggregate {name!r} already; give each its own name.")


@dataclass(frozen=True, repr=False)
class JoinRows:
    """The joined rows, as a query: `to_df()`, `explain()`, and what a join can be told.

    Everything else is looked up in its DataFrame, so that it can be used in its place: `rows.writeStream`,
    `rows.count()`, `rows.where("left_fare > 10")`.
    """

    _join: Join
    _names: tuple[str, ...]
    """The columns beside window and keys."""

    def __repr__(self) -> str:
        return rows_shown(self._join, self._names)

    def to_df(self) -> DataFrame:
        return spark().build_join(self._join, self._join.prepared_rows(self._names))

    def explain(self) -> None:
        """Print how the join will run, and why."""
        from muntin.joins.explain import explanation

        print(explanation(self._join, self._join.prepared_rows(self._names)))

    def compress(self, *args: Any, **kwargs: Any) -> JoinRows:
        return replace(self, _join=self._join.compress(*args, **kwargs))

    def late(self, policy: LatePolicy) -> JoinRows:
        return replace(self, _join=self._join.late(policy))

    def shed(self, *args: Any, **kwargs: Any) -> JoinRows:
        return replace(self, _join=self._join.shed(*args, **kwargs))

    @cached_property
    def _frame(self) -> DataFrame:
        return self.to_df()

    def __getattr__(self, name: str) -> Any:
        """What the query does not have, its DataFrame may. Names with an underscore in front are private."""
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._frame, name)
