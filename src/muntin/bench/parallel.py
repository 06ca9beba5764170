"""Workers for windows, active and agnostic: results/s, latency, skew, bytes (Mencagli 2018, figures 11 to 16).

The query is that of Mencagli et al. (2018), *Harnessing Sliding-Window Execution Semantics for Parallel Stream
Processing*: a polynomial is fitted to every window of a stream of quotes of one key. The latency of a window, T_calc,
is the mean time of one call of that function. The function runs in Spark's processes, so the results carry its time.
The first batches, in which windows fill up, do not count.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pyarrow as pa

from muntin import windows as W
from muntin.bench import parallel_data as data
from muntin.bench import parallel_records as records_of
from muntin.bench.data_sets import SECOND
from muntin.bench.parallel_alone import calls_per_second
from muntin.bench.parallel_fit import Fit
from muntin.bench.parallel_plot import Picture, draw
from muntin.bench.parallel_records import AUTOMATIC
from muntin.bench.parallel_runs import Run, Setting, measure
from muntin.bench.report import Record
from muntin.bench.running import Draw, Running, run_benchmark
from muntin.bench.steady import write_tables
from muntin.features.workers.policy import Model

NO_DATA_BATCHES = "spark.sql.streaming.noDataMicroBatches.enabled"
RATE = 200_000
COMPARED: tuple[Model, ...] = ("active", "agnostic")
TWO = 2
"""The number of workers of the targets."""
STEP = 25
"""Milliseconds that windows slide by when the rate varies."""
BURST = SECOND // 2
"""Microseconds of a window in the runs with skewed sizes."""
FIT = Fit((1, 2, 3, 4))
"""As expensive as the function of Mencagli (2018): there, 14 workers did 100 windows of 200,000 quotes per second."""
SHORT = Fit((2,))
"""A cheap fit, for runs that do not measure the workers."""
LONG = Fit(tuple(range(1, 19)))
"""An expensive fit for windows without overlap. There, a quote is sent for one fit, not for a hundred; the cost of
sending should stay small next to the fit, as with sliding windows."""
SPREAD, SEED = 2.0, 0
"""The parameters of heavy-tailed windows."""
CALLS = 20
"""Calls of the function alone."""
KEYS, HOT = 16, 0.8
"""The number of keys when one is hot, and the share of the hot key."""


@dataclass(frozen=True)
class Sliding:
    """Time windows of figure 11."""

    size: int
    """Seconds."""
    slide: int
    """Milliseconds."""
    length: float
    """Seconds of quotes in a batch."""
    fit: Fit

    @property
    def window(self) -> W.Window:
        return W.sliding(f"{self.size} seconds", f"{self.slide} milliseconds")

    @property
    def title(self) -> str:
        return f"{self.size} s by {self.slide} ms"


@dataclass(frozen=True)
class Scale:
    """The size of the run."""

    rate: int
    """Quotes per second."""
    rounds: int
    """How often runs with a target are repeated in turn."""
    sliding: tuple[Sliding, ...]
    """The targets apply to the first."""
    workers: tuple[int, ...]
    """Numbers of workers besides one and two."""
    chunks: tuple[int, ...]
    """Tuples of a chunk."""
    rates: tuple[int, ...]
    """Quotes per second."""
    by_tuple: tuple[tuple[int, int], ...]
    """Sizes in seconds, and slides in tuples."""
    length: float
    """Seconds of quotes in a batch of all other parts."""
    skewed: int
    """Windows of a batch with skewed sizes."""
    mean: int
    """Mean quotes of such a window."""
    tailed: int
    """Batches of heavy-tailed windows. With few, the balance of the workers depends on luck."""


FULL = Scale(
    rate=RATE,
    rounds=3,
    sliding=(
        Sliding(1, 10, 8.0, FIT),
        Sliding(1, 50, 4.0, FIT),
        Sliding(5, 10, 2.0, SHORT),
        Sliding(5, 50, 2.0, SHORT),
    ),
    workers=(3, 4),
    chunks=(AUTOMATIC, 1_000, 5_000, 20_000),
    rates=(200_000, 400_000, 600_000),
    by_tuple=((1, 4_000), (2, 4_000), (3, 4_000), (3, 5_000), (3, 6_000)),
    length=2.0,
    skewed=24,
    mean=50_000,
    tailed=10,
)
QUICK = Scale(
    rate=RATE // 4,
    rounds=1,
    sliding=(Sliding(1, 50, 2.0, FIT),),
    workers=(),
    chunks=(AUTOMATIC, 5_000),
    rates=(RATE // 4,),
    by_tuple=((1, 4_000),),
    length=1.0,
    skewed=16,
    mean=10_000,
    tailed=4,
)


def run(out: Path, quick: bool = False) -> int:
    """Measure, compare, show and write; 0 if every target is met."""
    scale = QUICK if quick else FULL
    return run_benchmark("parallel", "Workers for windows", out, lambda running: _Bench(running, scale).run())


class _Bench:
    def __init__(self, running: Running, scale: Scale) -> None:
        self._running = running
        self._scale = scale
        self._picture = Picture()
        self._folders = 0

    def run(self) -> tuple[list[Record], Draw]:
        scale = self._scale
        others = len(scale.sliding) - 1
        of_models = len(COMPARED) * (TWO * (scale.rounds + others) + len(scale.workers) * len(scale.sliding))
        other_runs = len(scale.chunks) + len(scale.rates) + len(scale.by_tuple) + TWO * (scale.rounds + 1) + 6 + 2
        self._running.steps(2 + of_models + other_runs)
        # The batch that closes the last windows would have no rows, and so would not count.
        self._running.spark.conf.set(NO_DATA_BATCHES, "false")
        try:
            self._warm_up()
            records = [
                self._alone(),
                *self._models(),
                *self._chunks(),
                *self._rates(),
                *self._by_tuple(),
                *self._skew(),
                *self._bytes(),
                *self._hot_key(),
            ]
        finally:
            self._running.spark.conf.unset(NO_DATA_BATCHES)
        return records, partial(draw, self._picture)

    def _warm_up(self) -> None:
        folder = self._files(data.even(self._scale.rate // 10, _lengths(1, 1)))
        with self._running.step("warming up"):
            for model in COMPARED:
                measure(self._running, folder, Setting(W.sliding("1 second", "50 milliseconds"), model), warm_up=0)

    def _files(self, batches: Iterable[pa.Table]) -> Path:
        self._folders += 1
        return write_tables(self._running.place / f"quotes-{self._folders}", batches)

    def _run(self, what: str, folder: Path, setting: Setting, warm_up: int = 2) -> Run:
        with self._running.step(what):
            return measure(self._running, folder, setting, warm_up)

    def _alone(self) -> Record:
        """The speedup of the function on two cores, which limits that of two workers."""
        with self._running.step("the function alone"):
            # In turn, so that neither has the quieter machine.
            rates = [calls_per_second(FIT, self._scale.rate, CALLS, count) for count in (1, TWO, 1, TWO)]
        return records_of.of_function(max(rates[0::2]), max(rates[1::2]))

    def _models(self) -> list[Record]:
        """Figure 11, with one and two workers in turn for the targets."""
        scale, records = self._scale, []
        for sliding in scale.sliding:
            folder = self._files(data.even(scale.rate, _lengths(sliding.size, sliding.length)))
            runs: dict[tuple[Model, int], Run] = {}
            aimed = sliding is scale.sliding[0]
            for workers in [1, TWO] * (scale.rounds if aimed else 1) + list(scale.workers):
                for model in COMPARED:
                    what = f"{sliding.title}: {model}, {workers} worker{'s' * (workers > 1)}"
                    run = self._run(what, folder, Setting(sliding.window, model, workers, compute=sliding.fit))
                    runs[model, workers] = runs.get((model, workers), Run()) + run
            self._picture.models[sliding.title] = runs
            records += records_of.of_models(sliding.title, runs, 1000 / sliding.slide, aimed)
        return records

    def _chunks(self) -> list[Record]:
        """Figures 12 and 13."""
        scale, sliding = self._scale, self._scale.sliding[0]
        folder = self._files(data.even(scale.rate, _lengths(sliding.size, sliding.length)))
        runs = {}
        for tuples in scale.chunks:
            what = f"{sliding.title}: chunks of {tuples:,} tuples" if tuples else f"{sliding.title}: automatic chunks"
            chunk = tuples * SECOND // scale.rate if tuples else None
            setting = Setting(sliding.window, compute=SHORT, chunk=chunk)
            runs[tuples] = self._run(what, folder, setting)
        self._picture.chunks = runs
        return records_of.of_chunks(sliding.title, runs, sliding.slide * scale.rate // 1000)

    def _rates(self) -> list[Record]:
        """Figure 14."""
        runs = {}
        for rate in self._scale.rates:
            folder = self._files(data.even(rate, _lengths(1, self._scale.length)))
            setting = Setting(W.sliding("1 second", f"{STEP} milliseconds"), compute=SHORT)
            runs[rate] = self._run(f"1 s by {STEP} ms at {rate:,} quotes/s", folder, setting)
        self._picture.rates = runs
        return records_of.of_rates(f"1 s by {STEP} ms", runs, 1000 / STEP)

    def _by_tuple(self) -> list[Record]:
        """Figures 15 and 16. These windows are finalized by the batch that completes them."""
        scale, runs = self._scale, {}
        for size, every in scale.by_tuple:
            folder = self._files(data.even(scale.rate, [size, scale.length]))
            setting = Setting(W.slide_by_tuple(f"{size} seconds", every), compute=SHORT)
            runs[size, every] = self._run(f"{size} s every {every:,} tuples", folder, setting, warm_up=1)
        self._picture.by_tuple = runs
        return records_of.of_tuples(runs, scale.rate)

    def _skew(self) -> list[Record]:
        """Windows of skewed sizes: periodic, which unbalances active workers, and heavy-tailed, which is random.

        The random ones have no target: the record states how much better balance could gain.
        """
        scale, records = self._scale, []
        periodic = data.periodic(4 * scale.skewed, scale.mean, TWO, 10)
        tailed = data.heavy_tailed(scale.tailed * scale.skewed, scale.mean, SPREAD, SEED)
        cases = (
            ("every other window is 10 times larger", periodic, scale.rounds),
            ("heavy-tailed windows", tailed, 1),
        )
        for title, sizes, rounds in cases:
            sizes_of_batches = [
                sizes[first : first + scale.skewed].tolist() for first in range(0, len(sizes), scale.skewed)
            ]
            folder = self._files(data.bursts(sizes_of_batches, BURST))
            runs: dict[Model, Run] = {}
            for _ in range(rounds):
                for model in COMPARED:
                    setting = Setting(W.tumbling(f"{BURST} microseconds"), model, TWO, compute=LONG)
                    runs[model] = runs.get(model, Run()) + self._run(f"{title}: {model}", folder, setting)
            self._picture.skewed[title] = runs
            # A batch closes the last window of the batch before the previous one, which was still open, and all but the
            # last of the previous one.
            closing = [
                sizes[first - 1 : first + scale.skewed - 1].tolist() for first in range(0, len(sizes), scale.skewed)
            ]
            records.append(records_of.of_skew(title, runs, closing[1:-1], aimed=sizes is periodic))
        return records

    def _bytes(self) -> list[Record]:
        """Bytes of window functions and of partial results, by worker model, with a function that takes no time."""
        sliding = self._scale.sliding[0]
        overlap = sliding.size * 1000 // sliding.slide
        workers = 4
        records = []
        # In each batch, every worker gets equally many windows.
        folder = self._files(
            data.even(self._scale.rate, [sliding.size, workers * sliding.size, workers * sliding.size])
        )
        for compute in ("last", "mean"):
            settings: Sequence[tuple[Model, int | None]] = (("active", 1), ("active", overlap), ("agnostic", None))
            runs = {}
            for model, batch in settings:
                setting = Setting(sliding.window, model, workers, batch, compute)
                name = f"{model}, {batch} at a time" if batch else model
                runs[name] = self._run(f"bytes, {compute}: {name}", folder, setting)
            kind = "window functions" if compute == "last" else "partial results"
            self._picture.sent[kind] = runs
            records += records_of.of_bytes(f"{sliding.title}, {workers} workers, {kind}", runs)
        return records

    def _hot_key(self) -> list[Record]:
        scale = self._scale
        # In short batches, the fixed cost of a batch would dominate.
        folder = self._files(data.hot_key(scale.rate, _lengths(1, 4 * scale.length), KEYS, HOT))
        window = W.sliding("1 second", f"{2 * STEP} milliseconds")
        keyed = self._run("one hot key: keyed", folder, Setting(window, None, compute=FIT, by_key=True))
        spread = self._run("one hot key: agnostic", folder, Setting(window, "auto", compute=FIT, by_key=True))
        self._picture.hot = {"keyed": keyed, "agnostic": spread}
        return [records_of.of_hot_key(f"{KEYS} keys, one with {HOT:.0%} of the quotes", keyed, spread)]


def _lengths(size: float, length: float) -> list[float]:
    """Seconds of three batches: one that fills the windows, one that answers these, and one that counts."""
    return [size, length, length]
