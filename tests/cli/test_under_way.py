"""What is answered while pods that were evicted for a gang stop, and after they are gone, with no process to ask."""

from __future__ import annotations

import pytest
import yaml

from gangsched.cli.main import main
from tests.cli.gpu_cluster import CLASSES, GOING, LABEL, NODES, group, job, pod

MARK = "py-gang-scheduler: preempting to accommodate higher priority pods, preemptor: {}, triggerpod: default/train-0"


def leaving(n, preemptor=""):
    """A pod that stops until 00:01:30, with the mark of an eviction for this gang."""
    made = pod(f"web-{n}", f"gpu-{n}", priorityClassName="night", meta=GOING)
    mark = {"type": "DisruptionTarget", "status": "True", "message": MARK.format(preemptor)}
    made["status"]["conditions"] = [mark] if preemptor else []
    return made


@pytest.fixture
def answer(tmp_path, capsys):
    """A function that asks about a name while these objects are there: the lines, without what is padding."""

    def asked(name, *objects, now="2026-01-01T00:01:10Z"):
        file = tmp_path / "objects.yaml"
        whole = [{"apiVersion": "v1", **each} for each in (*NODES, *CLASSES, *objects)]
        file.write_text(yaml.safe_dump_all(whole))
        assert main(["explain", name, "-f", str(file), "--now", now]) == 0
        return [line.strip() for line in capsys.readouterr().out.splitlines()]

    return asked


def train(members):
    """A gang of so many pods that wait."""
    return [
        group(members=members),
        *(pod(f"train-{n}", labels={LABEL: "train"}, priorityClassName="research") for n in range(members)),
    ]


def test_who_was_evicted_for_a_gang_and_until_when_they_stop(answer):
    """The marks on pods say whose eviction it is; those that leave for another reason are told apart from them."""
    objects = [leaving(0, "default/train"), leaving(1, "default/train"), leaving(2), leaving(3, "default/other")]
    lines = answer("train", *objects, *train(4))
    assert lines[1] == "WAIT  4 members can start when 4 terminating pods are gone"
    own = "2 pods evicted for it are stopping: default/web-0, default/web-1, until 00:01:30Z at the latest"
    others = "2 pods that are leaving anyway are stopping: default/web-2, default/web-3, until 00:01:30Z at the latest"
    assert [line.removeprefix("because  ") for line in lines if "stopping" in line] == [own, others]
    assert answer("web-0", *objects, *train(4))[1] == (
        "LEAVING  it was evicted for default/train and stops, until 00:01:30Z at the latest"
    )
    assert answer("web-2", *objects, *train(4))[1] == (
        "LEAVING  it is terminating already, until 00:01:30Z at the latest"
    )


def test_a_pod_that_does_not_stop_in_time(answer):
    """Since when, what keeps it, who has to act and until when the gang waits: no time in the past is a deadline."""
    kept, silent = leaving(0, "default/train"), leaving(1, "default/train")
    kept["metadata"] = {**kept["metadata"], "finalizers": ["example.com/hold"]}
    lines = answer("train", kept, silent, *train(4), now="2026-01-01T00:01:41Z")
    text = " ".join(lines)
    assert "at the latest" not in text
    late = "should have stopped on gpu-{} at 00:01:30Z, 11s ago, and has not: {}; the gang gives up at 00:02:00Z"
    assert "default/web-0 " + late.format(0, "finalizer example.com/hold") in text
    assert "default/web-1 " + late.format(1, "the kubelet of gpu-1 has not confirmed it") in text
    about = " ".join(answer("pod/web-0", kept, *train(4), now="2026-01-01T00:01:41Z"))
    assert "at the latest" not in about
    assert "which was due by 00:01:30Z" in about
    assert "it should have stopped at 00:01:30Z, 11s ago, and has not: finalizer example.com/hold" in about
    assert "let the owner of finalizer example.com/hold remove it from pod default/web-0" in about


def test_a_gang_that_does_not_wait_any_more_says_who_has_to_act(answer):
    """The first thing to do is about the pods that were evicted for it."""
    kept = leaving(0, "default/train")
    kept["metadata"] = {**kept["metadata"], "finalizers": ["example.com/hold"]}
    full = [pod(f"full-{n}", f"gpu-{n}", priorityClassName="research") for n in (1, 2, 3)]
    lines = answer("train", kept, *full, *train(1), now="2026-01-01T00:02:30Z")
    assert "do  let the owner of finalizer example.com/hold remove it from pod default/web-0" in lines, lines


def test_a_job_whose_pods_were_evicted_an_hour_ago(answer):
    """It has no pods: its condition says that they were evicted, and the record by whom."""
    gone = job()
    said = {"type": "gangsched.dev/PodsEvicted", "status": "True", "reason": "Preempted", "message": "for default/x"}
    gone["status"] = {"conditions": [said | {"lastTransitionTime": "2026-01-01T00:00:00Z"}]}
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "u-train", "controller": True}
    left = pod("train-x", "gpu-0", meta={"ownerReferences": [owner]})  # what there is of it: the Job makes no others
    left["status"] = {"phase": "Failed"}
    lines = answer("job/train", gone, left)
    assert lines[1].startswith("EVICTED  "), lines
    assert lines[2] == "do  for whom: gangsched why-evicted job/train -n default", lines
