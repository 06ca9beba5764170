"""The command line: `python -m examples.trading`, from the project's folder."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from examples.trading.sink import Database

from muntin.errors import MuntinError

ROOT = Path(__file__).parents[2]
RECORDED = ROOT.parent / "shared" / "data" / "taq_highfrequency"


def main(arguments: Sequence[str] | None = None) -> int:
    given = _parser().parse_args(arguments)
    # rich, matplotlib and Spark are imported when they are needed, and no earlier
    from examples.trading.app import Settings, run
    from examples.trading.question import Question

    try:
        question = Question(
            window=given.window,
            slide=given.slide,
            horizon=given.horizon,
            degree=given.degree,
            stocks=given.stocks,
            model=given.model,
            workers=given.workers,
        )
        database = Database.of(given.database) if given.database else None
        return run(
            Settings(
                given.out, given.quotes, question, given.seconds, given.speed, given.at_once, database, given.state
            )
        )
    except MuntinError as error:
        print(f"trading: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("trading: stopped.", file=sys.stderr)
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m examples.trading",
        description="Quotes of stocks as a stream, a polynomial through every window, predictions in a database.",
    )
    source = parser.add_argument_group("source")
    source.add_argument("--seconds", type=_positive, default=30, help="how long quotes are sent (30)")
    source.add_argument("--stocks", type=_whole, default=6, help="how many stocks there are (6)")
    source.add_argument("--speed", type=_positive, default=300, help="how much faster time passes there (300)")
    source.add_argument("--at-once", action="store_true", help="send all quotes at once, without waiting")
    source.add_argument("--quotes", type=Path, default=RECORDED, help="folder of recorded quotes, made up if not there")
    operator = parser.add_argument_group("operator")
    operator.add_argument("--window", default="5 minutes", help="what a curve goes through (5 minutes)")
    operator.add_argument("--slide", default="30 seconds", help="how often there is a new one (30 seconds)")
    operator.add_argument("--horizon", default="1 minute", help="how far it looks ahead (1 minute)")
    operator.add_argument("--degree", type=int, default=2, help="degree of the polynomial (2)")
    models = ("auto", "keyed", "active", "agnostic")
    operator.add_argument("--model", choices=models, default="auto", help="how windows go to workers (auto)")
    operator.add_argument("--workers", type=_whole, help="how many (as many as there are cores)")
    sink = parser.add_argument_group("sink")
    sink.add_argument(
        "--database",
        nargs="+",
        metavar="WORD",
        help="a DB-API driver and what its connect() takes, such as: psycopg host=localhost dbname=market "
        "(sqlite3 OUT/trading.db)",
    )
    sink.add_argument("--out", type=Path, default=Path("trading-results"), help="where results go (trading-results)")
    sink.add_argument(
        "--state", type=Path, help="folder of the stream, which goes on there next time (a temporary one)"
    )
    return parser


def _positive(text: str) -> float:
    number = float(text)
    if not 0 < number < float("inf"):
        raise argparse.ArgumentTypeError(f"must be more than zero, got {text}")
    return number


def _whole(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"must be a whole number from 1, got {text}")
    return number


if __name__ == "__main__":
    sys.exit(main())
