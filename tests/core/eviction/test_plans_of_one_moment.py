"""One future: plans that are made in the same moment know of each other's victims."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from gangsched.cli.simulation import simulate
from gangsched.cluster.sim.history import moment
from gangsched.core.actions import Mark, Remove
from gangsched.core.decision import BIND, PREEMPT, UNSCHEDULABLE, WAIT
from gangsched.core.events import Changed, LeadershipChanged, Outcome, records
from gangsched.core.options import Options
from gangsched.core.preemption.removal import budgets_of
from gangsched.model.constraints import PodTerm
from gangsched.model.records import Pod
from tests.builders import OTHERS, gang, node, pdb, pod, selects
from tests.core.harness import Built, Cluster, event, nodes_of, plan, reports, writes
from tests.judge.invariants import violations

BESIDE = (PodTerm("kubernetes.io/hostname", selects(app="db"), ("d",)),)


def evicted(cluster: Cluster) -> set[str]:
    """Pods whose removal was asked for."""
    return {a.pod.name for a in cluster.log if isinstance(a, Remove)}


def planned(objects: Sequence[Built], **options: Any) -> set[str]:
    """The victims that ``plan`` names."""
    return {v.name for d in plan(*objects, **options).values() for v in d.victims}


def to_the_end(objects: Sequence[Built], **options: Any) -> Cluster:
    """Run until all victims are gone and everybody has what is to be had."""
    cluster = Cluster(*objects, **options)
    for _ in range(100):
        cluster.run()
        if not any(p.deleting_since is not None for p in cluster.pods.values()):
            return cluster
        cluster.leave()
    raise AssertionError("it does not come to an end")


def simulated(objects: Sequence[Built], **options: Any) -> set[str]:
    """The pods that are gone in the end when the same is simulated."""
    run = simulate([event(o) for o in objects], Options(**options), until_seconds=600.0)
    assert violations(run.history, run.options) == []
    return {p.name for p in (made for made in records(map(event, objects), Pod))} - {
        p.name for p in moment(run.history, len(run.history)).pods.values()
    }


# -- bursts ------------------------------------------------------------------------------------------------


def replicas(status: int | None, others: int = 10) -> list[Built]:
    """Ten replicas of which nine have to be available, pods that are worth more, ten preemptors of a node each."""
    objects: list[Built] = [pdb("keep").selects(app="web").field(min_available=9).allows(status)]
    for i in range(10):
        objects += [node(f"a{i}"), pod(f"p{i}").cpu(4).priority(5)]
        objects += [pod(f"web{i}").cpu(4).priority(1).label(app="web").on(f"a{i}")]
    for i in range(others):
        objects += [node(f"b{i}"), pod(f"other{i}").cpu(4).priority(2).on(f"b{i}")]
    return objects


@pytest.mark.parametrize("status", [None, 1])
def test_ten_preemptors_take_one_replica(status: int | None) -> None:
    """A budget that lets one go lets one go, however many gangs are decided before its status has changed."""
    objects = replicas(status)
    victims = planned(objects)
    assert len(victims) == 10
    assert len([name for name in victims if name.startswith("web")]) == 1
    assert evicted(to_the_end(objects)) == victims
    if status is None:  # else it is not kept up to date
        gone = simulated(objects)
        assert (len(gone), len([name for name in gone if name.startswith("web")])) == (10, 1)


def test_with_strict_budgets_the_others_wait() -> None:
    """Where no other pod can be evicted, the second preemptor does not break the budget that the first used up."""
    objects = replicas(1, others=0)
    cluster = Cluster(*objects, strict_budgets=True)
    cluster.run()
    assert len(evicted(cluster)) == 1
    assert len(planned(objects, strict_budgets=True)) == 1


def elastic(preemptors: int) -> list[Built]:
    """A gang of five that needs three, beside single pods of the same priority."""
    objects: list[Built] = [gang("train").min(3)]
    for i in range(5):
        objects += [node(f"a{i}"), node(f"b{i}")]
        objects += [pod(f"t{i}").gang("train").cpu(4).priority(1).on(f"a{i}")]
        objects += [pod(f"single{i}").cpu(4).priority(1).on(f"b{i}", 50.0)]
    return objects + [pod(f"p{i}").cpu(4).priority(5) for i in range(preemptors)]


def test_an_elastic_gang_keeps_its_minimum() -> None:
    """Its surplus is given up once, not once for each preemptor."""
    objects = elastic(6)
    victims = planned(objects)
    assert len(victims) == 6
    assert len([name for name in victims if name.startswith("t")]) <= 2
    assert evicted(to_the_end(objects)) == victims
    assert simulated(objects) == victims


def twenty() -> list[Built]:
    """Twenty gangs of three over twenty gangs of four that leave whole, a pod and a node of their own each."""
    objects: list[Built] = []
    for g in range(20):
        objects.append(gang(f"v{g:02}").min(4))
        objects += [node(f"n{g:02}-{i}") for i in range(4)]
        objects += [pod(f"v{g:02}-{i}").gang(f"v{g:02}").cpu(4).priority(1).on(f"n{g:02}-{i}") for i in range(4)]
        objects.append(gang(f"p{g:02}").min(3))
        objects += [pod(f"p{g:02}-{i}").gang(f"p{g:02}").cpu(4).priority(5) for i in range(3)]
    return objects


def test_what_is_left_of_an_evicted_gang_is_for_the_next() -> None:
    """Twenty gangs of three over twenty of four evict 60 pods, and not 80: ``plan``, ``run`` and ``simulate`` agree."""
    objects = twenty()
    victims = planned(objects, gang_mode="atomic")
    assert len(victims) == 60
    cluster = to_the_end(objects, gang_mode="atomic")
    assert evicted(cluster) == victims
    assert len(nodes_of(cluster.log)) == 60
    assert simulated(objects, gang_mode="atomic") == victims


def group_of_gangs() -> list[Built]:
    """A GangGroup of two gangs that need all they have, two pods that are worth more, three preemptors."""
    keys = ("d/a", "d/b")
    objects: list[Built] = [gang(name).group(*keys).min(1) for name in ("a", "b")]
    for name in ("a", "b"):
        objects += [node(name), pod(f"{name}0").gang(name).cpu(4).priority(1).on(name)]
    for i in range(2):
        objects += [node(f"n{i}"), pod(f"worth{i}").cpu(4).priority(2).on(f"n{i}")]
    return objects + [pod(f"p{i}").cpu(4).priority(5) for i in range(3)]


def test_a_gang_group_leaves_once() -> None:
    """Its gangs leave together for the first pod, the second takes what that leaves, the third another pod."""
    objects = group_of_gangs()
    victims = planned(objects)
    assert (len(victims), victims > {"a0", "b0"}) == (3, True)
    assert evicted(to_the_end(objects)) == victims
    assert simulated(objects) == victims


def test_room_that_is_freed_anyway_is_waited_for() -> None:
    """A pod terminates: nobody is evicted for a gang that fits once it is gone, nor for one that fits beside that."""
    objects: list[Built] = [
        node("n1"), node("n2"), pod("leaves").cpu(4).on("n1").terminating(), pod("stays").cpu(4).on("n2"),
        *(pod(f"p{i}").cpu(2).priority(5) for i in range(2)),
    ]  # fmt: skip
    assert planned(objects) == set()
    assert evicted(to_the_end(objects)) == set()
    assert simulated(objects) == {"leaves"}


def test_victims_are_listed_once_and_awaited_by_name_of_the_plan() -> None:
    """A gang that fits only without the victims of an earlier one waits for them, and says who removes them."""
    found = plan(node("n1"), pod("v").cpu(4).on("n1"), pod("a").cpu(2).priority(5), pod("b").cpu(2).priority(4))
    assert (found["d/a"].outcome, found["d/b"].outcome) == (PREEMPT, WAIT)
    assert [v.name for v in found["d/b"].victims] == []
    assert [(a.pod, a.plan) for a in found["d/b"].awaiting] == [("d/v", "d/a")]


def test_a_gang_that_needs_more_than_others_free_takes_further_victims_only() -> None:
    """What earlier plans free counts; the rest is evicted for it."""
    found = plan(
        node("n1"), node("n2"), pod("v").cpu(4).on("n1"), pod("w").cpu(4).on("n2").priority(1),
        pod("a").cpu(2).priority(5), gang("b").min(2), *(pod(f"b{i}").gang("b").cpu(2).priority(4) for i in range(2)),
    )  # fmt: skip
    assert found["d/b"].outcome == PREEMPT
    assert [v.name for v in found["d/b"].victims] == ["w"]
    assert [(a.pod, a.plan) for a in found["d/b"].awaiting] == [("d/v", "d/a")]


# -- plans that depend on others ---------------------------------------------------------------------------


def depending() -> Cluster:
    """``first`` evicts v; ``second``, which could not, lives off what that leaves, and evicts w besides. No removal has
    been answered.
    """
    cluster = Cluster(
        node("n1"), node("n2"), pod("v").cpu(4).on("n1").priority(4), pod("w").cpu(4).on("n2").priority(1),
        pod("first").cpu(2).priority(5).selector(**{"kubernetes.io/hostname": "n1"}),
        gang("second").min(2), *(pod(f"s{i}").gang("second").cpu(2).priority(4) for i in range(2)),
    )  # fmt: skip
    cluster.slow = lambda write: isinstance(write, Remove)
    cluster.run()
    return cluster


def test_a_plan_removes_nothing_before_what_it_depends_on_leaves() -> None:
    """It nominates and holds its room; when the other's victim terminates it goes on."""
    cluster = depending()
    assert {name for kind, name in writes(cluster.log) if kind == "Nominate"} == {"first", "s0", "s1"}
    assert {a.pod.name for a in cluster.log if isinstance(a, Mark)} == {"v"}
    cluster.slow = lambda _: False
    cluster.answer()
    cluster.run()
    assert {a.pod.name for a in cluster.log if isinstance(a, Mark)} == {"v", "w"}
    cluster.leave()
    cluster.run()
    assert set(nodes_of(cluster.log)) == {"first", "s0", "s1"}
    assert evicted(cluster) == {"v", "w"}


