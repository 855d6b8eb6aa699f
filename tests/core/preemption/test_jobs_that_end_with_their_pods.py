"""The least harmful victims where pods end with their Jobs, against all ways to choose them."""

from __future__ import annotations

import random
from itertools import product
from typing import Any

import msgspec
import pytest

from gangsched.core.actions import SuspendJob
from gangsched.core.preemption.harm import Budgets, Loss, harm
from gangsched.model.jobsets import JobSet
from gangsched.model.records import Budget, Job, Owner, Pod
from tests.amounts import amount
from tests.builders import IGNORED, gang, node, pdb, pod
from tests.core.harness import Cluster, plan, victims, writes
from tests.core.jobsets import jobs as jobs_of_set
from tests.core.jobsets import jobset, member, running

PREEMPTOR = 10
SLOTS = 2


def small(seed: int) -> tuple[list[Any], list[Job], list[Pod], list[Budget]]:
    """Up to four nodes of two slots, full of pods of up to three Jobs and of none, some covered by a budget."""
    chance = random.Random(seed)
    nodes = [node(f"n{i}").cpu(SLOTS) for i in range(chance.randint(2, 4))]
    jobs = [
        Job("d", f"j{i}", f"uid-Job-j{i}", backoff_limit=chance.choice((0, 0, 1, 2, 6)), failed=chance.randint(0, 1))
        for i in range(chance.randint(1, 3))
    ]
    template = pod("t").cpu(1).uid("").obj()
    rules = [IGNORED if chance.random() < 0.1 else () for _ in jobs]
    jobs = [msgspec.structs.replace(j, failure_rules=r, template=template) for j, r in zip(jobs, rules, strict=True)]
    pods = []
    for place in range(len(nodes) * SLOTS):
        made = pod(f"p{place}").cpu(1).on(f"n{place // SLOTS}").priority(chance.choice((0, 0, 1, 2, 900)))
        if chance.random() < 0.7:
            made = made.owner("Job", chance.choice(jobs).name)
        if chance.random() < 0.3:
            made = made.label(app="covered")
        pods.append(made.obj())
    return nodes, jobs, pods, [pdb("b").selects(app="covered").allows(chance.randint(0, 2)).obj()]


def ends(job: Job, gone: int) -> bool:
    """Would the Job end after so many deletions?"""
    return not job.failure_rules and job.failed + gone > job.backoff_limit


def cost(taken: list[Pod], jobs: list[Job], pods: list[Pod], budgets: list[Budget]) -> tuple[Any, ...] | None:
    """The harm of deleting these, work and names aside; None where others would end with them."""
    if any(p.priority >= PREEMPTOR for p in taken):
        return None
    losses = []
    for job in (*jobs, None):
        mine = [p for p in pods if (p.owner.name if p.owner else None) == (job.name if job else None)]
        gone = [p for p in taken if p in mine]
        whole = job is not None and bool(gone) and ends(job, len(gone)) and len(mine) > 1
        if whole and len(gone) < len(mine):
            return None
        losses += [Loss(p, max(q.priority for q in mine) if whole else p.priority) for p in gone]
    found = harm(losses, (), Budgets(budgets), {}, 0.0)
    return found.beyond_budget, found.levels


def least(nodes: int, members: int, *known: Any) -> tuple[Any, ...] | None:
    """The least harm with which so many members, each as large as a node, have room."""
    jobs, pods, budgets = known
    costs = []
    for way in product((False, True), repeat=len(pods)):
        taken = [p for p, gone in zip(pods, way, strict=True) if gone]
        room = sum(all(way[n * SLOTS : (n + 1) * SLOTS]) for n in range(nodes))
        found = cost(taken, jobs, pods, budgets) if room >= members else None
        if found is not None:
            costs.append(found)
    return min(costs, default=None)


@pytest.mark.parametrize("seed", range(amount(60, 24)))
@pytest.mark.parametrize("suspend_jobs", [True, False])
def test_nothing_less_harmful_is_possible(seed: int, suspend_jobs: bool) -> None:
    """All pods of a Job that would end count, with their budgets and priorities, whether it is suspended or not."""
    nodes, jobs, pods, budgets = small(seed)
    wide = pod("vip").cpu(SLOTS).priority(PREEMPTOR)
    made = plan(*nodes, *jobs, *pods, *budgets, wide, suspend_jobs=suspend_jobs)["d/vip"]
    expected = least(len(nodes), 1, jobs, pods, budgets)
    assert (made.outcome == "preempt") == (expected is not None)
    if expected is not None:
        gone = set(victims(made))
        assert cost([p for p in pods if p.name in gone], jobs, pods, budgets) == expected
        assert not (made.optimal is False and made.gap is None)


