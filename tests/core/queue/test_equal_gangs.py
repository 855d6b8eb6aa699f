"""Equal gangs are decided once: a refusal is said of all of them, until something happens that may help."""

from __future__ import annotations

import random
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gangsched.core.actions import Bind, Write
from gangsched.core.decision import Verdict
from gangsched.core.events import Gone, Outcome
from gangsched.core.planning.context import Question
from gangsched.core.planning.cycle import Decider
from gangsched.model.constraints import PodTerm
from gangsched.model.dialects.volcano import FAMILY as VOLCANO
from gangsched.model.records import Announced
from tests.amounts import amount
from tests.builders import gang, node, pod, selects
from tests.core.harness import Built, Cluster, nodes_of, plan
from tests.core.queue.sleepers import sleeping_in_vain
from tests.core.queues import big, objects, queued
from tests.core.quota.world import queue

HOST = "kubernetes.io/hostname"


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The gangs about which a decision was really made, in order."""
    names: list[str] = []
    decide = Decider.decide

    def noted(decider: Decider, question: Question) -> Verdict:
        names.append(question.gangs[0].name)
        return decide(decider, question)

    monkeypatch.setattr(Decider, "decide", noted)
    return names


def pods(count: int) -> list[Built]:
    """Single pods of two CPU."""
    return [pod(f"g{i:03}").cpu(2).created(float(i)) for i in range(count)]


def gangs(count: int) -> list[Built]:
    """Gangs of a launcher and two workers."""
    out: list[Built] = []
    for i in range(count):
        name = f"g{i:03}"
        out.append(gang(name).min(3).created(float(i)))
        out += [pod(f"{name}-{j}").cpu(cpu).gang(name) for j, cpu in enumerate((0.5, 0.75, 0.75))]
    return out


def workloads(count: int) -> list[Built]:
    """Pods with a queue that has quota for two CPU."""
    rules = objects(queue("a", cpu=2))
    return [*rules, *(queued(f"g{i:03}", "a", 2).created(float(i)) for i in range(count))]


FULL = (node("n1").cpu(2), pod("old").cpu(2).on("n1"))
FULL_QUEUE = (big(), queued("old", "a", 2).on("n1"))
KINDS = [(FULL, pods), (FULL, gangs), (FULL_QUEUE, workloads)]


@pytest.mark.parametrize(("there", "equal"), KINDS)
def test_equal_gangs_that_do_not_fit_take_one_decision(there: Any, equal: Any, asked: list[str]) -> None:
    """Each is told, and waits; room for one is taken by the first, and refused to all others by one more decision."""
    count = 1000 if equal is not gangs else 300
    cluster = Cluster(*there, *equal(count))
    cluster.run(10_000)
    assert asked == ["g000"]
    assert len(cluster.decisions) == count
    assert len({d.message for d in cluster.decisions}) == 1
    assert {unplaced.pod.split("/")[1][:4] for d in cluster.decisions for unplaced in d.unplaced} == {
        d.gang.name for d in cluster.decisions
    }
    assert cluster.core.queue_counts()["unschedulable"] == count
    cluster.pass_time(20)
    cluster.delete("old")
    cluster.run(10_000)
    assert asked == ["g000", "g000", "g001"]
    assert {name[:4] for name in nodes_of(cluster.log)} == {"g000"}


@pytest.mark.parametrize(("there", "equal"), KINDS)
def test_a_plan_decides_equal_gangs_once(there: Any, equal: Any, asked: list[str]) -> None:
    """Every gang has its entry."""
    assert len(plan(*there, *equal(100))) == 100
    assert asked == ["g000"]


def test_company_that_comes_wakes_the_first_of_them(asked: list[str]) -> None:
    """They were refused without it; the third finds no room beside it any more."""
    near = PodTerm(HOST, selects(app="x"), ("d",))
    wants = [pod(f"w{i}").cpu(1).created(float(i)).shape(affinity=(near,)) for i in range(4)]
    cluster = Cluster(node("n1").cpu(3).label(**{HOST: "n1"}), *wants)
    cluster.run()
    cluster.show(pod("x").cpu(1).label(app="x").created(9.0))
    cluster.run()
    assert asked == ["w0", "x", "w0", "w1", "w2"]
    assert nodes_of(cluster.log) == {"x": "n1", "w0": "n1", "w1": "n1"}


def test_what_happened_to_one_gang_alone_is_not_said_of_others(asked: list[str]) -> None:
    """A gang of which a member runs needs fewer, and does not speak for one of which none does, nor that for it."""
    running: list[Built] = [
        gang("half").min(2),
        pod("half-0").cpu(1).gang("half").on("n1"),
        pod("half-1").cpu(2).gang("half"),
    ]
    fresh: list[Built] = [gang("some").min(1), pod("some-0").cpu(2).gang("some")]
    cluster = Cluster(node("n1").cpu(2), *running, *fresh)
    cluster.run()
    assert sorted(asked) == ["half", "some"]


def test_a_gang_that_is_ahead_of_the_refused_one_is_decided_itself(asked: list[str]) -> None:
    """It is older: what is kept for others keeps less from it."""
    cluster = Cluster(*FULL, pod("young").cpu(2).created(5.0))
    cluster.run()
    cluster.show(pod("old-one").cpu(2).created(1.0), pod("younger").cpu(2).created(9.0))
    cluster.run()
    assert asked == ["young", "old-one"]


def test_one_that_comes_later_is_refused_as_its_equals_were(asked: list[str]) -> None:
    """Nothing has happened since that may help."""
    cluster = Cluster(*FULL, pod("first").cpu(2))
    cluster.run()
    cluster.pass_time(30)
    cluster.show(pod("later").cpu(2).created(30.0))
    cluster.run()
    assert asked == ["first"]
    assert cluster.decisions[-1].unplaced[0].pod == "d/later"
    cluster.show(node("n2").cpu(2))
    cluster.run()
    assert nodes_of(cluster.log) == {"first": "n2"}


def test_company_that_was_placed_meanwhile_ends_a_refusal(asked: list[str]) -> None:
    """The second wants a pod beside it that is bound by the decision in between; the first was refused without."""
    near = PodTerm(HOST, selects(app="x"), ("d",))
    wants = [pod(name).cpu(1).created(age).shape(affinity=(near,)) for name, age in (("w0", 0.0), ("w1", 2.0))]
    company = pod("x").cpu(1).label(app="x").created(1.0)
    found = plan(node("n1").label(**{HOST: "n1"}), *wants, company)
    assert asked == ["w0", "x", "w1"]
    assert [found[f"d/{name}"].outcome for name in asked] == ["unschedulable", "bind", "bind"]


def test_room_that_victims_of_others_leave_ends_a_refusal(asked: list[str]) -> None:
    """Who is next fits into what is left of it."""
    cluster_: list[Built] = [node("n1").cpu(4), pod("v").cpu(4).priority(1).on("n1"), pod("w0").cpu(2).never()]
    found = plan(*cluster_, pod("strong").cpu(2).priority(0).created(1.0), pod("w1").cpu(2).never().created(2.0))
    assert [d.outcome for d in found.values()] == ["unschedulable"] * 3
    cluster_[1] = pod("v").cpu(4).priority(-1).on("n1")
    asked.clear()
    found = plan(*cluster_, pod("strong").cpu(2).created(1.0), pod("w1").cpu(2).never().created(2.0))
    assert asked == ["w0", "strong", "w1"]
    assert [found[f"d/{name}"].outcome for name in asked] == ["unschedulable", "preempt", "wait"]


def test_a_gang_that_is_bound_in_part_is_no_equal_of_one_that_is_not() -> None:
    """Two of b are bound, as answers say, and not seen to be yet, and the third is refused; then a, its equal until
    then, is refused before it in the queue.
    """

    def members(name: str, *numbers: int) -> list[Built]:
        created = {"a": 1.0, "b": 2.0}[name]
        return [pod(f"{name}{i}").cpu(3).gang(name).priority(5).created(created) for i in numbers]

    def answer(write: Write) -> tuple[Outcome, str] | None:
        if isinstance(write, Bind):
            return (Outcome.REFUSED, "because") if write.pod.name == "b3" else (Outcome.OK, "")
        return None

    groups = [gang(name).min(3).created(at) for name, at in (("a", 1.0), ("b", 2.0))]
    cluster = Cluster(node("n1").cpu(9), pod("big").cpu(20).priority(9), *groups, *members("a", 1, 2))
    cluster.show(*members("b", 1, 2, 3))
    cluster.judge = answer
    cluster.run()
    cluster.show(*members("a", 3))
    cluster.run()
    cluster.pass_time(60)
    said = [(d.gang.name, d.outcome) for d in cluster.decisions]
    assert said[:4] == [("big", "unschedulable"), ("b", "bind"), ("a", "unschedulable"), ("b", "bind")]


@pytest.mark.parametrize("first", ["announces", "has"])
def test_a_gang_that_announces_members_is_no_equal_of_one_that_has_them(first: str) -> None:
    """What they need together is the same."""
    workers = Announced("worker", 2, pod("worker").cpu(3).obj().shape)
    created = {name: 1.0 if name == first else 2.0 for name in ("announces", "has")}
    there: list[Built] = [
        node("n1").cpu(2),
        gang("announces").family(VOLCANO).min(1).field(announced=(workers,)).created(created["announces"]),
        gang("has").family(VOLCANO).min(1).created(created["has"]),
        pod("announces0").cpu(3).gang("announces", VOLCANO).created(created["announces"]),
        *(pod(f"has{i}").cpu(3).gang("has", VOLCANO).created(created["has"]) for i in range(3)),
    ]
    cluster = Cluster(*there)
    cluster.run()
    for said in ({d.gang.name: d for d in cluster.decisions}, {d.gang.name: d for d in plan(*there).values()}):
        assert [u.pod for u in said["has"].unplaced] == [f"d/has{i}" for i in range(3)]
        assert [u.pod for u in said["announces"].unplaced] == ["d/announces0"]


def test_equals_keep_their_order_although_the_first_is_in_backoff() -> None:
    """The first was tried a moment ago, its equals were not: the room is not theirs because of that."""
    cluster = Cluster(node("n1").cpu(2), pod("a").cpu(1).on("n1"), pod("b").cpu(1).on("n1"), *pods(3))
    cluster.run()
    cluster.pass_time(20)
    for name in ("a", "b"):
        cluster.delete(name)
        cluster.run()
    assert nodes_of(cluster.log) == {"g000": "n1"}


# -- the same as deciding each -----------------------------------------------------------------------------


class Chance:
    """Random pods and gangs of few kinds, many of them equal, some of which run."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        pick = self._random.choice
        self.options: dict[str, Any] = {"queue_policy": pick(("backfill", "backfill", "strict"))}
        limits: dict[str, Any] = {"within": pick(("Never", "LowerPriority")), "reclaim": pick(("Never", "Any"))}
        strategy = pick(("BestEffortFIFO", "BestEffortFIFO", "StrictFIFO"))
        self.told_alike = self.options["queue_policy"] != "strict" and strategy != "StrictFIFO"
        rules = [queue(name, "co", cpu=pick((2, 4)), strategy=strategy, **limits) for name in "ab"]
        self.objects: list[Built] = [*objects(*rules)]
        for i in range(pick((2, 3))):
            self.objects.append(node(f"n{i}").cpu(4).label(**{HOST: f"n{i}"}))
            self.objects += self._running(i)
        for i in range(14):
            self.objects += self.pending(f"p{i:02}", float(i))

    def _running(self, i: int) -> list[Built]:
        pick = self._random.choice
        out: list[Built] = []
        for j in range(pick((0, 1, 2))):
            name = f"r{i}{j}"
            made = queued(name, pick("ab"), 2) if pick((True, False)) else pod(name).cpu(2)
            made.priority(pick((-1, 0))).on(f"n{i}")
            out.append(made.label(app="x") if pick((True, False)) else made)
        return out

    def pending(self, name: str, age: float) -> list[Built]:
        """A pod or a gang that waits."""
        pick = self._random.choice
        kind, priority = pick(("pod", "gang", "queued", "near", "mixed")), pick((0, 0, 1))
        near = PodTerm(HOST, selects(app="x"), ("d",))
        match kind:
            case "pod":
                made = [pod(name).cpu(2).label(app=pick("xy"))]
            case "near":
                made = [pod(name).cpu(1).shape(affinity=(near,))]
            case "queued":
                made = [queued(name, pick("ab"), 2)]
            case _:
                sizes = (1, 2, 2) if kind == "mixed" else (2, 2)
                made = [pod(f"{name}-{j}").cpu(cpu).gang(name) for j, cpu in enumerate(sizes)]
        several: list[Built] = [gang(name).min(len(made)).created(age)] if len(made) > 1 else []
        return several + [each.priority(priority).created(age) for each in made]


