"""What the judge wants of rollbacks, queues and volumes, and what it excuses there."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from gangsched.cluster.sim import history as log
from gangsched.cluster.sim.history import Cause
from gangsched.core.actions import JobRef, Mark, Remove, ResumeJob
from gangsched.core.events import Changed, Gone, Outcome
from gangsched.messages.notes import rolling_back
from gangsched.model.queues import QUEUE_LABEL, STOP_DRAIN, STOP_HOLD, STOP_NONE, ClusterQueue, LocalQueue
from gangsched.model.records import Job, QueueLabels
from tests.builders import OURS, SIGS, PodBuilder, bound_claim, claim, gang, node, pdb, pod, volume
from tests.chaos import part_checks
from tests.chaos.checks import disturbed
from tests.chaos.made_up import about, bound, deleted, does, played
from tests.chaos.part_checks import REPEAT_SECONDS
from tests.chaos.play import Played
from tests.chaos.refusals import REFUSED
from tests.core.harness import Built, event

# -- rollbacks -----------------------------------------------------------------------------------------------------

ROLLBACK = rolling_back(scheduler=OURS, gang="d/g", trigger="d/m3")


def half_of_three(*, refused: bool = True, **options: Any) -> Played:
    """Two of the three members that gang g needs are bound, and the third cannot be."""
    members = [pod(f"m{i}").priority(5).gang("g").owner("Job", "j") for i in (1, 2, 3)]
    run = played(node("n1"), gang("g").min(3), *members, **{"rollback": True, **options})
    bound(run, "m1")
    bound(run, "m2")
    if refused:
        bound(run, "m3", REFUSED)
    run.world.clock.advance_to(60.0)
    return run


def rolls_back(run: Played, *names: str, text: str = ROLLBACK) -> None:
    """These members are marked, then removed."""
    does(run, *(Mark(1, about(run, n), text) for n in names))
    does(run, *(Remove(2, about(run, n), mark=text) for n in names))


def test_a_good_rollback_is_no_error() -> None:
    """All members that are bound leave because one is refused; they have no preemptor whose priority counts."""
    run = half_of_three()
    rolls_back(run, "m1", "m2")
    run.world.clock.advance_to(200.0)
    assert part_checks.wrong_rollbacks(run) == []


def test_a_rollback_of_a_part_is_found() -> None:
    """The other one is neither marked nor removed."""
    run = half_of_three()
    rolls_back(run, "m1")
    assert len(part_checks.wrong_rollbacks(run)) == 1


def test_a_rollback_that_nobody_has_asked_for_is_found() -> None:
    """It is off unless it is switched on."""
    run = half_of_three(rollback=False)
    rolls_back(run, "m1", "m2")
    assert all("switched off" in text for text in part_checks.wrong_rollbacks(run))
    assert len(part_checks.wrong_rollbacks(run)) == 2


def test_a_rollback_without_anything_in_the_way_is_found() -> None:
    """No binding of the gang has failed, and nobody has touched the cluster."""
    run = half_of_three(refused=False)
    rolls_back(run, "m1", "m2")
    assert [t.split(", ")[-1] for t in part_checks.wrong_rollbacks(run)] == [
        "though nothing was in the way of the others"
    ] * 2


@pytest.mark.parametrize(
    ("change", "excused"),
    [
        (pod("x").on("n1"), True),
        (node("n1").cordoned(), True),
        (pod("m3").gang("g").label(a="b"), True),
        (gang("g").min(4), True),
        (pod("x").gang("other"), False),
        (gang("other").min(3), False),
    ],
    ids=["takes room", "a node", "a member", "the group", "waits elsewhere", "another group"],
)
def test_only_who_is_in_the_way_of_the_gang_excuses_its_rollback(change: Built, excused: bool) -> None:
    """What happens to others has not kept the third member from being bound."""
    run = half_of_three(refused=False)
    run.world.apply(event(change), Cause(log.USER, log.CHANGE))
    rolls_back(run, "m1", "m2")
    assert len(part_checks.wrong_rollbacks(run)) == (0 if excused else 2)


@pytest.mark.parametrize(
    ("other", "says"),
    [
        (pod("x").on("n1"), "belongs to d/x"),
        (pod("x").gang("g").on("n1"), "nobody makes it again"),
        (pod("x").gang("g").owner("DaemonSet", "ds").on("n1"), "nobody makes it again"),
        (pod("x").gang("g").owner("Job", "j").on("n1"), "had not been bound by this scheduler"),
    ],
)
def test_a_rollback_of_the_wrong_pod_is_found(other: PodBuilder, says: str) -> None:
    """One of another gang, one that is lost for ever, one that ran before."""
    run = half_of_three()
    run.world.apply(event(other), Cause(log.INPUT, log.EXISTS))
    rolls_back(run, "m1", "m2", "x")
    found = part_checks.wrong_rollbacks(run)
    assert found
    assert all(" d/x left" in text for text in found)
    assert any(says in text for text in found)


def test_a_gang_that_is_bound_in_part_and_says_nothing_is_found() -> None:
    """Whatever the reason for it is: those that wait bear one."""
    for told, found in ((False, ["d/m3 waits, 2 of 3 are bound"]), (True, [])):
        run = half_of_three()
        if told:
            cause = Cause(log.SCHEDULER, log.CONDITION, {"reason": "Unschedulable", "message": "no room"})
            waiting = run.world.store.pods["d", "m3"]
            run.world.history.add(cause, "Pod", waiting.key, uid=waiting.uid, outcome=Outcome.TRANSIENT, changed=False)
        assert part_checks.untold(run) == found


def test_what_was_said_before_a_gang_was_bound_in_part_does_not_count() -> None:
    """That its members were not all there yet is no reason why it is bound in part now."""
    run = played(node("n1"), gang("g").min(2), *(pod(f"m{i}").gang("g") for i in (1, 2)))
    waiting = run.world.store.pods["d", "m2"]
    for moment, found in ((0.0, ["d/m2 waits, 1 of 2 are bound"]), (100.0, [])):
        run.world.clock.advance_to(moment)
        cause = Cause(log.SCHEDULER, log.CONDITION, {"reason": "GangNotReady"})
        run.world.history.add(cause, "Pod", waiting.key, uid=waiting.uid)
        if not moment:
            run.world.clock.advance_to(10.0)
            bound(run, "m1")
            run.world.clock.advance_to(100.0)
        assert part_checks.untold(run) == found


@pytest.mark.parametrize("ahead", [-3600.0, 0.0, 3600.0])
@pytest.mark.parametrize(("since", "found"), [(80.0, []), (20.0, ["d/m2 waits, 1 of 2 are bound"])])
def test_a_member_waits_from_when_it_came_whatever_its_stamp_says(ahead: float, since: float, found: list[str]) -> None:
    """The API server's clock, which stamps it, may be another."""
    run = played(node("n1"), gang("g").min(2), pod("m1").gang("g"))
    bound(run, "m1")
    run.world.clock.server_ahead_seconds = ahead
    run.world.create_after(since, event(pod("m2").gang("g")))
    run.world.clock.advance_to(100.0)
    assert part_checks.untold(run) == found


