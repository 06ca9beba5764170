"""What differs between the query that made a checkpoint and the one that is to go on with it, in words.

Only what changes the meaning of the state is listed: an aggregate with another name, or one that follows from what is
kept anyway, is not.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

from muntin.engine.description import PAIRS, Description, of_tuples
from muntin.engine.hidden import PREFIX
from muntin.written import call

_SPARK_TYPES = {
    "bool": "boolean",
    "int8": "tinyint",
    "int16": "smallint",
    "int32": "int",
    "int64": "bigint",
    "date32[day]": "date",
    "timestamp[us, tz=UTC]": "timestamp",
    "timestamp[us]": "timestamp_ntz",
    "duration[us]": "interval day to second",
}
_DECIMAL = re.compile(r"decimal128\((\d+), (\d+)\)")


def changes(old: Description, new: Description) -> list[str]:
    """Every difference that matters to the state; none if nothing in the descriptions tells."""
    if old["join"] != new["join"]:
        return [_from_to("", "a join" if old["join"] else "a query", "a join" if new["join"] else "a query")]
    found = [
        *_times(old, new),
        *_windows(old["windows"], new["windows"]),
        *_keys(old, new),
        *_types(old, new),
        *_aggregates(old, new),
        *_applied(old, new),
        *_features(old, new),
    ]
    return found or [*_order(old, new)] or [*_rest(old, new)]


def _from_to(what: str, old: object, new: object) -> str:
    return f"{what} {old} → {new}".strip()


def _times(old: Description, new: Description) -> Iterator[str]:
    if old["time"] != new["time"]:
        yield _from_to("time column", repr(old["time"]), repr(new["time"]))


def _windows(old: Sequence[Mapping[str, Any]], new: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    gone, came = _unmatched(old, new), _unmatched(new, old)
    if not gone and not came:
        if old != new:
            yield _from_to("order of windows", ", ".join(map(_window, old)), ", ".join(map(_window, new)))
        return
    alone = len(old) == len(new) == 1
    for window in gone:
        same_model = next((each for each in came if each["function"] == window["function"]), None)
        if same_model is not None:
            came.remove(same_model)
            what = "window" if alone else f"window {_window(window)}:"
            yield from _arguments(what, window["arguments"], same_model["arguments"])
        elif alone:
            yield _from_to("window", _window(window), _window(came.pop()))
        else:
            yield f"window {_window(window)} removed"
    yield from (f"new window {_window(window)}" for window in came)


def _unmatched(some: Sequence[Any], others: Sequence[Any]) -> list[Any]:
    """Those that are not among the others, as often as they are there."""
    left = list(others)
    found = []
    for each in some:
        if each in left:
            left.remove(each)
        else:
            found.append(each)
    return found


def _window(window: Mapping[str, Any]) -> str:
    return call(f"W.{window['function']}", **window["arguments"])


def _arguments(what: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[str]:
    for name in dict.fromkeys([*old, *new]):
        if name not in new:
            yield f"{what} {name} {old[name]} removed"
        elif name not in old:
            yield f"{what} new {name} {new[name]}"
        elif old[name] != new[name]:
            yield _from_to(f"{what} {name}", old[name], new[name])


def _keys(old: Description, new: Description) -> Iterator[str]:
    before, after = old["keys"], new["keys"]
    yield from (f"key {key!r} removed" for key in before if key not in after)
    yield from (f"new key {key!r}" for key in after if key not in before)
    if before != after and sorted(before) == sorted(after):
        yield _from_to("order of keys", ", ".join(before), ", ".join(after))


def _types(old: Description, new: Description) -> Iterator[str]:
    for name in _retyped(old, new):
        what = "key" if name in new["keys"] else "time column" if name == new["time"] else "column"
        yield _from_to(f"{what} {name!r}", _type(old["types"][name]), _type(new["types"][name]))


def _retyped(old: Description, new: Description) -> list[str]:
    before, after = old["types"], new["types"]
    return [name for name in before if name in after and before[name] != after[name]]


def _type(arrow: str) -> str:
    """The type as Spark calls it."""
    return _SPARK_TYPES.get(arrow) or _DECIMAL.sub(r"decimal(\1,\2)", arrow)


def _aggregates(old: Description, new: Description) -> Iterator[str]:
    before, after = ({each["name"]: each for each in which["aggregates"]} for which in (old, new))
    states = _state(old), _state(new)
    retyped = {*_retyped(old, new)}
    for name, was in before.items():
        now = after.get(name)
        if now is None:
            if {*was["keeps"]} - states[1]:
                yield f"aggregate {name} removed ({was['written']})" if was["written"] else f"aggregate {name} removed"
        elif was["keeps"] != now["keeps"] and _matters(was, now, states):
            if was["written"] != now["written"]:
                yield _from_to(f"aggregate {name}", was["written"], now["written"])
            elif not retyped & {*now["columns"]}:
                yield f"aggregate {name} keeps another state than before, or has another filter"
    for name, now in after.items():
        if name not in before and {*now["keeps"]} - states[0]:
            yield f"new aggregate {name} = {now['written']}" if now["written"] else f"new aggregate {name}"


def _matters(was: Mapping[str, Any], now: Mapping[str, Any], states: tuple[set[str], set[str]]) -> bool:
    return bool({*was["keeps"]} - states[1] or {*now["keeps"]} - states[0])


def _state(described: Description) -> set[str]:
    """All that is kept, for whatever aggregate."""
    kept = {each for leaves in described["partials"] for each in leaves}
    kept |= {each for aggregate in described["aggregates"] for each in aggregate["keeps"]}
    return kept | {of_tuples(name) for name in described["tuples"]}


def _applied(old: Description, new: Description) -> Iterator[str]:
    was, now = old["applied"], new["applied"]
    before, after = (None if each is None else each["what"] for each in (was, now))
    if before != after and old["tuples"] != new["tuples"]:
        yield _from_to("what is computed:", before or "aggregates", after or "aggregates")
    elif before == after and before is not None:
        reader = "joined rows:" if after == PAIRS else "the function:"
        for name in _unmatched(was["columns"], now["columns"]):
            yield f"{reader} column {name!r} removed" if not name.startswith(PREFIX) else f"{reader} a filter removed"
        for name in _unmatched(now["columns"], was["columns"]):
            yield f"{reader} new column {name!r}" if not name.startswith(PREFIX) else f"{reader} a new filter"


_COMPARED = {"approximate": ("seed",), "shed": ("method",), "active": ("batch",)}
"""What the meaning of the state depends on, of the features that Muntin comes with; of others, all that they say."""
_CALLS = {"active": "parallel"}


def _features(old: Description, new: Description) -> Iterator[str]:
    """What features say of themselves. The parts that every query has are no mappings with these names."""
    names = {name for each in (old, new) for name, part in each.items() if isinstance(part, dict) or part is None}
    for name in sorted(names - {"applied", "types"}, key=_place):
        was, now = old.get(name), new.get(name)
        if not was and not now:
            continue
        call = f"{_CALLS.get(name, name)}()"
        if not was or not now:
            yield _added_or_removed(name, call, was, now)
            continue
        for part in _COMPARED.get(name, sorted({*was, *now} - {"written"})):
            if was.get(part) != now.get(part):
                values = (repr(each.get(part)) if name == "shed" else each.get(part) for each in (was, now))
                yield _from_to(f"{part} of {call}", *values)


def _place(name: str) -> tuple[int, str]:
    known = [*_COMPARED]
    return (known.index(name) if name in known else len(known)), name


def _added_or_removed(name: str, call: str, was: Mapping[str, Any] | None, now: Mapping[str, Any] | None) -> str:
    if name == "active":
        models = ["active" if each else "not active" for each in (was, now)]
        return _from_to(f"worker model of {call}", *models)
    written = (now or was or {}).get("written", call)
    return f"{written} {'added' if now else 'removed'}"


def _order(old: Description, new: Description) -> Iterator[str]:
    """Where nothing else differs: partials are kept in the order in which aggregates need them first."""
    alike = [sorted(chain(*each["partials"])) + sorted(each["tuples"]) for each in (old, new)]
    if alike[0] == alike[1] and (old["partials"] != new["partials"] or old["tuples"] != new["tuples"]):
        names = [", ".join(each["name"] for each in which["aggregates"]) for which in (old, new)]
        yield _from_to("order of aggregates", *names)


def _rest(old: Description, new: Description) -> Iterator[str]:
    """What is left, where it follows from settings that seldom change the state."""
    for policy in ("approximate", "shed"):
        written = [(each.get(policy) or {}).get("written") for each in (old, new)]
        if written[0] != written[1]:
            yield _from_to("", *written)
    columns = [[name for name in each["types"] if not name.startswith(PREFIX)] for each in (old, new)]
    yield from (f"column {name!r} is no longer read" for name in _unmatched(columns[0], columns[1]))
    yield from (f"column {name!r} is read now" for name in _unmatched(columns[1], columns[0]))
