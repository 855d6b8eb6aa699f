"""``gangsched get``: one line for each gang."""

from __future__ import annotations

import argparse
import asyncio
import json
from typing import cast

import pytest
import yaml

from gangsched.cli import inputs
from gangsched.cli.answers import Columns, age_of, first_clause, print_lines
from gangsched.cli.get import CONTRACT, Gangs, Row, lines
from gangsched.cli.inputs import Followed, Reach
from gangsched.cli.main import main
from gangsched.cluster.kube.published import Published, Status
from gangsched.cluster.manifests import load
from gangsched.core.events import Changed, Event, Gone, records
from gangsched.core.options import Options
from gangsched.model.records import Pod
from gangsched.runtime.connecting import Batch, Scope
from gangsched.runtime.running import Running
from gangsched.runtime.settings import Configuration
from tests.cli.worlds import NODES, TWO_NODES

GROUP = """
apiVersion: scheduling.sigs.k8s.io/v1alpha1
kind: PodGroup
metadata: {name: %s, creationTimestamp: "2026-01-01T00:00:00Z"}
spec: {minMember: %d}
"""
POD = """
apiVersion: v1
kind: Pod
metadata: {name: %(name)s, namespace: %(namespace)s, creationTimestamp: "2026-01-01T02:00:00Z", labels: {%(labels)s}}
spec: {schedulerName: %(scheduler)s, nodeName: "%(node)s", containers: [{resources: {requests: {cpu: %(cpu)d}}}]}
status: %(status)s
"""


def pod(name, group="", node="", cpu=1, status="{}", scheduler="py-gang-scheduler", namespace="default"):
    """One pod."""
    labels = f"pod-group.scheduling.sigs.k8s.io: {group}" if group else ""
    return POD % locals()


def condition(kind, **fields):
    """A status with this condition."""
    return json.dumps({"conditions": [{"type": kind, **fields}]})


@pytest.fixture
def get(tmp_path, capsys):
    """A function that lists the gangs of these documents: exit code, lines and stderr."""

    def run(*documents, args=()):
        path = tmp_path / "objects.yaml"
        path.write_text("\n---\n".join(documents))
        code = main(["get", "-f", str(path), *args])
        out = capsys.readouterr()
        return code, out.out.splitlines(), out.err

    return run


def said(lines):
    """State, READY and reason by name."""
    at = lines[0].index("REASON")
    return {line.split()[1]: (*line.split()[3:5], line[at:]) for line in lines[1:]}


INTENT = condition("gangsched.dev/Nominated", status="True", message="plan 1")
FULL = (
    "never fits: the pod asks for 9 cpu; the largest of the 2 nodes that it may use has 4."
    " 0/2 nodes are available: 2 Insufficient cpu."
    " preemption: no lower-priority pods that may be evicted where the gang could run."
)
SAID = condition("PodScheduled", status="False", reason="Unschedulable", message="0/2 nodes are available: busy")


@pytest.mark.parametrize(
    ("documents", "expected"),
    [
        ((GROUP % ("g", 2), pod("a", "g")), ("Gathering", "0/2", "1 of 2 members exist; 1 missing")),
        ((GROUP % ("g", 2), pod("a", "g"), pod("b", "g")), ("Queued", "0/2", "can start now")),
        ((GROUP % ("g", 1), pod("a", "g", status=SAID)), ("Queued", "0/1", "0/2 nodes are available: busy")),
        ((GROUP % ("g", 1), pod("a", "g", cpu=9)), ("Queued", "0/1", FULL)),
        ((GROUP % ("g", 1), pod("a", "g", status=INTENT)), ("Nominated", "0/1", "can start now")),
        ((GROUP % ("g", 2), pod("a", "g", "n1"), pod("b", "g")), ("Binding", "1/2", "can start now")),
        ((GROUP % ("g", 1), pod("a", "g", "n1", status="{phase: Pending}")), ("Starting", "1/1", "")),
        ((GROUP % ("g", 1), pod("a", "g", "n1"), pod("b", "g")), ("Running", "1/1", "can start now")),
        ((GROUP % ("g", 1), pod("a", "g", "n1", status="{phase: Succeeded}")), ("Finished", "1/1", "")),
    ],
)
def test_states(documents, expected, get):
    """From the pods and what a scheduler has written on them; where nothing is, what would be decided."""
    code, lines, err = get(NODES, *documents)
    assert (code, err) == (0, "")
    assert said(lines)["g"] == expected


