"""Whose room the judge wants to be kept, from whom and how long."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from gangsched.core.actions import Action, Bind, Mark, Nominate, PodRef, Unmark, WithdrawNomination
from gangsched.core.actuation.records import EvictionOwner, Owners, written
from gangsched.core.events import Event, Gone, Outcome, WriteDone
from gangsched.core.ledger.ledger import Ledger
from gangsched.core.lifecycle.lost_members import Losses
from gangsched.core.lifecycle.report import mark_message
from gangsched.messages import notes
from gangsched.model.queues import QUEUE_LABEL
from gangsched.model.records import Condition
from tests.builders import OURS, gang, node, pod
from tests.chaos.__main__ import run as play_seed
from tests.chaos.made_up import about, played, told
from tests.chaos.play import Played
from tests.chaos.rooms import given_away
from tests.core.harness import Built

NODE = node("n1").cpu(4)
GROUP = gang("g").min(2)
RIVAL = pod("r").priority(5).cpu(4)


def binds(run: Played, name: str = "r", to: str = "n1") -> list[str]:
    """What is wrong when this pod is bound now."""
    told(run, asks=[Bind(9, about(run, name), to)])
    return given_away(run)


# -- nominated members ---------------------------------------------------------------------------------------------


def nominated(rival: Built = RIVAL, *others: Built, asks: Sequence[Action] = ()) -> Played:
    """Gang g, of priority 5, has nominated a member to the only node, where its victim still is."""
    there: list[Built] = [NODE, gang("g").min(1), pod("m1").gang("g").priority(5).cpu(4), rival, *others]
    victim = pod("v").cpu(4).on("n1")
    run = played(*there, victim)
    told(run, *there, victim)
    nominates = Nominate(1, about(run, "m1"), "n1", "p", "plan p: ...")
    told(run, asks=[nominates, Mark(2, about(run, "v"), mark_message(OURS, "d/g", "d/m1")), *asks])
    told(run, WriteDone(1, Outcome.OK), WriteDone(2, Outcome.OK), Gone("Pod", "d", "v", "uid-d-v"))
    return run


@pytest.mark.parametrize(("priority", "found"), [(4, 1), (5, 1), (6, 0)])
def test_room_of_a_nominated_member_that_its_equal_gets_is_found(priority: int, found: int) -> None:
    """More important work may take it."""
    assert len(binds(nominated(pod("r").priority(priority).cpu(4)))) == found


@pytest.mark.parametrize(("priority", "later", "found"), [(5, True, 0), (5, False, 1), (6, True, 1)])
def test_a_plan_that_was_made_later_takes_nothing_from_an_equal_one(priority: int, later: bool, found: int) -> None:
    """It was made with that room taken, so it needs more victims; a stronger one was not."""
    there: list[Built] = [NODE, RIVAL, pod("m1").priority(priority).cpu(4), pod("v").cpu(4).on("n1")]
    run = played(*there)
    told(run, *there)
    for name in ("r", "m1") if later else ("m1", "r"):
        told(run, asks=[Nominate(1, about(run, name), "n1", f"plan of {name}", "...")])
        told(run, WriteDone(1, Outcome.OK))
    told(run, Gone("Pod", "d", "v", "uid-d-v"))
    assert len(binds(run)) == found


@pytest.mark.parametrize(
    ("record", "ours", "withdrawn", "found"),
    [
        ("n1", True, False, 0),
        ("n1", True, True, 1),
        ("n1", False, False, 1),
        ("n2", True, False, 1),
    ],
)
def test_a_plan_of_an_earlier_process_was_made_before_those_of_this_one(
    record: str, ours: bool, withdrawn: bool, found: int
) -> None:
    """As long as its nomination stands; one that others wrote is no plan, nor is one to another node."""
    rival = pod("r").priority(5).cpu(4).nominated(record, ours)
    there: list[Built] = [NODE, node("n2").cpu(4), rival, pod("m1").priority(5).cpu(4), pod("v").cpu(4).on("n1")]
    run = played(*there)
    gives_up = WithdrawNomination(1, about(run, "r"), "Withdrawn", "...")
    told(run, *there, asks=[gives_up] if withdrawn else [])
    told(run, asks=[Nominate(2, about(run, "m1"), "n1", "plan of m1", "...")])
    told(run, WriteDone(2, Outcome.OK), Gone("Pod", "d", "v", "uid-d-v"))
    assert len(binds(run)) == found


def test_who_fits_beside_a_nominated_member_takes_nothing_from_it() -> None:
    """There is room for both, or it is bound elsewhere, or it is a member itself."""
    for rival, to in ((pod("r").priority(5), "n1"), (RIVAL, "n2"), (pod("r").gang("g").priority(5).cpu(4), "n1")):
        there = node("n1").cpu(5)
        run = nominated(rival, node("n2").cpu(4))
        told(run, there)
        assert binds(run, to=to) == []


def test_room_of_a_nomination_that_is_withdrawn_is_anybodys() -> None:
    """Or of a member that does not wait any more."""
    run = nominated()
    told(run, asks=[WithdrawNomination(3, about(run, "m1"), "Withdrawn", "...")])
    assert binds(run) == []
    run = nominated()
    told(run, Gone("Pod", "d", "m1", "uid-d-m1"))
    assert binds(run) == []


def test_a_plan_that_is_given_up_while_it_is_written_keeps_nothing() -> None:
    """Its nominations are withdrawn when the last of its writes has been answered; if they are, that is."""
    late = pod("late").cpu(4).on("n1")
    for withdrawn, found in ((True, 0), (False, 1)):
        run = nominated(RIVAL, late)
        told(run, asks=[Mark(7, about(run, "late"), mark_message(OURS, "d/g", "d/m1"))])
        assert binds(run) == []  # if the process ends here, nobody knows what it would have done
        withdraws = WithdrawNomination(8, about(run, "m1"), "Withdrawn", "...")
        told(run, WriteDone(7, Outcome.TRANSIENT), asks=[withdraws] if withdrawn else [])
        assert len(given_away(run)) == found


def test_a_binding_that_is_repeated_gives_nothing_away() -> None:
    """It may have taken effect, and its room was taken before the other was nominated there."""
    rival = pod("r").priority(5).cpu(4)
    there: list[Built] = [NODE, gang("g").min(1), pod("m1").gang("g").priority(5).cpu(4), rival]
    run = played(*there)
    told(run, *there, asks=[Bind(1, about(run, "r"), "n1")])
    told(run, WriteDone(1, Outcome.TRANSIENT), asks=[Nominate(2, about(run, "m1"), "n1", "p", "plan p: ...")])
    assert binds(run) == []


def test_nothing_is_said_of_the_room_of_gangs_in_queues() -> None:
    """What decides between them is their queues' business."""
    assert binds(nominated(pod("r").priority(5).cpu(4).labels({QUEUE_LABEL: "team"}))) == []


