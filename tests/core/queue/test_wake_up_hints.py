"""Which events wake a gang that does not fit: every one that helps, and few that do not."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gangsched.core import events as ev
from gangsched.core.actions import Action, Mark
from gangsched.core.events import Change
from gangsched.core.queue.queueing_hints import QueueingHints
from gangsched.core.queue.scheduling_queue import UnschedulableGangs
from gangsched.model.constraints import LabelSelector, PodTerm, SpreadConstraint
from gangsched.model.records import Namespace, PriorityClass
from tests.amounts import amount
from tests.builders import NodeBuilder, PodBuilder, gang, node, pdb, pod, selects
from tests.core.harness import Built, Cluster, nodes_of
from tests.core.queue.sleepers import sleeping_in_vain
from tests.core.stories import names

HOST, ZONE = "kubernetes.io/hostname", "zone"


def near(app: str, key: str = ZONE) -> PodTerm:
    """A term for pods of an app in the same domain."""
    return PodTerm(key, selects(app=app), ("d",))


class Watched(Cluster):
    """A cluster in which no gang may be asleep that could be placed, whatever the core has just been told."""

    def handle(self, *events: Built) -> list[Action]:
        """As ever, and look at those that sleep."""
        told = [type(e).__name__ for e in self._events]
        actions = super().handle(*events)
        assert sleeping_in_vain(self.core, self.now) == [], told
        return actions


@pytest.fixture(autouse=True)
def nothing_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever wakes gangs in this file: those that are not worth asking are all answered no."""

    def checked(gangs: UnschedulableGangs, changes: Sequence[Change]) -> None:
        found = set(gangs._for_more.signatures_helped(changes))
        hints = QueueingHints(gangs._world, gangs._decider, gangs._strict_budgets, changes)
        for signature in gangs._for_more:
            alike = gangs._alike.get(signature)
            if signature not in found and alike is not None and alike.asleep:
                assert not hints.helps(signature, gangs._known[alike.asleep[0][2]][2]), (signature.key, changes)
        wake(gangs, changes)

    wake = UnschedulableGangs.wake
    monkeypatch.setattr(UnschedulableGangs, "wake", checked)