# -- queues --------------------------------------------------------------------------------------------------------


def stop(run: Played, policy: str, local: bool) -> None:
    """ClusterQueue all, or LocalQueue d/team in front of it, has this policy from now on."""
    queue = LocalQueue("d", "team", "all", stop=policy) if local else ClusterQueue("all", stop=policy)
    run.world.store.apply(Changed(queue), Cause(log.USER, log.CHANGE))


def queued(*objects: Built) -> Played:
    """Queues, and these objects."""
    run = played(node("n1"), *objects)
    stop(run, STOP_NONE, local=False)
    stop(run, STOP_NONE, local=True)
    return run


TEAM = QueueLabels("team")
IN_QUEUE: dict[str, list[Built]] = {
    "pod": [pod("x").labels({QUEUE_LABEL: "team"})],
    "gang": [gang("g").field(queue=TEAM), pod("x").gang("g")],
    "Job": [Job("d", "j", "uid-Job-j", queue=TEAM), pod("x").owner("Job", "j")],
}


@pytest.mark.parametrize("local", [True, False])
@pytest.mark.parametrize("kind", IN_QUEUE)
@pytest.mark.parametrize(("policy", "found"), [(STOP_HOLD, 1), (STOP_DRAIN, 1), (STOP_NONE, 0)])
def test_a_workload_that_starts_in_a_stopped_queue_is_found(kind: str, policy: str, found: int, local: bool) -> None:
    """Whatever names its queue, and whichever of the two queues is stopped; a moment after it nobody can know."""
    run = queued(*IN_QUEUE[kind], pod("free"))
    stop(run, policy, local)
    bound(run, "free")
    run.world.clock.advance_to(1.0)
    assert part_checks.started_while_stopped(run.world.history) == []
    run.world.clock.advance_to(10.0)
    bound(run, "x")
    assert len(part_checks.started_while_stopped(run.world.history)) == found


