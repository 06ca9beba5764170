"""What the pairs of kept tuples say of all pairs, where tuples of both sides were shed.

A pair is kept if both of its tuples are, and stands for as many as the product of what those stand for. Pairs that
have a tuple in common are not drawn independently of each other, but tuples are. So the error of a total comes from two
sides: from what each left tuple adds to it with all of its partners, and from what each right one does. The variance of
a side is that of tuples that were kept one by one, which strata stay below; and what comes from both sides at once is
in either of them, where once would do. So intervals are rather wide than narrow.
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
from muntin.features.shedding.scaled import Asked, Scaled
from muntin.features.shedding.weighed import FIELDS, OF_SQUARES, Estimates, Weighed
from muntin.joins.names import PLACES, SIDES, WEIGHTS, Which, other
from muntin.panes import keys as key_codes
from muntin.partials import values
from muntin.partials.partial import sums
from muntin.partials.rows import Rows
from muntin.statistics.estimators import Interval

_ALIKE = 1e-20
"""Of the square of a sum: variances of that sum that are no larger are those of rounding."""
_MERGED = Weighed(None, None)
"""Merges moments, whatever they are of."""


@dataclass(frozen=True)
class SideSums:
    """The tuples of one side in the windows of their keys, and what the pairs of each come to."""

    group: Int64Array
    """The window and key, by its number."""
    place: Int64Array
    """What tells a tuple from the others of its window."""
    weight: Float64Array
    of_pairs: Float64Array
    """In rows: what all its pairs stand for, without its own weight; then for each measure the same of the pairs that
    count, the sum of their values, and how many of them were kept.
    """

    @classmethod
    def of(cls, group: Int64Array, place: Int64Array, weight: Float64Array, of_pairs: Float64Array) -> SideSums:
        """Added up tuple by tuple."""
        order = stable_order(place, group)
        starts = run_starts(group[order], place[order])
        first = order[starts]
        with np.errstate(all="ignore"):  # of infinities of both signs
            return cls(group[first], place[first], weight[first], np.add.reduceat(of_pairs[:, order], starts, axis=1))

    def renumbered(self, groups: Int64Array) -> SideSums:
        return SideSums(groups[self.group], self.place, self.weight, self.of_pairs)


@dataclass(frozen=True)
class KeptPairs:
    """The kept pairs of some windows of keys, as far as all pairs are estimated from them."""

    keys: Sequence[pa.Array]
    """The columns of the groups: the numbers of windows, and the keys."""
    sides: dict[Which, SideSums]
    moments: tuple[State, ...]
    """For each measure and group: count, mean and squared deviations of what counts, in the fields of `Weighed`."""

    @classmethod
    def of(cls, measures: Sequence[Weighed], columns: Sequence[pa.Array], pairs: pa.RecordBatch) -> KeptPairs:
        """From pairs; `columns` are those of their groups."""
        group, first = key_codes.encode(columns, pairs.num_rows)
        weights = {which: np.asarray(pairs.column(WEIGHTS[which])) for which in SIDES}
        rows = Rows(pairs, group, group, len(first))
        counted = [_counted(rows, measure) for measure in measures]
        sides: dict[Which, SideSums] = {}
        for which in SIDES:
            partner = weights[other(which)]
            of_pairs = [partner]
            for counts, x in counted:
                of_pairs += [partner * counts, partner * counts * x, counts]
            place = np.asarray(pairs.column(PLACES[which]))
            sides[which] = SideSums.of(group, place, weights[which], np.stack(of_pairs))
        weight = weights["left"] * weights["right"]
        moments = tuple(_moments(group, len(first), weight * counts, x) for counts, x in counted)
        return cls([column.take(pa.array(first)) for column in columns], sides, moments)

    @classmethod
    def merged(cls, pieces: Sequence[KeptPairs]) -> KeptPairs:
        """A window may come in several pieces."""
        if len(pieces) == 1:
            return pieces[0]
        stacked = [pa.concat_arrays(column) for column in zip(*(piece.keys for piece in pieces), strict=True)]
        codes, first = key_codes.encode(stacked, len(stacked[0]))
        numbers = np.split(codes, np.cumsum([len(piece.keys[0]) for piece in pieces])[:-1])
        sides: dict[Which, SideSums] = {}
        for which in SIDES:
            of_side = [piece.sides[which].renumbered(number) for piece, number in zip(pieces, numbers, strict=True)]
            group, place, weight = (
                np.concatenate([getattr(each, name) for each in of_side]) for name in ("group", "place", "weight")
            )
            sides[which] = SideSums.of(
                group, place, weight, np.concatenate([each.of_pairs for each in of_side], axis=1)
            )
        order = np.argsort(codes, kind="stable")
        runs = Runs.of(run_starts(codes[order]), len(order))
        moments = []
        for states in zip(*(piece.moments for piece in pieces), strict=True):
            together = (np.concatenate(columns)[order] for columns in zip(*states, strict=True))
            moments.append(_MERGED.reduce(tuple(together), runs))
        return cls([column.take(pa.array(first)) for column in stacked], sides, tuple(moments))

    def numbers(self, columns: Sequence[pa.Array]) -> Int64Array:
        """The groups that these are, which are all there."""
        count = len(self.keys[0])
        stacked = [pa.concat_arrays([own, each]) for own, each in zip(self.keys, columns, strict=True)]
        codes, _ = key_codes.encode(stacked, len(stacked[0]))
        number = np.empty(count, dtype=np.int64)
        number[codes[:count]] = np.arange(count)
        return np.asarray(number[codes[count:]])

    @property
    def tuples(self) -> dict[Which, Int64Array]:
        """How many tuples of each side were kept."""
        return {which: self._added(which, np.ones(len(self.sides[which].group))).astype(np.int64) for which in SIDES}

    @property
    def received(self) -> dict[Which, Float64Array]:
        """How many there were, or what is estimated of that."""
        return {which: self._added(which, self.sides[which].weight) for which in SIDES}

    def _added(self, which: Which, of_tuples: Array) -> Float64Array:
        """Over the tuples of each group."""
        return sums(self.sides[which].group, of_tuples, len(self.keys[0]))

    def estimates(self, measure: int, by_chance: bool) -> dict[str, Float64Array]:
        """What is estimated of all pairs, in the fields that `Scaled` reads."""
        count, mean, squares, *_ = self.moments[measure]
        received = self.received
        pairs = received["left"] * received["right"]
        # Where tuples were counted before they were shed, so are pairs: only the share that counts is uncertain.
        share = np.zeros(len(count)) if by_chance else count / np.maximum(pairs, 1)
        found = dict.fromkeys((*FIELDS, *OF_SQUARES), np.zeros(len(count)))
        found |= {"count": count, "mean": mean, "squares": squares}
        fewest = np.full(len(count), np.inf)
        with np.errstate(all="ignore"):
            for which in SIDES:
                side, partners = self.sides[which], self.sides[which].of_pairs[0]
                counts, totals, kept = side.of_pairs[1 + 3 * measure : 4 + 3 * measure]
                away = totals - mean[side.group] * counts
                more = counts - share[side.group] * partners
                spread = self._spread(which)
                for name, product in (("count_variance", more**2), ("covariance", away * more), ("variance", away**2)):
                    found[name] = found[name] + self._added(which, np.where(spread == 0, 0.0, spread * product))
                shed = self._added(which, side.weight > 1) > 0
                fewest = np.where(shed, np.minimum(fewest, self._added(which, kept > 0)), fewest)
        # All alike but for the last digits: those of sums.
        alike = found["variance"] <= _ALIKE * (count**2 * mean**2 + count * squares)
        found["spread"] = np.where(alike, 0.0, found["variance"])
        counting = self._added("left", self.sides["left"].of_pairs[3 + 3 * measure])
        found["kept"] = np.where(np.isfinite(fewest), fewest, counting)
        found["weights"] = np.full(len(count), np.inf)  # no interval of a variance is told
        return found

    def told(self, chosen: Int64Array, policy: Shedding) -> tuple[WindowEstimates, Asked]:
        """How good the answers of these groups are, as far as that does not depend on what is asked."""
        kept = {which: each[chosen] for which, each in self.tuples.items()}
        received = {which: each[chosen] for which, each in self.received.items()}
        pairs, size = kept["left"] * kept["right"], np.rint(received["left"] * received["right"])
        as_sure_as, shed = pairs, np.zeros(len(chosen), dtype=bool)  # as the fewest tuples of a side that was shed
        for which in SIDES:
            of_side = received[which] > kept[which] + 1e-6
            as_sure_as = np.where(of_side, np.minimum(as_sure_as, kept[which]), as_sure_as)
            shed |= of_side
        at, sizes = np.flatnonzero(shed), size.astype(np.int64)
        told = WindowEstimates(at, EXACT, np.zeros(len(at)), policy.confidence, pairs, sizes)
        return told, Asked(as_sure_as, size, policy.by_chance, policy.confidence)

    def _spread(self, which: Which) -> Float64Array:
        """What the squares of each tuple are multiplied by. One alone, of several, does not tell how far off it is."""
        side = self.sides[which]
        drawn = side.weight > 1
        among = self._added(which, drawn)[side.group]
        spread = side.weight * (side.weight - 1) * among / np.where(among > 1, among - 1, np.nan)
        return np.where(drawn, spread, 0.0)


def _counted(rows: Rows, measure: Weighed) -> tuple[Float64Array, Float64Array]:
    """Which pairs count, and their values: 1 for what is no number, or none."""
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
    nothing: Array = np.zeros(count)
    return (total, mean, squares, *[nothing] * (len(FIELDS) - 3))


def interval_of(scaled: Scaled, estimates: Estimates, asked: Asked) -> Interval:
    """The answers over all pairs, and between what the truth is."""
    if scaled.kind == "count" and asked.by_chance:
        return _sum_of_ones(estimates, asked)
    found = scaled.interval(pa.nulls(len(asked.kept)), estimates, asked)
    assert found is not None, "there are estimates"
    return found


def _sum_of_ones(estimates: Estimates, asked: Asked) -> Interval:
    """How many pairs there are, where nobody has counted. They do not come one by one, as tuples do."""
    count = estimates["count"]
    nothing = np.zeros(len(count))
    of_ones = {**estimates, "mean": np.ones(len(count)), "covariance": nothing, "variance": nothing}
    of_ones["spread"] = estimates["count_variance"]
    found = Scaled("sum", Weighed(None, None)).interval(pa.nulls(len(count)), of_ones, asked)
    assert found is not None, "there are estimates"
    return Interval(count, np.maximum(found.low, 0.0), found.high)
