"""Invariants of decisions about quota and nodes together, on random clusters, queues and workloads."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from gangsched.core.decision import BIND, PREEMPT, WAIT
from gangsched.core.events import Changed
from gangsched.core.scheduler import Scheduler
from gangsched.model.queues import QUEUE_LABEL, ClusterQueue, QueueObject
from gangsched.model.records import GangId, Pod
from tests.amounts import amount
from tests.builders import NodeBuilder, PodBuilder, gang, node, pod
from tests.core.harness import Built, verdict, world
from tests.core.queues import objects, queued
from tests.core.quota.world import own, queue

QUEUES = ("a", "b", "c")


@st.composite
def limits(draw: st.DrawFn) -> Any:
    """Nominal quota, and limits for borrowing and lending now and then."""
    nominal = draw(st.integers(0, 6))
    borrowing = draw(st.none() | st.integers(0, 4))
    lending = draw(st.none() | st.integers(0, nominal))
    return own(nominal, borrowing, lending)


@st.composite
def clusters(draw: st.DrawFn) -> list[Built]:
    """Nodes, queues of one cohort, running and waiting pods and gangs, some without a queue."""
    built: list[Built] = [node(f"n{i}").cpu(draw(st.integers(2, 6))) for i in range(draw(st.integers(1, 3)))]
    records = []
    for name in QUEUES:
        reclaim = draw(st.sampled_from(["Never", "LowerPriority", "Any"]))
        borrow = "Never" if reclaim == "Never" else draw(st.sampled_from(["Never", "LowerPriority"]))
        within = draw(st.sampled_from(["Never", "LowerPriority", "LowerOrNewerEqualPriority"]))
        strategy = draw(st.sampled_from(["BestEffortFIFO", "StrictFIFO"]))
        cpu = draw(limits())
        records.append(queue(name, "co", within=within, reclaim=reclaim, borrow=borrow, strategy=strategy, cpu=cpu))
    built += objects(*records)
    nodes = [b.obj() for b in built if isinstance(b, NodeBuilder)]
    free = {n.name: dict(n.allocatable)["cpu"] // 1000 for n in nodes}
    for i in range(draw(st.integers(0, 7))):
        where = draw(st.sampled_from(sorted(free)))
        cpu = draw(st.integers(1, 3))
        if cpu > free[where]:
            continue
        free[where] -= cpu
        of = draw(st.sampled_from([*QUEUES, ""]))
        running = queued(f"r{i}", of, cpu) if of else pod(f"r{i}").cpu(cpu)
        built.append(running.priority(draw(st.integers(0, 3))).on(where, started=float(i)))
    for i in range(draw(st.integers(0, 2))):
        built += elastic(draw, f"e{i}", free)
    for i in range(draw(st.integers(1, 3))):
        priority, cpu = draw(st.integers(0, 3)), draw(st.integers(1, 3))
        of = draw(st.sampled_from(QUEUES))
        size = draw(st.integers(1, 2))
        if size > 1:
            built.append(gang(f"g{i}").min(size))
        for n in range(size):
            member = queued(f"p{i}-{n}", of, cpu).priority(priority).created(float(i))
            built.append(member.gang(f"g{i}") if size > 1 else member)
    return built


def elastic(draw: st.DrawFn, name: str, free: dict[str, int]) -> list[Built]:
    """A running gang that can do without some of its members, as far as nodes have room for them."""
    of, cpu, priority = draw(st.sampled_from(QUEUES)), draw(st.integers(1, 2)), draw(st.integers(0, 3))
    members = []
    for n in range(draw(st.integers(2, 4))):
        where = draw(st.sampled_from(sorted(free)))
        if cpu <= free[where]:
            free[where] -= cpu
            members.append(queued(f"{name}-{n}", of, cpu).priority(priority).gang(name).on(where, started=float(n)))
    return [gang(name).min(draw(st.integers(1, len(members)))), *members] if members else []


def pending(core: Scheduler) -> list[GangId]:
    """The gangs that wait, in name order."""
    membership = core.world.membership
    return sorted(g for g in membership.members if membership.is_ours(g) and membership.waits(g))


def without(uids: set[str], built: list[Built], **options: Any) -> Scheduler:
    """The same cluster without these pods."""
    return world(*(b for b in built if not (isinstance(b, PodBuilder) and b.obj().uid in uids)), **options)


def stays_or_leaves(core: Scheduler, ident: GangId, victims: set[str]) -> bool:
    """Does a gang keep as many members as it needs, or none?"""
    members = {uid for uid, p in core.world.membership.members[ident].items() if p.node}
    spec = core.world.membership.spec(ident)
    left = len(members - victims)
    return left == len(members) or not left or (spec is not None and left >= spec.min_member)


def may_evict(ident: GangId, victims: set[str], built: list[Built]) -> bool:
    """May the gang evict these, and they alone, as Kueue's classic preemption has it? While it borrows, it takes from
    other queues only what ``borrowWithinCohort`` lets it take: workloads of lower priority.
    """
    pods = [b.obj() for b in built if isinstance(b, PodBuilder)]
    members = [p for p in pods if p.gang == ident]
    name = of_queue(members[0])
    [own_queue] = [
        b.record
        for b in built
        if isinstance(b, Changed) and isinstance(b.record, QueueObject) and isinstance(b.record, ClusterQueue)
        if b.record.name == name
    ]
    left = [p for p in pods if p.node and p.uid not in victims and of_queue(p) == name]
    [[(_, nominal)]] = [f.resources for g in own_queue.groups for f in g.flavors]
    if sum(dict(p.shape.requests)["cpu"] for p in (*members, *left)) <= nominal.nominal:
        return True
    others = [p for p in pods if p.uid in victims and of_queue(p) not in ("", name)]
    allowed = own_queue.preemption.borrow != "Never"
    return all(allowed and p.priority < members[0].priority for p in others)


def of_queue(made: Pod) -> str:
    """The ClusterQueue of a pod; empty without one."""
    return dict(made.labels).get(QUEUE_LABEL, "").removeprefix("q-")


@settings(max_examples=amount(150, 50), deadline=None)
@given(clusters(), st.booleans(), st.sampled_from((4, 12, 100_000)))
def test_victims_are_enough_and_none_is_needless(built: list[Built], fair: bool, steps: int):
    """With the victims gone the gang has its quota and its nodes; with any of them back it lacks one or the other, or
    the right to evict the others, however short the search has been.
    """
    core = world(*built, fair_sharing=fair, search_steps=steps)
    for ident in pending(core):
        found = verdict(core, [ident])
        if found.outcome != PREEMPT:
            continue
        victims = {v.uid for v in found.victims}
        assert all(stays_or_leaves(core, ident, victims) for ident in core.world.membership.members)
        after = verdict(without(victims, built, fair_sharing=fair), [ident])
        assert after.outcome == BIND
        together = {v.uid if v.partial else v.unit.name for v in found.victims}
        for unit in together:
            back = {v.uid for v in found.victims if unit in (v.uid, v.unit.name)}
            if fair or may_evict(ident, victims - back, built):
                left = without(victims - back, built, fair_sharing=fair)
                assert verdict(left, [ident]).outcome not in (BIND, WAIT)


@settings(max_examples=amount(100, 40), deadline=None)
@given(clusters())
def test_nobody_is_admitted_above_a_limit(built: list[Built]):
    """Whoever is bound leaves its queue within what it may use, however many are decided one after another."""
    core = world(*built)
    managed = core.world.managed
    before = {q: _over(core, q) for q in QUEUES}
    for ident in pending(core):
        found = verdict(core, [ident])
        if found.outcome != BIND:
            continue
        for decision in found.decisions:
            assert decision.quota is not None
            managed.choose(decision.quota.by_pod, 1.0)
        for place in found.placements:
            core.world.assume(place.uid, place.node)
        managed.update_holdings()
    assert all(_over(core, q) <= max(0, before[q]) for q in QUEUES)


def _over(core: Scheduler, name: str) -> int:
    """By how much a queue uses more CPU than its own quota and what it may borrow."""
    core.world.managed.update_holdings()
    tree = core.world.managed.quota.tree
    queue_node = tree.queues[name]
    cell = tree.cells["default", "cpu"]
    return queue_node.usage[cell] - queue_node.potential[cell]


@settings(max_examples=amount(60, 25), deadline=None)
@given(clusters(), st.randoms(use_true_random=False))
def test_admissions_do_not_depend_on_the_order_of_events(built: list[Built], random: Any):
    """What is held of each queue follows from the objects alone."""
    shuffled = list(built)
    random.shuffle(shuffled)
    one, other = world(*built).world.managed, world(*shuffled).world.managed
    one.update_holdings()
    other.update_holdings()
    assert one.quota.admissions == other.quota.admissions
    assert one.statuses(again=True) == other.statuses(again=True)


@settings(max_examples=amount(60, 25), deadline=None)
@given(clusters(), st.data())
def test_what_is_kept_equals_what_is_computed_afresh(built: list[Built], data: st.DataObject):
    """After pods have come and gone, usage is what a new process would find."""
    core = world(*built)
    pods = [p for p in core.world.pods.values() if p.node]
    for leaving in data.draw(st.lists(st.sampled_from(pods), unique_by=lambda p: p.uid)) if pods else ():
        core.handle([Changed(msgspec.structs.replace(leaving, phase="Succeeded"))], 1.0)
        built = [b for b in built if not (isinstance(b, PodBuilder) and b.obj().uid == leaving.uid)]
    core.world.managed.update_holdings()
    fresh = world(*built).world.managed
    fresh.update_holdings()
    assert core.world.managed.quota.admissions == fresh.quota.admissions
