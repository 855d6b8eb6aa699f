"""``gangsched simulate`` on the real core."""

from __future__ import annotations

import json
import re
import textwrap
from collections import Counter
from pathlib import Path

import jsonschema
import pytest

from gangsched.cli.main import main
from gangsched.cli.simulation import simulate, summary_of
from gangsched.core.options import Options
from gangsched.model.dialects.koordinator import GROUP_LABEL
from tests.cluster.sim.objects import event, gang, node, pod
from tests.pages import read_schema

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
KOORDINATOR, WORKLOAD = str(EXAMPLES / "koordinator"), str(EXAMPLES / "workload")


def run_json(capsys, *arguments):
    """The exit code and the parsed answer, which is what its schema says."""
    code = main(["simulate", "-o", "json", *arguments])
    answer = json.loads(capsys.readouterr().out)
    jsonschema.Draft202012Validator(read_schema("simulate-v1")).validate(answer)
    return code, answer


def written(folder, text, name="input.yaml"):
    """A file with this text."""
    path = folder / name
    path.write_text(textwrap.dedent(text))
    return str(path)


POD = """\
    apiVersion: v1
    kind: Pod
    metadata: {{name: {name}, annotations: {{{notes}}}}}
    spec:
      schedulerName: py-gang-scheduler
      containers: [{{name: main, image: busybox, resources: {{requests: {{cpu: "{cpu}"}}}}}}]
    ---
"""
NODE = """\
    apiVersion: v1
    kind: Node
    metadata: {name: n1}
    status: {capacity: {cpu: "4", memory: 8Gi, pods: "110"}}
    ---
"""


def test_the_gang_of_the_koordinator_example_gets_both_nodes(capsys):
    """Both members are nominated, both victims marked, removed and gone, and only then both members are bound."""
    code, answer = run_json(capsys, "-f", KOORDINATOR)
    assert code == 0
    phases = ["nominate", "mark", "delete", "gone", "bind", "run"]
    told = [e["verb"] for e in answer["events"] if e["verb"] in phases]
    assert told == [verb for verb in phases for _ in range(2)]
    assert {k: (p["phase"], p["node"]) for k, p in answer["pods"].items()} == {
        "default/hp-worker-1": ("Running", "node-1"),
        "default/hp-worker-2": ("Running", "node-2"),
        "default/lp-pod-1": ("Deleted", "node-1"),
        "default/lp-pod-2": ("Deleted", "node-2"),
    }
    assert answer["pods"]["default/lp-pod-1"]["preemptedBy"] == "default/hp-training-job"


def test_the_grace_period_is_waited_for(capsys):
    """The victims of the example need three seconds, and the gang starts when they are over."""
    _, answer = run_json(capsys, "-f", KOORDINATOR)
    gang_ = answer["summary"]["gangs"]["default/hp-training-job"]
    assert 3.0 <= gang_["waitedSeconds"] < 3.5
    assert (gang_["bound"], gang_["minMember"]) == (2, 2)


def test_a_whole_group_leaves_in_the_workload_example(capsys):
    """The low-priority group of four goes as one, and all of the high-priority group start."""
    code, answer = run_json(capsys, "-f", WORKLOAD)
    assert code == 0
    ends = Counter((key.removeprefix("default/")[:2], each["phase"]) for key, each in answer["pods"].items())
    assert ends == {("lp", "Deleted"): 4, ("hp", "Running"): 4}


@pytest.mark.parametrize("output", ["json", "html", "table"])
@pytest.mark.parametrize("more", [[], ["--seed", "7"]], ids=["plain", "seeded"])
def test_the_same_input_gives_the_same_output(capsys, output, more):
    """Two runs are equal byte for byte, in every format, with and without a seed."""
    texts = []
    for _ in range(2):
        assert main(["simulate", "-f", KOORDINATOR, "-o", output, *more]) == 0
        texts.append(capsys.readouterr().out)
    assert texts[0] == texts[1]


def test_a_seed_moves_things(capsys):
    """Seeds delay writes and watches, each in its own way, and the outcome stays the same."""
    runs = [run_json(capsys, "-f", KOORDINATOR, "--seed", seed)[1] for seed in ("1", "2")]
    first, second = ([e["at"] for e in run["events"]] for run in runs)
    assert first != second
    assert [{k: p["phase"] for k, p in r["pods"].items()} for r in runs] == [
        {k: p["phase"] for k, p in runs[0]["pods"].items()}
    ] * 2


def test_annotations_say_when_things_happen(capsys, tmp_path):
    """arrive-after and run-for of a pod are kept to the moment."""
    notes = "sim.gangsched.dev/arrive-after: 90s, sim.gangsched.dev/run-for: 2m"
    source = written(tmp_path, NODE + POD.format(name="a", cpu=1, notes=notes))
    _, answer = run_json(capsys, "-f", source)
    only = answer["pods"]["default/a"]
    assert only["arrivedAt"] == 90.0
    assert only["phase"] == "Succeeded"
    assert only["endedAt"] - only["startedAt"] == pytest.approx(120.0)
    assert answer["summary"]["ended"] == "quiet"


