"""Finds the window of a statement: a table function after FROM, or Spark's `window()` after GROUP BY.

Parsers of SQL do not know these, so they are read from the tokens, and a name takes their place.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from muntin import windows as W
from muntin.errors import MuntinError
from muntin.statements.positions import refuse
from muntin.windows import Window

ROWS, WINDOW = "__muntin_rows", "__muntin_window"
"""What takes the place of the table function, and of `window()`."""


@dataclass(frozen=True)
class Function:
    """A table function: its arguments behind the table and the time, and the window that they say."""

    arguments: tuple[str, ...]
    optional: tuple[str, ...]
    window: Callable[..., Window]


FUNCTIONS = {
    "TUMBLE": Function(("SIZE",), ("OFFSET",), lambda size, offset="0 seconds": W.tumbling(size, offset=offset)),
    "HOP": Function(
        ("SLIDE", "SIZE"), ("OFFSET",), lambda slide, size, offset="0 seconds": W.sliding(size, slide, offset=offset)
    ),
    "CUMULATE": Function(
        ("STEP", "SIZE"), ("OFFSET",), lambda step, size, offset="0 seconds": W.cumulative(size, step, offset=offset)
    ),
    "SESSION": Function(("GAP",), (), W.session),
}
"""In the order of Flink's arguments."""


@dataclass(frozen=True)
class Windowing:
    """The window of a statement, and the statement without it."""

    text: str
    """The statement with a name in its place, as long as before: positions stay what they were."""
    window: Window
    time: tuple[str, ...]
    """A column, in parts where it has dots."""
    table: tuple[str, ...] | None
    """The table of a table function; None if the statement names it."""
    keys: tuple[str, ...] = ()
    """The keys of PARTITION BY."""
    at: int = 0


@dataclass
class _Reader:
    """Goes through the tokens of a statement."""

    text: str
    tokens: Sequence[Any]
    place: int = 0
    end: int = field(init=False)

    def __post_init__(self) -> None:
        self.end = len(self.tokens)

    def word(self, ahead: int = 0) -> str:
        """A token in capitals; empty behind the end."""
        place = self.place + ahead
        return self.tokens[place].text.upper() if place < self.end else ""

    @property
    def at(self) -> int:
        return int(self.tokens[self.place].start) if self.place < self.end else len(self.text)

    def take(self, word: str) -> bool:
        if self.word() == word:
            self.place += 1
            return True
        return False

    def expect(self, word: str, why: str) -> None:
        if not self.take(word):
            refuse(self.text, self.at, why)

    def value(self) -> str:
        """The next token: a name or a literal."""
        if self.place >= self.end:
            refuse(self.text, len(self.text), "the statement ends too early.")
        self.place += 1
        return str(self.tokens[self.place - 1].text)

    def names(self) -> tuple[str, ...]:
        """A name with dots."""
        parts = [self.value()]
        while self.take("."):
            parts.append(self.value())
        return tuple(parts)


def find(text: str, tokens: Sequence[Any]) -> Windowing:
    """The window of a statement; an error if it has none, or several."""
    found = []
    for place in range(len(tokens)):
        reader = _Reader(text, tokens, place)
        if (
            reader.word() in FUNCTIONS
            and reader.word(1) == "("
            and _word(tokens, place - 1) in ("FROM", "(", "JOIN", ",")
        ):
            found.append(_table_function(reader))
        elif reader.word() in ("WINDOW", "SESSION_WINDOW") and reader.word(1) == "(":
            found.append(_spark_window(reader))
    if not found:
        refuse(
            text,
            0,
            f"the statement has no window; use one of {', '.join(FUNCTIONS)} after FROM, such as TABLE(TUMBLE(TABLE "
            "rides, DESCRIPTOR(pickup), INTERVAL '5' MINUTES)), or GROUP BY window(pickup, '5 minutes').",
        )
    if len(found) > 1:
        refuse(text, found[1].at, "the statement has a second window; write a statement for each.")
    return found[0]


def _word(tokens: Sequence[Any], place: int) -> str:
    return tokens[place].text.upper() if place >= 0 else ""


