"""JobSets on a real API server: read where they are served, suspended and let go on with their identity checked."""

from __future__ import annotations

import copy
from collections.abc import Awaitable, Callable

import msgspec

from gangsched.core.actions import SuspendJob
from gangsched.core.events import ObjectRefused, Outcome, Synced
from gangsched.model.convert import PREEMPTED_BY, SUSPENDED_BY
from gangsched.model.jobsets import JOBSET, JobSet
from tests.cluster.kube.conftest import Reader
from tests.cluster.kube.jobsets import US, make_jobset, reference, resume
from tests.controlplane.client import Client, Object
from tests.controlplane.jobsets import KIND
from tests.faulty_proxy import Fault, FaultyProxy

Make = Callable[..., Awaitable[Reader]]


def suspend(found: Object, version: str = "", number: int = 1) -> SuspendJob:
    """Suspend it on behalf of a gang."""
    version = version or found["metadata"]["resourceVersion"]
    return SuspendJob(number, reference(found), version, US, "ns/vip", "p-1")


async def test_suspend_and_resume(make_cluster: Make, admin: Client, namespace: str, jobsets: None) -> None:
    """Who did it and why is on record while it lasts; both writes are safe to repeat, with an old version too."""
    made = await make_jobset(admin, namespace)
    reader = await make_cluster()
    await reader.leading()
    for number in (1, 2):
        [answer] = await reader.do(suspend(made, "1", number))
        assert answer.outcome == Outcome.OK, answer
    found = await admin.get(KIND, "js", namespace)
    assert found["spec"]["suspend"] is True
    assert found["metadata"]["annotations"][SUSPENDED_BY] == US
    assert found["metadata"]["annotations"][PREEMPTED_BY] == "ns/vip, plan p-1"
    seen = await reader.shown(JobSet, lambda e: e.suspended)
    assert (seen.key, seen.suspended_by, seen.wanted) == (f"{namespace}/js", US, 6)
    assert seen.queue.local_queue == "q"
    for number in (3, 4):
        [answer] = await reader.do(resume(made, number))
        assert answer.outcome == Outcome.OK, answer
    found = await admin.get(KIND, "js", namespace)
    assert found["spec"]["suspend"] is False
    assert not {SUSPENDED_BY, PREEMPTED_BY} & found["metadata"].get("annotations", {}).keys()
    await admin.delete(KIND, "js", namespace)
    assert await reader.gone("JobSet") == (namespace, "js")


async def test_what_is_suspended_is_resumed_by_whom_it_concerns(
    make_cluster: Make, admin: Client, namespace: str, jobsets: None
) -> None:
    """A held one bears nobody's name and has a queue; one that somebody has suspended meanwhile is not ours."""
    made = await make_jobset(admin, namespace, suspend=True)
    old = copy.deepcopy(made)
    old["metadata"]["resourceVersion"] = "1"
    reader = await make_cluster()
    await reader.leading()
    [answer] = await reader.do(resume(old, 1))
    assert answer.outcome == Outcome.CONFLICT
    await admin.patch(KIND, "js", {"metadata": {"annotations": {SUSPENDED_BY: "another"}}}, namespace=namespace)
    [answer] = await reader.do(resume(old, 2, held=True))
    assert answer.outcome == Outcome.CONFLICT
    await admin.patch(KIND, "js", {"metadata": {"annotations": {SUSPENDED_BY: None}}}, namespace=namespace)
    for number, queue, outcome in ((3, None, Outcome.CONFLICT), (4, "q", Outcome.OK)):
        labels = {"metadata": {"labels": {"kueue.x-k8s.io/queue-name": queue}}}
        await admin.patch(KIND, "js", labels, namespace=namespace)
        [answer] = await reader.do(resume(old, number, held=True))
        assert answer.outcome == outcome
    assert (await admin.get(KIND, "js", namespace))["spec"]["suspend"] is False


async def test_every_write_means_one_jobset(make_cluster: Make, admin: Client, namespace: str, jobsets: None) -> None:
    """Of another JobSet with that name, or one that has finished, nothing is changed."""
    made = await make_jobset(admin, namespace)
    reader = await make_cluster()
    await reader.leading()
    another = msgspec.structs.replace(reference(made), uid="00000000-0000-0000-0000-000000000000")
    version = made["metadata"]["resourceVersion"]
    [answer] = await reader.do(SuspendJob(1, another, version, US, "ns/vip", "p"))
    assert answer.outcome == Outcome.GONE
    done = {"status": {"conditions": [{"type": "Completed", "status": "True"}]}}
    await admin.patch(KIND, "js", done, namespace=namespace, subresource="status")
    [answer] = await reader.do(suspend(made, number=2))
    assert answer.outcome == Outcome.CONFLICT
    assert not (await admin.get(KIND, "js", namespace))["spec"].get("suspend")


async def test_clusters_without_jobsets(make_cluster: Make, proxy: FaultyProxy) -> None:
    """Nothing is watched, and nothing is in the way."""
    reader = await make_cluster()
    await reader.leading()
    assert "jobsets.jobset.x-k8s.io" not in {h.resource for h in reader.cluster.health().caches}
    assert not proxy.seen("GET", "/jobsets")


async def test_jobsets_that_may_not_be_read(make_cluster: Make, proxy: FaultyProxy, jobsets: None) -> None:
    """Without that right, everything else goes on."""
    proxy.fail(Fault(path="/jobsets$", status=403, times=None))
    reader = await make_cluster()
    await reader.leading()


async def test_one_that_makes_no_sense_is_reported(
    make_cluster: Make, admin: Client, namespace: str, jobsets: None
) -> None:
    """With its field, and without holding up anything else."""
    body = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": {"name": "bad"}}
    await admin.create(body | {"spec": {"replicatedJobs": [{"name": "a"}, {"name": "a"}]}}, namespace)
    reader = await make_cluster()
    await reader.until(Synced)
    refused = await reader.until(ObjectRefused, lambda e: e.name == "bad")
    assert (refused.kind.partition(".")[0], refused.field) == (JOBSET, "spec.replicatedJobs[1].name")
