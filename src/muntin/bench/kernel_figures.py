"""The experiments of SPRINGALD's evaluation (figures 12 to 17 and 19 to 21) on the CPU, with what the paper reports.

The paper's machine has an A30 GPU and 64 cores. Here two processes read tuples and a third answers windows, on the
cores that there are. Figures 17 and 21 compare on one core: the same tuples at once, and the same windows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from statistics import median
from time import perf_counter
from typing import TypeAlias

from muntin.bench.kernel_baselines import BASELINES, BUCKETS, Tuples
from muntin.bench.kernel_stream import AGGREGATES, Ran, Sources, Stream, at_once, one_core
from muntin.bench.report import Record

OURS = "Muntin"
A30, A30_RATE = "SPRINGALD, A30", 300e6
SECOND = 1_000_000
TUPLE_BYTES = 32
"""Of the paper's tuples."""
MOST_ADDS = 100_000_000
"""Buckets get fewer tuples than the others where they would add more often than this."""


@dataclass(frozen=True)
class Scale:
    trigger: int
    rounds: int
    at_once: int
    """Tuples of the comparisons on one core."""
    coarse: bool = False
    """Whether only the ends of each scale are measured."""


FULL = Scale(4_000_000, rounds=3, at_once=2_000_000)
QUICK = Scale(200_000, rounds=1, at_once=50_000, coarse=True)
Measure: TypeAlias = Callable[[Sources], float]


@dataclass(frozen=True)
class Point:
    """One measurement: its place in a figure, how it is made, and what the paper has there, if its text says so."""

    curve: str
    x: float
    measure: Measure
    paper: float | None = None


@dataclass(frozen=True)
class Figure:
    number: str
    title: str
    x: str
    points: tuple[Point, ...]
    y: str = "million tuples per second"
    log_x: bool = True
    paper: str = ""
    """What the paper reports."""


Values: TypeAlias = Mapping[str, Mapping[tuple[str, float], float]]
"""By figure: the values by curve and x."""


def figures(scale: Scale) -> list[Figure]:
    return [
        _batch_size(scale),
        _slide(scale),
        _windows_at_once(scale),
        _sources(scale),
        _keys(scale),
        _functions(scale),
        _delay(scale),
        _pending(scale),
        _baselines_by_slide(scale),
        _baselines_by_keys(scale),
        _latency(scale),
        _count_windows(scale),
        _scotty(scale),
    ]


def _few(scale: Scale, *values: int) -> tuple[int, ...]:
    return (values[0], values[-1]) if scale.coarse else values


def _rate(stream: Stream) -> Measure:
    return lambda sources: sources.run(stream).rate


