"""What an eviction costs: budgets first, then level by level, then work, then names."""

from __future__ import annotations

import itertools

import pytest

from gangsched.core.preemption.harm import NO_HARM, Budgets, Harm, Loss, from_spec, harm, share
from gangsched.model.records import Pod
from tests.builders import BudgetBuilder, PodBuilder, pdb, pod

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
    assert from_spec(pdb("b").allows(None).field(**spec).obj(), healthy) == allowed


def test_a_budget_without_a_status_counts_the_pods_that_it_selects() -> None:
    """Only matching pods of its namespace are healthy ones."""
    made = [pdb("b").selects(app="x").allows(None).field(min_available=1).obj()]
    running: list[Pod] = [
        pod("a").labels(X).obj(), pod("b").labels(X).obj(), pod("c").obj(), pod("d", "other").labels(X).obj()
    ]  # fmt: skip
    assert Budgets(made, running).allowed == {"d/b": 1}