# -- lost members --------------------------------------------------------------------------------------------------

LOST = Gone("Pod", "d", "m2", "uid-d-m2")


def running(rival: Built = RIVAL, *others: Built) -> Played:
    """Gang g, of priority 5, runs with both of the members that it needs."""
    members = [pod("m1").gang("g").priority(5).on("n2"), pod("m2").gang("g").priority(5).cpu(4).on("n1")]
    there: list[Built] = [NODE, node("n2").cpu(4), GROUP, *members, rival, *others]
    run = played(*there)
    told(run, *there)
    run.world.clock.advance_to(10.0)
    return run


@pytest.mark.parametrize(("priority", "found"), [(4, 1), (5, 1), (6, 0)])
def test_room_of_a_lost_member_that_its_equal_gets_is_found(priority: int, found: int) -> None:
    """The gang is to be healed first."""
    run = running(pod("r").priority(priority).cpu(4))
    told(run, LOST)
    assert len(binds(run)) == found


@pytest.mark.parametrize(("status", "found"), [("True", 0), ("False", 1)])
def test_room_of_a_member_that_was_to_leave_is_kept_once_its_mark_is_taken_back(status: str, found: int) -> None:
    """Later it is lost like any other."""
    run = running()
    marked = Condition(status, "PreemptionByScheduler", "", 0.0)
    told(run, pod("m2").gang("g").priority(5).cpu(4).on("n1").field(disruption=marked))
    told(run, LOST)
    assert len(binds(run)) == found


