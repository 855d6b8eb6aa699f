"""The simulated JobSet controller suspends, resumes and ends as the real one does."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from gangsched.cluster.sim import World
from gangsched.core.actions import JobRef, ResumeJob, SuspendJob
from gangsched.core.events import Changed, Outcome
from gangsched.model.constraints import Directives
from gangsched.model.jobset_survival import (
    RESTART_JOB,
    RESTART_JOB_FREE,
    RESTART_JOBSET_FREE,
    JobSetPolicy,
    JobSetRule,
)
from gangsched.model.jobsets import JOBSET, JobSet, ReplicatedJob
from gangsched.model.records import Job, Owner
from tests.cluster.sim.objects import SCHEDULER, node, outcomes, pod

OWNER = Owner(JOBSET, "js", "js-uid")
REF = JobRef("ns", "js", "js-uid", JOBSET)


def there(**fields: Any) -> World:
    """A JobSet of two Jobs of two pods, all of which run."""
    found: list[Any] = [Changed(node("n1", cpu=16)), Changed(JobSet("ns", "js", "js-uid", **fields))]
    for name in ("js-a-0", "js-b-0"):
        owner = Owner("Job", name, f"uid-{name}")
        template = pod(name, uid="", owner=owner, grace_seconds=2.0)
        known: dict[str, Any] = {"parallelism": 2, "completions": 2, "backoff_limit": 0, "template": template}
        found.append(Changed(Job("ns", name, owner.uid, owner=OWNER, **known)))
        found += [Changed(pod(f"{name}-{i}", node="n1", owner=owner, grace_seconds=2.0)) for i in range(2)]
    return World.of(found)


def jobs(found: World) -> list[Job]:
    """The Jobs as they are now."""
    return [job for name in ("js-a-0", "js-b-0") if (job := found.store.job("ns", name)) is not None]


def known(found: World) -> JobSet:
    """The JobSet as it is now."""
    jobset = found.store.jobset("ns", "js")
    assert jobset is not None
    return jobset


def live(found: World) -> int:
    """How many pods stay."""
    return sum(p.live for p in found.store.pods.values())


def test_a_suspended_jobset_suspends_its_jobs_and_no_pod_counts() -> None:
    """All pods leave with their grace period; with a backoffLimit of 0 both Jobs are still there."""
    found = there()
    assert outcomes(found, SuspendJob(1, REF, "1", SCHEDULER, "ns/vip", "p-1")) == [Outcome.OK]
    found.clock.advance_to(10.0)
    assert (known(found).suspended, known(found).suspended_by) == (True, SCHEDULER)
    assert [(j.suspended, j.suspended_by, j.failed, j.finished) for j in jobs(found)] == [(True, "", 0, False)] * 2
    assert not found.store.pods


def test_it_goes_on_with_new_pods() -> None:
    """Only for whom it was suspended by may end that; then each Job gets its pods."""
    found = there()
    outcomes(found, SuspendJob(1, REF, "1", SCHEDULER, "ns/vip", "p-1"))
    found.clock.advance_to(10.0)
    assert outcomes(found, ResumeJob(2, REF, "1", "another"), ResumeJob(3, REF, "1", SCHEDULER, held=True)) == [
        Outcome.CONFLICT,
        Outcome.CONFLICT,
    ]
    assert outcomes(found, ResumeJob(4, REF, "1", SCHEDULER)) == [Outcome.OK]
    found.clock.advance_to(20.0)
    assert [j.suspended for j in jobs(found)] == [False, False]
    assert live(found) == 4


def test_each_of_its_jobs_gets_the_flavor_of_its_template() -> None:
    """By the name of the template. A Job keeps the labels of an earlier flavor; those of the new one go first."""
    spot, steady = Directives((("kind", "spot"),)), Directives((("kind", "steady"), ("zone", "b")))
    nothing = Directives()
    like = tuple(ReplicatedJob(1, Job("ns", f"js-{n}", template=pod(f"js-{n}", uid=""))) for n in "ab")
    found = there(replicated=like)
    rounds = ((1, (steady, nothing), (steady, nothing)), (3, (spot, nothing), None), (5, (nothing, spot), None))
    kept = Directives((("kind", "spot"), ("zone", "b")))
    for number, given, exactly in rounds:
        expected = exactly or (kept, given[1])
        outcomes(found, SuspendJob(number, REF, "1", SCHEDULER, "ns/vip", "p-1"))
        found.clock.advance_to(found.clock.now + 10.0)
        assert outcomes(found, ResumeJob(number + 1, REF, "1", SCHEDULER, templates=given)) == [Outcome.OK]
        found.clock.advance_to(found.clock.now + 10.0)
        selectors = {p.name[:4]: p.shape.node_selector for p in found.store.pods.values()}
        assert selectors == {"js-a": expected[0].node_selector, "js-b": expected[1].node_selector}


def test_a_job_that_somebody_else_suspends_goes_on_at_once() -> None:
    """Why it is the JobSet that is suspended."""
    found = there()
    first = jobs(found)[0]
    outcomes(found, SuspendJob(1, JobRef("ns", first.name, first.uid), "1", SCHEDULER, "ns/vip", "p-1"))
    found.clock.advance_to(20.0)
    assert [j.suspended for j in jobs(found)] == [False, False]


def test_a_failed_job_ends_the_jobset_and_its_other_jobs() -> None:
    """Without a failure policy one failure is the end, of all pods too."""
    found = there()
    lost = next(p for p in found.store.pods.values() if p.name == "js-a-0-0")
    found.apply(Changed(msgspec.structs.replace(lost, phase="Failed")))
    found.clock.advance_to(20.0)
    assert known(found).finished
    assert [j.finished for j in jobs(found)] == [True, True]
    assert live(found) == 0


@pytest.mark.parametrize(
    ("policy", "anew", "counted"),
    [
        (JobSetPolicy(max_restarts=2), {"js-a-0", "js-b-0"}, 1),
        (JobSetPolicy(rules=(JobSetRule(RESTART_JOBSET_FREE),)), {"js-a-0", "js-b-0"}, 0),
        (JobSetPolicy(2, (JobSetRule(RESTART_JOB),)), {"js-a-0"}, 1),
        (JobSetPolicy(rules=(JobSetRule(RESTART_JOB_FREE, jobs=("a",)),)), {"js-a-0"}, 0),
    ],
)
def test_a_failure_policy_makes_jobs_anew(policy: JobSetPolicy, anew: set[str], counted: int) -> None:
    """All of them, or the one that has failed; they get all of their pods, and have lost none."""
    found = there(failure_policy=policy)
    lost = next(p for p in found.store.pods.values() if p.name == "js-a-0-0")
    found.apply(Changed(msgspec.structs.replace(lost, phase="Failed")))
    found.clock.advance_to(20.0)
    after = known(found)
    assert not after.finished
    assert after.failure_policy is not None
    assert after.failure_policy.counted == counted
    assert {job.name for job in jobs(found) if job.uid != f"uid-{job.name}"} == anew
    assert [(job.failed, job.finished) for job in jobs(found)] == [(0, False)] * 2
    owners = {p.name: p.owner.uid for p in found.store.pods.values() if p.live and p.owner is not None}
    assert sorted(owners.values()) == sorted(job.uid for job in jobs(found) for _ in range(2))


def test_it_ends_when_it_was_restarted_so_often() -> None:
    """Restarts that count are maxRestarts at most."""
    found = there(failure_policy=JobSetPolicy(max_restarts=1))
    for ends in (False, True):
        lost = next(p for p in found.store.pods.values() if p.live)
        found.apply(Changed(msgspec.structs.replace(lost, phase="Failed")))
        found.clock.advance_to(found.clock.now + 20.0)
        assert known(found).finished is ends


def test_it_is_complete_when_all_its_jobs_are() -> None:
    """Not before."""
    found = there()
    for name, finished in (("js-a-0", False), ("js-b-0", True)):
        for each in [p for p in found.store.pods.values() if p.name.startswith(name)]:
            found.apply(Changed(msgspec.structs.replace(each, phase="Succeeded")))
        found.clock.advance_to(found.clock.now + 10.0)
        assert known(found).finished is finished


def test_writes_to_jobsets_that_are_gone_or_over() -> None:
    """Another incarnation, and one that has finished."""
    found = there(finished=True)
    other = msgspec.structs.replace(REF, uid="another")
    writes = (SuspendJob(n, ref, "1", SCHEDULER, "ns/vip", "p-1") for n, ref in enumerate((REF, other)))
    assert outcomes(found, *writes) == [Outcome.CONFLICT, Outcome.GONE]
