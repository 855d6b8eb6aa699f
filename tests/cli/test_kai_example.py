"""The example of KAI: a gang of two parts takes the room of a preemptible one, in one rack."""

from __future__ import annotations

from gangsched.api import load, plan, simulate
from tests.pages import ROOT

EXAMPLE = ROOT / "examples" / "kai"
STARTS = [f"default/serve-{name}" for name in ("leader-0", "worker-0", "worker-1")]


def test_the_plan() -> None:
    """One leader and two workers start in the rack of the gang that may be evicted, which leaves whole."""
    (decision,) = plan(load(EXAMPLE, scheduler_names=["kai-scheduler"])).decisions
    assert (decision.outcome, decision.priority, decision.required) == ("preempt", 125, 3)
    assert decision.topology_domain == "example.com/rack=a"
    assert sorted(victim.pod for victim in decision.victims) == ["default/night-0", "default/night-1"]
    assert sorted(decision.placements) == STARTS


def test_the_simulation() -> None:
    """That is what becomes of it; the gang that is not preemptible goes on."""
    played = simulate(load(EXAMPLE, scheduler_names=["kai-scheduler"]))
    assert sorted(name for name, pod in played.pods.items() if pod.phase == "Running") == ["default/report-0", *STARTS]
