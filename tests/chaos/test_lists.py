"""When a list of victims of which one was removed may end, and another be let off; and no more than that."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from gangsched.cluster.sim import history as log
from gangsched.cluster.sim.history import Cause
from gangsched.core.actions import (
    Action,
    Bind,
    BindVolume,
    Mark,
    Nominate,
    Remove,
    SelectNode,
    Spare,
    Unmark,
    WithdrawNomination,
)
from gangsched.core.actuation.records import Owner, Owners, written
from gangsched.core.decision import Decision, Fits, Placement, Unschedulable
from gangsched.core.events import Changed, Event, Gone, Outcome, ServerClock, WriteDone
from gangsched.core.lifecycle.report import mark_message
from gangsched.model.records import Job
from tests.builders import OURS, PodBuilder, gang, node, pod
from tests.chaos.lists import second_lists
from tests.chaos.made_up import about, does, played, told
from tests.chaos.play import Played
from tests.core.harness import Built

FOR_P = mark_message(OURS, "d/p", "d/p")
#: By name: the priorities of those that wait.
WAITING = {"p": 5, "weaker": 4, "equal": 5, "stronger": 6}
FOUND = ["d/p has removed 1 of 2 (plan 1-1), and let off ['d/v2']"]


def waits(name: str) -> PodBuilder:
    """One that needs a whole node."""
    return pod(name).priority(WAITING[name]).cpu(4)


def keeps(run: Played, name: str, to: str, kind: int = 0) -> Action:
    """What a plan for this pod asks for: any of it means that room is kept for it."""
    nominates = Nominate(9, about(run, name), to, "2-2", "plan 2-2")
    return Bind(9, about(run, name), to) if kind else nominates


def decided(name: str, to: str = "") -> Decision:
    """This pod is found to fit on a node, or not to."""
    found, priority = pod(name).obj(), WAITING[name]
    if not to:
        return Unschedulable(found.gang, "Pod", (), priority, 1)
    return Fits(found.gang, "Pod", (), priority, 1, placements=(Placement(found.namespace, name, found.uid, to),))


def gives_up(run: Played, name: str) -> Action:
    """Nothing is kept for this pod any more."""
    return WithdrawNomination(9, about(run, name), "Withdrawn", "it was not written")


def lets_off(
    *shown: Built | Event,
    before: Callable[[Played], Sequence[Action]] = lambda _: (),
    meanwhile: Callable[[Played], Sequence[Action]] = lambda _: (),
    known: Sequence[Built] = (),
    decides: Sequence[Decision] = (),
    answers: Sequence[Event] = (),
    v1: PodBuilder | None = None,
    v2: PodBuilder | None = None,
    process: int = 1,
    **options: Any,
) -> list[str]:
    """What is found where d/p needs both pods on its node to leave, one is removed at 10 s, the other let off at 20 s.
    At 15 s the process, or another from then on, is ``shown`` something more than what was ``known``, and ``decides``
    more, and at 5 s and 15 s it asks for more, of which nothing is ever written, whatever it is told of that
    (``answers``, at 20 s). That ``v1`` terminates it is shown at 15 s, too. If ``v2`` is given it is in a gang, and
    leaves singly.
    """
    victims = [pod("v1").cpu(2).on("n1"), v2 or pod("v2").cpu(2).on("n1")]
    there: list[Built] = [node("n1").cpu(4), *victims, *map(waits, WAITING), *known]
    run = played(*there, **options)
    run.world.clock.advance_to(5.0)
    told(run, *there, asks=before(run))
    run.world.clock.advance_to(10.0)
    nominates = Nominate(1, about(run, "p"), "n1", "1-1", "plan 1-1")
    owner = Owner("1-1", "preemption", OURS, "d/p", "d/p", kind="PodGroup", unit="d/b", partial=True)
    owners = written(Owners.of([owner])) if v2 else ""
    marks = [Mark(2, about(run, "v1"), FOR_P), Mark(2, about(run, "v2"), FOR_P, owners=owners)]
    removes = Remove(3, about(run, "v1"), mark=FOR_P)
    told(run, asks=[nominates, *marks, removes])
    does(run, nominates, *marks, removes)
    run.world.clock.advance_to(15.0)
    leaves = v1 or pod("v1").cpu(2).on("n1").terminating()
    told(run, leaves, *shown, asks=meanwhile(run), decides=decides, process=process)
    run.world.clock.advance_to(20.0)
    unmarks = Unmark(4, about(run, "v2"), "no longer needed for d/p")
    told(run, *answers, asks=[unmarks], process=process)
    does(run, unmarks)
    return second_lists(run)


def test_a_list_that_is_given_up_is_found() -> None:
    """Nothing has changed, and a pod has left for nothing."""
    assert lets_off() == FOUND


@pytest.mark.parametrize("kind", range(2))
@pytest.mark.parametrize(
    ("name", "to", "found"), [("stronger", "n1", []), ("stronger", "n2", FOUND), ("equal", "n1", FOUND)]
)
def test_a_list_that_a_stronger_gangs_room_makes_useless_may_end(
    kind: int, name: str, to: str, found: list[str]
) -> None:
    """Where it is kept on the same node; an equal gang takes no room from a plan."""
    if (name, kind) == ("equal", 1):
        found = []  # what is being bound takes the room all the same
    assert lets_off(meanwhile=lambda run: [keeps(run, name, to, kind)]) == found


@pytest.mark.parametrize(("outcome", "found"), [(Outcome.TRANSIENT, []), (Outcome.REFUSED, FOUND)])
def test_a_binding_of_which_nobody_knows_whether_it_was_made_takes_room(outcome: Outcome, found: list[str]) -> None:
    """It is repeated, so its room stays taken until that is known; a refused one takes none."""
    answers = [WriteDone(9, outcome)]
    assert lets_off(meanwhile=lambda run: [keeps(run, "equal", "n1", 1)], answers=answers) == found


def test_a_list_that_ends_when_its_removals_are_recalled_is_judged_by_what_was_known_then() -> None:
    """The mark is taken back later, when the removal has been answered, and so has the binding that was in the way."""
    answers = [WriteDone(9, Outcome.REFUSED)]
    found = lets_off(
        meanwhile=lambda run: [keeps(run, "equal", "n1", 1), Spare(about(run, "v2"))],
        answers=answers,
    )
    assert found == []


@pytest.mark.parametrize(("priority", "minimum", "found"), [(6, 2, []), (5, 2, []), (4, 2, FOUND), (6, 1, FOUND)])
def test_room_of_a_refused_member_is_kept_for_its_gang(priority: int, minimum: int, found: list[str]) -> None:
    """Where that is bound in part, and of no lower priority."""
    others: list[Built] = [
        gang("s").min(minimum),
        pod("s1").priority(priority).gang("s").on("n2"),
        pod("s2").priority(priority).gang("s").cpu(1),
    ]
    refused = lets_off(
        known=others,
        meanwhile=lambda run: [Bind(9, about(run, "s2"), "n1")],
        answers=[WriteDone(9, Outcome.REFUSED)],
    )
    assert refused == found


@pytest.mark.parametrize(("minimum", "found"), [(3, []), (2, FOUND)])
def test_room_of_a_refused_member_may_be_kept_while_another_is_bound(minimum: int, found: list[str]) -> None:
    """Where the gang lacks more than that one."""
    s1, s2, s3 = (pod(f"s{i}").priority(6).gang("s").cpu(1) for i in (1, 2, 3))
    refused = lets_off(
        WriteDone(9, Outcome.REFUSED),
        known=[gang("s").min(minimum), s1.on("n2"), s2, s3],
        before=lambda run: [Bind(9, about(run, "s2"), "n1")],
        meanwhile=lambda run: [Bind(8, about(run, "s3"), "n2")],
    )
    assert refused == found


@pytest.mark.parametrize(("name", "found"), [("equal", []), ("weaker", FOUND)])
def test_a_list_that_an_earlier_plan_of_an_equal_makes_useless_may_end(name: str, found: list[str]) -> None:
    """It was made with that room taken, and another pod has come since."""
    assert lets_off(before=lambda run: [keeps(run, name, "n1")]) == found


@pytest.mark.parametrize(
    ("decides", "found"),
    [
        ([decided("stronger", "n1")], []),
        ([decided("stronger", "n2")], FOUND),
        ([decided("equal", "n1")], FOUND),
        ([decided("stronger", "n1"), decided("stronger")], FOUND),
    ],
)
def test_room_of_a_stronger_gang_that_waits_for_its_volumes_is_kept(
    decides: Sequence[Decision], found: list[str]
) -> None:
    """It has its places from the decision on, until it is decided anew, though no member may be nominated."""
    assert lets_off(decides=decides) == found


@pytest.mark.parametrize(("outcome", "found"), [(Outcome.OK, FOUND), (Outcome.REFUSED, [])])
def test_room_of_a_stronger_gang_that_got_no_volume_is_kept_no_more(outcome: Outcome, found: list[str]) -> None:
    """Its plan is over with that answer, and the list need not be finished for a gang that fits there."""
    given_up = lets_off(
        known=[node("n2").cpu(4)],
        decides=[decided("stronger", "n2")],
        meanwhile=lambda run: [SelectNode(9, about(run, "stronger"), "data", "uid-data", "n2")],
        answers=[WriteDone(9, outcome)],
    )
    assert given_up == found


@pytest.mark.parametrize(("needs", "found"), [("data", []), ("", FOUND)])
def test_a_list_may_end_where_a_stronger_gang_takes_the_volume_of_the_node(needs: str, found: list[str]) -> None:
    """There is room for it beside the member, which ``needs`` a volume of that node, too, or none."""
    tiny = pod("tiny").priority(6).cpu(1).claims("other")
    it = tiny.obj()
    place = Placement(it.namespace, it.name, it.uid, "n1")
    given_up = lets_off(
        known=[node("n1").cpu(5), tiny, waits("p").claims(needs) if needs else waits("p")],
        decides=[Fits(it.gang, "Pod", (), 6, 1, placements=(place,))],
        meanwhile=lambda run: [BindVolume(9, about(run, "tiny"), "pv", "uid-pv", "1", "other", "uid-other")],
    )
    assert given_up == found


def test_room_of_a_stronger_gang_that_moves_is_kept_while_its_nomination_is_taken_back() -> None:
    """It is found to fit elsewhere, and is bound there once no nomination stands."""
    moves = lets_off(
        before=lambda run: [keeps(run, "stronger", "n2")],
        decides=[decided("stronger", "n1")],
        meanwhile=lambda run: [gives_up(run, "stronger")],
    )
    assert moves == []


def test_a_room_that_a_stronger_gang_has_given_up_ends_no_list() -> None:
    """What it kept is there again for the plan."""
    assert lets_off(meanwhile=lambda run: [keeps(run, "stronger", "n1"), gives_up(run, "stronger")]) == FOUND


@pytest.mark.parametrize(
    ("shown", "found"),
    [
        (pod("thief").cpu(1).on("n1"), []),
        (pod("thief").cpu(1).on("n2"), FOUND),
        (node("n1").cpu(3), []),
        (node("n1").cpu(4).cordoned(), []),
        (node("n1").cpu(4).taint("busy"), []),
        (node("n1").cpu(4).label(other="yes"), FOUND),
    ],
)
def test_a_list_whose_node_has_no_room_for_the_gang_may_end(shown: Built, found: list[str]) -> None:
    """Others have bound a pod there, or the node is not what it was."""
    assert lets_off(shown) == found


@pytest.mark.parametrize(
    ("shown", "found"),
    [
        (node("n2").cpu(4), []),
        (node("n2").cpu(4).not_ready(), []),
        (node("n2").cpu(3), FOUND),
        (node("n2").cpu(4).cordoned(), FOUND),
        (node("n2").cpu(4).taint("busy"), FOUND),
        (node("n1").cpu(6), []),
        (pod("p").priority(5).cpu(2), []),
    ],
)
def test_victims_that_are_not_needed_any_more_are_let_off(shown: Built, found: list[str]) -> None:
    """The gang has room beside those who stay, there or elsewhere."""
    assert lets_off(shown) == found


@pytest.mark.parametrize(("name", "found"), [("stronger", FOUND), ("equal", FOUND), ("weaker", [])])
def test_room_that_others_give_up_spares_victims(name: str, found: list[str]) -> None:
    """What is kept for a gang of no lower priority is not the list's own before it is given up."""

    def with_room(*asks: Callable[[Played], Action]) -> list[str]:
        return lets_off(
            known=[node("n2").cpu(4)],
            before=lambda run: [keeps(run, name, "n2")],
            meanwhile=lambda run: [ask(run) for ask in asks],
        )

    assert with_room() == found
    assert with_room(lambda run: gives_up(run, name)) == []


