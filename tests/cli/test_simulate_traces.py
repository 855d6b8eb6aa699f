"""``gangsched simulate --trace``: what came of a trace, in a few numbers."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

from gangsched.cli.main import main
from tests.pages import read_schema

JOBS = """\
submit_time,duration,pods,gpus,priority
0,3600,1,8,0
600,1800,1,8,100
"""
NODE = """\
apiVersion: v1
kind: Node
metadata: {name: n}
status: {allocatable: {cpu: "8", pods: "110", nvidia.com/gpu: "8"}}
"""


def written(folder: Path, text: str, name: str = "trace.csv") -> str:
    """A file with this text."""
    (folder / name).write_text(text)
    return str(folder / name)


def test_an_evicted_job_runs_its_whole_time_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """On the nodes of -f the second job evicts the first, which loses what it has computed. Both end, days or not."""
    arguments = ["--trace", written(tmp_path, JOBS), "-f", written(tmp_path, NODE, "node.yaml"), "-o", "json"]
    assert main(["simulate", *arguments]) == 0
    answer = json.loads(capsys.readouterr().out)
    jsonschema.validate(answer, read_schema("simulate-v1"))
    assert (answer["summary"]["ended"], answer["summary"]["pods"]) == ("quiet", {"Deleted": 1, "Succeeded": 2})
    found = answer["summary"]["trace"]
    assert (found["evictedPods"], found["interruptedJobs"], found["jobs"]) == (1, 1, 2)
    # Ten minutes and a grace period of 8 GPUs, less the second in which a pod starts.
    assert found["gpuHoursLost"] == pytest.approx(8 * 630 / 3600, abs=0.1)
    assert found["gpuHoursDone"] == pytest.approx(8 * 5400 / 3600, abs=0.1)
    assert found["waits"]["100"]["p95Seconds"] <= 35


def test_a_trace_is_played_on_the_nodes_of_a_snapshot(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its jobs are laid on top of the cluster, with classes of their own."""
    item = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "n"},
        "status": {"allocatable": {"cpu": "8", "pods": "110", "nvidia.com/gpu": "8"}},
    }
    low = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "100"}, "value": 7}
    snapshot = '{"apiVersion": "v1", "kind": "List", "metadata": {"name": "gangsched-snapshot"}, "items": [\n'
    snapshot += f"{json.dumps(item)},\n{json.dumps(low)}\n]}}\n"
    arguments = ["--trace", written(tmp_path, JOBS), "-f", written(tmp_path, snapshot, "s.json"), "-o", "json"]
    assert main(["simulate", *arguments]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["warnings"] == []
    assert answer["summary"]["trace"]["evictedPods"] == 1


def test_the_table_has_waits_and_what_evictions_cost(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """For people there are the waits of each priority, the makespan and the GPU-hours lost."""
    assert main(["simulate", "--trace", written(tmp_path, JOBS), "--jobs", "1"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["PRIORITY", "JOBS", "NEVER", "STARTED", "MEAN", "WAIT", "MEDIAN", "95", "%"]
    assert lines[1].split()[:3] == ["0", "1", "0"]
    assert lines[-2].startswith("makespan 1h1s; ")
    assert lines[-1] == "0 pods of 0 jobs evicted: 0.0 GPU-hours lost, 8.0 done"


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ([], "there is nothing to simulate: name manifests with -f, or a trace with --trace"),
        (["-f", "x.yaml", "--jobs", "3"], "--jobs is for --trace"),
        (["--trace", "x.csv"], "x.csv: no such file"),
        (["--trace", "x.csv", "--jobs", "0"], "'0' is not a number of jobs"),
    ],
)
def test_what_cannot_be_played_is_said(arguments: list[str], error: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Arguments that name nothing to play end with 2 and say what would be right."""
    assert main(["simulate", *arguments]) == 2
    assert error in capsys.readouterr().err
