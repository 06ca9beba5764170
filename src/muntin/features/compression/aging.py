"""A_C (Gulisano 2024, tunable memory compression): old chunks are compressed before fresh ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa

from muntin.engine.batch import ShardBatch
from muntin.engine.chunks.store import ChunkStore
from muntin.engine.features import Feature, ShardFeature, Task
from muntin.engine.plan import Plan
from muntin.features.compression.by_key import KeyAging
from muntin.features.compression.policy import Compression
from muntin.features.order import COMPRESSION


@dataclass(frozen=True)
class CompressedChunks(Feature):
    """Chunks are compressed when event time has moved D past their last update, or to stay within a limit."""

    policy: Compression
    name = "compression"
    order = COMPRESSION

    def on_shard(self, plan: Plan, shard: int, task: Task) -> ShardFeature:
        return KeyAging(self.policy) if self.policy.unit == "key" else Aging(self.policy, len(plan.shards))


@dataclass(frozen=True)
class AgePolicy:
    """The compression policy of one shard's chunks."""

    policy: Compression
    limit: int | None

    def is_old(self, age: int) -> bool:
        return self.policy.after is not None and age >= self.policy.after

    def codec(self, age: int) -> pa.Codec | None:
        return self.policy.make_codec() if self.is_old(age) else None


class Aging(ShardFeature):
    """The chunks of one shard, in one batch."""

    def __init__(self, policy: Compression, shards: int) -> None:
        self._make_codec: Callable[[], pa.Codec] = policy.make_codec
        self._policy = AgePolicy(policy, None if policy.memory is None else policy.memory // shards)
        self.chunk_policy = self._policy

    def prune(self, batch: ShardBatch) -> None:
        self._age(batch.chunks)
        tuples = None if batch.left is None else batch.left.tuples
        self._stay_within_limit(batch.chunks, others=0 if tuples is None else tuples.nbytes)

    def _age(self, chunks: ChunkStore) -> None:
        """Compress the chunks that were not updated for D, oldest first."""
        for chunk in chunks.uncompressed():
            if not self._policy.is_old(chunks.age(chunk)):
                break
            chunks.compress(chunk, self._make_codec())

    def _stay_within_limit(self, chunks: ChunkStore, others: int) -> None:
        """The controller: keep the bytes of chunks and of `others` within the memory limit.

        The oldest chunks are compressed first. Once all are compressed, the oldest are evicted to the state. Closing
        windows remove the oldest chunks, so with less load fresh ones stay uncompressed again.
        """
        limit = self._policy.limit
        if limit is None:
            return
        for chunk in chunks.uncompressed():
            if chunks.resident_bytes + others <= limit:
                return
            chunks.compress(chunk, self._make_codec())
        for chunk in list(chunks.chunks):
            if chunks.resident_bytes + others <= limit:
                return
            chunks.evict(chunk)
