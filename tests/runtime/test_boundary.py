"""An error of the core ends neither the loop nor other pods' scheduling; what it failed over is quarantined."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pytest

from gangsched.cluster.sim import SimCluster, World
from gangsched.core.actions import Action, Bind
from gangsched.core.events import Changed, Event, Gone, LeadershipChanged, Outcome, Quarantined, Synced, WriteDone
from gangsched.core.lifecycle.gangs import Gangs
from gangsched.core.options import Options
from gangsched.core.planning.cycle import GangCycle
from gangsched.core.queue.hint_index import HintIndex
from gangsched.core.scheduler import Scheduler
from gangsched.core.state.columns import NodeColumns
from gangsched.core.state.snapshot import Snapshot
from gangsched.core.world.world import World as Observed
from gangsched.model.records import Pod
from gangsched.runtime.boundary import Boundary
from gangsched.runtime.loop import Rebuilt, run_loop
from tests.builders import gang, node, pod
from tests.core.harness import Built, event


class Run:
    """A simulated cluster with these objects, and a scheduler within its boundary."""

    def __init__(self, *objects: Built, **options: Any) -> None:
        self.world = World.of([event(each) for each in objects])
        self.rebuilt: list[Rebuilt] = []
        self.entries: list[list[Quarantined]] = []
        self.boundary = Boundary(
            partial(Scheduler, Options(**options)),
            leads_by_itself=True,
            on_rebuild=self.rebuilt.append,
            quarantined=lambda entries: self.entries.append(list(entries)),
        )

    def until(self, seconds: float) -> Run:
        """Let time pass until then."""
        cluster = SimCluster(self.world, until_seconds=seconds)
        run_loop(self.boundary, cluster)
        return self

    def nodes(self) -> dict[str, str]:
        """The node of each pod by its name."""
        return {p.name: p.node for p in self.world.store.pods.values()}

    def told(self, name: str) -> str:
        """The condition PodScheduled of a pod."""
        (found,) = [p for p in self.world.store.pods.values() if p.name == name]
        return found.scheduled_condition.message if found.scheduled_condition is not None else ""


def raising(
    monkeypatch: pytest.MonkeyPatch, owner: type, method: str, when: Callable[..., bool], *, times: int = 1 << 30
) -> list[int]:
    """Let a method raise a KeyError ``when`` its arguments say so; returns a list with an entry for each time."""
    right, raised = getattr(owner, method), list[int]()

    def broken(*args: Any, **named: Any) -> Any:
        if len(raised) < times and when(*args, **named):
            raised.append(1)
            raise KeyError("broken")
        return right(*args, **named)

    monkeypatch.setattr(owner, method, broken)
    return raised


def is_evil(_: Any, found: Pod, *__: Any) -> bool:
    """True for the pod of this name."""
    return found.name == "evil"


def test_a_pod_over_which_an_event_fails_stops_nobody_else(monkeypatch: pytest.MonkeyPatch) -> None:
    """The others are bound; its owner reads why, and it is tried again after pauses that double."""
    raised = raising(monkeypatch, Observed, "set_pod", is_evil)
    run = Run(node("n0").cpu(8), pod("evil").cpu(1), pod("good").cpu(1)).until(50.0)
    assert run.nodes() == {"evil": "", "good": "n0"}
    assert run.told("evil").startswith("the scheduler failed in broken (test_boundary.py:")
    assert [each.culprits for each in run.rebuilt] == [("Pod d/evil",)]
    assert len(raised) == 1
    assert [(e.kind, e.name, e.times) for e in run.entries[-1]] == [("Pod", "evil", 2)]
    monkeypatch.undo()


def test_a_quarantined_pod_is_tried_again_after_a_pause_that_doubles(monkeypatch: pytest.MonkeyPatch) -> None:
    """After one minute, then two; when it does not fail any more it is bound."""
    raised = raising(monkeypatch, Observed, "set_pod", is_evil, times=2)
    run = Run(node("n0").cpu(8), pod("evil").cpu(1), pod("good").cpu(1)).until(400.0)
    assert run.nodes() == {"evil": "n0", "good": "n0"}
    assert len(raised) == 2
    assert [entry.times for entries in run.entries for entry in entries if entry.times > 2] == [3]
    bound = [e.at_seconds for e in run.world.history.with_verbs("bind") if e.object == "d/evil" and e.changed]
    assert 180.0 < bound[0] < 182.0


def test_a_quarantined_pod_is_tried_again_when_it_is_edited(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not when its status is written, as the scheduler itself does."""
    raising(monkeypatch, Observed, "set_pod", lambda _, p: p.name == "evil" and "fixed" not in p.labels)
    run = Run(node("n0").cpu(8), pod("evil").cpu(1))
    fixed = pod("evil").cpu(1).labels({"fixed": "yes"}).obj()
    run.world.create_after(10.0, Changed(fixed))
    run.until(20.0)
    bound = [e.at_seconds for e in run.world.history.with_verbs("bind") if e.changed]
    assert 10.0 < bound[0] < 11.0
    assert run.entries[-1] == []