def _table_function(reader: _Reader) -> Windowing:
    begin = reader.at
    name = reader.value().upper()
    function = FUNCTIONS[name]
    before = reader.tokens[: reader.place - 1]
    wrapped = len(before) > 1 and before[-1].text == "(" and before[-2].text.upper() == "TABLE"
    if wrapped:
        begin = int(before[-2].start)
    reader.expect("(", f"{name} needs arguments in brackets.")
    if reader.take("DATA"):
        reader.expect("=>", "DATA needs => and a table.")
    reader.expect("TABLE", f"the first argument of {name} is a table: TABLE rides.")
    table = reader.names()
    keys = _partition(reader)
    reader.expect(",", f"{name} needs a time: DESCRIPTOR(pickup).")
    if reader.take("TIMECOL"):
        reader.expect("=>", "TIMECOL needs => and a column.")
    reader.expect("DESCRIPTOR", f"the second argument of {name} is a time: DESCRIPTOR(pickup).")
    reader.expect("(", "DESCRIPTOR needs a column in brackets.")
    time = reader.value()
    reader.expect(")", "DESCRIPTOR has a single column, which must be one of the table.")
    given: dict[str, str] = {}
    while reader.take(","):
        _argument(reader, name, function, given)
    at = reader.at
    reader.expect(")", f"{name} has the arguments {_listed(function)}.")
    missing = next((argument for argument in function.arguments if argument not in given), None)
    if missing is not None:
        refuse(reader.text, at, f"{name} has no {missing}; its arguments are {_listed(function)}.")
    if wrapped:
        reader.expect(")", f"TABLE({name}(...)) needs a bracket at its end.")
    window = _made(reader.text, begin, lambda: function.window(**{key.lower(): value for key, value in given.items()}))
    text = _replaced(reader, begin, ROWS)
    return Windowing(text, window, (time,), table, keys, begin)


def _listed(function: Function) -> str:
    return ", ".join(
        ["TABLE ...", "DESCRIPTOR(...)", *function.arguments, *(f"[{each}]" for each in function.optional)]
    )


def _partition(reader: _Reader) -> tuple[str, ...]:
    if not reader.take("PARTITION BY"):
        if not reader.take("PARTITION"):
            return ()
        reader.expect("BY", "PARTITION needs BY.")
    if not reader.take("("):
        return (reader.value(),)
    keys = [reader.value()]
    while reader.take(","):
        keys.append(reader.value())
    reader.expect(")", "the keys of PARTITION BY end with a bracket.")
    return tuple(keys)


def _argument(reader: _Reader, name: str, function: Function, given: dict[str, str]) -> None:
    """An interval: the next one, or by its name."""
    at = reader.at
    argument = next((each for each in (*function.arguments, *function.optional) if each not in given), None)
    if reader.word(1) == "=>":
        argument = reader.value().upper()
        reader.expect("=>", "")
    if argument is None or argument not in (*function.arguments, *function.optional) or argument in given:
        refuse(reader.text, at, f"{name} has the arguments {_listed(function)}, each once.")
    given[argument] = _interval(reader)


def _interval(reader: _Reader) -> str:
    reader.expect("INTERVAL", "a length is an interval, such as INTERVAL '5' MINUTES.")
    sign = "-" if reader.take("-") else ""
    number = reader.value()
    if reader.word() in (",", ")"):
        return sign + number  # Spark's INTERVAL '5 minutes'
    unit = reader.value()
    if reader.word() == "TO":
        refuse(reader.text, reader.at, "an interval has a single unit here, such as INTERVAL '90' MINUTES.")
    return f"{sign}{number} {unit.lower()}"


def _spark_window(reader: _Reader) -> Windowing:
    begin = reader.at
    name = reader.value().lower()
    reader.expect("(", "")
    names = reader.names()
    texts = []
    while reader.take(","):
        texts.append(_interval(reader) if reader.word() == "INTERVAL" else reader.value())
    reader.expect(")", f"{name} has a column of the table, and lengths such as '5 minutes'.")
    most = 1 if name == "session_window" else 3
    if not 1 <= len(texts) <= most:
        refuse(reader.text, begin, f"{name} has a time, and {'a gap' if most == 1 else 'a size, a slide and a start'}.")

    def window() -> Window:
        if name == "session_window":
            return W.session(texts[0])
        offset = texts[2] if len(texts) > 2 else "0 seconds"
        return W.sliding(texts[0], texts[1], offset=offset) if len(texts) > 1 else W.tumbling(texts[0])

    made = _made(reader.text, begin, window)
    return Windowing(_replaced(reader, begin, WINDOW), made, names, None, (), begin)


def _made(text: str, at: int, window: Callable[[], Window]) -> Window:
    try:
        return window()
    except MuntinError as error:
        refuse(text, at, str(error), error)


def _replaced(reader: _Reader, begin: int, name: str) -> str:
    """The statement with a name in place of the text from `begin` to the last token that was read."""
    end = int(reader.tokens[reader.place - 1].end) + 1
    rest = "".join("\n" if character == "\n" else " " for character in reader.text[begin + len(name) : end])
    return reader.text[:begin] + name + rest + reader.text[end:]
