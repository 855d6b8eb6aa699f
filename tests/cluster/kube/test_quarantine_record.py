"""What the Lease says of decisions that may not come to an end."""

from __future__ import annotations

from gangsched.cluster.kube.lease import Lease
from gangsched.cluster.kube.quarantine_record import ANNOTATION, QuarantineRecord
from gangsched.core.events import Quarantined


class Clock:
    """A clock that is set by hand."""

    def __init__(self, now: float) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


def record(clock: Clock) -> QuarantineRecord:
    """The record of a process that has just started."""
    return QuarantineRecord(clock, clock)


def test_a_decision_that_takes_longer_than_any_should_is_written_down() -> None:
    """Not one that is quick; and nothing is left of one that has come to an end."""
    clock = Clock(1000.0)
    mine = record(clock)
    mine.begin("d/slow")
    clock.now += 4.9
    assert mine.text() == ""
    clock.now += 0.2
    assert mine.text() == '{"d/slow":{"times":1,"at":1005.1}}'
    mine.end()
    assert mine.text() == ""


def test_the_next_leader_learns_it_and_counts() -> None:
    """The third process that hangs over one gang finds that two have before it."""
    clock, said = Clock(1000.0), ""
    for times in range(1, 4):
        mine = record(clock)
        told = mine.load(said)
        assert [event.times for event in told] == ([times - 1] if said else [])
        mine.begin("d/slow")
        clock.now += 60.0
        said = mine.text()
    after = record(clock)
    assert after.load(said) == [Quarantined("", "", "d/slow", "", 3, 1180.0)]
    assert after.text() == said
    after.begin("d/other")
    after.end()
    assert after.text() == said
    after.begin("d/slow")
    after.end()
    assert after.text() == ""


def test_an_error_in_a_decision_is_written_down_at_once() -> None:
    """The process ends within milliseconds, and gives its Lease back."""
    mine = record(Clock(1000.0))
    mine.begin("d/bad")
    mine.failed()
    assert mine.text() == '{"d/bad":{"times":1,"at":1000.0}}'


def test_what_is_a_day_old_is_forgotten() -> None:
    """The gang may be gone, and nobody would ever decide it."""
    clock = Clock(100_000.0)
    assert record(clock).load('{"d/old":{"times":9,"at":13599.0},"d/new":{"times":1,"at":13601.0}}') == [
        Quarantined("", "", "d/new", "", 1, 13601.0)
    ]


def test_an_annotation_of_others_is_ignored() -> None:
    """Whoever may write the Lease leads anyway; nonsense in it stops nobody."""
    for text in ("", "{", "[]", '{"d/g": 3}', '{"d/g": {"times": "x", "at": 1}}'):
        assert record(Clock(0.0)).load(text) == []


def test_an_annotation_is_added_and_taken_away_beside_others() -> None:
    """Those of others stay."""
    lease = Lease({"metadata": {"name": "l", "annotations": {"other": "x"}}})
    noted = lease.annotated(ANNOTATION, "{}")
    assert noted.annotations == {"other": "x", ANNOTATION: "{}"}
    assert noted.annotated(ANNOTATION, "").annotations == {"other": "x"}
    assert lease.annotations == {"other": "x"}


def test_what_is_quarantined_survives_the_process() -> None:
    """Objects of namespaces and of the cluster, and gangs; what is over is not written any more."""
    clock = Clock(1000.0)
    mine, why = record(clock), "the scheduler failed in add (hint_index.py:20): KeyError"
    entries = [
        Quarantined("Pod", "d", "evil", "u-1", 3, 990.0, why),
        Quarantined("Node", "", "n0", "u-2", 2, 980.0, why),
        Quarantined("", "", "d/a,d/b", "", 2, 970.0, why),
    ]
    mine.keep(entries)
    assert record(clock).load(mine.text()) == entries
    mine.keep(entries[:1])
    assert record(clock).load(mine.text()) == entries[:1]
    mine.keep([])
    assert mine.text() == ""
