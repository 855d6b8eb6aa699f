"""Who has to leave: nobody in vain, nobody who could stay, the least harmful ones, and never against the rules."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gangsched.core.decision import BIND, GATHERING, PREEMPT, UNSCHEDULABLE, WAIT, Decision, Unschedulable
from gangsched.model.constraints import PodTerm
from gangsched.model.dialects.operators import OPERATORS
from tests.builders import IGNORED, PodBuilder, gang, node, pdb, pod, selects
from tests.core.harness import Built, placed, plan, victims
from tests.core.stories import members


def decided(*objects: Built, **options: Any) -> Decision:
    """The decision for gang d/g at time 1000."""
    return plan(*objects, now=1000.0, **options)["d/g"]


# -- what must hold for every plan -------------------------------------------------------------------------


def test_a_gang_that_cannot_fit_evicts_nobody_and_says_why() -> None:
    """Though one member could be helped, the gang could not: nobody is touched."""
    found = decided(
        node("n1"), node("n2"), pod("a").cpu(4).on("n1"), pod("b").cpu(4).priority(10).on("n2"), *members(3)
    )
    assert (found.outcome, found.victims) == (UNSCHEDULABLE, ())
    assert found.message == (
        "0/2 nodes are available: 2 Insufficient cpu. preemption: "
        "the gang would not fit even if the only lower-priority pod were evicted."
    )
    assert isinstance(found, Unschedulable)
    assert found.blockers == ("d/m3",)
    assert [(s.unit.name, bool(s.reason)) for s in found.spared] == [("d/a", True)]


def test_a_gang_below_its_minimum_says_how_many_are_missing() -> None:
    """A gathering gang evicts nobody, whatever could be gained."""
    found = decided(node("n1"), pod("a").cpu(4).on("n1"), gang("g").min(3), pod("m1").cpu(2).priority(10).gang("g"))
    assert (found.outcome, found.victims, found.required) == (GATHERING, (), 3)
    assert found.message == "1 of 3 members exist; 2 missing"


def test_one_decision_for_the_whole_gang() -> None:
    """All victims for all members are found at once, on all nodes."""
    found = decided(node("n1"), node("n2"), pod("a").cpu(3).on("n1"), pod("b").cpu(3).on("n2"), *members(2, 3))
    assert (found.outcome, victims(found)) == (PREEMPT, ["a", "b"])
    assert sorted(placed(found).values()) == ["n1", "n2"]


def test_room_that_is_free_is_used_first() -> None:
    """Only the member that has no room costs somebody else's."""
    found = decided(node("n1"), node("n2"), pod("a").cpu(3).on("n1"), *members(2))
    assert (found.outcome, victims(found)) == (BIND, [])
    found = decided(node("n1"), node("n2").cpu(2), pod("a").cpu(3).on("n1"), *members(2))
    assert (found.outcome, victims(found)) == (PREEMPT, ["a"])


@pytest.mark.parametrize(("priority", "outcome"), [(9, PREEMPT), (10, UNSCHEDULABLE), (11, UNSCHEDULABLE)])
def test_only_strictly_lower_priority(priority: int, outcome: str) -> None:
    """An equal is never a victim."""
    assert decided(node("n1"), pod("a").cpu(4).priority(priority).on("n1"), *members(1)).outcome == outcome


def test_a_gang_of_equal_priority_is_never_a_victim() -> None:
    """Neither whole nor its surplus."""
    found = decided(
        node("n1"),
        gang("h").min(1),
        *(pod(f"h{i}").cpu(2).priority(10).gang("h").on("n1") for i in (1, 2)),
        *members(1),
    )
    assert (found.outcome, found.victims) == (UNSCHEDULABLE, ())
    assert found.message.endswith("preemption: no lower-priority pods that may be evicted where the gang could run.")


