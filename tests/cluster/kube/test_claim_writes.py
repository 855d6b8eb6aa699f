"""Devices for claims on a real API server: what is written in which order, and what others did meanwhile."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest

from gangsched.cluster.kube.claim_writes import Releases, allocated
from gangsched.core.actions import AllocateClaim, ClaimRef, Consumer, ReleaseClaim, ReserveClaim
from gangsched.core.events import Outcome, WriteDone
from gangsched.model.devices import AllocatedDevice, Allocation, DeviceId
from tests.cluster.kube.conftest import Reader
from tests.cluster.kube.made import means
from tests.controlplane.client import Client, Object
from tests.e2e.devices import DRIVER, claim, device_class, pod
from tests.faulty_proxy import Fault, FaultyProxy

Make = Callable[..., Awaitable[Reader]]
FINALIZER = "resource.kubernetes.io/delete-protection"
ALLOCATION = Allocation((AllocatedDevice("gpus", DeviceId(DRIVER, "n1", "gpu-0")),))
ONE_NODE = {"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}]}


def written(device: str = "gpu-0") -> str:
    """One device of the node n1, as the API has it."""
    result = {"request": "gpus", "driver": DRIVER, "pool": "n1", "device": device}
    return msgspec.json.encode({"devices": {"results": [result]}, "nodeSelector": ONE_NODE}).decode()


async def made(admin: Client, *pods: str) -> tuple[ClaimRef, tuple[Consumer, ...]]:
    """A claim and pods that name it; the claim controller keeps reservations of pods that exist."""
    await admin.create(device_class())
    wanted = await admin.create(claim("c"), "default")
    meta = wanted["metadata"]
    found = [await admin.create(pod(name, {"gpus": "c"}, schedulerName="nobody")) for name in pods]
    users = tuple(Consumer(each["metadata"]["name"], each["metadata"]["uid"]) for each in found)
    return ClaimRef("default", "c", meta["uid"], meta["resourceVersion"]), users


def devices(stored: Object) -> list[str]:
    """The names of its devices."""
    allocation = stored.get("status", {}).get("allocation", {})
    return [each["device"] for each in allocation.get("devices", {}).get("results", [])]


def users(stored: Object) -> list[str]:
    """The names of its consumers, in order."""
    return sorted(each["name"] for each in stored.get("status", {}).get("reservedFor", []))


def protects(stored: Object) -> bool:
    """True with the finalizer."""
    return FINALIZER in stored["metadata"].get("finalizers", [])


async def leading(make_cluster: Make) -> Reader:
    """An adapter that leads."""
    reader = await make_cluster()
    await reader.leading()
    return reader


async def test_a_claim_lives_from_its_allocation_to_its_release(make_cluster: Make, admin: Client) -> None:
    """Devices and the first consumer, then a second, then one less, then none: the finalizer is there in between. Each
    write may be asked for again, as after a lost answer.
    """
    ref, (a, b) = await made(admin, "a", "b")
    reader = await leading(make_cluster)
    story: list[tuple[Any, list[str], list[str], bool]] = [
        (AllocateClaim(0, ref, (a,), ALLOCATION, written()), ["gpu-0"], ["a"], True),
        (ReserveClaim(0, ref, (b,), ALLOCATION), ["gpu-0"], ["a", "b"], True),
        (ReleaseClaim(0, ref, (a,)), ["gpu-0"], ["b"], True),
        (ReleaseClaim(0, ref, (a, b)), [], [], False),
    ]
    for action, given, used, protected in story:
        answers = [(await reader.do(msgspec.structs.replace(action, id=reader.next_id())))[0].outcome for _ in range(2)]
        assert answers == [Outcome.OK, Outcome.OK], action
        stored = await admin.wait_for("ResourceClaim", "c", protects if protected else lambda c: not protects(c))
        assert (devices(stored), users(stored)) == (given, used)


async def test_the_finalizer_comes_first(make_cluster: Make, admin: Client, proxy: FaultyProxy) -> None:
    """If the status cannot be written, the claim has a finalizer and no devices; a later attempt completes it."""
    ref, (a,) = await made(admin, "a")
    reader = await leading(make_cluster)
    hit = proxy.fail(Fault(path="/resourceclaims/c/status$", method="PATCH", status=503, times=None))
    reader.cluster.submit([AllocateClaim(1, ref, (a,), ALLOCATION, written())])
    stored = await admin.wait_for("ResourceClaim", "c", protects)
    assert devices(stored) == []
    proxy.heal()
    answer = await reader.until(WriteDone)
    assert (answer.outcome, hit.hits > 0) == (Outcome.OK, True)
    stored = await admin.get("ResourceClaim", "c")
    assert (devices(stored), protects(stored)) == (["gpu-0"], True)


@pytest.mark.parametrize("fault", [{"cut_before": True}, {"cut_after": True}], ids=str)
@pytest.mark.parametrize("path", ["/resourceclaims/c$", "/resourceclaims/c/status$"])
async def test_a_lost_answer_is_nobodys_business(
    make_cluster: Make, admin: Client, proxy: FaultyProxy, fault: dict[str, Any], path: str
) -> None:
    """Whichever of the two requests loses its answer: the claim has its devices once."""
    ref, (a,) = await made(admin, "a")
    reader = await leading(make_cluster)
    hit = proxy.fail(Fault(path=path, method="PATCH", **fault))
    [answer] = await reader.do(AllocateClaim(1, ref, (a,), ALLOCATION, written()))
    assert (answer.outcome, hit.hits) == (Outcome.OK, 1)
    stored = await admin.get("ResourceClaim", "c")
    assert (devices(stored), users(stored)) == (["gpu-0"], ["a"])


async def test_what_another_scheduler_has_allocated_stays(make_cluster: Make, admin: Client) -> None:
    """A claim with other devices is a conflict, for its allocation and for a further consumer; a change of its labels
    is none. Another claim of that name is gone.
    """
    ref, (a, b) = await made(admin, "a", "b")
    await admin.patch("ResourceClaim", "c", {"metadata": {"labels": {"of": "others"}, "finalizers": [FINALIZER]}})
    reader = await leading(make_cluster)
    for wrong in (ClaimRef("default", "c", "another", ref.version), ClaimRef("default", "missing", ref.uid)):
        [answer] = await reader.do(AllocateClaim(reader.next_id(), wrong, (a,), ALLOCATION, written()))
        assert answer.outcome == Outcome.GONE
    reserved = {"resource": "pods", "name": a.name, "uid": a.uid}
    status = {"allocation": msgspec.json.decode(written("gpu-7")), "reservedFor": [reserved]}
    await admin.patch("ResourceClaim", "c", {"status": status}, subresource="status")
    allocate = AllocateClaim(reader.next_id(), ref, (a,), ALLOCATION, written())
    reserve = ReserveClaim(reader.next_id(), ref, (b,), ALLOCATION)
    assert [each.outcome for each in await reader.do(allocate, reserve)] == [Outcome.CONFLICT, Outcome.CONFLICT]
    stored = await admin.get("ResourceClaim", "c")
    assert (devices(stored), users(stored)) == (["gpu-7"], ["a"])


async def test_a_claim_that_is_being_deleted_gets_no_devices(make_cluster: Make, admin: Client) -> None:
    """It would keep them for ever."""
    ref, (a,) = await made(admin, "a")
    await admin.patch("ResourceClaim", "c", {"metadata": {"finalizers": ["example.com/keep"]}})
    await admin.delete("ResourceClaim", "c")
    reader = await leading(make_cluster)
    [answer] = await reader.do(AllocateClaim(1, ref, (a,), ALLOCATION, written()))
    assert answer.outcome == Outcome.CONFLICT
    await admin.patch("ResourceClaim", "c", {"metadata": {"finalizers": None}})


async def test_a_claim_has_at_most_256_consumers(make_cluster: Make, admin: Client) -> None:
    """The 257th is refused before it is sent."""
    ref, (a,) = await made(admin, "a")
    many = [{"apiGroup": "example.com", "resource": "users", "name": f"u{i}", "uid": f"u{i}"} for i in range(256)]
    await admin.patch("ResourceClaim", "c", {"metadata": {"finalizers": [FINALIZER]}})
    status = {"allocation": msgspec.json.decode(written()), "reservedFor": many}
    await admin.patch("ResourceClaim", "c", {"status": status}, subresource="status")
    reader = await leading(make_cluster)
    [answer] = await reader.do(ReserveClaim(1, ref, (a,), ALLOCATION))
    assert answer.outcome == Outcome.CONFLICT
    assert "256" in answer.message


RIGHTS = [
    ("resourceclaims", "get"),
    ("resourceclaims", "patch"),
    ("resourceclaims/status", "patch"),
    ("resourceclaims/binding", "patch"),
]


@pytest.mark.parametrize(("resource", "verb"), RIGHTS, ids=str)
async def test_each_right_is_needed(make_cluster: Make, admin: Client, resource: str, verb: str) -> None:
    """Without any one of the rights on claims, the API server refuses the allocation."""
    ref, (a,) = await made(admin, "a")
    reader = await leading(make_cluster)
    role = await admin.get("ClusterRole", "gangsched")
    rules = [rule for rule in role["rules"] if "resourceclaims" not in str(rule["resources"])]
    for name, verbs in (
        ("resourceclaims", {"get", "list", "watch", "patch"}),
        ("resourceclaims/status", {"patch"}),
        ("resourceclaims/binding", {"patch"}),
    ):
        left = sorted(verbs - ({verb} if name == resource else set()))
        rules += [{"apiGroups": ["resource.k8s.io"], "resources": [name], "verbs": left}] if left else []
    await admin.patch("ClusterRole", "gangsched", {"rules": rules})
    try:
        outcomes = set()
        for _ in range(50):
            [answer] = await reader.do(AllocateClaim(reader.next_id(), ref, (a,), ALLOCATION, written()))
            outcomes.add(answer.outcome)
            if answer.outcome == Outcome.REFUSED:
                break
            await reader.do(ReleaseClaim(reader.next_id(), ref, (a,)))
    finally:
        await admin.patch("ClusterRole", "gangsched", {"rules": role["rules"]})
    assert Outcome.REFUSED in outcomes


def test_shares_of_a_device_have_ids_of_their_own() -> None:
    """Each share of a device is told from others; the id is the same at each attempt, and others have none."""
    shared = {"request": "gpus", "driver": DRIVER, "pool": "n1", "device": "gpu-0", "shareID": "new"}
    plain = {"request": "gpus", "driver": DRIVER, "pool": "n1", "device": "gpu-1"}
    text = msgspec.json.encode({"devices": {"results": [shared, shared, plain]}}).decode()
    action = AllocateClaim(1, ClaimRef("default", "c", "uid-c"), (), ALLOCATION, text)
    first, again = (allocated(action)["allocation"]["devices"]["results"] for _ in range(2))
    assert first == again
    ids = [each.get("shareID") for each in first]
    assert len(set(ids)) == 3
    assert ids[2] is None


def test_the_served_version_is_written() -> None:
    """Older clusters serve claims in a beta version only."""
    kind = Releases(means()._replace(served=lambda name: {"resourceclaims.resource.k8s.io": "v1beta2"}[name]))
    path = kind.path(ClaimRef("default", "c", "u"), "status")
    assert path == "/apis/resource.k8s.io/v1beta2/namespaces/default/resourceclaims/c/status"
