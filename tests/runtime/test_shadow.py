"""Shadow mode: what the other scheduler did and what this one would have done, each counted for the same gangs."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from gangsched.core.decision import BIND, PREEMPT, Decision
from gangsched.core.events import Changed, Event, Gone, LeadershipChanged, Synced
from gangsched.core.options import Options
from gangsched.model.records import Condition, Pod
from gangsched.runtime import shadow_figures
from gangsched.runtime.shadow import AGAIN_SECONDS, PATIENCE_SECONDS, REST_SECONDS, Shadow
from gangsched.runtime.shadow_figures import SETTLED_SECONDS, Comparison, Figures
from gangsched.runtime.shadow_report import fields_of, lines_of
from tests.builders import OTHERS, PodBuilder, node, pod

MARK = Condition("True", "PreemptionByScheduler", f"{OTHERS}: preempting to accommodate a higher priority pod")


class Beside:
    """A shadow on a clock of its own; ``measured`` has what it notes."""

    def __init__(self, *events: Event) -> None:
        self.now = 1000.0
        self.measured: dict[tuple[str, str], float] = {}
        self.comparison = Comparison((OTHERS,), self._note)
        self.shadow = Shadow(Options(scheduler_names=(OTHERS,)), self.comparison)
        self.decisions: list[Decision] = []
        self.happens(*events, Synced(), LeadershipChanged(True))
        self.rounds()

    def _note(self, name: str, value: float, labels: object) -> None:
        key = name, str(dict(labels)["by"])  # type: ignore[call-overload]
        self.measured[key] = self.measured.get(key, 0.0) + value

    def happens(self, *events: Event | Pod) -> None:
        """These arrive, at once."""
        told = [Changed(event) if isinstance(event, Pod) else event for event in events]
        assert self.shadow.handle(told, self.now) == []

    def rounds(self) -> list[Decision]:
        """Decide while there is something to decide; the decisions."""
        found: list[Decision] = []
        while self.shadow.has_work(self.now):
            assert self.shadow.decide(self.now) == []
            found += self.shadow.drain_decisions()
        self.decisions += found
        return found

    def passes(self, seconds: float = REST_SECONDS) -> list[Decision]:
        """Time passes; the decisions that follow."""
        self.now += seconds
        self.happens()
        return self.rounds()

    @property
    def figures(self) -> Figures:
        """Those of the time so far."""
        return self.comparison.upto(self.now)


def other(name: str) -> PodBuilder:
    """A pod of the other scheduler."""
    return pod(name).scheduler(OTHERS)


def low(index: int, on: str) -> PodBuilder:
    """A weak pod that runs."""
    return other(f"low-{index}").cpu(1).priority(1).on(on)


def cluster(nodes: int = 2, cores: int = 4) -> list[Event]:
    """Nodes full of weak pods."""
    found: list[Event] = [Changed(node(f"n{n}").cpu(cores).obj()) for n in range(nodes)]
    found += [Changed(low(n * cores + i, f"n{n}").obj()) for n in range(nodes) for i in range(cores)]
    return found


def outcomes(decisions: Sequence[Decision]) -> list[tuple[str, str, int]]:
    """Gang, outcome and number of victims of each."""
    return [(each.gang.name, each.outcome, len(each.victims)) for each in decisions]


def test_a_preemption_that_was_faster_is_compared_all_the_same() -> None:
    """The other scheduler has nominated, evicted and bound before a round begins; what it did for the pod is not seen
    before the pod is decided, and then it counts: four pods left, and one would have been enough.
    """
    beside = Beside(*cluster())
    high = other("high").cpu(1).priority(9)
    victims = [low(i, "n0") for i in range(4)]
    beside.now += 5
    beside.happens(high.obj())
    beside.happens(high.nominated("n0", intent=False).obj())
    for each in victims:
        beside.happens(each.field(disruption=MARK).obj())
        beside.happens(each.terminating(beside.now + 30).obj())
        beside.happens(Gone("Pod", "d", each.obj().name, each.obj().uid))
    beside.happens(other("high").cpu(1).priority(9).on("n0").obj())
    assert outcomes(beside.rounds()) == [("high", PREEMPT, 1)]
    figures = beside.figures
    assert (figures.real.evicted, figures.own.evicted) == (4, 1)
    assert (figures.real.evicted_for, figures.own.evicted_for) == (1, 1)
    assert (figures.real.started, figures.own.started) == (1, 1)
    (row,) = figures.differences
    assert (row.gang, row.evicted, row.would_evict, row.started) == ("d/high", 4, 1, True)
    assert beside.measured[("shadow_evictions", "other")] == 4
    assert beside.measured[("shadow_evictions", "shadow")] == 1
    assert beside.passes() == []  # it runs
    assert beside.shadow.world.pods["uid-d-high"].node == "n0"
    assert "uid-d-low-0" not in beside.shadow.world.pods


def test_reality_wins_after_a_decision() -> None:
    """Of what was decided nothing is kept: where the other scheduler binds a pod elsewhere, the room that it would have
    had is free for the next one.
    """
    beside = Beside(*(Changed(node(f"n{n}").cpu(4).obj()) for n in range(2)))
    beside.happens(other("a").cpu(4).obj())
    (first,) = beside.passes()
    taken = first.placements[0].node
    there = "n1" if taken == "n0" else "n0"
    beside.happens(other("a").cpu(4).on(there).obj(), other("b").cpu(4).obj())
    beside.passes()
    (last,) = [each for each in beside.passes(AGAIN_SECONDS) if each.gang.name == "b"]
    assert (last.outcome, last.placements[0].node) == (BIND, taken)
    assert beside.figures.real.started == 1


def test_pending_gangs_do_not_count_on_the_same_room() -> None:
    """In a round each gang is decided on what those before it leave: of two that want the last room one waits."""
    beside = Beside(Changed(node("n0").cpu(4).obj()))
    beside.happens(other("a").cpu(4).obj(), other("b").cpu(4).obj())
    assert outcomes(beside.passes()) == [("a", BIND, 0), ("b", "unschedulable", 0)]
    assert outcomes(beside.passes(AGAIN_SECONDS)) == [("a", BIND, 0), ("b", "unschedulable", 0)]
    assert (beside.figures.real.waiting, beside.figures.own.waiting) == (2, 1)
    assert beside.figures.own.started == 1
    assert beside.figures.only_own_names == ["d/a"]


def gang(index: int, size: int = 4) -> PodBuilder:
    """A member of a gang that is described by its members."""
    return other(f"g-{index}").cpu(1).priority(5).light_gang("g", size)


def test_a_gang_that_was_started_in_part_is_decided_whole() -> None:
    """The first members run before the others exist: the decision is about all four, and the gang has really started
    when the fourth is bound.
    """
    beside = Beside(*(Changed(node(f"n{n}").cpu(2).obj()) for n in range(2)))
    for index in range(3):
        beside.happens(gang(index).obj())
        beside.happens(gang(index).on("n0" if index < 2 else "n1").obj())
        beside.passes(2)
    assert beside.figures.real.started == 0
    arrived = beside.now
    beside.happens(gang(3).obj())
    found = beside.passes(2)
    assert [(each.gang.name, each.outcome, len(each.placements)) for each in found if each.placements] == [
        ("g", BIND, 4)
    ]
    beside.now = arrived + 60
    beside.happens(gang(3).on("n1").obj())
    beside.passes()
    figures = beside.figures
    assert (figures.real.started, figures.own.started) == (1, 1)
    (row,) = figures.differences
    assert (row.waited, row.would_wait) == (66, 6)  # from the first member


def test_a_gang_that_is_never_complete_holds_nothing_back_for_ever() -> None:
    """After a time the bindings of a gang that is not complete are seen: its pods take room."""
    beside = Beside(Changed(node("n0").cpu(2).obj()))
    beside.happens(gang(0).obj())
    beside.happens(gang(0).on("n0").obj())
    beside.passes(2)
    assert beside.shadow.world.pods["uid-d-g-0"].node == ""
    beside.passes(PATIENCE_SECONDS)
    beside.passes()
    assert beside.shadow.world.pods["uid-d-g-0"].node == "n0"


def test_gangs_that_others_break_are_counted() -> None:
    """The other scheduler evicts a member of a gang that has none to spare, and leaves the rest; this one takes a pod
    that is alone.
    """
    running = [gang(i).priority(1).on("n0") for i in range(4)]
    single = other("single").cpu(1).priority(1).on("n1")
    nodes = [Changed(node("n0").cpu(4).obj()), Changed(node("n1").cpu(1).obj())]
    beside = Beside(*nodes, *(Changed(each.obj()) for each in (*running, single)))
    beside.happens(other("high").cpu(1).priority(9).obj())
    beside.happens(running[0].field(disruption=MARK).terminating(beside.now + 30).obj())
    beside.passes()
    beside.happens(Gone("Pod", "d", "g-0", "uid-d-g-0"), other("high").cpu(1).priority(9).on("n0").obj())
    beside.passes()
    assert beside.figures.real.broken == 0  # who evicts one may be about to evict them all
    beside.passes(SETTLED_SECONDS + AGAIN_SECONDS)
    assert (beside.figures.real.broken, beside.figures.own.broken) == (1, 0)
    assert beside.decisions[0].victims[0].name == "single"


def test_a_gang_that_runs_in_part_is_counted_once() -> None:
    """Three members of four run for longer than a start takes. Here it would have started whole."""
    beside = Beside(Changed(node("n0").cpu(4).obj()), Changed(node("n1").cpu(4).obj()))
    beside.happens(*(gang(index).obj() for index in range(4)))
    beside.passes()
    beside.happens(*(gang(index).on("n0").obj() for index in range(3)))
    beside.passes()
    beside.passes(SETTLED_SECONDS - 2)
    assert beside.figures.real.in_part == 0  # the fourth may be on its way
    for _ in range(2):
        beside.passes(AGAIN_SECONDS)
    assert (beside.figures.real.in_part, beside.figures.own.in_part) == (1, 0)
    assert beside.measured[("shadow_gangs_in_part", "other")] == 1
    fields = fields_of(beside.figures, beside.now, (OTHERS,))
    assert (fields["other"]["gangsRunInPart"], fields["shadow"]["gangsRunInPart"]) == (1, 0)


def test_members_that_were_deleted_again_do_not_run_in_part() -> None:
    """If its first members are deleted within ten seconds, a gang has not run in part."""
    beside = Beside(Changed(node("n0").cpu(4).obj()))
    beside.happens(*(gang(index).obj() for index in range(4)))
    beside.passes()
    beside.happens(gang(0).on("n0").obj())
    beside.passes()
    beside.happens(Gone("Pod", "d", "g-0", "uid-d-g-0"))
    for _ in range(3):
        beside.passes(AGAIN_SECONDS)
    assert beside.figures.real.in_part == 0


def test_victims_leave_equally_fast_for_both() -> None:
    """Both would evict one pod for the gang. The pod that really left needed two seconds of its 30, so the other one is
    taken to need as long, though it was chosen before.
    """
    beside = Beside(*cluster(1, cores=1))
    high, victim = other("high").cpu(1).priority(9), low(0, "n0").field(disruption=MARK)
    beside.happens(high.obj())
    assert outcomes(beside.rounds() or beside.passes()) == [("high", PREEMPT, 1)]
    beside.happens(high.nominated("n0", intent=False).obj(), victim.obj())
    beside.happens(victim.terminating(beside.now + 30).obj())
    beside.now += 2
    beside.happens(Gone("Pod", "d", "low-0", "uid-d-low-0"))
    beside.happens(high.on("n0").obj())
    beside.passes()
    figures = beside.figures
    assert (figures.real.started, figures.own.started) == (1, 1)
    assert figures.own.in_sum == 2
    assert figures.real.in_sum - figures.own.in_sum <= 1 + REST_SECONDS
    assert beside.measured[("shadow_wait_seconds", "shadow")] == pytest.approx(2.0)


def test_one_that_does_not_fit_starts_when_it_is_seen_to() -> None:
    """A pod that waits for room would start in the first round that finds some, and has waited until then."""
    beside = Beside(Changed(node("n0").cpu(1).obj()), Changed(other("a").cpu(1).on("n0").obj()))
    beside.now += 10
    beside.happens(other("b").cpu(1).obj())
    beside.passes()
    beside.now += 100
    beside.happens(Gone("Pod", "d", "a", "uid-d-a"))
    beside.rounds()
    beside.now += 50
    beside.happens(other("b").cpu(1).on("n0").obj())
    beside.passes()
    beside.passes()
    (row,) = beside.figures.differences
    assert (row.waited, row.would_wait) == (151, 101)


def test_evictions_by_others_are_none_of_the_one_that_is_shadowed() -> None:
    """A pod that is drained, or preempted by a third scheduler, does not count."""
    beside = Beside(*cluster(1))
    drained = Condition("True", "EvictionByEvictionAPI", "Eviction API: evicting")
    third = Condition("True", "PreemptionByScheduler", "third: preempting to accommodate a higher priority pod")
    beside.happens(low(0, "n0").field(disruption=drained).terminating(beside.now + 30).obj())
    beside.happens(low(1, "n0").field(disruption=third).terminating(beside.now + 30).obj())
    beside.happens(low(2, "n0").field(disruption=MARK).obj())
    beside.happens(low(2, "n0").field(disruption=None).obj())  # taken back
    beside.passes()
    assert beside.figures.real.evicted == 0


def test_victims_without_a_known_preemptor_are_remembered_in_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many pods are evicted; each is counted."""
    monkeypatch.setattr(shadow_figures, "_UNCLAIMED", 3)
    beside = Beside(*cluster(3))
    beside.passes()
    for index in range(12):
        victim = low(index, f"n{index // 4}").field(disruption=MARK)
        beside.happens(victim.obj())
        beside.happens(victim.terminating(beside.now + 30).obj())
    beside.passes()
    assert beside.figures.real.evicted == 12
    assert len(beside.comparison._unclaimed) == 3