def test_never_means_never() -> None:
    """A single member with preemptionPolicy Never keeps the gang from preempting, not from being placed."""
    mixed: list[Built] = [
        gang("g").min(2),
        pod("m1").cpu(2).priority(10).gang("g"),
        pod("m2").cpu(2).priority(10).gang("g").never(),
    ]
    found = decided(node("n1"), pod("a").cpu(4).on("n1"), *mixed)
    assert (found.outcome, found.victims) == (UNSCHEDULABLE, ())
    assert found.message == (
        "0/1 nodes are available: 1 Insufficient cpu. preemption: not eligible due to preemptionPolicy=Never."
    )
    assert decided(node("n1"), *mixed).outcome == BIND


def test_the_lowest_member_counts_as_preemptor() -> None:
    """A gang's strength is that of its weakest member, with a warning."""
    mixed: list[Built] = [
        gang("g").min(2),
        pod("m1").cpu(2).priority(10).gang("g"),
        pod("m2").cpu(2).priority(3).gang("g"),
    ]
    found = decided(node("n1"), pod("a").cpu(4).priority(5).on("n1"), *mixed)
    assert (found.outcome, found.priority) == (UNSCHEDULABLE, 3)
    assert found.warnings == ("members of d/g differ in priority (3, 10); the lowest counts",)


def test_surplus_members_cause_no_eviction() -> None:
    """Members beyond the minimum take what is left, no more."""
    found = decided(node("n1"), pod("a").cpu(2).on("n1"), gang("g").min(1),
                    *(pod(f"m{i}").cpu(2).priority(10).gang("g") for i in (1, 2)))  # fmt: skip
    assert (found.outcome, victims(found), placed(found)) == (BIND, [], {"m1": "n1"})
    assert [u.pod for u in found.unplaced] == ["d/m2"]


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(1, 3), st.sampled_from((1, 2, 3)), st.integers(0, 12), st.integers(0, 900)),
        min_size=1,
        max_size=9,
    ),
    st.integers(1, 4),
    st.sampled_from((1, 2)),
)
def test_no_victim_could_be_put_back(running: list[tuple[int, int, int, int]], count: int, cores: int) -> None:
    """Every plan is possible and none of its victims is needless; without a plan there are no victims."""
    free = {1: 6, 2: 6, 3: 6}
    pods: list[PodBuilder] = []
    for n, (where, size, priority, started) in enumerate(running):
        if free[where] >= size:
            free[where] -= size
            pods.append(pod(f"v{n}").cpu(size).priority(priority).on(f"n{where}", float(started)))
    nodes = [node(f"n{i}").cpu(6) for i in free]
    found = decided(*nodes, *pods, *members(count, cores))
    gone = set(victims(found))
    assert bool(gone) == (found.outcome == PREEMPT)
    assert all(v.priority < 10 for v in found.victims)

    def fits_without(names: set[str]) -> bool:
        left = [p for p in pods if p.obj().name not in names]
        return decided(*nodes, *left, *members(count, cores)).outcome == BIND

    if gone:
        assert fits_without(gone)
        assert not any(fits_without(gone - {name}) for name in gone)
    elif found.outcome == UNSCHEDULABLE:
        assert not fits_without({p.obj().name for p in pods if p.obj().priority < 10})


# -- who is chosen -----------------------------------------------------------------------------------------

