"""What would help a gang against which a budget stands that is absolute, or a filter of another package."""

from __future__ import annotations

import pytest

from tests.cli.worlds import NODES
from tests.runtime.plugin_packages import installed

CONFIG = """
apiVersion: gangsched.dev/v1alpha1
kind: GangSchedulerConfiguration
"""
CURFEW = """
from gangsched.plugins import PerNodeFilter

class Curfew(PerNodeFilter):
    name, text = "Curfew", "node(s) have a curfew"
    def passes(self, pod, node):
        return False
"""
CLASS = """
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: high}
value: 10
"""
POD = """
apiVersion: v1
kind: Pod
metadata: {name: %s, labels: {app: %s}}
spec:
  schedulerName: py-gang-scheduler
  nodeName: "%s"
  priorityClassName: "%s"
  containers: [{resources: {requests: {cpu: 3}}}]
"""
WEB = [POD % (f"web-{n}", "web", f"n{n}", "") for n in (1, 2)]
NEW = POD % ("new", "new", "", "high")
BUDGET = """
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: %s}
spec: {minAvailable: 2, selector: {matchLabels: {app: %s}}}
"""


@pytest.mark.parametrize(
    ("pdb", "said"),
    [
        (
            "strict",
            "do let PodDisruptionBudget default/web allow more disruptions: it can start after 1 pod is evicted",
        ),
        ("preferred", "PREEMPT 1 member can start after 1 pod is evicted"),
    ],
)
def test_a_budget_that_is_absolute(pdb, said, explain, tmp_path):
    """The budget is named that keeps the victims, no other, and only where budgets are absolute."""
    config = tmp_path / "config.yaml"
    config.write_text(f"{CONFIG}preemption: {{pdb: {pdb}}}\n")
    _, out, _ = explain(
        "new", CLASS, NODES, *WEB, NEW, BUDGET % ("web", "web"), BUDGET % ("x", "x"), args=["--config", str(config)]
    )
    assert said in out
    assert ("allow more disruptions" in out) == (pdb == "strict")


def test_a_filter_of_another_package(explain, tmp_path):
    """Without what it refuses the gang starts: it is named, and what it says is the reason."""
    config = tmp_path / "config.yaml"
    config.write_text(f"{CONFIG}profiles:\n- plugins: {{filter: {{enabled: [{{name: Curfew}}]}}}}\n")
    points = {"gangsched.filters": {"Curfew": "curfew:Curfew"}}
    with installed(tmp_path / "site", "curfew", CURFEW, points):
        _, out, _ = explain("new", CLASS, NODES, NEW, args=["--config", str(config)])
    assert "nodes refuse it (2 node(s) have a curfew)" in out
    assert "do change what plug-in Curfew refuses its pods for: without it it can start now" in out