def test_a_plan_is_made_anew_when_what_it_depends_on_is_spared() -> None:
    """The first preemptor is deleted: the other, which could not take that pod itself, decides again."""
    cluster = Cluster(
        node("n1"), node("n2"), pod("v").cpu(4).on("n1").priority(4), pod("w").cpu(4).on("n2").priority(1),
        pod("first").cpu(3).priority(5).selector(**{"kubernetes.io/hostname": "n1"}), pod("second").cpu(1).priority(4),
    )  # fmt: skip
    cluster.slow = lambda write: isinstance(write, Mark)
    cluster.run()
    assert cluster.decisions[-1].outcome == WAIT
    cluster.delete("first")
    cluster.slow = lambda _: False
    cluster.answer()
    cluster.run()
    assert (cluster.decisions[-1].gang.name, cluster.decisions[-1].outcome) == ("second", PREEMPT)
    cluster.leave()
    cluster.run()
    assert (evicted(cluster), nodes_of(cluster.log)) == ({"w"}, {"second": "n2"})


def test_a_failed_removal_is_counted_on_no_more() -> None:
    """The removal is refused: the pod stays, and so the gang that waited for it decides anew."""
    cluster = Cluster(
        node("n1"), pod("v").cpu(4).on("n1"), pod("first").cpu(3).priority(5), pod("second").cpu(1).priority(4),
        pod("n").cpu(1).priority(4).created(9).never(),
    )  # fmt: skip
    cluster.judge = lambda write: (Outcome.REFUSED, "no") if isinstance(write, Remove) else None
    cluster.run()
    assert not cluster.core.ledger.condemned.records
    assert cluster.decisions[-1].outcome != WAIT