def test_a_bound_pod_holds_its_room_in_quarantine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Even where nothing of it can be taken in: something else stands in its place, and no pod gets its room."""
    raising(monkeypatch, Snapshot, "put", is_evil)
    run = Run(node("n0").cpu(2), pod("evil").cpu(1).on("n0"), pod("a").cpu(1), pod("b").cpu(1)).until(50.0)
    assert sorted(run.nodes().values()) == ["", "n0", "n0"]
    assert run.boundary.core.world.snapshot.used[0, 0] <= run.boundary.core.world.snapshot.allocatable[0, 0]


def test_the_gang_of_a_failed_decision_is_decided_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """Others are bound at once; it is decided again after a minute. Its members say why."""
    raised = raising(monkeypatch, Gangs, "signal", lambda _, group, *__: group.name == "d/g", times=2)
    members = [pod(f"m{i}").cpu(1).gang("g").priority(5) for i in range(2)]
    run = Run(node("n0").cpu(8), gang("g").min(2), *members, pod("good").cpu(1))
    run.until(30.0)
    assert run.nodes()["good"] == "n0"
    run.until(1000.0)
    assert set(run.nodes().values()) == {"n0"}
    assert raised == [1, 1]
    assert run.entries[-1] == []


def test_an_error_after_all_events_is_traced_to_its_gang(monkeypatch: pytest.MonkeyPatch) -> None:
    """The frames of the exception show over which gang it came, and only that one is quarantined."""
    raising(monkeypatch, Gangs, "refresh", lambda _, found, *__: found.name in ("evil", "g"))
    members = [pod(f"m{i}").cpu(1).gang("g") for i in range(2)]
    run = Run(node("n0").cpu(8), gang("g").min(2), *members, pod("evil").cpu(1), pod("good").cpu(1)).until(50.0)
    assert run.nodes() == {"m0": "", "m1": "", "evil": "", "good": "n0"}


def test_an_error_whose_object_nothing_shows_is_found_by_replay(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of forty pods only the one is quarantined without which a new core does not fail."""
    right = Scheduler._settled

    def broken(self: Scheduler) -> list[Action]:
        if any(name == "p17" for _, name in self.world.uid_of):
            raise KeyError
        return right(self)

    monkeypatch.setattr(Scheduler, "_settled", broken)
    run = Run(node("n0").cpu(64), *(pod(f"p{i}").cpu(1) for i in range(40))).until(50.0)
    assert [name for name, bound_to in run.nodes().items() if not bound_to] == ["p17"]
    assert [each.culprits for each in run.rebuilt] == [("Pod d/p17",)]


def test_rebuilds_without_a_culprit_end_the_process() -> None:
    """Five within ten minutes are borne, the sixth is not; an hour later there may be five again."""
    boundary = Boundary(partial(Scheduler, Options()), leads_by_itself=True)
    boundary.handle([event(node("n0").cpu(1)), Synced()], 0.0)
    for number in range(5):
        boundary.core._settled = fail  # type: ignore[method-assign]
        boundary.handle([], float(number))
    for number in range(5):
        boundary.core._settled = fail  # type: ignore[method-assign]
        boundary.handle([], 3600.0 + number)
    boundary.core._settled = fail  # type: ignore[method-assign]
    with pytest.raises(ZeroDivisionError):
        boundary.handle([], 3605.0)


