"""Members name a group, and the cluster does not serve groups of that kind."""

from __future__ import annotations

import pytest

from gangsched.core.events import KindRead, Reading
from gangsched.model.dialects import group_api
from tests.builders import gang, node, pod
from tests.core.harness import Built, Cluster, nodes_of, texts

FAMILY = "scheduling.sigs.k8s.io"
KIND = group_api(FAMILY)


@pytest.mark.parametrize("before", [True, False])
def test_the_api_that_is_missing_is_named(*, before: bool) -> None:
    """Members wait, whether that is known before them or after, and start when the API is installed."""
    absent = KindRead(KIND, Reading.ABSENT)
    members: list[Built] = [node("n1").cpu(4), *(pod(f"p{i}").cpu(1).gang("g", FAMILY) for i in range(2))]
    cluster = Cluster(absent, *members) if before else Cluster(*members)
    cluster.pass_time(5)
    cluster.show(absent)
    cluster.pass_time(60)
    assert texts(cluster.log, "p0")[-1] == (
        "GangNotReady",
        f"PodGroup d/g does not exist, and the cluster does not serve its API ({KIND}): install the CRD",
    )
    cluster.show(KindRead(KIND, Reading.READ), gang("g").min(2))
    assert nodes_of(cluster.pass_time(60)) == {"p0": "n1", "p1": "n1"}


@pytest.mark.parametrize("reading", [Reading.READ, Reading.CLOSED, Reading.UNKNOWN])
def test_an_api_of_which_more_or_nothing_is_known_is_not_blamed(reading: Reading) -> None:
    """There the group alone is missing."""
    cluster = Cluster(KindRead(KIND, reading), node("n1").cpu(4), pod("p0").cpu(1).gang("g", FAMILY))
    cluster.pass_time(60)
    assert texts(cluster.log, "p0")[-1] == ("GangNotReady", "PodGroup d/g does not exist")