@pytest.mark.parametrize(("to", "found"), [("n1", []), ("n2", FOUND)])
def test_the_room_of_a_later_plan_of_an_equal_is_not_kept_from_the_places_of_a_list(to: str, found: list[str]) -> None:
    """It was made with these taken; what it has elsewhere is its own."""
    smaller = pod("p").priority(5).cpu(2 if to == "n1" else 3)
    more = [node("n2").cpu(4)] if to == "n2" else []
    assert lets_off(smaller, known=more, meanwhile=lambda run: [keeps(run, "equal", to)]) == found


@pytest.mark.parametrize("later", [True, False])
def test_a_pod_that_leaves_for_a_later_plan_holds_its_room(later: bool) -> None:
    """A plan counts on no pod that a later one removes, so its list may end where its node has shrunk."""

    def plans(run: Played) -> Sequence[Action]:
        owners = written(Owners((Owner("2-2", "preemption", OURS, "d/weaker"),)))
        mark = Mark(9, about(run, "other"), mark_message(OURS, "d/weaker", "d/weaker"), owners=owners)
        return [keeps(run, "weaker", "n2"), mark]

    there: list[Built] = [node("n1").cpu(5), pod("other").cpu(1).on("n1")]
    if later:
        assert lets_off(node("n1").cpu(4), known=there, meanwhile=plans) == []
    else:
        assert lets_off(node("n1").cpu(4), known=there, before=plans) == FOUND