def test_a_stronger_gang_owns_the_victims_of_the_plan_whose_room_it_takes() -> None:
    """The weaker plan is withdrawn; its victim is evicted for the stronger gang, once."""
    cluster = Cluster(node("n1"), pod("v").cpu(4).on("n1"), pod("weak").cpu(4).priority(5))
    cluster.slow = lambda write: isinstance(write, Mark)
    cluster.run()
    cluster.show(pod("strong").cpu(4).priority(9))
    cluster.run()
    cluster.slow = lambda _: False
    cluster.answer()
    cluster.run()
    assert [d.outcome for d in cluster.decisions if d.gang.name == "strong"] == [PREEMPT]
    cluster.leave()
    cluster.run()
    assert nodes_of(cluster.log) == {"strong": "n1"}
    assert [name for kind, name in writes(cluster.log) if kind == "Remove"] == ["v"]


def test_a_stronger_gang_that_may_not_evict_leaves_a_weaker_plan_alone() -> None:
    """It could not own the victim: the plan would be withdrawn, and the pod that both count on would stay, for ever."""
    cluster = Cluster(
        node("n1"), pod("v").cpu(4).on("n1"), pod("weak").cpu(3).priority(5), pod("never").cpu(3).priority(6).never()
    )
    cluster.slow = lambda write: isinstance(write, Mark)
    cluster.run()
    assert [d.outcome for d in cluster.decisions] == [UNSCHEDULABLE, PREEMPT]
    cluster.slow = lambda _: False
    cluster.answer()
    cluster.run()
    cluster.leave()
    cluster.run()
    assert (evicted(cluster), nodes_of(cluster.log)) == ({"v"}, {"never": "n1"})


