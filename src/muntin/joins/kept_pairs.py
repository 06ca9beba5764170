"""Estimates aggregates over all pairs from the pairs of kept tuples, after both sides were shed.

A pair is kept if both of its tuples are kept; its weight is the product of their weights. Pairs that share a tuple are
not drawn independently, but tuples are. So a count of pairs has an interval by McDiarmid's inequality: how far one
drawn tuple can move the share of pairs that count is known before any is drawn. It holds without replacement, too,
because exchanging one drawn tuple for another moves the share by no more. Sums and means have no interval: no task sees
the values of all pairs, and no honest interval follows from kept ones alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from muntin.arrays import Array, Float64Array, Int64Array, Runs, State, run_starts, stable_order
from muntin.engine.estimates import EXACT
from muntin.engine.estimates import Estimates as WindowEstimates
from muntin.features.shedding.scaled import Measure, Scaled
from muntin.joins.names import PLACES, SIDES, WEIGHTS, SideName
from muntin.panes import keys as key_codes
from muntin.partials import values
from muntin.partials.groups import sums
from muntin.partials.partial import Moments
from muntin.partials.rows import Rows
from muntin.statistics.estimators import Interval

ROUNDING = 1e-6
"""Sums of weights are whole numbers up to this."""
_MERGED = Moments(None, "")
"""Merges moments; works for every measure."""


@dataclass(frozen=True)
class SideTuples:
    """The tuples of one side in each window and key."""

    group: Int64Array
    """The number of the window and key."""
    place: Int64Array
    """The number that identifies a tuple in its window."""
    weight: Float64Array

    @classmethod
    def of(cls, group: Int64Array, place: Int64Array, weight: Float64Array) -> SideTuples:
        """From pairs, each tuple once."""
        order = stable_order(place, group)
        first = order[run_starts(group[order], place[order])]
        return cls(group[first], place[first], weight[first])

    def renumbered(self, groups: Int64Array) -> SideTuples:
        return SideTuples(groups[self.group], self.place, self.weight)


@dataclass(frozen=True)
class KeptPairs:
    """The sums over kept pairs of windows and keys from which all pairs are estimated."""

    keys: Sequence[pa.Array]
    """The columns that identify the groups: the window number and the keys."""
    sides: dict[SideName, SideTuples]
    moments: tuple[State, ...]
    """For each measure and group, over the pairs that count: the moments of all of them, and their sum."""

    @classmethod
    def of(cls, measures: Sequence[Measure], columns: Sequence[pa.Array], pairs: pa.RecordBatch) -> KeptPairs:
        """From pairs; `columns` identify their groups."""
        group, first = key_codes.encode(columns, pairs.num_rows)
        weights = {side: np.asarray(pairs.column(WEIGHTS[side])) for side in SIDES}
        rows = Rows(pairs, group, group, len(first))
        counted = [_counted(rows, measure) for measure in measures]
        sides = {side: SideTuples.of(group, np.asarray(pairs.column(PLACES[side])), weights[side]) for side in SIDES}
        weight = weights["left"] * weights["right"]
        moments = tuple(_moments(group, len(first), weight * counts, x) for counts, x in counted)
        return cls([column.take(pa.array(first)) for column in columns], sides, moments)

    @classmethod
    def merged(cls, pieces: Sequence[KeptPairs]) -> KeptPairs:
        """Merge pieces, since one window may span several."""
        if len(pieces) == 1:
            return pieces[0]
        stacked = [pa.concat_arrays(column) for column in zip(*(piece.keys for piece in pieces), strict=True)]
        codes, first = key_codes.encode(stacked, len(stacked[0]))
        numbers = np.split(codes, np.cumsum([len(piece.keys[0]) for piece in pieces])[:-1])
        sides: dict[SideName, SideTuples] = {}
        for side in SIDES:
            side_pieces = [piece.sides[side].renumbered(number) for piece, number in zip(pieces, numbers, strict=True)]
            group, place, weight = (
                np.concatenate([getattr(piece, name) for piece in side_pieces]) for name in ("group", "place", "weight")
            )
            sides[side] = SideTuples.of(group, place, weight)
        order = np.argsort(codes, kind="stable")
        runs = Runs.of(run_starts(codes[order]), len(order))
        moments = []
        for states in zip(*(piece.moments for piece in pieces), strict=True):
            columns_in_order = (np.concatenate(columns)[order] for columns in zip(*states, strict=True))
            *of_pairs, total = columns_in_order
            moments.append((*_MERGED.reduce(tuple(of_pairs), runs), runs.sums(total)))
        return cls([column.take(pa.array(first)) for column in stacked], sides, tuple(moments))

    def numbers(self, columns: Sequence[pa.Array]) -> Int64Array:
        """The group numbers of these columns, all of which exist."""
        count = len(self.keys[0])
        stacked = [pa.concat_arrays([key, column]) for key, column in zip(self.keys, columns, strict=True)]
        codes, _ = key_codes.encode(stacked, len(stacked[0]))
        number = np.empty(count, dtype=np.int64)
        number[codes[:count]] = np.arange(count)
        return np.asarray(number[codes[count:]])

    @property
    def tuples(self) -> dict[SideName, Int64Array]:
        """The number of kept tuples of each side."""
        return {side: self._added(side, np.ones(len(self.sides[side].group))).astype(np.int64) for side in SIDES}

    @property
    def received(self) -> dict[SideName, Float64Array]:
        """The number of received tuples of each side, known or estimated."""
        return {side: self._added(side, self.sides[side].weight) for side in SIDES}

    def _added(self, side: SideName, of_tuples: Array) -> Float64Array:
        """The sum over the tuples of each group."""
        return sums(self.sides[side].group, of_tuples, len(self.keys[0]))

    def doubt(self, confidence: float) -> Float64Array:
        """How far the share of pairs that count is from the estimate at most, with this confidence, in each group."""
        received, moves = self.received, np.zeros(len(self.keys[0]))
        for side in SIDES:
            drawn = self.sides[side]
            move = np.where(drawn.weight > 1, drawn.weight / received[side][drawn.group], 0.0)
            moves += self._added(side, move**2)
        return np.asarray(np.sqrt(moves * np.log(2 / (1 - confidence)) / 2))

    def quality(self, groups: Int64Array, confidence: float) -> WindowEstimates:
        """The part of the quality of these groups that is the same for all aggregates."""
        kept = {side: count[groups] for side, count in self.tuples.items()}
        received = {side: count[groups] for side, count in self.received.items()}
        shed = np.flatnonzero(sum(received[side] > kept[side] + ROUNDING for side in SIDES))
        size = np.rint(received["left"] * received["right"]).astype(np.int64)
        return WindowEstimates(shed, EXACT, np.zeros(len(shed)), confidence, kept["left"] * kept["right"], size)


def _counted(rows: Rows, measure: Measure) -> tuple[Float64Array, Float64Array]:
    """Which pairs count, and their values; the value is 1 without a numeric column."""
    mask = rows.mask(() if measure.column is None else (measure.column,), measure.where)
    counts = np.ones(len(rows.groups)) if mask is None else mask.astype(np.float64)
    if measure.column is None or not values.is_numeric(rows.array(measure.column).type):
        return counts, np.ones(len(counts))
    return counts, np.where(counts > 0, rows.numbers(measure.column), 0.0)


def _moments(group: Int64Array, count: int, weight: Float64Array, x: Float64Array) -> State:
    total = sums(group, weight, count)
    with np.errstate(all="ignore"):
        mean = sums(group, weight * x, count) / np.where(total > 0, total, 1.0)
        squares = sums(group, np.where(weight > 0, weight * (x - mean[group]) ** 2, 0.0), count)
    return (total, mean, squares, sums(group, np.where(weight > 0, weight * x, 0.0), count))


@dataclass(frozen=True)
class AllPairs:
    """What is known of all pairs of some windows."""

    size: Float64Array
    """How many there are."""
    doubt: Float64Array
    """How far the share that counts may be from the estimate; NaN if the number of pairs is itself an estimate."""

    def interval(self, scaled: Scaled, moments: State) -> Interval:
        """The answers over all pairs, with their bounds; `moments` are those of the pairs that count."""
        if scaled.kind in ("variance", "deviation"):
            return scaled.dispersion(moments[:3])
        count, _, _, total = moments
        unknown = np.full(len(count), np.nan)
        if scaled.kind == "count":
            if scaled.counted:
                count = np.where(np.isnan(self.doubt), count, self.size)
                bound = np.where(np.isnan(self.doubt), np.nan, count)
                return Interval(count, bound, bound)
            half = self.doubt * self.size
            return Interval(count, np.maximum(count - half, 0.0), np.minimum(count + half, self.size))
        with np.errstate(all="ignore"):
            value = np.where(count > 0, total / count if scaled.kind == "mean" else total, np.nan)
        return Interval(value, unknown, unknown)