STOPS = """
apiVersion: v1
kind: Pod
metadata:
  {name: g, namespace: default, deletionTimestamp: "2026-01-01T02:00:30Z", creationTimestamp: "2026-01-01T02:00:00Z"}
spec: {schedulerName: py-gang-scheduler, nodeName: n1, containers: [{resources: {requests: {cpu: 1}}}]}
status: {phase: Running, conditions: [%s]}
"""
EVICTED = (
    '{type: DisruptionTarget, status: "True", message: "py-gang-scheduler: preempting to accommodate higher priority'
    ' pods, preemptor: ml/train, triggerpod: ml/train-0"}'
)


@pytest.mark.parametrize(
    ("mark", "reason"), [("", "it is terminating already"), (EVICTED, "it was evicted for ml/train and stops")]
)
def test_a_gang_that_leaves_says_for_whom_and_until_when(mark, reason, get):
    """No member has its room any more: the reason is whose eviction it is, or that it terminates."""
    _, lines, _ = get(NODES, STOPS % mark)
    assert said(lines)["g"] == ("Leaving", "0/1", f"{reason}, until 02:00:30Z at the latest")


SUSPENDED = """
apiVersion: batch/v1
kind: Job
metadata: {name: g, uid: u-1, annotations: {gangsched.dev/gang: "true"}}
spec:
  parallelism: 2
  suspend: true
  template: {spec: {schedulerName: py-gang-scheduler, containers: [{resources: {requests: {cpu: 1}}}]}}
"""


@pytest.mark.parametrize(
    ("documents", "expected"),
    [
        ((GROUP % ("g", 2),), ("Gathering", "0/2", "no pod names it; it waits for 2 pods")),
        ((pod("a", "g"),), ("Gathering", "0/?", "PodGroup default/g does not exist")),
        (
            (GROUP % ("g", 2), pod("a", "g", scheduler="default-scheduler")),
            ("Gathering", "0/2", "1 pod is for default-scheduler"),
        ),
        ((SUSPENDED,), ("Gathering", "0/2", "it is suspended, and has no pods until it is resumed")),
    ],
    ids=["no pods", "no group", "another scheduler", "suspended"],
)
def test_gangs_that_nothing_is_decided_about(documents, expected, get):
    """Groups without pods, members without a group, pods that name a scheduler without gangs, and Jobs without pods."""
    code, lines, err = get(NODES, *documents)
    assert code == 0, err
    assert said(lines)["g"] == expected


def test_gangs_of_other_schedulers_are_theirs(get):
    """A gang whose scheduler is neither the default nor nearly ours is not listed."""
    _, lines, _ = get(NODES, GROUP % ("g", 1), pod("a", "g", scheduler="volcano"), pod("b"))
    assert list(said(lines)) == ["b"]


def test_a_preemptor_says_how_many_leave(get):
    """And its victims, whose scheduler is another, are no gangs of ours."""
    high = pod("new", cpu=4).replace("spec: {", "spec: {priorityClassName: high, ")
    victims = [pod(f"old-{n}", node=f"n{n}", cpu=3, scheduler="other") for n in (1, 2)]
    _, lines, _ = get(TWO_NODES, high, *victims)
    assert said(lines) == {"new": ("Queued", "0/1", "can start after 1 pod is evicted")}


