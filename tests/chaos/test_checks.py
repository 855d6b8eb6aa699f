"""What the judge excuses, and no more than that."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from gangsched.cluster.sim import SimCluster, World
from gangsched.cluster.sim import history as log
from gangsched.cluster.sim.history import Cause
from gangsched.cluster.sim.store import describe
from gangsched.core.actions import Action, Bind, Mark, PodRef, Remove, SelectNode, Unmark
from gangsched.core.decision import Preempt, UnitRef, Victim
from gangsched.core.events import Changed, Event, Gone
from gangsched.core.lifecycle.report import mark_message
from gangsched.model.records import GangId, Job
from tests import generators
from tests.builders import OURS, gang, node, pod
from tests.chaos.checks import asleep, jobs_ended, partial_gangs
from tests.chaos.made_up import about, bound, deleted, does, played
from tests.chaos.play import Mortal, Played, next_crashes
from tests.chaos.refusals import REFUSED, Rule
from tests.chaos.scenario import PARTS, scenario
from tests.chaos.trouble import Crash
from tests.core.harness import Built

FOR_H = mark_message(OURS, "d/h", "d/h1")


def half_bound(*others: Built) -> Played:
    """One of the two members that gang g needs is bound, and a minute has passed since."""
    run = played(gang("g").min(2), *(pod(f"m{i}").priority(5).gang("g") for i in (1, 2)), *others)
    bound(run, "m1")
    run.world.clock.advance_to(60.0)
    return run


def test_a_gang_that_stays_bound_in_part_is_found() -> None:
    """It has had time enough, and nobody is in its way."""
    assert partial_gangs(half_bound()) == ["d/g: 1 bound of at least 2"]


def test_a_gang_that_was_evicted_as_a_whole_is_not_bound_in_part() -> None:
    """Nor is it if who evicted it does not run. Each member that is bound must leave, and not be let off."""
    marks = [Mark(0, about(half_bound(), "m1"), FOR_H)]
    for also, ends, found in ((0, (), 0), (1, (), 1), (0, (Unmark(0, marks[0].pod, "no longer needed for d/h"),), 1)):
        others = [pod(f"n{i}").priority(5).gang("g").on("n1") for i in range(also)]
        run = half_bound(gang("g").min(3), *others)
        does(run, *marks, *ends)
        assert len(partial_gangs(run)) == found


def test_a_gang_that_has_only_just_begun_is_on_its_way() -> None:
    """The run has ended while a binding was to be repeated."""
    run = played(gang("g").min(2), *(pod(f"m{i}").gang("g") for i in (1, 2)))
    run.world.clock.advance_to(60.0)
    bound(run, "m1")
    assert partial_gangs(run) == []


def test_room_on_a_node_that_refuses_a_member_is_not_kept_from_its_equals() -> None:
    """What a gang gives to its own members it has not lost, and of weaker pods it is kept."""
    for priority, found in ((5, 0), (4, 1)):
        run = half_bound(pod("other").priority(priority))
        bound(run, "m2", REFUSED)
        assert len(partial_gangs(run)) == 1
        bound(run, "other")
        assert len(partial_gangs(run)) == found


@pytest.mark.parametrize(
    ("refused_at", "bound_at", "found"),
    [([20.0, 50.0], 81.0, 0), ([10.0, 20.0, 50.0], 51.0, 0), ([20.0, 50.0], 49.0, 1), ([20.0], 81.0, 1)],
)
def test_room_is_kept_from_weaker_pods_for_a_while(refused_at: list[float], bound_at: float, found: int) -> None:
    """For so long from when others of the gang could be bound, and only if the member was refused again meanwhile."""
    run = played(gang("g").min(2), *(pod(f"m{i}").priority(5).gang("g") for i in (1, 2)), pod("other").priority(4))
    moments = [*((at, "m2", REFUSED) for at in refused_at), (21.0, "m1", log.OK), (bound_at, "other", log.OK)]
    for at, name, outcome in sorted(moments):
        run.world.clock.advance_to(at)
        bound(run, name, outcome)
    run.world.clock.advance_to(200.0)
    assert len(partial_gangs(run)) == found


@pytest.mark.parametrize(
    ("change", "excused"),
    [
        (Changed(node("n1").cordoned().obj()), True),
        (Gone("Node", "", "n1"), True),
        (Changed(node("n2").cordoned().obj()), False),
        (Changed(pod("thief").on("n1").obj()), True),
        (Changed(pod("thief").on("n2").obj()), False),
        (Changed(pod("waits").obj()), False),
    ],
    ids=["cordoned", "gone", "another node", "a thief", "a thief elsewhere", "takes no room"],
)
def test_only_who_takes_its_room_excuses_a_gang_that_stays_bound_in_part(change: Event, excused: bool) -> None:
    """A change of a node that it was to run on, after it was begun; what was so before, it was placed by."""
    for late, found in ((True, 0 if excused else 1), (False, 1)):
        run = played(*(node(f"n{i}") for i in (1, 2)), gang("g").min(2), *(pod(f"m{i}").gang("g") for i in (1, 2)))
        for moment, is_due in ((1.0, not late), (20.0, False), (40.0, late)):
            run.world.clock.advance_to(moment)
            if is_due:
                run.world.store.apply(change, Cause(log.USER, log.CHANGE))
            if moment == 20.0:
                bound(run, "m1")
        run.world.clock.advance_to(90.0)
        assert len(partial_gangs(run)) == found


def test_a_kubelet_that_rejects_a_member_excuses_its_gang_alone() -> None:
    """The other gang has nothing to do with it."""
    members = [pod(f"{name}{i}").gang(name) for name in ("g", "h") for i in (1, 2)]
    run = played(gang("g").min(2), gang("h").min(2), *members)
    bound(run, "g1")
    bound(run, "h1")
    rejected = run.world.store.pods["d", "g1"]
    run.world.history.add(Cause(log.KUBELET, log.REJECT), "Pod", rejected.key, uid=rejected.uid, record=rejected)
    run.world.clock.advance_to(60.0)
    assert partial_gangs(run) == ["d/h: 1 bound of at least 2"]


def test_nobody_is_asleep_over_what_has_only_just_happened() -> None:
    """The cluster lives on for a little after the scheduler has stopped; what it has known for long is no excuse."""
    for seconds, found in ((0.1, []), (60.0, ["d/p could bind"])):
        run = played(pod("p").scheduler(generators.SCHEDULER).cpu(1))
        run.world.clock.advance_to(100.0)
        run.world.apply(Changed(node("n1").obj()), Cause(log.USER, log.CREATE))
        run.world.clock.advance_to(100.0 + seconds)
        assert asleep(run) == found


def test_a_refused_pair_stays_refused() -> None:
    """While the rule stands: about a third of the pairs, always the same; and nothing that it is not about."""
    rule = Rule("seed", (Bind,), 0.3)
    pairs = [Bind(i, PodRef("d", f"p{i}", f"uid-{i}"), f"n{j}") for i in range(20) for j in range(10)]
    first = [rule.refuses(pair) for pair in pairs]
    assert 30 < sum(first) < 90
    assert [rule.refuses(pair) for pair in pairs] == first
    assert not any(rule.refuses(Mark(i, PodRef("d", f"p{i}", f"uid-{i}"), "text")) for i in range(20))


def test_volumes_are_refused_by_their_claim_and_members_wherever_they_go() -> None:
    """A rule about members is the same on every node; one about volumes does not depend on who asks."""
    member = Rule("seed", (Bind,), 0.5, anywhere=True)
    pods = [PodRef("d", f"p{i}", f"uid-{i}") for i in range(20)]
    seen = [{member.refuses(Bind(1, each, f"n{j}")) for j in range(5)} for each in pods]
    assert sorted({len(s) for s in seen}) == [1]
    assert {True} in seen
    assert {False} in seen
    storage = Rule("seed", (SelectNode,), 0.5)
    assert len({storage.refuses(SelectNode(1, each, "c", "uid-c", "n1")) for each in pods}) == 1


@pytest.mark.parametrize("name", PARTS)
def test_a_part_changes_nothing_of_the_others(name: str) -> None:
    """What a seed was without it, it is with it: the same objects in the same places, crashes and other troubles."""
    for seed in range(20):
        made = scenario(seed, parts=(name,))
        plain = scenario(
            seed, parts=(), troubles=name != "takeovers", refusing=name != "takeovers"
        )  # nobody interferes
        assert made.crashes[len(made.crashes) - len(plain.crashes) :] == plain.crashes
        assert {(t.at_seconds, t.name) for t in plain.troubles} <= {(t.at_seconds, t.name) for t in made.troubles}
        assert {describe(e) for e in plain.events} <= {describe(e) for e in made.events}


class Writes(SimCluster):
    """A connection that only counts what it is told to do."""

    def __init__(self) -> None:
        super().__init__(World([]))
        self.asked: list[Action] = []

    def submit(self, actions: Sequence[Action]) -> None:
        """Nothing is done."""
        self.asked += actions


def test_a_process_dies_of_whichever_crash_comes_first_and_the_others_wait_for_the_next() -> None:
    """One that waits for marks does not keep those back that count everything."""
    marks, early, late = Crash(2, False, 0.0, (Mark,)), Crash(4, False, 0.0), Crash(9, False, 0.0)
    assert next_crashes([marks, early, late]) == [marks, early]
    assert next_crashes([early, late]) == [early]
    binding: Action = Bind(1, PodRef("d", "p", "uid-p"), "n1")
    mark: Action = Mark(2, PodRef("d", "v", "uid-v"), "text")
    lives: list[tuple[list[Action], Crash | None, int]] = [
        ([binding] * 6, early, 4),
        ([binding, mark, mark, binding], marks, 3),
        ([binding, mark, binding], None, 3),
    ]
    for actions, died_of, started in lives:
        cluster = Writes()
        mortal = Mortal(cluster, [marks, early])
        mortal.submit(actions[:1])
        mortal.submit(actions[1:])
        mortal.submit(actions if died_of is not None else [])
        assert (mortal.died_of, len(cluster.asked)) == (died_of, started)
        assert mortal.stopped == (died_of is not None)


# -- Jobs ---------------------------------------------------------------------------------------------------------


def counting(limit: int = 0) -> Played:
    """Two pods of a Job that counts pods that are lost."""
    pods = [pod(f"x{i}").owner("Job", "j").on("n1") for i in (1, 2)]
    run = played(node("n1"), Job("d", "j", "uid-Job-j", backoff_limit=limit, parallelism=2), *pods)
    run.world.clock.advance_to(10.0)
    return run


def loses(run: Played, name: str) -> None:
    """The scheduler marks this pod and removes it."""
    does(run, Mark(1, about(run, name), FOR_H), Remove(2, about(run, name), mark=FOR_H))


@pytest.mark.parametrize("limit", [0, 1, 2])
def test_a_job_that_ends_because_of_a_removal_is_found(limit: int) -> None:
    """Its controller counts a removed pod as a failed one, and this one is one too many."""
    run = counting(limit)
    for name in ("x1", "x2")[: limit + 1]:
        assert jobs_ended(run) == []
        loses(run, name)
    assert [text.split(", ")[-1] for text in jobs_ended(run)] == [f"because d/x{limit + 1} was removed"][: 2 - limit]


def test_a_job_that_others_end_or_that_a_plan_has_warned_of_is_no_error() -> None:
    """The user takes the last pod that it could lose; or takes one just before, which the scheduler cannot know."""
    run = counting(1)
    loses(run, "x1")
    deleted(run, "x2")
    assert jobs_ended(run) == []
    for seconds, found in ((0.1, 0), (30.0, 1)):
        run = counting(1)
        deleted(run, "x1")
        run.world.clock.advance_to(10.0 + seconds)
        loses(run, "x2")
        assert len(jobs_ended(run)) == found
    run = counting()
    loses(run, "x1")
    victim = Victim("d", "x1", "uid-d-x1", "n1", UnitRef("Pod", "d/x1"), False, 0, False)
    gang_h = GangId("", "d", "h", OURS)
    says = ("Job d/j would fail: 1 more failed pod exceeds its backoffLimit of 0",)
    for warnings, found in (((), 1), (says, 0)):
        run.decisions = [Preempt(gang_h, "Gang", (), 9, 1, victims=(victim,), warnings=warnings)]
        assert len(jobs_ended(run)) == found
