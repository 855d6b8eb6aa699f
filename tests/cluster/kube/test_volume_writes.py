"""Binding volumes on a real API server: what is written, that repeating it is safe, and what others did meanwhile."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest

from gangsched.core.actions import BindVolume, PodRef, SelectNode
from gangsched.core.events import ObjectRefused, Outcome, record_of
from gangsched.model.volumes import PersistentVolume, PersistentVolumeClaim, StorageClass, StorageObject
from tests.cluster.kube.conftest import Reader
from tests.cluster.kube.made import request_of
from tests.controlplane.client import Client, Object
from tests.e2e.volumes import claim, storage_class, volume
from tests.faulty_proxy import Fault, FaultyProxy

Make = Callable[..., Awaitable[Reader]]
POD = PodRef("default", "p", "uid-p")


async def made(admin: Client) -> tuple[Object, Object]:
    """A volume and a claim of a class that waits."""
    await admin.create(storage_class("local", "kubernetes.io/no-provisioner"))
    wanted = await admin.create(claim("c", "local"), "default")
    await admin.create(volume("v", "local", "n1"))
    found = await admin.wait_for("PersistentVolume", "v", lambda v: v["status"].get("phase") == "Available")
    return found, wanted


def binding(of: Object, wanted: Object) -> BindVolume:
    """The volume for the claim."""
    meta = of["metadata"]
    return BindVolume(1, POD, meta["name"], meta["uid"], meta["resourceVersion"], "c", wanted["metadata"]["uid"])


async def test_a_volume_is_bound_once(make_cluster: Make, admin: Client) -> None:
    """The volume controller completes the binding; asking again, as after a lost answer, is fine."""
    found, wanted = await made(admin)
    reader = await make_cluster()
    await reader.leading()
    action = binding(found, wanted)
    assert [(await reader.do(action))[0].outcome for _ in (1, 2)] == [Outcome.OK, Outcome.OK]
    await admin.wait_for("PersistentVolumeClaim", "c", lambda c: c["status"].get("phase") == "Bound")
    stored = await admin.get("PersistentVolume", "v")
    assert stored["spec"]["claimRef"]["uid"] == wanted["metadata"]["uid"]
    assert stored["metadata"]["annotations"]["pv.kubernetes.io/bound-by-controller"] == "yes"


@pytest.mark.parametrize("before", [False, True])
def test_a_reservation_is_not_taken_over(before: bool) -> None:
    """A volume that was nobody's is marked as bound by a controller, one that a person has reserved is not."""
    action = BindVolume(1, POD, "v", "uid-v", "7", "c", "uid-c", reserved=before)
    meta = msgspec.json.decode(request_of(action).body)["metadata"]
    marked = {} if before else {"annotations": {"pv.kubernetes.io/bound-by-controller": "yes"}}
    assert meta == {"uid": "uid-v", "resourceVersion": "7", **marked}


async def test_a_volume_that_has_changed_is_left_alone(make_cluster: Make, admin: Client) -> None:
    """Somebody else's change since it was looked at is a conflict; another volume of that name is gone."""
    found, wanted = await made(admin)
    await admin.patch("PersistentVolume", "v", {"metadata": {"labels": {"somebody": "else"}}})
    reader = await make_cluster()
    await reader.leading()
    action = binding(found, wanted)
    [answer] = await reader.do(action)
    assert answer.outcome == Outcome.CONFLICT
    for wrong in ({"volume_uid": "another"}, {"volume": "missing"}):
        [answer] = await reader.do(msgspec.structs.replace(action, **wrong))
        assert answer.outcome == Outcome.GONE
    assert "claimRef" not in (await admin.get("PersistentVolume", "v"))["spec"]


async def test_a_node_is_selected(make_cluster: Make, admin: Client) -> None:
    """The annotation is set on the claim that is meant, and on no other."""
    _, wanted = await made(admin)
    reader = await make_cluster()
    await reader.leading()
    action = SelectNode(1, POD, "c", wanted["metadata"]["uid"], "n1")
    assert [(await reader.do(action))[0].outcome for _ in (1, 2)] == [Outcome.OK, Outcome.OK]
    stored = await admin.get("PersistentVolumeClaim", "c")
    assert stored["metadata"]["annotations"]["volume.kubernetes.io/selected-node"] == "n1"
    for wrong in ({"claim_uid": "another", "node": "n2"}, {"claim": "missing"}):
        [answer] = await reader.do(msgspec.structs.replace(action, **wrong))
        assert answer.outcome == Outcome.GONE


@pytest.mark.parametrize("fault", [{"status": 503}, {"cut_before": True}, {"cut_after": True}], ids=str)
async def test_a_write_is_repeated(
    make_cluster: Make, admin: Client, proxy: FaultyProxy, fault: dict[str, Any]
) -> None:
    """Trouble on the way is nobody's business but the writer's, also when only the answer was lost."""
    found, wanted = await made(admin)
    reader = await make_cluster()
    await reader.leading()
    hit = proxy.fail(Fault(path="/persistentvolumes/v$", method="PATCH", **fault))
    [answer] = await reader.do(binding(found, wanted))
    assert (answer.outcome, hit.hits) == (Outcome.OK, 1)


async def test_storage_is_watched(make_cluster: Make, admin: Client) -> None:
    """Objects of all kinds arrive as records, and so does their end."""
    found, _ = await made(admin)
    reader = await make_cluster()
    await reader.leading()
    seen = {type(record): record for record in map(record_of, reader.fetch()) if isinstance(record, StorageObject)}
    assert {PersistentVolume, PersistentVolumeClaim, StorageClass} <= set(seen)
    record = seen[PersistentVolume]
    assert isinstance(record, PersistentVolume)
    assert (record.uid, record.size, record.driver) == (found["metadata"]["uid"], 5 << 30, "")
    await admin.delete("StorageClass", "local")
    assert await reader.gone("StorageClass") == ("", "local")
    assert not [e for e in reader.events if isinstance(e, ObjectRefused)]
