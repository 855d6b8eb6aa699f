"""What the judge wants of a victim in the moment in which its removal is sent, and what it excuses."""

from __future__ import annotations

import msgspec
import pytest

from gangsched.core.actions import Bind, Mark, Nominate, Remove, WithdrawNomination
from gangsched.core.actuation.records import Intent, Owner, Owners, written
from gangsched.core.decision import Preempt, UnitRef, Victim
from gangsched.core.events import Gone, Outcome, WriteDone
from gangsched.core.lifecycle.rechecks import Rechecks
from gangsched.core.lifecycle.report import mark_message
from gangsched.core.state.membership import Membership
from gangsched.messages import notes
from gangsched.messages.notes import rolling_back
from gangsched.model.queues import QUEUE_LABEL
from gangsched.model.records import PREEMPT_NEVER, GangId
from tests.builders import OURS, SIGS, gang, node, pdb, pod
from tests.chaos.made_up import about, does, played, told
from tests.chaos.play import Played, play
from tests.chaos.removals import unwanted_removals
from tests.chaos.scenario import scenario
from tests.chaos.waiting import Waiting
from tests.core.harness import Built

BACK = rolling_back(scheduler=OURS, gang="d/g", trigger="d/m1")
FOR_G = mark_message(OURS, "d/g", "d/m1")
MEMBER = pod("m1").gang("g").priority(5).cpu(4)
VICTIM = pod("v").priority(3).cpu(4).label(app="red").on("n1")
LOOSE = pdb("b").selects(app="red").allows(1)
THERE: list[Built] = [node("n1").cpu(4), gang("g").min(1), MEMBER, VICTIM, LOOSE]


def marked(*others: Built) -> Played:
    """Gang g has nominated its member and marked the only victim."""
    run = played(*THERE, *others)
    told(run, *THERE, *others)
    mark = Mark(2, about(run, "v"), FOR_G)
    told(run, asks=[Nominate(1, about(run, "m1"), "n1", "p", written(Intent("p", 1))), mark])
    does(run, mark)
    return run


def removes(run: Played) -> list[str]:
    """What is wrong when the victim is removed now."""
    removal = Remove(3, about(run, "v"), mark=FOR_G)
    told(run, asks=[removal])
    does(run, removal)
    return unwanted_removals(run)


