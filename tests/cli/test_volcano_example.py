"""The example of Volcano: one gang with roles takes the room of another, by the priority of its PodGroup."""

from __future__ import annotations

import pytest
import yaml

from gangsched.api import load, plan, simulate
from tests.pages import ROOT

EXAMPLE = ROOT / "examples" / "volcano"
FIRST = [f"default/night-{name}" for name in ("ps-0", "worker-0", "worker-1")]
SECOND = [f"default/release-{name}" for name in ("ps-0", "worker-0", "worker-1", "worker-2")]


def test_the_plan() -> None:
    """The first gang leaves whole, so that one parameter server and two workers of the second start."""
    (decision,) = plan(load(EXAMPLE, scheduler_names=["volcano"])).decisions
    assert (decision.outcome, decision.priority, decision.required) == ("preempt", 1000, 3)
    assert sorted(victim.pod for victim in decision.victims) == FIRST
    assert sorted(decision.placements) == SECOND[:3]


@pytest.mark.parametrize("phase", ["Inqueue", "Running", "Completed", "Unknown"])
def test_nothing_is_decided_by_the_status_of_a_volcano_pod_group(phase: str) -> None:
    """Tenants can write it: the API has no subresource for it."""
    written = {"phase": phase, "running": 9, "succeeded": 9, "conditions": [{"type": "Scheduled", "status": "True"}]}
    objects = [each for path in sorted(EXAMPLE.glob("*.yaml")) for each in yaml.safe_load_all(path.read_text())]
    honest = plan(load(objects, scheduler_names=["volcano"])).decisions
    forged = [{**each, "status": written} if each["kind"] == "PodGroup" else each for each in objects]
    assert forged != objects
    (decision,) = plan(load(forged, scheduler_names=["volcano"])).decisions
    assert [(d.outcome, d.victims, d.placements) for d in honest] == [
        (decision.outcome, decision.victims, decision.placements)
    ]


def test_the_simulation() -> None:
    """That is what becomes of it, and the PodGroup of each gang says where it stands."""
    played = simulate(load(EXAMPLE, scheduler_names=["volcano"]))
    assert sorted(name for name, pod in played.pods.items() if pod.phase == "Running") == SECOND[:3]
    written = {(event["object"], event["detail"].get("phase")) for event in played.events if event["verb"] == "status"}
    assert {("default/night", "Running"), ("default/release", "Inqueue"), ("default/release", "Running")} <= written
