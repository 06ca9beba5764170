"""Unexpected values for arguments: each is accepted or raises a MuntinError, and never another exception."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from hypothesis import strategies as st

from muntin import aggregates as A
from muntin import windows as W

NASTY: list[Any] = [
    None,
    True,
    float("nan"),
    float("inf"),
    np.float64("nan"),
    np.float32(0.5),
    np.complex128(1j),
    np.int64(3),
    np.bool_(True),
    np.timedelta64(5, "s"),
    np.array([1, 2]),
    np.array([]),
    np.array("x"),
    pd.NA,
    pd.NaT,
    pd.Timestamp("2024-01-01"),
    pd.Series([1, 2]),
    pd.DataFrame({"a": [1, 2]}),
    pa.array([1, 2]),
    Decimal("NaN"),
    Decimal(3),
    timedelta(0),
    timedelta.max,
    0,
    -1,
    3,
    2**70,
    0.5,
    "",
    " ",
    "\ud800",
    "\0",
    "x",
    "'",
    "`",
    "9" * 400 + " GB",
    "9" * 400 + " days",
    "1e400 seconds",
    "0.0000001 seconds",
    "5 minutes",
    b"x",
    b"\xff",
    object(),
    lambda: None,
    lambda x: x,
    int,
    print,
    np.add,
    [],
    [None],
    ["x", "\ud800"],
    (1, 2),
    {},
    {"x": 1},
    {1, 2},
    range(3),
    iter([]),
    A.count,
    A.count(),
    W.tumbling,
    W.tumbling("5 seconds"),
    ...,
    NotImplemented,
]
ANY = st.sampled_from(NASTY) | st.text(max_size=8) | st.integers() | st.floats() | st.binary(max_size=4)
