"""What came of a public trace, in a few numbers."""

from __future__ import annotations

import json
import zlib
from pathlib import Path

import pytest

from gangsched.cli.simulation import simulate
from gangsched.cli.trace_figures import figures_of
from gangsched.cluster.manifests import load
from gangsched.cluster.manifests.traces import read_trace
from gangsched.model.times import LONGEST_SECONDS
from tests.bench.traces.played import OPTIONS
from tests.judge.invariants import violations


def _trace(folder: Path, lines: str) -> str:
    path = folder / "trace.csv"
    path.write_text("timestamp,duration,num_gpus\n" + lines)
    return str(path)


def _node(folder: Path) -> str:
    path = folder / "node.json"
    room = {"cpu": "8", "pods": "110", "nvidia.com/gpu": "8"}
    path.write_text(
        json.dumps({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}, "status": {"allocatable": room}})
    )
    return str(path)


def _high_and_low(count: int = 40) -> tuple[int, int]:
    """Lines of the file that are of high and of low priority."""
    high = [n for n in range(2, count) if zlib.crc32(str(n).encode()) % 5 == 0]
    low = [n for n in range(2, count) if zlib.crc32(str(n).encode()) % 5]
    return high[0], low[0]


def test_an_evicted_job_runs_its_whole_time_again(tmp_path: Path) -> None:
    """What was computed until the eviction is lost, the job is done in the end, and waits are told by priority."""
    high, low = _high_and_low()
    lines = [f"{200000 + n},1,0" for n in range(2, 40)]
    lines[low - 2], lines[high - 2] = "0,3600,8", "600,1800,8"
    source = read_trace("philly", _trace(tmp_path, "\n".join(lines) + "\n"), OPTIONS.scheduler_names[0], nodes=False)
    jobs = tmp_path / "jobs.json"
    jobs.write_text(source.text)
    run = simulate(load([_node(tmp_path), str(jobs)]).events, OPTIONS, until_seconds=LONGEST_SECONDS)
    found = figures_of(run.history).fields()
    assert violations(run.history, OPTIONS) == []
    assert (found["evictedPods"], found["interruptedJobs"], found["jobs"]) == (1, 1, 38)
    # Ten minutes and a grace period of 8 GPUs, less the second in which a pod starts.
    assert found["gpuHoursLost"] == pytest.approx(8 * 630 / 3600, abs=0.1)
    assert found["gpuHoursDone"] == pytest.approx(8 * 5400 / 3600, abs=0.1)
    assert all(each["neverStarted"] == 0 for each in found["waits"].values())
    assert found["waits"]["1000"]["p95Seconds"] <= 35
