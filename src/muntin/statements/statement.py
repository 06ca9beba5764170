"""`muntin.sql()`: a statement with a window, as a query."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NoReturn, Protocol, TypeVar

from muntin import aggregates as A
from muntin.aggregates.aggregate import Aggregate
from muntin.durations import Duration
from muntin.errors import MuntinError
from muntin.expressions import ColumnLike
from muntin.query import Query, over
from muntin.statements.clauses import check_clauses, check_expression, check_table, place_of
from muntin.statements.positions import refuse
from muntin.statements.windowing import ROWS, WINDOW, Windowing, find

Built = TypeVar("Built")

_BOUNDS = ("window_start", "window_end", "window_time")


class Tables(Protocol):
    """A session, of which only the tables are used."""

    def table(self, tableName: str) -> Any: ...  # noqa: N803 - its name in Spark


def sql(spark: Tables, statement: str, *, watermark: Duration | ColumnLike | None = None) -> Query:
    """Return the query that a SELECT with a window says, over a stream or a table.

    The window is a table function of Flink (TUMBLE, HOP, CUMULATE, SESSION), or Spark's `window()` or
    `session_window()` in GROUP BY. The result is a query like that of `muntin.over`: add options, and call `.to_df()`,
    whose columns are those of every query, with the bounds in `window`.

    Parameters
    ----------
    spark
        The session with the table or temporary view. A view of a streaming DataFrame is a stream.
    statement
        The SELECT. What has no counterpart in a query is refused, with its line and column.
    watermark
        As in `muntin.over`.

    Examples
    --------
    >>> table.createOrReplaceTempView("rides")
    >>> statement = (
    ...     "SELECT window_start, window_end, route, COUNT(*) AS rides "
    ...     "FROM TABLE(TUMBLE(TABLE rides, DESCRIPTOR(at), INTERVAL '1' HOUR)) "
    ...     "GROUP BY window_start, window_end, route"
    ... )
    >>> muntin.sql(spark, statement).to_df().select("route", "rides").orderBy("route").show()
    +-----+-----+
    |route|rides|
    +-----+-----+
    |    A|    4|
    |    B|    3|
    +-----+-----+
    """
    if not isinstance(statement, str) or not statement.strip():
        raise MuntinError(f"statement must be the text of a SELECT, got {statement!r}.")
    return _Translation(statement).query(spark, watermark)


class _Translation:
    def __init__(self, text: str) -> None:
        try:
            import sqlglot
            from sqlglot import exp
            from sqlglot.errors import ParseError, TokenError
        except ImportError as error:
            raise MuntinError("sql() needs the package sqlglot: pip install 'muntin[sql]'.") from error
        self._exp = exp
        self._text = text
        self._names: set[str] = set()
        """How the statement calls its table."""
        try:
            self._tokens = sqlglot.tokenize(text, dialect="spark")
            self._windowing: Windowing = find(text, self._tokens)
            self._select = sqlglot.parse_one(self._windowing.text, dialect="spark")
        except TokenError as error:
            raise MuntinError(f"statement cannot be read: {str(error).splitlines()[0]}") from error
        except ParseError as error:
            first = error.errors[0]
            raise MuntinError(
                f"line {first.get('line')}, column {first.get('col')}, at {first.get('highlight')!r}: "
                f"{first.get('description')}"
            ) from error

    def query(self, spark: Tables, watermark: Duration | ColumnLike | None) -> Query:
        select, exp = self._select, self._exp
        if not isinstance(select, exp.Select):
            self._refuse_word(("UNION", "INTERSECT", "EXCEPT", "INSERT", "CREATE"), "the statement must be one SELECT.")
        check_clauses(self._text, self._tokens, select)
        data = self._data(spark)
        keys = self._keys()
        aggregates = self._aggregates(list(keys))
        where = select.args.get("where")
        if where is not None:
            check_expression(self._text, exp, where)
            data = self._at(where.this, lambda: data.where(where.this.sql(dialect="spark")))
        return self._built(data, watermark, keys, aggregates)

    def _built(
        self,
        data: Any,
        watermark: Duration | ColumnLike | None,
        keys: Mapping[str, Any],
        aggregates: Mapping[str, tuple[Any, Aggregate]],
    ) -> Query:
        """The query, from keys and aggregates by their names with their places in the statement."""
        window, time = self._windowing.window, self._windowing.time
        time = time[1:] if time[0] in self._names and len(time) > 1 else time

        def start(*by: str) -> Query:
            return over(data, window, time=".".join(time), watermark=watermark, by=by)

        try:
            query = start(*keys)
            return query.agg(**{name: aggregate for name, (_, aggregate) in aggregates.items()})
        except MuntinError as error:
            # Built again part by part, the first one that fails is the one to name.
            try:
                query = start()
            except MuntinError:
                if str(error).startswith("watermark"):
                    raise error from None
                refuse(self._text, self._windowing.at, str(error), error)
            for key, node in keys.items():
                self._at(node, partial(start, key))
            for name, (node, aggregate) in aggregates.items():
                self._at(node, partial(start(*keys).agg, **{name: aggregate}))
            raise

    def _at(self, node: Any, build: Callable[[], Built]) -> Built:
        """What is built from a part of the statement; an error says where the part is."""
        try:
            return build()
        except MuntinError as error:
            refuse(self._text, place_of(node), str(error), error)
        except Exception as error:  # Spark has read the condition
            refuse(self._text, place_of(node), f"Spark cannot read this: {str(error).splitlines()[0]}", error)

    def _data(self, spark: Tables) -> Any:
        source = self._select.args.get("from_") or self._select.args.get("from")
        table = source.this if source is not None else None
        if not isinstance(table, self._exp.Table):
            self._refuse_word(("FROM",), "FROM must name a table or a view; make a view of anything else.")
        check_table(self._text, self._tokens, table)
        self._names = {table.alias_or_name, self._windowing.table[-1] if self._windowing.table else table.name}
        self._without_names()
        if self._windowing.table is not None:
            if table.name != ROWS:
                refuse(self._text, self._windowing.at, "the window is not the table of the statement.")
            return spark.table(".".join("`" + part.replace("`", "``") + "`" for part in self._windowing.table))
        return spark.table(".".join(part.sql(dialect="spark", identify=True) for part in table.parts))

    def _without_names(self) -> None:
        """Take the name of the table from its columns: `t.route` is `route`."""
        for column in self._select.find_all(self._exp.Column):
            if column.table in self._names:
                for part in ("table", "db", "catalog"):
                    column.set(part, None)

    def _keys(self) -> dict[str, Any]:
        """The columns of GROUP BY beside the window, with their places in the statement."""
        group = self._select.args.get("group")
        grouped = [] if group is None else list(group.expressions)
        others = [
            name for name, value in ({} if group is None else group.args).items() if name != "expressions" and value
        ]
        exp = self._exp
        if others or any(isinstance(node, exp.Rollup | exp.Cube | exp.GroupingSets) for node in grouped):
            self._refuse_word(("GROUP BY",), "a query groups by columns and expressions alone.")
        names = [node.name if isinstance(node, self._exp.Column) else "" for node in grouped]
        if self._windowing.table is None:
            if WINDOW not in names:
                refuse(self._text, self._windowing.at, "the window must be in GROUP BY.")
        elif not {"window_start", "window_end"} <= {name.lower() for name in names}:
            self._refuse_word(("GROUP BY", "FROM"), "group by window_start and window_end, which are the window.")
        keys = {}
        for node, name in zip(grouped, names, strict=True):
            if name.lower() in (*_BOUNDS, WINDOW):
                continue
            if isinstance(node, exp.Literal):
                self._refuse_word(("GROUP BY",), f"GROUP BY has {node.sql()}, which is no column; name the column.")
            keys[self._column(node)] = node
        for key in self._windowing.keys:
            if key not in keys:
                refuse(self._text, self._windowing.at, f"PARTITION BY has {key!r}; have it in GROUP BY, too.")
        return keys

    def _aggregates(self, keys: list[str]) -> dict[str, tuple[Any, Aggregate]]:
        exp, found = self._exp, dict[str, tuple[Any, Aggregate]]()
        for node in self._select.expressions:
            inner = node.unalias()
            if isinstance(inner, exp.Star):
                self._refuse_word(("*",), "name the columns.")
            if self._is_window(inner):
                continue
            if _written(inner) in keys:
                if isinstance(node, exp.Alias) and node.alias != _written(inner):
                    self._refuse(node, "a key has its own name in the results; rename it there.")
                continue
            aggregate = self._aggregate(inner)
            if not isinstance(node, exp.Alias):
                self._refuse(inner, "an aggregate needs a name: AS trips.")
            if node.alias in found:
                self._refuse(node, f"there is an aggregate {node.alias!r} already.")
            found[node.alias] = inner, aggregate
        if not found:
            self._refuse_word(("SELECT",), "the statement has no aggregate, such as COUNT(*) AS trips.")
        return found

    def _is_window(self, node: Any) -> bool:
        """Whether it is the window, or one of its bounds."""
        if not isinstance(node, self._exp.Column):
            return False
        if self._windowing.table is not None:
            return node.name.lower() in _BOUNDS
        return "window" in (node.name.lower(), node.table.lower())

    def _aggregate(self, node: Any) -> Aggregate:
        """The aggregate of an expression."""
        filtered = isinstance(node, self._exp.Filter)
        where = None
        if filtered:
            check_expression(self._text, self._exp, node.expression)
            where = node.expression.this.sql(dialect="spark")
        made = self._known(node.this if filtered else node, where)
        if made is None:
            self._refuse(
                node, "this has no counterpart among Muntin's aggregates, and is neither a key nor the window."
            )
        return made

    def _known(self, node: Any, where: str | None) -> Aggregate | None:
        exp = self._exp
        if isinstance(node, exp.CountIf) and where is None:
            return A.count(where=node.this.sql(dialect="spark"))
        if isinstance(node, exp.Count):
            return self._count(node, where)
        if isinstance(node, exp.ArgMax | exp.ArgMin) and not node.args.get("count"):
            extreme = A.argmax if isinstance(node, exp.ArgMax) else A.argmin
            return extreme(self._column(node.this), self._column(node.expression), where=where)
        if isinstance(node, exp.Quantile) and isinstance(node.args["quantile"], exp.Literal):
            column, share = self._column(node.this), float(node.args["quantile"].this)
            return self._at(node, lambda: A.quantile(column, share, where=where))
        name = node.name.lower() if isinstance(node, exp.Anonymous) else ""
        function = {"std": A.stddev_samp, "mean": A.mean}.get(name) or self._functions().get(type(node))
        arguments = node.expressions if name else [node.args.get("this")]
        if function is None or len(arguments) != 1 or isinstance(arguments[0], exp.Distinct):
            return None
        return function(self._column(arguments[0]), where=where)

    def _count(self, node: Any, where: str | None) -> Aggregate:
        if node.expressions:
            self._refuse(node, "COUNT has one argument.")
        if isinstance(node.this, self._exp.Star | self._exp.Literal):
            return A.count(where=where)
        if isinstance(node.this, self._exp.Distinct):
            if len(node.this.expressions) != 1:
                self._refuse(node, "COUNT(DISTINCT ...) has one argument.")
            return A.count_distinct(self._column(node.this.expressions[0]), where=where)
        return A.count(self._column(node.this), where=where)

    def _functions(self) -> dict[type, Callable[..., Aggregate]]:
        exp = self._exp
        return {
            exp.Sum: A.sum,
            exp.Avg: A.mean,
            exp.Min: A.min,
            exp.Max: A.max,
            exp.Stddev: A.stddev_samp,
            exp.StddevSamp: A.stddev_samp,
            exp.StddevPop: A.stddev_pop,
            exp.Variance: A.var_samp,
            exp.VariancePop: A.var_pop,
            exp.Median: A.median,
        }

    def _column(self, node: Any) -> str:
        """A column by its name, or an expression as a text."""
        check_expression(self._text, self._exp, node)
        return _written(node)

    def _refuse(self, node: Any, why: str) -> NoReturn:
        refuse(self._text, place_of(node), why)

    def _refuse_word(self, words: tuple[str, ...], why: str) -> NoReturn:
        starts = {token.text.upper(): int(token.start) for token in reversed(self._tokens)}
        refuse(self._text, next((starts[word] for word in words if word in starts), 0), why)


def _written(node: Any) -> str:
    """The name of a column, or the text of an expression."""
    return str(node.name if node.key == "column" and not node.table else node.sql(dialect="spark"))
