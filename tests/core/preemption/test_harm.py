"""What an eviction costs: budgets first, then level by level, then work, then names."""

from __future__ import annotations

import itertools

import pytest

from gangsched.core.decision import Unschedulable
from gangsched.core.preemption.harm import NO_HARM, Budgets, Harm, Loss, from_pods, harm, share
from gangsched.model.records import Pod
from tests.builders import BudgetBuilder, PodBuilder, node, pdb, pod
from tests.core.harness import Built, plan

CLUSTER = {"cpu": 10_000.0, "memory": 0.0, "pods": 110.0}


def lost(*builders: PodBuilder) -> list[Loss]:
    """Pods that are taken singly."""
    return [Loss(b.obj(), b.obj().priority) for b in builders]


def cost(
    losses: list[Loss], interrupted: tuple[int, ...] = (), budgets: Budgets | None = None, now: float = 0.0
) -> Harm:
    """Harm in a cluster of ten cores."""
    return harm(losses, interrupted, budgets or Budgets([]), CLUSTER, now)


@pytest.mark.parametrize(
    ("less", "more"),
    [
        (cost([]), cost(lost(pod("a")))),
        (cost(lost(pod("a"))), cost(lost(pod("a"), pod("b")))),
        (cost(lost(pod("a"), pod("b"), pod("c"))), cost(lost(pod("a").priority(1)))),
        (cost(lost(pod("a").priority(5))), cost(lost(pod("a").priority(5), pod("b").priority(1)))),
        (cost(lost(pod("a"), pod("b"))), cost(lost(pod("a")), (0,))),
        (cost(lost(pod("a")), (0,)), cost(lost(pod("b").priority(1)))),
        (cost(lost(pod("a").priority(-5), pod("b").priority(-5))), cost(lost(pod("a").priority(-4)))),
        (cost(lost(pod("b").cpu(1).on("n", 50)), now=100), cost(lost(pod("a").cpu(2).on("n", 50)), now=100)),
        (cost(lost(pod("b").cpu(2).on("n", 80)), now=100), cost(lost(pod("a").cpu(1).on("n", 50)), now=100)),
        (cost(lost(pod("a"))), cost(lost(pod("b")))),
    ],
    ids=["nothing", "fewer-pods", "lower-priority", "level-below", "gangs-before-pods", "gang-below", "negative",
         "smaller", "younger", "name"],
)  # fmt: skip
def test_order_of_harm(less: Harm, more: Harm) -> None:
    """Each criterion decides only what the ones before it leave open."""
    assert less < more
    assert not more < less


def test_budgets_weigh_more_than_anything() -> None:
    """A single pod beyond a budget is worse than any number of others of higher priority."""
    budgets = Budgets([pdb("b").selects(app="x").obj()])
    protected = cost(lost(pod("a").label(app="x")), budgets=budgets)
    others = cost(lost(*(pod(f"p{i}").priority(99) for i in range(20))), (99,), budgets)
    assert protected.beyond_budget == 1
    assert others < protected


def test_no_harm_is_least() -> None:
    """Nothing is less harmful than nothing."""
    assert cost([]) == NO_HARM


def test_a_pod_counts_under_its_unit_level() -> None:
    """Pods of a gang that goes whole count at the gang's priority, not at their own."""
    assert cost([Loss(pod("a").priority(1).obj(), 7)], (7,)).levels == ((7, 1, 1),)


def test_work_is_share_of_the_cluster_times_seconds() -> None:
    """Two of ten cores for 100 seconds are 20; a resource that the cluster does not have counts nothing."""
    made = pod("a").cpu(2).memory(4).on("n", 100).obj()
    assert share(made, CLUSTER) == pytest.approx(0.2)
    assert cost([Loss(made, 0)], now=200).work == pytest.approx(20)
    assert cost([Loss(made, 0)], now=50).work == 0


def test_harm_does_not_depend_on_the_order_of_the_losses() -> None:
    """Sums of fractions are rounded, names are sorted."""
    losses = lost(*(pod(f"p{i}").cpu(0.1 * (i + 1)).on("n", float(i)) for i in range(5)))
    assert len({cost(list(order), now=1000.3) for order in itertools.permutations(losses)}) == 1


# -- budgets -----------------------------------------------------------------------------------------------


def beyond(budgets: list[BudgetBuilder], *victims: PodBuilder) -> list[str]:
    """Names of the victims beyond a budget."""
    pods = [v.obj() for v in victims]
    found = Budgets([b.obj() for b in budgets]).beyond(pods)
    return sorted(p.name for p in pods if p.uid in found)


X, Y = {"app": "x"}, {"tier": "y"}


@pytest.mark.parametrize(
    ("budgets", "victims", "expected"),
    [
        ([], [pod("a").labels(X)], []),
        ([pdb("b").selects(app="x")], [pod("a").labels(X), pod("c")], ["a"]),
        ([pdb("b").selects(app="x").allows(1)], [pod("a").labels(X), pod("c").labels(X)], ["c"]),
        ([pdb("b").selects(app="x").allows(1)], [pod("a").labels(X), pod("c").labels(X).priority(9)], ["a"]),
        ([pdb("b").selects(app="x").allows(-3)], [pod("a").labels(X)], ["a"]),
        ([pdb("b", "other").selects(app="x")], [pod("a").labels(X)], []),
        ([pdb("b")], [pod("a")], ["a"]),
        ([pdb("b").field(selector=None)], [pod("a")], []),
        ([pdb("b").selects(app="x").field(disrupted=("a",))], [pod("a").labels(X)], []),
        (
            [pdb("b").selects(app="x").allows(0), pdb("c").selects(tier="y").allows(1)],
            [pod("a").labels(X).labels(Y), pod("z").labels(Y)],
            ["a"],
        ),
        (
            [pdb("b").selects(app="x").allows(2), pdb("c").selects(tier="y").allows(1)],
            [pod("a").labels(X).labels(Y), pod("c").labels(Y), pod("d").labels(X)],
            ["c"],
        ),
    ],
    ids=["none", "selected", "second", "higher-priority-first", "negative", "namespace", "everything", "no-selector",
         "charged-already", "beyond-takes-nothing", "one-from-each"],
)  # fmt: skip
def test_beyond(budgets: list[BudgetBuilder], victims: list[PodBuilder], expected: list[str]) -> None:
    """Victims are walked by priority, then name; each takes one from every budget that selects it, or goes beyond."""
    assert beyond(budgets, *victims) == expected


