"""The packed format of a shard's samples: Arrow IPC streams behind the common header of Muntin's state."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from muntin.engine.plan import Plan
from muntin.features.sampling.plan import SamplingPlan
from muntin.features.sampling.samples import Cuts, Samples
from muntin.features.sampling.store import ShardSamples
from muntin.panes.packed import PLAIN, Kind, read_batches, seal, unseal, write_batch


def pack_samples(samples: ShardSamples) -> bytes:
    """The keys, then the tuples and the cuts of each sample."""
    sink = pa.BufferOutputStream()
    write_batch(sink, samples.keys, PLAIN)
    for sample_set in samples.sets:
        columns = [pa.array(sample_set.key), pa.array(sample_set.position), pa.array(sample_set.priority)]
        names = ["key", "position", "priority", *sample_set.columns.schema.names]
        # Random tuples hardly compress.
        write_batch(sink, pa.RecordBatch.from_arrays([*columns, *sample_set.columns.columns], names=names), PLAIN)
        cuts = sample_set.cuts
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
    specs = [sampling.specs[spec] for _ in plan.operators for spec, _ in sampling.sets]
    # Until there were epochs, distinct values had one sample, too.
    is_old = len(batches) < 2 * len(specs)
    specs = [spec for _ in plan.operators for spec in sampling.specs] if is_old else specs
    sets = []
    for spec, tuples, cuts in zip(specs, batches[::2], batches[1::2], strict=True):
        key, position, priority = (np.asarray(tuples.column(i)) for i in range(3))
        schema = spec.schema(plan.layout.tuples)
        columns = pa.RecordBatch.from_arrays(tuples.columns[3:], schema=schema)
        sample_cuts = Cuts(*(np.asarray(cuts.column(i)) for i in range(3)))
        samples = Samples(key, position, priority, columns, sample_cuts, distinct=spec.distinct is not None)
        sets += [samples.given_up()] * spec.turns if is_old and spec.distinct else [samples]
    return ShardSamples(keys, tuple(sets))