@pytest.mark.parametrize(("patience", "found"), [(4.0, []), (6.0, FOUND)])
def test_a_list_may_end_where_an_overdue_victim_holds_the_room(patience: float, found: list[str]) -> None:
    """It terminates from 15 s on, without a grace period, and the list ends at 20 s."""
    stuck = pod("v1").cpu(2).on("n1").field(grace_seconds=0.0).terminating()
    assert lets_off(v1=stuck, overdue_after_seconds=patience) == found


@pytest.mark.parametrize("ahead", [-3600.0, 0.0, 3600.0])
@pytest.mark.parametrize(("patience", "found"), [(7.0, []), (9.0, FOUND)])
def test_who_takes_over_reads_from_the_stamp_whether_a_victim_is_overdue(
    ahead: float, patience: float, found: list[str]
) -> None:
    """Its grace period of 2 s ended at 12 s, before that process began, and the list ends at 20 s; the API server's
    clock, which has stamped that, may be another.
    """
    stuck = pod("v1").cpu(2).on("n1").field(grace_seconds=2.0).terminating(12.0 + ahead)
    there: list[Built] = [node("n1").cpu(4), pod("v2").cpu(2).on("n1"), *map(waits, WAITING)]
    clock = [ServerClock(ahead)] if ahead else []
    assert lets_off(*there, *clock, v1=stuck, process=2, overdue_after_seconds=patience) == found


