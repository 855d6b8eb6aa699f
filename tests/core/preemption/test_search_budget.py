"""The budget of a search bounds what is improved, never whether there is a plan, nor the last reprieve."""

from __future__ import annotations

import numpy as np
import pytest

from gangsched.core.decision import UNSCHEDULABLE
from gangsched.core.preemption import settle
from gangsched.core.preemption.search import Choice
from gangsched.model.constraints import PodTerm
from tests.bench.families import catalogue, tight
from tests.bench.families.known import Least
from tests.bench.families.site import FULL
from tests.bench.worlds import cluster
from tests.builders import gang, node, pdb, pod, selects
from tests.core.harness import Built, plan, victims
from tests.core.preemption.asked import Asked, asked, asked_in
from tests.oracle.case import Case

NODES = 36
BUDGETS = (0, 100, 10_000)


def crowded(rule: str, shapes: int, members: int, gang_size: int) -> Case:
    """Full nodes with 504 victims, alone or in gangs, a quarter under budgets."""
    return cluster(
        nodes=NODES, pods=14 * NODES, gang_size=gang_size, members=members, shapes=shapes, rule=rule, budgets=5,
        member=(46, 32),
    )  # fmt: skip


def could_return(asked: Asked, taken: frozenset[int]) -> list[str]:
    """Names of units among these victims without which the gang would fit too."""
    fit, units = asked.fit(), asked.units
    fit.remove(np.array(sorted(taken), dtype=np.int64))
    assert fit.fits()
    wholes = [b for b in units.touched(taken) if units.is_whole(b, set(taken))]
    alone = sorted(taken.difference(s for b in wholes for s in b.whole))
    options = [(b.ref.name, b.array) for b in wholes]
    options += [(units.pod(s).key, np.array([s], dtype=np.int64)) for s in alone]
    out = []
    for name, slots in options:
        fit.give_back(slots)
        if fit.fits():
            out.append(name)
        fit.remove(slots)
    return out


@pytest.mark.parametrize("gang_size", [1, 7])
@pytest.mark.parametrize("rule", ["", "apart", "spread"])
@pytest.mark.parametrize(("shapes", "members"), [(1, 24), (4, 8)])
def test_a_longer_search_is_never_worse(rule: str, shapes: int, members: int, gang_size: int) -> None:
    """With no step at all there is a plan, nothing in any plan could be put back, and harm only falls with the budget;
    only a search that says so was stopped.
    """
    case = crowded(rule, shapes, members, gang_size)
    found: list[Choice] = []
    for steps in BUDGETS:
        asked = asked_in(case)
        choice = asked.search(steps).run()
        assert choice is not None
        assert could_return(asked, choice.taken) == []
        found.append(choice)
    harms = [c.harm for c in found]
    assert harms == sorted(harms, reverse=True)
    assert all(c.stopped or c.taken == found[-1].taken for c in found)
    assert not found[-1].stopped


@pytest.mark.parametrize("steps", [1, 5000])
def test_the_member_that_helps_is_seen_at_once(steps: int) -> None:
    """A gang can spare one member, and the one that helps is not the largest: no budget is too short to see that."""
    found = plan(
        node("n1").cpu(4).memory(16), node("n2").cpu(4).memory(16), node("n3").cpu(4).memory(16), gang("v").min(2),
        pod("v1").cpu(2).gang("v").on("n1"), pod("v2").cpu(3).gang("v").on("n2"),
        pod("v3").cpu(4).gang("v").on("n3").priority(99), pod("keeper").memory(15).cpu(0).on("n2").priority(99),
        pod("g").cpu(3).memory(4).priority(10),
        search_steps=steps,
    )["d/g"]  # fmt: skip
    assert victims(found) == ["v1"]


def test_equal_gangs_are_not_tried_in_every_combination() -> None:
    """Of twenty gangs of two any five would do: that is settled within the budget, and those go that ran least."""
    objects: list[Built] = [node(f"n{i:02d}").cpu(2) for i in range(20)]
    for i in range(20):
        objects.append(gang(f"low{i:02d}").min(2))
        objects += [pod(f"low{i:02d}-{j}").cpu(1).gang(f"low{i:02d}").on(f"n{i:02d}", started=i) for j in (0, 1)]
    objects += [pod(f"m{i}").cpu(2).priority(10).gang("want") for i in range(5)]
    found = plan(*objects, gang("want").min(5).priority(10), now=1000.0)["d/want"]
    assert not found.stopped
    assert found.optimal
    assert {v.unit.name for v in found.victims} == {f"d/low{i}" for i in range(15, 20)}