CHOICES: list[tuple[str, list[Built], list[str]]] = [
    ("lower-priority", [pod("a").cpu(4).priority(5).on("n1"), pod("b").cpu(4).priority(1).on("n2")], ["b"]),
    (
        "two-low-rather-than-one-high",
        [pod("a").cpu(4).priority(5).on("n1"), *(pod(f"b{i}").cpu(2).priority(1).on("n2") for i in (1, 2))],
        ["b1", "b2"],
    ),
    ("fewer", [pod("a").cpu(4).on("n1"), *(pod(f"b{i}").cpu(2).on("n2") for i in (1, 2))], ["a"]),
    ("younger", [pod("a").cpu(4).on("n1", 100), pod("b").cpu(4).on("n2", 900)], ["b"]),
    ("by-name", [pod("b").cpu(4).on("n1"), pod("a").cpu(4).on("n2")], ["a"]),
    (
        "pods-rather-than-a-gang",
        [
            gang("h").min(1),
            pod("h1").cpu(4).gang("h").on("n1"),
            *(pod(f"b{i}").cpu(2).on("n2") for i in (1, 2)),
        ],
        ["b1", "b2"],
    ),
    (
        "surplus-rather-than-more-pods",
        [
            gang("h").min(1),
            pod("h1").cpu(4).gang("h").on("n1"),
            pod("h2").cpu(0.1).gang("h").on("n3"),
            *(pod(f"b{i}").cpu(2).on("n2") for i in (1, 2)),
        ],
        ["h1"],
    ),
    (
        "a-budget-steers",
        [
            pdb("p").selects(app="x"),
            pod("a").cpu(4).priority(1).label(app="x").on("n1"),
            pod("b").cpu(4).priority(5).on("n2"),
        ],
        ["b"],
    ),
    (
        "a-budget-with-room-does-not",
        [
            pdb("p").selects(app="x").allows(1),
            pod("a").cpu(4).priority(1).label(app="x").on("n1"),
            pod("b").cpu(4).priority(5).on("n2"),
        ],
        ["a"],
    ),
]


@pytest.mark.parametrize(("objects", "expected"), [c[1:] for c in CHOICES], ids=[c[0] for c in CHOICES])
def test_least_harm(objects: list[Built], expected: list[str]) -> None:
    """Among all places the one whose clearing costs least, by budgets, gangs, pods, work and name."""
    nodes = [node("n1"), node("n2"), node("n3").cpu(1)]
    assert victims(decided(*nodes, *objects, *members(1, 4))) == expected


def test_a_budget_that_must_be_broken_is_said_to_be() -> None:
    """Preferred mode goes beyond a budget when nothing else helps, and marks exactly those pods."""
    found = decided(node("n1"), pdb("p").selects(app="x").allows(1),
                    *(pod(f"a{i}").cpu(2).label(app="x").on("n1") for i in (1, 2)), *members(1, 4))  # fmt: skip
    assert [(v.name, v.over_budget) for v in found.victims] == [("a1", False), ("a2", True)]


def test_strict_budgets_are_never_broken() -> None:
    """Strict mode leaves the gang waiting rather than break a budget, and evicts through the API that checks."""
    running = [pod(f"a{i}").cpu(2).label(app="x").on("n1") for i in (1, 2)]
    objects: list[Built] = [node("n1"), pdb("p").selects(app="x").allows(1), *running]
    found = decided(*objects, *members(1, 4), strict_budgets=True)
    assert (found.outcome, found.victims) == (UNSCHEDULABLE, ())
    found = decided(*objects, *members(1, 2), strict_budgets=True)
    assert [(v.name, v.method) for v in found.victims] == [("a1", "evict")]


def test_a_strict_budget_may_be_spent_on_the_pod_that_helps() -> None:
    """What the budget allows is not reserved for a pod whose leaving would be no use."""
    found = decided(
        node("n1").cpu(2),
        node("n2"),
        pdb("p").selects(app="x").allows(1),
        pod("a").cpu(2).label(app="x").on("n1"),
        pod("b").cpu(4).label(app="x").on("n2"),
        *members(1, 4),
        strict_budgets=True,
    )
    assert victims(found) == ["b"]


def test_pods_under_several_budgets_are_no_candidates_in_strict_mode() -> None:
    """The eviction API refuses them."""
    both = pod("a").cpu(4).label(app="x", tier="y").on("n1")
    budgets = [pdb("p").selects(app="x").allows(5), pdb("q").selects(tier="y").allows(5)]
    assert decided(node("n1"), both, *budgets, *members(1), strict_budgets=True).outcome == UNSCHEDULABLE
    assert decided(node("n1"), both, *budgets, *members(1)).outcome == PREEMPT