def fail() -> list[Action]:
    """An error that shows no object."""
    raise ZeroDivisionError


def test_a_new_core_does_not_lead_before_the_writes_of_the_old_one_are_seen() -> None:
    """Nor is a pod decided that is being bound, nor its room given away; once the binding is seen, others are bound."""
    boundary = Boundary(partial(Scheduler, Options()), leads_by_itself=True)

    def step(*events: Event, now: float = 0.0) -> list[Action]:
        return list(boundary.handle(list(events), now))

    first = pod("first").cpu(1)
    step(event(node("n0").cpu(1)), event(first), Synced())
    (bind,) = [each for each in boundary.decide(0.0) if isinstance(each, Bind)]
    boundary.core._settled = fail  # type: ignore[method-assign]
    step(event(pod("second").cpu(1)), now=0.1)
    assert boundary.waits
    assert not boundary.has_work(0.1)
    step(WriteDone(bind.id, Outcome.OK), now=0.2)
    assert boundary.waits
    assert not boundary.has_work(0.2)
    assert boundary.wake_at() == 5.2
    step(event(first.on("n0")), now=0.3)
    assert boundary.has_work(0.3)
    assert not [each for each in boundary.decide(0.3) if isinstance(each, Bind)]
    assert [d.gang.name for d in boundary.drain_decisions()] == ["second"]


def test_a_process_that_does_not_lead_survives_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """It asks for nothing, and says what is quarantined when it leads."""
    raising(monkeypatch, Observed, "set_pod", is_evil)
    boundary = Boundary(partial(Scheduler, Options(wait_for_leadership=True)))
    events: Sequence[Event] = [event(node("n0").cpu(1)), event(pod("evil").cpu(1)), Synced()]
    assert boundary.handle(events, 0.0) == []
    assert boundary.handle([LeadershipChanged(True)], 1.0)


def test_what_an_earlier_leader_has_quarantined_stays_so() -> None:
    """Until its pause is over."""
    run = Run(node("n0").cpu(8), pod("evil").cpu(1), pod("good").cpu(1), gang("g").min(1), pod("m").cpu(1).gang("g"))
    (uid,) = [p.uid for p in run.world.store.pods.values() if p.name == "evil"]
    entries = [
        Quarantined("Pod", "d", "evil", uid, 2, 0.0, "why"),
        Quarantined("Pod", "d", "gone", "other", 2, 0.0, "why"),
        Quarantined("", "", "d/g", "", 2, 0.0, "why"),
    ]
    cluster = SimCluster(run.world, until_seconds=30.0)
    cluster._inbox += entries
    run_loop(run.boundary, cluster)
    assert run.nodes() == {"evil": "", "good": "n0", "m": ""}
    assert [(e.kind, e.name) for e in run.entries[-1]] == [("Pod", "evil"), ("", "d/g")]
    run.until(70.0)
    assert run.nodes() == {"evil": "n0", "good": "n0", "m": "n0"}