@pytest.mark.parametrize("nodes", [6, 7, 30])
def test_a_pod_that_members_must_be_near_is_no_cheap_victim(nodes: int) -> None:
    """It has the lowest priority, and without it the node would be no use: what else is there goes."""
    objects: list[Built] = [node(f"n{i:02d}").cpu(4) for i in range(nodes)]
    for i in range(nodes):
        objects.append(pod(f"near{i:02d}").cpu(2).label(app="x").on(f"n{i:02d}"))
        objects.append(pod(f"other{i:02d}").cpu(2).priority(1).on(f"n{i:02d}"))
    near = PodTerm("kubernetes.io/hostname", selects(app="x"), ("d",))
    objects += [pod(f"g{i}").cpu(2).priority(9).gang("g").shape(affinity=(near,)) for i in (0, 1)]
    found = plan(*objects, gang("g").min(2))["d/g"]
    assert [name[:-2] for name in victims(found)] == ["other", "other"]


def test_what_was_not_tried_is_no_proof() -> None:
    """Where a pod that leaves may make the gang fit less, more than a few pods are not tried in every combination: no
    sentence says then that no victims would do.
    """
    objects: list[Built] = [node(f"n{i}").cpu(4) for i in range(7)]
    objects += [pod(f"near{i}").cpu(4).label(app="x").on(f"n{i}") for i in range(7)]
    objects += [pod(f"other{i}").cpu(0).priority(1).on(f"n{i}") for i in range(7)]
    near = PodTerm("kubernetes.io/hostname", selects(app="x"), ("d",))
    found = plan(*objects, pod("g").cpu(2).priority(9).shape(affinity=(near,)))["d/g"]
    assert found.outcome == UNSCHEDULABLE
    assert "would not fit even if all" not in found.message


@pytest.mark.parametrize("seed", [880003, 880036, 880059, 880097])
def test_a_longer_search_among_gangs_is_never_worse(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """In clusters full of gangs for members of up to three kinds: the best of all plans that were come across is taken,
    and nothing in it could be put back, not a member that a gang can spare either.
    """
    monkeypatch.setattr(tight, "_least", lambda _: Least(0, ((0, 0, 1),)))
    made = catalogue.cluster("tight", seed, FULL)
    harms = []
    for steps in (1, 100, 1000, 5000):
        asked = asked_in(made)
        choice = asked.search(steps).run()
        assert choice is not None
        assert could_return(asked, choice.taken) == []
        harms.append(choice.harm)
    assert harms == sorted(harms, reverse=True)


@pytest.mark.parametrize("budgets", [3, settle._ROUNDS, settle._ROUNDS + 1])
@pytest.mark.parametrize("allowed", [1, 2, 3])
def test_what_is_left_of_a_budget_counts_for_the_node_that_goes_beyond_it(allowed: int, budgets: int) -> None:
    """Where a node holds more pods of a budget than it allows, only those more are beyond, from the first plan on."""
    objects: list[Built] = [gang("g").min(budgets)]
    objects += [pod(f"m{n}").cpu(4).priority(9).gang("g") for n in range(budgets)]
    for app in (f"a{n}" for n in range(budgets)):
        objects.append(pdb(app).selects(app=app).allows(allowed))
        for row in range(4):
            objects.append(node(f"{app}-{row}").cpu(4))
            objects += [pod(f"{app}-{row}-{n}").cpu(1).label(app=app).on(f"{app}-{row}") for n in range(4)]
    found = asked(*objects).search(1).run()
    assert found is not None
    assert found.harm.beyond_budget == budgets * (4 - allowed)


def test_what_one_budget_lets_never_go_takes_nothing_from_another() -> None:
    """A pod under a budget that allows none is beyond it, and leaves what another budget allows to other pods."""
    objects: list[Built] = [gang("g").min(2), *(pod(f"m{n}").cpu(1).priority(9).gang("g") for n in range(2))]
    objects += [pdb("none").selects(x="1").allows(0), pdb("one").selects(y="1").allows(1)]
    objects += [node(f"n{n}").cpu(1) for n in range(3)]
    objects.append(pod("both").cpu(1).priority(1).label(x="1", y="1").on("n0"))
    objects.append(pod("allowed").cpu(1).priority(1).label(y="1").on("n1"))
    objects.append(pod("dear").cpu(1).priority(5).label(x="1").on("n2"))
    found = asked(*objects)
    limits = {each.limit: each for each in found.candidates.limited}
    assert found.candidates.slot[limits[1].pods].tolist() == found.slots("allowed").tolist()
    assert set(found.candidates.slot[limits[0].pods].tolist()) == set(found.slots("both", "dear").tolist())
    choice = found.search(1).run()
    assert choice is not None
    assert choice.taken == set(found.slots("both", "allowed").tolist())
    assert choice.harm.beyond_budget == 1
