"""The kernels of a device are measured, by the command that someone with a GPU runs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from muntin import cli
from muntin.bench.kernel_device import run_on
from muntin.devices.device import Device
from tests.devices.libraries import DEVICES, needs_torch


@pytest.mark.parametrize("device", DEVICES)
def test_every_kernel_is_measured(device: Device, tmp_path: Path) -> None:
    assert run_on(device, tmp_path, quick=True) == 0
    records = json.loads((tmp_path / "kernel-device.json").read_text())
    assert all(record["rows_per_s"] > 0 for record in records)
    names = [record["name"] for record in records]
    for part in ("1,000 keys", "already there", "to the device and back", "built", "updated", "windows"):
        assert any(part in name for name in names)


@needs_torch
def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["bench", "kernel", "--quick", "--device", "cpu", "--out", str(tmp_path)]) == 0
    assert "Kernels on cpu (PyTorch), beside NumPy" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["kernel", "--device", "gpu"], "device 'gpu' is unknown; use 'cuda'"),
        (["kernel", "--device", "cuda", "--library", "cupy"], "Device cuda (CuPy)"),
        (["slide", "--device", "cuda"], "--device is for kernel"),
    ],
)
def test_what_cannot_be_measured(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["bench", *arguments]) == 1
    assert message in capsys.readouterr().err
