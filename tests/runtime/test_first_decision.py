"""What the first decision of a process must not pay for."""

from __future__ import annotations

import pickle
import subprocess
import sys

import pytest

from gangsched.core.decision import BIND, PREEMPT, UNSCHEDULABLE, WAIT
from gangsched.core.events import Synced
from gangsched.model.constraints import NodeTerm, PodTerm, Requirement, SpreadConstraint
from tests.builders import gang, node, pdb, pod, selects
from tests.core.harness import Built, event

#: What `run` has imported when it begins to decide; then a gang, with what watches decisions.
CHILD = """
import pickle, sys
import gangsched.cli.run
from gangsched.runtime import process

assert "kopf" not in sys.modules, "it takes a second to import, and nobody needs it yet"
process.logs.configure("json", "error")
core = process.Scheduler(process.Options())
observers = process.Observers(process.Metrics(("py-gang-scheduler",)), process.DecisionLog())
events = pickle.load(sys.stdin.buffer)
before = set(sys.modules)
observers.handled(events, core.handle(events, 0.0), 0.0, 0.0)
observers.deciding("ns/g")
actions = core.decide(0.0)
decisions = core.drain_decisions()
observers.decided(decisions, actions, 0.0, 0.0)
print([d.outcome for d in decisions], sorted(set(sys.modules) - before))
"""

ZONES = ("a", "b", "c")
#: Gang g, with a wish of every kind.
MEMBERS: list[Built] = [
    gang("g").min(3),
    *(
        pod(f"m{zone}")
        .cpu(2)
        .priority(10)
        .gang("g")
        .label(app="g")
        .port(80)
        .requires(NodeTerm((Requirement("zone", "In", ("a", "b", "c")),)))
        .shape(
            anti_affinity=(PodTerm("kubernetes.io/hostname", selects(app="g"), ("d",)),),
            affinity=(PodTerm("region", selects(app="data"), ("d",)),),
            spread=(SpreadConstraint("zone", 1, selects(app="g"), True),),
        )
        for zone in ZONES
    ),
]


def nodes(cores: float) -> list[Built]:
    """One in each of three zones, and a pod that the gang has to be near."""
    room = [node(f"n-{z}").cpu(cores).label(zone=z, region="r", **{"kubernetes.io/hostname": f"n-{z}"}) for z in ZONES]
    return [*room, pod("data").label(app="data").priority(99).on("n-a")]


@pytest.mark.parametrize(
    ("outcome", "cluster"),
    [
        (BIND, nodes(4)),
        (WAIT, [*nodes(2), pod("old").cpu(1).on("n-b").terminating()]),
        (UNSCHEDULABLE, nodes(1)),
        pytest.param(
            PREEMPT,
            [*nodes(2), pod("low").cpu(1).on("n-b")],
        ),
        pytest.param(
            PREEMPT,
            [
                *nodes(2),
                gang("low").min(2),
                *(pod(f"low-{z}").cpu(1).gang("low").label(app="low").on(f"n-{z}") for z in "ab"),
                pod("alone").cpu(1).label(app="low").on("n-c"),
                pdb("low").selects(app="low").allows(1),
            ],
            id="gangs and a budget",
        ),
    ],
)
def test_the_first_decision_imports_nothing(outcome: str, cluster: list[Built]) -> None:
    """All that a decision needs is there before the first one, whatever its outcome."""
    events = pickle.dumps([*(event(o) for o in [*cluster, *MEMBERS]), Synced()])
    found = subprocess.run([sys.executable, "-c", CHILD], input=events, capture_output=True, check=False)
    assert (found.stdout.decode(), found.stderr.decode()) == (f"['{outcome}'] []\n", "")
