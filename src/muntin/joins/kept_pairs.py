"""Estimates aggregates over all pairs from the pairs of kept tuples, after both sides were shed.

A pair is kept if both of its tuples are kept; its weight is the product of their weights. Pairs that share a tuple are
not drawn independently, but tuples are. So the error of a total has two parts: the contributions of the left
tuples with all their partners, and those of the right tuples. The variance of a side is that of independently kept
tuples, an upper bound for strata. The part that is due to both sides at once is counted twice. So intervals are too
wide rather than too narrow.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from muntin.arrays import Array, Float64Array, Int64Array, Runs, State, run_starts, stable_order
from muntin.engine.estimates import EXACT
from muntin.engine.estimates import Estimates as WindowEstimates
from muntin.features.shedding.policy import Shedding
from muntin.features.shedding.scaled import Scaled, ShedSizes
from muntin.features.shedding.weighed import FIELDS, OF_SQUARES, Estimates, Weighed
from muntin.joins.names import PLACES, SIDES, WEIGHTS, SideName, other
from muntin.panes import keys as key_codes
from muntin.partials import values
from muntin.partials.partial import sums
from muntin.partials.rows import Rows
from muntin.statistics.estimators import Interval

_ALIKE = 1e-20
"""A variance below this share of the squared sum is a rounding error."""
_MERGED = Weighed(None, None)
"""Merges moments; works for every measure."""


@dataclass(frozen=True)
class SideSums:
    """The tuples of one side in each window and key, with sums over the pairs of each tuple."""

    group: Int64Array
    """The number of the window and key."""
    place: Int64Array
    """The number that identifies a tuple in its window."""
    weight: Float64Array
    of_pairs: Float64Array
    """One row with the weight of all partners, without the tuple's own weight. Then three rows for each measure: the
    weight of the partners in pairs that count, the weighted sum of their values, and the number of these pairs.
    """

    @classmethod
    def of(cls, group: Int64Array, place: Int64Array, weight: Float64Array, of_pairs: Float64Array) -> SideSums:
        """From pairs, summed by tuple."""
        order = stable_order(place, group)
        starts = run_starts(group[order], place[order])
        first = order[starts]
        with np.errstate(all="ignore"):  # infinities of both signs
            return cls(group[first], place[first], weight[first], np.add.reduceat(of_pairs[:, order], starts, axis=1))

    def renumbered(self, groups: Int64Array) -> SideSums:
        return SideSums(groups[self.group], self.place, self.weight, self.of_pairs)


@dataclass(frozen=True)
class KeptPairs:
    """The sums over kept pairs of windows and keys from which all pairs are estimated."""

    keys: Sequence[pa.Array]
    """The columns that identify the groups: the window number and the keys."""
    sides: dict[SideName, SideSums]
    moments: tuple[State, ...]
    """For each measure and group: count, mean and squared deviations of counting pairs, in the fields of `Weighed`."""

    @classmethod
    def of(cls, measures: Sequence[Weighed], columns: Sequence[pa.Array], pairs: pa.RecordBatch) -> KeptPairs:
        """From pairs; `columns` identify their groups."""
        group, first = key_codes.encode(columns, pairs.num_rows)
        weights = {side: np.asarray(pairs.column(WEIGHTS[side])) for side in SIDES}
        rows = Rows(pairs, group, group, len(first))
        counted = [_counted(rows, measure) for measure in measures]
        sides: dict[SideName, SideSums] = {}
        for side in SIDES:
            partner = weights[other(side)]
            of_pairs = [partner]
            for counts, x in counted:
                of_pairs += [partner * counts, partner * counts * x, counts]
            place = np.asarray(pairs.column(PLACES[side]))
            sides[side] = SideSums.of(group, place, weights[side], np.stack(of_pairs))
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
        sides: dict[SideName, SideSums] = {}
        for side in SIDES:
            side_pieces = [piece.sides[side].renumbered(number) for piece, number in zip(pieces, numbers, strict=True)]
            group, place, weight = (
                np.concatenate([getattr(piece, name) for piece in side_pieces]) for name in ("group", "place", "weight")
            )
            sides[side] = SideSums.of(
                group, place, weight, np.concatenate([piece.of_pairs for piece in side_pieces], axis=1)
            )
        order = np.argsort(codes, kind="stable")
        runs = Runs.of(run_starts(codes[order]), len(order))
        moments = []
        for states in zip(*(piece.moments for piece in pieces), strict=True):
            columns_in_order = (np.concatenate(columns)[order] for columns in zip(*states, strict=True))
            moments.append(_MERGED.reduce(tuple(columns_in_order), runs))
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

    def estimates(self, measure: int, is_uniform: bool) -> dict[str, Float64Array]:
        """The estimates for all pairs, in the fields that `Scaled` reads."""
        count, mean, squares, *_ = self.moments[measure]
        received = self.received
        pairs = received["left"] * received["right"]
        # If tuples are counted before shedding, the number of pairs is known: only the share that counts is uncertain.
        share = np.zeros(len(count)) if is_uniform else count / np.maximum(pairs, 1)
        fields = dict.fromkeys((*FIELDS, *OF_SQUARES), np.zeros(len(count)))
        fields |= {"count": count, "mean": mean, "squares": squares}
        fewest = np.full(len(count), np.inf)
        with np.errstate(all="ignore"):
            for side in SIDES:
                side_sums, partners = self.sides[side], self.sides[side].of_pairs[0]
                counts, totals, kept = side_sums.of_pairs[1 + 3 * measure : 4 + 3 * measure]
                deviations = totals - mean[side_sums.group] * counts
                excess = counts - share[side_sums.group] * partners
                spread = self._spread(side)
                for name, product in (
                    ("count_variance", excess**2),
                    ("covariance", deviations * excess),
                    ("variance", deviations**2),
                ):
                    fields[name] = fields[name] + self._added(side, np.where(spread == 0, 0.0, spread * product))
                shed = self._added(side, side_sums.weight > 1) > 0
                fewest = np.where(shed, np.minimum(fewest, self._added(side, kept > 0)), fewest)
        # Values that are equal up to rounding errors of the sums.
        constant = fields["variance"] <= _ALIKE * (count**2 * mean**2 + count * squares)
        fields["spread"] = np.where(constant, 0.0, fields["variance"])
        counting = self._added("left", self.sides["left"].of_pairs[3 + 3 * measure])
        fields["kept"] = np.where(np.isfinite(fewest), fewest, counting)
        fields["weights"] = np.full(len(count), np.inf)  # variances get no interval
        return fields

    def quality(self, groups: Int64Array, policy: Shedding) -> tuple[WindowEstimates, ShedSizes]:
        """The part of the quality of these groups that is the same for all aggregates."""
        kept = {side: count[groups] for side, count in self.tuples.items()}
        received = {side: count[groups] for side, count in self.received.items()}
        pairs, size = kept["left"] * kept["right"], np.rint(received["left"] * received["right"])
        effective_size, shed = pairs, np.zeros(len(groups), dtype=bool)  # the fewest kept tuples of a shed side
        for side in SIDES:
            side_shed = received[side] > kept[side] + 1e-6
            effective_size = np.where(side_shed, np.minimum(effective_size, kept[side]), effective_size)
            shed |= side_shed
        positions, sizes = np.flatnonzero(shed), size.astype(np.int64)
        quality = WindowEstimates(positions, EXACT, np.zeros(len(positions)), policy.confidence, pairs, sizes)
        return quality, ShedSizes(effective_size, size, policy.is_uniform, policy.confidence)

    def _spread(self, side: SideName) -> Float64Array:
        """The factor of the squares of each tuple. NaN for a single drawn tuple, which gives no variance."""
        side_sums = self.sides[side]
        drawn = side_sums.weight > 1
        drawn_count = self._added(side, drawn)[side_sums.group]
        spread = (
            side_sums.weight * (side_sums.weight - 1) * drawn_count / np.where(drawn_count > 1, drawn_count - 1, np.nan)
        )
        return np.where(drawn, spread, 0.0)


def _counted(rows: Rows, measure: Weighed) -> tuple[Float64Array, Float64Array]:
    """Which pairs count, and their values; the value is 1 without a numeric column."""
    mask = rows.mask(measure.inputs, measure.where)
    counts = np.ones(len(rows.groups)) if mask is None else mask.astype(np.float64)
    if measure.column is None or not values.is_numeric(rows.array(measure.column).type):
        return counts, np.ones(len(counts))
    return counts, np.where(counts > 0, rows.numbers(measure.column), 0.0)


def _moments(group: Int64Array, count: int, weight: Float64Array, x: Float64Array) -> State:
    total = sums(group, weight, count)
    with np.errstate(all="ignore"):
        mean = sums(group, weight * x, count) / np.where(total > 0, total, 1.0)
        squares = sums(group, np.where(weight > 0, weight * (x - mean[group]) ** 2, 0.0), count)
    zeros: Array = np.zeros(count)
    return (total, mean, squares, *[zeros] * (len(FIELDS) - 3))


def interval_of(scaled: Scaled, estimates: Estimates, windows: ShedSizes) -> Interval:
    """The answers over all pairs, with the bounds of the true values."""
    if scaled.kind == "count" and windows.is_uniform:
        return _sum_of_ones(estimates, windows)
    interval = scaled.interval(pa.nulls(len(windows.kept)), estimates, windows)
    assert interval is not None, "there are estimates"
    return interval


def _sum_of_ones(estimates: Estimates, windows: ShedSizes) -> Interval:
    """The number of pairs if tuples were not counted: a sum of ones, as pairs are not drawn independently."""
    count = estimates["count"]
    zeros = np.zeros(len(count))
    of_ones = {**estimates, "mean": np.ones(len(count)), "covariance": zeros, "variance": zeros}
    of_ones["spread"] = estimates["count_variance"]
    interval = Scaled("sum", Weighed(None, None)).interval(pa.nulls(len(count)), of_ones, windows)
    assert interval is not None, "there are estimates"
    return Interval(count, np.maximum(interval.low, 0.0), interval.high)