def test_what_is_remembered_of_a_job_is_forgotten_when_it_changes() -> None:
    """Its failures, its pods, and those of another plan, between one decision and the next."""
    job = Job("d", "j", "uid-Job-j", backoff_limit=4)
    pods = [pod(f"j-{i}").cpu(1).owner("Job", "j").on(f"n{i // 2}").obj() for i in range(4)]
    others = [pod(f"o-{i}").cpu(1).priority(5).on("n2").obj() for i in range(2)]
    cluster = Cluster(*(node(f"n{i}").cpu(2) for i in range(3)), job, *pods, *others, pod("vip").cpu(2).priority(10))
    cluster.slow = lambda write: True
    cluster.run()
    assert len(victims(cluster.decisions[-1])) == 2
    cluster.show(msgspec.structs.replace(job, failed=3))
    cluster.show(msgspec.structs.replace(pods[3], priority=900))
    cluster.show(pod("second").cpu(2).priority(10))
    cluster.run()
    assert not any(isinstance(a, SuspendJob) for a in cluster.log)
    last = next(d for d in reversed(cluster.decisions) if d.gang.name == "second")
    assert victims(last) == ["o-0", "o-1"]


@pytest.mark.parametrize(("preemptor", "taken"), [(-5, ["train-0", "train-1"]), (-10, []), (-20, [])])
def test_a_job_that_ends_counts_under_the_highest_priority_of_its_pods_however_low(
    preemptor: int, taken: list[str]
) -> None:
    """Pods without a group below zero are victims of whatever is above them, as a whole Job too."""
    job = Job("d", "train", "uid-Job-train", backoff_limit=0)
    pods = [pod(f"train-{i}").cpu(1).owner("Job", "train").priority(p).on(f"n{i}") for i, p in enumerate((-30, -10))]
    made = plan(node("n0").cpu(1), node("n1").cpu(1), job, *pods, pod("vip").cpu(1).priority(preemptor))["d/vip"]
    assert victims(made) == taken


def many(count: int, backoff_limit: int, covered: bool) -> list[Any]:
    """As many Jobs with all of their pods on one node as with them spread over four nodes, with one pod on a fifth;
    four spread ones make room on as many nodes as four compact ones.
    """
    out: list[Any] = [pdb("b").selects(app="covered").allows(0)] if covered else []
    for n in range(count):
        out += [node(f"{kind}-{n:03}").cpu(4) for kind in ("compact", "spread", "far")]
        out.append(pod(f"stays-{n}").cpu(1).priority(PREEMPTOR).on(f"far-{n:03}"))
        for kind in ("compact", "spread"):
            name = f"{kind}-{n:03}"
            out.append(Job("d", name, f"uid-Job-{name}", backoff_limit=backoff_limit if kind == "compact" else 0))
            for i in range(4):
                place = name if kind == "compact" else f"spread-{n - n % 4 + (n + i) % 4:03}"
                out.append(pod(f"{name}-{i}").cpu(1).owner("Job", name).on(place))
            last = pod(f"{name}-4").cpu(1).owner("Job", name).on(f"far-{n:03}")
            out.append(last.label(app="covered") if covered and kind == "compact" and n % 2 else last)
    return out


@pytest.mark.parametrize("count", [4, 24, 80])
@pytest.mark.parametrize("backoff_limit", [0, 3, 4])
@pytest.mark.parametrize("covered", [False, True])
def test_in_clusters_of_any_size_as_few_pods_as_possible_leave_with_their_jobs(
    count: int, backoff_limit: int, covered: bool
) -> None:
    """A node is free for each Job that ends, or for four pods of a compact one where it survives that: the fifth is of
    no use, and where a budget covers it another Job leaves.
    """
    need = count // 4
    members = [pod(f"m{i}").cpu(4).priority(PREEMPTOR).gang("vip") for i in range(need)]
    made = plan(*many(count, backoff_limit, covered), gang("vip").min(need), *members, search_steps=2000)["d/vip"]
    gone = victims(made)
    assert len(gone) == need * (4 if backoff_limit == 4 else 5)
    assert not any(v.over_budget for v in made.victims)