def test_a_job_that_goes_on_in_a_stopped_queue_is_found_and_one_that_runs_is_left_alone() -> None:
    """A Job that runs gets its lost pods back though its queue admits nobody."""
    held = Job("d", "held", "uid-Job-held", suspended=True, queue=TEAM)
    runs = Job("d", "j", "uid-Job-j", queue=TEAM, parallelism=2)
    run = queued(held, runs, pod("x").owner("Job", "j").on("n1"), pod("y").owner("Job", "j"))
    stop(run, STOP_HOLD, local=True)
    run.world.clock.advance_to(10.0)
    bound(run, "y")
    assert part_checks.started_while_stopped(run.world.history) == []
    does(run, ResumeJob(1, JobRef("d", "held", "uid-Job-held"), "1", OURS, held=True))
    assert len(part_checks.started_while_stopped(run.world.history)) == 1


def test_what_is_left_of_a_drained_workload_is_found() -> None:
    """One of two members has left, the other runs on; nothing has kept the scheduler from removing it."""
    members = [pod(f"m{i}").gang("g").on("n1") for i in (1, 2)]
    for policy, refused, found in ((STOP_DRAIN, False, 1), (STOP_DRAIN, True, 0), (STOP_NONE, False, 0)):
        run = queued(gang("g").min(2).field(queue=TEAM), *members)
        stop(run, STOP_DRAIN, local=True)
        text = f"{OURS}: draining LocalQueue d/team, which is stopped: d/g leaves"
        does(run, Mark(1, about(run, "m1"), text))
        does(run, Remove(2, about(run, "m1"), mark=text))
        if refused:
            cause = Cause(log.SCHEDULER, log.DELETE)
            run.world.history.add(cause, "Pod", "d/m2", uid=about(run, "m2").uid, outcome=REFUSED, changed=False)
        stop(run, policy, local=True)
        run.world.clock.advance_to(3 * REPEAT_SECONDS)
        assert len(part_checks.left_in_a_drained_queue(run)) == found


def drained_for_long(*, fails_at: float = -1.0, outcome: Outcome = Outcome.TRANSIENT, **options: Any) -> Played:
    """A gang of two in a queue that is drained for 200 s; the removal of one has failed, and was not repeated."""
    run = queued(gang("g").min(2).field(queue=TEAM), *(pod(f"m{i}").gang("g").on("n1") for i in (1, 2)))
    run.scenario.options = msgspec.structs.replace(run.scenario.options, **options)
    stop(run, STOP_DRAIN, local=True)
    if fails_at >= 0.0:
        run.world.clock.advance_to(fails_at)
        cause, member = Cause(log.SCHEDULER, log.DELETE), about(run, "m2")
        run.world.history.add(cause, "Pod", "d/m2", uid=member.uid, outcome=outcome, changed=False)
    run.world.clock.advance_to(200.0)
    return run


def test_a_write_that_has_failed_once_excuses_nobody_for_ever() -> None:
    """It is to be repeated, unless it was refused."""
    for outcome, moment, left in (
        (Outcome.TRANSIENT, 10.0, {"m1", "m2"}),
        (Outcome.TRANSIENT, 190.0, {"m1"}),
        (REFUSED, 10.0, {"m1"}),
    ):
        run = drained_for_long(fails_at=moment, outcome=outcome)
        found = part_checks.left_in_a_drained_queue(run)
        assert {text.split()[0] for text in found} == {f"d/{name}" for name in left}


@pytest.mark.parametrize(("label", "strict", "found"), [("x", True, 0), ("x", False, 2), ("y", True, 2)])
def test_only_a_strict_budget_of_their_own_keeps_pods_in_a_drained_queue(label: str, strict: bool, found: int) -> None:
    """One that selects a member keeps all of its workload; one of others keeps nobody."""
    run = drained_for_long(strict_budgets=strict)
    run.world.apply(event(pdb("b").selects(app="x")), Cause(log.USER, log.CREATE))
    run.world.apply(event(pod("m1").gang("g").on("n1").label(app=label)), Cause(log.USER, log.CHANGE))
    assert len(part_checks.left_in_a_drained_queue(run)) == found


@pytest.mark.parametrize("ahead", [-3600.0, 0.0, 3600.0])
@pytest.mark.parametrize(("since", "found"), [(180.0, 0), (20.0, 1)])
def test_a_pod_runs_in_a_drained_queue_from_when_it_came(ahead: float, since: float, found: int) -> None:
    """Whatever its stamp says: the API server's clock may be another."""
    run = queued(gang("g").field(queue=TEAM))
    stop(run, STOP_DRAIN, local=True)
    run.world.clock.server_ahead_seconds = ahead
    run.world.create_after(since, event(pod("m").gang("g").on("n1")))
    run.world.clock.advance_to(200.0)
    assert len(part_checks.left_in_a_drained_queue(run)) == found


