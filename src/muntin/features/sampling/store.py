"""The samples of one shard (SPEAr's algorithm 1): new tuples are sampled within the budget, and the samples are stored.

Each operator has its own samples, because it defines the position of tuples: their time, or their number. A sample
consists of tuples, or of the distinct values of a column.
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
from muntin.engine.operators.numbered import Numbered
from muntin.engine.operators.operator import NEVER_MORE, TupleOperator, WindowOperator
from muntin.engine.operators.ordered import OrderedOperator
from muntin.engine.operators.partials import FIRST_TIME, LAST_TIME
from muntin.engine.operators.session import SessionOperator
from muntin.engine.operators.time import TimeOperator
from muntin.engine.plan import Plan
from muntin.features.sampling.epochs import Epochs
from muntin.features.sampling.pause import Pause
from muntin.features.sampling.plan import SamplingPlan
from muntin.features.sampling.priority import priorities, value_priorities
from muntin.features.sampling.samples import Cuts, Samples, WindowSamples
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
    """The samples of all operators, and the keys of their codes."""

    keys: pa.RecordBatch
    sets: tuple[Samples, ...]
    """Operator by operator, and for each operator in the order of the plan's `sets`."""

    @classmethod
    def none(cls, plan: Plan, sampling: SamplingPlan) -> ShardSamples:
        empty = [sampling.specs[spec].empty(plan.layout.tuples) for _ in plan.operators for spec, _ in sampling.sets]
        return cls(_no_keys(plan), tuple(empty))

    @property
    def nbytes(self) -> int:
        return sum(samples.nbytes for samples in self.sets)

    def __len__(self) -> int:
        return sum(map(len, self.sets))

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to store: no tuples, and no cuts."""
        return not any(len(samples) or len(samples.cuts) for samples in self.sets)

    def is_still(self, other: ShardSamples) -> bool:
        """Whether nothing has changed since the other."""
        return all(map(is_, self.sets, other.sets)) and self.keys.equals(other.keys)

    def with_keys_of(self, plan: Plan, table: PaneTable) -> ShardSamples:
        """The same with the key codes of a table; keys that are not in the table are removed."""
        if self.keys is table.keys:
            return self
        if self.is_empty:
            return ShardSamples(table.keys, self.sets)
        _, (ours, theirs) = merged_keys(plan.layout, [table, PaneTable(self.keys, (), {})])
        codes = np.full(max(int(ours.max(initial=-1)), int(theirs.max(initial=-1))) + 1, -1, dtype=np.int64)
        codes[ours] = np.arange(len(ours))
        return ShardSamples(table.keys, tuple(samples.recoded(codes[theirs]) for samples in self.sets))


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
        """`table` includes the rows of this batch; `shard` is the index of the shard in the plan.

        Shares depend on the windows open at `now`. So batches without rows, which a stream may insert, do not change
        the samples.
        """
        self._plan = plan
        self._now = now
        self.pause = pause or Pause()
        self._has_new = False
        self._sampling = sampling
        self._table = table
        self.known_groups = self._sampling.groups_of_shard[shard] if self._sampling.groups_of_shard else None
        self._samples = list(samples.with_keys_of(plan, table).sets)

    def limits(self, operator: WindowOperator, spec: int, key: Int64Array, begin: Int64Array) -> Int64Array:
        """The largest sample of each window, by the tuples that were dropped."""
        turn = self._turn_of(operator, spec, begin)
        limits = [samples.cuts.limits(key, begin) for samples in self._of(operator, spec)]
        return np.asarray(np.choose(turn, limits))

    def drawn(
        self,
        operator: WindowOperator,
        spec: int,
        key: Int64Array,
        begin: Int64Array,
        end: Int64Array,
        most: Int64Array,
    ) -> list[WindowSamples]:
        """The samples of windows, by turn: each window has tuples in one of them. `most` is within the limits."""
        turn = self._turn_of(operator, spec, begin)
        return [
            samples.windows(key, begin, end, np.where(turn == number, most, 0))
            for number, samples in enumerate(self._of(operator, spec))
        ]

    def _of(self, operator: WindowOperator, spec: int) -> list[Samples]:
        first = self._place(operator, (spec, 0))
        return self._samples[first : first + self._sampling.specs[spec].turns]

    def _turn_of(self, operator: WindowOperator, spec: int, begin: Int64Array) -> Int64Array:
        if self._sampling.specs[spec].distinct is None:
            return np.zeros(len(begin), dtype=np.int64)
        return Epochs.of(operator).turn_of(begin)

    def _place(self, operator: WindowOperator, sample_set: tuple[int, int]) -> int:
        number = next(i for i, candidate in enumerate(self._plan.operators) if candidate is operator)
        return number * len(self._sampling.sets) + self._sampling.sets.index(sample_set)

    def ingest(self, fresh: Tuples, finalized: Tuples, epoch: int, paused: bool = False) -> None:
        """Sample new tuples: `fresh` ones arrived in this batch, `finalized` ones now have their final order.

        `epoch` identifies the batch in its shard, and is the same in a replay. During a pause all tuples are dropped,
        so windows that contain one have no sample.
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
            number_in_batch = positions_in_runs(run_starts(tuples.key), len(tuples))
            identity = position if operator.needs_order else number_in_batch
            key_hash, seed = self._key_hashes[tuples.key], self._sampling.policy.seed
            priority = priorities(key_hash, identity, seed, 0 if operator.needs_order else epoch)
            epochs = Epochs.of(operator)
            for index, turn in self._sampling.sets:
                if turn >= epochs.turns:
                    continue
                place, spec = self._place(operator, (index, turn)), self._sampling.specs[index]
                kept = self.sizes(operator, index)
                if spec.distinct is None:
                    columns = tuples.columns.select(list(spec.columns))
                    new = Samples(tuples.key, position, priority, columns, Cuts.none())
                else:
                    salt = epochs.salts(position, turn)
                    new = _distinct(tuples, position, spec.distinct.holistic, key_hash, salt, seed)
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
        for sample_set in self._sampling.sets:
            place = self._place(operator, sample_set)
            samples = self._samples[place]
            none_kept = np.zeros(len(last), dtype=np.int64)
            self._samples[place] = samples.with_cuts(samples.cuts.plus(key[last], position[last], none_kept))

    def _first_choice(
        self, operator: WindowOperator, new: Samples, kept: Int64Array, cuts: Cuts
    ) -> tuple[Samples, Cuts]:
        """Preselect the smallest of the new tuples of large panes by a threshold, without sorting."""
        if new.distinct or len(new) < 1024:
            return new, cuts
        starts = run_starts(new.key, self._panes(operator, new))
        lengths = np.diff(starts, append=len(new))
        kept_of_pane = kept[new.key[starts]]
        share = (kept_of_pane + 6 * np.sqrt(kept_of_pane) + 16) / lengths
        threshold = np.where(share < 0.5, share * 2.0**64, 2.0**64 - 2048).astype(np.uint64)
        selected = new.priority < np.repeat(threshold, lengths)
        enough = np.add.reduceat(selected.astype(np.int64), starts) >= np.minimum(kept_of_pane, lengths)
        is_cut = enough & (share < 0.5)
        selected |= np.repeat(~is_cut, lengths)
        last = starts + lengths - 1
        return new.take(selected), cuts.plus(new.key[starts[is_cut]], new.position[last[is_cut]], kept_of_pane[is_cut])

    def _best_of_panes(self, operator: WindowOperator, samples: Samples, new: Samples, kept: Int64Array) -> Samples:
        """The smallest tuples of panes with new tuples; other panes were reduced before."""
        pane, touched = self._panes(operator, samples), self._panes(operator, new)
        samples = samples.best_of_panes(pane, kept, _among(samples.key, pane, new.key, touched))
        if not isinstance(operator, TimeOperator) or not self._plan.keys or not len(samples):
            return samples
        # Windows over a pane with more groups than the budget has tuples are answered exactly, without a sample.
        pane = self._panes(operator, samples)
        _, number, count = np.unique(pane, return_inverse=True, return_counts=True)
        full = count[number] > self.budget
        return samples.without_panes(full) if full.any() else samples

    def prune(self, table: PaneTable, closed: Watermarks, now: Watermarks) -> ShardSamples:
        """The samples that open windows may need; `table` is the pruned table, with the same keys."""
        remaining = ShardSamples(table.keys, tuple(self._samples))
        if remaining.is_empty:
            return remaining
        pruned = []
        for operator in self._plan.operators:
            before = now.watermark if isinstance(operator, TimeOperator) else NEVER_MORE
            for index, turn in self._sampling.sets:
                samples = self._samples[self._place(operator, (index, turn))]
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
            session, last_time = self._sessions(operator, table, key, position)
            return (session >= 0) & (position <= last_time)
        (leaves,) = operator.own(table)
        first = np.full(table.keys.num_rows, NEVER_MORE)
        starts = run_starts(leaves.key)
        first[leaves.key[starts]] = leaves.time[starts]
        return position >= first[key]

    def _has_panes(self, operator: WindowOperator) -> bool:
        """Whether every window contains whole panes: not if windows may be emitted incomplete."""
        if isinstance(operator, OrderedOperator):
            return operator.pane > 1 and operator.shortest_wait is None
        return not isinstance(operator, DeltaOperator)

    def _panes(self, operator: WindowOperator, samples: Samples) -> Int64Array:
        if isinstance(operator, TimeOperator):
            return operator.grid.starts(samples.position)
        if isinstance(operator, SessionOperator):
            return self._sessions(operator, self._table, samples.key, samples.position)[0]
        assert isinstance(operator, OrderedOperator)
        return samples.position // operator.pane

    def _sessions(
        self, operator: SessionOperator, table: PaneTable, key: Int64Array, position: Int64Array
    ) -> tuple[Int64Array, Int64Array]:
        """The session at or before each position, and its last time; -1 where there is none."""
        (leaves,) = operator.own(table)
        starts = operator.sessions(leaves)
        if not len(starts):
            return np.full(len(key), -1), np.full(len(key), -1)
        last = np.maximum.reduceat(leaves.state[LAST_TIME], starts)
        session = LeafIndex(leaves.key[starts], leaves.state[FIRST_TIME][starts]).first(key, position + 1) - 1
        inside = (session >= 0) & (leaves.key[starts][np.maximum(session, 0)] == key)
        return np.where(inside, session, -1), last[np.maximum(session, 0)]

    def _numbers(self, operator: TupleOperator, tuples: Tuples) -> Int64Array:
        """The number of each newly finalized tuple: the leaves of its key count all tuples, with these."""
        numbered = Numbered(operator.own(self._table)[0])
        starts = run_starts(tuples.key)
        lengths = np.diff(starts, append=len(tuples))
        last, _ = numbered.last_of(tuples.key[starts])
        first = numbered.next_number[last] - lengths
        return np.repeat(first, lengths) + positions_in_runs(starts, len(tuples))

    def finalized_counts(self, operator: TupleOperator, key: Int64Array) -> Int64Array:
        """The number of finalized tuples of each key."""
        numbered = Numbered(operator.own(self._table)[0])
        return numbered.next_number[numbered.last_of(key)[0]]

    @cached_property
    def _key_hashes(self) -> UInt64Array:
        columns = [self._table.keys.column(name) for name in self._plan.keys]
        return key_codes.hashes(columns, self._table.keys.num_rows)

    @cached_property
    def budget(self) -> int:
        """The most tuples in the sample of a window, in this shard."""
        policy, groups = self._sampling.policy, max(self._table.keys.num_rows, 1)
        if policy.budget is not None:
            return policy.budget
        if policy.budget_bytes is None:
            return NEVER_MORE
        statistics = int(self._table.keys.nbytes) + groups * self._sampling.statistics_bytes
        return int(max(policy.budget_bytes - statistics, 0) // self._sampling.tuple_bytes)

    def sizes(self, operator: WindowOperator, spec: int) -> Int64Array:
        """The sample size of each key, the same in all of its panes, so that samples of panes merge."""
        share = self.budget // len(self._sampling.specs)
        count = self._table.keys.num_rows
        if self._sampling.policy.is_auto:
            return self._found_online(operator, spec)
        if not isinstance(operator, TimeOperator) or not self._plan.keys:
            return np.full(count, share)
        if self.known_groups is not None:
            return np.full(count, share // max(self.known_groups, 1))
        leaves = self._open_leaves(operator)
        tuples = np.bincount(leaves.key, weights=leaves.state[0], minlength=count).astype(np.int64)
        present = np.flatnonzero(tuples)
        # A late tuple may belong to a group without open panes.
        sizes = np.full(count, max(share // max(len(present), 1), 1))
        divided = congress(tuples[present], np.zeros(len(present), dtype=np.int64), share)
        # A group whose tuples all fit keeps all of them.
        sizes[present] = np.maximum(np.where(divided >= tuples[present], divided, rounded_down(divided)), 1)
        return sizes

    def _open_leaves(self, operator: WindowOperator) -> Leaves:
        """The leaves of windows that stay open after this batch."""
        leaves = operator.own(self._table)[0]
        if not isinstance(operator, TimeOperator):
            return leaves
        mask = operator.open([leaves], self._now.watermark)[0]
        return leaves if mask.all() else leaves.take(mask)

    def _found_online(self, operator: WindowOperator, spec: int) -> Int64Array:
        """The sample size that the estimators need by the statistics of each key; future work in SPEAr."""
        count = self._table.keys.num_rows
        size, statistics = self._statistics_of_keys(operator)
        sample_spec = self._sampling.specs[spec]
        needed = np.ones(count, dtype=np.int64)
        for name, estimator in self._sampling.estimators.items():
            if sample_spec.distinct is estimator or (sample_spec.distinct is None and not estimator.distinct):
                known = {statistic: values for (output, statistic), values in statistics.items() if output == name}
                needed = np.maximum(needed, estimator.needed(self._sampling.policy, size, known))
        return rounded_down(np.minimum(needed, 1 << 40) * 5 // 4 + 1)

    def _statistics_of_keys(
        self, operator: WindowOperator
    ) -> tuple[Float64Array, Mapping[tuple[str, str], Float64Array]]:
        """The running statistics of every key, over its open panes."""
        leaf_set, leaves = operator.leaf_sets[0], self._open_leaves(operator)
        count = self._table.keys.num_rows
        starts = run_starts(leaves.key)
        reduced = leaf_set.reduce(leaves.state, Runs.of(starts, len(leaves)))
        size = np.zeros(count)
        size[leaves.key[starts]] = reduced[0]
        statistics = {}
        for output in operator.outputs:
            statistic = self._sampling.hidden.get(output.name)
            if statistic is not None:
                states = [reduced[fields] for _, fields in output.slots]
                lowered = output.bound.lower(states, self._table.dictionaries)
                per_key = np.zeros(count)
                per_key[leaves.key[starts]] = values.numbers(lowered.fill_null(0))
                statistics[statistic] = per_key
        return size, statistics


def _among(key: Int64Array, pane: Int64Array, new_key: Int64Array, new_pane: Int64Array) -> BoolArray:
    """Which tuples are in a pane of a new tuple."""
    first = min(int(pane.min(initial=0)), int(new_pane.min(initial=0)))
    span = max(int(pane.max(initial=0)), int(new_pane.max(initial=0))) - first + 1
    return np.isin(key * span + (pane - first), new_key * span + (new_pane - first))


def _distinct(
    tuples: Tuples,
    position: Int64Array,
    function: HolisticFunction,
    key_hash: UInt64Array,
    salt: UInt64Array,
    seed: int,
) -> Samples:
    """The values as samples: equal values of a key and an epoch have the same priority."""
    no_windows = np.zeros(0, dtype=np.int64)
    counts = WindowContents(tuples, no_windows, no_windows).mask(function.columns, function.where)
    rows = np.arange(len(tuples)) if counts is None else np.flatnonzero(counts)
    columns = [key_codes.normalised(tuples.columns.column(column).take(pa.array(rows))) for column in function.columns]
    priority = value_priorities(key_codes.hashes(columns, len(rows)), key_hash[rows], salt[rows], seed)
    no_columns = pa.RecordBatch.from_arrays([], names=[])
    return Samples(tuples.key[rows], position[rows], priority, no_columns, Cuts.none(), distinct=True)
