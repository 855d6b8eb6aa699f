"""Who may set what excludes a pod from preemption: marks and claims count by an authority behind them."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from gangsched.core.decision import PREEMPT, UNSCHEDULABLE
from gangsched.core.events import Gone, KindRead, Reading
from gangsched.model.preemptible import MARKS, stakes_of
from gangsched.model.records import Owner, PodSelector
from tests.builders import PodBuilder, node, pod
from tests.core.harness import Built, Cluster, plan

MARKED = {
    "scheduling.koordinator.sh/disable-preemptible": ("label", "true"),
    "quota.scheduling.koordinator.sh/preemptible": ("label", "false"),
    "volcano.sh/preemptable": ("label", "false"),
    "kai.scheduler/preemptibility": ("label", "non-preemptible"),
    "godel.bytedance.com/can-be-preempted": ("hint", "false"),
    "scheduling.koordinator.sh/eviction-cost": ("stakes", str(2**31 - 1)),
}


def bearing(key: str) -> PodBuilder:
    """A weak pod with this mark."""
    how, value = MARKED[key]
    made = pod("weak").cpu(4).priority(1).on("n")
    if how == "label":
        return made.label(**{key: value})
    return made.hint(key, value) if how == "hint" else made.field(stakes=stakes_of({key: value}, of_pod=True)[0])


def outcome(weak: PodBuilder, *events: Built, **options: Any) -> str:
    """What is decided of a strong pod that needs the room of the weak one."""
    cluster = Cluster(node("n").cpu(4), *events, weak, **options)
    cluster.show(pod("strong").cpu(4).priority(9))
    cluster.run()
    return next(d.outcome for d in cluster.decisions if d.gang.key == "d/strong")


def test_each_mark_is_known_here() -> None:
    """None is left out of what follows."""
    assert MARKED.keys() == MARKS.keys()


@pytest.mark.parametrize("key", MARKED)
def test_a_mark_counts_where_nothing_is_known_of_its_api(key: str) -> None:
    """Such as in a file; with the key in ignoreKeys it does not."""
    found = plan(node("n").cpu(4), bearing(key), pod("strong").cpu(4).priority(9))
    assert found["d/strong"].outcome == UNSCHEDULABLE
    found = plan(node("n").cpu(4), bearing(key), pod("strong").cpu(4).priority(9), ignore_keys=(key,))
    assert found["d/strong"].outcome == PREEMPT


@pytest.mark.parametrize("key", MARKED)
def test_a_mark_of_an_api_that_is_not_served_protects_no_pod(key: str) -> None:
    """Whoever may label pods would exclude them from preemption, on a cluster that has never had that vendor."""
    absent = [KindRead(kind, Reading.ABSENT) for kind in {*MARKS.values()} if kind]
    assert outcome(bearing(key), *absent) == PREEMPT
    assert outcome(bearing(key), *absent, mark_namespaces=("d",)) == UNSCHEDULABLE


@pytest.mark.parametrize("key", [key for key, kind in MARKS.items() if kind])
def test_a_mark_of_an_api_that_is_served_protects(key: str) -> None:
    """Its vendor decides who may set it."""
    assert outcome(bearing(key), KindRead(MARKS[key], Reading.READ)) == UNSCHEDULABLE


@pytest.mark.parametrize("key", MARKED)
def test_it_does_not_matter_which_is_seen_first(key: str) -> None:
    """The pod, or that its API is not served."""
    absent = [KindRead(kind, Reading.ABSENT) for kind in {*MARKS.values()} if kind]
    cluster = Cluster(node("n").cpu(4), bearing(key))
    cluster.run()
    cluster.show(*absent, pod("strong").cpu(4).priority(9))
    cluster.run()
    assert cluster.decisions[-1].outcome == PREEMPT


def daemon_set(uid: str = "uid-DaemonSet-agent") -> PodSelector:
    """The DaemonSet that the weak pod names, with this UID."""
    return PodSelector("DaemonSet", "d", "agent", uid=uid)


ALL_READ = KindRead("DaemonSet.apps", Reading.READ)


@pytest.mark.parametrize(
    ("known", "found"),
    [
        ([], UNSCHEDULABLE),  # nothing is known of DaemonSets, as in a file, or where they may not be read
        ([KindRead("DaemonSet.apps", Reading.CLOSED)], UNSCHEDULABLE),
        ([daemon_set(), ALL_READ], UNSCHEDULABLE),
        ([daemon_set("another"), ALL_READ], PREEMPT),
        ([ALL_READ], PREEMPT),
    ],
)
@pytest.mark.parametrize("first", [True, False])
def test_a_daemon_set_protects_its_pods_if_it_exists(known: list[Built], found: str, first: bool) -> None:
    """Whoever may create pods could claim one; also where the pod is seen before it is known."""
    weak = pod("weak").cpu(4).priority(1).on("n").owner("DaemonSet", "agent")
    cluster = Cluster(node("n").cpu(4), *((weak, *known) if first else (*known, weak)))
    cluster.run()
    cluster.show(pod("strong").cpu(4).priority(9))
    cluster.run()
    assert cluster.decisions[-1].outcome == found


def test_a_daemon_set_that_goes_protects_no_pod_any_more() -> None:
    """Its pods are looked at again, and so is who waits for their room."""
    weak = pod("weak").cpu(4).priority(1).on("n").owner("DaemonSet", "agent")
    cluster = Cluster(node("n").cpu(4), daemon_set(), ALL_READ, weak, pod("strong").cpu(4).priority(9))
    cluster.run()
    assert cluster.decisions[-1].outcome == UNSCHEDULABLE
    cluster.show(Gone("DaemonSet", "d", "agent", "uid-DaemonSet-agent"))
    cluster.pass_time(20)
    assert cluster.decisions[-1].outcome == PREEMPT


@pytest.mark.parametrize(("uid", "found"), [("uid-n", UNSCHEDULABLE), ("another", PREEMPT)])
@pytest.mark.parametrize("first", [True, False])
def test_a_pod_is_static_by_the_node_that_owns_it(uid: str, found: str, first: bool) -> None:
    """By its UID, which users do not choose; also where the pod is seen before its node."""
    weak = pod("weak").cpu(4).priority(1).on("n").static().field(owner=Owner("Node", "n", uid))
    place = msgspec.structs.replace(node("n").cpu(4).obj(), uid="uid-n")
    cluster = Cluster(*((weak, place) if first else (place, weak)))
    cluster.run()
    cluster.show(pod("strong").cpu(4).priority(9))
    cluster.run()
    assert cluster.decisions[-1].outcome == found
