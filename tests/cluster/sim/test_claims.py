"""Claims in the simulated cluster: made from templates, given devices, and given back when their pods are gone."""

from __future__ import annotations

import msgspec

from gangsched.cluster.sim import World
from gangsched.cluster.sim.history import Cause
from gangsched.core.actions import AllocateClaim, ClaimRef, Consumer, ReleaseClaim, ReserveClaim
from gangsched.core.events import Changed, Gone, Outcome
from gangsched.model.constraints import PodClaim, PodDevices
from gangsched.model.devices import AllocatedDevice, Allocation, DeviceId, ResourceClaim, ResourceClaimTemplate
from gangsched.model.records import Pod
from tests.cluster.sim.objects import get, node, outcomes, pod, world

ALLOCATION = Allocation((AllocatedDevice("r", DeviceId("gpu.example.com", "n1", "gpu-0")),))
OTHER = Allocation((AllocatedDevice("r", DeviceId("gpu.example.com", "n1", "gpu-1")),))
REF = ClaimRef("ns", "c", "uid-c")
A, B = Consumer("a", "uid-a"), Consumer("b", "uid-b")


def with_claim(*pods: Pod) -> World:
    """A claim and its pods."""
    there = world(node("n1"), *pods)
    there.apply(Changed(ResourceClaim("ns", "c", "uid-c")))
    return there


def named(name: str) -> Pod:
    """A pod that names the claim."""
    return pod(name, devices=PodDevices((PodClaim("gpus", "c"),)))


def users(there: World) -> list[str] | None:
    """Who may use the devices of the claim; None without any."""
    claim = there.store.claim("ns", "c")
    assert claim is not None
    return [name for _, name, _ in claim.reserved_for] if claim.allocation is not None else None


def test_a_claim_gets_devices_and_gives_them_back() -> None:
    """With the last consumer."""
    there = with_claim(named("a"), named("b"))
    first = AllocateClaim(1, REF, (A,), ALLOCATION, "{}")
    assert outcomes(there, first, msgspec.structs.replace(first, id=2)) == [Outcome.OK, Outcome.OK]
    assert users(there) == ["a"]
    assert outcomes(there, ReserveClaim(3, REF, (B,), ALLOCATION)) == [Outcome.OK]
    assert users(there) == ["a", "b"]
    assert outcomes(there, ReleaseClaim(4, REF, (A,)), ReleaseClaim(5, REF, (A,))) == [Outcome.OK, Outcome.OK]
    assert users(there) == ["b"]
    assert outcomes(there, ReleaseClaim(6, REF, (A, B))) == [Outcome.OK]
    assert users(there) is None


def test_writes_that_do_not_fit_the_claim() -> None:
    """Another incarnation is gone; other devices, none, or its end are a conflict."""
    there = with_claim(named("a"), named("b"))
    wrong = ClaimRef("ns", "c", "another")
    assert outcomes(there, AllocateClaim(1, wrong, (A,), ALLOCATION, "{}")) == [Outcome.GONE]
    assert outcomes(there, ReserveClaim(2, REF, (A,), ALLOCATION)) == [Outcome.CONFLICT]
    assert outcomes(there, AllocateClaim(3, REF, (A,), ALLOCATION, "{}")) == [Outcome.OK]
    assert outcomes(there, AllocateClaim(4, REF, (B,), OTHER, "{}")) == [Outcome.CONFLICT]
    assert outcomes(there, ReserveClaim(5, REF, (B,), OTHER)) == [Outcome.CONFLICT]
    assert users(there) == ["a"]


def test_the_controller_gives_back_the_devices_of_pods_that_are_gone() -> None:
    """Or have finished; a little later, and not before the last one."""
    there = with_claim(named("a"), named("b"))
    outcomes(there, AllocateClaim(1, REF, (A, B), ALLOCATION, "{}"))
    there.apply(Gone("Pod", "ns", "a", "uid-a"))
    assert users(there) == ["a", "b"]
    there.clock.advance_to(there.clock.now + 5)
    assert users(there) == ["b"]
    there.store.put_pod(msgspec.structs.replace(get(there, "b"), phase="Succeeded"), Cause("user", "change"))
    there.clock.advance_to(there.clock.now + 5)
    assert users(there) is None


def test_claims_are_made_from_templates() -> None:
    """For each pod its own, which goes with the pod."""
    there = world(node("n1"), pod("a", devices=PodDevices((PodClaim("gpus", "", "t"),))))
    there.clock.advance_to(there.clock.now + 5)
    assert there.store.device_claims() == []
    there.apply(Changed(ResourceClaimTemplate("ns", "t")))
    there.clock.advance_to(there.clock.now + 5)
    (made,) = there.store.device_claims()
    assert (made.name, made.owner_uid) == ("a-gpus", "uid-a")
    assert get(there, "a").devices == PodDevices((PodClaim("gpus", "a-gpus", "t"),))
    there.apply(Gone("Pod", "ns", "a", "uid-a"))
    there.clock.advance_to(there.clock.now + 5)
    assert there.store.device_claims() == []
