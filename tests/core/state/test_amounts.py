"""What is counted of GPUs: used by pods, held for a gang, and free; never more than there are."""

from __future__ import annotations

from gangsched.core.actions import Remove
from gangsched.core.world.amounts import Amounts
from tests.builders import gang, node, pod
from tests.core.harness import Cluster
from tests.core.stories import names

GPU = "nvidia.com/gpu"


def test_devices_are_used_held_or_free() -> None:
    """A gang evicts on one of three nodes. What its victims still use is used, what is free there is held."""
    cluster = Cluster(
        node("n1").gpu(8), node("n2").gpu(8), node("n3").cpu(4),
        pod("v").gpu(4).on("n1"), pod("stays").gpu(8).on("n2").priority(9),
    )  # fmt: skip
    cluster.run()
    assert cluster.core.devices() == {GPU: Amounts(used=12, held=0, free=4)}
    cluster.show(gang("g").min(1), pod("m").gpu(8).priority(5).gang("g"))
    cluster.run()
    assert names(cluster, Remove) == {"v"}
    assert cluster.core.devices() == {GPU: Amounts(used=12, held=4, free=0)}
    cluster.leave()
    cluster.run()
    assert cluster.core.devices() == {GPU: Amounts(used=16, held=0, free=0)}


def test_without_devices_nothing_is_counted() -> None:
    """CPU and memory are of every node."""
    cluster = Cluster(node("n1").cpu(4))
    cluster.run()
    assert cluster.core.devices() == {}
