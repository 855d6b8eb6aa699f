"""The judge of the audit log finds plans and lists that break the rules; a log as it should be has nothing in it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.resilience.audit import BIND, MARK, REMOVE, REVIEW, UNMARK, WITHDRAW, Write
from tests.resilience.evidence import Evidence, Listed, Removing
from tests.resilience.load import Life
from tests.resilience.made_up import (
    GOOD,
    LISTS,
    MADE,
    NEXT,
    PLAN,
    UNIT,
    US,
    found,
    lease,
    lives,
    mark,
    nominate,
    without,
    write,
)
from tests.resilience.rules import FENCED, Rules


def test_a_log_as_it_should_be() -> None:
    """Nominate, mark, remove, bind, each complete before the next: nothing to say, and two planned, two evicted."""
    assert found(GOOD) == set()
    known = lives(v1={"leaving_at": MADE + 0.3}, v2={"leaving_at": MADE + 0.3})
    assert Rules(GOOD, known, US, Evidence(LISTS)).planned() == (2, 2)


#: Half of the list is removed, then another process takes it back and chooses somebody else.
HALF = [
    *without(7, 8, 9),
    lease(0.4, "p2"),
    lease(0.9, "p2"),
    *(write(WITHDRAW, 0.42, m, process="p2") for m in ("m1", "m2")),
    write(UNMARK, 0.43, "v2", process="p2"),
    *(nominate(0.5, m, plan=NEXT, victims=1, process="p2") for m in ("m1", "m2")),
    mark(0.6, "v3", NEXT, process="p2"),
    write(REMOVE, 0.7, "v3", process="p2"),
]


@pytest.mark.parametrize(
    ("other", "expected"),
    [({}, {"list let off half-way"}), ({"leaving_at": MADE + 0.2}, set())],
    ids=["for no reason", "room has turned up"],
)
@pytest.mark.parametrize(
    "last", [write(UNMARK, 0.75, "v2", "p2"), mark(0.75, "v2", NEXT, process="p2")], ids=["unmarked", "anew"]
)
@pytest.mark.parametrize("late", [False, True], ids=["at once", "late"])
def test_a_list_is_finished(other: dict[str, Any], expected: set[str], last: Write, late: bool) -> None:
    """Who has begun to evict goes on with the same pods, unless something has changed. Then the mark of who is let off
    is taken back when the server takes it, or has another plan for its owner.
    """
    known = lives(v1={"leaving_at": MADE + 0.3}, v3={"leaving_at": MADE + 0.7})
    known["x"] = Life("x", "default/x", "default/x", 1, 1, 1000, "s", "n", bound_at=1.0, **other)
    log = [*(w for w in HALF if w.kind != UNMARK), last] if late else HALF
    kinds = found([*log, write(UNMARK, 0.8, "v2", "p2")], known)
    assert kinds == expected


def test_a_first_list_that_is_carried_out_stands_beside_the_second() -> None:
    """Nobody of it was let off."""
    log = [*(w for w in HALF if w.kind != UNMARK), lease(1.4, "p2"), write(REMOVE, 1.5, "v2", "p2")]
    known = lives(v1={"leaving_at": MADE + 0.3}, v2={"leaving_at": MADE + 1.5}, v3={"leaving_at": MADE + 0.7})
    assert "second list of victims" in found(log, known)


CASES: dict[str, tuple[list[Write], str]] = {
    "a removal that names no UID": ([*GOOD, write(REMOVE, 0.5, "")], "no UID precondition"),
    "a removal of whatever the pod is by now": (
        [*GOOD, write(REMOVE, 0.35, "v2", version="")],
        "removal of any version",
    ),
    "a mark that was taken back, and the server knows": (
        [*without(7), write(UNMARK, 0.25, "v2"), write(REMOVE, 0.3, "v2", code=409)],
        FENCED,
    ),
    "a member was not nominated": (without(3), "mark before intent"),
    "nominations came after the marks": (
        [*without(2, 3), nominate(0.25, "m1"), nominate(0.25, "m2")],
        "mark before intent",
    ),
    "a pod that nobody marked": ([*GOOD, write(REMOVE, 0.5, "v3")], "removal without mark"),
    "a mark that was taken back": ([*GOOD, write(UNMARK, 0.25, "v2")], "removal without mark"),
    "one of two victims was not marked yet": ([*without(5), mark(0.35, "v2")], "removal before all marks"),
    "nominations were withdrawn before": (
        [*GOOD, write(WITHDRAW, 0.25, "m1"), write(WITHDRAW, 0.25, "m2")],
        "removal outside intent",
    ),
    "nobody knows of the list": (
        [
            *without(6, 7, 8, 9),
            *(nominate(0.5, m, plan="unheard-of") for m in ("m1", "m2")),
            mark(0.6, "v1", "unheard-of"),
            write(REMOVE, 0.7, "v1"),
        ],
        "removal outside intent",
    ),
    "one more than planned": ([*GOOD, mark(0.2, "v3"), write(REMOVE, 0.3, "v3")], "removal outside intent"),
    "another list while the first, which has begun, stands": (
        [
            *without(7, 8, 9),
            *(nominate(0.5, m, plan=NEXT, victims=1) for m in ("m1", "m2")),
            mark(0.6, "v3", NEXT),
            write(REMOVE, 0.7, "v3"),
        ],
        "second list of victims",
    ),
    "bound to two nodes": ([*GOOD, write(BIND, 0.5, "m1", node="n")], "bound twice"),
    "bound elsewhere": ([*without(9), write(BIND, 0.4, "m2", node="other")], "bind outside intent"),
    "no deadline": ([*without(9), write(BIND, 0.4, "m2", node="n", timeout_seconds=None)], "write without deadline"),
    "a question about rights has no deadline": (
        [*GOOD, write(REVIEW, 0.5, of_pod=False, timeout_seconds=None)],
        "write without deadline",
    ),
    "the deadline is too late": ([*GOOD, write(WITHDRAW, 1.5, "m1")], "write past the lease"),
    "somebody else leads": (
        [*GOOD, lease(0.45, "p2"), write(WITHDRAW, 0.5, "m1")],
        "write of a deposed leader",
    ),
    "two processes of one name": ([*GOOD, lease(0.45, "p2", holder="identity of p1")], "identity used twice"),
}


@pytest.mark.parametrize("case", CASES)
def test_what_may_not_be_is_found(case: str) -> None:
    """Each rule has a log that breaks it."""
    log, kind = CASES[case]
    half = case == "another list while the first, which has begun, stands"
    assert kind in found(log, lives(v1={"leaving_at": MADE + 0.3}) if half else None)


def test_a_list_that_has_not_begun_may_be_given_up_for_another() -> None:
    """Its marks name its plan; one that cannot be taken back at once is taken back later."""
    second = [
        *(nominate(0.5, m, plan=NEXT, victims=1) for m in ("m1", "m2")),
        mark(0.6, "v3", NEXT),
        write(REMOVE, 0.7, "v3"),
        *(write(UNMARK, 1.0, v) for v in ("v1", "v2")),
    ]
    assert found([*without(6, 7, 8, 9), *second], lives(v3={"leaving_at": MADE + 0.7})) == set()


@pytest.mark.parametrize(("anew", "wrong"), [(True, set()), (False, {"list let off half-way"})])
def test_a_victim_that_is_marked_anew_leaves_for_the_later_plan(anew: bool, wrong: set[str]) -> None:
    """The first plan has not begun with it: the mark of its other victim, which cannot be taken back, is no list."""
    second = [
        *(nominate(0.5, m, plan=NEXT, victims=1) for m in ("m1", "m2")),
        mark(0.6, "v2", *([NEXT] if anew else [PLAN, NEXT])),
        write(REMOVE, 0.7, "v2"),
        write(UNMARK, 1.0, "v1"),
    ]
    lists = (LISTS[0], Listed(MADE + 0.45, NEXT, ("v2",)))
    known = lives(v2={"leaving_at": MADE + 0.7})
    assert found([*without(6, 7, 8, 9), *second], known, lists=lists) == wrong


#: Two victims that leave as a whole are marked, then the plan is withdrawn, and then the second is removed.
REST = [
    *without(4, 5, 6, 7, 8, 9),
    *(write(WITHDRAW, 0.4, m) for m in ("m1", "m2")),
    write(REMOVE, 0.5, "v2"),
]


@pytest.mark.parametrize(
    ("log", "wrong"),
    [
        ([write(REMOVE, 0.3, "v1")], False),
        ([write(REMOVE, 0.3, "v1", code=504)], False),
        ([write(REMOVE, 0.3, "v1", code=429)], True),
        ([write(REMOVE, 0.3, "v1", user="somebody else", process="")], True),
        ([write(REMOVE, 0.6, "v1")], True),
        ([write(REMOVE, 0.3, "v1"), write(MARK, 0.35, "v2", owners=(("default/o", NEXT),))], True),
        ([], True),
    ],
    ids=["removed", "no answer", "refused", "by a user", "later", "kept for another", "it stands"],
)
@pytest.mark.parametrize("whole", [True, False], ids=["whole", "singly"])
def test_the_rest_of_a_unit_is_removed_though_its_plan_stands_no_more(
    log: list[Write], wrong: bool, whole: bool
) -> None:
    """Once a pod of it was removed for that plan: half of it is of no use to anybody. Others stay with their plan."""
    marks = [mark(0.2, v, units=(UNIT,) if whole else ()) for v in ("v1", "v2")]
    left = {"leaving_at": max(w.received for w in log if w.uid == "v1") + 0.01} if log else {}
    known = lives(v1=left, v2={"leaving_at": MADE + 0.51})
    said = (Removing(MADE + 0.45, "v2", PLAN, "default/g"),)
    assert ("removal outside intent" in found([*REST, *marks, *log], known, said=said)) == (wrong or not whole)


@pytest.mark.parametrize("whole", [True, False], ids=["whole", "singly"])
def test_others_may_be_let_off_while_the_rest_of_a_unit_is_removed(whole: bool) -> None:
    """The plan is given up, and its nomination has not been taken back yet when the rest of the unit goes."""
    units = (UNIT,) if whole else ()
    marks = [mark(0.2, "v1", units=units), mark(0.2, "v2", units=units), mark(0.2, "v3")]
    removals = [write(REMOVE, 0.3, "v1"), write(UNMARK, 0.4, "v3"), write(REMOVE, 0.5, "v2")]
    nominations = [nominate(0.1, m, victims=3) for m in ("m1", "m2")]
    known = lives(v1={"leaving_at": MADE + 0.3}, v2={"leaving_at": MADE + 0.5})
    known["x"] = Life("x", "default/x", "default/x", 1, 1, 1000, "s", "n", bound_at=1.0, gone_at=MADE + 0.35)
    log = [*GOOD[:2], *nominations, *marks, *removals]
    lists = (Listed(MADE + 0.05, PLAN, ("v1", "v2", "v3")),)
    assert found(log, known, lists=lists) == (set() if whole else {"removal before all marks"})


@pytest.mark.parametrize("whose", ["p1", "p2"])
@pytest.mark.parametrize("alone", [True, False], ids=["alone", "with the other"])
def test_a_process_that_takes_over_knows_no_other_list_than_the_marks(whose: str, alone: bool) -> None:
    """One of two was marked when the process died, and its room is enough by now. Who leaves with others is not
    removed without them.
    """
    other = Life("v2", "default/v2", "default/v2" if alone else "default/v", 1, 1, 1000, "s", "n", bound_at=1.0)
    known = {**lives(v1={"leaving_at": MADE + 0.5}), "v2": other}
    log = [*without(5, 6, 7, 8, 9), lease(0.45, whose), write(REMOVE, 0.5, "v1", whose)]
    assert found(log, known) == (set() if whose == "p2" and alone else {"removal before all marks"})


@pytest.mark.parametrize("whose", ["p1", "p2"])
def test_a_process_that_takes_over_cannot_tell_who_has_had_a_pod_leave(whose: str) -> None:
    """A user has deleted one of two that leave as a whole. Who has marked them knows that it has not removed it."""
    known = lives(v1={"leaving_at": MADE + 0.3}, v2={"leaving_at": MADE + 0.51})
    marks = [mark(0.2, v, units=(UNIT,)) for v in ("v1", "v2")]
    log = [*REST[:-1], *marks, write(REMOVE, 0.3, "v1", user="somebody else", process="")]
    log += [lease(0.45, whose), write(REMOVE, 0.5, "v2", whose)]
    said = (Removing(MADE + 0.48, "v2", PLAN, "default/g"),)
    assert found(log, known, said=said) == ({"removal outside intent"} if whose == "p1" else set())


def test_a_victim_of_no_lower_priority_is_found() -> None:
    """Whatever was nominated and marked."""
    known = lives(v1={"leaving_at": MADE + 0.3, "priority": 100}, v2={"leaving_at": MADE + 0.3})
    assert found(GOOD, known) == {"victim not lower"}


def test_a_mark_that_stays_on_a_living_pod_is_found() -> None:
    """At the end every marked pod has left, or has lost its mark."""
    assert found(without(7, 8, 9), lives(v1={"leaving_at": MADE + 0.3})) == {"mark left behind"}


def test_a_removal_is_judged_by_the_plan_that_it_was_asked_for() -> None:
    """Two plans share a victim, and the other has marked it last: its own marks are of no concern, ours are."""
    pods = lives(v1={"leaving_at": MADE + 0.3}, v2={"leaving_at": MADE + 0.3})
    pods["o1"] = Life("o1", "default/o1", "default/o", 1, 200, 1000, "s")
    theirs = f"{int(MADE * 1000) + 20:x}-7"
    log = [
        *GOOD,
        nominate(0.15, "o1", plan=theirs, victims=2),
        write(MARK, 0.25, "v1", owners=(("default/g", PLAN), ("default/o1", theirs))),
    ]
    lists = (*LISTS, Listed(MADE + 0.1, theirs, ("v1", "v3")))
    ours = tuple(Removing(MADE + 0.28, uid, PLAN, "default/g") for uid in ("v1", "v2"))
    assert found(log, pods, lists=lists, said=ours) == set()
    wrong = tuple(Removing(MADE + 0.28, uid, theirs, "default/o1") for uid in ("v1", "v2"))
    assert found(log, pods, lists=lists, said=wrong) == {"removal before all marks", "removal outside intent"}


#: The second victim is shared: a plan of a stronger gang has marked it before, and speaks for both in words.
THEIRS = f"{int(MADE * 1000) - 20:x}-7"
SHARED = [nominate(0.05, "o1", plan=THEIRS, victims=1), write(MARK, 0.15, "v2", owners=(("default/o1", THEIRS),))]
BOTH = (("default/g", PLAN), ("default/o1", THEIRS))


@pytest.mark.parametrize(
    ("marks", "expected"),
    [
        ([write(MARK, 0.2, "v2", owners=BOTH)], set()),
        ([], {"removal before all marks"}),
        (
            [write(MARK, 0.2, "v2", owners=(("default/g", NEXT), BOTH[1]))],
            {"removal before all marks", "mark before intent"},
        ),
        (
            [write(MARK, 0.2, "v2", owners=BOTH), write(MARK, 0.25, "v2", owners=BOTH[1:])],
            {"removal before all marks"},
        ),
    ],
    ids=["it names both", "it does not name the plan", "it names another plan", "it does not any more"],
)
def test_a_plan_stands_on_every_victim_that_it_shares(marks: list[Write], expected: set[str]) -> None:
    """Whatever the mark says in words, that this plan is one of its owners is what counts."""
    known = lives(v1={"leaving_at": MADE + 0.3}, v2={"leaving_at": MADE + 0.3})
    known["o1"] = Life("o1", "default/o1", "default/o1", 1, 200, 1000, "s")
    lists = (*LISTS, Listed(MADE, THEIRS, ("v2",)))
    said = tuple(Removing(MADE + 0.28, uid, PLAN, "default/g") for uid in ("v1", "v2"))
    assert found([*SHARED, *without(5), *marks], known, lists=lists, said=said) == expected


def test_who_is_named_before_may_be_named_again_while_it_is_withdrawn() -> None:
    """A mark of one plan that was asked for while another stood names both, and says nothing new of the other."""
    known = lives(v1={"leaving_at": MADE + 0.3}, v2={"leaving_at": MADE + 0.3})
    known["o1"] = Life("o1", "default/o1", "default/o1", 1, 200, 1000, "s")
    withdrawn = write(WITHDRAW, 0.17, "o1")
    named = write(MARK, 0.2, "v2", owners=BOTH)
    lists = (*LISTS, Listed(MADE, THEIRS, ("v2",)))
    said = tuple(Removing(MADE + 0.28, uid, PLAN, "default/g") for uid in ("v1", "v2"))
    assert found([*SHARED, withdrawn, *without(5), named], known, lists=lists, said=said) == set()
    anew = [SHARED[0], withdrawn, *without(5), named]
    assert found(anew, known, lists=lists, said=said) == {"mark before intent"}


QUEUE = "ClusterQueue a"
DRAIN = [lease(-0.5), write(MARK, 0.2, "v1", queues=(QUEUE,)), write(REMOVE, 0.3, "v1")]


@pytest.mark.parametrize(
    ("stopped", "log", "kinds"),
    [
        ((0.1, 9.0), DRAIN, set()),
        ((-9.0, 0.25), DRAIN, set()),
        ((-9.0, -5.0), DRAIN, {"drain of an open queue"}),
        ((5.0, 9.0), DRAIN, {"drain of an open queue"}),
        ((0.1, 9.0), [*DRAIN[:2], write(UNMARK, 0.25, "v1"), DRAIN[2]], {"removal without mark"}),
        ((0.1, 9.0), [DRAIN[0], DRAIN[2]], {"removal without mark"}),
    ],
)
def test_a_drain_needs_its_marks_and_a_queue_that_drains(
    stopped: tuple[float, float], log: list[Write], kinds: set[str]
) -> None:
    """The mark is the intent, and it holds while the queue is drained; just after that nobody can know."""
    begin, end = stopped
    known = lives(v1={"leaving_at": MADE + 0.3})
    assert found(log, known, drained={QUEUE: [(MADE + begin, MADE + end)]}) == kinds
