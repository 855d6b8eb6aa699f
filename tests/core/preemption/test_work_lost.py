"""Whose eviction costs least, as owners say it: costs, checkpoints and the time that a restart takes."""

from __future__ import annotations

import random

import msgspec
import pytest

from gangsched.core import events as ev
from gangsched.core.actions import Report
from gangsched.core.preemption import branch_and_bound
from gangsched.core.preemption.harm import Harm
from gangsched.model.jobsets import JOBSET, JobSet
from gangsched.model.preemptible import (
    DELETION_COST,
    EVICTION_COST,
    LAST_CHECKPOINT,
    RESTART_COST,
    SKEW_SECONDS,
    VOLCANO_CHECKPOINT,
    stakes_of,
)
from gangsched.model.records import Job, Owner, Stakes
from tests.amounts import amount
from tests.builders import PodBuilder, gang, node, pod
from tests.core.harness import Built, Cluster, plan, victims
from tests.oracle import brute, generate
from tests.oracle.case import decide
from tests.oracle.problem import read

NOW = 10_000.0


def low(name: str, started: float = 0.0, **stakes: float) -> PodBuilder:
    """A pod of priority 1 that fills the node of its name."""
    return pod(name).cpu(4).priority(1).on(name, started).field(stakes=Stakes(**stakes))  # type: ignore[arg-type]


def decided(*pods: Built, now: float = NOW, cpu: float = 4) -> list[str]:
    """Who leaves for a pod that wants a node."""
    hosts = [node(p.obj().node).cpu(4) for p in pods if isinstance(p, PodBuilder)]
    return victims(plan(*hosts, *pods, pod("new").cpu(cpu).priority(9), now=now)["d/new"])


@pytest.mark.parametrize(
    ("first", "second", "leaves"),
    [
        ({"started": 9000.0}, {"started": 0.0}, "a"),
        ({"started": 9000.0}, {"started": 0.0, "checkpoint": 9500.0}, "b"),
        ({"started": 9000.0}, {"started": 0.0, "checkpoint": 8500.0}, "a"),
        ({"started": 9000.0, "checkpoint": 100.0}, {"started": 8000.0}, "a"),  # it has run since the checkpoint
        ({"started": 9000.0, "restart_seconds": 999.0}, {"started": 8000.0}, "a"),
        ({"started": 9000.0, "restart_seconds": 1001.0}, {"started": 8000.0}, "b"),
        ({"started": 9000.0, "cost": 1}, {"started": 0.0}, "b"),
        ({"started": 9000.0}, {"started": 0.0, "cost": -1}, "b"),
        ({"started": 9000.0, "cost": 5}, {"started": 0.0, "cost": 5}, "a"),
    ],
    ids=["younger", "just-saved", "saved-before", "older-checkpoint", "cheap-restart", "dear-restart", "cost",
         "negative-cost", "equal-cost"],
)  # fmt: skip
def test_who_leaves_of_two_that_are_otherwise_equal(
    first: dict[str, float], second: dict[str, float], leaves: str
) -> None:
    """Costs decide first, then the seconds since the later of start and checkpoint, with those of a restart."""
    assert decided(low("a", **first), low("b", **second)) == [leaves]


def test_fewer_pods_count_more_than_costs() -> None:
    """One pod of any cost leaves before two that say they are cheap."""
    cheap = [low(n, cost=-1000).cpu(2).on("two") for n in ("x", "y")]
    dear = low("one", cost=1000)
    found = plan(node("one").cpu(4), node("two").cpu(4), *cheap, dear, pod("new").cpu(4).priority(9), now=NOW)
    assert victims(found["d/new"]) == ["one"]


# -- who says it -------------------------------------------------------------------------------------------------


def of_job(name: str, job: str, **stakes: float) -> PodBuilder:
    """The pod of a Job that survives the loss of it."""
    return low(name, **stakes).field(owner=Owner("Job", job, f"uid-Job-{job}"))


def a_job(name: str, owner: Owner | None = None, **stakes: float) -> ev.Changed:
    """A Job that says something about the loss of its pods."""
    return ev.Changed(Job("d", name, f"uid-Job-{name}", owner=owner, stakes=Stakes(**stakes)))  # type: ignore[arg-type]


def test_the_nearest_wins() -> None:
    """A pod's own checkpoint goes over its Job's, and that over the JobSet's, the older as well as the newer one."""
    above = Owner(JOBSET, "s", "uid-s")
    jobset = ev.Changed(JobSet("d", "s", "uid-s", stakes=Stakes(checkpoint=9900.0)))
    other = low("z", started=9000.0)
    assert decided(of_job("a", "j"), a_job("j"), other) == ["z"]
    assert decided(of_job("a", "j"), a_job("j", checkpoint=9500.0), other) == ["a"]
    assert decided(of_job("a", "j"), jobset, a_job("j", above), other) == ["a"]
    assert decided(of_job("a", "j"), jobset, a_job("j", above, checkpoint=8000.0), other) == ["z"]
    assert decided(of_job("a", "j", checkpoint=9500.0), a_job("j", checkpoint=8000.0), other) == ["a"]
    assert decided(of_job("a", "j", checkpoint=8000.0), a_job("j", checkpoint=9500.0), other) == ["z"]


