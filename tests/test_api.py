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
    assert found.summary == printed["summary"]
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


def test_the_package_itself_imports_nothing() -> None:
    """`gangsched --help` imports it, too."""
    code = "import sys, gangsched; print([m for m in ('numpy', 'msgspec', 'gangsched.api') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
    assert {"load", "plan", "explain", "simulate"} <= set(dir(gangsched))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        gangsched.nothing  # type: ignore[attr-defined]  # noqa: B018


def test_the_notebook(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Its cells run one after the other, and say what they are there to say."""
    monkeypatch.chdir(EXAMPLES)
    cells = json.loads((EXAMPLES / "what-if.ipynb").read_text())["cells"]
    names: dict[str, object] = {}
    for cell in cells:
        if cell["cell_type"] == "code":
            assert cell["outputs"] == []
            exec("".join(cell["source"]), names)
    out = capsys.readouterr().out
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
