"""Two plans that need the same pod to leave: its one mark never stays on the list of a gang that has given up."""

from __future__ import annotations

import pytest

from gangsched.core.actions import Mark, Nominate, Remove, Unmark, Write
from gangsched.core.actuation.records import owners_of
from gangsched.core.events import Outcome
from gangsched.model.records import Condition
from tests.builders import gang, node, pod
from tests.core.binding.refusals import refusing
from tests.core.harness import Cluster
from tests.core.stories import G, evicted, go_on, names, stopped_in


def preemptors(cluster: Cluster) -> dict[str, str]:
    """For whom the victims leave now; pods without an owner are not in it."""
    found = {name: owners_of(cluster.pod(name)) for name in ("v1", "v2")}
    return {name: ",".join(owner.name for owner in owners) for name, owners in found.items() if owners}


def test_a_mark_does_not_wait_for_that_of_who_needs_the_pod_next() -> None:
    """The stronger gang has not come to its marks: until then the pod is on nobody's list, and on its list after."""
    cluster = stopped_in(Mark)
    cluster.answer("v1")
    cluster.slow = lambda write: isinstance(write, Nominate)
    cluster.show(gang("h").min(2), *(pod(f"h{i}").cpu(3).priority(9).gang("h") for i in (1, 2)))
    cluster.run()
    cluster.answer("v2")
    cluster.run()
    assert preemptors(cluster) == {}
    cluster.slow = lambda write: isinstance(write, Mark)
    cluster.answer()
    cluster.run()
    cluster.slow = lambda _: False
    cluster.answer()
    cluster.run()
    assert preemptors(cluster) == {"v1": "d/h", "v2": "d/h"}
    assert evicted(cluster) == {"v1", "v2"}


def test_a_mark_of_the_plan_before_is_not_read_as_one_of_the_next() -> None:
    """A gang may be decided anew while a mark cannot be taken back: it names the plan that it was for, so a process
    that starts then removes the victims of the new plan alone.
    """
    cluster = Cluster(
        *(node(f"n{i}").cpu(4) for i in (1, 2)),
        *(pod(f"v{i}").cpu(4).priority(i).on(f"n{i}") for i in (1, 2)),
        pod("p").cpu(4).priority(5),
    )
    cluster.judge = lambda write: (Outcome.TRANSIENT, "no answer") if isinstance(write, Unmark) else None
    cluster.slow = lambda write: isinstance(write, Mark)
    cluster.run()
    cluster.show(node("n1").cpu(4).cordoned())
    cluster.slow = lambda write: isinstance(write, Remove)
    cluster.answer()
    cluster.run()
    assert owners(cluster) == {"v1": ["d/p"], "v2": ["d/p"]}
    assert evicted(cluster) == set()
    cluster.restart()
    cluster.slow, cluster.judge = lambda _: False, lambda _: None
    cluster.run()
    assert evicted(cluster) == {"v2"}
    assert owners(cluster) == {"v2": ["d/p"]}


def sharing() -> Cluster:
    """First mid and then top, which is stronger, need a part of the room of v1; its removals are unanswered."""
    cluster = Cluster(node("n1").cpu(4), pod("v1").cpu(4).priority(1).on("n1"), pod("mid").cpu(2).priority(5))
    cluster.slow = lambda write: isinstance(write, Mark)
    cluster.run()
    cluster.show(pod("top").cpu(2).priority(9))
    cluster.run()
    cluster.slow = lambda write: isinstance(write, Remove)
    cluster.answer()
    cluster.run()
    return cluster


def test_plans_that_share_a_victim_outlive_the_process() -> None:
    """Both are finished as they were begun: nobody is nominated or marked anew, and the pod is removed once."""
    cluster = sharing()
    cluster.restart()
    cluster.log.clear()
    cluster.slow = lambda _: False
    cluster.run()
    assert names(cluster, Nominate) | names(cluster, Mark) | names(cluster, Unmark) == set()
    assert evicted(cluster) == {"v1"}
    cluster.leave()
    cluster.run()
    assert {cluster.pod(name).node for name in ("mid", "top")} == {"n1"}


@pytest.mark.parametrize(
    "said", ["", "no JSON", "{}", '{"version":2,"owners":[]}', '{"version":1,"owners":[{}]}', "[1]"]
)
def test_what_cannot_be_read_names_no_owner(said: str) -> None:
    """A message of a later version, or of nobody's, says nothing."""
    cluster = stopped_in(Remove)
    cluster.change("v1", evicted_for=Condition("True", "Owned", said))
    assert owners_of(cluster.pod("v1")) == ()


def owners(cluster: Cluster) -> dict[str, list[str]]:
    """For which gangs each victim leaves, as it says itself."""
    found = {name: owners_of(pod) for (_, name), pod in cluster.pods.items()}
    return {name: [owner.name for owner in each] for name, each in found.items() if each}


def rolling_back(phase: type[Write]) -> Cluster:
    """The bound member m1 of gang g is to leave in a rollback, whose writes of this phase are unanswered."""
    cluster = refusing(rollback=True, timeout_seconds=60.0)
    cluster.run()
    cluster.slow = lambda write: isinstance(write, phase)
    cluster.show(node("n2").cordoned())
    cluster.pass_time(2)
    assert len(cluster.waiting) == 1
    return cluster


def test_a_rollback_whose_removal_fails_late_takes_back_its_mark() -> None:
    """Its time is over, so that nobody follows the removal any more; nobody else needs the member to leave."""
    cluster = rolling_back(Remove)
    cluster.sent = True
    cluster.pass_time(90)
    assert cluster.core.states() == {G: "Queued"}
    assert names(cluster, Unmark) == set()
    cluster.judge = lambda write: (Outcome.REFUSED, "because") if isinstance(write, Remove) else None
    go_on(cluster)
    assert names(cluster, Unmark) == {"m1"}