@pytest.mark.parametrize(
    ("spec", "healthy", "allowed"),
    [
        ({"min_available": 2}, 5, 3),
        ({"min_available": 7}, 5, 0),
        ({"min_available": "50%"}, 5, 2),
        ({"min_available": 0}, 5, 5),
        ({"max_unavailable": 1}, 5, 1),
        ({"max_unavailable": "30%"}, 5, 2),
        ({"max_unavailable": 0}, 5, 0),
        ({}, 5, 4),
    ],
)
def test_budget_from_its_spec(spec: dict[str, object], healthy: int, allowed: int) -> None:
    """Without a status the budget follows from the pods that run; percentages are rounded up."""
    pods = [pod(f"p{i}").on("n").obj() for i in range(healthy)]
    assert from_pods(pdb("b").allows(None).field(**spec).obj(), pods).allowed == allowed


def test_pods_that_are_not_ready_are_expected_and_not_healthy() -> None:
    """A budget without a status allows as many disruptions less."""
    pods = [pod(f"p{i}").on("n").field(ready=i > 0).obj() for i in range(5)]
    budget = from_pods(pdb("b").allows(None).field(max_unavailable=2).obj(), pods)
    assert (budget.healthy, budget.desired, budget.allowed) == (4, 3, 1)


@pytest.mark.parametrize(
    ("spec", "allowed"),
    [({"max_unavailable": 2}, 0), ({"min_available": "20%"}, 0), ({"min_available": 1}, 4)],
)
def test_a_share_of_pods_without_a_scale(spec: dict[str, object], allowed: int) -> None:
    """The disruption controller cannot compute it for the pods of a Job, and allows nothing."""
    pods = [pod(f"p{i}").on("n").owner("Job", "j").obj() for i in range(5)]
    assert from_pods(pdb("b").allows(None).field(**spec).obj(), pods).allowed == allowed


CROWDED, ENOUGH = {"healthy": 1, "desired": 2}, {"healthy": 2, "desired": 2}


@pytest.mark.parametrize(
    ("victim", "status", "leaves"),
    [
        ({}, {}, False),
        ({"phase": "Pending"}, {}, True),
        ({"ready": False}, CROWDED, False),
        ({"ready": False}, ENOUGH, True),
        ({"ready": False}, {"healthy": 0, "desired": 0}, False),
        ({"ready": False}, {**CROWDED, "always_allow": True}, True),
        ({}, {**ENOUGH, "always_allow": True}, False),
    ],
    ids=["ready", "pending", "unready", "enough-others", "none-desired", "always", "always-but-ready"],
)
@pytest.mark.parametrize("strict", [True, False])
def test_pods_that_the_eviction_api_lets_go(
    victim: dict[str, object], status: dict[str, object], leaves: bool, strict: bool
) -> None:
    """A budget has no say about a pod that has not started, or is not ready beside enough others."""
    other = pod("other").labels(X).priority(1).cpu(4).on("n2")
    taken = pod("taken").labels(X).priority(2).cpu(4).on("n1").field(**victim)
    budget = pdb("b").selects(app="x").allows(0).field(**status)
    objects: list[Built] = [node("n1").cpu(4), node("n2").cpu(4), budget, other, taken, pod("new").priority(9).cpu(4)]
    made = plan(*objects, strict_budgets=strict)["d/new"]
    victims = [] if isinstance(made, Unschedulable) else [victim.name for victim in made.victims]
    assert victims == (["taken"] if leaves else [] if strict else ["other"])


def test_a_status_of_an_earlier_spec_allows_nothing() -> None:
    """The API server refuses evictions until the disruption controller has computed the budget anew."""
    found = Budgets([pdb("b").allows(1).field(outdated=True).obj()])
    assert found.beyond([pod("a").on("n").obj()])
    assert found.unbreakable([pod("a").on("n").obj()])


def test_two_budgets_of_a_pod_that_is_not_ready() -> None:
    """The API refuses to evict it, ready or not; a pod that has not started goes whatever its budgets say."""
    budgets = [pdb(name).allows(1).field(always_allow=True).obj() for name in "bc"]
    assert Budgets(budgets).unbreakable([pod("a").on("n").field(ready=False).obj()])
    assert not Budgets(budgets).unbreakable([pod("a").on("n").phase("Pending").obj()])


def test_a_budget_without_a_status_counts_the_pods_that_it_selects() -> None:
    """Only matching pods of its namespace are healthy ones."""
    made = [pdb("b").selects(app="x").allows(None).field(min_available=1).obj()]
    running: list[Pod] = [
        pod("a").labels(X).obj(), pod("b").labels(X).obj(), pod("c").obj(), pod("d", "other").labels(X).obj()
    ]  # fmt: skip
    assert Budgets(made, running).allowed == {"d/b": 1}