def test_order_namespaces_and_names(get):
    """By namespace and name, 10 after 9; -n and NAME choose."""
    pods = [pod(f"w-{n}") for n in (10, 9)] + [pod("x", namespace="a")]
    _, lines, _ = get(*pods)
    assert [line.split()[:2] for line in lines[1:]] == [["a", "x"], ["default", "w-9"], ["default", "w-10"]]
    assert get(*pods, args=["-n", "a", "-o", "name"])[1] == ["pod/x"]
    assert get(*pods, args=["-A", "-o", "name"])[1] == ["pod/x", "pod/w-9", "pod/w-10"]
    assert get(*pods, args=["pod/w-9", "-o", "name"])[1] == ["pod/w-9"]
    assert get(*pods, args=["pg/w-9"]) == (2, [], "gangsched: there is no gang pg/w-9\n")


def test_json_and_yaml_are_the_same(get):
    """With all that the table has, and more."""
    documents = (NODES, GROUP % ("g", 1), pod("a", "g", "n1"))
    answer = json.loads("".join(get(*documents, args=["-o", "json"])[1]))
    assert answer == yaml.safe_load("\n".join(get(*documents, args=["-o", "yaml"])[1]))
    (gang,) = answer["gangs"]
    assert (gang["state"], gang["nodes"], gang["created"]) == ("Running", ["n1"], "2026-01-01T00:00:00Z")
    assert gang["ageSeconds"] == 7200


def test_nothing_to_list(get):
    """An empty list is no error, and its stdout has a header for tools that skip one."""
    code, lines, err = get(NODES)
    assert (code, len(lines), err) == (0, 1, "gangsched: there are no gangs here\n")


def test_wide_has_nodes(get):
    """And the scheduler, beside what the table has."""
    _, lines, _ = get(NODES, pod("a", node="n1"), args=["-o", "wide"])
    assert lines[1].split()[7:] == ["0", "py-gang-scheduler", "n1"]


def test_names_cannot_steer_the_terminal(capsys):
    """Reasons come from pods, on which users may write."""
    row = Row("d", "g", "Pod", "Queued", 0, 1, 1, 0, 0.0, "a\x1b[31mb\nc", "s", ())
    print_lines(lines("table", [row], 0.0))
    assert "a\\x1b[31mb c" in capsys.readouterr().out


LONG = (
    "never fits: 8 pods x 8 nvidia.com/gpu = 64; 32 in the 6 nodes that it may use. 0/6 nodes are available: no room."
)


@pytest.mark.parametrize(
    ("columns", "head", "reason"),
    [
        (80, "NAME KIND STATE READY REASON", "never fits: 8 pods x 8 nvidia.com/gpu = 64"),
        (100, "NAMESPACE NAME KIND STATE READY AGE REASON", "never fits: 8 pods x 8 nvidia.com/gpu = 64"),
        (120, "NAMESPACE NAME KIND STATE READY PRIORITY AGE REASON", "never fits: 8 pods x 8 nvidia.com/gpu = 64"),
        (None, "NAMESPACE NAME KIND STATE READY PRIORITY AGE REASON", LONG),
    ],
)
def test_reasons_fit_the_terminal(capsys, monkeypatch, columns, head, reason):
    """A terminal shows the first clause of a reason on its line; a pipe has all of it and every column."""
    monkeypatch.setattr("gangsched.cli.answers.terminal_width", lambda: columns)
    row = Row("ml-team-a", "training", "Job", "Queued", 0, 8, 8, 1000, 1.0, LONG, "s", ())
    CONTRACT.show(Gangs([row], 61.0), "table")
    printed = capsys.readouterr().out.splitlines()
    assert printed[0].split() == head.split()
    assert printed[1].endswith(f"   {reason}")
    assert columns is None or all(len(line) <= columns for line in printed)


@pytest.mark.parametrize(
    ("text", "width", "shown"),
    [
        ("one; two", 20, "one"),
        ("one. two", 20, "one"),
        ("0.5 of 1.5 cpu", 20, "0.5 of 1.5 cpu"),
        ("needs more room than there is", 20, "needs more room…"),
        ("needs more room than there is", 29, "needs more room than there is"),
        ("a-very-long-name-of-something", 10, "a-very-lo…"),
    ],
)
def test_the_first_clause(text, width, shown):
    """A sentence ends before a semicolon or full stop, or after the last word that fits."""
    assert first_clause(text, width) == shown
    assert len(shown) <= width