@pytest.mark.parametrize(("seconds", "found"), [(29.0, 1), (30.0, 0)])
def test_room_of_a_lost_member_is_kept_for_half_a_minute(seconds: float, found: int) -> None:
    """From when it was free, not from when the member began to terminate."""
    run = running()
    told(run, pod("m2").gang("g").priority(5).cpu(4).on("n1").terminating())
    run.world.clock.advance_to(40.0)
    told(run, LOST)
    run.world.clock.advance_to(40.0 + seconds)
    assert len(binds(run)) == found


EXCUSED: dict[str, list[Built | Event]] = {
    "nobody needs it": [LOST, gang("g").min(1)],
    "nobody is left": [LOST, Gone("Pod", "d", "m1", "uid-d-m1")],
    "its node takes nobody": [LOST, node("n1").cpu(4).cordoned()],
    "it had finished": [pod("m2").gang("g").priority(5).cpu(4).on("n1").phase("Succeeded")],
    "its group is gone": [LOST, gang("g").min(2).group("d/g", "d/h")],
}


@pytest.mark.parametrize("why", EXCUSED)
def test_room_that_no_gang_is_healed_with_is_not_kept(why: str) -> None:
    """A loss that does not keep its gang from running, or that its room does not mend."""
    run = running()
    told(run, *EXCUSED[why])
    assert binds(run) == []


def test_what_was_lost_without_harm_is_not_kept_when_more_members_are_needed_later() -> None:
    """The gang ran on without it, and somebody may have been promised its room."""
    run = running()
    told(run, gang("g").min(1))
    told(run, LOST)
    told(run, GROUP)
    assert binds(run) == []


@pytest.mark.parametrize(("outcome", "found"), [(Outcome.TRANSIENT, 0), (Outcome.CONFLICT, 1)])
def test_a_gang_with_a_member_that_may_be_bound_lacks_one_less(outcome: Outcome, found: int) -> None:
    """Its binding is asked for again where it was: with it the gang has all that it needs. One that another
    scheduler has bound has no room there.
    """
    run = running()
    told(run, pod("m3").gang("g").priority(5))
    told(run, asks=[Bind(1, PodRef("d", "m3", "uid-d-m3"), "n2")])
    told(run, WriteDone(1, outcome))
    told(run, LOST)
    assert len(binds(run)) == found


def refused(priority: int = 4) -> Played:
    """Of two members that gang g needs one runs. The other was refused at 10 s, and at 20 s again."""
    there: list[Built] = [NODE, node("n2").cpu(4), GROUP, pod("r").priority(priority).cpu(4)]
    members = [pod(name).gang("g").priority(5).cpu(4) for name in ("m1", "m2")]
    run = played(*there, *members)
    told(run, *there, *members, asks=[Bind(1, about(run, "m1"), "n2"), Bind(2, about(run, "m2"), "n1")])
    run.world.clock.advance_to(10.0)
    told(run, members[0].on("n2"), WriteDone(1, Outcome.OK))
    told(run, WriteDone(2, Outcome.REFUSED), asks=[Bind(3, about(run, "m2"), "n1")])
    run.world.clock.advance_to(20.0)
    told(run, WriteDone(3, Outcome.REFUSED))
    return run


@pytest.mark.parametrize(("priority", "seconds", "found"), [(4, 29.0, 1), (5, 29.0, 1), (6, 29.0, 0), (4, 30.0, 0)])
def test_room_of_a_member_that_was_refused_is_kept_for_half_a_minute(priority: int, seconds: float, found: int) -> None:
    """From when it was refused for the first time."""
    run = refused(priority)
    run.world.clock.advance_to(10.0 + seconds)
    assert len(binds(run)) == found


def marked_for(cause: str) -> str:
    """What is written on a victim of a plan with this cause."""
    return written(Owners.of([EvictionOwner("p", cause, OURS, "d/g")]))


@pytest.mark.parametrize(("cause", "found"), [("rollback", 1), ("preemption", 0), ("", 0)])
def test_a_gang_that_was_to_be_rolled_back_keeps_room_from_the_next_refusal_on(cause: str, found: int) -> None:
    """The first one is forgotten with all that was kept for it; not where the gang was to leave for another."""
    run = refused()
    if cause:
        told(run, asks=[Mark(4, about(run, "m1"), "", owners=marked_for(cause))])
        told(run, WriteDone(4, Outcome.OK), asks=[Unmark(5, about(run, "m1"), "no longer needed")])
        told(run, WriteDone(5, Outcome.OK))
    run.world.clock.advance_to(35.0)
    told(run, asks=[Bind(6, about(run, "m2"), "n1")])
    told(run, WriteDone(6, Outcome.REFUSED))
    run.world.clock.advance_to(50.0)
    assert len(binds(run)) == found