def test_an_error_over_an_index_stops_nobody_else(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that raises for a gang that waits, when it is put in and when it is taken out."""
    for method in ("add", "remove"):
        with monkeypatch.context() as broken:
            raising(broken, HintIndex, method, lambda *args, **_: "evil" in repr(args[1:]))
            run = Run(node("n0").cpu(2), pod("evil").cpu(4).priority(9), pod("good").cpu(1)).until(500.0)
            assert run.nodes() == {"evil": "", "good": "n0"}


def test_a_pod_that_makes_the_decisions_of_others_fail_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """The others are decided; what the frames show is proved by a trial without it."""
    right = GangCycle.decide

    def broken(self: GangCycle) -> Any:
        for victim in self._world.pods.values():
            if victim.name == "evil" and not victim.kept:
                raise KeyError("broken")
        return right(self)

    monkeypatch.setattr(GangCycle, "decide", broken)
    objects: list[Built] = [node("n0").cpu(2), pod("evil").cpu(1).priority(-5).on("n0"), pod("good").cpu(1)]
    run = Run(*objects, contain_errors=True).until(30.0)
    assert run.nodes() == {"evil": "n0", "good": "n0"}
    assert [each.culprits for each in run.rebuilt] == [("Pod d/evil",)]


def test_pods_that_make_decisions_of_others_fail_each_by_itself_are_left_out_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """No frame shows them, and without one of them the other is enough."""
    right = GangCycle.decide

    def broken(self: GangCycle) -> Any:
        if any(each.name.startswith("evil") and not each.kept for each in self._world.pods.values()):
            raise KeyError("broken")
        return right(self)

    monkeypatch.setattr(GangCycle, "decide", broken)
    evil = [pod(f"evil-{n}").cpu(1).priority(-5).on("n0") for n in range(2)]
    run = Run(node("n0").cpu(4), *evil, pod("good").cpu(1), contain_errors=True).until(30.0)
    assert run.nodes()["good"] == "n0"
    assert sorted(run.rebuilt[0].culprits) == ["Pod d/evil-0", "Pod d/evil-1"]


def test_a_question_that_leaves_half_a_change_behind_stops_nobody_else(monkeypatch: pytest.MonkeyPatch) -> None:
    """An error in the middle of an update within a decision: the next would be wrong, so a new core decides them."""
    raised = raising(monkeypatch, NodeColumns, "update", lambda *_: True, times=1)
    gangs = [
        each for n in range(3) for each in (gang(f"g{n}").min(1), pod(f"m{n}").cpu(2).gang(f"g{n}").label(app="x"))
    ]
    run = Run(node("n0").cpu(8).label(zone="a"), *gangs, pod("good").cpu(1), contain_errors=True).until(100.0)
    assert raised == [1]
    assert set(run.nodes().values()) == {"n0"}
    assert len(run.rebuilt) == 1


def test_a_namespace_whose_decisions_fail_again_and_again_has_ever_fewer_new_cores(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The first two at once, then after pauses that double, however many of its gangs fail. Others are decided at once,
    and an error in another namespace has a new core at once.
    """
    right = GangCycle.decide

    def broken(self: GangCycle) -> Any:
        if any("evil" in gang_of.name for gang_of in self._gangs):
            raise KeyError("broken")
        return right(self)

    monkeypatch.setattr(GangCycle, "decide", broken)
    run = Run(node("n0").cpu(64), contain_errors=True)
    for minute in range(100):
        for made in (pod(f"evil-{minute}").cpu(1), pod(f"good-{minute}", "e").cpu(0.1)):
            run.world.create_after(60.0 * minute, event(made))
    run.until(3600.0)
    assert 4 <= len(run.rebuilt) <= 9
    run.world.create_after(1.0, event(pod("evil-too", "f").cpu(1)))
    run.until(3610.0)
    assert sum("f/evil-too" in each.culprits for each in run.rebuilt) == 2
    run.until(7300.0)
    nodes = run.nodes()
    assert all(bool(node_of) == name.startswith("good") for name, node_of in nodes.items())
    assert len(run.rebuilt) <= 18


@pytest.mark.parametrize("same_name", [True, False])
def test_pods_that_fail_the_core_when_they_are_deleted_cost_ever_fewer_cores(
    same_name: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A user creates and deletes one each second, also under the same name. News of its namespace waits; a pod of
    another namespace is bound at once, and one of its own that stays when the pause is over.
    """
    right = Observed.drop_pod

    def broken(self: Observed, uid: str) -> Any:
        if "evil" in uid:
            raise KeyError("broken")
        return right(self, uid)

    monkeypatch.setattr(Observed, "drop_pod", broken)
    run = Run(node("n0").cpu(8))
    for second in range(200):
        name = "evil" if same_name else f"evil-{second}"
        evil = pod(name).cpu(64).uid(f"evil-{second}")
        run.world.create_after(second, event(evil))
        run.world.create_after(second + 0.5, Gone("Pod", "d", name, uid=f"evil-{second}"))
    run.world.create_after(100.0, event(pod("other", "e").cpu(1)))
    run.world.create_after(150.0, event(pod("own").cpu(1)))
    run.until(110.0)
    assert run.nodes()["other"] == "n0"
    run.until(1000.0)
    assert run.nodes()["own"] == "n0"
    assert 2 <= len(run.rebuilt) <= 12
