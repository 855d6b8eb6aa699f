"""Devices that two claims have, as two schedulers at once may give them out."""

from __future__ import annotations

from gangsched.core.devices.pools import InUse
from gangsched.model.devices import AllocatedDevice, Allocation, DeviceId
from tests.builders import node, pod
from tests.core.devices.worlds import CLASSES, ask, claim, gpus, held
from tests.core.harness import Cluster


def test_a_device_that_two_claims_have_is_free_after_both() -> None:
    """The first that gives it back frees nothing."""
    device = DeviceId("d", "p", "g0")
    used = InUse()
    one = Allocation((AllocatedDevice("gpu", device),))
    used.add(one)
    used.add(one)
    used.give_back(one)
    assert device in used.devices
    used.give_back(one)
    assert device not in used.devices


def test_no_pod_is_evicted_for_a_device_that_another_claim_has_too() -> None:
    """The other claim is that of a pod that may not be evicted."""
    cluster = Cluster(
        node("n1").cpu(8), *CLASSES, gpus("n1", 1),
        pod("low").cpu(1).priority(-5).devices("c1").on("n1"), held("c1", "n1", "gpu-0", users=("low",)),
        pod("high").cpu(1).priority(100).devices("c2").on("n1"), held("c2", "n1", "gpu-0", users=("high",)),
        pod("new").cpu(1).priority(10).devices("c3"), claim("c3", ask(1), owner="new"),
    )  # fmt: skip
    cluster.run()
    (decision,) = cluster.decisions
    assert (decision.outcome, decision.victims) == ("unschedulable", ())
