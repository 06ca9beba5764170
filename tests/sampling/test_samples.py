"""Bottom-k samples that are pruned as time goes by, against samples of everything."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chi2

from muntin.arrays import Int64Array
from muntin.features.sampling.priority import priorities
from muntin.features.sampling.samples import EVERYTHING, Cuts, Samples

SCHEMA = pa.schema([("x", pa.int64())])


def samples_of(tuples: list[tuple[int, int, int]], distinct: bool = False) -> Samples:
    """Of (key, position, priority)."""
    tuples = sorted(tuples)
    key, position, priority = (np.array([each[i] for each in tuples], dtype=np.uint64) for i in range(3))
    columns = pa.record_batch([pa.array(np.arange(len(tuples)))], schema=SCHEMA)
    return Samples(key.astype(np.int64), position.astype(np.int64), priority, columns, Cuts.none(), distinct)


@dataclass(frozen=True)
class Batch:
    """Tuples that arrive, up to where windows close, and how many are kept of each key then."""

    tuples: list[tuple[int, int, int]]
    closed: int
    kept: tuple[int, int, int]


PANE, PANES = 4, 3
"""Windows of three panes, which begin with a pane."""
PRIORITIES = st.integers(0, 40) | st.integers(0, (1 << 64) - 1)
BATCHES = st.lists(
    st.builds(
        Batch,
        st.lists(st.tuples(st.integers(0, 2), st.integers(0, 40), PRIORITIES), max_size=40),
        st.integers(0, 44),
        st.tuples(*[st.integers(1, 6)] * 3),
    ),
    min_size=1,
    max_size=5,
)


def unique(batches: list[Batch]) -> list[Batch]:
    """Priorities of tuples are never equal; here the place of a tuple makes them differ."""
    number = 0
    changed = []
    for batch in batches:
        tuples = []
        for key, position, priority in batch.tuples:
            tuples.append(
                (key, position, (priority // 1000) * 1000 + number if priority > 1000 else priority * 1000 + number)
            )
            number += 1
        changed.append(Batch(tuples, batch.closed, batch.kept))
    return changed


@settings(max_examples=150)
@given(BATCHES, st.booleans())
def test_a_window_has_the_smallest_priorities_of_all_its_tuples(batches: list[Batch], distinct: bool) -> None:
    everything: list[tuple[int, int, int]] = []
    samples, closed = Samples.none(SCHEMA, distinct), 0
    least = {0: EVERYTHING, 1: EVERYTHING, 2: EVERYTHING}
    for batch in batches if distinct else unique(batches):
        arrived = [each for each in batch.tuples if _last_end(each[1]) > closed]
        everything += arrived
        kept = np.array(batch.kept)
        samples = samples.plus(samples_of(arrived, distinct))
        samples = samples.best_of_panes(samples.position // PANE, kept)
        for key in least:
            least[key] = min(least[key], batch.kept[key])
        check(samples, everything, closed, least, distinct)
        closed = max(closed, batch.closed)
        needed = np.array([_last_end(int(each)) > closed for each in samples.position], dtype=bool)
        cuts = np.array([_last_end(int(each)) > closed for each in samples.cuts.position], dtype=bool)
        samples = samples.only(needed, cuts).best_of_later(closed, kept)
        check(samples, everything, closed, least, distinct)


def _last_end(position: int) -> int:
    return (position // PANE + PANES) * PANE


def check(
    samples: Samples, everything: list[tuple[int, int, int]], closed: int, least: dict[int, int], distinct: bool
) -> None:
    """All windows that are open, of every key: what is drawn is what the whole window would give."""
    windows = [
        (key, begin * PANE) for key in range(3) for begin in range(-PANES, 12) if (begin + PANES) * PANE > closed
    ]
    key, begin = (np.array([each[i] for each in windows]) for i in (0, 1))
    for most in (1, 3, EVERYTHING):
        limits = samples.cuts.limits(key, begin)
        drawn = samples.windows(key, begin, begin + PANES * PANE, np.minimum(most, limits))
        for index, (code, first) in enumerate(windows):
            own = [p for k, at, p in everything if k == code and first <= at < first + PANES * PANE]
            smallest = sorted(set(own) if distinct else own)
            found = sorted(samples.priority[drawn.rows[drawn.window == index]].tolist())
            assert found == smallest[: len(found)]
            assert len(found) <= most
            # As many as the cuts of this key have ever left; never fewer than that.
            assert len(found) >= min(len(smallest), most, least[code])
            assert len(found) == len(smallest) or len(found) == drawn.most[index]


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 9), st.integers(0, 9)), max_size=30))
def test_cuts_say_what_is_left(cuts: list[tuple[int, int, int]]) -> None:
    found = Cuts.none()
    for each in cuts:
        found = found.plus(*(np.array([part]) for part in each))
    for key in range(4):
        for begin in range(11):
            wanted = min((kept for k, at, kept in cuts if k == key and at >= begin), default=EVERYTHING)
            assert found.limits(np.array([key]), np.array([begin])).tolist() == [wanted]
    # No more of them than differ.
    for key in range(4):
        kept = found.kept[found.key == key]
        assert np.all(np.diff(kept) > 0)


def test_priorities_are_the_same_again_and_differ_otherwise() -> None:
    key, number = np.arange(4, dtype=np.uint64), np.arange(4)
    first = priorities(key, number, seed=1, epoch=2)
    assert first.tolist() == priorities(key, number, seed=1, epoch=2).tolist()
    for other in (priorities(key, number, 2, 2), priorities(key, number, 1, 3), priorities(key, number + 1, 1, 2)):
        assert not set(first.tolist()) & set(other.tolist())


def draw(rng: np.random.Generator, panes: int, per_pane: int, k: int) -> Int64Array:
    """The positions in a sample of a window, merged from samples of panes that came in several batches."""
    samples = Samples.none(SCHEMA)
    seed = int(rng.integers(1 << 40))
    kept = np.array([k])
    for epoch, pane in enumerate(rng.permutation(panes)):
        position = pane * per_pane + np.arange(per_pane)
        priority = priorities(np.zeros(per_pane, dtype=np.uint64), np.arange(per_pane), seed, epoch)
        new = Samples(
            np.zeros(per_pane, dtype=np.int64),
            position,
            priority,
            pa.record_batch([pa.array(position)], schema=SCHEMA),
            Cuts.none(),
        )
        samples = samples.plus(new)
        samples = samples.best_of_panes(samples.position // per_pane, kept)
    drawn = samples.windows(np.array([0]), np.array([0]), np.array([panes * per_pane]), np.array([k]))
    return samples.position[drawn.rows]


def test_merged_samples_are_uniform() -> None:
    """Chi-square over how often each tuple is drawn, and each pair of panes together. The seed is fixed.

    Under uniformity a statistic as large as these bounds comes up once in ten thousand runs.
    """
    rng = np.random.default_rng(7)
    panes, per_pane, k, rounds = 5, 8, 6, 4000
    hits, pairs = np.zeros(panes * per_pane), np.zeros((panes, panes))
    for _ in range(rounds):
        chosen = draw(rng, panes, per_pane, k)
        assert len(chosen) == len(set(chosen.tolist())) == k
        hits[chosen] += 1
        first, second = rng.choice(chosen, 2, replace=False) // per_pane
        pairs[first, second] += 1
    total = panes * per_pane
    expected = rounds * k / total
    # Counts of a sample without replacement vary by (1 - k/n) n/(n - 1) less than independent ones.
    statistic = float(((hits - expected) ** 2 / expected).sum()) / (1 - k / total) * (total - 1) / total
    assert statistic < chi2.ppf(1 - 1e-4, total - 1)
    same = per_pane * (per_pane - 1) / (total * (total - 1))
    other = per_pane * per_pane / (total * (total - 1))
    chances = rounds * np.where(np.eye(panes, dtype=bool), same, other)
    assert float(((pairs - chances) ** 2 / chances).sum()) < chi2.ppf(1 - 1e-4, panes * panes - 1)
