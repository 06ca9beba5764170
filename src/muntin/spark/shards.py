"""Shard ids that fall into partitions of their own."""

from __future__ import annotations

_MASK = 0xFFFFFFFF


def shard_ids(partitions: int) -> list[int]:
    """One id per partition: Spark sends id `i` to partition `pmod(murmur3(i), partitions)`.

    The ids 0, 1, 2, … would collide: some partitions would hold several shards and others none. Id 0 is always one
    of them, so a checkpoint of another number of shards is noticed in the first batch.
    """
    found: dict[int, int] = {}
    candidate = 0
    while len(found) < partitions:
        found.setdefault(_murmur3(candidate) % partitions, candidate)
        candidate += 1
    return [found[partition] for partition in range(partitions)]


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
