"""`muntin.plot()`: results over time, a line per key, with the intervals of estimates as bands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pandas as pd
from pandas.api.types import is_bool_dtype, is_numeric_dtype
from pyspark.sql import DataFrame
from pyspark.sql import types as T

from muntin.checks import whole_number
from muntin.errors import MuntinError, suggest
from muntin.query.query import RESERVED
from muntin.spark.roles import columns_with

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_NOT_VALUES = (*RESERVED, "timing", "revision", "lateness")


def plot(
    results: DataFrame | pd.DataFrame,
    value: str | None = None,
    *,
    by: str | Sequence[str] | None = None,
    most: int = 10,
    ax: Axes | None = None,
) -> Axes:
    """Draw an aggregate over the ends of windows: a line per key, with the interval of estimates as a band.

    It needs matplotlib, which `pip install 'muntin[cli]'` brings.

    Parameters
    ----------
    results
        The results of a query over a table, the written results of a stream, read back, or `toPandas()` of either.
    value
        The column to draw; by default the first number that is computed.
    by
        The keys, a line for each; by default those that the query marked, or all columns of a pandas frame that are
        neither numbers nor of Muntin.
    most
        How many lines to draw: those with the most windows.
    ax
        The axes to draw into; by default new ones.

    Examples
    --------
    >>> muntin.plot(fares(table).to_df(), "paid").get_ylabel()
    'paid'
    """
    limit = whole_number(most, "most", 1000)
    rows, drawn, keys = flat_rows(results, value, by)
    axes = _axes() if ax is None else ax
    groups = [*(["window_name"] if "window_name" in rows else []), *keys]
    lines = _lines(rows, groups)
    chosen = sorted(lines, key=lambda line: -len(line[1]))[:limit]
    for label, line in sorted(chosen, key=lambda line: line[0]):
        (drawn_line,) = axes.plot(line["end"], line[drawn].astype(float), marker=".", label=_plain(label) or None)
        bounded = line[line["low"].notna() & line["high"].notna()] if "low" in line else line[:0]
        if len(bounded):
            low, high = bounded["low"].astype(float), bounded["high"].astype(float)
            axes.fill_between(bounded["end"], low, high, alpha=0.25, color=drawn_line.get_color(), linewidth=0)
    axes.set_xlabel("end of window")
    axes.set_ylabel(_plain(drawn))
    if len(lines) > len(chosen):
        axes.set_title(f"{len(chosen):,} of {len(lines):,} keys, those with the most windows")
    if groups and chosen:
        axes.legend(fontsize="small")
    axes.tick_params(axis="x", labelrotation=30)
    return axes


def _plain(text: str) -> str:
    """Text in which matplotlib sees no formula, and no label to hide."""
    return text.replace("$", r"\$").lstrip("_")


def _axes() -> Axes:
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise MuntinError("plot() needs matplotlib: pip install 'muntin[cli]'") from error
    _, axes = pyplot.subplots(figsize=(9, 4), layout="constrained")
    return axes


def flat_rows(results: Any, value: Any, by: Any) -> tuple[pd.DataFrame, str, list[str]]:
    """The rows of windows, flat, with the columns `end`, and `low` and `high` if there are intervals."""
    marked = None
    if isinstance(results, DataFrame):
        if results.isStreaming:
            raise MuntinError(
                "results are a stream, and plot() draws rows that are there; read back what the stream has written."
            )
        marked = columns_with(results, "key")
        numbers = [
            field.name
            for field in results.schema
            if isinstance(field.dataType, T.NumericType) and field.name not in (*marked, *_NOT_VALUES)
        ]
        _check_window(list(results.columns))
        drawn = _value(value, numbers)
        keys = _keys(by, list(results.columns), marked)
        frame = results.select(
            *(name for name in ("window", "window_name", "quality") if name in results.columns),
            *(_quoted(name) for name in dict.fromkeys((*keys, drawn))),
        ).toPandas()
    elif isinstance(results, pd.DataFrame):
        _check_window(list(results.columns))
        frame = results
        others = [name for name in frame.columns if name not in _NOT_VALUES]
        numbers = [name for name in others if is_numeric_dtype(frame[name]) and not is_bool_dtype(frame[name])]
        drawn = _value(value, numbers)
        keys = _keys(by, others, [name for name in others if name not in numbers])
    else:
        raise MuntinError(
            f"results must be the DataFrame of a query's results or its toPandas(), got {type(results).__name__}."
        )
    return _flat(frame, drawn), drawn, keys


def _flat(frame: pd.DataFrame, drawn: str) -> pd.DataFrame:
    frame = frame[frame["window"].notna()]
    flat = frame.drop(columns=["window", "quality"], errors="ignore")
    flat["end"] = [window["end"] for window in frame["window"]]
    if "quality" in frame:
        for side in ("low", "high"):
            flat[side] = [_bound(quality, side, drawn) for quality in frame["quality"]]
    return flat


def _bound(quality: Any, side: str, drawn: str) -> Any:
    """A bound of an interval; structs are Rows or dicts, and those without it have no such field."""
    try:
        return quality[side][drawn]
    except (KeyError, ValueError, TypeError):
        return None


def _lines(rows: pd.DataFrame, groups: list[str]) -> list[tuple[str, pd.DataFrame]]:
    rows = rows.sort_values("end", kind="stable")
    if not groups:
        return [("", rows)]
    found = rows.groupby(groups, dropna=False, sort=False)
    return [(", ".join(map(str, label if isinstance(label, tuple) else (label,))), line) for label, line in found]


def _check_window(columns: list[str]) -> None:
    if "window" not in columns:
        raise MuntinError("results have no column 'window'; give the results of a query, with all their columns.")


def _value(value: Any, numbers: list[str]) -> str:
    if value is None:
        if not numbers:
            raise MuntinError("results have no column with numbers that could be drawn; give value=.")
        return numbers[0]
    if not isinstance(value, str):
        raise MuntinError(f"value must be the name of a column with numbers, got {value!r}.")
    if value not in numbers:
        raise MuntinError(f"value {value!r} is not a column of results with numbers. {suggest(value, numbers)}")
    return value


def _keys(by: Any, columns: list[str], otherwise: list[str]) -> list[str]:
    keys = otherwise if by is None else [by] if isinstance(by, str) else by
    if not isinstance(keys, list | tuple):
        raise MuntinError(f"by must be the name of a key column or a list of them, got {by!r}.")
    for key in keys:
        if key not in columns or key in ("window", "quality"):
            raise MuntinError(f"by column {key!r} is not a key of results. {suggest(str(key), columns)}")
    return list(keys)


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
