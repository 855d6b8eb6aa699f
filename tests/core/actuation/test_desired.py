"""What is to stand on a pod, in each situation; and what stands on one, or may, and should not."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import get_args

import msgspec
import pytest

import gangsched.core
from gangsched.core.actions import Bind, Mark, Unmark, WithdrawNomination, Write, reference
from gangsched.core.actuation import desired
from gangsched.core.actuation.desired import Marked, nominated_elsewhere
from gangsched.core.actuation.records import EvictionOwner, Owners, written
from gangsched.core.agenda import Page
from gangsched.core.decision import UnitRef, Victim
from gangsched.core.ledger.condemned import NO_PLAN, Cause, Condemned, Eviction, Grounds
from gangsched.core.ledger.ledger import Ledger
from gangsched.core.options import Options
from gangsched.core.world.world import World
from gangsched.model.records import Pod
from tests.builders import node, pod

NOTHING = pod("m").obj()
RECORDED = pod("m").nominated("n1").obj()
CLEARED = pod("m").nominated("n1", intent=False).obj()
RUNNING = pod("v").on("n1").obj()
TERMINATING = msgspec.structs.replace(RUNNING, deleting_since=1.0)
UNIT = UnitRef("PodGroup", "d/low")
NOW = 100.0


def eviction(plan: str, priority: float, *, cause: Cause = Cause.PREEMPTION, begins: float = 0.0) -> Eviction:
    """One that has the running pod as its victim."""
    victim = Victim("d", "v", RUNNING.uid, "n1", UNIT, False, 0, False)
    found = Eviction(plan, Grounds(cause, f"d/{plan}", "sched", plan, f"d/{plan}-0", priority, f"for {plan}"), [victim])
    found.begins = begins
    return found


def names(*plans: str, cause: str = "preemption", not_before: str = "") -> str:
    """These as the owners that stand on the pod."""
    owners = (
        EvictionOwner(
            plan, cause, "sched", f"d/{plan}", f"d/{plan}-0", "PodGroup", "d/low", pods=1, not_before=not_before
        )
        for plan in plans
    )
    return written(Owners.of(owners))


REASON = "PreemptionByScheduler"
LATER = "1970-01-01T00:05:00Z"


@pytest.mark.parametrize(
    ("named", "stands"),
    [
        # Nothing is intended: whatever is there is taken back.
        (None, None),
        (eviction("a", 5), Marked(names("a"), "for a", REASON)),
        (eviction("a", 5, cause=Cause.ROLLBACK), Marked(names("a", cause="rollback"), "for a", REASON)),
        # One that has notice bears no DisruptionTarget.
        (eviction("a", 5, begins=300.0), Marked(names("a", not_before=LATER))),
        (eviction("a", 5, begins=NOW), Marked(names("a", not_before="1970-01-01T00:01:40Z"), "for a", REASON)),
    ],
)
def test_what_is_to_stand_on_a_victim(named: Eviction | None, stands: Marked | None) -> None:
    """The eviction that owns it, and what that says once the notice is over."""
    assert desired.marked(RUNNING.uid, named, NOW) == stands


UNMARK = Unmark(1, reference(RUNNING), "spared")
WITHDRAW = WithdrawNomination(1, reference(NOTHING), "Withdrawn", "why")
MARK = Mark(1, reference(RUNNING), "old", owners="old")
BIND = Bind(1, reference(NOTHING), "n1")
AS_OF_NOW = Mark(0, reference(RUNNING), "for a", REASON, names("a"))


@pytest.mark.parametrize(
    ("asked", "seen", "owned", "again"),
    [
        (MARK, RUNNING, True, AS_OF_NOW),
        (MARK, RUNNING, False, ""),
        (MARK, TERMINATING, True, ""),
        (MARK, None, True, ""),
        (UNMARK, RUNNING, False, UNMARK),
        (UNMARK, RUNNING, True, AS_OF_NOW),
        (UNMARK, TERMINATING, False, ""),
        (WITHDRAW, pod("m").on("n1").obj(), False, ""),
        (WITHDRAW, NOTHING, False, WITHDRAW),
        (BIND, NOTHING, False, BIND),
        (BIND, None, False, ""),
        (msgspec.structs.replace(BIND, node="full"), NOTHING, False, "full no longer takes d/m"),
    ],
)
def test_what_is_asked_for_instead(
    asked: desired.Kept, seen: Pod | None, again: desired.Kept | str, *, owned: bool
) -> None:
    """What had no effect that is known is asked for again as it is desired by now, or no more."""
    world, ledger = World(["sched"]), Ledger()
    world.snapshot.set_node(node("n1").cpu(4).obj())
    if seen is not None:
        world.set_pod(seen)
    if isinstance(asked, Bind) and seen is not None:
        world.assume(seen.uid, asked.node)
    if owned and seen is not None:
        ledger.condemned.name(seen, eviction("a", 5))
    assert desired.still_desired(world, ledger, Options(), asked) == again


def test_writes_have_one_author() -> None:
    """No other file of the core makes one, so none is asked for that is not desired by these functions."""
    core, author = Path(gangsched.core.__path__[0]), Path(desired.__file__)
    names = {each.__name__ for each in get_args(Write)}
    makers = {
        path
        for path in core.rglob("*.py")
        for each in ast.walk(ast.parse(path.read_text()))
        if isinstance(each, ast.Call) and isinstance(each.func, ast.Name) and each.func.id in names
    }
    assert makers == {author}


def test_who_owns_the_leaving_of_a_pod() -> None:
    """The first eviction that condemns it, until that gives it up or the pod is gone. It names that also when its
    removal outlives the eviction.
    """
    condemned = Condemned(Page())
    first, second = eviction("a", 5), eviction("b", 9)
    for each in (first, second):
        condemned.begin(each, for_gang=True)
        assert condemned.add(RUNNING, each.key) == (each is first)
    condemned.name(RUNNING, first)
    assert (condemned.counts_on(RUNNING.uid, "b"), condemned.counts_on(RUNNING.uid, "a")) == (True, False)
    condemned.sent(RUNNING.uid, "a", NOW)  # its removal is on its way
    condemned.end(first)
    assert (condemned.owner(RUNNING.uid), condemned.named(RUNNING.uid)) == (NO_PLAN, first)
    assert condemned.counts_on(RUNNING.uid, "b")
    assert condemned.spare(RUNNING.uid, NO_PLAN)  # and has failed: it is known whose name is taken back
    assert condemned.forget_name(RUNNING.uid, "b") is None
    assert condemned.forget_name(RUNNING.uid, "a") is first
    assert not condemned.records
    condemned.add(RUNNING, second.key)
    condemned.record_left(RUNNING.uid, NOW)
    assert RUNNING.uid not in condemned
    assert condemned.named(RUNNING.uid) is None


@pytest.mark.parametrize(("weaker", "priority"), [(set[str](), 5), ({"a"}, 6)])
def test_a_stronger_gang_may_take_a_pod_over(weaker: set[str], priority: int) -> None:
    """Plans of lower priority are in its way, and queues that are drained are not."""
    condemned = Condemned(Page())
    condemned.begin(eviction("a", 5), for_gang=True)
    condemned.begin(eviction("queue", 5, cause=Cause.DRAIN))
    condemned.add(RUNNING, "a")
    assert condemned.weaker_owners([RUNNING.uid, "unknown"], priority) == weaker
    condemned.leaves(RUNNING.uid, NOW)
    assert condemned.weaker_owners([RUNNING.uid], priority) == set()


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
