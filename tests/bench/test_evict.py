"""Both ways to slide have the same answers, as long as no value is large."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from muntin.bench.evict import Running, Tree, left_behind, run


def test_the_answers_agree() -> None:
    tree, running, rng = Tree(37, 5), Running(37, 5), np.random.default_rng(0)
    for _ in range(100):
        sums, counts = rng.integers(0, 1000, 5).astype(float), rng.integers(0, 9, 5)
        for ours, theirs in zip(tree.slide(sums, counts), running.slide(sums, counts), strict=True):
            assert ours.tolist() == theirs.tolist()


def test_what_large_values_leave_behind() -> None:
    assert left_behind(Tree, 1e20) == 0
    assert left_behind(Running, 1e20) == 60
    assert np.isnan(left_behind(Running, float("inf")))
    assert left_behind(Tree, float("inf")) == 0


def test_the_benchmark_runs(tmp_path: Path) -> None:
    assert run(tmp_path, quick=True) == 0
    assert json.loads((tmp_path / "evict.json").read_text())[0]["rows_per_s"] > 0