@pytest.mark.parametrize(
    ("members", "group", "leaves"),
    [((None, None), None, "z"), ((None, None), 9500.0, "g"), ((9500.0, None), None, "g"),
     ((9900.0, 8000.0), None, "z"), ((9900.0, 9500.0), 100.0, "g"), ((8000.0, None), 9900.0, "z")],
)  # fmt: skip
def test_a_gang_has_one_checkpoint(members: tuple[float | None, ...], group: float | None, leaves: str) -> None:
    """The oldest that a member names is that of all of them; the group object's counts where none does."""

    def runs(name: str, started: float, stakes: tuple[float | None, ...], said: float | None) -> list[Built]:
        made = [
            pod(f"{name}{n}").cpu(4).priority(1).gang(name).on(f"{name}{n}", started).field(stakes=Stakes(each))
            for n, each in enumerate(stakes)
        ]
        return [*(node(f"{name}{n}").cpu(4) for n in range(2)), *made, gang(name).min(2).field(stakes=Stakes(said))]

    objects = [*runs("g", 0.0, members, group), *runs("z", 9000.0, (None, None), None)]
    found = plan(*objects, pod("new").cpu(4).priority(9), now=NOW)["d/new"]
    assert {v.unit.name for v in found.victims} == {f"d/{leaves}"}


# -- what it is told by ------------------------------------------------------------------------------------------


def test_plans_say_what_is_lost() -> None:
    """In GPU-hours, or CPU-hours where there is no GPU, and since when work has not been saved; nothing where nobody
    has said anything.
    """

    def says(victim: PodBuilder) -> tuple[str, str]:
        found = plan(node("n").cpu(8).gpu(8), victim.on("n", 0.0), pod("new").cpu(8).priority(9), now=NOW)["d/new"]
        return found.message.partition("; ")[2], found.victims[0].why.rpartition("; ")[2]

    train = pod("t").cpu(8).gpu(4).priority(1)
    assert says(train) == ("", "needed to make room for the gang")
    lost = "0.8 GPU-hours lost, last checkpoint 12m ago"
    assert says(train.field(stakes=Stakes(checkpoint=NOW - 720))) == (lost, lost)
    saved = pod("t").cpu(8).priority(1).field(stakes=Stakes(checkpoint=NOW - 720, restart_seconds=180.0))
    assert says(saved)[0] == "2.0 CPU-hours lost, last checkpoint 12m ago"
    assert says(pod("t").cpu(8).priority(1).field(stakes=Stakes(restart_seconds=800.0)))[0] == "24.0 CPU-hours lost"
    assert says(pod("t").cpu(8).priority(1).field(stakes=Stakes(checkpoint=NOW)))[0].startswith("0.0 CPU-hours lost")


@pytest.mark.parametrize("late", [0.0, 0.5])
def test_a_checkpoint_in_the_future_is_none(late: float) -> None:
    """The pod counts as not saved, and its owner is told, once for all members; a clock may be a little ahead."""
    ahead = NOW + SKEW_SECONDS + late
    running = [low(n, checkpoint=ahead).gang("g") for n in ("a", "b")]
    cluster = Cluster(node("a").cpu(4), node("b").cpu(4), gang("g").min(2))
    cluster.now = NOW
    cluster.show(*running)
    cluster.show(*(msgspec.structs.replace(p.obj(), grace_seconds=5.0) for p in running))
    told = [a for a in cluster.run() if isinstance(a, Report) and a.reason == "InvalidObject"]
    field = f"metadata.annotations[{LAST_CHECKPOINT}]"
    text = f"{field}: the time is in the future; it is ignored"
    assert [a.note for a in told] == ([text] if late else [])
    other = low("z", started=9000.0)
    assert decided(low("a", checkpoint=ahead), other) == (["z"] if late else ["a"])


# -- annotations -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("notes", "expected"),
    [
        ({}, Stakes()),
        ({LAST_CHECKPOINT: "1970-01-01T00:01:40Z"}, Stakes(checkpoint=100.0)),
        ({VOLCANO_CHECKPOINT: "1970-01-01T00:01:40+00:00"}, Stakes(checkpoint=100.0)),
        ({VOLCANO_CHECKPOINT: "1970-01-01T00:01:40Z", LAST_CHECKPOINT: "1970-01-01T00:00:01Z"}, Stakes(checkpoint=1.0)),
        ({RESTART_COST: "1m30s"}, Stakes(restart_seconds=90.0)),
        ({EVICTION_COST: "-7"}, Stakes(cost=-7)),
        ({DELETION_COST: "5", EVICTION_COST: "3"}, Stakes(cost=3)),
        ({DELETION_COST: "5"}, Stakes(cost=5)),
    ],
)
def test_what_annotations_say(notes: dict[str, str], expected: Stakes) -> None:
    """Ours go over those of others, and an eviction cost over a deletion cost; costs count on pods alone."""
    assert stakes_of(notes, of_pod=True) == (expected, None)
    assert stakes_of(notes) == (msgspec.structs.replace(expected, cost=0), None)