class Chance:
    """Random objects and events; the names of what exists are kept."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.count = 0

    def node(self, name: str) -> NodeBuilder:
        """Small nodes in three zones, some of them with a taint or a cordon."""
        pick = self.random
        made = node(name).cpu(pick.choice((1, 2, 4, 6)))
        made.label(zone=pick.choice("abc"), disk=pick.choice(("ssd", "hdd")))
        for chance, change in ((0.15, lambda: made.taint("x")), (0.1, made.cordoned), (0.1, made.not_ready)):
            if pick.random() < chance:
                change()
        return made

    def pod(self, prefix: str = "p") -> PodBuilder:
        """A pod with any of the constraints."""
        pick = self.random
        self.count += 1
        made = pod(f"{prefix}{self.count}").cpu(pick.choice((0.5, 1, 2, 3))).priority(pick.choice((0, 0, 1, 5)))
        made.label(app=pick.choice("xyz")).created(float(self.count))
        kind = pick.randrange(12)
        if kind == 0:
            made.selector(disk="ssd")
        elif kind == 1:
            made.tolerates("x", "Exists")
        elif kind == 2:
            made.port(80)
        elif kind == 3:
            made.shape(affinity=(near(pick.choice("xyz")),))
        elif kind == 4:
            made.shape(anti_affinity=(near(pick.choice("xyz"), pick.choice((HOST, ZONE))),))
        elif kind == 5:
            rule = SpreadConstraint(ZONE, 1, selects(app=pick.choice("xyz")), True, honor_taints=pick.random() < 0.5)
            made.shape(spread=(rule,))
        elif kind == 6:
            term = PodTerm(ZONE, selects(app="x"), (), namespace_selector=selects(team="t"))
            made.shape(affinity=(term,))
        if pick.random() < 0.15:
            made.never()
        if pick.random() < 0.15:
            made.hint("volcano.sh/preemptable", "false")
        return made

    def world(self) -> list[Built]:
        """Nodes with pods on them, gangs running and gangs pending."""
        pick = self.random
        objects: list[Built] = [self.node(f"n{i}") for i in range(4)]
        objects += [gang(g).min(pick.randint(1, 3)) for g in ("r0", "r1")]
        for _ in range(9):
            made = self.pod("b").on(f"n{pick.randrange(4)}", float(pick.randrange(50)))
            objects.append(made.gang(pick.choice(("r0", "r1"))) if pick.random() < 0.4 else made)
        for g in range(3):
            size = pick.randint(1, 3)
            made_gang = gang(f"g{g}").min(size).created(float(g))
            if pick.random() < 0.25:
                made_gang.field(topology=((ZONE, True),))
            objects += [made_gang, *(self.pod(f"g{g}-").gang(f"g{g}") for _ in range(size + pick.randrange(2)))]
        objects += [self.pod("s") for _ in range(4)]
        return objects

    def event(self, cluster: Cluster) -> Built:
        """One thing that happens."""
        pick = self.random
        bound = sorted(p.name for p in cluster.pods.values() if p.bound)
        name = pick.choice(bound) if bound else ""
        kind = pick.randrange(17)
        found = cluster.pods.get(("d", name))
        if found is None or kind < 5:
            return self.about_nodes(kind)
        changes: dict[int, dict[str, object]] = {
            5: {"phase": "Succeeded"},
            6: {"deleting_since": cluster.now + 30},
            7: {"labels": {"app": pick.choice("xyz")}},
            8: {"hints": {}},
            9: {"phase": "Running", "started": cluster.now},
            10: {"shape": self.pod().obj().shape},
        }
        if kind in changes:
            return msgspec.structs.replace(found, **changes[kind])
        if kind == 11:
            return self.pod("c").on(f"n{pick.randrange(4)}").scheduler("default-scheduler")
        if kind == 12:
            return gang(pick.choice(("r0", "r1"))).min(pick.randint(1, 3)).mode(pick.choice(("pod", "gang")))
        if kind == 13:
            return pdb("budget").selects(app=pick.choice("xyz")).allows(pick.choice((0, 1, 2, None)))
        if kind == 14:
            return ev.Changed(PriorityClass("p", minimum_run_time_seconds=float(pick.randrange(60))))
        if kind == 15:
            return ev.Changed(Namespace("d", {"team": pick.choice("tu")}))
        return ev.Gone("Pod", "d", name, found.uid)

    def about_nodes(self, kind: int) -> Built:
        """Something happens to a node."""
        name = f"n{self.random.randrange(6)}"
        return ev.Gone("Node", "", name) if kind == 0 else self.node(name)


OPTIONS: list[dict[str, Any]] = [
    {},
    {"strict_budgets": True},
    {"queue_policy": "strict"},
    {"minimum_run_time_seconds": 20.0, "starvation_seconds": 30.0},
    {"gang_mode": "atomic", "starvation_seconds": 5.0},
]


@settings(max_examples=amount(15, 3), deadline=None)
@given(st.integers(0, 2**32), st.sampled_from(OPTIONS))
@example(321, {})  # an equal gang is woken first
@example(1576, OPTIONS[3])  # time alone lets go the only member that a gang can spare
def test_no_gang_sleeps_through_an_event_that_helps(seed: int, options: dict[str, Any]) -> None:
    """After any event, alone or in a series, whoever could be placed now is awake; deciding all anew is the judge."""
    chance = Chance(seed)
    cluster = Watched(*chance.world(), **options)
    cluster.run()
    for _ in range(8):
        cluster.show(chance.event(cluster))
        if chance.random.random() < 0.7:
            cluster.run()
        if chance.random.random() < 0.3:
            cluster.leave()
            cluster.pass_time(chance.random.choice((1.0, 7.0, 40.0)))


# -- what is no use ----------------------------------------------------------------------------------------


def tries(cluster: Cluster, *events: Built) -> int:
    """How often a gang was decided because of these events."""
    cluster.pass_time(20)
    before = len(cluster.decisions)
    cluster.show(*events)
    cluster.pass_time(20)
    return len(cluster.decisions) - before


FULL = ("n1", "n2")


def crowded(*objects: Built, **options: Any) -> Cluster:
    """Two full nodes of zone a, a small one, and what else is given."""
    nodes = [node(n).label(zone="a", disk="ssd") for n in FULL]
    there = [pod(f"on-{n}").cpu(4).priority(5).label(app="x").on(n) for n in FULL]
    cluster = Cluster(*nodes, node("small").cpu(1).label(zone="b"), *there, *objects, **options)
    cluster.run()
    return cluster


RELABELLED = pod("on-n1").cpu(4).priority(5).label(app="y").on("n1")
MORE_LABELS = node("n1").label(zone="a", disk="ssd", rack="r1")
TAINTED = node("n1").label(zone="a", disk="ssd").taint("x")


@pytest.mark.parametrize(
    ("waiting", "event", "expected"),
    [
        (pod("p").cpu(3), node("n3"), 1),
        (pod("p").cpu(3), node("n3").cpu(2), 0),
        (pod("p").cpu(3), node("n3").taint("x"), 0),
        (pod("p").cpu(3).tolerates("x", "Exists"), node("n3").taint("x"), 1),
        (pod("p").cpu(3), node("n3").cordoned(), 0),
        (pod("p").cpu(3).selector(disk="ssd"), node("n3"), 0),
        (pod("p").cpu(3), MORE_LABELS, 0),
        (pod("p").cpu(3), TAINTED, 0),
        (pod("p").cpu(3), node("n1").cpu(8).label(zone="a", disk="ssd"), 1),
        (pod("p").cpu(5), node("n1").cpu(4.5).label(zone="a", disk="ssd"), 0),
        (pod("p").cpu(3), ev.Gone("Pod", "d", "on-n1", "uid-d-on-n1"), 1),
        (pod("p").cpu(5), ev.Gone("Pod", "d", "on-n1", "uid-d-on-n1"), 0),
        (pod("p").cpu(3), pod("on-n1").cpu(2).priority(5).label(app="x").on("n1"), 0),
        (pod("p").cpu(3), pod("on-n1").cpu(1).priority(5).label(app="x").on("n1"), 1),
        (pod("p").cpu(3), pod("late").cpu(1).on("small"), 0),
        (pod("p").cpu(3), RELABELLED, 0),
        (pod("p").cpu(3), pdb("b").allows(1), 0),
        (pod("p").cpu(3), ev.Changed(Namespace("d", {"team": "t"})), 0),
        (pod("p").cpu(3), ev.Gone("Node", "", "small"), 0),
        (pod("p").cpu(0.5).shape(affinity=(near("y"),)), RELABELLED, 1),
        (pod("p").cpu(0.5).shape(affinity=(near("z"),)), RELABELLED, 0),
        (pod("p").cpu(0.5).shape(affinity=(near("y"),)), pod("late").label(app="y").on("small"), 1),
        (pod("p").cpu(0.5).shape(affinity=(near("y"),)), pod("late").label(app="z").on("small"), 0),
        (pod("p").port(80).selector(zone="c"), node("n3").label(zone="b"), 0),
    ],
)  # fmt: skip
def test_events_and_whom_they_wake(waiting: PodBuilder, event: Built, expected: int) -> None:
    """An event wakes a gang only where it may help: on a node that could take a member, or if a term means the pod."""
    assert tries(crowded(waiting), event) == expected


def test_a_port_becomes_free_only_with_its_holder() -> None:
    """A pod without that port may leave the node as it likes."""
    cluster = Cluster(node("n1"), pod("a").port(80).on("n1"), pod("b").on("n1"), pod("p").port(80))
    assert tries(cluster, ev.Gone("Pod", "d", "b", "uid-d-b")) == 0
    assert tries(cluster, ev.Gone("Pod", "d", "a", "uid-d-a")) == 1
    assert cluster.pod("p").node == "n1"


def test_a_pod_that_counts_for_the_spread_helps_wherever_it_was() -> None:
    """Zone a has one pod more than b, where there is no room; when it leaves a node that is of no use, a is open."""
    rule = SpreadConstraint(ZONE, 1, selects(app="x"), True)
    cluster = Cluster(
        node("n1").label(zone="a").taint("x"), node("n2").label(zone="a"), node("n3").label(zone="b").cpu(1),
        pod("x").label(app="x").on("n1"), pod("y").label(app="y").on("n1"),
        pod("p").cpu(2).label(app="x").shape(spread=(rule,)),
    )  # fmt: skip
    assert tries(cluster, ev.Gone("Pod", "d", "y", "uid-d-y")) == 0
    assert tries(cluster, ev.Gone("Pod", "d", "x", "uid-d-x")) == 1
    assert cluster.pod("p").node == "n2"


@pytest.mark.parametrize(
    "shape",
    [
        {
            "spread": (
                SpreadConstraint(ZONE, 1, selects(app="x"), True),
                SpreadConstraint(HOST, 1, selects(app="x"), True),
            )
        },
        {"affinity": (near("x"),), "anti_affinity": (near("x", HOST),)},
        {"affinity": (near("x"), near("x"))},
    ],
    ids=["spread over zones and nodes", "affinity and anti-affinity", "the same term twice"],
)
def test_terms_of_one_pod_may_select_the_same_pods(shape: dict[str, Any]) -> None:
    """A waiting pod with two terms that select the same pods can be deleted and can be bound."""
    cluster = Cluster(node("n1").label(zone="a").cpu(1), pod("x").cpu(0.5).label(app="x").on("n1"))
    cluster.show(*(pod(name).cpu(2).label(app="x").shape(**shape) for name in "pq"))
    cluster.run()
    cluster.delete("p")
    cluster.run()
    assert not cluster.pod("q").bound
    cluster.show(node("n2").label(zone="a").cpu(8), node("n3").label(zone="b").cpu(8))
    cluster.pass_time(20)
    assert cluster.pod("q").bound
    assert not cluster.core._run.queue.parked()


def test_budgets_wake_whom_they_stopped() -> None:
    """With strict budgets a budget that changes may let victims go, unless the gang never evicts."""
    waiting = [pod("p").cpu(3).priority(9), pod("q").cpu(3).priority(9).never()]
    cluster = crowded(*waiting, pdb("b").selects(app="x"), strict_budgets=True)
    assert tries(cluster, pdb("b").selects(app="x").field(disrupted=("another",))) == 1


def test_a_plan_that_is_given_up_leaves_its_budget_to_others() -> None:
    """Its victim had taken what the budget allows, on a node of no use to the gang that waits."""
    top = pod("top").cpu(4).priority(9).shape(node_selector=(("kubernetes.io/hostname", "n1"),))
    cluster = Cluster(
        node("n1"), node("n2"), pdb("b").selects(app="x").allows(1), top,
        pod("mid").cpu(4).label(app="x").priority(5).on("n1"), pod("low").cpu(4).label(app="x").priority(1).on("n2"),
        strict_budgets=True,
    )  # fmt: skip
    cluster.slow = lambda write: isinstance(write, Mark)
    cluster.run()
    assert names(cluster, Mark) == {"mid"}
    cluster.show(pod("p").cpu(4).priority(5))
    cluster.run()
    assert cluster.core.states()["d/p"] == "Backoff"
    cluster.delete("top")
    cluster.run()
    assert names(cluster, Mark) == {"mid", "low"}


def test_a_pod_that_may_leave_does_not_count_as_in_the_way() -> None:
    """The node was too full of pods that may not be evicted; the one that has left was not the one to wait for."""
    cluster = Cluster(
        node("n1"), node("n2"),
        pod("keep").cpu(3).priority(9).on("n1"), pod("low").cpu(1).on("n1"),
        pod("keep2").cpu(3).priority(9).on("n2"), pod("p").cpu(2).priority(5),
    )  # fmt: skip
    assert tries(cluster, ev.Gone("Pod", "d", "low", "uid-d-low")) == 0
    assert tries(cluster, ev.Gone("Pod", "d", "keep", "uid-d-keep")) == 1


def test_a_gang_bound_elsewhere_can_be_evicted_from_now_on() -> None:
    """A gang whose bindings were on their way is no victim; once they are through, whoever is stronger hears of it."""
    cluster = Cluster(node("n1"), gang("low").min(1), pod("l").cpu(4).gang("low"))
    cluster.slow = lambda write: True
    cluster.run()
    cluster.show(pod("p").cpu(4).priority(5))
    cluster.run()
    assert cluster.core.states()["d/p"] == "Backoff"
    cluster.slow = lambda write: False
    cluster.answer()
    cluster.pass_time(10)
    assert cluster.core.states()["d/p"] == "WaitingForVictims"


def test_any_pod_counts_for_a_selector_that_is_empty() -> None:
    """An empty selector means every pod of the namespace."""
    term = PodTerm(HOST, LabelSelector(), ("d",))
    cluster = Cluster(node("n1"), pod("a").on("n1"), pod("p").shape(anti_affinity=(term,)))
    assert tries(cluster, ev.Gone("Pod", "d", "a", "uid-d-a")) == 1


@pytest.mark.parametrize(("seconds", "found"), [(29.5, {"mid"}), (30.5, {"mid", "low"})])
def test_a_budget_that_is_charged_no_longer_lets_others_go(seconds: float, found: set[str]) -> None:
    """The victim was not healthy: that it is gone changes nothing in the status, which no event brings."""
    cluster = Cluster(
        node("n1"), node("n2"), pdb("b").selects(app="x").allows(1),
        pod("top").cpu(4).priority(9).shape(node_selector=(("kubernetes.io/hostname", "n1"),)),
        pod("mid").cpu(4).label(app="x").priority(5).on("n1"), pod("low").cpu(4).label(app="x").priority(1).on("n2"),
        strict_budgets=True,
    )  # fmt: skip
    cluster.run()
    cluster.leave()
    cluster.show(pod("p").cpu(4).priority(5))
    cluster.run()
    assert nodes_of(cluster.log) == {"top": "n1"}
    cluster.pass_time(seconds)
    cluster.run()
    assert names(cluster, Mark) == found
