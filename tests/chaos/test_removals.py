"""Whom the judge lets a process remove, and what plans may take together, by what it had been told."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pytest

from gangsched.cluster.sim import history as log
from gangsched.cluster.sim.history import Cause
from gangsched.core.actions import Mark, Remove, Unmark
from gangsched.core.actuation.records import EvictionOwner, Owners, written
from gangsched.core.decision import Placement, Preempt, UnitRef, Victim
from gangsched.core.events import Changed, Event, Gone
from gangsched.core.lifecycle.report import mark_message
from gangsched.messages.notes import rolling_back
from gangsched.model.queues import QUEUE_LABEL
from gangsched.model.records import PREEMPT_NEVER, SINGLE, Condition, GangId
from tests.builders import OURS, SIGS, PodBuilder, gang, node, pdb, pod
from tests.chaos.checks import charged
from tests.chaos.made_up import about, does, played, told
from tests.chaos.play import Played
from tests.chaos.removals import Allowed
from tests.chaos.told import judged
from tests.core.harness import Built

FOR_G = mark_message(OURS, "d/g", "d/m1")
MEMBER = pod("m1").gang("g").priority(5).cpu(4)
THERE: list[Built] = [node("n1").cpu(8), gang("g").min(1), MEMBER, pod("v").priority(3).cpu(4).on("n1")]

#: What the process is told before the removal, and what is wrong with it then.
WRONG: dict[str, tuple[Built | Event, str]] = {
    "all is well": (pod("other"), ""),
    "ended": (pod("v").priority(3).cpu(4).on("n1").phase("Succeeded"), "it has ended"),
    "gone": (Gone("Pod", "d", "v", "uid-d-v"), "it is known to be gone"),
    "not lower": (pod("v").priority(5).cpu(4).on("n1"), "its priority 5 is not below 5"),
    "joined by a weaker one": (pod("m2").gang("g").priority(3), "its priority 3 is not below 3"),
    "joined by one that may not": (pod("m2").gang("g").priority(9).never(), "that gang does not preempt"),
    "of less priority": (gang("g").min(1).priority(2), "its priority 3 is not below 2"),
    "not to preempt": (gang("g").min(1).field(preemption_policy=PREEMPT_NEVER), "that gang does not preempt"),
    "whole": (pod("m2").gang("g").priority(5).on("n2"), "that gang lacks nobody"),
    "without its group": (Gone("PodGroup", "d", "g", group=SIGS), "that gang lacks nobody"),
    "without members": (Gone("Pod", "d", "m1", "uid-d-m1"), "nobody is left of that gang"),
}


def wrong(run: Played) -> list[str]:
    """Why the victims of a run may not leave."""
    return [text.rpartition(": ")[2] for text in judged(run.batches, Allowed, run.processes)]


@pytest.mark.parametrize("case", WRONG)
def test_a_removal_that_what_is_known_forbids_is_found(case: str) -> None:
    """The victim or the gang is not what it was when the plan was made, and the process has been told."""
    change, text = WRONG[case]
    run = played(*THERE)
    told(run, *THERE)
    told(run, change, asks=[Remove(3, about(run, "v"), mark=FOR_G)])
    assert wrong(run) == [text] * bool(text)


def test_between_workloads_of_queues_it_is_not_priority_that_decides() -> None:
    """Both name a queue; one that does is not enough."""
    in_queue = pod("v").priority(9).cpu(4).on("n1").labels({QUEUE_LABEL: "team"})
    for also, found in (([], 1), ([pod("m1").gang("g").priority(5).cpu(4).labels({QUEUE_LABEL: "team"})], 0)):
        run = played(*THERE)
        told(run, *THERE)
        told(run, in_queue, *also, asks=[Remove(3, about(run, "v"), mark=FOR_G)])
        assert len(wrong(run)) == found


@pytest.mark.parametrize(
    ("who", "text"),
    [
        (pod("x").gang("g").owner("Job", "j"), ""),
        (pod("x").gang("g").owner("Job", "j").on("n1").phase("Succeeded"), "it has ended"),
        (pod("x").gang("h").owner("Job", "j"), "it is no member"),
        (pod("x").gang("g"), "nobody makes it again"),
        (pod("x").gang("g").owner("DaemonSet", "s"), "nobody makes it again"),
    ],
)
def test_a_rollback_takes_members_that_a_controller_makes_again(who: PodBuilder, text: str) -> None:
    """Their priority does not count."""
    owner = written(Owners.of([EvictionOwner("p", "rollback", OURS, "d/g")]))
    run = played(node("n1").cpu(8), who if text == "it has ended" else who.on("n1"))
    back = rolling_back(scheduler=OURS, gang="d/g", trigger="d/m1")
    does(run, Mark(1, about(run, "x"), back, owners=owner))
    told(run, *run.world.store.listing())
    told(run, asks=[Remove(2, about(run, "x"), mark=back)])
    assert wrong(run) == [text] * bool(text)


# -- what plans take together --------------------------------------------------------------------------------------

WEB = [pod(f"web{i}").label(app="web").on("n1") for i in range(4)]
LOW = [pod(f"low{i}").gang("low").on("n1") for i in range(3)]
WAITING = [pod(name).priority(5) for name in ("h", "k")]


def there(*objects: Built, mode: str = "elastic") -> Played:
    """Two pods wait beside these objects."""
    run = played(node("n1"), *objects, *WAITING, gang_mode=mode)
    told(run, *run.world.store.listing())
    return run


def takes(run: Played, gang: str, *names: str, over: Sequence[str] = (), removes: bool = True) -> None:
    """A plan for this gang takes these pods, ``over`` of them beyond a budget, and they leave at once, if it does."""
    victims = tuple(Victim.of(run.world.store.pods["d", n], UnitRef("Pod", n), over_budget=n in over) for n in names)
    place = Placement("d", gang, about(run, gang).uid, "n1")
    decision = Preempt(GangId(SINGLE, "d", gang, OURS), "Pod", (), 5, 1, placements=(place,), victims=victims)
    text = mark_message(OURS, f"d/{gang}", f"d/{gang}")
    told(run, decides=[decision], asks=[Remove(3, about(run, n), mark=text) for n in names if removes])


def later(run: Played, key: str, allowed: int, **fields: object) -> None:
    """This status of a budget is told."""
    shown = msgspec.structs.replace(run.world.store.budgets["d", key], allowed=allowed, **fields)
    run.world.store.apply(Changed(shown), Cause(log.USER, log.CHANGE))
    told(run, *run.world.store.listing())


@pytest.mark.parametrize(
    ("first", "second", "over", "found"),
    [
        (("web0", "web1"), (), (), 0),
        (("web0", "web1", "web2"), (), (), 1),
        (("web0", "web1", "web2"), (), ("web2",), 0),
        (("web0",), ("web1",), (), 0),
        (("web0",), ("web1", "web2"), (), 1),
        (("web0",), ("web1", "web2"), ("web2",), 0),
        (("web0", "web1"), ("web2",), (), 1),
    ],
)
@pytest.mark.parametrize("reworded", [False, True])
def test_plans_that_spend_a_budget_twice_are_found(
    first: Sequence[str], second: Sequence[str], over: Sequence[str], found: int, reworded: bool
) -> None:
    """Of four replicas two have to be available. The status says nothing of who leaves for the first plan, and still
    does not where it is shown again with another change. What a plan announces is no surprise.
    """
    run = there(pdb("keep").selects(app="web").field(min_available=2), *WEB)
    takes(run, "h", *first, over=over)
    if reworded:
        later(run, "keep", 2, min_available="50%")
    if second:
        takes(run, "k", *second, over=over)
    assert len(charged(run)) == found


def test_a_status_that_is_another_counts_what_has_left_before() -> None:
    """A budget is charged once."""
    run = there(pdb("keep").selects(app="web").field(min_available=1), *WEB)
    takes(run, "h", "web0")
    later(run, "keep", 2)
    takes(run, "k", "web1", "web2")
    assert charged(run) == []


@pytest.mark.parametrize(
    ("first", "second", "mode", "found"),
    [
        (("low0",), (), "elastic", []),
        (("low0",), ("low1",), "elastic", ["1 of 2 of d/low"]),
        (("low0",), ("low1", "low2"), "elastic", []),
        (("low0", "low1"), (), "elastic", ["2 of 3 of d/low"]),
        (("low0", "low1"), (), "minimal", []),
        (("low0",), (), "atomic", ["1 of 3 of d/low"]),
    ],
)
@pytest.mark.parametrize("removes", [True, False])
def test_plans_that_take_the_same_surplus_are_found(
    first: Sequence[str], second: Sequence[str], mode: str, found: list[str], removes: bool
) -> None:
    """Of a gang of three two are enough: one may go singly, or all together. A plan that removes nobody takes nothing,
    and others count on it all the same.
    """
    run = there(gang("low").min(2), *LOW, mode=mode)
    takes(run, "h", *first, removes=removes or not second)
    if second:
        takes(run, "k", *second)
    assert [text.partition("takes ")[2] for text in charged(run)] == found


@pytest.mark.parametrize("taken_back", [True, False])
def test_a_mark_that_is_being_taken_back_is_of_no_pod_that_leaves(taken_back: bool) -> None:
    """The write has failed, and is repeated: a gang of three from which one leaves keeps the two that it needs."""
    leaves = Condition("True", "Preempted", mark_message(OURS, "d/k", "d/k"))
    low = [*LOW[:2], pod("low2").gang("low").on("n1").field(disruption=leaves)]
    run = played(node("n1"), gang("low").min(2), *low, *WAITING, gang_mode="elastic")
    told(run, *run.world.store.listing(), asks=[Unmark(2, about(run, "low2"), "spared")] * taken_back)
    takes(run, "h", "low0")
    assert bool(charged(run)) != taken_back
