"""``from gangsched import load, plan, explain, simulate``, and ``gangsched.plugins``."""

from __future__ import annotations

import ast
import importlib
import json
import re
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

import gangsched
from gangsched import api, explain, load, plan, plugins, simulate
from gangsched.cli.main import main
from tests.pages import ROOT, read_schema, text_of

EXAMPLES = ROOT / "examples"
FOLDERS = ("koordinator", "workload", "quota-gpu")


@pytest.mark.parametrize("folder", FOLDERS)
def test_plans_are_those_of_the_command(folder: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The same fields with the same values, but for the time that it took."""
    main(["plan", "-f", str(EXAMPLES / folder), "-o", "json"])
    printed = json.loads(capsys.readouterr().out)["decisions"]
    found = json.loads(msgspec.json.encode(plan(load(EXAMPLES / folder)).decisions))
    for each in (*printed, *found):
        each["planMilliseconds"] = 0
    assert found == printed


@pytest.mark.parametrize("folder", FOLDERS)
def test_simulations_are_those_of_the_command(folder: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Pods, events and summary."""
    main(["simulate", "-f", str(EXAMPLES / folder), "-o", "json"])
    printed = json.loads(capsys.readouterr().out)
    found = simulate(load(EXAMPLES / folder))
    assert msgspec.to_builtins(found.summary) == printed["summary"]
    assert {name: pod.phase for name, pod in found.pods.items()} == {n: p["phase"] for n, p in printed["pods"].items()}


def test_results_have_the_fields_of_the_schema() -> None:
    """What the JSON has, the struct has, and nothing else."""
    entry = read_schema("plan-v1")["$defs"]["decision"]["properties"]
    fields = {field.encode_name for field in msgspec.structs.fields(api.Decision)}
    assert fields == set(entry)


def test_explanations() -> None:
    """A gang, a pod, and what does not exist."""
    cluster = load(EXAMPLES / "koordinator")
    assert explain(cluster, "hp-training-job").state == "preempt"
    found = explain(cluster, "pod/lp-pod-1")
    assert (found.state, found.decisions[0].gang) == ("victim", "default/hp-training-job")
    assert "because" in {section.label for section in found.sections}
    with pytest.raises(ValueError, match="there is no gang or pod default/nobody"):
        explain(cluster, "nobody")


def test_whom_to_decide_for(tmp_path: Path) -> None:
    """Names of schedulers, a configuration, and a moment."""
    assert plan(load(EXAMPLES / "koordinator", scheduler_names=["other"])).decisions == []
    config = tmp_path / "config.yaml"
    config.write_text(
        "apiVersion: gangsched.dev/v1alpha1\nkind: GangSchedulerConfiguration\nprofiles: [{schedulerName: other}]\n"
    )
    cluster = load(EXAMPLES / "koordinator", config=config)
    assert plan(cluster, now=2e9).decisions == []
    (tmp_path / "bad.yaml").write_text("kind: Pod")
    with pytest.raises(ValueError, match="apiVersion: is missing"):
        load(tmp_path / "bad.yaml")
    assert load(tmp_path / "bad.yaml", skip_invalid=True).warnings[0]["message"] == "skipped: is missing"


POD = """
apiVersion: v1
kind: Pod
metadata: {name: a, namespace: ml}
spec: {schedulerName: py-gang-scheduler, containers: [{name: main, resources: {requests: {cpu: 8}}}]}
"""
NODE = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "gpu-0"},
    "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "10"}},
}


def test_what_is_loaded() -> None:
    """Texts, mappings, lists of them, and models of both client libraries, from lists without kinds too."""
    from kubernetes_asyncio.client import models

    meta = models.V1ObjectMeta(name="gpu-0")
    status = models.V1NodeStatus(allocatable={"cpu": "4", "memory": "8Gi", "pods": "10"})
    model = models.V1Node(metadata=meta, status=status)
    for nodes in (NODE, [NODE], model, [model], models.V1NodeList(items=[model])):
        cluster = load(POD, nodes)
        found = explain(cluster, "a", namespace="ml")
        assert found.sentence.startswith("the pod asks for 8 cpu; the largest of the 1 node"), found
        assert repr(cluster) == "<Cluster: 1 Node, 1 Pod>"
    with pytest.raises(TypeError, match="argument 1: a path, a text, an object or several objects are needed, not int"):
        load(3)
    with pytest.raises(ValueError, match=r"argument 1.*apiVersion: is missing"):
        load({"kind": "Pod"})


def test_a_cluster_with_other_nodes() -> None:
    """More nodes like one of its own, or less of what it has, make another cluster."""
    small = POD.replace("cpu: 8", "cpu: 3")
    cluster = load(small, small.replace("name: a,", "name: b,"), NODE)
    assert [d.outcome for d in plan(cluster).decisions] == ["bind", "unschedulable"]
    assert [d.outcome for d in plan(cluster.with_nodes(1, like="gpu-0")).decisions] == ["bind", "bind"]
    assert [d.gang for d in plan(cluster.without("ml/a")).decisions] == ["ml/b"]
    assert [d.outcome for d in plan(cluster.without("node/gpu-0")).decisions] == ["unschedulable"] * 2
    assert [d.outcome for d in plan(cluster).decisions] == ["bind", "unschedulable"]
    with pytest.raises(ValueError, match=r"there is no node gpu-1; did you mean gpu-0\?"):
        cluster.with_nodes(1, like="gpu-1")
    with pytest.raises(ValueError, match="there is no node or pod pod/a"):
        cluster.without("pod/a")
    with pytest.raises(ValueError, match="0 more nodes"):
        cluster.with_nodes(0, like="gpu-0")


