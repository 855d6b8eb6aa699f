"""What the judge wants of plans that share budgets and gangs, by what their process had been told."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from gangsched.cluster.sim import history as log
from gangsched.cluster.sim.history import Cause
from gangsched.core.actions import Bind, Mark, Nominate, Remove, Unmark, WithdrawNomination
from gangsched.core.actuation.records import EvictionOwner, Intent, Owners, written
from gangsched.core.decision import Placement, Preempt, UnitRef, Victim
from gangsched.core.events import Changed, Event, Gone, Outcome, WriteDone
from gangsched.core.ledger.condemned import Condemned
from gangsched.core.lifecycle.report import mark_message
from gangsched.core.preemption.harm import Budgets
from gangsched.model.records import SINGLE, GangId
from tests.builders import OURS, gang, node, pdb, pod
from tests.chaos.__main__ import run as play_seed
from tests.chaos.made_up import about, deleted, does, played, told
from tests.chaos.play import Played, play
from tests.chaos.scenario import scenario
from tests.chaos.together import taken_together
from tests.core.harness import Built

WEB = [pod(f"web{i}").label(app="web").on("n1") for i in range(4)]
LOW = [pod(f"low{i}").gang("low").on("n1") for i in range(3)]
WAITING = [pod(name).priority(5) for name in ("h", "k")]


def seen(run: Played) -> list[Event]:
    """All that is there now."""
    return run.world.store.listing()


def replicas(process: int = 1) -> Played:
    """Of four replicas two have to be available."""
    keep = pdb("keep").selects(app="web").field(min_available=2)
    run = played(node("n1"), keep, *WEB, *WAITING)
    told(run, *seen(run), process=process)
    return run


def three(*more: Built, **options: Any) -> Played:
    """Of three members two have to stay."""
    run = played(node("n1"), gang("low").min(2), *LOW, *more, *WAITING, **options)
    told(run, *seen(run))
    return run


def takes(
    run: Played,
    gang: str,
    *names: str,
    over: Sequence[str] = (),
    also: Sequence[str] = (),
    process: int = 1,
    stay: bool = False,
    marked: bool = True,
    asks: Sequence[Unmark] = (),
) -> None:
    """A plan for this gang takes these pods, ``over`` of them beyond a budget, and they leave at once, or ``stay``; so
    do those that it ``also`` counts on. In the same moment its process ``asks`` for more. They stay as long as they are
    not ``marked``.
    """
    ident = f"plan of {gang}"
    victims = tuple(Victim.of(run.world.store.pods["d", n], UnitRef("Pod", n), over_budget=n in over) for n in names)
    place = Placement("d", gang, about(run, gang).uid, "n1")
    decision = Preempt(GangId(SINGLE, "d", gang, OURS), "Pod", (), 5, 1, placements=(place,), victims=victims)
    owner = EvictionOwner(ident, "preemption", OURS, f"d/{gang}", gang)
    text, owners = mark_message(OURS, f"d/{gang}", f"d/{gang}"), written(Owners.of([owner]))
    nominate = Nominate(1, about(run, gang), "n1", ident, written(Intent(ident, len(names))))
    names = (*names, *also) if marked else ()
    marks = [Mark(2, about(run, name), text, owners=owners) for name in names]
    told(run, decides=[decision], asks=[nominate, *marks, *asks], process=process)
    does(run, nominate, *marks, *(Remove(3, about(run, name), mark=text) for name in names if not stay))


def later(run: Played, seconds: float) -> None:
    """So much time passes; then all that there is is told."""
    run.world.clock.advance_to(run.world.clock.now + seconds)
    told(run, *seen(run))


def test_a_plan_that_takes_what_its_budget_does_not_allow_is_found() -> None:
    """What it announces is no surprise, be it too much."""
    for over, found in (((), 1), (("web2",), 0), (("web0", "web1", "web2"), 0)):
        run = replicas()
        takes(run, "h", "web0", "web1", "web2", over=over)
        assert len(taken_together(run)) == found


@pytest.mark.parametrize(
    ("first", "second", "over", "found"),
    [
        (("web0",), ("web1",), (), []),
        (("web0",), ("web1", "web2"), (), ["allows 1 beside ['d/web0']"]),
        (("web0",), ("web1", "web2"), ("web2",), []),
        (("web0", "web1"), ("web2",), (), ["allows 0 beside ['d/web0', 'd/web1']"]),
        (("web0", "web1"), ("web2",), ("web2",), []),
    ],
)
@pytest.mark.parametrize("reworded", [False, True])
def test_plans_that_spend_a_budget_twice_are_found(
    first: Sequence[str], second: Sequence[str], over: Sequence[str], found: list[str], reworded: bool
) -> None:
    """The second of them is made with the status that the first had: it says nothing of who leaves for that. So it
    does if it is shown again with another change.
    """
    run = replicas()
    takes(run, "h", *first)
    if reworded:
        shown = msgspec.structs.replace(run.world.store.budgets["d", "keep"], min_available="50%")
        run.world.store.apply(Changed(shown), Cause(log.USER, log.CHANGE))
        told(run, *seen(run))
    takes(run, "k", *second, over=over)
    assert [text.partition("keep, which ")[2] for text in taken_together(run)] == found


@pytest.mark.parametrize(("second", "found"), [(("web1",), 0), (("web1", "web2"), 1)])
def test_a_status_that_counts_a_pod_charges_it_once(second: Sequence[str], found: int) -> None:
    """It was computed since that pod began to leave."""
    run = replicas()
    takes(run, "h", "web0")
    later(run, 0.2)
    takes(run, "k", *second)
    assert len(taken_together(run)) == found


def test_a_status_that_is_the_same_when_it_is_computed_anew_counts_too() -> None:
    """One pod has gone and another has come meanwhile, so that it is told no more."""
    run = replicas()
    takes(run, "h", "web0")
    run.world.apply(Changed(pod("web4").label(app="web").on("n1").obj()))
    later(run, 0.2)
    takes(run, "k", "web1", "web2")
    assert taken_together(run) == []


def test_a_plan_that_evicts_no_pod_takes_nothing() -> None:
    """One of its victims ends by itself, and the plan may be given up for that."""
    run = replicas()
    takes(run, "h", "web0", "web1", "web2", stay=True)
    ended = msgspec.structs.replace(run.world.store.pods["d", "web0"], phase="Succeeded")
    run.world.store.put_pod(ended, Cause(log.KUBELET, log.SUCCEED))
    assert taken_together(run) == []


@pytest.mark.parametrize(
    ("gone", "found"), [(["web0"], []), (["low0", "web0"], []), (["low0", "low1"], ["2 of 3 of d/low"])]
)
def test_a_gang_of_which_a_plan_does_not_evict_all_that_it_takes_may_be_whole(
    gone: Sequence[str], found: list[str]
) -> None:
    """The plan was made for one that takes the third member, and may be given up with that: others stay, too."""
    run = three(*WEB)
    takes(run, "h", "low0", "low1", "web0", stay=True)
    does(run, *(Remove(3, about(run, name)) for name in gone))
    assert [text.partition("takes ")[2] for text in taken_together(run)] == found


def test_what_is_evicted_for_the_plan_of_a_later_process_is_not_for_that_of_the_one_before() -> None:
    """That has died before it had nominated all members for which its plan was made."""
    run = three()
    takes(run, "h", "low0", "low1", stay=True)
    told(run, *seen(run), process=2)
    takes(run, "k", "low0", "low1", "low2", process=2)
    assert taken_together(run) == []


@pytest.mark.parametrize(
    ("removed", "outcome", "found"),
    [(False, Outcome.OK, 0), (True, Outcome.OK, 1), (True, Outcome.TRANSIENT, 1), (True, Outcome.OUTDATED, 0)],
)
def test_who_is_let_off_is_charged_if_its_removal_may_have_had_an_effect(
    removed: bool, outcome: Outcome, found: int
) -> None:
    """It is gone by then, or has ended by itself, and the process has not been told."""
    run = replicas()
    takes(run, "h", "web0", stay=True)
    web0 = about(run, "web0")
    told(run, asks=[Remove(3, web0)] * removed)
    deleted(run, "web0")
    told(run, *[WriteDone(3, outcome)] * removed, asks=[Unmark(4, web0, "no longer needed", "PreemptionByScheduler")])
    takes(run, "k", "web1", "web2")
    assert len(taken_together(run)) == found


@pytest.mark.parametrize(("over", "found"), [(("web0",), 0), ((), 1)])
def test_who_may_have_left_before_and_is_announced_beyond_the_budget_is_no_fault(
    over: Sequence[str], found: int
) -> None:
    """The answer to its removal for another was lost, and it is let off: who takes it says that it is one too many."""
    run = replicas()
    takes(run, "h", "web0", stay=True)
    web0 = about(run, "web0")
    unmark = Unmark(4, web0, "no longer needed", "PreemptionByScheduler")
    told(run, asks=[Remove(3, web0)])
    told(run, WriteDone(3, Outcome.TRANSIENT), asks=[unmark])
    takes(run, "k", "web0", "web1", "web2", over=over)
    assert len(taken_together(run)) == found


@pytest.mark.parametrize(
    ("spared", "refused", "found"), [(False, False, []), (True, False, ["2 of 3 of d/low"]), (True, True, [])]
)
def test_who_is_never_to_stay_leaves_for_whomever_it_is_in_the_end(
    spared: bool, refused: bool, found: list[str]
) -> None:
    """The plan before is given up, and a later one takes its victim: a plan between them has counted on that. Who stays
    since the API has refused its removal has not been spared.
    """
    run = three(pod("z").priority(5))
    takes(run, "h", "low0", stay=True)
    takes(run, "k", "low1", "low2")
    if refused:
        told(run, asks=[Remove(3, about(run, "low0"))])
        told(run, WriteDone(3, Outcome.REFUSED))
    if spared:
        told(run, asks=[Unmark(4, about(run, "low0"), "no longer needed", "PreemptionByScheduler")])
    takes(run, "z", "low0")
    assert [text.partition("takes ")[2] for text in taken_together(run)] == found


@pytest.mark.parametrize(("later", "found"), [(False, []), (True, ["2 of 3 of d/low"])])
def test_a_mark_that_is_taken_back_in_the_moment_of_a_plan_may_be_so_after_it(later: bool, found: list[str]) -> None:
    """The plan counts on the pod, which ends by itself before it is marked for that plan."""
    run = three()
    takes(run, "h", "low0", stay=True)
    unmark = Unmark(4, about(run, "low0"), "no longer needed", "PreemptionByScheduler")
    if later:
        told(run, asks=[unmark])
    takes(run, "k", "low1", "low2", asks=[] if later else [unmark])
    ended = msgspec.structs.replace(run.world.store.pods["d", "low0"], phase="Succeeded")
    run.world.store.put_pod(ended, Cause(log.KUBELET, log.SUCCEED))
    assert [text.partition("takes ")[2] for text in taken_together(run)] == found


@pytest.mark.parametrize(
    ("gone", "over", "found"),
    [
        (True, None, []),
        (False, None, ["2 of 3 of d/low"]),
        (True, WithdrawNomination, ["2 of 3 of d/low"]),
        (True, Bind, ["2 of 3 of d/low"]),
        (True, Gone, ["2 of 3 of d/low"]),
    ],
)
def test_who_is_gone_before_it_is_marked_was_to_leave(
    gone: bool, over: type[WithdrawNomination | Bind | Gone] | None, found: list[str]
) -> None:
    """The plan between has counted on that: of the gang nobody runs on. So it may not once the plan is over."""
    run = three()
    takes(run, "h", "low0", marked=False)
    preemptor = about(run, "h")
    if over is Gone:
        told(run, Gone("Pod", "d", "h", preemptor.uid))
    elif over is not None:
        told(
            run, asks=[Bind(5, preemptor, "n1") if over is Bind else WithdrawNomination(5, preemptor, "Withdrawn", "")]
        )
    takes(run, "k", "low1", "low2")
    if gone:
        uid = about(run, "low0").uid
        deleted(run, "low0")
        told(run, Gone("Pod", "d", "low0", uid))
    assert [text.partition("takes ")[2] for text in taken_together(run)] == found


def test_what_others_delete_and_is_not_counted_yet_is_no_fault() -> None:
    """A plan has the status that was told when it was made."""
    run = replicas()
    deleted(run, "web3")
    takes(run, "h", "web0", "web1")
    assert taken_together(run) == []


def test_a_process_that_takes_over_knows_of_what_leaves_for_its_predecessor() -> None:
    """It stands on the pods."""
    run = replicas()
    takes(run, "h", "web0")
    told(run, *seen(run), process=2)
    takes(run, "k", "web1", "web2", process=2)
    assert len(taken_together(run)) == 1


@pytest.mark.parametrize(
    ("first", "second", "options", "found"),
    [
        (("low0",), (), {}, []),
        (("low0",), ("low1",), {}, ["1 of 2 of d/low"]),
        (("low0",), ("low1", "low2"), {}, []),
        (("low0", "low1"), (), {}, ["2 of 3 of d/low"]),
        (("low0", "low1"), (), {"gang_mode": "minimal"}, []),
        (("low0",), (), {"gang_mode": "atomic"}, ["1 of 3 of d/low"]),
    ],
)
def test_plans_that_take_the_same_surplus_are_found(
    first: Sequence[str], second: Sequence[str], options: dict[str, str], found: list[str]
) -> None:
    """Of a gang of three two are enough: one may go singly, or all together."""
    run = three(gang_mode=options.get("gang_mode", "elastic"))
    takes(run, "h", *first)
    if second:
        takes(run, "k", *second)
    assert [text.partition("takes ")[2] for text in taken_together(run)] == found


def test_what_is_left_of_a_gang_leaves_with_those_that_another_plan_was_to_remove() -> None:
    """That plan was given up, and the pod leaves for the other. It counts in budgets like those that leave before."""
    run = three()
    takes(run, "h", "low1", "low2", also=["low0"])
    assert taken_together(run) == []
    run = replicas()
    takes(run, "h", "web1", "web2", also=["web0"])
    assert len(taken_together(run)) == 1


def test_a_gang_of_which_a_plan_takes_no_pod_itself_is_not_its_fault() -> None:
    """It waits for one that leaves for another, whose plan fails before the others leave, too."""
    run = three(*WEB, gang_mode="atomic")
    takes(run, "h", "web0", also=["low0"])
    assert taken_together(run) == []


def test_who_was_on_a_node_that_is_gone_does_not_stay() -> None:
    """The gang has lost that member."""
    run = played(node("n1"), gang("low").min(2), *LOW[:2], pod("low2").gang("low").on("n2"), *WAITING)
    told(run, *seen(run))
    takes(run, "h", "low0", "low1")
    assert taken_together(run) == []


#: Lives in which plans that are made at almost the same time share a budget.
SHARED = (17300025, 17300099, 17300138, 17300171, 17300204, 17300245)


@pytest.mark.parametrize("seed", SHARED)
def test_nothing_is_taken_twice(seed: int) -> None:
    """Nor if budgets are shown again while those who leave are not counted yet."""
    assert play_seed(seed, ("bursts",)).problems == []


def test_plans_that_do_not_know_of_each_other_are_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a ledger in which nobody is condemned for anybody else."""
    monkeypatch.setattr(Condemned, "counts_on", lambda *_: False)
    assert any(taken_together(play(scenario(seed, parts=("bursts",)))) for seed in SHARED)


def test_budgets_that_are_not_charged_are_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """With budgets that only have their status."""
    monkeypatch.setattr(Budgets, "count", lambda *_: None)
    assert any(taken_together(play(scenario(seed, parts=("bursts",)))) for seed in SHARED)
