"""The judge of the audit log finds what it is there for; a log as it should be has nothing in it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.resilience import audit
from tests.resilience.audit import BIND, LEASE, MARK, NOMINATE, REMOVE, UNMARK, WITHDRAW, Write
from tests.resilience.load import Life
from tests.resilience.rules import ON_WAKING, REMARKS, Rules

US = "us"
#: When the plan was made, in the seconds that its id says.
MADE = 1000.0
PLAN, NEXT = f"{int(MADE * 1000):x}-1", f"{int(MADE * 1000) + 500:x}-2"
LIMITS = {"request_timeout_seconds": 0.7, "renew_deadline_seconds": 1.2, "duration_seconds": 2.0}


def write(kind: str, at: float, uid: str = "", process: str = "p1", **more: Any) -> Write:
    """A request that arrived so long after the plan was made, and was answered at once."""
    told = {"code": 200, "timeout_seconds": 0.7, **more}
    name = f"default/{uid or 'lease'}"
    moment = MADE + at
    return Write(
        kind=kind, object=name, uid=uid, process=process, user=US, received=moment, answered=moment + 0.01, **told
    )


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


def mark(at: float, uid: str, **more: Any) -> Write:
    """A victim is marked for the gang."""
    return write(MARK, at, uid, preemptor="default/g", **more)


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


def found(
    log: list[Write], known: dict[str, Life] | None = None, woken: list[tuple[str, float]] | None = None
) -> set[str]:
    """The kinds of violations and remarks in a log."""
    known = known or lives(v1={"leaving_at": MADE + 0.3}, v2={"leaving_at": MADE + 0.3})
    rules = Rules(sorted(log, key=lambda w: w.received), known, US, woken or [])
    return {kind for kind, texts in rules.violations(**LIMITS).items() if texts}


def without(*numbers: int) -> list[Write]:
    """The good log without some of its entries."""
    return [w for n, w in enumerate(GOOD) if n not in numbers]


def test_a_log_as_it_should_be() -> None:
    """Nominate, mark, remove, bind, each complete before the next: nothing to say, and two planned, two evicted."""
    assert found(GOOD) == set()
    known = lives(v1={"leaving_at": MADE + 0.3}, v2={"leaving_at": MADE + 0.3})
    assert Rules(GOOD, known, US).planned() == (2, 2)


CASES: dict[str, tuple[list[Write], str]] = {
    "a removal that names no UID": ([*GOOD, write(REMOVE, 0.5, "")], "no UID precondition"),
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
    "one more than planned": ([*GOOD, mark(0.2, "v3"), write(REMOVE, 0.3, "v3")], "more victims than planned"),
    "another list while the first stands": (
        [
            *without(6, 7, 8, 9),
            *(nominate(0.5, m, plan=NEXT, victims=1) for m in ("m1", "m2")),
            mark(0.6, "v3"),
            write(REMOVE, 0.7, "v3"),
        ],
        "second list of victims",
    ),
    "bound to two nodes": ([*GOOD, write(BIND, 0.5, "m1", node="n")], "bound twice"),
    "bound elsewhere": ([*without(9), write(BIND, 0.4, "m2", node="other")], "bind outside intent"),
    "no deadline": ([*without(9), write(BIND, 0.4, "m2", node="n", timeout_seconds=None)], "write without deadline"),
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
    untouched = case == "another list while the first stands"
    assert kind in found(log, lives() if untouched else None)


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
    seen = {"leaving_at": MADE + 0.3, "marked_for": {"default/g"}}
    assert found(lost, lives(v1={"leaving_at": MADE + 0.3}, v2=seen)) == set()


def test_what_a_process_sends_as_it_wakes_up_is_told_apart() -> None:
    """Only at that moment: later it knows that it does not lead."""
    log = [*GOOD, lease(0.45, "p2"), write(WITHDRAW, 0.55, "m1")]
    assert found(log, woken=[("p1", MADE + 0.5)]) == {ON_WAKING}
    assert found(log, woken=[("p1", MADE + 0.2)]) == {"write of a deposed leader"}
    assert ON_WAKING in REMARKS


def test_the_log_is_read() -> None:
    """A status patch, its process, its deadline."""
    condition = {
        "type": "gangsched.dev/Nominated",
        "status": "True",
        "message": f"plan {PLAN}: nominated to n; waiting",
    }
    condition["message"] += " for 2 victims and 0 terminating pods"
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