def test_a_strict_budget_that_forbids_the_only_plan_is_named() -> None:
    """Not room is missing but permission, and the message says whose."""
    running = [pod(f"a{i}").cpu(2).label(app="x").on("n1") for i in (1, 2)]
    some = decided(node("n1"), pdb("p").selects(app="x").allows(1), *running, *members(1, 4), strict_budgets=True)
    text = "the gang would fit only if more pods were evicted than PodDisruptionBudget d/p allows"
    assert text in some.message
    assert {s.reason for s in some.spared} == {"no choice of victims within the disruption budgets was found"}
    none = decided(node("n1"), pdb("p").selects(app="x").allows(0), *running, *members(1, 4), strict_budgets=True)
    text = "2 further pods may not be evicted because of what PodDisruptionBudget d/p allows"
    assert text in none.message


def under_three_budgets() -> list[Built]:
    """Each budget allows one pod. Pods a and b are under p; b is under q and r too, c under q, d under r."""
    labels = {"a": {"p": "y"}, "b": {"p": "y", "q": "y", "r": "y"}, "c": {"q": "y"}, "d": {"r": "y"}}
    started = {"a": 900.0, "b": 0.0, "c": 0.0, "d": 0.0}
    pods = [pod(n).cpu(4).label(**labels[n]).on(f"n-{n}", started=started[n]) for n in labels]
    nodes = [node(f"n-{n}").label(host=n) for n in labels]
    return [*nodes, *pods, *(pdb(n).selects(**{n: "y"}).allows(1) for n in "pqr")]


def test_a_victim_beyond_one_budget_leaves_the_others_alone() -> None:
    """With a gone, b is beyond p and takes nothing of q and r: taking one more pod can mean one less beyond."""
    high: list[Built] = [node("n-e"), pod("e").cpu(4).priority(9).on("n-e")]
    wanted: list[Built] = [
        gang("g").min(4),
        pod("m0").cpu(4).priority(10).gang("g").selector(host="b"),
        *(pod(f"m{i}").cpu(4).priority(10).gang("g") for i in (1, 2, 3)),
    ]
    found = decided(*under_three_budgets(), *high, *wanted)
    assert [(v.name, v.over_budget) for v in found.victims] == [("a", False), ("b", True), ("c", False), ("d", False)]


def test_nobody_is_evicted_only_to_spare_a_budget() -> None:
    """Less harm by the letter, but the pod could be put back."""
    wanted: list[Built] = [
        gang("g").min(3),
        *(pod(f"m{n}").cpu(4).priority(10).gang("g").selector(host=n) for n in "bcd"),
    ]
    found = decided(*under_three_budgets(), *wanted)
    assert [(v.name, v.over_budget) for v in found.victims] == [("b", False), ("c", True), ("d", True)]


def test_a_pod_that_the_gang_must_run_beside_is_not_evicted() -> None:
    """Without any victims but one there would be nobody to run beside: more victims are not always better."""
    beside = PodTerm("kubernetes.io/hostname", selects(app="db"), ("d",))
    wanted: list[Built] = [
        gang("g").min(2),
        *(pod(f"m{i}").cpu(1).priority(10).gang("g").shape(affinity=(beside,)) for i in (1, 2)),
    ]
    found = decided(
        node("n1").label(**{"kubernetes.io/hostname": "n1"}),
        node("n2").label(**{"kubernetes.io/hostname": "n2"}),
        pod("db").cpu(2).label(app="db").on("n1"),
        pod("x").cpu(1).on("n1"),
        pod("y").cpu(1).on("n1"),
        pod("z").cpu(4).on("n2"),
        *wanted,
    )
    assert (found.outcome, victims(found)) == (PREEMPT, ["x", "y"])


# -- gangs as victims --------------------------------------------------------------------------------------


def running_gang(minimum: int) -> list[Built]:
    """Three members of two cores on three nodes."""
    return [gang("h").min(minimum), *(pod(f"h{i}").cpu(2).gang("h").on(f"n{i}") for i in (1, 2, 3))]