@pytest.mark.parametrize(("until", "states"), [(0.0, {"d/strong": "Marking"}), (30.0, {"d/weak": "Marking"})])
def test_a_stronger_gang_that_pauses_leaves_a_weaker_plan_alone(until: float, states: dict[str, str]) -> None:
    """It would own no pod: the two would break each other's plans for ever. Without a pause it takes the room."""
    cluster = Cluster(node("n1"), pod("v").cpu(4).on("n1"), pod("weak").cpu(3).priority(5))
    cluster.slow = lambda write: isinstance(write, Mark)
    cluster.run()
    cluster.handle(pod("strong").cpu(3).priority(6))
    strong = next(g for g in cluster.core._run.groups.values() if g.name == "d/strong")
    strong.failures.paused_until = until
    cluster.run()
    assert states.items() <= cluster.core.states().items()


def test_a_standby_condemns_no_pod() -> None:
    """With the leadership all that was to leave is forgotten."""
    cluster = depending()
    assert cluster.core.ledger.condemned.records
    cluster.handle(LeadershipChanged(False))
    assert not cluster.core.ledger.condemned.records


# -- both with and without those that leave -----------------------------------------------------------------


@pytest.mark.parametrize("leaves", ["terminates", "condemned"])
def test_no_member_is_bound_beside_a_pod_that_leaves(leaves: str) -> None:
    """A member that must run beside a pod is not bound to one that is about to be gone."""
    near = pod("near").cpu(1).priority(3).created(9).shape(affinity=BESIDE)
    if leaves == "terminates":
        found = plan(node("n1"), pod("db").label(app="db").cpu(1).on("n1").terminating(), near)
    else:
        victim = pod("db").label(app="db").cpu(3).on("n1")
        found = plan(node("n1"), victim, pod("strong").cpu(3).priority(5), near)
    assert found["d/near"].outcome == UNSCHEDULABLE


def test_it_is_bound_where_others_stay() -> None:
    """Beside one that stays it is, though on a worse node."""
    near = pod("near").cpu(1).shape(affinity=BESIDE)
    leaving = pod("x").label(app="db").cpu(1).on("n1").terminating()
    found = plan(node("n1"), node("n2"), leaving, pod("y").label(app="db").cpu(3).on("n2"), near)["d/near"]
    assert (found.outcome, [p.node for p in found.placements]) == (BIND, ["n2"])


# -- budgets -----------------------------------------------------------------------------------------------


def allowed_after(*steps: str) -> int:
    """What a budget of two still allows after these steps in the life of a victim of it."""
    keep = pdb("keep").selects(app="web").allows(2)
    cluster = Cluster(
        keep, node("n1"), pod("web").label(app="web").cpu(4).on("n1"), pod("p").cpu(4).priority(5), pod("later").cpu(9)
    )
    for step in steps:
        match step:
            case "decide":
                cluster.slow = lambda write: isinstance(write, Remove)
                cluster.run()
            case "remove":
                cluster.slow = lambda _: False
                cluster.answer()
                cluster.run()
            case "status":
                cluster.handle(Changed(keep.allows(1).field(disrupted=()).obj()))
            case "named":
                cluster.handle(Changed(keep.allows(1).field(disrupted=("web",)).obj()))
            case "another named":
                cluster.handle(Changed(keep.allows(1).field(disrupted=("other",)).obj()))
            case "spec":
                cluster.handle(Changed(keep.field(max_unavailable=2).obj()))
            case "gone":
                cluster.leave()
                cluster.run()
            case "time":
                cluster.pass_time(31)
    world = cluster.core.world
    return budgets_of(world, cluster.core.ledger.condemned).allowed["d/keep"]