@settings(deadline=None, max_examples=amount(60, 6))
@given(st.integers(0, 2**32))
def test_plans_are_those_that_decide_every_gang(seed: int) -> None:
    """Whatever waits and runs. Only where gangs say who is ahead of them equal ones are told the same instead."""
    chance = Chance(seed)
    shared = plan(*chance.objects, **chance.options)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("gangsched.core.forecast.speaks_for_others", lambda _: False)
        alone = plan(*chance.objects, **chance.options)
    if chance.told_alike:
        assert msgspec.json.encode(shared) == msgspec.json.encode(alone)
    for name, decision in shared.items():
        other = alone[name]
        assert (decision.outcome, decision.placements, decision.victims, decision.awaiting) == (
            other.outcome, other.placements, other.victims, other.awaiting
        )  # fmt: skip


@settings(deadline=None, max_examples=amount(25, 4))
@given(st.integers(0, 2**32))
def test_nobody_sleeps_who_could_be_placed(seed: int) -> None:
    """Pods come to an end one after another, and new ones come."""
    chance = Chance(seed)
    cluster = Cluster(*chance.objects, **chance.options)
    cluster.run(400)
    for i in range(6):
        cluster.leave()
        there = sorted(p.name for p in cluster.pods.values() if p.node)
        if there:
            gone = there[i % len(there)]
            cluster.show(Gone("Pod", "d", gone, cluster.pod(gone).uid))
        cluster.show(*chance.pending(f"q{i}", 100.0 + i))
        cluster.pass_time(40.0)
        assert sleeping_in_vain(cluster.core, cluster.now) == []
