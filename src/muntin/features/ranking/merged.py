"""From the results of all shards to the k best groups of each window, ranked.

All shards close the same windows in the same batch, because each of them runs whenever the watermark moves. So the
results of one batch contain its windows completely, and ranking needs no state.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

import numpy as np
import pyarrow as pa

from muntin.arrays import Int64Array
from muntin.engine.plan import Plan
from muntin.engine.result_rows import bounds
from muntin.features.ranking.order import ordered
from muntin.features.ranking.places import places
from muntin.features.ranking.policy import Top

MOST_ROWS = 1 << 20
"""The most results that are sorted at once, unless a single window has more groups."""
_PLACES = ("first_rank", "last_rank")


def ranked_schema(plan: Plan) -> pa.Schema:
    """The schema of ranked results: `rank` after the aggregates, and the bounds of the rank in `quality`."""
    fields = []
    for field in plan.result_schema:
        if field.name == "quality":
            field = pa.field("quality", pa.struct([*field.type, *(pa.field(name, pa.int32()) for name in _PLACES)]))
        fields.append(field)
    after_outputs = max(plan.result_schema.get_field_index(output.name) for output in plan.outputs) + 1
    return pa.schema([*fields[:after_outputs], pa.field("rank", pa.int32()), *fields[after_outputs:]])


def merged(plan: Plan, top: Top, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Late rows, then the k best groups of every window, in window order and then by rank.

    `batches` are the results of all shards in one batch, each in window order. All are in memory: if answers are exact,
    up to k groups of each window and shard; else all groups. They are ranked in pieces.
    """
    schema = ranked_schema(plan)
    ends_and_batches: list[tuple[Int64Array, pa.RecordBatch]] = []
    for batch in batches:
        if not batch.num_rows:
            continue
        if batch.column("window").null_count:  # late rows have no window, and no rank
            yield _with_rank(batch, schema, None)
        else:
            ends_and_batches.append((bounds(batch)[1], batch))
    for piece in _pieces(ends_and_batches):
        (batch,) = pa.Table.from_batches(piece).combine_chunks().to_batches()
        yield _ranked(plan, top, batch, schema)


def _pieces(ends_and_batches: Sequence[tuple[Int64Array, pa.RecordBatch]]) -> Iterator[list[pa.RecordBatch]]:
    """Pieces of about `MOST_ROWS` results, cut between windows by their end."""
    if not ends_and_batches:
        return
    ends = np.sort(np.concatenate([ends for ends, _ in ends_and_batches]))
    cuts = np.unique([*ends[MOST_ROWS - 1 :: MOST_ROWS], ends[-1]])
    for after, until in pairwise([int(ends[0]) - 1, *cuts.tolist()]):
        edges = [
            (batch, np.searchsorted(ends_of_batch, [after, until], side="right"))
            for ends_of_batch, batch in ends_and_batches
        ]
        yield [batch.slice(begin, end - begin) for batch, (begin, end) in edges if begin < end]


def _ranked(plan: Plan, top: Top, batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    groups = ordered(plan, top, batch)
    rank = groups.rank
    kept = rank <= top.k
    rows = groups.rows[kept]
    around = None
    if plan.schema.is_estimated:
        first, last = places(plan, top, batch, groups)
        around = [pa.array(column[rows], pa.int32()) for column in (first, last)]
    return _with_rank(batch.take(pa.array(rows)), schema, pa.array(rank[kept], pa.int32()), around)


def _with_rank(
    batch: pa.RecordBatch, schema: pa.Schema, rank: pa.Array | None, around: Sequence[pa.Array] | None = None
) -> pa.RecordBatch:
    columns = []
    for field in schema:
        if field.name == "rank":
            columns.append(pa.nulls(batch.num_rows, field.type) if rank is None else rank)
        elif field.name == "quality":
            quality = batch.column("quality")
            more = around or [pa.nulls(batch.num_rows, pa.int32())] * len(_PLACES)
            mask = quality.is_null() if quality.null_count else None
            columns.append(pa.StructArray.from_arrays([*quality.flatten(), *more], fields=list(field.type), mask=mask))
        else:
            columns.append(batch.column(field.name))
    return pa.RecordBatch.from_arrays(columns, schema=schema)
