"""Shards: how many a stream has by default, and their ids, which Spark hashes to different partitions."""

from __future__ import annotations

from dataclasses import replace

from pyspark import TaskContext

from muntin.engine.plan import Plan

STATE_PARTITIONS = "spark.sql.streaming.internal.stateStore.partitions"
"""Spark's name for the partitions of a stream's state. It keeps their number in the checkpoint, and goes by
`spark.sql.shuffle.partitions` where it is not set. Every task of a stream gets it as a local property."""
CORES_PER_SHARD, FEW = 4, 2
"""Where shards only merge panes, there is one for this many cores, and there are this many if that would be fewer."""

_MASK = 0xFFFFFFFF


def shards_for(plan: Plan, cores: int) -> int:
    """The number of shards by the work that is known before the first batch: that of the query.

    Rows become panes before the shuffle. Where shards only merge panes, one of them does in a batch with 100,000 keys
    what a further shard costs in every batch, as a task with a worker and a state of its own.
    """
    if not plan.only_merges_panes:
        return cores
    return min(cores, max(FEW, cores // CORES_PER_SHARD)) if plan.keys else 1


def of_this_stream(plan: Plan) -> Plan:
    """The plan in a task of a stream: with the number of shards that the checkpoint has, if the plan follows it."""
    context = TaskContext.get() if plan.follows_checkpoint else None
    number = None if context is None else context.getLocalProperty(STATE_PARTITIONS)
    if number is None or int(number) == len(plan.shards):
        return plan
    return replace(plan, shards=tuple(shard_ids(int(number))))


def shard_ids(partitions: int, count: int | None = None) -> list[int]:
    """One id per partition, or `count` ids: id `i` goes to partition `pmod(murmur3(i), partitions)`.

    The ids 0, 1, 2, … would collide: some partitions would hold several shards and others none. Id 0 is always one
    of them, so a checkpoint of another number of shards is noticed in the first batch.
    """
    count = partitions if count is None else count
    by_partition: list[list[int]] = [[] for _ in range(partitions)]
    rounds = -(-count // partitions)
    candidate = 0
    while min(map(len, by_partition)) < rounds:
        by_partition[_murmur3(candidate) % partitions].append(candidate)
        candidate += 1
    ids = [candidates[turn] for turn in range(rounds) for candidates in by_partition]
    return ids[:count] if 0 in ids[:count] else [*ids[: count - 1], 0]


def _murmur3(value: int, seed: int = 42) -> int:
    """Spark's hash of a 32-bit integer (Murmur3 x86, 32 bits), as a signed number."""
    mixed = _rotate(value * 0xCC9E2D51 & _MASK, 15) * 0x1B873593 & _MASK
    result = (_rotate(seed ^ mixed, 13) * 5 + 0xE6546B64) & _MASK
    result ^= 4  # the length of the input in bytes
    result = (result ^ result >> 16) * 0x85EBCA6B & _MASK
    result = (result ^ result >> 13) * 0xC2B2AE35 & _MASK
    result ^= result >> 16
    return result - (1 << 32) if result >> 31 else result


def _rotate(bits: int, by: int) -> int:
    return (bits << by | bits >> (32 - by)) & _MASK