TWO_CORES = [node(f"n{i}").cpu(2) for i in (1, 2, 3)]


@pytest.mark.parametrize(
    ("mode", "minimum", "count", "expected"),
    [
        ("elastic", 2, 1, ["h1"]),
        ("elastic", 2, 2, ["h1", "h2", "h3"]),
        ("elastic", 3, 1, ["h1", "h2", "h3"]),
        ("elastic", 4, 1, ["h1", "h2", "h3"]),
        ("atomic", 1, 1, ["h1", "h2", "h3"]),
        ("minimal", 3, 2, ["h1", "h2"]),
        ("off", 3, 2, ["h1", "h2"]),
    ],
)
def test_gang_modes(mode: str, minimum: int, count: int, expected: list[str]) -> None:
    """How much of a gang goes for one or two members, by mode."""
    found = decided(*TWO_CORES, *running_gang(minimum), *members(count), gang_mode=mode)
    assert victims(found) == expected
    whole = len(expected) == 3
    assert {(v.unit.kind, v.unit.name, v.partial) for v in found.victims} == {("PodGroup", "d/h", not whole)}


def test_a_protected_member_protects_the_core_of_its_gang() -> None:
    """The surplus may go, the whole may not."""
    protected = pod("h1").cpu(2).gang("h").on("n1").labels({"scheduling.koordinator.sh/disable-preemptible": "true"})
    others = [pod(f"h{i}").cpu(2).gang("h").on(f"n{i}") for i in (2, 3)]
    assert decided(*TWO_CORES, gang("h").min(3), protected, *others, *members(1)).outcome == UNSCHEDULABLE
    assert victims(decided(*TWO_CORES, gang("h").min(2), protected, *others, *members(1))) == ["h2"]


def test_a_gang_group_is_taken_whole_across_namespaces() -> None:
    """The other gang of a GangGroup is no use without it."""
    pair = ("d/h", "e/k")
    found = decided(
        node("n1").cpu(2),
        node("n2").cpu(2),
        gang("h").group(*pair),
        gang("k", "e").group(*pair),
        pod("h1").cpu(2).gang("h").on("n1"),
        pod("k1", "e").cpu(2).gang("k").on("n2"),
        *members(1),
    )
    assert [(v.key, v.unit.kind, v.unit.name) for v in found.victims] == [
        ("d/h1", "GangGroup", "d/h,e/k"),
        ("e/k1", "GangGroup", "d/h,e/k"),
    ]


def test_a_job_that_would_fail_is_warned_about() -> None:
    """The Job controller counts a deleted pod as failed; the plan says when that would be one too many."""
    from gangsched.model.records import Job

    objects = [node("n1"), pod("a").cpu(4).owner("Job", "train").on("n1"), *members(1)]
    assert decided(*objects, Job("d", "train", backoff_limit=0)).warnings == (
        "Job d/train would fail: 1 more failed pod exceeds its backoffLimit of 0",
    )
    assert decided(*objects, Job("d", "train", backoff_limit=1)).warnings == ()
    assert decided(*objects, Job("d", "train", backoff_limit=0, failure_rules=IGNORED)).warnings == ()


@pytest.mark.parametrize(("kind", "would"), [("TFJob", "would"), ("JAXJob", "may"), ("PyTorchJob", "")])
def test_an_owner_whose_operator_counts_a_deleted_pod_as_failed_is_warned_about(kind: str, would: str) -> None:
    """Once, however many of its pods leave; not of one that runs again."""
    victims = [pod(name).cpu(2).owner(kind, "train").on("n1") for name in ("a", "b")]
    said = f"{kind} d/train {would} fail: its operator counts a running pod that is deleted as failed"
    assert decided(node("n1"), *victims, *members(1)).warnings == ((said,) if would else ())


