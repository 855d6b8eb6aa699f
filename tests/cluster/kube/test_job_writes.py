"""Suspending a Job and letting it go on, on a real API server."""

from __future__ import annotations

import msgspec
import pytest

from gangsched.core.actions import ResumeJob, SuspendJob
from gangsched.core.events import Outcome
from gangsched.model.convert import PREEMPTED_BY, SUSPENDED_BY
from gangsched.model.records import Job
from tests.cluster.kube.jobs import US, Make, make_job, reference, resume, suspend
from tests.controlplane.client import Client


async def test_suspend_and_resume(make_cluster: Make, admin: Client, namespace: str) -> None:
    """Who did it and why is on record while it lasts; both writes are safe to repeat, with an old version too."""
    job = await make_job(admin, namespace)
    reader = await make_cluster()
    await reader.leading()
    for number in (1, 2):
        [answer] = await reader.do(suspend(job, "1", number))
        assert answer.outcome == Outcome.OK, answer
    found = await admin.get("Job", "j", namespace)
    assert found["spec"]["suspend"] is True
    assert found["metadata"]["annotations"][SUSPENDED_BY] == US
    assert found["metadata"]["annotations"][PREEMPTED_BY] == "ns/vip, plan p-1"
    seen = await reader.shown(Job, lambda e: e.suspended and e.namespace == namespace)
    assert (seen.suspended_by, seen.wanted) == (US, 2)
    assert seen.template is not None
    assert seen.template.scheduler == "nobody"
    for number in (3, 4):
        [answer] = await reader.do(resume(job, number))
        assert answer.outcome == Outcome.OK, answer
    found = await admin.get("Job", "j", namespace)
    assert found["spec"]["suspend"] is False
    assert not {SUSPENDED_BY, PREEMPTED_BY} & found["metadata"].get("annotations", {}).keys()


@pytest.mark.parametrize("by", [None, "another"])
async def test_what_others_have_suspended_stays_so(
    make_cluster: Make, admin: Client, namespace: str, by: str | None
) -> None:
    """Suspending it again is not needed, and takes nothing over; it is not ours to resume."""
    job = await make_job(admin, namespace)
    change = {"spec": {"suspend": True}, "metadata": {"annotations": {SUSPENDED_BY: by} if by else {}}}
    await admin.patch("Job", "j", change, namespace=namespace)
    reader = await make_cluster()
    await reader.leading()
    answers = await reader.do(suspend(job), resume(job))
    assert [a.outcome for a in answers] == [Outcome.OK, Outcome.CONFLICT]
    found = await admin.get("Job", "j", namespace)
    assert found["spec"]["suspend"] is True
    assert found["metadata"].get("annotations", {}).get(SUSPENDED_BY) == by


async def test_every_write_means_one_job(make_cluster: Make, admin: Client, namespace: str) -> None:
    """Of another Job with that name nothing is changed."""
    job = await make_job(admin, namespace)
    reader = await make_cluster()
    await reader.leading()
    another = msgspec.structs.replace(reference(job), uid="00000000-0000-0000-0000-000000000000")
    missing = msgspec.structs.replace(another, name="missing")
    version = job["metadata"]["resourceVersion"]
    answers = await reader.do(
        SuspendJob(1, another, version, US, "ns/vip", "p"),
        ResumeJob(2, another, version, US),
        SuspendJob(3, missing, version, US, "ns/vip", "p"),
    )
    assert [a.outcome for a in answers] == [Outcome.GONE] * 3
    assert (await admin.get("Job", "j", namespace))["spec"]["suspend"] is False


async def test_a_finished_job_is_left_alone(make_cluster: Make, admin: Client, namespace: str) -> None:
    """Its pods are going anyway: the plan is made again without them."""
    job = await make_job(admin, namespace, activeDeadlineSeconds=1)
    await admin.wait_for(
        "Job",
        "j",
        lambda j: any(c["type"] == "Failed" for c in j.get("status", {}).get("conditions", [])),
        namespace=namespace,
    )
    reader = await make_cluster()
    await reader.leading()
    [answer] = await reader.do(suspend(job))
    assert answer.outcome == Outcome.CONFLICT
