"""``gangsched simulate --trace``: what came of a public trace, in a few numbers."""

from __future__ import annotations

import json
import zlib
from pathlib import Path

import pytest

from gangsched.cli.main import main


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


def test_an_evicted_job_runs_its_whole_time_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What was computed until the eviction is lost, the job is done in the end, and waits are told by priority."""
    high, low = _high_and_low()
    lines = [f"{200000 + n},1,0" for n in range(2, 40)]
    lines[low - 2], lines[high - 2] = "0,3600,8", "600,1800,8"
    trace = _trace(tmp_path, "\n".join(lines) + "\n")
    assert main(["simulate", "--trace", "philly", trace, "-f", _node(tmp_path), "-o", "json"]) == 0
    summary = json.loads(capsys.readouterr().out)["summary"]
    found = summary["trace"]
    assert summary["violations"] == []
    assert (found["evictedPods"], found["interruptedJobs"], found["jobs"]) == (1, 1, 38)
    # Ten minutes and a grace period of 8 GPUs, less the second in which a pod starts.
    assert found["gpuHoursLost"] == pytest.approx(8 * 630 / 3600, abs=0.1)
    assert found["gpuHoursDone"] == pytest.approx(8 * 5400 / 3600, abs=0.1)
    assert all(each["neverStarted"] == 0 for each in found["waits"].values())
    assert found["waits"]["1000"]["p95Seconds"] <= 35


def test_the_table_tells_waits_and_what_evictions_cost(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """For people there are the waits of each priority, the makespan and the GPU-hours lost."""
    assert main(["simulate", "--trace", "philly", _trace(tmp_path, "0,60,1\n60,60,1\n"), "--jobs", "1"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["PRIORITY", "JOBS", "NEVER", "STARTED", "MEAN", "WAIT", "MEDIAN", "95", "%"]
    assert lines[-2].startswith("makespan 1m1s, ")
    assert lines[-1] == "0 pods of 0 jobs evicted: 0.0 GPU-hours lost, 0.0 done"


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ([], "there is nothing to simulate: name manifests with -f, or a trace with --trace"),
        (["--trace", "borg", "x.csv"], "--trace: borg is none of gfs, openb, philly"),
        (["-f", "x.yaml", "--jobs", "3"], "--jobs is for --trace"),
        (["--trace", "philly", "x.csv"], "x.csv: no such file"),
    ],
)
def test_what_cannot_be_played_is_said(arguments: list[str], error: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Arguments that say nothing that can be played end with 2 and say what would be right."""
    assert main(["simulate", *arguments]) == 2
    assert error in capsys.readouterr().err


def test_a_number_of_jobs_is_a_number(capsys: pytest.CaptureFixture[str]) -> None:
    """``--jobs`` takes whole numbers from 1."""
    assert main(["simulate", "--trace", "philly", "x.csv", "--jobs", "0"]) == 2
    assert "'0' is not a number of jobs" in capsys.readouterr().err