@pytest.mark.parametrize(("fragile", "warned"), [(("driver",), True), (("executor",), False), ((), False)])
def test_an_owner_that_is_known_is_warned_about_as_its_policy_says(fragile: tuple[str, ...], *, warned: bool) -> None:
    """Only with a pod of a role of which none may be lost."""
    family = OPERATORS["SparkApplication"].family
    known = gang("train").family(family).field(kind="SparkApplication", fragile=fragile)
    lost = pod("a").cpu(4).owner("SparkApplication", "train").labels({"spark-role": "driver"}).on("n1")
    found = decided(node("n1"), known, lost, *members(1)).warnings
    assert bool(found) == warned
    assert all("SparkApplication d/train would fail" in text for text in found)


@pytest.mark.parametrize(("fragile", "leave"), [((), 1), (("worker",), 3)])
def test_members_whose_loss_fails_their_owner_are_no_surplus(fragile: tuple[str, ...], leave: int) -> None:
    """An elastic gang whose restartPolicy is Never leaves whole, or stays."""
    family = "pytorchjobs.kubeflow.org"
    known = gang("train").family(family).min(1).field(kind="PyTorchJob", fragile=fragile)
    label = {"training.kubeflow.org/replica-type": "worker"}
    running = [pod(f"w{i}").cpu(4).gang("train", family).labels(label).on(f"n{i}") for i in range(3)]
    found = decided(*(node(f"n{i}") for i in range(3)), known, *running, *members(1))
    assert len(found.victims) == leave


def test_what_is_spared_is_said() -> None:
    """Units that could have gone are listed with the reason why they stay."""
    found = decided(node("n1"), node("n2"), pod("a").cpu(4).on("n1"), pod("b").cpu(4).priority(5).on("n2"), *members(1))
    assert [(s.unit.name, s.reason) for s in found.spared] == [("d/b", "the gang fits without its room")]
    assert [v.why for v in found.victims] == ["priority 0 is lower than 10; needed to make room for the gang"]


def test_a_search_that_is_cut_short_says_so_and_is_still_right() -> None:
    """With hardly any steps the plan may be worse, but it fits and is marked."""
    pods = [pod(f"v{i}").cpu(1).priority(i % 3).on(f"n{i % 4 + 1}") for i in range(16)]
    found = decided(*(node(f"n{i}") for i in (1, 2, 3, 4)), *pods, *members(3), search_steps=2)
    assert found.outcome == PREEMPT
    assert found.stopped
    left = [p for p in pods if p.obj().name not in victims(found)]
    assert decided(*(node(f"n{i}") for i in (1, 2, 3, 4)), *left, *members(3)).outcome == BIND


# -- single pods and rooms that are given up ---------------------------------------------------------------


def test_a_single_pod_preempts_by_the_same_rules() -> None:
    """A pod without a group is a gang of one."""
    found = plan(node("n1"), pod("a").cpu(4).on("n1"), pod("p").cpu(2).priority(1))["d/p"]
    assert (found.kind, found.outcome, victims(found)) == ("Pod", PREEMPT, ["a"])


def test_terminating_pods_are_awaited_and_not_evicted_again() -> None:
    """Room that is on its way needs no victims."""
    found = decided(
        node("n1"), node("n2"), pod("t").cpu(4).on("n1").terminating(1000.0), pod("a").cpu(4).on("n2"), *members(1)
    )
    assert (found.outcome, found.victims) == (WAIT, ())
    assert [(a.pod, a.node) for a in found.awaiting] == [("d/t", "n1")]


def test_terminating_pods_may_be_awaited_beside_victims() -> None:
    """What leaves anyway is used, the rest is evicted."""
    found = decided(
        node("n1"), node("n2"), pod("t").cpu(4).on("n1").terminating(1000.0), pod("a").cpu(4).on("n2"), *members(2, 4)
    )
    assert (found.outcome, victims(found), [a.pod for a in found.awaiting]) == (PREEMPT, ["a"], ["d/t"])
