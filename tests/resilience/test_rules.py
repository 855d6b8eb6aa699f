"""The judge of the audit log finds what it is there for; a log as it should be has nothing in it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gangsched.model.convert import OWNERS_CONDITION
from tests.resilience import audit
from tests.resilience.audit import BIND, LEASE, MARK, NOMINATE, REMOVE, REVIEW, UNMARK, WITHDRAW, Write
from tests.resilience.evidence import Decided, Evidence, Known, Listed, Removing, Sent
from tests.resilience.load import Life
from tests.resilience.rivals import judge
from tests.resilience.rules import FENCED, MIDWAY, ON_THE_WIRE, REMARKS, Rules

US = "us"
#: When the plan was made, in the seconds that its id says.
MADE = 1000.0
PLAN, NEXT = f"{int(MADE * 1000):x}-1", f"{int(MADE * 1000) + 500:x}-2"
LIMITS = {"request_timeout_seconds": 0.7, "renew_deadline_seconds": 1.2, "duration_seconds": 2.0}


def write(kind: str, at: float, uid: str = "", process: str = "p1", **more: Any) -> Write:
    """A request that arrived so long after the plan was made, and was answered at once."""
    told = {"code": 200, "timeout_seconds": 0.7, "user": US, "of_pod": kind != LEASE, **more}
    told.setdefault("version", "7" if kind == REMOVE else "")
    name = f"default/{uid or 'lease'}"
    moment = MADE + at
    return Write(kind=kind, object=name, uid=uid, process=process, received=moment, answered=moment + 0.01, **told)


def lives(**changes: dict[str, Any]) -> dict[str, Life]:
    """Two members of a gang, three victims that run."""
    members = [Life(m, f"default/{m}", "default/g", 2, 100, 1000, "s") for m in ("m1", "m2")]
    victims = [Life(v, f"default/{v}", "default/v", 1, 1, 1000, "s", "n", bound_at=1.0) for v in ("v1", "v2", "v3")]
    out = {x.uid: x for x in (*members, *victims)}
    for uid, fields in changes.items():
        for name, value in fields.items():
            setattr(out[uid], name, value)
    return out


def nominate(at: float, uid: str, **more: Any) -> Write:
    """A member is nominated; its plan has two victims."""
    return write(NOMINATE, at, uid, **{"node": "n", "plan": PLAN, "victims": 2, **more})


def mark(at: float, uid: str, *plans: str, **more: Any) -> Write:
    """A victim is marked for these plans of the gang, by default for the first one."""
    return write(MARK, at, uid, owners=tuple(("default/g", plan) for plan in plans or (PLAN,)), **more)


def lease(at: float, process: str = "p1", **more: Any) -> Write:
    """A process takes or renews the lease."""
    return write(LEASE, at, "", process, **{"holder": f"identity of {process}", **more})


GOOD = [
    lease(-0.5),
    lease(0.3),
    nominate(0.1, "m1"),
    nominate(0.1, "m2"),
    mark(0.2, "v1"),
    mark(0.2, "v2"),
    write(REMOVE, 0.3, "v1"),
    write(REMOVE, 0.3, "v2"),
    write(BIND, 0.4, "m1", node="n"),
    write(BIND, 0.4, "m2", node="n"),
]


#: Who is on the lists of the plans.
LISTS = (Listed(MADE + 0.05, PLAN, ("v1", "v2")), Listed(MADE + 0.45, NEXT, ("v3",)))


def found(
    log: list[Write],
    known: dict[str, Life] | None = None,
    frozen: list[tuple[str, float]] | None = None,
    lists: tuple[Listed, ...] = LISTS,
    sent: tuple[Sent, ...] = (),
    said: tuple[Removing, ...] = (),
    drained: dict[str, list[tuple[float, float]]] | None = None,
) -> set[str]:
    """The kinds of violations and remarks in a log."""
    known = known or lives(v1={"leaving_at": MADE + 0.3}, v2={"leaving_at": MADE + 0.3})
    log = sorted(log, key=lambda w: w.received)
    rules = Rules(log, known, US, Evidence([*lists, *sent, *said]), frozen or [], drained or {})
    return {kind for kind, texts in rules.violations(**LIMITS).items() if texts}


def without(*numbers: int) -> list[Write]:
    """The good log without some of its entries."""
    return [w for n, w in enumerate(GOOD) if n not in numbers]


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


UNIT = ("default/g", PLAN, "PodGroup default/v")
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


def test_a_write_without_an_answer_counts_if_the_pod_shows_it() -> None:
    """The sender was killed: the server answers nobody, and has done it all the same."""
    lost = [*without(5), mark(0.2, "v2", code=504)]
    assert "removal before all marks" in found(lost)
    seen = {"leaving_at": MADE + 0.3, "marked_for": {("default/g", PLAN)}}
    assert found(lost, lives(v1={"leaving_at": MADE + 0.3}, v2=seen)) == set()


def test_a_victim_that_left_by_itself_is_not_marked() -> None:
    """However long before: what the plan rested on may have been old. But the one that is missing must be that one."""
    log, at = without(5, 7), MADE - 30.0
    assert found(log, lives(v1={"leaving_at": MADE + 0.3}, v2={"leaving_at": at, "gone_at": at})) == set()
    others = lives(v1={"leaving_at": MADE + 0.3}, v3={"leaving_at": MADE + 0.1, "gone_at": MADE + 0.1})
    assert found(log, others) == {"removal before all marks"}
    by_hand = write(REMOVE, 0.1, "v2", user="somebody else")
    assert found([*log, by_hand], lives(v1={"leaving_at": MADE + 0.3}, v2={"leaving_at": MADE + 5.0})) == set()


def test_taking_back_a_mark_without_an_answer_counts_if_the_pod_shows_it() -> None:
    """The sender had lost the lease meanwhile, and found the pod without a mark when it led again."""
    log = [*without(7, 8, 9), write(UNMARK, 0.35, "v2", code=504)]
    assert found(log, lives(v1={"leaving_at": MADE + 0.3})) == {"mark left behind"}
    shown = lives(v1={"leaving_at": MADE + 0.3}, v2={"unmarked_at": [MADE + 0.6]})
    assert found(log, shown) == {"list let off half-way"}


@pytest.mark.parametrize(("seconds", "wrong"), [(0.1, set()), (1.5, set()), (3.0, {"bind outside intent"})])
def test_taking_back_a_nomination_without_an_answer_counts_if_the_pod_shows_it(seconds: float, wrong: set[str]) -> None:
    """Its sender was killed, and the next leader found the member without a nomination. The watch that tells the judge
    may be late on a machine that is busy.
    """
    log = [*without(9), write(WITHDRAW, 0.36, "m2", code=504), write(BIND, 0.4, "m2", node="other")]
    shown = {"withdrawn_at": [MADE + 0.36 + seconds]}
    gone = {"leaving_at": MADE + 0.3, "gone_at": MADE + 0.4}
    assert found(log, lives(v1=gone, v2=gone, m2=shown)) == wrong


def test_a_request_whose_body_never_came_is_not_judged_by_it() -> None:
    """Its sender had gone; it has failed."""
    torn = [write(kind, 0.4, "", code=500, whole=False) for kind in (BIND, REMOVE)]
    assert found([*GOOD, *torn]) == set()
    assert found([*GOOD, write(BIND, 0.4, "")]) == {"no UID precondition"}


def test_a_removal_in_vain_needs_no_more_than_a_mark_in_vain() -> None:
    """The pod was gone when it was to be marked: that its removal finds the same harms nobody. One that works does."""
    pods = lives(v1={"leaving_at": MADE + 0.3}, v2={"leaving_at": MADE - 1.0, "gone_at": MADE - 1.0})
    log = [*without(5, 7), mark(0.2, "v2", code=404)]
    assert found([*log, write(REMOVE, 0.3, "v2", code=404)], pods) == set()
    assert found([*log, write(REMOVE, 0.3, "v2")], pods) == {"removal without mark"}
    assert found([*without(5, 7), write(REMOVE, 0.3, "v2", code=404)], pods) == {"removal without mark"}


def test_a_late_write_is_excused_only_if_it_had_left_before_its_sender_was_stopped() -> None:
    """A process that wakes up looks at the clock before it sends: what it sends then is no accident."""
    log = [*GOOD, lease(0.45, "p2"), write(WITHDRAW, 0.55, "m1", audit_id="p1-9")]
    frozen = [("p1", MADE + 0.42)]
    assert found(log, frozen=frozen, sent=(Sent(MADE + 0.4, MADE + 0.41, "p1-9"),)) == {ON_THE_WIRE}
    assert found(log, frozen=frozen, sent=(Sent(MADE + 0.41, MADE + 0.54, "p1-9"),)) == {MIDWAY}
    assert found(log, frozen=frozen, sent=(Sent(MADE + 0.43, MADE + 0.54, "p1-9"),)) == {"write of a deposed leader"}
    assert found(log, frozen=frozen) == {"write of a deposed leader"}
    assert found(log, frozen=[("p2", MADE + 0.42)], sent=(Sent(MADE + 0.4, MADE + 0.41, "p1-9"),)) == {
        "write of a deposed leader"
    }
    assert ON_THE_WIRE in REMARKS


def test_a_request_that_has_arrived_had_left_whenever_its_sender_notes_it() -> None:
    """A sender that is stopped between the last byte and its note has sent in time all the same."""
    assert (
        found([*GOOD, write(WITHDRAW, 0.45, "m1", audit_id="p1-9")], sent=(Sent(MADE + 0.44, MADE + 5.0, "p1-9"),))
        == set()
    )


@pytest.mark.parametrize(("left", "expected"), [(0.5, set()), (1.5, {"write past the lease"})])
def test_when_a_request_has_left_says_whether_it_was_too_late(left: float, expected: set[str]) -> None:
    """A busy machine may take its time to deliver one that has left before the deadline; the lease has not run out."""
    log = [*GOOD, write(WITHDRAW, 1.5, "m1", audit_id="p1-9")]
    assert found(log, sent=(Sent(MADE + left - 0.01, MADE + left, "p1-9"),)) == expected


#: When the other's binding was known (None: never) and gone again (None: never), when ours came; innocent and guilty.
BEYOND: dict[str, tuple[float | None, float | None, float, tuple[int, int]]] = {
    "known only after our decision": (0.25, None, 0.3, (1, 0)),
    "never known": (None, None, 0.3, (1, 0)),
    "known before": (0.1, None, 0.3, (0, 1)),
    "not known for too long": (2.0, None, 1.5, (0, 1)),
    "known while ours was on its way": (0.25, None, 1.5, (1, 0)),
    "gone again when ours came": (0.1, 0.25, 0.3, (0, 0)),
}


@pytest.mark.parametrize("case", BEYOND)
def test_who_could_have_known_of_a_binding_of_somebody_else(case: str) -> None:
    """Room for one: ours is innocent if its decision had not been told of the other, which had just been made."""
    known_at, gone_at, ours, expected = BEYOND[case]
    decided = 0.2 if "on its way" in case else ours - 0.1
    pods = {
        uid: Life(uid, f"default/{uid}", f"default/{uid}", 1, 1, 1000, "s", "n", bound_at=MADE) for uid in ("o", "u")
    }
    log = [write(BIND, 0.0, "o", user="rival", node="n"), write(BIND, ours, "u", node="n")]
    if gone_at is not None:
        log.append(write(REMOVE, gone_at, "o", user="rival"))
        pods["o"].gone_at = MADE + 5.0  # when we heard of it
    told = [Known(MADE + known_at, "o", "n")] if known_at is not None else []
    verdict = judge(log, pods, US, 1000, Evidence([*told, Decided(MADE + decided, "u", "n")]))
    assert (verdict.by_us, len(verdict.faults)) == expected
    assert verdict.by_others == 0


def test_the_log_is_read() -> None:
    """A status patch, its process, its deadline."""
    condition = {
        "type": "gangsched.dev/Nominated",
        "status": "True",
        "message": json.dumps({"plan": PLAN, "victims": 2, "node": "n", "awaited": 0, "version": 1}),
    }
    event = {
        "verb": "patch",
        "user": {"username": US},
        "userAgent": "gangsched/1 (p7)",
        "objectRef": {"resource": "pods", "subresource": "status", "namespace": "default", "name": "m1"},
        "requestObject": {
            "metadata": {"uid": "m1"},
            "status": {"nominatedNodeName": "n", "conditions": [condition]},
        },
        "requestURI": "/api/v1/namespaces/default/pods/m1/status?timeout=700ms",
        "responseStatus": {"code": 200},
        "requestReceivedTimestamp": "1970-01-01T00:16:40.100000Z",
        "stageTimestamp": "1970-01-01T00:16:40.110000Z",
    }
    [read] = audit.writes([event, {"verb": "get"}])
    assert (read.kind, read.object, read.uid, read.process) == (NOMINATE, "default/m1", "m1", "p7")
    assert (read.node, read.plan, read.victims, read.timeout_seconds) == ("n", PLAN, 2, 0.7)
    assert read.received == MADE + 0.1


def test_a_mark_says_what_leaves_as_a_whole() -> None:
    """For each gang and plan, and nothing where others of the unit may stay."""
    owner = {"plan": PLAN, "cause": "preemption", "scheduler": "s", "for": "default/g", "unitKind": "PodGroup"}
    owners = [{**owner, "unitName": "default/v"}, {**owner, "plan": NEXT, "unitName": "default/v", "partial": True}]
    mark_ = {"type": "DisruptionTarget", "status": "True"}
    said = {"type": OWNERS_CONDITION, "status": "True", "message": json.dumps({"owners": owners, "version": 1})}
    [read] = audit.writes([logged("patch", "status", {"metadata": POD, "status": {"conditions": [mark_, said]}})])
    assert (read.kind, read.owners) == (MARK, (("default/g", PLAN), ("default/g", NEXT)))
    assert read.units == (UNIT,)


POD = {"uid": "m1"}
#: By name: verb, subresource, and a body that names the UID of the pod that it means.
CONDITIONS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "status": ("patch", "status", {"metadata": POD, "status": {"conditions": [{"type": "PodScheduled"}]}}),
    "resize": ("patch", "resize", {"metadata": POD, "spec": {}}),
    "metadata": ("patch", "", {"metadata": {**POD, "annotations": {"a": "b"}}}),
    "the whole": ("update", "", {"metadata": POD, "spec": {}}),
    "ephemeral container": ("update", "ephemeralcontainers", {"metadata": POD}),
    "binding": ("create", "binding", {"metadata": POD, "target": {"name": "n"}}),
    "eviction": ("create", "eviction", {"metadata": {"name": "m1"}, "deleteOptions": {"preconditions": POD}}),
    "delete": ("delete", "", {"preconditions": POD}),
}


def logged(verb: str, part: str, body: object, resource: str = "pods", name: str = "m1") -> dict[str, Any]:
    """What an audit log says of a request of ours; ``part`` is the subresource."""
    return {
        "verb": verb,
        "user": {"username": US},
        "userAgent": "gangsched/1 (p1)",
        "objectRef": {"resource": resource, "subresource": part, "namespace": "default", "name": name},
        "requestObject": body,
        "requestURI": f"/api/v1/namespaces/default/{resource}/{name}/{part}?timeout=700ms",
        "responseStatus": {"code": 200},
        "requestReceivedTimestamp": "1970-01-01T00:16:39.600000Z",
        "stageTimestamp": "1970-01-01T00:16:39.610000Z",
    }


def unnamed(body: object) -> object:
    """A body without a UID at any depth."""
    return {k: unnamed(v) for k, v in body.items() if k != "uid"} if isinstance(body, dict) else body


@pytest.mark.parametrize("case", CONDITIONS)
def test_every_write_to_a_pod_needs_a_uid_whatever_it_is(case: str) -> None:
    """Of what kind it is, and whether anything else in the log is of that kind, does not matter."""
    verb, part, body = CONDITIONS[case]
    [named] = audit.writes([logged(verb, part, body)])
    [blank] = audit.writes([logged(verb, part, unnamed(body))])
    assert (named.uid, blank.uid) == ("m1", "")
    assert "no UID precondition" not in found([GOOD[0], named])
    assert "no UID precondition" in found([GOOD[0], blank])


@pytest.mark.parametrize(
    ("verb", "part", "body"),
    [
        ("deletecollection", "", {}),
        ("patch", "status", [{"op": "add", "path": "/status/conditions/-", "value": {"type": "x"}}]),
        ("patch", "", None),
    ],
    ids=["many at once", "a list of operations", "no body"],
)
def test_a_write_to_pods_that_cannot_name_one_is_found(verb: str, part: str, body: object) -> None:
    """There is no form in which it would mean one incarnation."""
    assert "no UID precondition" in found([GOOD[0], *audit.writes([logged(verb, part, body)])])


@pytest.mark.parametrize(
    ("verb", "resource", "name"), [("create", "events", "e"), ("patch", "podgroups", "g"), ("create", "pods", "")]
)
def test_what_changes_no_pod_needs_none(verb: str, resource: str, name: str) -> None:
    """Events and groups; and a pod that is made has no UID yet."""
    event = logged(verb, "", {"metadata": {"name": name}}, resource, name)
    assert "no UID precondition" not in found([GOOD[0], *audit.writes([event])])


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
