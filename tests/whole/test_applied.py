"""Functions of windows: what they get, what may become of it, and what is said when they fail."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta, timezone
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muntin import windows as W
from muntin.engine.plan import Plan
from muntin.errors import MuntinError
from muntin.features.compression.policy import Compression
from muntin.features.workers.policy import KEYED, Workers
from muntin.holistic.applied import Applied, WindowOfKey, form_of, gets_window
from muntin.panes.tuples import MEMBERSHIP
from muntin.type_names import spark_name
from tests import builders, naive_models, strategies
from tests.builders import (
    NEVER_COMPRESSED,
    TIME,
    Step,
    Stream,
    answer,
    check,
    check_window_order,
    make_plan,
    row,
    sliding,
    tiny,
    us,
)
from tests.naive import Aggregation, Place, Row
from tests.naive_models import BEFORE_ALL, BEHIND_ALL
from tests.stages.test_models import CLOSING, LIMITS, STEPS, check_state, shifted

TYPES = builders.TYPES | strategies.GROWING
MODELS: dict[str, st.SearchStrategy[W.Window]] = strategies.MODELS | {
    "tumbling": st.builds(lambda size, offset: sliding(size, size, offset), strategies.LENGTHS, st.integers(-9, 9)),
    "sliding": st.builds(sliding, strategies.LENGTHS, strategies.LENGTHS, st.integers(-9, 9)),
}
Results = list[tuple[Place, dict[str, Any]]]
EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


def applied_of(
    function: Callable[..., Any], schema: dict[str, pa.DataType], columns: Sequence[str] = ("t", "k", "n")
) -> Applied:
    names = tuple(columns)
    return Applied(function, pa.schema(list(schema.items())), names, form_of(function), None, gets_window(function))


def results_of(plan: Plan, rows: Sequence[Row]) -> Results:
    """Of a table."""
    return [result for share in answer(plan, [rows]) for result in share]


def values_of(plan: Plan, rows: Sequence[Row]) -> list[Any]:
    """What a function of one column says of a table."""
    return [value for _, values in results_of(plan, rows) for value in values.values()]


# What the function gets, by its annotation


def of_a_table(table: pa.Table) -> pa.Table:
    return table


def of_a_frame(frame: pd.DataFrame) -> pd.DataFrame:
    return frame


def of_nothing() -> None: ...


def of_something_unknown(frame: Unknown) -> None: ...  # type: ignore[name-defined]  # noqa: F821


def without_annotations(frame):  # type: ignore[no-untyped-def]
    return frame


class Method:
    def of_a_frame(self, frame: pd.DataFrame) -> pd.DataFrame:
        return frame

    def __call__(self, table: pa.Table) -> pa.Table:
        return table


def test_the_annotation_of_the_argument_says_what_a_function_gets() -> None:
    assert of_a_frame.__annotations__["frame"] == "pd.DataFrame"  # as strings, from __future__
    assert form_of(of_a_frame) == "pandas"
    assert form_of(Method().of_a_frame) == "pandas"

    def frame_itself(frame: Any) -> Any: ...

    frame_itself.__annotations__["frame"] = pd.DataFrame
    assert form_of(frame_itself) == "pandas"


@pytest.mark.parametrize(
    "function",
    [
        of_a_table,
        of_nothing,
        of_something_unknown,
        without_annotations,
        lambda table: table,
        lambda: None,
        len,
        Method(),
        functools.partial(of_a_table),
    ],
)
def test_all_others_get_an_arrow_table(function: Callable[..., Any]) -> None:
    assert form_of(function) == "arrow"


@pytest.mark.parametrize("wrong", [None, "median", 3, pa.table({})])
def test_what_is_not_a_function(wrong: Any) -> None:
    with pytest.raises(MuntinError, match="needs a function of a window's tuples, got "):
        form_of(wrong)


# The window, as a second argument


def of_rows_and_window(table: pa.Table, window: WindowOfKey) -> pa.Table:
    assert isinstance(window, WindowOfKey)
    start, end = ((each - EPOCH) // timedelta(microseconds=1) for each in (window.start, window.end))
    return pa.table({"said": [f"{window.name} {window.id} [{start}, {end}) {window.key}: {table.num_rows}"]})


def test_a_function_of_two_arguments_gets_the_window() -> None:
    applied = applied_of(of_rows_and_window, {"said": pa.string()}, ["n"])
    plan = make_plan([sliding(10, 5, name="s"), W.count(2, name="c")], ("k", "n"), (), applied=applied)
    rows = [row(-1, "a", n=1), row(1, "a", n=1), row(7, "a", n=1), row(7, None, n=None)]
    assert set(values_of(plan, rows)) == {
        "s -2 [-10, 0) ('a', 1): 1",
        "s -1 [-5, 5) ('a', 1): 2",
        "s 0 [0, 10) ('a', 1): 2",
        "s 1 [5, 15) ('a', 1): 1",
        "s 0 [0, 10) (None, None): 1",
        "s 1 [5, 15) (None, None): 1",
        "c 0 [-1, 1) ('a', 1): 2",
    }


@pytest.mark.parametrize("model", ["keyed", "active", "agnostic"])
def test_the_window_is_the_same_with_every_worker_model(model: Any) -> None:
    applied = applied_of(of_rows_and_window, {"said": pa.string()}, ["n"])
    workers = {"keyed": KEYED, "active": Workers("active", 2, 1), "agnostic": Workers("agnostic", 2, tasks=3)}[model]
    plan = make_plan([sliding(10, 5)], ("k",), (), applied=applied, workers=workers, shards=(0, 1))
    rows = [row(i % 37, "ab"[i % 2], n=i) for i in range(60)]
    found = sorted(values_of(plan, rows))
    assert found == sorted(values_of(make_plan([sliding(10, 5)], ("k",), (), applied=applied), rows))
    assert len(found) == 18


@pytest.mark.parametrize(
    ("function", "with_window"),
    [
        (of_a_table, False),
        (of_rows_and_window, True),
        (lambda rows, degree=3: rows, False),
        (lambda rows, window, degree=3: rows, True),
        (lambda *rows: rows, False),
        (functools.partial(of_rows_and_window, window=None), False),  # type: ignore[arg-type]
        (Method(), False),
        (len, False),
        (dict, False),
    ],
)
def test_whether_a_function_gets_the_window(function: Callable[..., Any], with_window: bool) -> None:
    assert gets_window(function) is with_window


def three(rows: Any, window: Any, more: Any) -> None: ...


def by_name(rows: Any, *, window: Any) -> None: ...


@pytest.mark.parametrize("function", [lambda: None, three, by_name])
def test_a_function_of_other_arguments_is_refused(function: Callable[..., Any]) -> None:
    with pytest.raises(MuntinError, match=r"apply\(\) calls its function with the rows.*write def function\(rows\)"):
        gets_window(function)


def schema_of(table: pa.Table) -> pa.Table:
    return pa.table({"said": [", ".join(f"{field.name} {field.type}" for field in table.schema)]})


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        (("t", "k", "n"), "t timestamp[us, tz=UTC], k string, n int64"),
        (("w", "f", "t", "k"), "w string, f double, t timestamp[us, tz=UTC], k string"),
        (("s",), "s struct<a: double, b: string>"),
        (("k",), "k string"),
        (("t",), "t timestamp[us, tz=UTC]"),
    ],
)
def test_columns_in_the_order_in_which_they_were_named(columns: tuple[str, ...], expected: str) -> None:
    applied = applied_of(schema_of, {"said": pa.string()}, columns)
    assert values_of(make_plan([sliding(10, 10)], ("k", "f"), (), applied=applied), [row(1)]) == [expected]


@pytest.mark.parametrize("kind", [pa.timestamp("us"), pa.timestamp("us", tz="UTC")])
def test_the_time_is_of_the_type_of_the_data(kind: pa.DataType) -> None:
    def of(table: pa.Table) -> pa.Table:
        assert table.schema.field("t").type == kind
        return pa.table({"times": [table.column("t").cast(pa.int64()).to_pylist()]})

    applied = applied_of(of, {"times": pa.list_(pa.int64())}, ("t",))
    plan = make_plan([sliding(10, 10)], (), (), types=TYPES | {"t": kind}, applied=applied)
    assert values_of(plan, [{**row(t), "d": None, "e": None} for t in (3, 1, 12, 2)]) == [[1, 2, 3], [12]]


def test_the_key_is_normalised() -> None:
    def of(table: pa.Table) -> pa.Table:
        return pa.table({"said": [repr(table.column("f").to_pylist())]})

    plan = make_plan([sliding(10, 10)], ("f",), (), applied=applied_of(of, {"said": pa.string()}, ("f", "n")))
    rows = [row(t, f=f) for t, f in enumerate([-0.0, 0.0, math.nan, None, -math.nan])]
    assert sorted(values_of(plan, rows)) == ["[0.0, 0.0]", "[None]", "[nan, nan]"]


def test_a_frame_of_pandas() -> None:
    def of(frame: pd.DataFrame) -> pd.DataFrame:
        assert list(frame.columns) == ["n", "t"]
        assert list(frame.index) == list(range(len(frame)))
        by_time = frame.set_index("t")
        return by_time.assign(total=by_time["n"].cumsum())[["total"]]

    plan = make_plan([sliding(10, 10)], (), (), applied=applied_of(of, {"total": pa.int64()}, ("n", "t")))
    assert values_of(plan, [row(5, n=3), row(1, n=1), row(12, n=7), row(2, n=2)]) == [1, 3, 6, 7]


# What becomes of what it returns


def every_tuple_twice(table: pa.Table) -> pa.Table:
    doubled = [value for value in table.column("n").to_pylist() for _ in range(2)]
    return pa.table({"n": pa.array(doubled, pa.int64())})


def only_of_even(table: pa.Table) -> pa.Table:
    return table.select(["n"]).filter(pa.array([value % 2 == 0 for value in table.column("n").to_pylist()]))


ROWS = [row(1, "b", n=1), row(2, n=2), row(12, n=4), row(13, "b", n=5), row(3, n=3), row(25, "c", n=6)]


def test_several_rows_of_a_window() -> None:
    plan = make_plan([sliding(20, 10)], ("k",), (), applied=applied_of(every_tuple_twice, {"n": pa.int64()}))
    found = results_of(plan, ROWS)
    check_window_order(found)
    by_place: dict[Place, list[int]] = {}
    for place, values in found:
        by_place.setdefault(place, []).append(values["n"])
    assert {(place[1], *place[4]): values for place, values in by_place.items()} == {
        (-10, "a"): [2, 2, 3, 3],
        (-10, "b"): [1, 1],
        (0, "a"): [2, 2, 3, 3, 4, 4],
        (0, "b"): [1, 1, 5, 5],
        (10, "a"): [4, 4],
        (10, "b"): [5, 5],
        (10, "c"): [6, 6],
        (20, "c"): [6, 6],
    }
    neighbours = [place for place, _ in itertools.groupby(found, key=lambda result: result[0])]
    assert neighbours == list(by_place)


def test_no_rows_of_a_window() -> None:
    applied = applied_of(only_of_even, {"n": pa.int64()})
    found = results_of(make_plan([sliding(10, 10)], ("k",), (), applied=applied), ROWS)
    assert [(place[1], place[4], values) for place, values in found] == [
        (0, ("a",), {"n": 2}),
        (10, ("a",), {"n": 4}),
        (20, ("c",), {"n": 6}),
    ]


def test_no_rows_at_all() -> None:
    def nothing(table: pa.Table) -> pa.Table:
        return table.slice(0, 0).select(["n"])

    for windows in ([sliding(10, 10)], [W.session(us(5))], [W.count(2)]):
        plan = make_plan(windows, ("k",), (), applied=applied_of(nothing, {"n": pa.int64()}))
        assert results_of(plan, ROWS) == []


@pytest.mark.parametrize(
    "returned",
    [
        pa.table({"b": [1.5], "a": [1]}),
        pa.table({"b": pa.array([1.5], pa.float32()), "a": pa.array([1], pa.int8())}),
        pa.record_batch({"a": [1], "b": [1.5]}),
        pd.DataFrame({"b": [1.5], "a": [1]}, index=[7]),
        pd.DataFrame({"a": [1.0], "b": [1.5]}),
    ],
    ids=lambda returned: type(returned).__name__,
)
def test_columns_are_found_by_name_and_cast_where_nothing_is_lost(returned: Any) -> None:
    applied = applied_of(lambda table: returned, {"a": pa.int64(), "b": pa.float64()})
    ((_, values),) = results_of(make_plan([sliding(10, 10)], ("k",), (), applied=applied), [row(1)])
    assert values == {"a": 1, "b": 1.5}


def test_nested_results_and_nulls() -> None:
    kind = pa.struct([("low", pa.int64()), ("many", pa.list_(pa.string()))])
    returned = pa.table({"both": [{"low": None, "many": ["a", None]}, None]})
    applied = applied_of(lambda table: returned, {"both": kind})
    found = results_of(make_plan([sliding(10, 10)], ("k",), (), applied=applied), [row(1)])
    assert [values["both"] for _, values in found] == [{"low": None, "many": ["a", None]}, None]


# Errors


def boom(table: pa.Table) -> pa.Table:
    raise ValueError("no stops")


def error_of(function: Callable[[Any], Any], schema: dict[str, pa.DataType], keys: Sequence[str] = ("k",)) -> str:
    plan = make_plan([sliding(10, 10)], keys, (), applied=applied_of(function, schema))
    with pytest.raises(MuntinError) as error:
        results_of(plan, [row(13, "b")])
    return str(error.value)


def window_of_error() -> str:
    title = sliding(10, 10).title
    start, end = (f"1970-01-01T00:00:00.0000{edge}Z" for edge in (10, 20))
    return f"window {title} [{start}, {end})"


def test_a_function_that_fails() -> None:
    expected = f"The function boom failed on {window_of_error()} of key {{'k': 'b'}}: ValueError: no stops"
    assert error_of(boom, {"n": pa.int64()}) == expected


def test_a_function_that_fails_without_keys() -> None:
    expected = f"The function boom failed on {window_of_error()}: ValueError: no stops"
    assert error_of(boom, {"n": pa.int64()}, ()) == expected


def test_the_cause_of_a_failure_is_kept() -> None:
    plan = make_plan([sliding(10, 10)], (), (), applied=applied_of(boom, {"n": pa.int64()}))
    with pytest.raises(MuntinError) as error:
        results_of(plan, [row(1)])
    assert isinstance(error.value.__cause__, ValueError)


def test_the_window_that_failed_is_named_among_many() -> None:
    def fails_on_seven(table: pa.Table) -> pa.Table:
        assert 7 not in table.column("n").to_pylist(), "seven"
        return table.select(["n"])

    windows = [sliding(10, 10, name="short"), sliding(100, 100, name="long")]
    plan = make_plan(windows, ("k",), (), applied=applied_of(fails_on_seven, {"n": pa.int64()}))
    rows = [row(t, k, n=7 if (t, k) == (55, "b") else 1) for t in range(60) for k in ("a", "b", "c")]
    with pytest.raises(MuntinError, match=r"window short \[.*00\.000050.*, .*00\.000060.*\) of key {'k': 'b'}.*seven"):
        results_of(plan, rows)


@pytest.mark.parametrize(
    "returned",
    [pa.table({"a": [1]}), pa.table({"n": [1], "more": [2]}), pa.table({}), pd.DataFrame({"N": [1]})],
)
def test_other_columns_than_the_schema_says(returned: Any) -> None:
    message = error_of(lambda table: returned, {"n": pa.int64()})
    assert message.startswith("The function <lambda> returned the columns [")
    assert message.endswith(f"for {window_of_error()} of key {{'k': 'b'}}; the schema says n bigint.")


@pytest.mark.parametrize(
    ("returned", "kinds"),
    [
        (pa.table({"n": ["many"]}), "n string"),
        (pa.table({"n": [1.5]}), "n double"),
        (pa.table({"n": pa.array([2**63], pa.uint64())}), "n uint64"),
        (pa.table({"n": [[1]]}), "n array<bigint>"),
        (pd.DataFrame({"n": ["many"]}), "n .*string"),
    ],
)
def test_other_types_than_the_schema_says(returned: Any, kinds: str) -> None:
    with pytest.raises(MuntinError, match=f"^The function <lambda> returned {kinds} for window .*: 'b'}}; the schema"):
        results_of(
            make_plan([sliding(10, 10)], ("k",), (), applied=applied_of(lambda table: returned, {"n": pa.int64()})),
            [row(13, "b")],
        )


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (["12"], pa.int64()),
        ([12], pa.string()),
        ([5], pa.bool_()),
        ([True], pa.int64()),
        (pa.array([5], pa.timestamp("us")), pa.int64()),
        ([{"a": 1}], pa.struct([("b", pa.int64())])),
        ([["12"]], pa.list_(pa.int64())),
    ],
    ids=str,
)
def test_types_that_only_arrow_takes_for_one_another(values: Any, kind: pa.DataType) -> None:
    message = error_of(lambda table: pa.table({"n": values}), {"n": kind})
    assert f"the schema says n {spark_name(kind)}." in message


@pytest.mark.parametrize(("returned", "kind"), [(None, "NoneType"), ([1], "list"), ({"n": 1}, "dict"), (3, "int")])
def test_what_is_not_a_table(returned: Any, kind: str) -> None:
    assert error_of(lambda table: returned, {"n": pa.int64()}) == (
        f"The function <lambda> returned {kind} for {window_of_error()} of key {{'k': 'b'}}; it must return an Arrow "
        "table or a pandas frame with the columns n bigint."
    )


@pytest.mark.parametrize(
    "frame",
    [
        pd.DataFrame({"n": [1, "two"]}),
        pd.DataFrame({"n": [object()]}),
        pd.DataFrame([[1, 2]], columns=["n", "n"]),
    ],
    ids=["mixed", "objects", "twice"],
)
def test_a_frame_that_is_not_a_table(frame: pd.DataFrame) -> None:
    message = error_of(lambda table: frame, {"n": pa.int64()})
    assert message.startswith(
        f"The function <lambda> returned a frame for {window_of_error()} of key {{'k': 'b'}} that"
    )


def test_a_function_without_a_name() -> None:
    message = error_of(functools.partial(boom), {"n": pa.int64()})
    assert message.startswith("The function functools.partial(<function boom")


# Any windows, in tables and in streams

SUMMARY = {"count": pa.int64(), "first": TIME, "last": TIME, "total": pa.int64(), "ns": pa.list_(pa.int64())}


def summary(table: pa.Table) -> pa.Table:
    times, ns = table.column("t"), table.column("n").to_pylist()
    return pa.table(
        {
            "count": [table.num_rows],
            "first": times[:1],
            "last": times[-1:],
            "total": [sum(n for n in ns if n is not None)],
            "ns": pa.array([ns], pa.list_(pa.int64())),
        }
    )


def frame_summary(frame: pd.DataFrame) -> pd.DataFrame:
    ns = [None if math.isnan(n) else int(n) for n in frame["n"]]
    told = {"count": len(frame), "first": frame["t"].iloc[0], "last": frame["t"].iloc[-1], "total": frame["n"].sum()}
    return pd.DataFrame({**{name: [value] for name, value in told.items()}, "ns": [ns]})


NAIVE: dict[str, Aggregation] = {
    "count": len,
    "first": lambda rows: rows[0]["t"],
    "last": lambda rows: rows[-1]["t"],
    "total": lambda rows: sum(each["n"] for each in rows if each["n"] is not None),
    "ns": lambda rows: [each["n"] for each in rows],
}
FUNCTIONS = st.sampled_from([summary, frame_summary])
COLUMNS = st.sampled_from([("t", "n"), ("k", "n", "w", "t"), ("w", "t", "x", "n")])
COMPRESSIONS = st.sampled_from([NEVER_COMPRESSED, Compression(0, "lz4"), Compression(5, "zstd", 1)])


def oracle_of(plan: Plan, watermark: int = 0) -> naive_models.Stream:
    assert plan.layout.tuples is not None
    columns = [name for name in plan.layout.tuples.names if name != MEMBERSHIP]

    def in_order(of: Aggregation) -> Aggregation:
        return lambda rows: of(naive_models.in_order(rows, columns))

    over_panes = {name: in_order(of) for name, of in NAIVE.items()}
    return naive_models.Stream(plan.windows, plan.keys, columns, over_panes, NAIVE, watermark, plan.delay)


def plan_of(
    windows: Sequence[W.Window],
    keys: tuple[str, ...],
    function: Callable[[Any], Any],
    columns: tuple[str, ...],
    shards: tuple[int, ...],
    compression: Compression = NEVER_COMPRESSED,
) -> Plan:
    applied = applied_of(function, SUMMARY, columns)
    streaming = compression is not NEVER_COMPRESSED
    return make_plan(
        windows, keys, (), shards=shards, types=TYPES, applied=applied, compression=compression, streaming=streaming
    )


@pytest.mark.parametrize("model", MODELS)
def test_any_table_is_naive(model: str) -> None:
    @settings(max_examples=10)
    @given(
        MODELS[model],
        strategies.KEYS,
        FUNCTIONS,
        COLUMNS,
        strategies.SHARDS,
        strategies.growing_rows(max_size=25),
        LIMITS,
        st.data(),
    )
    def is_naive(
        window: W.Window,
        keys: tuple[str, ...],
        function: Callable[[Any], Any],
        columns: tuple[str, ...],
        shards: tuple[int, ...],
        rows: list[Row],
        limits: tuple[int, int, int],
        data: st.DataObject,
    ) -> None:
        plan = plan_of([window], keys, function, columns, shards)
        with tiny(*limits):
            shares = list(answer(plan, data.draw(strategies.cuts(rows))))
        for share in shares:
            check_window_order(share)
        expected = oracle_of(plan, BEFORE_ALL).batch(rows, BEHIND_ALL)
        check([result for share in shares for result in share], expected.answers)

    is_naive()


def check_stream(plan: Plan, steps: Sequence[Step]) -> None:
    stream, oracle = Stream(plan), oracle_of(plan)
    for step in [*steps, CLOSING]:
        rows = [shifted(each, oracle.watermark) for each in step.rows]
        watermark = oracle.watermark + step.advance
        found, _ = stream.run(step, rows, watermark)
        expected = oracle.batch(rows, watermark)
        check([each for share in found for each in share], expected.answers)
        assert stream.total("results") == len(expected.answers)
        check_state(stream)


@pytest.mark.parametrize("model", MODELS)
def test_any_stream_is_naive(model: str) -> None:
    @settings(max_examples=10)
    @given(MODELS[model], strategies.KEYS, COLUMNS, strategies.SHARDS, COMPRESSIONS, STEPS, LIMITS)
    def is_naive(
        window: W.Window,
        keys: tuple[str, ...],
        columns: tuple[str, ...],
        shards: tuple[int, ...],
        compression: Compression,
        steps: list[Step],
        limits: tuple[int, int, int],
    ) -> None:
        with tiny(*limits):
            check_stream(plan_of([window], keys, summary, columns, shards, compression), steps)

    is_naive()


@settings(max_examples=20)
@given(strategies.models(), strategies.KEYS, COLUMNS, strategies.SHARDS, COMPRESSIONS, STEPS, LIMITS)
def test_any_stream_of_several_models_is_naive(
    windows: list[W.Window],
    keys: tuple[str, ...],
    columns: tuple[str, ...],
    shards: tuple[int, ...],
    compression: Compression,
    steps: list[Step],
    limits: tuple[int, int, int],
) -> None:
    with tiny(*limits):
        check_stream(plan_of(windows, keys, summary, columns, shards, compression), steps)


def test_an_error_in_a_stream_leaves_the_state_as_it_was() -> None:
    plan = make_plan([sliding(10, 10)], ("k",), (), applied=applied_of(boom, {"n": pa.int64()}), streaming=True)
    stream = Stream(plan)
    stream.batch([row(1)], 0)
    header = stream.states[0].header
    with pytest.raises(MuntinError, match="no stops"):
        stream.batch([], 100)
    assert stream.states[0].header == header
