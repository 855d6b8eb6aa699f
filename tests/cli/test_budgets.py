"""A plan that breaks budgets says so first: in its sentence, and in the total."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gangsched.cli.main import main

HIGH = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 9}
NODE = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "n"},
    "status": {"allocatable": {"cpu": "2", "pods": "9"}},
}
SAID = "2 pods are evicted, 2 of them beyond PodDisruptionBudget default/web"


def pod(name: str, cpu: int, **spec: str) -> dict[str, object]:
    """A pod of the application, or one that waits."""
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": str(cpu)}}}
    meta = {"name": name, "labels": {"app": "web"} if cpu == 1 else {}}
    fields = {"schedulerName": "py-gang-scheduler", "containers": [container], **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": fields}


@pytest.mark.parametrize("least", [2, 0])
def test_a_breach_of_a_budget_is_in_the_sentence_and_in_the_total(
    least: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """How many pods go beyond which budget, in ``plan``, in JSON, and in ``explain``."""
    spec = {"minAvailable": least, "selector": {"matchLabels": {"app": "web"}}}
    budget = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "web"}, "spec": spec}
    runs = [pod(f"w{i}", 1, nodeName="n") for i in range(2)]
    path = tmp_path / "all.yaml"
    path.write_text(
        "\n---\n".join(map(json.dumps, [HIGH, NODE, budget, *runs, pod("new", 2, priorityClassName="high")]))
    )
    told: dict[str, str] = {}
    for command in (["plan"], ["plan", "-o", "json"], ["explain", "new"]):
        assert main([*command, "-f", str(path)]) == 0
        told[" ".join(command)] = " ".join(capsys.readouterr().out.split())
    assert [SAID in text for text in told.values()] == [least > 0] * 3
    total = "1 gang: 1 preempt, 2 victims" + (", 2 of them beyond PodDisruptionBudget default/web" if least else "")
    assert told["plan"].endswith(total)