@pytest.mark.parametrize(("meanwhile", "found"), [(1, 1), (2, 0)])
def test_a_gang_that_was_whole_meanwhile_keeps_room_from_the_next_refusal_on(meanwhile: int, found: int) -> None:
    """It needed no more members than ran, so that nothing was kept for it."""
    run = refused()
    told(run, gang("g").min(meanwhile))
    told(run, GROUP)
    run.world.clock.advance_to(45.0)
    told(run, asks=[Bind(6, about(run, "m2"), "n1")])
    told(run, WriteDone(6, Outcome.REFUSED))
    assert len(binds(run)) == found


def test_a_gang_of_which_nobody_was_bound_keeps_room_from_the_next_refusal_on() -> None:
    """All were refused at first, and nothing was kept for them."""
    members = [pod(name).gang("g").priority(5).cpu(4) for name in ("m1", "m2")]
    there: list[Built] = [NODE, node("n2").cpu(4), GROUP, RIVAL, *members]
    run = played(*there)
    for seconds, first in ((0.0, Outcome.REFUSED), (45.0, Outcome.OK)):
        run.world.clock.advance_to(seconds)
        bound = [members[0].on("n2")] if first is Outcome.OK else there
        told(run, *there, asks=[Bind(1, about(run, "m1"), "n2"), Bind(2, about(run, "m2"), "n1")])
        told(run, WriteDone(1, first), WriteDone(2, Outcome.REFUSED), *bound)
    assert len(binds(run)) == 1


@pytest.mark.parametrize(
    ("earlier", "to", "found"), [(False, "n3", 1), (False, "n1", 0), (True, "n3", 0), (True, "n1", 0)]
)
def test_of_more_rooms_than_a_gang_lacks_members_the_latest_are_kept(earlier: bool, to: str, found: int) -> None:
    """It lacks one: the room of the member that was refused last is kept, not that of the one that it has lost before.
    Where that was refused ``earlier``, too, its time may be over, or have begun anew after a pause.
    """
    m1, m2, m3, m4 = (pod(name).gang("g").priority(5).cpu(4) for name in ("m1", "m2", "m3", "m4"))
    there: list[Built] = [NODE, node("n2").cpu(8), node("n3").cpu(4), gang("g").min(3), RIVAL, m1.on("n2"), m2.on("n1")]
    run = played(*there, m3, m4)
    told(run, *there, m3, asks=[Bind(1, about(run, "m3"), "n3")] if earlier else [])
    told(run, WriteDone(1, Outcome.REFUSED))
    run.world.clock.advance_to(120.0)
    told(run, m4, m2.on("n1").terminating())
    told(run, asks=[Bind(2, about(run, "m3"), "n3"), Bind(3, about(run, "m4"), "n2")])
    told(run, LOST)
    told(run, WriteDone(2, Outcome.REFUSED), WriteDone(3, Outcome.OK), m4.on("n2"))
    assert len(binds(run, to=to)) == found


@pytest.mark.parametrize(("why", "found"), [(notes.OTHER_NODE, 0), ("...", 1)])
def test_a_member_that_is_to_be_bound_to_another_node_has_room(why: str, found: int) -> None:
    """It was refused, and then nominated elsewhere; nobody knows yet whether that stands."""
    run = refused()
    told(run, asks=[Nominate(4, about(run, "m2"), "n2", "p", "plan p: ...")])
    told(run, WriteDone(4, Outcome.OK), asks=[WithdrawNomination(5, about(run, "m2"), "Withdrawn", why)])
    told(run, WriteDone(5, Outcome.TRANSIENT))
    assert len(binds(run)) == found


