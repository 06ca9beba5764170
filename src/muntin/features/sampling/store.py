"""The samples of one shard (SPEAr's algorithm 1): what arrives is sampled within the budget, and the samples are kept.

Every operator has samples of its own, because it says where tuples stand: at their time, or at their number. Each is of
tuples, or of the distinct values of a column.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from operator import is_

import numpy as np
import pyarrow as pa

from muntin.arrays import BoolArray, Float64Array, Int64Array, Runs, UInt64Array, positions_in_runs, run_starts
from muntin.engine.operators.delta import DeltaOperator
from muntin.engine.operators.leaf_index import LeafIndex
from muntin.engine.operators.operator import NEVER_MORE, TupleOperator, WindowOperator
from muntin.engine.operators.ordered import Numbered, OrderedOperator
from muntin.engine.operators.partials import FIRST_TIME, LAST_TIME
from muntin.engine.operators.session import SessionOperator
from muntin.engine.operators.time import TimeOperator
from muntin.engine.plan import Plan
from muntin.features.sampling.pause import Pause
from muntin.features.sampling.plan import SamplingPlan
from muntin.features.sampling.priority import priorities, value_priorities
from muntin.features.sampling.samples import Cuts, Samples
from muntin.holistic.contents import WindowContents
from muntin.holistic.function import HolisticFunction
from muntin.panes import keys as key_codes
from muntin.panes.grid import last_ends
from muntin.panes.table import Leaves, PaneTable, merged_keys
from muntin.panes.tuples import Tuples
from muntin.panes.watermarks import Watermarks
from muntin.partials import values
from muntin.statistics.congress import congress, rounded_down


@dataclass(frozen=True)
class ShardSamples:
    """The samples of all operators, with the keys that their codes are of."""

    keys: pa.RecordBatch
    sets: tuple[Samples, ...]
    """WindowOperator by operator, and in each by the samples that the query needs."""

    @classmethod
    def none(cls, plan: Plan, sampling: SamplingPlan) -> ShardSamples:
        empty = [spec.empty(plan.layout.tuples) for _ in plan.operators for spec in sampling.specs]
        return cls(_no_keys(plan), tuple(empty))

    @property
    def nbytes(self) -> int:
        return sum(each.nbytes for each in self.sets)

    def __len__(self) -> int:
        return sum(map(len, self.sets))

    @property
    def is_empty(self) -> bool:
        """Whether nothing is to be remembered, not even that something was given up."""
        return not any(len(each) or len(each.cuts) for each in self.sets)

    def is_still(self, other: ShardSamples) -> bool:
        """Whether nothing has come or gone since."""
        return all(map(is_, self.sets, other.sets)) and self.keys.equals(other.keys)

    def with_keys_of(self, plan: Plan, table: PaneTable) -> ShardSamples:
        """The same with the codes of a table's keys; what is of keys that the table does not have goes."""
        if self.keys is table.keys:
            return self
        if self.is_empty:
            return ShardSamples(table.keys, self.sets)
        _, (ours, theirs) = merged_keys(plan.layout, [table, PaneTable(self.keys, (), {})])
        codes = np.full(max(int(ours.max(initial=-1)), int(theirs.max(initial=-1))) + 1, -1, dtype=np.int64)
        codes[ours] = np.arange(len(ours))
        return ShardSamples(table.keys, tuple(each.recoded(codes[theirs]) for each in self.sets))


def _no_keys(plan: Plan) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([], field.type) for field in plan.layout.keys], schema=plan.layout.keys)


