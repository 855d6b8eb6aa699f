"""What the judge excuses, and no more than that."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from gangsched.cluster.sim import SimCluster, World
from gangsched.cluster.sim import history as log
from gangsched.cluster.sim.history import Cause
from gangsched.cluster.sim.store import describe
from gangsched.core.actions import Action, Bind, Mark, Nominate, PodRef, Remove, SelectNode, WithdrawNomination
from gangsched.core.actuation.records import Intent, written
from gangsched.core.decision import Preempt, UnitRef, Victim
from gangsched.core.events import Changed, Outcome, WriteDone
from gangsched.core.lifecycle.report import mark_message
from gangsched.core.state.membership import Membership
from gangsched.messages import causes
from gangsched.model.records import GangId, Job
from gangsched.model.times import render_time
from tests import generators
from tests.builders import OURS, gang, node, pod
from tests.chaos.__main__ import run as play_seed
from tests.chaos.checks import asleep, bound_early, bound_in_part, jobs_ended, too_many_rounds
from tests.chaos.made_up import about, deleted, does, played, told
from tests.chaos.part_checks import RACE_SECONDS
from tests.chaos.play import Mortal, Played, next_crashes
from tests.chaos.refusals import Rule
from tests.chaos.scenario import PARTS, scenario
from tests.chaos.trouble import Crash
from tests.core.harness import event

FOR_H = mark_message(OURS, "d/h", "d/h1")


def begins(*binds: str, minimum: int = 2, repeated: str = "") -> Played:
    """Of the three members of gang g these are bound at once; of ``repeated`` that had been asked for before, and
    nobody knows what has become of it.
    """
    members = [pod(f"m{i}").priority(5).gang("g") for i in (1, 2, 3)]
    run = played(node("n1"), gang("g").min(minimum), *members)
    before = [Bind(1, about(run, repeated), "n1")] if repeated else []
    told(run, node("n1"), gang("g").min(minimum), *members, asks=before)
    told(run, WriteDone(1, Outcome.TRANSIENT), asks=[Bind(2, about(run, name), "n1") for name in binds])
    return run


@pytest.mark.parametrize(
    ("binds", "minimum", "found"),
    [
        (("m1",), 2, ["lacks 1 more"]),
        (("m1", "m2"), 2, []),
        (("m1", "m2", "m3"), 2, []),
        (("m1",), 3, ["lacks 2 more"]),
    ],
)
def test_a_gang_of_which_only_a_part_is_bound_is_found(binds: Sequence[str], minimum: int, found: list[str]) -> None:
    """All members that it lacks are asked for together, or none."""
    run = begins(*binds, minimum=minimum)
    assert [text.partition(": d/g ")[2] for text in bound_in_part(run)] == found


def test_who_dies_in_the_middle_has_bound_no_part() -> None:
    """What it has asked for was all that it lived to ask for; the next one completes the gang."""
    run = begins("m1")
    run.processes = 2
    assert bound_in_part(run) == []
    told(run, node("n1"), gang("g").min(2), pod("m1").gang("g").on("n1"), *(pod(f"m{i}").gang("g") for i in (2, 3)))
    told(run, process=2)
    assert len(bound_in_part(run)) == 1


@pytest.mark.parametrize(("ago", "found"), [(0.0, []), (RACE_SECONDS + 0.1, ["m1", "m2"])])
def test_a_node_that_shrinks_under_a_binding_explains_that_of_the_other_members(ago: float, found: list[str]) -> None:
    """They would all have fitted beside the victim that still terminates. Long before the scheduler knew of it."""
    members = [pod("m1").priority(5).gang("g").cpu(4), pod("m2").priority(5).gang("g").cpu(2)]
    victim = pod("v").priority(3).cpu(2).on("n2").field(grace_seconds=30.0)
    run = played(node("n1").cpu(4), node("n2").cpu(4), gang("g").min(2), *members, victim)
    mark = mark_message(OURS, "d/g", "d/m1")
    for name, to in (("m1", "n1"), ("m2", "n2")):
        does(run, Nominate(1, about(run, name), to, "p", written(Intent("p", 1))))
    does(run, Mark(2, about(run, "v"), mark), Remove(3, about(run, "v"), mark=mark))
    run.world.store.apply(event(node("n1").cpu(1)), Cause(log.USER, log.CHANGE))
    run.world.clock.advance_to(run.world.clock.now + ago)
    does(run, Bind(4, about(run, "m1"), "n1"), Bind(5, about(run, "m2"), "n2"))
    texts = bound_early(run.world.history)
    assert [name for name in ("m1", "m2") if any(f"d/{name} " in text for text in texts)] == found


def test_a_binding_that_is_asked_for_again_begins_nothing() -> None:
    """It may have taken effect, whoever has been lost since."""
    assert len(bound_in_part(begins("m2", repeated="m1", minimum=3))) == 2
    assert len(bound_in_part(begins("m1", repeated="m1"))) == 1


def test_a_decision_that_places_too_few_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """The scheduler takes gangs to need one member less than they do."""
    required = Membership.required
    monkeypatch.setattr(Membership, "required", lambda self, *of: max(0, required(self, *of) - 1))
    assert any(text.startswith("partial: ") for seed in range(20) for text in play_seed(seed, ()).problems)


def test_nobody_is_asleep_over_what_has_only_just_happened() -> None:
    """The cluster lives on for a little after the scheduler has stopped; what it has known for long is no excuse."""
    for seconds, found in ((0.1, []), (60.0, ["d/p could bind"])):
        run = played(pod("p").scheduler(generators.SCHEDULER).cpu(1))
        run.world.clock.advance_to(100.0)
        run.world.apply(Changed(node("n1").obj()), Cause(log.USER, log.CREATE))
        run.world.clock.advance_to(100.0 + seconds)
        assert asleep(run) == found


@pytest.mark.parametrize("ahead", [-3600.0, 0.0, 3600.0])
@pytest.mark.parametrize(("seconds", "found"), [(200.0, ["d/p could wait"]), (240.0, [])])
def test_whoever_looks_at_the_end_knows_the_clock_that_stamps(ahead: float, seconds: float, found: list[str]) -> None:
    """A pod of a node without a kubelet has terminated for so long, and 200 s of that were its grace period: whether
    its room can be waited for does not depend on how far the API server's clock is ahead.
    """
    v, p = (each.scheduler(generators.SCHEDULER).cpu(1) for each in (pod("v").on("n1"), pod("p")))
    run = played(node("n1").cpu(1).not_ready(), v, p)
    run.world.clock.server_ahead_seconds = ahead
    terminates = v.field(grace_seconds=200.0).terminating(run.world.clock.stamp + 200.0)
    run.world.store.put_pod(terminates.obj(), Cause(log.USER, log.CHANGE))
    run.world.clock.advance_to(seconds)
    assert asleep(run) == found


@pytest.mark.parametrize(("until", "found"), [(300.0, []), (200.0, []), (199.0, ["d/p could preempt"])])
def test_a_gang_that_pauses_is_not_asleep(until: float, found: list[str]) -> None:
    """Rounds of evictions have not led to its binding: it evicts no pod before the time that it has named, in
    whole seconds.
    """
    ours = [each.scheduler(generators.SCHEDULER).cpu(1) for each in (pod("v").on("n1"), pod("p").priority(5))]
    run = played(node("n1").cpu(1), *ours)
    said = {"message": causes.not_yet(why="it pauses", time=render_time(until))}
    uid, failed = about(run, "p").uid, {"message": "no answer"}
    run.world.history.add(Cause(log.SCHEDULER, log.CONDITION, said), "Pod", "d/p", uid=uid)
    again = Cause(log.SCHEDULER, log.CONDITION, failed)
    run.world.history.add(again, "Pod", "d/p", uid=uid, outcome=Outcome.TRANSIENT, changed=False)
    run.world.clock.advance_to(200.0)
    assert asleep(run) == found


@pytest.mark.parametrize(
    ("given_up", "began", "found"), [(False, 40.0, 1), (False, 51.0, 0), (True, 40.0, 0), (True, 29.0, 1)]
)
def test_a_pause_counts_from_the_end_of_its_plan(given_up: bool, began: float, found: int) -> None:
    """The last victim leaves 20 s after the first; if the plan was given up before, it only leaves with its unit. Its
    process knows that before the API server does.
    """
    run = played(node("n1"), gang("h"), pod("h1").gang("h").priority(5), *(pod(v).on("n1") for v in ("v1", "v2", "v3")))
    h1 = about(run, "h1")

    def marks(plan: str, *names: str) -> None:
        does(run, Nominate(1, h1, "n1", plan, written(Intent(plan, len(names)))))
        does(run, *(Mark(2, about(run, name), FOR_H) for name in names))

    marks("p", "v1", "v2")
    does(run, Remove(3, about(run, "v1"), mark=FOR_H))
    withdrawal = WithdrawNomination(4, h1, "Withdrawn", "its plan is given up")
    if given_up:
        told(run, gang("h"), pod("h1").gang("h"), asks=[withdrawal])
    run.world.clock.advance_to(20.0)
    does(run, Remove(5, about(run, "v2"), mark=FOR_H))
    if given_up:
        does(run, withdrawal)
    run.world.clock.advance_to(began)
    marks("q", "v3")
    does(run, Remove(6, about(run, "v3"), mark=FOR_H))
    assert len(too_many_rounds(run)) == found


@pytest.mark.parametrize(("waited", "bound", "found"), [(False, False, 1), (True, True, 0), (False, True, 0)])
def test_a_gang_that_was_bound_meanwhile_need_not_pause(waited: bool, bound: bool, found: int) -> None:
    """A plan between two that evict has only waited for what the first of them had freed; or it was bound at once."""
    members = [pod(name).gang("h").priority(5) for name in ("h1", "h2")]
    run = played(node("n1"), gang("h").min(1), *members, *(pod(v).on("n1") for v in ("v1", "v2")))
    h1, h2, v1, v2 = (about(run, name) for name in ("h1", "h2", "v1", "v2"))
    does(run, Nominate(1, h1, "n1", "p", written(Intent("p", 1))), Mark(2, v1, FOR_H), Remove(3, v1, mark=FOR_H))
    if bound:
        does(run, WithdrawNomination(4, h1, "Withdrawn", "its plan is given up"))
    if waited:
        does(run, Nominate(5, h1, "n1", "q", written(Intent("q", 0))))
    if bound:
        does(run, Bind(6, h1, "n1"))
    run.world.clock.advance_to(5.0)
    does(run, Nominate(7, h2, "n1", "r", written(Intent("r", 1))), Mark(8, v2, FOR_H), Remove(9, v2, mark=FOR_H))
    assert len(too_many_rounds(run)) == found


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
