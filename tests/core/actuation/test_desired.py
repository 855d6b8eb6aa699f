"""What is to stand on a pod, in each situation; and what stands on one, or may, and should not."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pytest

from gangsched.core.actions import Mark, Unmark, WithdrawNomination, reference
from gangsched.core.actuation import desired
from gangsched.core.actuation.desired import Desired, Marked, nominated_elsewhere
from gangsched.core.actuation.records import Intent, Owner, Owners, written
from gangsched.core.agenda import Page
from gangsched.core.decision import UnitRef, Victim
from gangsched.core.ledger.condemned import NO_PLAN, Cause, Condemned, Eviction
from gangsched.model.records import Pod
from tests.builders import pod

NOTHING = pod("m").obj()
RECORDED = pod("m").nominated("n1").obj()
CLEARED = pod("m").nominated("n1", intent=False).obj()
RUNNING = pod("v").on("n1").obj()
TERMINATING = msgspec.structs.replace(RUNNING, deleting_since=1.0)
INTENT = Intent("1-1", 2, "n1")
UNIT = UnitRef("PodGroup", "d/low")
NOW = 100.0


def eviction(plan: str, priority: float, *, cause: Cause = Cause.PREEMPTION, begins: float = 0.0) -> Eviction:
    """One that has the running pod as its victim."""
    victim = Victim("d", "v", RUNNING.uid, "n1", UNIT, False, 0, False)
    found = Eviction(cause, plan, f"d/{plan}", "sched", plan, [victim])
    found.priority, found.mark, found.trigger, found.begins = priority, f"for {plan}", f"d/{plan}-0", begins
    return found


def names(*plans: str, cause: str = "preemption", not_before: str = "") -> str:
    """These as the owners that stand on the pod."""
    owners = (
        Owner(plan, cause, "sched", f"d/{plan}", f"d/{plan}-0", "PodGroup", "d/low", not_before=not_before)
        for plan in plans
    )
    return written(Owners.of(owners))


REASON = "PreemptionByScheduler"
LATER = "1970-01-01T00:05:00Z"


@pytest.mark.parametrize(
    ("intent", "named", "stands"),
    [
        # Nothing is intended: whatever is there is taken back.
        (None, (), Desired()),
        # A member that has a place in a plan.
        (INTENT, (), Desired(INTENT)),
        # A victim of one plan; of two, where the stronger one speaks; a member that must leave as well.
        (None, (eviction("a", 5),), Desired(None, Marked(names("a"), "for a", REASON))),
        (None, (eviction("a", 5), eviction("b", 9)), Desired(None, Marked(names("a", "b"), "for b", REASON))),
        (None, (eviction("b", 9), eviction("a", 5)), Desired(None, Marked(names("a", "b"), "for b", REASON))),
        (INTENT, (eviction("a", 5),), Desired(INTENT, Marked(names("a"), "for a", REASON))),
        # A gang that is rolled back; a drained queue is stronger than any gang.
        (
            None,
            (eviction("a", 5, cause=Cause.ROLLBACK),),
            Desired(None, Marked(names("a", cause="rollback"), "for a", REASON)),
        ),
        # One that has notice bears no DisruptionTarget, unless another one leaves it no time.
        (None, (eviction("a", 5, begins=300.0),), Desired(None, Marked(names("a", not_before=LATER)))),
        (
            None,
            (eviction("a", 5, begins=NOW),),
            Desired(None, Marked(names("a", not_before="1970-01-01T00:01:40Z"), "for a", REASON)),
        ),
    ],
)
def test_what_is_to_stand_on_a_pod(intent: Intent | None, named: Sequence[Eviction], stands: Desired) -> None:
    """Where its plan has it, every eviction that owns it, and what the strongest of those says that has begun."""
    assert desired.desired(RUNNING.uid, intent, named, NOW) == stands


def test_who_has_notice_is_marked_for_another() -> None:
    """An eviction that leaves no time speaks, even if the one that is announced is stronger."""
    found = desired.desired(RUNNING.uid, None, [eviction("a", 5), eviction("b", 9, begins=300.0)], NOW)
    assert found.mark is not None
    assert found.mark.message == "for a"


MARKED = Marked(names("a"), "for a", REASON)
UNMARK = Unmark(1, reference(RUNNING), "spared")
WITHDRAW = WithdrawNomination(1, reference(RUNNING), "Withdrawn", "why")
MARK = Mark(1, reference(RUNNING), "old", owners="old")


@pytest.mark.parametrize(
    ("asked", "seen", "mark", "again"),
    [
        (MARK, RUNNING, MARKED, Mark(2, reference(RUNNING), "for a", REASON, names("a"))),
        (MARK, RUNNING, None, None),
        (MARK, TERMINATING, MARKED, None),
        (UNMARK, RUNNING, None, Unmark(2, reference(RUNNING), "spared")),
        (UNMARK, RUNNING, MARKED, Mark(2, reference(RUNNING), "for a", REASON, names("a"))),
        (UNMARK, TERMINATING, None, None),
        (WITHDRAW, RUNNING, None, None),
        (WITHDRAW, NOTHING, None, WithdrawNomination(2, reference(RUNNING), "Withdrawn", "why")),
    ],
)
def test_what_is_asked_for_instead(
    asked: desired.Revocable, seen: Pod, mark: Marked | None, again: desired.Revocable | None
) -> None:
    """What had no effect that is known is asked for again as it is wanted by now, or no more."""
    assert desired.again(2, asked, seen, Desired(None, mark)) == again


def test_who_owns_the_leaving_of_a_pod() -> None:
    """It names an eviction until that gives it up, or until the pod is gone, also after a removal that outlives it."""
    condemned = Condemned(Page())
    first, second = eviction("a", 5), eviction("b", 9)
    for each in (first, second):
        condemned.begin(each, for_gang=True)
        assert condemned.add(RUNNING, each.key) == (each is first)
        condemned.name(RUNNING, each)
    condemned.sent(RUNNING.uid, "a", NOW)  # its removal is on its way
    condemned.end(first)
    assert set(condemned.owners(RUNNING.uid)) == {NO_PLAN, "b"}
    assert list(condemned.named(RUNNING.uid)) == ["a", "b"]
    condemned.spare(RUNNING.uid, NO_PLAN)  # and has failed: it is known whose name is taken back
    assert condemned.unname(RUNNING.uid, "a") is first
    assert list(condemned.named(RUNNING.uid)) == ["b"]
    condemned.gone(RUNNING.uid, NOW)
    assert RUNNING.uid not in condemned
    assert not condemned.named(RUNNING.uid)


@pytest.mark.parametrize(
    ("seen", "asked", "wanted", "goes"),
    [
        (NOTHING, "", "", False),
        (NOTHING, "", "n1", False),
        (NOTHING, "n1", "n1", False),
        (NOTHING, "n1", "", True),
        (NOTHING, "n1", "n2", True),
        (RECORDED, "", "n1", False),
        (RECORDED, "", "", True),
        (RECORDED, "", "n2", True),
        (RECORDED, "n2", "n2", False),
        (RECORDED, "n2", "n1", True),
        (CLEARED, "", "", False),
    ],
)
def test_what_counts_is_what_was_asked_for_last(seen: Pod, asked: str, wanted: str, *, goes: bool) -> None:
    """A nomination goes unless it is to the node that is wanted; what was asked for may not be seen yet."""
    uid = NOTHING.uid
    found = nominated_elsewhere([seen], {uid: asked} if asked else {}, {uid: wanted} if wanted else {})
    assert list(found) == ([seen] if goes else [])