class SampleStore:
    """The samples of one shard, for one batch."""

    def __init__(
        self,
        plan: Plan,
        sampling: SamplingPlan,
        shard: int,
        table: PaneTable,
        samples: ShardSamples,
        now: Watermarks,
        pause: Pause | None = None,
    ) -> None:
        """`table` is all there is, what has just arrived included; `shard` is its place among the plan's shards.

        Shares go by what is open at `now`. So batches without rows, which a stream may have or not, make no difference
        to the samples.
        """
        self._plan = plan
        self._now = now
        self.pause = pause or Pause()
        self._has_new = False
        self._sampling = sampling
        self._table = table
        self.known_groups = self._sampling.groups_of_shard[shard] if self._sampling.groups_of_shard else None
        self._samples = list(samples.with_keys_of(plan, table).sets)

    def of(self, operator: WindowOperator, spec: int) -> Samples:
        return self._samples[self._place(operator, spec)]

    def _place(self, operator: WindowOperator, spec: int) -> int:
        number = next(i for i, each in enumerate(self._plan.operators) if each is operator)
        return number * len(self._sampling.specs) + spec

    def take_in(self, fresh: Tuples, finalized: Tuples, epoch: int, paused: bool = False) -> None:
        """Sample what is new: `fresh` tuples have just arrived, `settled` ones have got their final order.

        `epoch` is a number that no other batch of the shard has, and that a replay of this one has again. In a pause
        tuples are noted as given up, all of them: windows that hold one have no sample.
        """
        if not self._sampling.specs:
            return
        for number, operator in enumerate(self._plan.operators):
            tuples = finalized if operator.needs_order else fresh
            tuples = tuples.take(tuples.of_operator(number))
            if not len(tuples):
                continue
            self._has_new = True
            tuples = tuples.in_order(operator.window.column if isinstance(operator, DeltaOperator) else None)
            position = (
                self._numbers(operator, tuples)
                if isinstance(operator, TupleOperator) and operator.needs_order
                else tuples.time
            )
            if paused:
                self._give_up(operator, tuples.key, position)
                continue
            within = positions_in_runs(run_starts(tuples.key), len(tuples))
            identity = position if operator.needs_order else within
            priority = priorities(
                self._key_hashes[tuples.key], identity, self._sampling.policy.seed, 0 if operator.needs_order else epoch
            )
            for index, spec in enumerate(self._sampling.specs):
                place = self._place(operator, index)
                kept = self.sizes(operator, index)
                if spec.of is None:
                    new = Samples(
                        tuples.key, position, priority, tuples.columns.select(list(spec.columns)), Cuts.none()
                    )
                else:
                    new = _distinct(tuples, position, spec.of.holistic, self._sampling.policy.seed)
                samples = self._samples[place]
                if self._has_panes(operator):
                    new, cuts = self._first_choice(operator, new, kept, samples.cuts)
                    samples = samples.with_cuts(cuts)
                samples = samples.plus(new)
                if self._has_panes(operator):
                    samples = self._best_of_panes(operator, samples, new, kept)
                self._samples[place] = samples

    def _give_up(self, operator: WindowOperator, key: Int64Array, position: Int64Array) -> None:
        last = np.append(run_starts(key)[1:], len(key)) - 1
        for index in range(len(self._sampling.specs)):
            place = self._place(operator, index)
            samples = self._samples[place]
            nothing = np.zeros(len(last), dtype=np.int64)
            self._samples[place] = samples.with_cuts(samples.cuts.plus(key[last], position[last], nothing))

    def _first_choice(
        self, operator: WindowOperator, new: Samples, kept: Int64Array, cuts: Cuts
    ) -> tuple[Samples, Cuts]:
        """Of panes with very many new tuples those that may be among the smallest, by a threshold, without sorting."""
        if new.distinct or len(new) < 1024:
            return new, cuts
        starts = run_starts(new.key, self._panes(operator, new))
        lengths = np.diff(starts, append=len(new))
        wanted = kept[new.key[starts]]
        share = (wanted + 6 * np.sqrt(wanted) + 16) / lengths
        threshold = np.where(share < 0.5, share * 2.0**64, 2.0**64 - 2048).astype(np.uint64)
        chosen = new.priority < np.repeat(threshold, lengths)
        enough = np.add.reduceat(chosen.astype(np.int64), starts) >= np.minimum(wanted, lengths)
        cut = enough & (share < 0.5)
        chosen |= np.repeat(~cut, lengths)
        last = starts + lengths - 1
        return new.take(chosen), cuts.plus(new.key[starts[cut]], new.position[last[cut]], wanted[cut])

    def _best_of_panes(self, operator: WindowOperator, samples: Samples, new: Samples, kept: Int64Array) -> Samples:
        """Of panes with new tuples the smallest; the others have been through this."""
        pane, touched = self._panes(operator, samples), self._panes(operator, new)
        samples = samples.best_of_panes(pane, kept, _among(samples.key, pane, new.key, touched))
        if not isinstance(operator, TimeOperator) or not self._plan.keys or not len(samples):
            return samples
        # More groups than the budget: windows over such a pane are answered exactly, and need no sample.
        pane = self._panes(operator, samples)
        _, number, count = np.unique(pane, return_inverse=True, return_counts=True)
        full = count[number] > self.budget
        return samples.without_panes(full) if full.any() else samples

    def prune(self, table: PaneTable, closed: Watermarks, now: Watermarks) -> ShardSamples:
        """What windows may need that have not closed; `table` is without what they do not need, with the same keys."""
        left = ShardSamples(table.keys, tuple(self._samples))
        if left.is_empty:
            return left
        pruned = []
        for operator in self._plan.operators:
            before = now.watermark if isinstance(operator, TimeOperator) else NEVER_MORE
            for index in range(len(self._sampling.specs)):
                samples = self._samples[self._place(operator, index)]
                if operator.closes_at(now) != operator.closes_at(closed):
                    needed = self._needed(operator, table, samples.key, samples.position, now)
                    cuts = self._needed(operator, table, samples.cuts.key, samples.cuts.position, now)
                    samples = samples.only(needed, cuts)
                if self._has_new and not isinstance(operator, SessionOperator):
                    samples = samples.best_of_later(before, self.sizes(operator, index))
                pruned.append(samples)
        return ShardSamples(table.keys, tuple(pruned))

    def _needed(
        self, operator: WindowOperator, table: PaneTable, key: Int64Array, position: Int64Array, now: Watermarks
    ) -> BoolArray:
        if not len(key):
            return np.zeros(0, dtype=bool)
        if isinstance(operator, TimeOperator):
            return last_ends(position, operator.models) > now.watermark
        if isinstance(operator, SessionOperator):
            at, last = self._sessions(operator, table, key, position)
            return (at >= 0) & (position <= last)
        (leaves,) = operator.own(table)
        first = np.full(table.keys.num_rows, NEVER_MORE)
        starts = run_starts(leaves.key)
        first[leaves.key[starts]] = leaves.time[starts]
        return position >= first[key]

    def _has_panes(self, operator: WindowOperator) -> bool:
        """Whether there are stretches that windows hold as a whole: not where one may be shown incomplete."""
        if isinstance(operator, OrderedOperator):
            return operator.pane > 1 and operator.shortest_wait is None
        return not isinstance(operator, DeltaOperator)

    def _panes(self, operator: WindowOperator, samples: Samples) -> Int64Array:
        if isinstance(operator, TimeOperator):
            return np.floor_divide(samples.position - operator.grid.offset, operator.grid.length)
        if isinstance(operator, SessionOperator):
            return self._sessions(operator, self._table, samples.key, samples.position)[0]
        assert isinstance(operator, OrderedOperator)
        return samples.position // operator.pane

    def _sessions(
        self, operator: SessionOperator, table: PaneTable, key: Int64Array, position: Int64Array
    ) -> tuple[Int64Array, Int64Array]:
        """The session of a table that each position is in or behind, and its last time; -1 where there is none."""
        (leaves,) = operator.own(table)
        starts = operator.sessions(leaves)
        if not len(starts):
            return np.full(len(key), -1), np.full(len(key), -1)
        last = np.maximum.reduceat(leaves.state[LAST_TIME], starts)
        at = LeafIndex(leaves.key[starts], leaves.state[FIRST_TIME][starts]).first(key, position + 1) - 1
        found = (at >= 0) & (leaves.key[starts][np.maximum(at, 0)] == key)
        return np.where(found, at, -1), last[np.maximum(at, 0)]

    def _numbers(self, operator: TupleOperator, tuples: Tuples) -> Int64Array:
        """The number of each newly settled tuple: the key's leaves know how many it has had, these included."""
        numbered = Numbered(operator.own(self._table)[0])
        starts = run_starts(tuples.key)
        lengths = np.diff(starts, append=len(tuples))
        last, _ = numbered.last_of(tuples.key[starts])
        first = numbered.next_number[last] - lengths
        return np.repeat(first, lengths) + positions_in_runs(starts, len(tuples))

    def finalized_counts(self, operator: TupleOperator, key: Int64Array) -> Int64Array:
        """How many tuples each of these keys has had."""
        numbered = Numbered(operator.own(self._table)[0])
        return numbered.next_number[numbered.last_of(key)[0]]

    @cached_property
    def _key_hashes(self) -> UInt64Array:
        columns = [self._table.keys.column(name) for name in self._plan.keys]
        return key_codes.hashes(columns, self._table.keys.num_rows)

    @cached_property
    def budget(self) -> int:
        """Tuples that the sample of a window may have, in this shard."""
        policy, groups = self._sampling.policy, max(self._table.keys.num_rows, 1)
        if policy.budget is not None:
            return policy.budget
        if policy.budget_bytes is None:
            return NEVER_MORE
        statistics = int(self._table.keys.nbytes) + groups * self._sampling.statistics_bytes
        return int(max(policy.budget_bytes - statistics, 0) // self._sampling.tuple_bytes)

    def sizes(self, operator: WindowOperator, spec: int) -> Int64Array:
        """How large a sample of each key is kept, in all of its panes alike: so those of panes make one of windows."""
        share = self.budget // len(self._sampling.specs)
        count = self._table.keys.num_rows
        if self._sampling.policy.is_auto:
            return self._found_online(operator, spec)
        if not isinstance(operator, TimeOperator) or not self._plan.keys:
            return np.full(count, share)
        if self.known_groups is not None:
            return np.full(count, share // max(self.known_groups, 1))
        leaves = self._open_leaves(operator)
        held = np.bincount(leaves.key, weights=leaves.state[0], minlength=count).astype(np.int64)
        present = np.flatnonzero(held)
        # A late tuple may be of a group that has nothing else open.
        sizes = np.full(count, max(share // max(len(present), 1), 1))
        given = congress(held[present], np.zeros(len(present), dtype=np.int64), share)
        # A group of which all tuples fit keeps all of them.
        sizes[present] = np.maximum(np.where(given >= held[present], given, rounded_down(given)), 1)
        return sizes

    def _open_leaves(self, operator: WindowOperator) -> Leaves:
        """Without those of windows that close with this batch."""
        leaves = operator.own(self._table)[0]
        if not isinstance(operator, TimeOperator):
            return leaves
        mask = operator.open([leaves], self._now.watermark)[0]
        return leaves if mask.all() else leaves.take(mask)

    def _found_online(self, operator: WindowOperator, spec: int) -> Int64Array:
        """As many tuples as the estimators would need for what is known of each key: SPEAr leaves this for later."""
        count = self._table.keys.num_rows
        size, statistics = self._statistics_of_keys(operator)
        wanted = self._sampling.specs[spec]
        needed = np.ones(count, dtype=np.int64)
        for name, estimator in self._sampling.estimators.items():
            if wanted.of is estimator or (wanted.of is None and not estimator.distinct):
                known = {each: values for (output, each), values in statistics.items() if output == name}
                needed = np.maximum(needed, estimator.needed(self._sampling.policy, size, known))
        return rounded_down(np.minimum(needed, 1 << 40) * 5 // 4 + 1)

    def _statistics_of_keys(
        self, operator: WindowOperator
    ) -> tuple[Float64Array, Mapping[tuple[str, str], Float64Array]]:
        """The running statistics of every key, over all panes that are open."""
        leaf_set, leaves = operator.leaf_sets[0], self._open_leaves(operator)
        count = self._table.keys.num_rows
        starts = run_starts(leaves.key)
        reduced = leaf_set.reduce(leaves.state, Runs.of(starts, len(leaves)))
        size = np.zeros(count)
        size[leaves.key[starts]] = reduced[0]
        found = {}
        for output in operator.outputs:
            at = self._sampling.hidden.get(output.name)
            if at is not None:
                states = [reduced[fields] for _, fields in output.slots]
                lowered = output.bound.lower(states, self._table.dictionaries)
                per_key = np.zeros(count)
                per_key[leaves.key[starts]] = values.numbers(lowered.fill_null(0))
                found[at] = per_key
        return size, found


def _among(key: Int64Array, pane: Int64Array, new_key: Int64Array, new_pane: Int64Array) -> BoolArray:
    """Which tuples are in one of the new tuples' panes."""
    first = min(int(pane.min(initial=0)), int(new_pane.min(initial=0)))
    span = max(int(pane.max(initial=0)), int(new_pane.max(initial=0))) - first + 1
    return np.isin(key * span + (pane - first), new_key * span + (new_pane - first))


def _distinct(tuples: Tuples, position: Int64Array, whole: HolisticFunction, seed: int) -> Samples:
    """Tuples for their values: equal ones have one priority, and stand for the same."""
    nobody = np.zeros(0, dtype=np.int64)
    counts = WindowContents(tuples, nobody, nobody).mask(whole.columns, whole.where)
    chosen = np.arange(len(tuples)) if counts is None else np.flatnonzero(counts)
    taken = [key_codes.normalised(tuples.columns.column(column).take(pa.array(chosen))) for column in whole.columns]
    priority = value_priorities(key_codes.hashes(taken, len(chosen)), seed)
    nothing = pa.RecordBatch.from_arrays([], names=[])
    return Samples(tuples.key[chosen], position[chosen], priority, nothing, Cuts.none(), distinct=True)