WRONG: dict[str, tuple[Built, str]] = {
    "ended": (pod("v").priority(3).cpu(4).on("n1").phase("Succeeded"), "it was known to have ended"),
    "joined by a weaker one": (pod("m2").gang("g").priority(3), "its priority 3 is not below 3"),
    "joined by one that may not": (pod("m2").gang("g").priority(9).never(), "that gang does not preempt"),
    "of less priority": (gang("g").min(1).priority(2), "its priority 3 is not below 2"),
    "not to preempt": (gang("g").min(1).field(preemption_policy=PREEMPT_NEVER), "that gang does not preempt"),
    "whole": (pod("m2").gang("g").priority(5).on("n2"), "that gang lacks nobody"),
    "roomy": (node("n1").cpu(8), "all members fit beside everybody who is there"),
    "protected": (pdb("b").selects(app="red").allows(0), "it would break d/b, which it did not when its plan was made"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_removal_that_what_is_known_forbids_is_found(case: str) -> None:
    """The victim or the gang is not what it was when the plan was made, and the process has been told."""
    change, text = WRONG[case]
    run = marked()
    told(run, change)
    assert [found.split(": ", 1)[1] for found in removes(run)] == [text]


@pytest.mark.parametrize(("ended", "found"), [(True, ["it was known to have ended"]), (False, [])])
def test_a_pod_that_had_ended_is_not_rolled_back(ended: bool, found: list[str]) -> None:
    """Nor is it in a drain: there is nothing to be evicted. Nobody's priority counts there."""
    there: list[Built] = [node("n1").cpu(4), gang("g").min(2), MEMBER, pod("m2").gang("g").priority(5).on("n1")]
    run = played(*there)
    told(run, *there)
    mark, removal = Mark(1, about(run, "m2"), BACK), Remove(2, about(run, "m2"), mark=BACK)
    does(run, mark)
    told(run, *([pod("m2").gang("g").priority(5).on("n1").phase("Succeeded")] if ended else []))
    told(run, asks=[removal])
    does(run, removal)
    assert [text.split(": ", 1)[1] for text in unwanted_removals(run)] == found


@pytest.mark.parametrize("case", WRONG)
def test_what_is_told_after_a_removal_was_sent_is_no_error(case: str) -> None:
    """A removal that is on its way cannot be brought back."""
    run = marked()
    assert removes(run) == []
    told(run, WRONG[case][0])
    assert unwanted_removals(run) == []


@pytest.mark.parametrize("case", WRONG)
def test_a_removal_that_waits_for_its_turn_can_be_recalled(case: str) -> None:
    """It was right when it was asked for, and is not when it is sent."""
    run = marked()
    removal = Remove(3, about(run, "v"), mark=FOR_G)
    told(run, asks=[removal])
    run.world.clock.advance_to(1.0)
    told(run, WRONG[case][0])
    run.world.clock.advance_to(2.0)
    does(run, removal)
    assert len(unwanted_removals(run)) == 1


@pytest.mark.parametrize(("turn_seconds", "found"), [(1.0, 0), (1.01, 1)], ids=["then", "later"])
def test_a_removal_whose_turn_comes_as_something_is_told_has_left(turn_seconds: float, found: int) -> None:
    """It waited for other writes to its pod; what arrives together with their answer is too late for it."""
    run = marked()
    removal = Remove(3, about(run, "v"), mark=FOR_G)
    told(run, asks=[removal])
    run.world.clock.advance_to(1.0)
    told(run, WRONG["protected"][0])
    run.world.clock.advance_to(turn_seconds)
    does(run, removal)
    assert len(unwanted_removals(run)) == found


def test_a_removal_for_a_gang_that_is_gone_is_found() -> None:
    """Without its group nobody knows how many it needs; without its members nobody needs anything."""
    for gone, text in (
        ([Gone("PodGroup", "d", "g", group=SIGS)], "that gang lacks nobody"),
        ([Gone("Pod", "d", "m1", "uid-d-m1")], "nobody is left of that gang"),
    ):
        run = marked()
        told(run, *gone)
        assert [found.split(": ", 1)[1] for found in removes(run)] == [text]


@pytest.mark.parametrize("partial", [False, True], ids=["whole", "surplus"])
def test_the_rest_of_a_unit_goes_though_its_preemptor_is_gone(partial: bool) -> None:
    """What leaves whole is finished once one pod of it was removed; surplus that need not leave stays."""
    other = pod("w").priority(3).cpu(4).on("n1")
    run = marked(other)
    owner = Owner("p", "Preemption", OURS, "d/g", kind="PodGroup", unit="d/old", partial=partial)
    marks = [Mark(n, about(run, name), FOR_G, owners=written(Owners.of([owner]))) for n, name in ((5, "v"), (6, "w"))]
    told(run, asks=marks)
    does(run, *marks)
    assert removes(run) == []
    told(run, Gone("Pod", "d", "m1", "uid-d-m1"))
    removal = Remove(7, about(run, "w"), mark=FOR_G)
    told(run, asks=[removal])
    does(run, removal)
    found = [text.split(": ", 1)[1] for text in unwanted_removals(run)]
    assert found == (["nobody is left of that gang"] if partial else [])


@pytest.mark.parametrize(("shared", "found"), [(True, []), (False, ["nobody is left of that gang"])])
def test_the_rest_of_a_unit_goes_for_whichever_of_its_preemptors_it_was_begun(shared: bool, found: list[str]) -> None:
    """Its pods are on the lists of g and h, and one bears a mark that names h, which is gone by now."""
    run = marked(pod("w").priority(3).cpu(4).on("n1"), pod("h").priority(5))
    for_h = mark_message(OURS, "d/h", "d/h")
    g, h = (Owner(name, "Preemption", OURS, f"d/{name}", kind="PodGroup", unit="d/old") for name in "gh")
    marks = [
        Mark(5, about(run, "v"), FOR_G, owners=written(Owners.of([g, h]))),
        Mark(6, about(run, "w"), for_h, owners=written(Owners.of([g, h] if shared else [h]))),
    ]
    told(run, asks=marks)
    does(run, *marks)
    assert removes(run) == []
    told(run, Gone("Pod", "d", "h", about(run, "h").uid))
    removal = Remove(7, about(run, "w"), mark=for_h)
    told(run, asks=[removal])
    does(run, removal)
    assert [text.split(": ", 1)[1] for text in unwanted_removals(run)] == found


@pytest.mark.parametrize("gone", [False, True], ids=["leaves", "is gone"])
@pytest.mark.parametrize(("process", "found"), [(1, ["nobody is left of that gang"]), (2, [])], ids=["same", "later"])
def test_a_process_that_takes_over_cannot_tell_who_has_deleted_a_marked_pod(
    process: int, found: list[str], gone: bool
) -> None:
    """It finishes the unit. The process that has marked the pods knows that it has removed none."""
    there: list[Built] = [*THERE, pod("w").priority(3).cpu(4).on("n1")]
    run = played(*there)
    told(run, *there)
    owner = Owner("p", "Preemption", OURS, "d/g", kind="PodGroup", unit="d/old", partial=False)
    marks = [Mark(n, about(run, name), FOR_G, owners=written(Owners.of([owner]))) for n, name in ((2, "v"), (3, "w"))]
    told(run, asks=[Nominate(1, about(run, "m1"), "n1", "p", written(Intent("p", 2))), *marks])
    does(run, *marks)
    removal = Remove(4, about(run, "v"), mark=FOR_G)
    seen: list[Built] = THERE if gone else [*THERE, pod("w").priority(3).cpu(4).on("n1").terminating()]
    told(run, *seen, Gone("Pod", "d", "m1", "uid-d-m1"), asks=[removal], process=process)
    does(run, removal)
    assert [text.split(": ", 1)[1] for text in unwanted_removals(run)] == found


@pytest.mark.parametrize("answered", [False, True])
def test_who_is_gone_while_its_removal_has_no_answer_may_have_left_for_the_gang(answered: bool) -> None:
    """Then the list is finished though a budget is tighter now, unless the answer says that nothing was sent."""
    run = marked(pod("w").priority(3).cpu(4).on("n1"))
    mark, removal = Mark(5, about(run, "w"), FOR_G), Remove(6, about(run, "w"), mark=FOR_G)
    told(run, asks=[mark, removal])
    does(run, mark)
    answer = [WriteDone(6, Outcome.OUTDATED)] if answered else []
    told(run, Gone("Pod", "d", "w", "uid-d-w"), WRONG["protected"][0], *answer)
    assert len(removes(run)) == answered


@pytest.mark.parametrize(("again", "found"), [(False, 0), (True, 1)])
def test_a_list_may_have_begun_by_a_removal_whose_answer_was_lost(again: bool, found: int) -> None:
    """As long as others wait that were asked for with it; what is asked for later is asked with what is known then."""
    run = marked(pod("w").priority(3).cpu(4).on("n1"))
    mark, removal = Mark(5, about(run, "w"), FOR_G), Remove(6, about(run, "w"), mark=FOR_G)
    other = Remove(3, about(run, "v"), mark=FOR_G)
    told(run, asks=[mark, removal, other])
    does(run, mark)
    told(run, WriteDone(6, Outcome.TRANSIENT), asks=[Remove(7, about(run, "w"), mark=FOR_G)] * again)
    run.world.clock.advance_to(1.0)
    told(run, WRONG["protected"][0])
    run.world.clock.advance_to(2.0)
    does(run, other)
    assert len(unwanted_removals(run)) == found


def test_between_workloads_of_queues_it_is_not_priority_that_decides() -> None:
    """Both name a queue; one that does is not enough."""
    in_queue = pod("v").priority(9).cpu(4).on("n1").labels({QUEUE_LABEL: "team"})
    for also, found in (([], 1), ([pod("m1").gang("g").priority(5).cpu(4).labels({QUEUE_LABEL: "team"})], 0)):
        run = marked()
        told(run, in_queue, *also)
        assert len(removes(run)) == found


@pytest.mark.parametrize("queued", ["m1", "v", "m1 v"])
def test_between_workloads_of_queues_quota_may_be_what_is_short(queued: str) -> None:
    """All members fit on the node beside the victim; that is no reason to leave it where both are in a queue."""
    pods = [
        built.labels({QUEUE_LABEL: "team"}) if name in queued.split() else built
        for name, built in (("m1", pod("m1").gang("g").priority(5).cpu(4)), ("v", pod("v").priority(3).cpu(4).on("n1")))
    ]
    run = marked()
    told(run, node("n1").cpu(8), *pods)
    assert len(removes(run)) == (0 if queued == "m1 v" else 1)


def test_a_budget_that_a_plan_breaks_openly_or_that_keeps_changing_is_no_error() -> None:
    """The decision has said so; or a plan was made anew for it just before."""
    tight = pdb("b").selects(app="red").allows(0)
    run = marked()
    told(run, tight)
    victim = Victim("d", "v", "uid-d-v", "n1", UnitRef("Pod", "d/v"), False, 3, over_budget=True)
    run.decisions = [Preempt(GangId(SIGS, "d", "g", OURS), "PodGroup", (), 5, 1, victims=(victim,))]
    assert removes(run) == []
    run = marked()
    told(run, asks=[Nominate(4, about(run, "m1"), "n1", "q", "plan q: ..."), Mark(5, about(run, "v"), FOR_G)])
    told(run, tight)
    assert removes(run) == []


@pytest.mark.parametrize(("red", "found"), [(1, []), (0, ["d/b"])])
def test_who_is_beyond_a_budget_may_change_and_not_how_many(red: int, found: list[str]) -> None:
    """Of two victims under one budget a plan has announced one as beyond it."""
    run = marked(pod("w").priority(3).cpu(4).label(app="red").on("n1"))
    mark = Mark(5, about(run, "w"), FOR_G)
    told(run, pdb("b").selects(app="red").allows(red), asks=[mark])
    does(run, mark)
    victim = Victim("d", "v", "uid-d-v", "n1", UnitRef("Pod", "d/v"), False, 3, over_budget=True)
    run.decisions = [Preempt(GangId(SIGS, "d", "g", OURS), "PodGroup", (), 5, 1, victims=(victim,))]
    assert [text.partition("it would break ")[2].partition(",")[0] for text in removes(run)] == found


def test_room_that_others_are_about_to_take_is_none() -> None:
    """One that is being bound there, and one that is nominated there."""
    for other in (pod("x").cpu(4), pod("x").cpu(4).nominated("n1")):
        run = marked(other)
        binds = [Bind(7, about(run, "x"), "n1")] if not other.obj().nominated_node else []
        told(run, node("n1").cpu(8), asks=binds)
        assert removes(run) == []


@pytest.mark.parametrize(("seconds", "found"), [(59.9, 0), (60.1, 1)])
def test_room_may_be_kept_where_a_member_was_to_be_bound_that_is_gone(seconds: float, found: int) -> None:
    """Its binding was refused, and its room is for who takes its place."""
    run = marked(gang("h").min(1), pod("x").gang("h").priority(9).cpu(4))
    gone = about(run, "x")
    told(run, asks=[Bind(7, gone, "n1")])
    told(run, WriteDone(7, Outcome.REFUSED), Gone("Pod", "d", "x", gone.uid), node("n1").cpu(8))
    run.world.clock.advance_to(seconds)
    assert len(removes(run)) == found


@pytest.mark.parametrize(("why", "found"), [(notes.OTHER_NODE, 0), ("it was not written", 1)])
def test_room_may_be_kept_for_one_whose_nomination_to_another_node_is_taken_back(why: str, found: int) -> None:
    """It is bound when that is done; where, nobody has said yet."""
    run = marked(pod("x").cpu(4).nominated("n2"))
    withdraws = WithdrawNomination(7, about(run, "x"), "Withdrawn", why)
    told(run, node("n1").cpu(8), asks=[withdraws])
    assert len(removes(run)) == found


# -- the judge and a scheduler that is broken ----------------------------------------------------------------------

PART = ("priorities",)


def said_of(seed: int, *, slow: bool = False) -> list[str]:
    """What the judge says of the removals of this seed; with ``slow`` many of them wait for their turn."""
    made = scenario(seed, parts=PART)
    if slow:
        made = msgspec.structs.replace(made, faults=Waiting(seed, made.faults), crashes=[])
    return unwanted_removals(play(made))


def test_a_scheduler_that_goes_by_the_highest_priority_of_a_gang_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A gang whose members differ preempts as the least of them."""

    def highest(self: Membership, gangs: tuple[GangId, ...]) -> int:
        return max((pod.priority for gang in gangs for pod in self.pods(gang) if pod.live), default=0)

    monkeypatch.setattr(Membership, "preemptor_priority", highest)
    assert any("is not below" in text for seed in (9800011, 9800044) for text in said_of(seed))


BROKEN: dict[str, tuple[str, object, tuple[int, ...], bool, str]] = {
    "never looks again": ("_right", True, (9800014,), True, "does not preempt"),
    "recalls nothing": ("_spare_wrong", None, (9800014,), True, "does not preempt"),
    "lets nobody off": ("_spare_ended", None, (9800011, 9800036), True, "known to have ended"),
    "forgets budgets": ("_tightened", False, (9800027, 9800042), False, "it would break"),
}


@pytest.mark.parametrize("how", BROKEN)
def test_a_scheduler_that_does_not_look_again_is_found(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What has happened since its plan was made is nothing to it; nothing is found of one that works."""
    name, answer, seeds, slow, text = BROKEN[how]
    assert [each for seed in seeds for each in said_of(seed, slow=slow)] == []
    monkeypatch.setattr(Rechecks, name, lambda *_, **__: answer)
    assert any(text in each for seed in seeds for each in said_of(seed, slow=slow))


@pytest.mark.parametrize(("process", "found"), [(1, 1), (2, 0)])
def test_what_a_process_that_died_of_its_last_batch_would_have_recalled_is_no_error(process: int, found: int) -> None:
    """Nobody knows what it had asked for by then; one that lives recalls what it has been told not to send."""
    run = marked()
    told(run, WRONG["ended"][0])
    run.world.clock.advance_to(1.0)
    does(run, Remove(3, about(run, "v"), mark=FOR_G))
    run.world.clock.advance_to(2.0)
    told(run)
    run.batches[-1].process = process
    assert len(unwanted_removals(run)) == found
