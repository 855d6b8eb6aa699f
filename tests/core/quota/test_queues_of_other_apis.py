"""Groups whose own API names a queue: the LocalQueue that is called the same limits them, if there is one."""

from __future__ import annotations

import pytest

from gangsched.core.events import Changed, Gone
from gangsched.model.queues import QUEUE_LABEL, LocalQueue
from gangsched.model.records import QueueLabels
from tests.builders import gang, pod
from tests.core.harness import Cluster, nodes_of, texts
from tests.core.queues import big, objects
from tests.core.quota.world import queue

FAMILY = "scheduling.volcano.sh"
QUOTA = objects(queue("a", cpu=2), queue("b", cpu=8))
RESEARCH = Changed(LocalQueue("d", "research", "a"))


def group(name, **fields):
    """A group that names the queue research of its API."""
    return gang(name).family(FAMILY).field(source="PodGroup", queue_name="research", **fields)


def member(name, of, cpu=2):
    """Its only member."""
    return pod(name).cpu(cpu).gang(of, FAMILY)


def test_the_queue_of_that_name_limits_them():
    """One of two fits, the other waits for it to end."""
    cluster = Cluster(big(), *QUOTA, RESEARCH, group("g"), member("g0", "g"), group("h"), member("h0", "h"))
    assert nodes_of(cluster.run()) == {"g0": "n1"}
    assert "insufficient unused quota for cpu" in texts(cluster.log, "h0")[-1][1]
    cluster.change("g0", phase="Succeeded")
    cluster.pass_time(60)
    assert nodes_of(cluster.run()) == {}
    assert cluster.pod("h0").node == "n1"


def test_without_such_a_queue_nothing_limits_them():
    """The queues of other APIs are not read."""
    cluster = Cluster(big(), *QUOTA, group("g"), member("g0", "g", cpu=50))
    assert nodes_of(cluster.run()) == {"g0": "n1"}


def test_what_runs_when_the_queue_is_made_counts():
    """A LocalQueue that appears has the groups that name it from then on; one that is gone limits them no more."""
    cluster = Cluster(big(), *QUOTA, group("g"), member("g0", "g"))
    cluster.run()
    cluster.show(RESEARCH, group("h"), member("h0", "h"))
    assert nodes_of(cluster.run()) == {}
    cluster.show(Gone("LocalQueue", "d", "research"))
    cluster.pass_time(60)
    cluster.run()
    assert cluster.pod("h0").node == "n1"


@pytest.mark.parametrize("on", ["group", "pod"])
def test_labels_win(on):
    """Whoever says in which LocalQueue it is, is in that."""
    label = {QUEUE_LABEL: "q-b"}
    made = group("g", queue=QueueLabels("q-b")) if on == "group" else group("g")
    one = member("g0", "g", cpu=8)
    cluster = Cluster(big(), *QUOTA, RESEARCH, made, one.labels(label) if on == "pod" else one)
    assert nodes_of(cluster.run()) == {"g0": "n1"}