def _sized(stream: Stream, trigger: int) -> Stream:
    """With triggers of another size, of which small ones are more."""
    return replace(stream, trigger=trigger, triggers=min(max(3 * stream.trigger // trigger, 3), 30))


def _batch_size(scale: Scale) -> Figure:
    plateau = {10_000: 90e6, 100_000: 68e6, SECOND: 48e6}
    points = [
        Point(
            f"size {_time(size)}",
            tuples * TUPLE_BYTES / 1024,
            _rate(Stream(scale.trigger, size=size, slide=100, batch=tuples)),
            plateau[size] if tuples == 131_072 else None,
        )
        for size in plateau
        for tuples in _few(scale, 512, 8_192, 131_072)
    ]
    paper = "throughput grows 62 to 93 times from 16 KiB to 4 MiB, to 48, 68 and 90 million tuples/s"
    return Figure("12, left", "batch size, slide 100 µs", "KiB of 32-byte tuples per batch", tuple(points), paper=paper)


def _slide(scale: Scale) -> Figure:
    points = [
        Point(f"size {_time(size)}", slide, _rate(Stream(scale.trigger, size=size, slide=slide)), _above(slide, 220e6))
        for size in (10_000, 100_000, SECOND)
        for slide in _few(scale, 10, 100, 1_000, 10_000, 100_000)
        if slide <= size
    ]
    paper = "220 million tuples/s from slides of 1 ms on; less below"
    return Figure("12, center", "slide", "slide, µs", tuple(points), paper=paper)


def _above(slide: int, rate: float) -> float | None:
    return rate if slide >= 1_000 else None


def _windows_at_once(scale: Scale) -> Figure:
    said = {(10, 1): 1.5e6, (10, 1_000): 293e6}
    points = []
    for slide in (10, 100, 1_000, 10_000):
        for windows in _few(scale, 1, 10, 100, 1_000):
            stream = Stream(scale.trigger, slide=slide)
            trigger = int(windows * slide * stream.per_microsecond)
            if trigger <= scale.trigger:
                rate = _rate(_sized(stream, trigger))
                points.append(Point(f"slide {_time(slide)}", windows, rate, said.get((slide, windows))))
    paper = "slide 10 µs: from 1.5 to 293 million tuples/s; 100 µs: 4.3 times; 1 and 10 ms: 15 % more"
    return Figure("12, right", "windows that close at once (n_w)", "n_w", tuple(points), paper=paper)


def _sources(scale: Scale) -> Figure:
    def with_sources(count: int, stream: Stream) -> Measure:
        def measure(sources: Sources) -> float:
            if count == sources.count:
                return sources.run(stream).rate
            with Sources(count) as own:
                return own.run(stream).rate

        return measure

    points = [
        Point(
            f"batches of {tuples * TUPLE_BYTES // 1024:,} KiB",
            count,
            with_sources(count, Stream(scale.trigger, batch=tuples)),
        )
        for tuples in _few(scale, 8_192, 131_072)
        for count in (1, 2, 4)
    ]
    paper = "batches of 256 KiB: 50 million tuples/s with 4 sources; of 4 MiB: 300 million with 20"
    return Figure("13", "sources", "processes that read tuples", tuple(points), log_x=False, paper=paper)


def _keys(scale: Scale) -> Figure:
    points = [
        Point(
            skew + ("" if delta_k is None else f", δ_k {delta_k}"),
            keys,
            _rate(Stream(scale.trigger, keys=keys, skew=skew, delta_k=delta_k)),
        )
        for skew in ("uniform", "Zipf")
        for delta_k in (None, 25)
        for keys in _few(scale, 1, 10, 100, 500)
    ]
    paper = "500 keys against one: 4.5 times slower (uniform), 4.1 (Zipf); with δ_k 25, 16 and 17 % slower"
    return Figure("14", "keys", "keys", tuple(points), paper=paper)


def _functions(scale: Scale) -> Figure:
    points = [Point(name, 0, _rate(Stream(scale.trigger, aggregate=name))) for name in AGGREGATES]
    paper = "count, sum, max and min alike; avg and the counts of extremes slightly, deviations more slowly"
    return Figure("15", "aggregation functions", "", tuple(points), log_x=False, paper=paper)


def _delayed(scale: Scale, slide: int, delay: int) -> Stream:
    return Stream(scale.trigger, slide=slide, delay=delay)


DELAYS = (0, 1_000, 10_000, 100_000, SECOND)


def _delay(scale: Scale) -> Figure:
    points = [
        Point(f"slide {_time(slide)}", delay / 1_000, _rate(_delayed(scale, slide, delay)))
        for slide in (10, 100, 1_000, 10_000)
        for delay in _few(scale, *DELAYS)
    ]
    return Figure("16, left", "disorder", "mean delay, ms", tuple(points), log_x=False, paper="constant")


def _pending(scale: Scale) -> Figure:
    def panes(stream: Stream) -> Measure:
        return lambda _: max(one_core(replace(stream, triggers=1)).panes - (stream.size // stream.slide - 1), 0)

    points = [
        Point(f"slide {_time(slide)}", delay / 1_000, panes(_delayed(scale, slide, delay)))
        for slide in (1_000, 10_000)
        for delay in _few(scale, *DELAYS)
    ]
    paper = "in proportion to the delay"
    return Figure("16, right", "pending panes", "mean delay, ms", tuple(points), "panes", log_x=False, paper=paper)


def _all_ways(stream: Stream, x: float) -> Iterator[Point]:
    """Muntin and the baselines over the same tuples, on one core."""
    yield Point(OURS, x, lambda _: stream.trigger / at_once(stream)[0])
    for name in BASELINES:
        yield Point(name, x, partial(_baseline, name, stream))


def _baseline(name: str, stream: Stream, _: Sources) -> float:
    times, keys, values = stream.arrays(0)
    count = len(times)
    if name == BUCKETS:
        count = min(count, max(MOST_ADDS // (stream.size // stream.slide), 1_000))
    tuples = Tuples(times[:count], keys[:count], values[:count], stream.keys)
    begun = perf_counter()
    BASELINES[name](tuples, stream.size, stream.slide)
    return count / (perf_counter() - begun)


def _baselines_by_slide(scale: Scale) -> Figure:
    stream = Stream(scale.at_once, keys=100, per_microsecond=1)
    slides = _few(scale, 1_000, 10_000, 100_000)
    points = [point for slide in slides for point in _all_ways(replace(stream, slide=slide), slide)]
    paper = "GPU against a CPU baseline: 40 to 4.1 times"
    return Figure("17, left", "beside baselines, one core, 100 keys", "slide, µs", tuple(points), paper=paper)


def _baselines_by_keys(scale: Scale) -> Figure:
    stream = Stream(scale.at_once, per_microsecond=1)
    numbers = _few(scale, 1, 10, 100, 500)
    points = [point for keys in numbers for point in _all_ways(replace(stream, keys=keys), keys)]
    paper = "GPU against a CPU baseline: 20.6 times with one key, to 4.1"
    return Figure("17, right", "beside baselines, one core, slide 10 ms", "keys", tuple(points), paper=paper)


def _latency(scale: Scale) -> Figure:
    def milliseconds(stream: Stream) -> Measure:
        return lambda _: median(one_core(stream).seconds) * 1e3

    points = [
        Point(skew, trigger, milliseconds(_sized(Stream(scale.trigger, keys=1_000, skew=skew), trigger)))
        for skew in ("uniform", "Zipf")
        for trigger in _few(scale, scale.trigger // 64, scale.trigger // 8, scale.trigger)
    ]
    paper = "a few hundred milliseconds, growing with the batch, most for rare keys"
    return Figure("19", "from tuples to results, 1,000 keys", "tuples per trigger", tuple(points), "ms", paper=paper)


def _count_windows(scale: Scale) -> Figure:
    slides = _few(scale, 2, 8, 32, 128, 512, 1_024)
    points = [
        Point(
            OURS,
            slide,
            _rate(Stream(scale.trigger // 4, size=1_024, slide=slide, in_tuples=True, aggregate="avg")),
            7.30 * 2**30 / TUPLE_BYTES if slide == 1_024 else None,
        )
        for slide in slides
    ]
    paper = "up to 7.30 GiB/s, which are 245 million tuples/s; SABER 5.34 GiB/s"
    return Figure("20, left", "windows of 1,024 tuples, avg", "slide, tuples", tuple(points), paper=paper)


def _scotty(scale: Scale) -> Figure:
    stream = Stream(scale.at_once, size=60 * SECOND, delay=SECOND, per_microsecond=scale.at_once / (180 * SECOND))
    slides = _few(scale, 100_000, SECOND, 10 * SECOND, 60 * SECOND)
    points = [point for slide in slides for point in _all_ways(replace(stream, slide=slide), slide / SECOND)]
    paper = "more than 300 million tuples/s at every slide, Scotty on Flink up to 4 million"
    title = "60 s windows, mean delay 1 s, one core"
    return Figure("21, left", title, "slide, s", tuple(points), paper=paper)


def _time(microseconds: int) -> str:
    if microseconds >= SECOND:
        return f"{microseconds // SECOND} s"
    return f"{microseconds // 1_000} ms" if microseconds >= 1_000 else f"{microseconds} µs"


def measured(figure: Figure, sources: Sources, rounds: int) -> dict[tuple[str, float], float]:
    """The median of several rounds, in which the points take turns."""
    values: dict[tuple[str, float], list[float]] = {(point.curve, point.x): [] for point in figure.points}
    for _ in range(rounds):
        for point in figure.points:
            values[point.curve, point.x].append(point.measure(sources))
    return {place: median(of_place) for place, of_place in values.items()}


def records(all_figures: list[Figure], values: Values) -> list[Record]:
    """A record per point, and the paper's figure beside it where its text states one."""
    found = []
    for figure in all_figures:
        is_rate = figure.y.startswith("million")
        for point in figure.points:
            value = values[figure.number][point.curve, point.x]
            x = f", {figure.x} {point.x:,g}" if figure.x else ""
            found.append(
                Record(
                    name=f"figure {figure.number}: {point.curve}{x}",
                    rows_per_s=value if is_rate else None,
                    baseline=point.paper,
                    ratio=None if point.paper is None else value / point.paper,
                    target=None,
                    baseline_name=A30 if point.paper else "",
                    note="" if is_rate else f"{value:,.1f} {figure.y}",
                )
            )
        if figure.paper:
            found.append(Record(f"figure {figure.number}, the paper", None, None, None, None, note=figure.paper))
    return found


def targets(scale: Scale, sources: Sources) -> list[Record]:
    """What is asked of two cores, each beside its own baseline in the same rounds."""
    plain = Stream(scale.trigger)
    streams = {
        "plain": plain,
        "disorder": replace(plain, delay=SECOND),
        "keys": replace(plain, keys=500),
        "fine": replace(plain, slide=10),
        "coarse": replace(plain, slide=100_000),
    }
    rounds: dict[str, list[Ran]] = {name: [] for name in streams}
    for _ in range(1 if scale.coarse else 5):
        for name, stream in streams.items():
            rounds[name].append(sources.run(stream))
    rate = {name: median(ran.rate for ran in runs) for name, runs in rounds.items()}
    goal = not scale.coarse  # small triggers only show that it works

    def beside(name: str, ours: str, other: str, target: float) -> Record:
        ratio = median(mine.rate / its.rate for mine, its in zip(rounds[ours], rounds[other], strict=True))
        return Record(f"target: {name}", rate[ours], rate[other], ratio, target if goal else None, note=by_round(ours))

    def by_round(name: str) -> str:
        rates = ", ".join(f"{ran.rate / 1e6:,.0f}" for ran in rounds[name])
        processor = median(ran.processor / ran.tuples for ran in rounds[name])
        return f"by round {rates} million tuples/s; {processor * 1e9:.1f} ns of processor time per tuple"

    whole = rate["plain"] / A30_RATE
    return [
        Record(
            "target: one key, sum, 1 s by 10 ms",
            rate["plain"],
            A30_RATE,
            whole,
            1.0 if goal else None,
            baseline_name=A30,
            note=by_round("plain"),
        ),
        beside("mean delay of 1 s against none", "disorder", "plain", 0.9),
        beside("500 keys against one", "keys", "plain", 0.8),
        beside("slide 10 µs against 10 ms", "fine", "plain", 0.9),
        beside("slide 100 ms against 10 ms", "coarse", "plain", 0.9),
    ]
