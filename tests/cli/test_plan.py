"""``gangsched plan``: the published contract, on the examples and on every kind of bad input."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import jsonschema
import pytest

from gangsched.cli.main import main
from gangsched.messages import failures
from tests.cli.worlds import NODES
from tests.pages import read_schema

ROOT = Path(__file__).parents[2]
KOORDINATOR = str(ROOT / "examples" / "koordinator")
WORKLOAD = str(ROOT / "examples" / "workload")
CONFIG = ROOT / "examples" / "config" / "scheduler-configuration.yaml"

NODE = "{apiVersion: v1, kind: Node, metadata: {name: n1}, status: {capacity: {cpu: 4}}}"
POD = (
    "{apiVersion: v1, kind: Pod, metadata: {name: %s}, spec: {schedulerName: %s, "
    "containers: [{resources: {requests: {cpu: %s}}}]}}"
)
OURS = "py-gang-scheduler"


@pytest.fixture
def plan(capsys):
    """A function that runs the command and returns exit code, checked JSON and stderr."""

    def run(*args):
        code = main(["plan", *map(str, args), "-o", "json"])
        out = capsys.readouterr()
        answer = json.loads(out.out)
        jsonschema.Draft202012Validator(read_schema("plan-v1")).validate(answer)
        return code, answer, out.err

    return run


@pytest.fixture
def file(tmp_path):
    """A function that writes documents to a file and returns its path."""

    def write(*documents, name="a.yaml"):
        path = tmp_path / name
        path.write_text("\n---\n".join(documents))
        return path

    return write


# ----------------------------------------------------------------------------------------------------------- decisions


def test_job_level_preemption(plan):
    """Two single pods hold both nodes; the gang of two takes both, and both members have a node."""
    code, answer, err = plan("-f", KOORDINATOR)
    assert (code, err, answer["warnings"], answer["error"]) == (0, "", [], None)
    (decision,) = answer["decisions"]
    assert (decision["gang"], decision["kind"], decision["outcome"]) == (
        "default/hp-training-job",
        "PodGroup",
        "preempt",
    )
    assert (decision["priority"], decision["required"]) == (1_000_000, 2)
    assert sorted(v["pod"] for v in decision["victims"]) == ["default/lp-pod-1", "default/lp-pod-2"]
    assert [v["unit"] for v in decision["victims"]] == [{"kind": "Pod", "name": v["pod"]} for v in decision["victims"]]
    assert sorted(decision["placements"]) == ["default/hp-worker-1", "default/hp-worker-2"]
    assert sorted(decision["placements"].values()) == ["node-1", "node-2"]
    assert decision["unplaced"] == []


def test_workload_preemption(plan):
    """The low-priority group goes as a whole, because its disruptionMode says so."""
    code, answer, _ = plan("-f", WORKLOAD)
    assert code == 0
    (decision,) = answer["decisions"]
    assert (decision["gang"], decision["outcome"]) == ("default/hp-abc-workers-def", "preempt")
    assert {v["unit"]["name"] for v in decision["victims"]} == {"default/lp-abc-workers-def"}
    assert {v["unit"]["kind"] for v in decision["victims"]} == {"PodGroup"}
    assert len(decision["victims"]) == len(decision["placements"]) == 4
    assert not any(v["partial"] for v in decision["victims"])


def test_only_the_time_it_took_may_differ(plan):
    """The same input gives the same plan."""
    one, two = (plan("-f", WORKLOAD)[1] for _ in range(2))
    for answer in (one, two):
        for decision in answer["decisions"]:
            del decision["planMilliseconds"]
    assert one == two


def test_later_gangs_see_what_earlier_ones_took(plan, file):
    """Room for one of two equal pods: the first by name gets it, the second is told why not."""
    code, answer, _ = plan("-f", file(NODE, POD % ("b", OURS, 3), POD % ("a", OURS, 3)))
    assert code == 0
    first, second = answer["decisions"]
    assert (first["gang"], first["outcome"], first["placements"]) == ("default/a", "bind", {"default/a": "n1"})
    assert (second["gang"], second["outcome"], second["placements"]) == ("default/b", "unschedulable", {})
    assert "nodes are available" in second["message"]
    assert [u["pod"] for u in second["unplaced"]] == ["default/b"]


def test_only_our_pods_are_planned(plan, file):
    """--scheduler-name replaces the default, and may be given several times."""
    path = file(NODE, POD % ("a", "one", 1), POD % ("b", "two", 1), POD % ("c", OURS, 1))
    one, two = ("--scheduler-name", "one"), ("--scheduler-name", "two")
    for args, gangs in (((), ["default/c"]), (one, ["default/a"]), (one + two, ["default/a", "default/b"])):
        assert [d["gang"] for d in plan("-f", path, *args)[1]["decisions"]] == gangs


def test_the_configuration_file_is_read(plan, file):
    """Scheduler names come from the profiles; --scheduler-name wins over them."""
    config = file(
        CONFIG.read_text().replace("schedulerName: py-gang-scheduler", "schedulerName: one"), name="config.yaml"
    )
    path = file(NODE, POD % ("a", "one", 1), POD % ("b", "two", 1))
    assert [d["gang"] for d in plan("-f", path, "--config", config)[1]["decisions"]] == ["default/a"]
    both = plan("-f", path, "--config", config, "--scheduler-name", "two")
    assert [d["gang"] for d in both[1]["decisions"]] == ["default/b"]


@pytest.mark.parametrize("now", ["2026-01-31T12:00:00Z", "1769860800", "1769860800.5"])
def test_the_time_can_be_given(plan, now):
    """As a time of the API or in seconds."""
    assert plan("-f", KOORDINATOR, "--now", now)[0] == 0


def test_files_folders_and_stdin_together(plan, file, monkeypatch):
    """All sources make one input; one -f may name several."""
    stdin = io.TextIOWrapper(io.BytesIO((POD % ("a", OURS, 1)).encode()))
    monkeypatch.setattr(sys, "stdin", stdin)
    folder = file(NODE, name="nodes.yaml").parent
    more = folder / "more"
    more.mkdir()
    (more / "b.yaml").write_text(POD % ("b", OURS, 1))
    code, answer, _ = plan("-f", folder / "nodes.yaml", "-", "-f", more)
    assert code == 0
    assert [d["outcome"] for d in answer["decisions"]] == ["bind", "bind"]


def test_now_may_be_now(file, monkeypatch, capsys):
    """Files with stamps of a cluster are decided for this moment."""
    moments = []

    def note(scheduler, drained):
        moments.append(scheduler.world.now)
        return iter(())

    monkeypatch.setattr("gangsched.cli.decisions.foretell", note)
    monkeypatch.setattr("time.time", lambda: 12.5)
    assert main(["plan", "-f", str(file(NODES)), "--now", "now"]) == 0
    assert moments == [12.5]
    capsys.readouterr()


@pytest.mark.parametrize("output", ["table", "json"])
def test_exit_code_for_scripts(output, file, capsys):
    """With --exit-code 1 unless every decision is bind; without, 0 for whatever is decided."""
    pods = "apiVersion: v1\nkind: Pod\nmetadata: {name: %s}\nspec: {schedulerName: py-gang-scheduler,"
    fits, does_not = f"{pods % 'a'} containers: []}}\n", f"{pods % 'b'} nodeName: '', nodeSelector: {{a: b}}}}\n"
    for objects, code in ((fits, 0), (f"{fits}---\n{does_not}", 1)):
        path = str(file(f"{NODES}---\n{objects}"))
        assert main(["plan", "-f", path, "-o", output]) == 0
        assert main(["plan", "-f", path, "-o", output, "--exit-code"]) == code
    capsys.readouterr()


def test_warnings_go_to_stderr(file, capsys):
    """With file, document, object and field, and in the form of errors; the table stays alone on stdout."""
    path = str(file("apiVersion: example.com/v1\nkind: Gadget\nmetadata: {name: x}\n"))
    for command in ("plan", "simulate", "queues"):
        assert main([command, "-f", path]) == 0
        out, err = capsys.readouterr()
        assert "Gadget" not in out
        assert err.startswith(f"gangsched: warning: {path}: document 1 (Gadget x): kind: unknown kind")


def test_an_unknown_kind_is_a_warning(plan, file):
    """It is named, and the rest is planned."""
    widget = "{apiVersion: example.com/v1, kind: Widget, metadata: {name: w}}"
    code, answer, _ = plan("-f", path := file(NODE, widget, POD % ("a", OURS, 1)))
    assert code == 0
    assert answer["warnings"] == [
        {"file": str(path), "document": 2, "object": "Widget w", "field": "kind", "message": "unknown kind 'Widget'"}
    ]
    assert len(answer["decisions"]) == 1


@pytest.mark.parametrize(("given", "hint"), [("ml", None), ("mll", "; did you mean ml?"), ("web", "")])
def test_a_namespace_that_does_not_exist(plan, file, given, hint):
    """-n names a namespace. If the input has namespaces, and not this one, a warning says so."""
    path = file("{apiVersion: v1, kind: Namespace, metadata: {name: ml}}", NODE, POD % ("p", OURS, 1))
    code, answer, _ = plan("-f", path, "-n", given)
    assert code == 0
    assert [(each["field"], each["message"]) for each in answer["warnings"]] == (
        [] if hint is None else [("-n", f"there is no namespace {given}{hint}")]
    )


def test_nothing_pending_gives_no_entry(plan, file):
    """An empty plan is a plan."""
    assert plan("-f", file(NODE))[:2] == (
        0,
        {"apiVersion": "gangsched.dev/plan/v1", "decisions": [], "warnings": [], "error": None},
    )


# ----------------------------------------------------------------------------------------------------------- bad input

GROUP = "{apiVersion: scheduling.sigs.k8s.io/v1alpha1, kind: PodGroup, metadata: {name: g}, spec: {minMember: %s}}"
CLASSED = "{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {priorityClassName: gold}}"


@pytest.mark.parametrize(
    ("documents", "document", "subject", "field", "message"),
    [
        (["a: [1\nb: }"], 1, None, None, "line 2, column 2: did not find expected ',' or ']'"),
        (["a: 1\na: 2"], 1, None, None, "line 2, column 1: the key 'a' is given twice in one mapping"),
        (
            [NODE, "", POD % ("p", OURS, "four")],
            3,
            "Pod default/p",
            "spec.containers[0].resources.requests.cpu",
            "'four' is not a quantity (examples: 2, 500m, 1.5Gi)",
        ),
        ([GROUP % 0], 1, "PodGroup default/g", "spec.minMember", "0 is not between 1 and 1000000"),
        ([GROUP % "two"], 1, "PodGroup default/g", "spec.minMember", "'two' is not a whole number"),
        ([CLASSED], 1, "Pod default/p", "spec.priorityClassName", "no PriorityClass 'gold' in the input"),
        ([NODE, NODE], 2, "Node n1", "metadata.name", "was already defined in {file}, document 1"),
        (["5"], 1, None, None, "a Kubernetes object is a mapping; this is a whole number"),
    ],
)
def test_bad_input(plan, file, documents, document, subject, field, message):
    """Exit code 2, no decision, the first error as an object, and the same on stderr in one line. For an object that
    can be left out, the next line names the option.
    """
    path = file(*documents)
    code, answer, err = plan("-f", path)
    wanted = {"file": str(path), "document": document, "object": subject, "field": field}
    wanted["message"] = message.replace("{file}", str(path))
    assert code == 2
    assert answer["decisions"] == []
    assert answer["error"] == wanted
    line, *more = err.splitlines()
    assert line.startswith(f"gangsched: {path}: document {document}")
    assert line.endswith(wanted["message"])
    assert more == ([f"gangsched: {failures.SKIPPABLE}"] if subject else [])


def test_bad_input_without_json(file, capsys):
    """With the table there is only the line on stderr."""
    assert main(["plan", "-f", str(file(GROUP % 0))]) == 2
    out = capsys.readouterr()
    assert out.out == ""
    assert "PodGroup default/g" in out.err


def test_a_missing_file(plan):
    """The file is named, and no document."""
    code, answer, err = plan("-f", "/no/such/file.yaml")
    assert code == 2
    assert answer["error"]["file"] == "/no/such/file.yaml"
    assert answer["error"]["document"] is None
    assert err == "gangsched: /no/such/file.yaml: no such file or folder\n"


def test_a_wrong_configuration(plan, file):
    """Its errors are reported the same way."""
    config = file("apiVersion: gangsched.dev/v1alpha1\nkind: GangSchedulerConfiguration\nprofils: []", name="c.yaml")
    code, answer, err = plan("-f", KOORDINATOR, "--config", config)
    assert (code, answer["error"]["file"]) == (2, str(config))
    assert "profiles" in answer["error"]["message"]
    assert "Traceback" not in err


def test_a_wrong_time(plan):
    """--now names what it takes."""
    code, answer, _ = plan("-f", KOORDINATOR, "--now", "noon")
    assert code == 2
    assert answer["error"]["message"].startswith("--now: 'noon' is not")