@pytest.mark.parametrize("gone", [Gone("PodGroup", "d", "g", group=SIGS), Gone("Job", "d", "j")], ids=["group", "Job"])
def test_who_has_lost_what_named_its_queue_may_stay(gone: Gone) -> None:
    """A deleted group or Job drains nobody."""
    job, group = Job("d", "j", "uid-Job-j", queue=TEAM), gang("g").min(1).field(queue=TEAM)
    one = pod("m").gang("g").on("n1") if gone.kind == "PodGroup" else pod("m").owner("Job", "j").on("n1")
    run = queued(group if gone.kind == "PodGroup" else job, one)
    stop(run, STOP_DRAIN, local=True)
    run.world.clock.advance_to(200.0)
    assert len(part_checks.left_in_a_drained_queue(run)) == 1
    run.world.store.apply(gone, Cause(log.USER, log.GONE))
    assert part_checks.left_in_a_drained_queue(run) == []


# -- volumes -------------------------------------------------------------------------------------------------------


def test_a_member_that_is_bound_before_the_volumes_of_its_gang_is_found() -> None:
    """It needs no volume itself; the other one's claim is not bound yet."""
    for ready, found in ((False, 1), (True, 0)):
        data = bound_claim("data", "v1") if ready else claim("data")
        run = played(node("n1"), gang("g").min(2), pod("m1").gang("g"), pod("m2").gang("g").claims("data"), data)
        bound(run, "m1")
        assert len(part_checks.bound_before_the_gangs_volumes(run.world.history)) == found
        assert part_checks.bound_before_the_gangs_volumes(run.world.history, {"d/g"}) == []


def test_members_that_are_gone_are_not_ready() -> None:
    """Their volumes were bound; that of a member that waits now is not."""
    there = [pod(f"a{i}").gang("g").on("n1") for i in (1, 2)]
    waiting = [pod("b1").gang("g"), pod("b2").gang("g").claims("data")]
    for gone, found in ((True, 1), (False, 0)):
        run = played(node("n1"), gang("g").min(2), claim("data"), *there, *waiting)
        for name in ("a1", "a2") if gone else ():
            deleted(run, name)
        bound(run, "b1")
        assert len(part_checks.bound_before_the_gangs_volumes(run.world.history)) == found


def test_a_binding_may_be_repeated_although_a_member_has_been_lost_since() -> None:
    """It may have taken effect; it may not be asked for a long time after."""
    for seconds, found in ((10.0, 0), (60.0, 1)):
        run = played(node("n1"), gang("g").min(2), pod("m1").gang("g"), pod("m2").gang("g").on("n1"))
        bound(run, "m1", Outcome.TRANSIENT)
        deleted(run, "m2")
        run.world.clock.advance_to(seconds)
        bound(run, "m1")
        assert len(part_checks.bound_before_the_gangs_volumes(run.world.history)) == found


def test_whoever_deletes_a_claim_disturbs_its_gang() -> None:
    """Its members cannot be bound, and nobody of ours is to blame."""
    run = played(gang("g").min(1), pod("m").gang("g").claims("data"), pod("other").claims("mine"), claim("data"))
    run.world.store.apply(Gone("PersistentVolumeClaim", "d", "data"), Cause(log.USER, log.GONE))
    assert disturbed(run.world.history) == {"d/g"}


@pytest.mark.parametrize(("actor", "found"), [(log.POD_GC, {"d/g"}), (log.SCHEDULER, set[str]())])
def test_who_is_deleted_with_its_node_disturbs_its_gang(actor: str, found: set[str]) -> None:
    """Bindings of other members may be on their way then."""
    run = played(gang("g").min(1), pod("m").gang("g").on("n1"))
    run.world.store.apply(Gone("Pod", "d", "m", about(run, "m").uid), Cause(actor, log.GONE))
    assert disturbed(run.world.history) == found


def test_a_pod_that_is_bound_out_of_reach_of_its_volume_is_found() -> None:
    """The volume is on one node."""
    for where, found in (("n1", 0), ("n2", 1)):
        run = played(node("n1"), node("n2"), pod("m").claims("data"), volume("v1", "n1"))
        run.world.store.apply(Changed(bound_claim("data", "v1")), Cause(log.USER, log.CREATE))
        bound(run, "m", to=where)
        assert len(part_checks.bound_out_of_reach(run.world.history)) == found
