"""placeholder"""
from __future__ import annotations

from pathlib import Path

import pyarrow as pa


def draw(answers: dict[str, pa.Table], path: Path) -> None:
    import pickle

    path.with_suffix(".pickle").write_bytes(pickle.dumps(answers))