def of_job(name: str, to: str = "n1") -> PodBuilder:
    """A pod of the Job of :func:`counting`."""
    return pod(name).cpu(2).owner("Job", "j").on(to)


def counting(limit: int, failed: int = 0) -> Job:
    """So many of the Job's pods have failed."""
    return Job("d", "j", "uid-Job-j", backoff_limit=limit, parallelism=2, failed=failed)


@pytest.mark.parametrize(("before", "after", "found"), [(0, 1, []), (0, 0, FOUND), (1, 1, FOUND)])
def test_a_list_may_end_where_a_job_would_fail_by_it(before: int, after: int, found: list[str]) -> None:
    """It has lost another pod since, and does not survive the loss of the victim that is let off, too. If that was so
    when the plan was made it is no reason.
    """
    assert lets_off(counting(1, after), known=[counting(1, before), of_job("v2")]) == found


@pytest.mark.parametrize("seen", [False, True])
def test_a_pod_that_is_counted_before_it_is_seen_to_leave_may_be_one_more(seen: bool) -> None:
    """It may be another one that has failed: then the victim would be one too many for its Job."""
    v1 = of_job("v1").terminating() if seen else of_job("v1")
    assert lets_off(counting(1, 1), v1=v1, known=[counting(1), of_job("v1")]) == (FOUND if seen else [])


