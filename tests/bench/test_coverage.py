"""The short form of the coverage benchmark: intervals hold, and the benchmark would see it if they did not."""

from __future__ import annotations

import json
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest

from muntin.bench import coverage
from muntin.bench.coverage import BRIEF, covered, entry, grid, table
from muntin.bench.coverage_core import AGGREGATES, PAIRS, Covered, Setting, measure
from muntin.bench.coverage_plot import draw
from muntin.features.shedding import corrections
from muntin.statistics.bounded import half_width


def test_intervals_hold_in_every_setting_of_the_short_grid(tmp_path: Path) -> None:
    log = tmp_path / "coverage.jsonl"
    found = covered(BRIEF, log=log, processes=1)
    assert len(log.read_text().splitlines()) == len(list(grid(BRIEF)))
    with patch.object(coverage, "measured_setting", None):  # nothing is measured again
        np.testing.assert_equal([entry(each) for each in covered(BRIEF, log=log)], [entry(each) for each in found])
    assert len({each.setting for each in found}) > 60
    assert [(each.setting.title, each.aggregate) for each in found if not each.holds] == []
    given = {each.aggregate for each in found if each.given}
    assert given >= {*AGGREGATES, PAIRS} - {"variance", "deviation"}
    json.dumps([entry(each) for each in found], allow_nan=False)
    assert table(found).row_count == 3 * (len(AGGREGATES) + 1)
    draw(found, tmp_path / "coverage.png")
    assert (tmp_path / "coverage.png").stat().st_size > 10_000


def test_an_interval_that_is_too_narrow_is_seen() -> None:
    setting = Setting("bimodal", 200, 0.9)
    with patch.object(corrections, "half_width", lambda *known: half_width(*known) * 0.2):
        found = [each for each in measure(setting, 300, 0) if each.aggregate == "mean"]
    assert not any(each.holds for each in found)


def test_a_share_is_judged_by_its_standard_error() -> None:
    def holds(share: int) -> bool:
        return Covered(Setting(), "mean", 0.95, 5000, 5000, share, np.nan).holds

    assert holds(4750)
    assert holds(4705)
    assert not holds(4700)
    assert Covered(Setting(), "mean", 0.95, 5000, 0, 0, np.nan).holds, "no interval is no wrong one"


@pytest.mark.parametrize("scale", [coverage.FULL, coverage.QUICK])
def test_no_axis_is_left_out(scale: coverage.Scale) -> None:
    settings = list(grid(scale))
    assert len(settings) == len(set(settings))
    for name, least in (("made", 16), ("size", 2), ("way", 6), ("groups", 4), ("counting", 3), ("panes", 3)):
        assert len({getattr(setting, name) for setting in settings}) >= least
    assert any(setting.shuffled for setting in settings)
