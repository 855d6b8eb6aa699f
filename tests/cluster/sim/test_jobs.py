"""The simulated Job controller counts, replaces, ends, suspends and resumes as the real one does."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from gangsched.cluster.sim import World
from gangsched.cluster.sim.history import CREATE, USER, Cause
from gangsched.core.actions import JobRef, Mark, Remove, ResumeJob, SuspendJob
from gangsched.core.events import Changed, Outcome
from gangsched.model.constraints import Directives, Toleration
from gangsched.model.records import Job, Owner, Pod
from tests.builders import FAILING, IGNORED
from tests.cluster.sim.objects import SCHEDULER, node, outcomes, pod, ref, world

OWNER = Owner("Job", "j", "job-uid")
JOB = JobRef("ns", "j", "job-uid")


def job(count: int, **fields: Any) -> Job:
    """A Job of so many pods."""
    template = pod("j", uid="", owner=OWNER, grace_seconds=2.0)
    return Job("ns", "j", OWNER.uid, **{"parallelism": count, "completions": count, "template": template, **fields})


def there(count: int, **fields: Any) -> World:
    """A node on which all pods of the Job run."""
    pods = (pod(f"j-{i}", node="n1", owner=OWNER, grace_seconds=2.0) for i in range(count))
    return world(node("n1", cpu=16), job(count, **fields), *pods)


def known(found: World) -> Job:
    """The Job as it is now."""
    job = found.store.job("ns", "j")
    assert job is not None
    return job


def live(found: World) -> list[str]:
    """Names of the pods that stay."""
    return sorted(p.name for p in found.store.pods.values() if p.live)


def suspend(number: int = 1) -> SuspendJob:
    """The scheduler suspends the Job."""
    return SuspendJob(number, JOB, "1", SCHEDULER, "ns/vip", "p-1")


def test_a_deleted_pod_counts_as_failed_and_is_replaced() -> None:
    """It counts as soon as it terminates; another one comes after the pause."""
    found = there(3)
    outcomes(found, Remove(1, ref("j-0")))
    assert known(found).failed == 1
    found.clock.advance_to(60.0)
    assert live(found) == ["j-1", "j-2", "j-3"]
    assert known(found).failed == 1


def test_a_new_pod_never_takes_the_place_of_a_pod_of_the_same_name() -> None:
    """Somebody else has made a pod with the next name: it stays, and the new one has another."""
    found = there(2)
    found.store.put_pod(pod("j-2"), Cause(USER, CREATE))
    outcomes(found, Remove(1, ref("j-0")))
    found.clock.advance_to(60.0)
    assert live(found) == ["j-1", "j-2", "j-3"]
    assert found.store.pods["ns", "j-2"].owner is None


def test_more_failed_pods_than_the_limit_end_the_job() -> None:
    """The pods that are left go with it, and none comes back."""
    found = there(3, backoff_limit=1)
    outcomes(found, Remove(1, ref("j-0")), Remove(2, ref("j-1")))
    found.clock.advance_to(60.0)
    assert (known(found).failed, known(found).finished) == (2, True)
    assert live(found) == []


def test_pods_of_a_former_job_of_the_name_are_not_counted() -> None:
    """They belong to another UID, neither failed nor succeeded."""
    found = there(2, backoff_limit=0)
    former = msgspec.structs.replace(OWNER, uid="former-uid")
    for name in ("old-0", "old-1"):
        found.store.put_pod(pod(name, node="n1", owner=former), Cause(USER, CREATE))
    outcomes(found, Remove(1, ref("old-0")))
    old = found.store.pods["ns", "old-1"]
    found.store.put_pod(msgspec.structs.replace(old, phase="Succeeded"), Cause(USER, CREATE))
    found.clock.advance_to(60.0)
    assert (known(found).failed, known(found).succeeded, known(found).finished) == (0, 0, False)
    assert live(found)[:2] == ["j-0", "j-1"]


@pytest.mark.parametrize(
    ("fields", "failed", "finished"),
    [({"failure_rules": IGNORED}, 0, False), ({"failure_rules": FAILING}, 1, True), ({}, 1, False)],
)
def test_the_pod_failure_policy_is_asked(fields: dict[str, Any], failed: int, finished: bool) -> None:
    """It ignores a marked pod, or ends the Job for it."""
    found = there(2, **fields)
    outcomes(found, Mark(1, ref("j-0"), "for another"))
    outcomes(found, Remove(2, ref("j-0")))
    assert (known(found).failed, known(found).finished) == (failed, finished)


def test_pods_of_a_suspended_job_do_not_count() -> None:
    """They are deleted with their grace period, and created anew when the Job goes on."""
    found = there(3)
    assert outcomes(found, suspend()) == [Outcome.OK]
    assert known(found).suspended_by == SCHEDULER
    found.clock.advance_to(30.0)
    assert list(found.store.pods) == []
    assert outcomes(found, ResumeJob(2, JOB, "1", SCHEDULER)) == [Outcome.OK]
    found.clock.advance_to(31.0)
    assert live(found) == ["j-3", "j-4", "j-5"]
    assert {p.gang.name for p in found.store.pods.values()} == set(live(found))
    assert (known(found).failed, known(found).suspended, known(found).suspended_by) == (0, False, "")


def test_pods_of_a_job_that_goes_on_in_a_flavor_have_its_directives() -> None:
    """Those of the flavor it has now, not of one before; the template stays as it was."""
    found = there(2)
    spot = Directives((("kind", "spot"),), (Toleration("spot", "Exists"),))
    for number, added in ((1, spot), (3, Directives((("kind", "steady"),)))):
        outcomes(found, suspend(number))
        found.clock.advance_to(found.clock.now + 30.0)
        assert outcomes(found, ResumeJob(number + 1, JOB, "1", SCHEDULER, templates=(added,))) == [Outcome.OK]
        found.clock.advance_to(found.clock.now + 30.0)
        shapes = {p.shape for p in found.store.pods.values() if p.live}
        assert {(s.node_selector, s.tolerations) for s in shapes} == {(added.node_selector, added.tolerations)}
    template = known(found).template
    assert template is not None
    assert template.shape.node_selector == ()


def test_success_is_counted_until_the_job_is_complete() -> None:
    """A further pod runs while completions are missing."""
    found = there(2, completions=3)
    for name in ("j-0", "j-1", "j-2"):
        done = found.store.pods["ns", name]
        found.apply(Changed(msgspec.structs.replace(done, phase="Succeeded")))
        found.clock.advance_to(found.clock.now + 1.0)
    assert (known(found).succeeded, known(found).finished) == (3, True)
    assert live(found) == []


def test_pods_that_are_still_to_arrive_are_not_created_twice() -> None:
    """The controller has made the pods of the input before; it makes up for those that are lost."""
    found = world(node("n1"), job(2), pod("j-0", owner=OWNER))
    found.clock.advance_to(60.0)
    assert live(found) == ["j-0"]


@pytest.mark.parametrize(
    ("changes", "action", "outcome"),
    [
        ({}, suspend(), Outcome.OK),
        ({"suspended": True}, suspend(), Outcome.OK),
        ({"finished": True}, suspend(), Outcome.CONFLICT),
        ({"uid": "another"}, suspend(), Outcome.GONE),
        ({}, ResumeJob(1, JOB, "1", SCHEDULER), Outcome.OK),
        ({"suspended": True}, ResumeJob(1, JOB, "1", SCHEDULER), Outcome.CONFLICT),
        ({"suspended": True, "suspended_by": SCHEDULER}, ResumeJob(1, JOB, "1", SCHEDULER), Outcome.OK),
    ],
)
def test_what_writes_to_a_job_are_answered(changes: dict[str, Any], action: Any, outcome: Outcome) -> None:
    """What is as it should be is ok; what others have suspended stays so."""
    found = world(node("n1"), msgspec.structs.replace(job(1), **changes))
    before = known(found)
    assert outcomes(found, action) == [outcome]
    if outcome != Outcome.OK:
        assert known(found) == before


def test_a_pod_that_fails_by_itself_counts() -> None:
    """Whoever made it fail; its end afterwards is not counted again."""
    found = there(1)
    failed: Pod = msgspec.structs.replace(found.store.pods["ns", "j-0"], phase="Failed")
    found.apply(Changed(failed))
    outcomes(found, Remove(1, ref("j-0")))
    assert known(found).failed == 1


def test_an_index_fails_after_its_limit_and_is_made_no_more() -> None:
    """Its pod is replaced with the count of those that have failed, until that is the limit."""
    found = there(2, indexed=True, limit_per_index=1, backoff_limit=99)
    for pod_ in list(found.store.pods.values()):
        index = int(pod_.name[-1])
        found.store.put_pod(msgspec.structs.replace(pod_, completion_index=index), Cause(USER, CREATE))
    outcomes(found, Remove(1, ref("j-0")))
    found.clock.advance_to(60.0)
    (second,) = (p for p in found.store.pods.values() if p.completion_index == 0)
    assert (second.index_failures, live(found)) == (1, ["j-1", second.name])
    outcomes(found, Remove(2, ref(second.name, second.uid)))
    found.clock.advance_to(120.0)
    assert live(found) == ["j-1"]
    assert (known(found).failed_indexes, known(found).finished) == (((0, 0),), False)


def test_a_job_that_awaits_the_end_of_its_pods_counts_and_replaces_them_then() -> None:
    """A pod that terminates is not replaced yet."""
    found = there(2, awaits_end=True)
    outcomes(found, Remove(1, ref("j-0")))
    found.clock.advance_to(1.0)
    assert (known(found).failed, live(found)) == (0, ["j-1"])
    found.clock.advance_to(60.0)
    assert (known(found).failed, live(found)) == (1, ["j-1", "j-2"])