@pytest.mark.parametrize(("given_up", "found"), [(True, 1), (False, 0)])
def test_room_of_a_lost_member_is_kept_again_after_a_plan_that_came_to_nothing(given_up: bool, found: int) -> None:
    """Its successor was to go elsewhere."""
    successor = pod("m3").gang("g").priority(5).cpu(4)
    run = running(RIVAL, successor)
    told(run, LOST, asks=[Nominate(1, about(run, "m3"), "n2", "p", "plan p: ...")])
    withdraws = WithdrawNomination(2, about(run, "m3"), "Withdrawn", "...")
    told(run, WriteDone(1, Outcome.OK), asks=[withdraws] if given_up else [])
    told(run, WriteDone(2, Outcome.OK))
    assert len(binds(run)) == found


@pytest.mark.parametrize(("gone_first", "found"), [(True, 1), (False, 0)])
def test_a_member_that_leaves_later_may_be_the_one_whose_room_is_kept(gone_first: bool, found: int) -> None:
    """The gang lacks one: the room of the member that was refused last, or of one that has left since, if its leaving
    was not over when another was planned.
    """
    m1, m2, m3 = (pod(name).gang("g").priority(5).cpu(4) for name in ("m1", "m2", "m3"))
    there: list[Built] = [NODE, node("n2").cpu(8), GROUP, RIVAL, m1.on("n2"), m2.on("n2"), m3]
    run = played(*there)
    told(run, *there)
    gone = Gone("Pod", "d", "m2", "uid-d-m2")
    told(run, gone if gone_first else pod("m2").gang("g").priority(5).cpu(4).on("n2").terminating())
    told(run, asks=[Nominate(1, about(run, "m3"), "n2", "p", "plan p: ...")])
    told(run, WriteDone(1, Outcome.OK), asks=[WithdrawNomination(2, about(run, "m3"), "Withdrawn", "")])
    told(run, WriteDone(2, Outcome.OK), asks=[Bind(3, about(run, "m3"), "n1")])
    told(run, WriteDone(3, Outcome.REFUSED), *([] if gone_first else [gone]))
    assert len(binds(run)) == found


def test_room_of_a_refused_member_that_is_gone_is_not_kept() -> None:
    """It never had it."""
    run = refused()
    told(run, Gone("Pod", "d", "m2", "uid-d-m2"))
    assert binds(run) == []


@pytest.mark.parametrize(("cause", "found"), [("rollback", 0), ("preemption", 1)])
def test_a_gang_that_was_to_be_rolled_back_keeps_no_room_of_lost_members(cause: str, found: int) -> None:
    """That came to nothing: others may have got its room meanwhile. Where it was to leave for others, room is kept
    again.
    """
    run = running()
    told(run, LOST)
    told(run, asks=[Mark(1, about(run, "m1"), "", owners=marked_for(cause))])
    told(run, WriteDone(1, Outcome.TRANSIENT), asks=[Unmark(2, about(run, "m1"), "no longer needed")])
    told(run, WriteDone(2, Outcome.OK))
    assert len(binds(run)) == found


def test_room_of_who_left_for_others_is_not_kept_and_a_process_knows_only_its_own_losses() -> None:
    """A victim's room is its preemptor's; what was lost before is not known to the next process."""
    run = running()
    told(run, asks=[Mark(1, about(run, "m2"), mark_message(OURS, "d/r", "d/r"))])
    told(run, LOST)
    assert binds(run) == []
    run = running()
    told(run, LOST)
    told(run, NODE, GROUP, pod("m1").gang("g").priority(5).on("n2"), RIVAL, process=2)
    told(run, asks=[Bind(9, about(run, "r"), "n1")], process=2)
    assert given_away(run) == []


# -- the judge and a scheduler that is broken ----------------------------------------------------------------------


def found_in(seed: int, part: str, text: str) -> bool:
    """Does the judge say this of the seed?"""
    problems = play_seed(seed, [part] if part else []).problems
    return any(each.startswith("room given away: ") and text in each for each in problems)


def test_a_scheduler_that_keeps_no_room_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """It places others as if nobody were nominated."""
    monkeypatch.setattr(Ledger, "seen_by", lambda *_: iter(()))
    assert any(found_in(seed, "", "nominated") for seed in (9700001, 9700011, 9700014))


def test_a_scheduler_that_heals_nobody_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The room of lost members goes to whoever comes first."""
    monkeypatch.setattr(Losses, "_wanted", lambda *_: [])
    assert any(found_in(seed, "losses", "lost") for seed in (9800003, 9800011))
