"""The command line: run `python -m examples.trading` in the project's folder."""

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
    options = _parser().parse_args(arguments)
    # rich, matplotlib and Spark are slow to import
    from examples.trading.app import Settings, run
    from examples.trading.question import Question

    try:
        question = Question(
            window=options.window,
            slide=options.slide,
            horizon=options.horizon,
            degree=options.degree,
            stocks=options.stocks,
            model=options.model,
            workers=options.workers,
        )
        database = Database.of(options.database) if options.database else None
        return run(
            Settings(
                options.out,
                options.quotes,
                question,
                options.seconds,
                options.speed,
                options.at_once,
                database,
                options.state,
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
    source.add_argument("--seconds", type=_positive, default=30, help="seconds of sending quotes (30)")
    source.add_argument("--stocks", type=_whole, default=6, help="number of stocks (6)")
    source.add_argument("--speed", type=_positive, default=300, help="speed of market time relative to real time (300)")
    source.add_argument("--at-once", action="store_true", help="send all quotes at once, without waiting")
    source.add_argument(
        "--quotes", type=Path, default=RECORDED, help="folder of recorded quotes; without it, they are generated"
    )
    operator = parser.add_argument_group("operator")
    operator.add_argument("--window", default="5 minutes", help="size of the window of a curve (5 minutes)")
    operator.add_argument("--slide", default="30 seconds", help="time between windows (30 seconds)")
    operator.add_argument(
        "--horizon", default="1 minute", help="time from the end of a window to its prediction (1 minute)"
    )
    operator.add_argument("--degree", type=int, default=2, help="degree of the polynomial (2)")
    models = ("auto", "keyed", "active", "agnostic")
    operator.add_argument("--model", choices=models, default="auto", help="how windows are assigned to workers (auto)")
    operator.add_argument("--workers", type=_whole, help="number of workers (one per core)")
    sink = parser.add_argument_group("sink")
    sink.add_argument(
        "--database",
        nargs="+",
        metavar="WORD",
        help="a DB-API driver and the arguments of its connect(), such as: psycopg host=localhost dbname=market "
        "(sqlite3 OUT/trading.db)",
    )
    sink.add_argument(
        "--out", type=Path, default=Path("trading-results"), help="folder for the results (trading-results)"
    )
    sink.add_argument(
        "--state", type=Path, help="folder of quotes and checkpoint, to continue the stream later (a temporary one)"
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
