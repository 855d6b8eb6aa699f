from gangsched.cluster.sim import SimCluster
from gangsched.cluster.sim.faults import AFTER, BEFORE, NO_FAULT, SeededFaults, WriteFault
from gangsched.core.actions import Bind, Mark
from gangsched.core.events import Changed, Outcome, WriteDone, records
from gangsched.model.records import Pod
from tests.cluster.sim.objects import get, node, outcomes, pod, ref, world

BIND = Bind(1, ref("a"), "n1")
EVENT = Changed(pod("a"))


class Scripted:
    """Faults by the id of the action, and a watch delay by the name of the pod."""

    def __init__(self, writes=None, delays=None):
        self.writes = writes or {}
        self.delays = delays or {}

    def write(self, action):
        return self.writes.get(getattr(action, "id", None), NO_FAULT)

    def watch_delay_seconds(self, event):
        return (
            self.delays.get(event.record.name, 0.0)
            if isinstance(event, Changed) and isinstance(event.record, Pod)
            else 0.0
        )


def test_a_write_that_fails_before_it_takes_effect():
    """Nothing happens, and the answer says so."""
    there = world(node("n1"), pod("a"), faults=Scripted({1: WriteFault(fails=BEFORE)}))
    assert outcomes(there, BIND) == [Outcome.TRANSIENT]
    assert get(there, "a").node == ""


def test_a_write_whose_answer_is_lost():
    """The write takes effect although its answer says that it failed; the history shows both."""
    there = world(node("n1"), pod("a"), faults=Scripted({1: WriteFault(fails=AFTER)}))
    assert outcomes(there, BIND) == [Outcome.TRANSIENT]
    assert get(there, "a").node == "n1"
    assert [(e.outcome, e.changed) for e in there.history.with_verbs("bind")] == [
        (Outcome.OK, True),
        (Outcome.TRANSIENT, False),
    ]


def test_a_fault_can_say_how_it_fails():
    """Outcome and message are the fault's."""
    refused = WriteFault(fails=BEFORE, outcome=Outcome.REFUSED, message="no")
    there = world(node("n1"), pod("a"), faults=Scripted({1: refused}))
    assert outcomes(there, BIND) == [Outcome.REFUSED]
    assert next(there.history.with_verbs("bind")).detail["message"] == "no"


def test_a_write_that_is_late():
    """Delays move the effect and the answer, and let later writes overtake."""
    late = WriteFault(delay_seconds=2.0, answer_delay_seconds=3.0)
    there = world(node("n1"), pod("a"), pod("b"), faults=Scripted({1: late}))
    cluster = SimCluster(there)
    cluster.poll()
    cluster.submit([BIND, Bind(2, ref("b"), "n1")])
    answers: list[tuple[int, float]] = []
    while len(answers) < 2:
        now, events = cluster.wait(100.0)
        answers += [(e.action_id, round(now, 6)) for e in events if isinstance(e, WriteDone)]
    one_way = there.timing.write_seconds
    assert answers == [(2, round(2 * one_way, 6)), (1, round(2 * one_way + 5.0, 6))]
    assert [e.object for e in there.history.with_verbs("bind")] == ["ns/b", "ns/a"]


def test_a_late_watch_event_holds_up_those_after_it():
    """A watch delivers in order: what changed later is not seen earlier."""
    there = world(node("n1"), pod("a"), pod("b"), faults=Scripted(delays={"a": 4.0}))
    cluster = SimCluster(there)
    cluster.poll()
    cluster.submit([Mark(1, ref("a"), "m"), Mark(2, ref("b"), "m")])
    seen: list[tuple[str, float]] = []
    while len(seen) < 2:
        now, events = cluster.wait(100.0)
        seen += [(e.name, now) for e in records(events, Pod)]
    assert [name for name, _ in seen] == ["a", "b"]
    assert seen[0][1] == seen[1][1] > 4.0


def test_seeded_faults_repeat():
    """The same seed draws the same faults, another seed others, and all sorts occur."""

    def draw(seed):
        faults = SeededFaults(seed, before=0.2, after=0.2, write_delay_seconds=1.0, watch_delay_seconds=1.0)
        return [faults.write(BIND) for _ in range(100)], [faults.watch_delay_seconds(EVENT) for _ in range(100)]

    assert draw(1) == draw(1)
    assert draw(1) != draw(2)
    writes, delays = draw(1)
    assert {w.fails for w in writes} == {"never", "before", "after"}
    assert all(0.0 <= d <= 1.0 for d in delays)
    assert len(set(delays)) > 50


def test_a_draw_does_not_move_the_others():
    """The n-th write meets the same fault however many watch events came before it."""
    one, other = SeededFaults(1, before=0.5), SeededFaults(1, before=0.5)
    for _ in range(5):
        other.watch_delay_seconds(EVENT)
    assert [one.write(BIND) for _ in range(20)] == [other.write(BIND) for _ in range(20)]
