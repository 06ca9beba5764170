"""Describes the differences between the query that wrote a checkpoint and the query that resumes from it.

Only differences that change the meaning of the state are listed. A renamed aggregate is not one, nor is an aggregate
that can be computed from the partials that are kept anyway.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

from muntin.engine.description import DESCRIBED, FUNCTION, PAIRS, Description, of_tuples
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
    """Every difference that matters to the state; an empty list if the descriptions show none."""
    if bool(old["join"]) != bool(new["join"]):
        return [_from_to("", "a join" if old["join"] else "a query", "a join" if new["join"] else "a query")]
    differences = [
        *_times(old, new),
        *_windows(old["windows"], new["windows"]),
        *_keys(old, new),
        *_types(old, new),
        *_aggregates(old, new),
        *_applied(old, new),
        *_features(old, new),
    ]
    return differences or [*_order(old, new)] or [*_rest(old, new)]


def _from_to(what: str, old: object, new: object) -> str:
    return f"{what} {old} → {new}".strip()


def _times(old: Description, new: Description) -> Iterator[str]:
    if old["time"] != new["time"]:
        yield _from_to("time column", repr(old["time"]), repr(new["time"]))


def _windows(old: Sequence[Mapping[str, Any]], new: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    removed, added = _unmatched(old, new), _unmatched(new, old)
    if not removed and not added:
        if old != new:
            yield _from_to("order of windows", ", ".join(map(_window, old)), ", ".join(map(_window, new)))
        return
    single = len(old) == len(new) == 1
    for window in removed:
        successor = next((candidate for candidate in added if candidate["function"] == window["function"]), None)
        if successor is not None:
            added.remove(successor)
            what = "window" if single else f"window {_window(window)}:"
            yield from _arguments(what, window["arguments"], successor["arguments"])
        elif single:
            yield _from_to("window", _window(window), _window(added.pop()))
        else:
            yield f"window {_window(window)} removed"
    yield from (f"new window {_window(window)}" for window in added)


def _unmatched(items: Sequence[Any], others: Sequence[Any]) -> list[Any]:
    """The difference of two multisets: the items without a match among the others."""
    unused = list(others)
    unmatched = []
    for item in items:
        if item in unused:
            unused.remove(item)
        else:
            unmatched.append(item)
    return unmatched


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
    """The Spark name of an Arrow type."""
    return _SPARK_TYPES.get(arrow) or _DECIMAL.sub(r"decimal(\1,\2)", arrow)


def _aggregates(old: Description, new: Description) -> Iterator[str]:
    before, after = ({aggregate["name"]: aggregate for aggregate in query["aggregates"]} for query in (old, new))
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


def _state(query: Description) -> set[str]:
    """Everything that the state keeps, for all aggregates."""
    kept = {partial for partials in query["partials"] for partial in partials}
    kept |= {partial for aggregate in query["aggregates"] for partial in aggregate["keeps"]}
    return kept | {of_tuples(name) for name in query["tuples"]}


def _applied(old: Description, new: Description) -> Iterator[str]:
    was, now = old["applied"], new["applied"]
    before, after = (None if applied is None else applied["what"] for applied in (was, now))
    if before != after and old["tuples"] != new["tuples"]:
        yield _from_to("what is computed:", _COMPUTED.get(before, before), _COMPUTED.get(after, after))
    elif before == after and before is not None:
        reader = "joined rows:" if after == PAIRS else "the function:"
        for name in _unmatched(was["columns"], now["columns"]):
            yield f"{reader} column {name!r} removed" if not name.startswith(PREFIX) else f"{reader} a filter removed"
        for name in _unmatched(now["columns"], was["columns"]):
            yield f"{reader} new column {name!r}" if not name.startswith(PREFIX) else f"{reader} a new filter"


_COMPUTED = {None: "aggregates", FUNCTION: "a function of windows"}


def _features(old: Description, new: Description) -> Iterator[str]:
    """Differences between features, by what each says of itself (`Feature.described`)."""
    for name, was, now in _feature_pairs(old, new):
        feature = now or was
        if was and now:
            for part in feature.get("compared", ()):
                if was.get(part) != now.get(part):
                    values = (
                        repr(value) if isinstance(value, str) else value for value in (was.get(part), now.get(part))
                    )
                    yield _from_to(f"{part} of {feature['call']}", *values)
        elif "choice" in feature:
            choices = [feature["choice"] if each else f"not {feature['choice']}" for each in (was, now)]
            yield _from_to(f"{feature['of']} of {feature['call']}", *choices)
        else:
            yield f"{feature.get('written', f'option {name!r}')} {'added' if now else 'removed'}"


def _feature_pairs(old: Description, new: Description) -> Iterator[tuple[str, Mapping[str, Any], Mapping[str, Any]]]:
    """Each feature by its name, and its description in both queries, empty where a query lacks it."""
    names = [name for query in (new, old) for name in query if name not in DESCRIBED]
    for name in dict.fromkeys(names):
        was, now = old.get(name) or {}, new.get(name) or {}
        if was or now:
            yield name, was, now


def _order(old: Description, new: Description) -> Iterator[str]:
    """The order of aggregates, if nothing else differs: partials are stored in the order of their first use."""
    contents = [sorted(chain(*query["partials"])) + sorted(query["tuples"]) for query in (old, new)]
    if contents[0] == contents[1] and (old["partials"] != new["partials"] or old["tuples"] != new["tuples"]):
        names = [", ".join(aggregate["name"] for aggregate in query["aggregates"]) for query in (old, new)]
        yield _from_to("order of aggregates", *names)


def _rest(old: Description, new: Description) -> Iterator[str]:
    """Differences in settings that rarely change the state, listed only if nothing else differs."""
    for _, was, now in _feature_pairs(old, new):
        if was.get("written") != now.get("written"):
            yield _from_to("", was.get("written"), now.get("written"))
    columns = [[name for name in query["types"] if not name.startswith(PREFIX)] for query in (old, new)]
    yield from (f"column {name!r} is no longer read" for name in _unmatched(columns[0], columns[1]))
    yield from (f"column {name!r} is read now" for name in _unmatched(columns[1], columns[0]))
