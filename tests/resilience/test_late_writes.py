"""What the judge makes of requests without an answer, of late ones, and of those that others have overtaken."""

from __future__ import annotations

import pytest

from tests.resilience.audit import BIND, REMOVE, UNMARK, WITHDRAW
from tests.resilience.evidence import Decided, Evidence, Known, Sent
from tests.resilience.load import Life
from tests.resilience.made_up import (
    GOOD,
    MADE,
    PLAN,
    US,
    found,
    lease,
    lives,
    mark,
    without,
    write,
)
from tests.resilience.rivals import judge
from tests.resilience.rules import MIDWAY, ON_THE_WIRE, REMARKS


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
