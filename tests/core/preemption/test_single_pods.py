"""Preemption by single pods: the situations that kube-scheduler's own tests of preemption are about, and what follows.

Where kube-scheduler chooses, the victims here are the same, or they are fewer or less important.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import pytest

from gangsched.core.decision import BIND, PREEMPT, UNSCHEDULABLE
from gangsched.model.constraints import PodTerm, SpreadConstraint
from tests.builders import PodBuilder, node, pdb, pod, selects
from tests.core.harness import Built, placed, plan, victims

LOW, MID, HIGH, TOP = 1, 100, 1000, 10_000


class Case(NamedTuple):
    """A pending pod, what is there, and the outcome; ``node`` is where it goes, empty when that is open."""

    name: str
    wanted: PodBuilder
    there: Sequence[Built]
    outcome: str
    evicted: list[str]
    node: str = ""


def there(name: str, on: str, priority: int, cpu: float = 1, started: float = 0.0, **labels: str) -> PodBuilder:
    """A running pod."""
    return pod(name).on(on, started).priority(priority).cpu(cpu).label(**labels)


def apart(key: str = "kubernetes.io/hostname") -> tuple[PodTerm, ...]:
    """Required anti-affinity to pods with the label app=web."""
    return (PodTerm(key, selects(app="web"), ("d",)),)


def spread(key: str) -> SpreadConstraint:
    """At most one pod of app=web more than elsewhere."""
    return SpreadConstraint(key, 1, selects(app="web"), True)


def big() -> PodBuilder:
    """A pending pod that needs a node for itself."""
    return pod("p").priority(HIGH).cpu(4)


ZONED = [
    node("a").label(zone="1", host="a"),
    node("b").label(zone="1", host="b"),
    node("x").label(zone="2", host="x"),
]
WEB_EVERYWHERE = [
    there("a1", "a", MID, app="web"),
    there("a2", "a", LOW, app="web"),
    there("b1", "b", LOW, started=50, app="web"),
    there("x1", "x", HIGH, app="web"),
    there("x2", "x", HIGH, app="web"),
]

CASES = [
    Case("one that fits takes nobody's room", pod("p").priority(HIGH).cpu(3), [there("a", "n1", LOW)], BIND, []),
    Case("one lower pod is in the way", big(), [there("a", "n1", LOW, 4), there("b", "n2", HIGH, 4)], PREEMPT, ["a"]),
    Case("equals stay", big(), [there("a", "n1", HIGH, 4), there("b", "n2", HIGH, 4)], UNSCHEDULABLE, []),
    Case("higher ones stay", big(), [there("a", "n1", TOP, 4), there("b", "n2", HIGH, 4)], UNSCHEDULABLE, []),
    Case(
        "not enough even so",
        pod("p").priority(HIGH).cpu(3),
        [there("a", "n1", LOW, 2), there("b", "n1", HIGH, 2), there("c", "n2", HIGH, 3)],
        UNSCHEDULABLE,
        [],
    ),
    Case("larger than any node", pod("p").priority(HIGH).cpu(5), [there("a", "n1", LOW, 4)], UNSCHEDULABLE, []),
    Case(
        "who is small may stay, though less important",
        big(),
        [there("small", "n1", LOW, 0), there("large", "n1", MID, 4), there("other", "n2", HIGH, 4)],
        PREEMPT,
        ["large"],
        "n1",
    ),
    Case(
        "of several priorities, the more important ones are put back first",
        pod("p").priority(HIGH).cpu(2),
        [
            there("keep", "n1", MID, 1),
            there("low", "n1", LOW, 1),
            there("mid", "n1", MID, 1, started=500),
            there("high", "n1", HIGH, 1),
            there("other", "n2", HIGH, 4),
        ],
        PREEMPT,
        ["low", "mid"],
        "n1",
    ),
    Case(
        "of equals, the one that started last goes",
        pod("p").priority(HIGH).cpu(1),
        [there(f"s{n}", "n1", LOW, 1, started=100.0 * n) for n in range(4)] + [there("b", "n2", HIGH, 4)],
        PREEMPT,
        ["s3"],
    ),
    Case(
        "the node whose most important victim is least important",
        big(),
        [there("a", "n1", MID, 4), there("b", "n2", LOW, 4)],
        PREEMPT,
        ["b"],
        "n2",
    ),
    Case(
        "of like victims, fewer",
        big(),
        [*(there(f"a{n}", "n1", LOW, 2) for n in range(2)), there("b", "n2", LOW, 4)],
        PREEMPT,
        ["b"],
        "n2",
    ),
    Case(
        "fewer of the most important victims",
        big(),
        [
            there("a1", "n1", MID, 2),
            there("a2", "n1", MID, 2),
            there("b1", "n2", MID, 2),
            there("b2", "n2", LOW, 1),
            there("b3", "n2", LOW, 1),
        ],
        PREEMPT,
        ["b1", "b2", "b3"],
        "n2",
    ),
    Case(
        "of alike nodes, the one whose victim started last",
        big(),
        [there("a", "n1", LOW, 4, started=10), there("b", "n2", LOW, 4, started=20)],
        PREEMPT,
        ["b"],
        "n2",
    ),
    Case(
        "no node that the pod cannot use anyhow",
        big().selector(disk="ssd"),
        [there("a", "n1", LOW, 4), there("b", "n2", LOW, 4)],
        UNSCHEDULABLE,
        [],
    ),
    Case(
        "the pod whose anti-affinity is in the way goes, whatever else is there",
        pod("p").priority(HIGH).cpu(1).label(app="web"),
        [
            there("hater", "n1", LOW).shape(anti_affinity=apart()),
            there("mid", "n1", MID),
            there("b", "n2", HIGH).shape(anti_affinity=apart()),
        ],
        PREEMPT,
        ["hater"],
        "n1",
    ),
    Case(
        "the pod that the anti-affinity of the preemptor names goes",
        pod("p").priority(HIGH).cpu(1).shape(anti_affinity=apart()),
        [there("a", "n1", LOW, app="web"), there("b", "n2", HIGH, app="web")],
        PREEMPT,
        ["a"],
        "n1",
    ),
    Case(
        "a port is freed",
        pod("p").priority(HIGH).cpu(1).port(80),
        [there("a", "n1", LOW).port(80), there("a2", "n1", LOW), there("b", "n2", HIGH).port(80)],
        PREEMPT,
        ["a"],
        "n1",
    ),
    Case(
        "nobody goes for an affinity that evictions cannot bring about",
        pod("p").priority(HIGH).cpu(1).shape(affinity=apart()),
        [there("a", "n1", LOW), there("b", "n2", LOW)],
        UNSCHEDULABLE,
        [],
    ),
    Case(
        "a budget decides between nodes",
        big(),
        [
            pdb("web").selects(app="web"),
            there("a", "n1", LOW, 4, app="web"),
            there("b1", "n2", MID, 2),
            there("b2", "n2", MID, 2),
        ],
        PREEMPT,
        ["b1", "b2"],
        "n2",
    ),
    Case(
        "a budget is broken when there is no other way",
        big(),
        [
            pdb("web").selects(app="web").allows(1),
            there("a1", "n1", MID, 2, app="web"),
            there("a2", "n1", MID, 2, app="web"),
            there("b", "n2", HIGH, 4),
        ],
        PREEMPT,
        ["a1", "a2"],
        "n1",
    ),
    Case(
        "one that may not preempt goes where there is room", big().never(), [there("a", "n1", LOW, 4)], BIND, [], "n2"
    ),
    Case(
        "one that may not preempt takes nothing",
        big().never(),
        [there("a", "n1", LOW, 4), there("b", "n2", LOW, 4)],
        UNSCHEDULABLE,
        [],
    ),
]


@pytest.mark.parametrize("case", CASES, ids=[c.name.replace(" ", "-") for c in CASES])
def test_pod_preemption(case: Case) -> None:
    """Victims and place of a single pod."""
    nodes = [
        node("n1").label(**{"kubernetes.io/hostname": "n1"}),
        node("n2").label(**{"kubernetes.io/hostname": "n2"}),
    ]
    found = plan(*nodes, *case.there, case.wanted, now=1000.0)["d/p"]
    assert (found.outcome, victims(found)) == (case.outcome, case.evicted)
    if case.node:
        assert placed(found) == {"p": case.node}


def test_the_skew_of_a_spread_constraint_is_mended_by_evictions() -> None:
    """Two constraints at once: the pod can go where a less important pod of its kind leaves."""
    wanted = pod("p").priority(HIGH).cpu(1).label(app="web").shape(spread=(spread("zone"), spread("host")))
    found = plan(*ZONED, *WEB_EVERYWHERE, wanted, now=1000.0)["d/p"]
    assert (found.outcome, len(found.victims)) == (PREEMPT, 1)
    assert {victims(found)[0]: placed(found)["p"]} in ({"a2": "a"}, {"b1": "b"})


def test_a_pod_that_an_eviction_has_been_granted_for_breaks_no_budget() -> None:
    """The API server has counted it already."""
    budget = pdb("web").selects(app="web").allows(1).field(disrupted=("a2",))
    pods = [there("a1", "n1", MID, 2, app="web"), there("a2", "n1", MID, 2, app="web")]
    found = plan(node("n1"), budget, *pods, pod("p").priority(HIGH).cpu(4), now=1000.0)["d/p"]
    assert [(v.name, v.over_budget) for v in found.victims] == [("a1", False), ("a2", False)]


def test_terminating_victims_are_waited_for() -> None:
    """While the room is on its way to be free, nobody else is evicted."""
    pods = [there("a", "n1", LOW, 4).terminating(), there("b", "n2", LOW, 4)]
    found = plan(node("n1"), node("n2"), *pods, pod("p").priority(HIGH).cpu(4), now=0.0)["d/p"]
    assert (found.outcome, [a.pod for a in found.awaiting]) == ("wait", ["d/a"])