def test_pods_of_further_schedulers_are_named_and_left_alone() -> None:
    """They take room, and nothing is decided for them."""
    beside = Beside(Changed(node("n0").cpu(4).obj()))
    beside.happens(pod("x").scheduler("third").cpu(1).obj())
    assert beside.passes() == []
    assert beside.shadow.others() == {"third": 1}


def test_a_gang_that_is_deleted_before_it_starts_is_forgotten() -> None:
    """It counts as one that would have started, and nothing of it is kept."""
    beside = Beside(Changed(node("n0").cpu(4).obj()))
    beside.happens(other("a").cpu(4).obj())
    beside.passes()
    beside.happens(Gone("Pod", "d", "a", "uid-d-a"))
    beside.passes()
    assert (beside.figures.own.started, beside.figures.real.started, beside.figures.real.waiting) == (1, 0, 0)


def test_a_report_has_both_sides_and_says_what_it_cannot_know() -> None:
    """Text and JSON have the figures of both; a new time begins with none."""
    beside = Beside(*cluster())
    beside.happens(other("high").cpu(1).priority(9).obj(), pod("x").scheduler("third").cpu(1).obj())
    beside.passes()
    figures = beside.comparison.close_period(beside.now)
    text = "\n".join(lines_of(figures, beside.now, (OTHERS,), "py-gang-scheduler", beside.shadow.others()))
    assert "Shadow of default-scheduler, 1970-01-01 00:16 to" in text
    assert "pods evicted                                         0                   1" in text
    assert "d/high (1 pod): evicted 0, would have evicted 1 (d/low-" in text
    assert "1 gang would have started and have not: d/high." in text or "longer" in text
    assert "Not looked at: pods of third (1)" in text
    assert "What it cannot know:" in text
    assert max(map(len, text.splitlines())) < 230
    fields = fields_of(figures, beside.now, (OTHERS,))
    assert (fields["other"]["podsEvicted"], fields["shadow"]["podsEvicted"]) == (0, 1)
    assert beside.figures.own.evicted == 0


@pytest.mark.parametrize("seconds", [0.0, 5.0])
def test_the_clock_of_the_loop_is_all_that_it_waits_for(seconds: float) -> None:
    """Without events it wakes up after a pause; with an event when it has rested."""
    beside = Beside(Changed(node("n0").cpu(4).obj()))
    beside.now += seconds
    assert beside.shadow.wake_at() == 1000.0 + AGAIN_SECONDS
    beside.happens(other("a").cpu(4).obj())
    assert beside.shadow.wake_at() == 1000.0 + REST_SECONDS
