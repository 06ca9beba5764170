"""By how much a late row was late, and which windows it missed: the column `lateness` beside `late`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from muntin.arrays import Int64Array, expand, stable_order
from muntin.panes.grid import last_ends
from muntin.panes.watermarks import Watermarks
from muntin.partials.values import viewed
from muntin.windows import PaneWindow, TupleWindow, Window
from muntin.windows.model import NEVER


def lateness_type(time: pa.DataType, several: bool) -> pa.StructType:
    """The type of the column, for rows with such a time; `several` windows have names."""
    window = [("window_name", pa.string())] * several + [("window_id", pa.int64()), ("start", time), ("end", time)]
    return pa.struct([("seconds", pa.float64()), ("missed", pa.list_(pa.struct(window)))])


def lateness(times: Int64Array, windows: Sequence[Window], closed: Watermarks, kind: pa.StructType) -> pa.StructArray:
    """The lateness of rows that are too late for all windows.

    `seconds` is how far the watermark was behind the end of the last window of a row. `missed` are the windows over
    time that contain the row. Which other windows would have contained it depends on rows that are gone.
    """
    behind = np.full(len(times), np.iinfo(np.int64).max)
    for window in windows:
        watermark = closed.finalized if isinstance(window, TupleWindow) else closed.watermark
        ends = last_ends(times, [window])
        inside = ends > NEVER
        behind[inside] = np.minimum(behind[inside], watermark - ends[inside])
    missed = _missed(times, windows, kind[1].type)
    return pa.StructArray.from_arrays([pa.array(behind / 1e6), missed], fields=list(kind))


def _missed(times: Int64Array, windows: Sequence[Window], kind: pa.ListType) -> pa.ListArray:
    """For every row, the windows over time that contain it, by their ends."""
    none = np.zeros(0, dtype=np.int64)
    parts = [(none, none, none, none, none)]
    for model, window in enumerate(windows):
        if isinstance(window, PaneWindow):
            first, last = window.first_containing(times), window.last_containing(times)
            ids, rows = expand(first, np.maximum(last - first + 1, 0))
            parts.append((rows, np.full(len(ids), model), window.public_id(ids), window.start(ids), window.end(ids)))
    row, models, window_id, start, end = map(np.concatenate, zip(*parts, strict=True))
    order = stable_order(models, start, end, row)
    window_type = kind.value_type
    fields = {
        "window_name": pa.array([window.title for window in windows]).take(pa.array(models[order])),
        "window_id": pa.array(window_id[order]),
        "start": viewed(start[order], window_type.field("start").type),
        "end": viewed(end[order], window_type.field("end").type),
    }
    structs = pa.StructArray.from_arrays([fields[field.name] for field in window_type], fields=list(window_type))
    offsets = np.searchsorted(row[order], np.arange(len(times) + 1)).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), structs, type=kind)
