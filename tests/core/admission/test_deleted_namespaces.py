"""In a namespace that is being deleted nothing is created: pods there are not bound, and nobody is evicted for them."""

from __future__ import annotations

import pytest

from gangsched.core.actions import Bind, Remove
from gangsched.core.decision import Gathering
from gangsched.core.events import Changed, Gone
from gangsched.model.records import Namespace
from tests.builders import gang, node, pod
from tests.core.harness import Cluster, plan

TERMINATING = Changed(Namespace("t", deleting=True))


def waiting():
    """A full node, and a gang of high priority in namespace t."""
    victims = [pod(f"low{i}").cpu(2).priority(1).on("n1") for i in range(2)]
    members = [pod(f"g{i}", "t").cpu(2).priority(9).gang("g") for i in range(2)]
    return [node("n1").cpu(4), gang("g", "t").min(2), *victims, *members]


@pytest.mark.parametrize("alone", [True, False])
def test_nobody_is_evicted_for_its_pods(alone):
    """Neither for a gang nor for a single pod."""
    made = plan(TERMINATING, *waiting()) if not alone else plan(TERMINATING, *waiting()[2:4], pod("s", "t").priority(9))
    decision = made["t/s" if alone else "t/g"]
    assert isinstance(decision, Gathering)
    assert "namespace t is being deleted" in decision.message


def test_a_gang_waits_from_the_moment_of_the_deletion():
    """The deletion is seen before the room is found: nobody is evicted for the gang from then on."""
    cluster = Cluster(Changed(Namespace("t")), *waiting())
    cluster.show(TERMINATING)
    log = cluster.run()
    assert not any(isinstance(action, Remove | Bind) for action in log)


def test_a_new_namespace_of_that_name_is_another():
    """The gang is decided when the namespace is gone and there is another one."""
    cluster = Cluster(TERMINATING, *waiting())
    cluster.run()
    cluster.show(Gone("Namespace", "", "t"), Changed(Namespace("t")))
    assert {action.pod.name for action in cluster.run() if isinstance(action, Remove)} == {"low0", "low1"}
