"""Which scheduler names count as those of another scheduler at work: what a tenant writes proves nothing."""

from __future__ import annotations

import pytest

from gangsched.core.state.rivals import Rivals
from gangsched.model.records import Condition, Pod
from tests.builders import OTHERS, PodBuilder, pod

WAITS = pod("waits").scheduler(OTHERS)
ON_A_NODE = pod("p").scheduler(OTHERS).on("n1")
SYSTEM = pod("p", "kube-system").scheduler(OTHERS).on("n1")


def rivals(*records: PodBuilder) -> Rivals:
    """What is known after these records, one after the other, with none of our pods among them."""
    known: dict[str, Pod] = {}
    found = Rivals(lambda gang: gang.scheduler == "ours")
    for record in records:
        new = record.obj()
        found.seen(known.get(new.uid), new)
        known[new.uid] = new
    return found


def waits(status: str, reason: str) -> PodBuilder:
    """The pending pod with this condition ``PodScheduled``."""
    return pod("waits").scheduler(OTHERS).field(scheduled_condition=Condition(status, reason))


@pytest.mark.parametrize("there", [ON_A_NODE, SYSTEM.field(static=True)], ids=["with a nodeName", "static"])
def test_a_pod_that_a_tenant_puts_on_a_node_is_no_sign_of_a_scheduler(there: PodBuilder) -> None:
    """Also if it was there when the process started: nobody has bound it."""
    found = rivals(there, WAITS)
    assert not found.bind(there.obj())
    assert not found.wait()


@pytest.mark.parametrize(
    "seen",
    [
        [pod("p").scheduler(OTHERS), ON_A_NODE],
        [pod("p", "kube-system").scheduler(OTHERS).on("n1")],
        [waits("False", "Unschedulable")],
    ],
    ids=["bound before our eyes", "on a node in kube-system", "told why it is pending"],
)
def test_a_scheduler_at_work_is_known_by_what_tenants_cannot_write(seen: list[PodBuilder]) -> None:
    """Each sign is enough: a binding, a pod of kube-system on a node, a reason in a pending pod's status."""
    assert rivals(*seen, pod("next").scheduler(OTHERS)).wait()


def test_a_gate_is_no_sign_of_a_scheduler() -> None:
    """The API server writes that a pod is gated, whatever scheduler it names. It stays when the gate is gone."""
    assert not rivals(waits("False", "SchedulingGated")).wait()


def test_a_scheduler_without_pods_is_forgotten() -> None:
    """When the last pod of a name is gone the name proves nothing again."""
    found = rivals(SYSTEM)
    found.forget_pod(SYSTEM.obj())
    found.seen(None, WAITS.obj())
    assert not found.wait()
