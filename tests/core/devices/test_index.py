"""What is known of devices and claims, from objects in any version and order."""

from __future__ import annotations

import msgspec
import pytest

from gangsched.core.devices.index import Assumed, DeviceIndex
from gangsched.core.devices.pools import Inventory
from gangsched.model import convert_devices as convert
from gangsched.model import raw_devices
from gangsched.model.constraints import PodClaim, PodDevices
from gangsched.model.convert import Converter
from gangsched.model.devices import DeviceId, DeviceObject
from gangsched.model.wire import Pod
from tests.builders import pod
from tests.core.devices.worlds import GPU, claim, device_class, gpus, held, pool, tainted
from tests.core.harness import event, world

FIRST = DeviceId(GPU, "n1", "gpu-0")


def index(*objects: DeviceObject) -> DeviceIndex:
    """An index with these objects."""
    out = DeviceIndex()
    for each in objects:
        out.put(each)
    return out


def test_devices_are_free_when_the_last_user_is_gone() -> None:
    """Not while another pod, or an owner of another kind, may use the claim."""
    found = index(held("c", "n1", "gpu-0", users=("a", "b")))
    found.pod_gone("uid-d-a")
    assert found.in_use().devices == {FIRST}
    found.pod_gone("uid-d-b")
    assert found.in_use().devices == set()
    found.put(msgspec.structs.replace(found.claims["d", "c"], reserved_for=(("podgroups", "g", "uid-g"),)))
    assert found.in_use().devices == {FIRST}
    assert found.gone == set()


def test_a_claim_without_users_keeps_its_devices() -> None:
    """Nobody gives them back."""
    found = index(msgspec.structs.replace(held("c", "n1", "gpu-0", users=("a",)), reserved_for=()))
    assert found.in_use().devices == {FIRST}


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_pods_that_have_finished_use_no_claim(phase: str) -> None:
    """Nor do pods that were deleted."""
    core = world(held("c", "n1", "gpu-0", users=("a",)), pod("a").devices("c").on("n1"))
    devices = core.world.snapshot.devices
    assert devices.in_use().devices == {FIRST}
    core.handle([event(pod("a").devices("c").on("n1").field(phase=phase))], 1.0)
    assert devices.in_use().devices == set()


def test_what_is_assumed_counts() -> None:
    """From the decision until the cluster's state counts again."""
    found = index(claim("c"))
    given = held("c", "n1", "gpu-0", users=("a",)).allocation
    assert given is not None
    found.assume(("d", "c"), Assumed("uid-claim-c", given, ("uid-d-a",)))
    assert found.in_use().devices == {FIRST}
    assert found.users_of(("d", "c")) == {"uid-d-a"}
    found.forget(("d", "c"))
    assert found.in_use().devices == set()


def test_rules_taint_devices() -> None:
    """As long as they exist, whichever came first."""
    found = index(tainted(GPU, device_name="gpu-1"), gpus("n1", 2))

    def taints() -> list[int]:
        return [len(d.taints) for each in found.inventory.pools("n1", {}) for d in each.devices]

    assert taints() == [0, 1]
    found.put(tainted(GPU))
    assert taints() == [1, 1]
    found.remove("DeviceTaintRule", "", "rule")
    assert taints() == [0, 0]


def test_pools_follow_their_slices() -> None:
    """A slice for nodes that are not named is for all of them."""
    found = Inventory()

    def pools() -> list[int]:
        return [len(each.devices) for each in found.pools("n1", {})]

    assert pools() == []
    found.put(gpus("n1", 2))
    assert pools() == [2]
    found.put(gpus("n1", 3))
    assert pools() == [3]
    found.put(pool("", {"name": "a"}, driver="all.example.com"))
    assert pools() == [1, 3]
    found.remove(f"{GPU}-n1")
    assert pools() == [1]


def test_of_several_classes_the_newest_serves_a_resource() -> None:
    """Each class serves a resource of its own name, too."""
    old, new = device_class("old", GPU, "example.com/gpu"), device_class("new", GPU, "example.com/gpu")
    found = index(old, msgspec.structs.replace(new, created=1.0))
    assert found.serving_class("example.com/gpu") == "new"
    assert found.serving_class("deviceclass.resource.kubernetes.io/old") == "old"
    assert not found.serving_class("example.com/other")


def test_claims_of_a_pod() -> None:
    """By name, or from a template once they are made; an entry that needs none is left out."""
    raw = {
        "metadata": {"name": "p", "namespace": "d"},
        "spec": {
            "resourceClaims": [
                {"name": "a", "resourceClaimName": "shared"},
                {"name": "b", "resourceClaimTemplateName": "t"},
                {"name": "c", "resourceClaimTemplateName": "t"},
                {"name": "d", "resourceClaimTemplateName": "t"},
            ]
        },
        "status": {
            "resourceClaimStatuses": [{"name": "b", "resourceClaimName": "p-b-x"}, {"name": "d"}],
            "extendedResourceClaimStatus": {"resourceClaimName": "p-extended-resources-x"},
        },
    }
    found = Converter().pod(msgspec.convert(raw, Pod)).devices
    claims = (PodClaim("a", "shared"), PodClaim("b", "p-b-x", "t"), PodClaim("c", "", "t"))
    assert found == PodDevices(claims, "p-extended-resources-x")
    assert found.names == ("shared", "p-b-x", "p-extended-resources-x")


def test_versions_say_the_same() -> None:
    """v1beta1 has the fields of a device under ``basic``, and those of a request beside its name."""
    place = {"driver": GPU, "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1}, "nodeName": "n1"}
    attributes = {"attributes": {"a": {"string": "x"}}}
    made = [
        convert.resource_slice(
            msgspec.convert(
                {"metadata": {"name": "s"}, "spec": {**place, "devices": [each]}}, raw_devices.RawResourceSlice
            )
        )
        for each in ({"name": "d", **attributes}, {"name": "d", "basic": attributes})
    ]
    assert made[0] == made[1]
    request = {"deviceClassName": "gpu", "count": 2}
    specs = [
        convert.claim_spec(msgspec.convert({"devices": {"requests": [each]}}, raw_devices.RawClaimSpec))
        for each in ({"name": "r", "exactly": request}, {"name": "r", **request})
    ]
    assert specs[0].requests[0].alternatives[0].count == 2
    assert specs[0].requests[0].alternatives[0].device_class == specs[1].requests[0].alternatives[0].device_class
