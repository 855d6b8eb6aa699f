"""A plan that loses a node while its pods leave keeps the others: only the missing room is found anew."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from gangsched.core.actions import Bind, ReleaseNode, Remove
from gangsched.core.events import Gone
from gangsched.core.lifecycle.holding import IN_FLIGHT_SECONDS
from tests.builders import OTHERS, gang, node, pod
from tests.core.eviction.held_nodes import asked, dns, held
from tests.core.harness import Cluster, texts


def cordon(cluster: Cluster) -> None:
    """n1 takes no pods any more."""
    cluster.show(msgspec.structs.replace(cluster.nodes["n1"], unschedulable=True))


def delete(cluster: Cluster) -> None:
    """n1 is gone."""
    cluster.show(Gone("Node", "", "n1"))


def leaving(nodes: int) -> Cluster:
    """Gang g of three needs three of so many nodes, each with a pod of another scheduler; those of n1 to n3 leave."""
    cluster = Cluster(
        *(node(f"n{i}") for i in range(1, nodes + 1)),
        gang("g").min(3),
        *(pod(f"v{i}").cpu(3).priority(1 if i < 4 else 2).on(f"n{i}").scheduler(OTHERS) for i in range(1, nodes + 1)),
        *(pod(f"m{i}").cpu(3).priority(5).gang("g") for i in range(3)),
        dns("n1"),
    )
    cluster.run()
    assert sorted(asked(cluster, Remove)) == ["v1", "v2", "v3"]
    return cluster


@pytest.mark.parametrize("gone", [(), ("v1",), ("v1", "v2")])
@pytest.mark.parametrize(("lose", "how"), [(cordon, "was cordoned"), (delete, "was deleted")])
def test_only_one_more_pod_is_evicted(gone: tuple[str, ...], lose: Callable[[Cluster], None], how: str) -> None:
    """However many pods have left by then, with no pause; the nodes that are left stay held without a gap."""
    cluster = leaving(4)
    if gone:
        cluster.leave(*gone)
    cluster.run()
    cluster.log.clear()
    lose(cluster)
    cluster.pass_time(IN_FLIGHT_SECONDS)
    assert asked(cluster, Remove) == ["v4"]
    assert not {"n2", "n3"}.intersection(asked(cluster, ReleaseNode))
    assert {"n2", "n3", "n4"} <= held(cluster).keys()
    assert any(f"n1 {how} at" in text for name in ("m0", "m1", "m2") for _, text in texts(cluster.log, name))
    cluster.leave()
    cluster.pass_time(5)
    assert sorted(write.node for write in cluster.log if isinstance(write, Bind)) == ["n2", "n3", "n4"]
    cluster.pass_time(5)
    assert not held(cluster)


def test_without_another_node_the_gang_gives_up_and_says_which_was_lost() -> None:
    """The nodes are given back; what the gang is told names the node and the time."""
    cluster = leaving(3)
    cordon(cluster)
    cluster.pass_time(5)
    assert not held(cluster)
    assert len(asked(cluster, Remove)) == 3
    said = [text for _, text in texts(cluster.log, "m0")]
    assert any("n1 was cordoned at" in text for text in said), said