@pytest.mark.parametrize(
    ("change", "found"),
    [
        ((log.JOB_CONTROLLER, Gone("Pod", "d", "p", "uid-d-p")), []),
        ((log.USER, Changed(pod("late").gang("p").obj())), []),
        ((log.USER, Changed(pod("late").gang("q").obj())), FOUND),
        ((log.JOB_CONTROLLER, Changed(pod("late").gang("p").obj())), FOUND),
    ],
)
def test_a_list_may_end_when_its_gang_is_changed(change: tuple[str, Event], found: list[str]) -> None:
    """A member is gone, whoever has deleted it, or a user has added one."""
    there: list[Built] = [node("n1").cpu(4), gang("p").min(1), pod("p").priority(5).cpu(4).gang("p")]
    there += [pod(name).cpu(2).on("n1") for name in ("v1", "v2")]
    run = played(*there)
    run.world.clock.advance_to(10.0)
    nominates = Nominate(1, about(run, "p"), "n1", "1-1", "plan 1-1")
    marks = [Mark(2, about(run, name), FOR_P) for name in ("v1", "v2")]
    removes = Remove(3, about(run, "v1"), mark=FOR_P)
    told(run, *there, asks=[nominates, *marks, removes])
    does(run, nominates, *marks, removes)
    run.world.clock.advance_to(20.0)
    actor, event = change
    run.world.store.apply(event, Cause(actor, log.GONE if isinstance(event, Gone) else log.CREATE))
    unmarks = Unmark(4, about(run, "v2"), "no longer needed for d/p")
    told(run, asks=[unmarks])
    does(run, unmarks)
    assert second_lists(run) == found


@pytest.mark.parametrize(("shown", "found"), [([pod("thief").cpu(1).on("n1")], []), ([], FOUND)])
@pytest.mark.parametrize("process", [1, 2])
def test_a_victim_that_another_gang_keeps_is_let_off_when_its_mark_names_that_one_only(
    process: int, shown: list[Built], found: list[str]
) -> None:
    """What the process knew counts that took the gang's name off it, whoever takes the mark back later."""
    there: list[Built] = [node("n1").cpu(4), *map(waits, WAITING)]
    there += [pod(name).cpu(2).on("n1") for name in ("v1", "v2")]
    run = played(*there)
    told(run, *there)
    run.world.clock.advance_to(10.0)
    does(run, Nominate(1, about(run, "p"), "n1", "1-1", "plan 1-1"))
    does(run, *(Mark(2, about(run, name), FOR_P) for name in ("v1", "v2")), Remove(3, about(run, "v1"), mark=FOR_P))
    other = Mark(4, about(run, "v2"), mark_message(OURS, "d/equal", "d/equal"))
    told(run, *shown, asks=[other])
    does(run, other)
    run.world.clock.advance_to(20.0)
    told(run, *there, process=process)
    does(run, Unmark(5, about(run, "v2"), "no longer needed"))
    assert second_lists(run) == found


@pytest.mark.parametrize(("minimum", "gone", "found"), [(2, True, []), (2, False, FOUND), (1, True, FOUND)])
def test_a_list_may_end_where_a_gang_would_run_on_with_too_few(minimum: int, gone: bool, found: list[str]) -> None:
    """A surplus member of it was to leave, until another member was gone."""
    members = [pod(f"b{i}").gang("b").on(f"n{i}") for i in (2, 3)]
    lost = [Gone("Pod", "d", "b3", "uid-d-b3")] if gone else []
    v2 = pod("v2").cpu(2).gang("b").on("n1")
    assert lets_off(*lost, known=[gang("b").min(minimum), *members], v2=v2) == found
