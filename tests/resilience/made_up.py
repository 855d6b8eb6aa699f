"""An audit log as it should be, and the requests of which logs are made up."""

from __future__ import annotations

from typing import Any

from tests.resilience.audit import BIND, LEASE, MARK, NOMINATE, REMOVE, Write
from tests.resilience.evidence import Evidence, Listed, Removing, Sent
from tests.resilience.load import Life
from tests.resilience.rules import Rules

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


#: What leaves as a whole for the first plan.
UNIT = ("default/g", PLAN, "PodGroup default/v")