def test_several_namespaces_stay_in_sight(capsys, monkeypatch):
    """A narrow terminal leaves the namespace out only where it is the same for all."""
    monkeypatch.setattr("gangsched.cli.answers.terminal_width", lambda: 60)
    found = [Row(space, "train", "Job", "Queued", 0, 8, 8, 0, 1.0, LONG, "s", ()) for space in ("a", "b")]
    CONTRACT.show(Gangs(found, 61.0), "table")
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == ["NAMESPACE", "a", "b"]


def test_watch_prints_the_header_once(tmp_path, capsys, monkeypatch):
    """Also where there was no gang for a while."""
    path = tmp_path / "pods.yaml"
    path.write_text("---".join(pod(name) for name in ("a", "b")))
    first, second = records(load([path]).events, Pod)
    events: list[Event] = [Changed(first), Gone("Pod", "default", "a", first.uid), Changed(second)]
    batches = (Batch([event], 0.0, Scope()) for event in events)
    followed = Followed(Options(), "default", Running("ns/lease", 0.0), batches, cast("Reach", None))
    monkeypatch.setattr("gangsched.cli.get.follow_cluster", lambda *_: followed)
    monkeypatch.setattr("gangsched.cli.get._WATCH_SECONDS", 0.0)
    assert main(["get", "--watch"]) == 0
    assert [line.split()[1] for line in capsys.readouterr().out.splitlines()] == ["NAME", "a", "b"]


@pytest.mark.parametrize(
    ("terminal", "whose", "said"),
    [
        (True, Published({}, Status()), "configuration of ns/gangsched-status"),
        (True, None, "BUILT-IN DEFAULTS"),
        (False, Published({}, Status()), ""),
        (False, None, "BUILT-IN DEFAULTS"),
    ],
)
def test_what_is_read_is_said_where_somebody_looks(terminal, whose, said, capsys, monkeypatch):
    """In a pipe only where the answer does not rest on what the scheduler runs with."""
    runs = Running("ns/lease", 0.0, holder="a", published=whose)
    monkeypatch.setattr(inputs, "configure", lambda *_, **__: Configuration())
    monkeypatch.setattr("gangsched.runtime.connecting.connect", lambda *_, ask: asyncio.run(ask(None)))

    async def look(*_):
        return runs

    monkeypatch.setattr("gangsched.runtime.running.find_running", look)
    monkeypatch.setattr("sys.stdout.isatty", lambda: terminal)
    inputs.connect(argparse.Namespace(config=None, output="table"))
    err = capsys.readouterr().err
    assert said in err if said else not err


def test_lines_that_come_later_stand_below_those_before(capsys):
    """What is watched is printed line by line; a column keeps the width that it has had."""
    columns = Columns()
    columns.print([("NAME", "KIND", "WHY"), ("a-long-name", "Pod", "")])
    columns.print([])
    columns.print([("b", "PodGroup", "busy")])
    lines = capsys.readouterr().out.splitlines()
    assert [line.index(word) for line, word in zip(lines, ("KIND", "Pod", "PodGroup"), strict=True)] == [14, 14, 14]


@pytest.mark.parametrize(
    ("seconds", "age"), [(-5, "0s"), (179, "179s"), (180, "3m"), (10_799, "179m"), (10_800, "3h"), (172_800, "2d")]
)
def test_ages(seconds, age):
    """As kubectl says them."""
    assert age_of(seconds) == age


@pytest.mark.parametrize("args", [["-w", "-f", "x"], ["-w", "-o", "json"]])
def test_what_cannot_be_watched(args, capsys):
    """Files do not change, and a document has an end."""
    assert main(["get", *args]) == 2
    assert "--watch follows a cluster" in capsys.readouterr().err