@pytest.mark.parametrize("count", [4, 40, 200])
def test_in_clusters_of_any_size_the_priority_of_a_driver_keeps_its_job(count: int) -> None:
    """All workers have the same priority; every other Job has a driver elsewhere of a priority that is higher."""
    known: list[Any] = []
    for n in range(count):
        known += [node(f"n-{n:03}").cpu(4), node(f"far-{n:03}").cpu(4)]
        name = f"j-{n:03}"
        known.append(Job("d", name, f"uid-Job-{name}", backoff_limit=0))
        known += [pod(f"{name}-{i}").cpu(1).owner("Job", name).on(f"n-{n:03}") for i in range(3 + (n % 2 == 0))]
        known.append(pod(f"{name}-driver").cpu(4).priority(n % 2 * 9).owner("Job", name).on(f"far-{n:03}"))
    members = [pod(f"m{i}").cpu(4).priority(PREEMPTOR).gang("vip") for i in range(count // 2)]
    wanted: list[Any] = [gang("vip").min(count // 2), *members]
    made = plan(*known, *wanted, search_steps=2000)["d/vip"]
    assert {v.priority for v in made.victims} == {0}
    assert len(made.victims) == count // 4 * 5


def tangled(seed: int) -> tuple[list[Any], list[Job], list[Pod]]:
    """Jobs, some of them of a JobSet, whose pods are in gangs of their own, in gangs with those of other Jobs, or in
    none.
    """
    chance = random.Random(seed)
    nodes, plain, pods, budgets = small(seed)
    above = Owner("JobSet", "s", "uid-JobSet-s")
    jobs = [msgspec.structs.replace(job, owner=above if chance.random() < 0.4 else None) for job in plain]
    gangs = [
        gang(f"g{i}").min(chance.randint(1, 3)).mode(chance.choice(("gang", "pod")))
        for i in range(chance.randint(1, 3))
    ]
    out = []
    for each in pods:
        made = pod(each.name).cpu(1).on(each.node).priority(each.priority)
        made = made.owner("Job", each.owner.name) if each.owner is not None else made
        if chance.random() < 0.7:
            mine = (
                ord((each.owner.name if each.owner is not None else each.name)[-1]) if chance.random() < 0.6 else seed
            )
            made = made.gang(f"g{(mine + seed) % len(gangs)}")
        out.append(made.obj())
    return [*nodes, *gangs, *budgets, JobSet("d", "s", "uid-JobSet-s")], jobs, out


@pytest.mark.parametrize("seed", range(amount(100, 30)))
@pytest.mark.parametrize("mode", ["elastic", "minimal", "off"])
def test_no_job_ends_by_halves(seed: int, mode: str) -> None:
    """Of a Job and its JobSet all pods are victims, or so few that it survives; whatever gangs they are in."""
    others, jobs, pods = tangled(seed)
    wide = pod("vip").cpu(SLOTS).priority(PREEMPTOR)
    made = plan(*others, *jobs, *pods, wide, gang_mode=mode)["d/vip"]
    gone = set(victims(made))
    for job in jobs:
        mine = [p for p in pods if p.owner is not None and p.owner.name == job.name]
        left = [p for p in mine if p.name in gone]
        if not left or not ends(job, len(left)):
            continue
        together = [j.name for j in jobs if j.owner is not None] if job.owner is not None else [job.name]
        whole = {p.name for p in pods if p.owner is not None and p.owner.name in together}
        assert whole <= gone
        assert not any(v.partial for v in made.victims if v.name in whole and v.method == "suspend")


@pytest.mark.parametrize("together", [False, True])
def test_pods_whose_loss_fails_no_index_leave_singly(together: bool) -> None:
    """Of an Indexed Job with a limit per index those at that limit stay, whatever gang they are in."""
    job = Job("d", "j", "uid-Job-j", completions=4, indexed=True, limit_per_index=1, backoff_limit=99)
    pods = []
    for i in range(4):
        made = pod(f"j-{i}").cpu(1).owner("Job", "j").on(f"n{i}")
        made = made.gang("low") if together else made
        pods.append(msgspec.structs.replace(made.obj(), completion_index=i, index_failures=1 if i < 3 else 0))
    nodes = [node(f"n{i}").cpu(1) for i in range(4)]
    low = [gang("low").min(1)] if together else []
    one = plan(*nodes, *low, job, *pods, pod("vip").cpu(1).priority(10))["d/vip"]
    assert [(v.name, v.method) for v in one.victims] == [("j-3", "delete")]
    two = [pod(f"vip-{i}").cpu(1).priority(10).gang("vip") for i in range(2)]
    both = plan(*nodes, *low, job, *pods, gang("vip").min(2), *two)["d/vip"]
    assert victims(both) == ["j-0", "j-1", "j-2", "j-3"]


def test_a_pod_evicts_none_for_which_its_own_jobset_would_be_suspended() -> None:
    """It could not start then: the plan would be made and given up without end. Others are evicted for it."""
    running_jobs = [p for p in running() if p.name.startswith("train-w-1")]
    strong = member(0, 0).priority(1000)
    cluster = Cluster(node("n2").cpu(4), jobset(), *jobs_of_set(), *running_jobs, strong)
    cluster.run()
    assert writes(cluster.log) == []
    cluster.show(node("n3").cpu(1), pod("other").cpu(1).on("n3"))
    cluster.pass_time(60)
    assert ("Remove", "other") in writes(cluster.log)
