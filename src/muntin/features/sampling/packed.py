"""The samples of a shard as bytes: Arrow IPC streams behind the header that all of Muntin's state has."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from muntin.engine.plan import Plan
from muntin.features.sampling.plan import SamplingPlan
from muntin.features.sampling.samples import Cuts, Samples
from muntin.features.sampling.store import ShardSamples
from muntin.panes.packed import PLAIN, Kind, read_batches, seal, unseal, write_batch


def pack_samples(samples: ShardSamples) -> bytes:
    """The keys, then of each sample its tuples and its cuts."""
    sink = pa.BufferOutputStream()
    write_batch(sink, samples.keys, PLAIN)
    for each in samples.sets:
        own = [pa.array(each.key), pa.array(each.position), pa.array(each.priority)]
        names = ["key", "position", "priority", *each.columns.schema.names]
        # Random tuples do not compress.
        write_batch(sink, pa.RecordBatch.from_arrays([*own, *each.columns.columns], names=names), PLAIN)
        cuts = each.cuts
        write_batch(
            sink,
            pa.RecordBatch.from_arrays(
                [pa.array(cuts.key), pa.array(cuts.position), pa.array(cuts.kept)], names=["key", "position", "kept"]
            ),
            PLAIN,
        )
    return seal(Kind.SAMPLES, sink.getvalue().to_pybytes())


def unpack_samples(plan: Plan, sampling: SamplingPlan, sealed: bytes) -> ShardSamples:
    keys, *batches = read_batches(unseal(Kind.SAMPLES, sealed))
    specs = [spec for _ in plan.operators for spec in sampling.specs]
    sets = []
    for spec, own, cuts in zip(specs, batches[::2], batches[1::2], strict=True):
        key, position, priority = (np.asarray(own.column(i)) for i in range(3))
        schema = spec.schema(plan.layout.tuples)
        columns = pa.RecordBatch.from_arrays(own.columns[3:], schema=schema)
        cut = Cuts(*(np.asarray(cuts.column(i)) for i in range(3)))
        sets.append(Samples(key, position, priority, columns, cut, distinct=spec.of is not None))
    return ShardSamples(keys, tuple(sets))