@pytest.mark.parametrize(
    ("key", "raw"),
    [
        (LAST_CHECKPOINT, "yesterday"),
        (VOLCANO_CHECKPOINT, "12:00"),
        (RESTART_COST, "5 minutes"),
        (RESTART_COST, "-5m"),
        (EVICTION_COST, "+5"),
        (EVICTION_COST, "05"),
        (EVICTION_COST, "2147483648"),
        (DELETION_COST, "1.5"),
    ],
)
def test_what_cannot_be_read_counts_as_not_said(key: str, raw: str) -> None:
    """And it is known which annotation it was."""
    found, mistake = stakes_of({key: raw}, of_pod=True)
    assert found == Stakes()
    assert mistake is not None
    assert mistake.field == f"metadata.annotations[{key}]"
    assert mistake.message.endswith("it is ignored")


# -- the search --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("by_work", [False, True])
def test_random_clusters_against_all_choices(by_work: bool) -> None:
    """The choice is the least harmful of all, costs of either sign among them, in both orders of harm."""
    looked = 0
    for seed in range(amount(60, 20)):
        chance = random.Random(seed)
        case = generate.case(seed, mixed=seed % 2 == 1, size=generate.TINY)
        case.pods = [msgspec.structs.replace(p, stakes=Stakes(cost=chance.randint(-3, 3))) for p in case.pods]
        case.options = msgspec.structs.replace(case.options, harm_by_work=by_work)
        problem = read(case)
        best: tuple[frozenset[str], Harm] | None = brute.least_harm(problem) if problem.may_preempt else None
        found = decide(case)[0]
        if found.victims:
            assert best is not None
            assert problem.harm({v.uid for v in found.victims})[:-2] == best[1][:-2], seed
            looked += 1
    assert looked > amount(15, 4)


# -- work before pods --------------------------------------------------------------------------------------------


def choose(*pods: PodBuilder, quick: bool = False, **options: bool) -> list[str]:
    """Who leaves for a pod that wants the node of four CPUs called one, or that called many."""
    found = plan(node("one").cpu(4), node("many").cpu(4), *pods, pod("new").cpu(4).priority(9), now=NOW, **options)[
        "d/new"
    ]
    assert found.optimal is None or not options
    return victims(found)


@pytest.mark.parametrize("large", [False, True], ids=["small", "large"])
def test_work_may_count_before_the_number_of_pods(large: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Four pods that have just begun leave before one that has run for long; with the default the one does. So it is
    where there are too many ways to try them all.
    """
    if large:
        monkeypatch.setattr(branch_and_bound, "MAX_DECISIONS", -1)
    many = [pod(f"m{n}").cpu(1).priority(1).on("many", NOW - 10) for n in range(4)]
    one = pod("o").cpu(4).priority(1).on("one", 0.0)
    assert choose(one, *many) == ["o"]
    assert choose(one, *many, harm_by_work=True) == ["m0", "m1", "m2", "m3"]
    saved = one.field(stakes=Stakes(checkpoint=NOW - 9))
    assert choose(saved, *many, harm_by_work=True) == ["o"]


@pytest.mark.parametrize("large", [False, True], ids=["small", "large"])
def test_priority_and_gangs_count_before_work(large: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """However much is lost: nobody of a higher priority leaves for that, and no gang is interrupted for it."""
    if large:
        monkeypatch.setattr(branch_and_bound, "MAX_DECISIONS", -1)
    fresh = pod("o").cpu(4).priority(2).on("one", NOW)
    old = [pod(f"m{n}").cpu(1).priority(1).on("many", 0.0) for n in range(4)]
    assert choose(fresh, *old, harm_by_work=True) == ["m0", "m1", "m2", "m3"]
    member = pod("o").cpu(4).priority(1).light_gang("r", 1).on("one", NOW)
    assert choose(member, *old, harm_by_work=True) == ["m0", "m1", "m2", "m3"]


def test_costs_below_zero_count_as_zero_before_the_number_of_pods() -> None:
    """Else the most pods would be the best choice."""
    cheap = [pod(f"m{n}").cpu(1).priority(1).on("many", NOW).field(stakes=Stakes(cost=-9)) for n in range(4)]
    one = pod("o").cpu(4).priority(1).on("one", NOW)
    assert choose(one, *cheap, harm_by_work=True) == ["o"]
    dear = one.field(stakes=Stakes(cost=1))
    assert choose(dear, *cheap, harm_by_work=True) == ["m0", "m1", "m2", "m3"]