@pytest.mark.parametrize(
    ("steps", "left"),
    [
        (["decide"], 1),
        (["decide", "remove"], 1),
        (["decide", "remove", "status"], 1),
        (["decide", "remove", "gone"], 1),
        (["decide", "remove", "gone", "status"], 1),
        (["decide", "named"], 1),
        (["decide", "named", "remove", "gone"], 1),
        (["decide", "remove", "gone", "time"], 2),
        (["decide", "remove", "spec"], 1),
        (["decide", "remove", "gone", "spec"], 1),
        (["decide", "remove", "spec", "status"], 1),
        (["decide", "remove", "another named"], 0),
        (["decide", "remove", "another named", "status"], 1),
    ],
)
def test_a_budget_is_charged_from_the_decision_until_its_status_counts_the_pod(steps: list[str], left: int) -> None:
    """Never twice, and not for ever where no status comes. What is shown again with the status that it had counts
    nothing, and a status in which the API server has named another pod counts that pod.
    """
    assert allowed_after(*steps) == left


@pytest.mark.parametrize(("soon", "late"), [(5.0, 60.0), (40.0, 10.0)], ids=["terminating", "not removed yet"])
def test_a_plan_is_carried_out_before_a_later_one_beside_it(soon: float, late: float) -> None:
    """The later one was made with the room of the first taken: it takes none of it, whenever its own victims leave."""
    cluster = Cluster(
        node("n").cpu(7),
        pod("soon").cpu(3).priority(1).on("n").field(grace_seconds=soon),
        *(pod(f"late{i}").cpu(2).priority(2).on("n").field(grace_seconds=late) for i in (1, 2)),
        pod("first").cpu(3).priority(5).created(1),
        pod("second").cpu(4).priority(5).created(2),
    )
    cluster.run()
    assert evicted(cluster) == ({"soon", "late1", "late2"} if late > soon else {"soon"})
    cluster.leave("soon")
    cluster.run()
    assert nodes_of(cluster.log) == {"first": "n"}
    assert not reports(cluster.log, "FreedRoomTaken")
    cluster.leave()
    cluster.run()
    assert nodes_of(cluster.log) == {"first": "n", "second": "n"}


def test_further_members_take_nothing_from_a_later_plan() -> None:
    """Only what the first plan was made for comes before the room of the later one."""
    members = [pod(f"m{i}").gang("first").cpu(2).priority(5).created(1) for i in (1, 2)]
    cluster = Cluster(
        node("n").cpu(4), gang("first").min(1), pod("leaves").cpu(4).on("n").terminating(), members[0],
        pod("second").cpu(2).priority(5).created(2),
    )  # fmt: skip
    cluster.run()
    cluster.show(members[1])
    cluster.run()
    cluster.leave()
    cluster.run()
    assert nodes_of(cluster.log) == {"m1": "n", "second": "n"}


def test_a_plan_that_has_to_move_leaves_later_ones_their_room() -> None:
    """Only where its own members were to go does the first plan come before the later one."""
    cluster = Cluster(
        node("n1").cpu(7), node("n2").cpu(3),
        pod("a").cpu(3).priority(1).on("n1"), pod("b").cpu(4).priority(2).on("n1"),
        pod("c").cpu(3).priority(1).on("n2"),
        gang("first").min(2), *(pod(f"m{i}").gang("first").cpu(3).priority(5).created(1) for i in (1, 2)),
        pod("second").cpu(4).priority(5).created(2),
    )  # fmt: skip
    cluster.run()
    assert evicted(cluster) == {"a", "b", "c"}
    cluster.leave("c")
    cluster.show(pod("thief").scheduler(OTHERS).cpu(3).priority(9).on("n2"))
    cluster.leave()
    cluster.run()
    assert nodes_of(cluster.log) == {"second": "n1"}
