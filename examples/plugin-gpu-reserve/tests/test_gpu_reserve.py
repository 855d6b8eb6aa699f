"""The plug-in keeps the protocol, and the scheduler decides with it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from gangsched_gpu_reserve import Arguments, GpuReserveFilter, GpuReserveScore

from gangsched.cli.main import main
from gangsched_conformance import check

HERE = Path(__file__).resolve().parents[1]


@pytest.mark.parametrize("make", [GpuReserveFilter, GpuReserveScore])
@pytest.mark.parametrize("millicores", [0, 4000])
def test_the_protocol_is_kept(make: type[GpuReserveFilter | GpuReserveScore], millicores: int) -> None:
    """The conformance kit of the scheduler finds nothing."""
    assert check(make(Arguments(millicores_per_device=millicores))) == []


def test_cores_are_kept_for_idle_gpus(capsys: pytest.CaptureFixture[str]) -> None:
    """One of two pods without a GPU has to wait; the pod with a GPU runs."""
    assert main(["plan", "-f", str(HERE / "cluster.yaml"), "--config", str(HERE / "config.yaml"), "-o", "json"]) == 0
    decisions = {d["gang"]: d for d in json.loads(capsys.readouterr().out)["decisions"]}
    assert decisions["default/train-1"]["placements"] == {"default/train-1": "gpu-1"}
    assert decisions["default/web-1"]["placements"] == {"default/web-1": "gpu-1"}
    assert decisions["default/web-2"]["reasons"] == [{"text": "node(s) kept their cores for GPUs", "nodes": 1}]