@pytest.mark.parametrize(
    ("version", "named"),
    [
        ("scheduling.sigs.k8s.io/v1alpha1", f"labels: {{{GROUP_LABEL}: g}}"),
        ("scheduling.volcano.sh/v1beta1", "annotations: {scheduling.k8s.io/group-name: g}"),
        ("scheduling.run.ai/v2alpha2", "annotations: {pod-group-name: g}"),
    ],
)
def test_the_annotation_of_a_group_is_for_its_members(capsys, tmp_path, version, named):
    """They arrive when their PodGroup says; a duration that is none is an error of the PodGroup."""
    group = f"""\
    apiVersion: {version}
    kind: PodGroup
    metadata: {{name: g, annotations: {{sim.gangsched.dev/arrive-after: %s}}}}
    spec: {{minMember: 1}}
    ---
"""
    member = POD.format(name="a", cpu=1, notes="").replace("annotations: {}", named)
    _, answer = run_json(capsys, "-f", written(tmp_path, NODE + group % "40s" + member))
    assert answer["pods"]["default/a"]["arrivedAt"] == 40.0
    code, answer = run_json(capsys, "-f", written(tmp_path, NODE + group % "soon" + member))
    assert (code, answer["error"]["object"]) == (2, "PodGroup default/g")
    assert answer["error"]["field"] == "metadata.annotations[sim.gangsched.dev/arrive-after]"


def test_until_ends_the_run(capsys, tmp_path):
    """What would happen later does not happen."""
    source = written(tmp_path, NODE + POD.format(name="a", cpu=1, notes="sim.gangsched.dev/arrive-after: 90s"))
    _, answer = run_json(capsys, "-f", source, "--until", "1m")
    assert answer["pods"] == {}
    assert (answer["summary"]["ended"], answer["summary"]["until"]) == ("until", 60.0)


def test_file_order_makes_the_order_of_arrival(capsys, tmp_path):
    """With --arrival file-order the first pod of the file gets the only place; without it the order is the queue's."""
    source = written(tmp_path, NODE + "".join(POD.format(name=n, cpu=3, notes="") for n in "ba"))
    _, together = run_json(capsys, "-f", source)
    _, apart = run_json(capsys, "-f", source, "--arrival", "file-order")
    running = [[k for k, p in run["pods"].items() if p["phase"] == "Running"] for run in (together, apart)]
    assert running == [["default/a"], ["default/b"]]
    assert apart["pods"]["default/a"]["arrivedAt"] == 1.0


def test_a_pod_that_finds_no_room_says_why(capsys, tmp_path):
    """The message of a waiting pod is that of its condition."""
    source = written(tmp_path, NODE + POD.format(name="a", cpu=9, notes=""))
    _, answer = run_json(capsys, "-f", source)
    assert answer["pods"]["default/a"]["phase"] == "Pending"
    assert "0/1 nodes are available" in answer["pods"]["default/a"]["message"]
    decisions = [e for e in answer["events"] if e["verb"] == "decide"]
    assert [d["detail"]["outcome"] for d in decisions] == ["unschedulable"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-f", KOORDINATOR, "--until", "soon"], "--until: 'soon' is not a duration"),
        (["-f", "nowhere.yaml"], "nowhere.yaml: no such file"),
        (["-f", KOORDINATOR, "--config", "nowhere.yaml"], "nowhere.yaml: cannot be read"),
    ],
)
@pytest.mark.parametrize("output", ["table", "json"])
def test_errors_of_the_user(capsys, arguments, message, output):
    """A message on stderr and exit code 2; with -o json the error is also in the answer."""
    assert main(["simulate", "-o", output, *arguments]) == 2
    out, err = capsys.readouterr()
    assert message in err
    if output == "json":
        assert message.split(": ")[-1] in json.loads(out)["error"]["message"]
    else:
        assert out == ""


def test_a_wrong_annotation_names_file_and_pod(capsys, tmp_path):
    """A duration that is none is reported where it stands."""
    source = written(tmp_path, NODE + POD.format(name="a", cpu=1, notes="sim.gangsched.dev/run-for: later"))
    code, answer = run_json(capsys, "-f", source)
    assert code == 2
    assert answer["error"] == {
        "file": source,
        "document": 2,
        "object": "Pod default/a",
        "field": "metadata.annotations[sim.gangsched.dev/run-for]",
        "message": "'later' is not a duration such as 90s, 2m or 1m30s",
    }
    assert (answer["events"], answer["pods"], answer["summary"]) == ([], {}, {})


def test_the_table_tells_the_story(capsys):
    """People see who was bound where, who left for whom, and the nodes at the end."""
    assert main(["simulate", "-f", KOORDINATOR]) == 0
    text = capsys.readouterr().out
    assert re.search(r"0:03\.\d+ +scheduler +bind +default/hp-worker-1 +→ node-1", text)
    assert re.search(r"default/lp-pod-1 .*Deleted .*for hp-training-job", text)
    assert "3 of 4 CPU" in text
    assert "2 deleted, 2 running; 2 bound, 2 preempted" in text


def test_a_gang_that_is_not_complete_is_not_started():
    """Two of three members are there: nothing is bound and nobody is evicted."""
    members = [event(pod(name, gang="g", priority=5)) for name in "ab"]
    events = [event(node("n1")), event(gang("g", 3)), event(pod("x", 4, node="n1")), *members]
    run = simulate(events, Options(), until_seconds=60.0)
    summary = summary_of(run)
    assert (summary["binds"], summary["preempted"]) == (0, 0)
    assert summary["gangs"]["ns/g"]["bound"] == 0


def test_pods_that_terminate_in_the_input_keep_their_time(capsys, tmp_path):
    """The run begins when the deletion was asked for, so the rest of the grace period has to be waited for."""
    terminating = POD.format(name="old", cpu=4, notes="").replace(
        "name: old,", "name: old, deletionTimestamp: '2026-01-01T00:01:00Z', deletionGracePeriodSeconds: 60,"
    )
    terminating = terminating.replace("spec:\n", "spec:\n      nodeName: n1\n")
    source = written(tmp_path, NODE + terminating + POD.format(name="new", cpu=4, notes=""))
    _, answer = run_json(capsys, "-f", source)
    assert answer["pods"]["default/old"]["endedAt"] == 60.0
    assert 60.0 < answer["pods"]["default/new"]["boundAt"] < 61.0