def test_what_is_no_cluster() -> None:
    """A wrong argument is named, and no attribute of it."""
    for call in (plan, simulate):
        with pytest.raises(TypeError, match=r"what load\(\) returns is needed, not str"):
            call("cluster.json")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="until_seconds: -1 is not more than 0"):
        simulate(load(EXAMPLES / "koordinator"), until_seconds=-1)


def test_what_a_notebook_shows() -> None:
    """A plan and an explanation are tables and lists there, with names of others as text."""
    shown = plan(load(EXAMPLES / "koordinator"))._repr_html_()
    assert "<td>default/hp-training-job</td><td>preempt</td>" in shown
    found = explain(load(EXAMPLES / "koordinator"), "pod/lp-pod-1")
    assert "<b>victim</b> it is evicted for PodGroup default/hp-training-job" in found._repr_html_()
    assert "&lt;b&gt;" in msgspec.structs.replace(found, title="<b>")._repr_html_()


def test_no_sentence_is_empty() -> None:
    """Of gangs that start, wait, or do not fit."""
    for folder in FOLDERS:
        cluster = load(EXAMPLES / folder)
        for decision in plan(cluster).decisions:
            namespace, _, name = decision.gang.partition("/")
            assert explain(cluster, name, namespace=namespace).sentence


def test_the_package_itself_imports_nothing() -> None:
    """`gangsched --help` imports it, too."""
    code = "import sys, gangsched; print([m for m in ('numpy', 'msgspec', 'gangsched.api') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
    assert {"load", "plan", "explain", "simulate"} <= set(dir(gangsched))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        gangsched.nothing  # type: ignore[attr-defined]  # noqa: B018


def test_the_notebook(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Its cells run one after the other, and print what is stored in it."""
    monkeypatch.chdir(EXAMPLES)
    cells = json.loads((EXAMPLES / "what-if.ipynb").read_text())["cells"]
    names: dict[str, object] = {}
    out = ""
    for cell in cells:
        if cell["cell_type"] == "code":
            exec("".join(cell["source"]), names)
            printed = capsys.readouterr().out
            assert "".join(text for each in cell["outputs"] for text in each["text"]) == printed
            out += printed
    assert "evicts default/lp-pod-1 on node-1 LowerPriority" in out
    assert "bind {'default/hp-worker-1': 'node-3', 'default/hp-worker-2': 'node-4'} 0 victims" in out
    assert "default/lp-pod-1 Deleted" in out


def test_plugins_need_nothing_else() -> None:
    """The example package and the pages import `gangsched.plugins` alone, which has what it says."""
    source = next((EXAMPLES / "plugin-gpu-reserve" / "src").rglob("__init__.py")).read_text()
    pages = "\n".join(text_of(f"docs/{name}.md") for name in ("reference/plugins", "internals/architecture"))
    modules = {
        node.module for node in ast.walk(ast.parse(source)) if isinstance(node, ast.ImportFrom) and node.module
    } | set(re.findall(r"^from (gangsched\.\S+) import", pages, re.MULTILINE))
    assert {name for name in modules if name.startswith("gangsched")} == {"gangsched.plugins"}
    assert all(hasattr(importlib.import_module("gangsched.plugins"), name) for name in plugins.__all__)


def test_a_workload_with_another_priority() -> None:
    """It evicts what is lower then; the name may be a gang's, a pod's or an owner's."""
    low = {"metadata": {"name": "low"}, "spec": {"nodeName": "n", "containers": [CPU]}}
    new = {"metadata": {"name": "new"}, "spec": {"schedulerName": "py-gang-scheduler", "containers": [CPU]}}
    pods = [{"apiVersion": "v1", "kind": "Pod", **each} for each in (low, new)]
    cluster = load(ONE_CPU, *pods)
    assert [d.outcome for d in plan(cluster).decisions] == ["unschedulable"]
    for name in ("new", "default/new", "pod/new"):
        assert [d.outcome for d in plan(cluster.with_priority(name, 9)).decisions] == ["preempt"]
    with pytest.raises(ValueError, match="other"):
        cluster.with_priority("job/other", 9)


def test_a_workload_in_another_queue() -> None:
    """Its quota counts from then on."""
    api = "kueue.x-k8s.io/v1beta1"
    flavors = [{"name": "f", "resources": [{"name": "cpu", "nominalQuota": 0}]}]
    pod = {"schedulerName": "py-gang-scheduler", "containers": [CPU]}
    group = {"coveredResources": ["cpu"], "flavors": flavors}
    spec = {"namespaceSelector": {}, "resourceGroups": [group]}
    objects = [
        ONE_CPU,
        {"apiVersion": api, "kind": "ResourceFlavor", "metadata": {"name": "f"}, "spec": {}},
        {"apiVersion": api, "kind": "ClusterQueue", "metadata": {"name": "a"}, "spec": spec},
        {"apiVersion": api, "kind": "LocalQueue", "metadata": {"name": "q"}, "spec": {"clusterQueue": "a"}},
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": pod},
    ]
    cluster = load(*objects)
    assert [d.outcome for d in plan(cluster).decisions] == ["bind"]
    assert [d.outcome for d in plan(cluster.with_queue("p", "q")).decisions] == ["unschedulable"]


ROOM = {"allocatable": {"cpu": "1", "pods": "9"}}
ONE_CPU = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}, "status": ROOM}
CPU = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}
