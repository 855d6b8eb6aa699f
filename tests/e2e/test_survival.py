"""Random Jobs lose pods: what becomes of them is what the real kube-controller-manager makes of it.

``SURVIVAL_JOBS`` says how many Jobs there are (60).
"""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gangsched.core.events import Changed
from gangsched.core.preemption.job_failures import fate_of
from gangsched.model import wire
from gangsched.model.convert import Converter
from gangsched.model.survival import Fate, may_complete
from tests.controlplane.client import ApiError, Client, Object, wait_until
from tests.controlplane.plane import ControlPlane
from tests.core.harness import world
from tests.e2e.survival import COUNTED, DELETED, EVICTED, FAILED, NAMESPACE, RandomJob, ended

JOBS = int(os.environ.get("SURVIVAL_JOBS", "60"))
#: Far longer than it should take.
WAIT_SECONDS = 60.0 + 2.0 * JOBS
MANAGER = ("--controllers=job-controller", "--concurrent-job-syncs=20")

pytestmark = pytest.mark.controlplane


async def each(things: Iterable[Any], work: Any) -> None:
    """Do this work with all of these things, some at a time."""
    gate = asyncio.Semaphore(24)

    async def one(thing: Any) -> None:
        async with gate:
            await work(thing)

    await asyncio.gather(*map(one, things))


async def make(admin: Client, job: RandomJob) -> None:
    """The Job with its history, and its pods before any is evicted."""
    made = await admin.create(job.job())
    uids = {}
    for name in job.pods:
        uids[name] = (await admin.create(job.pod(name, made["metadata"]["uid"])))["metadata"]["uid"]
    counted = [uids[name] for name, what in job.pods.items() if what == COUNTED]
    status = {**job.status, **({"uncountedTerminatedPods": {"failed": counted}} if counted else {})}
    await admin.patch("batch/v1/Job", job.name, {"status": status}, subresource="status")
    for name, what in job.pods.items():
        status = {"phase": "Running"} if what != FAILED else ended(1, marked=False)
        if what in (DELETED, COUNTED):
            status = ended(job.code, marked=False, failed=False)
            await admin.delete("Pod", name)
        await admin.patch("Pod", name, {"status": status}, subresource="status")


async def evict(admin: Client, job: RandomJob) -> None:
    """Victims are marked and deleted, and end where the Job awaits that, as others do that were deleted before."""
    for name, what in job.pods.items():
        if what == EVICTED:
            mark = {"status": {"conditions": [{"type": "DisruptionTarget", "status": "True", "reason": "Preempted"}]}}
            await admin.patch("Pod", name, mark, how="strategic", subresource="status")
            await admin.delete("Pod", name)
        if what in (EVICTED, DELETED):
            status = ended(job.code, marked=what == EVICTED, failed=job.awaits_end)
            await admin.patch("Pod", name, {"status": status}, subresource="status")


async def snapshot(admin: Client) -> tuple[dict[str, Object], dict[str, list[Object]]]:
    """The Jobs by name, and the pods of each."""
    jobs = {job["metadata"]["name"]: job for job in await admin.list("batch/v1/Job", NAMESPACE)}
    pods: dict[str, list[Object]] = {name: [] for name in jobs}
    for pod in await admin.list("Pod", NAMESPACE):
        pods[pod["metadata"]["ownerReferences"][0]["name"]].append(pod)
    return jobs, pods


def told(job: RandomJob, found: Object, pods: list[Object]) -> tuple[Fate, Fate, bool]:
    """What is said before the eviction: if its containers end as they will, however they end; and whether the Job can
    complete as it is.
    """
    convert = Converter()
    record = convert.job(msgspec.convert(found, wire.Job))
    known = [convert.pod(msgspec.convert(pod, wire.Pod)) for pod in pods]
    core = world(Changed(record), *map(Changed, known))
    victims = {pod.uid for pod in known if job.pods[pod.name] == EVICTED}
    there = core.world.jobs.get((NAMESPACE, job.name))
    assert there is not None
    exactly = fate_of(there, victims, core.world, core.ledger.condemned, codes=(job.code,))
    others = [fate_of(there, victims, core.world, core.ledger.condemned, codes=(code,)) for code in (137, 143)]
    at_worst = fate_of(there, victims, core.world, core.ledger.condemned)
    rules = job.spec.get("podFailurePolicy", {}).get("rules", ())
    named = any("containerName" in rule.get("onExitCodes", {}) for rule in rules)  # two may end differently
    assert at_worst.ends == any(other.ends for other in others) or (at_worst.ends and named)
    return exactly, at_worst, may_complete(there)


def condition(job: Object, *kinds: str) -> Object | None:
    """The first of these conditions that is true."""
    found = job["status"].get("conditions", ())
    return next((c for kind in kinds for c in found if c["type"] == kind and c["status"] == "True"), None)


def settled(job: Object) -> bool:
    """Has its controller said that it fails, or that it has what it needs?"""
    return condition(job, "FailureTarget", "Failed", "SuccessCriteriaMet", "Complete") is not None


async def succeed(admin: Client, name: str) -> None:
    """A pod succeeds, unless its Job has removed it meanwhile."""
    try:
        await admin.patch("Pod", name, {"status": {"phase": "Succeeded"}}, subresource="status")
    except ApiError as error:
        if error.status != 404:
            raise


async def complete(admin: Client, jobs: dict[str, RandomJob]) -> dict[str, Object]:
    """What is left of the Jobs succeeds: pod by pod where a success policy may do without others."""

    async def one_round() -> dict[str, Object] | None:
        found, pods = await snapshot(admin)
        todo = []
        for name, job in jobs.items():
            if settled(found[name]):
                continue
            open_ = [p for p in pods[name] if p["status"]["phase"] in ("Pending", "Running")]
            names = [p["metadata"]["name"] for p in open_ if "deletionTimestamp" not in p["metadata"]]
            if job.indexed:
                names = job.by_use(names)
            todo += names[:1] if "successPolicy" in job.spec and job.indexed else names
        await each(todo, lambda name: succeed(admin, name))
        return found if all(settled(found[name]) for name in jobs) else None

    return await wait_until(one_round, timeout=WAIT_SECONDS, what="all Jobs come to an end", interval=1.5)


async def test_a_job_survives_an_eviction_when_kube_controller_manager_says_so(tmp_path: Path) -> None:
    """Limits of the Job and of its indexes, rules in their order, exit codes, conditions, and success policies decide
    as there: at once, and whether the Job can complete in the end.
    """
    drawn = (RandomJob(seed) for seed in range(100 * JOBS))
    jobs = {job.name: job for _, job in zip(range(JOBS), (job for job in drawn if job.lives), strict=False)}
    plane = ControlPlane(tmp_path / "plane", controller_manager=False, kwok=False)
    with plane:
        async with Client(plane.admin_kubeconfig) as admin:
            await each(jobs.values(), lambda job: make(admin, job))
            found, pods = await snapshot(admin)
            ours = {name: told(job, found[name], pods[name]) for name, job in jobs.items()}
            await each(jobs.values(), lambda job: evict(admin, job))
            plane.manage(*MANAGER)

            async def all_seen() -> dict[str, Object] | None:
                now, _ = await snapshot(admin)
                return now if all("ready" in now[name]["status"] or settled(now[name]) for name in jobs) else None

            at_once = await wait_until(
                all_seen, timeout=WAIT_SECONDS, what="every Job has been looked at", interval=1.0
            )
            in_the_end = await complete(admin, jobs)
    wrong = []
    for name, job in jobs.items():
        exactly, _, could = ours[name]
        failed = condition(at_once[name], "FailureTarget", "Failed")
        completes = condition(in_the_end[name], "SuccessCriteriaMet", "Complete") is not None
        theirs = failed["reason"] if failed is not None else ""
        if (exactly.cause, could and not exactly.ends) != (theirs, completes):
            wrong.append((name, job.spec, job.status, job.pods, job.failures, job.code, exactly, theirs, completes))
    reasons = Counter(exactly.cause or ("doomed" if exactly.doomed else "survives") for exactly, _, _ in ours.values())
    assert not wrong, f"{len(wrong)} of {len(jobs)}: {wrong[0]}"
    assert min(reasons[kind] for kind in ("survives", "doomed", "PodFailurePolicy", "BackoffLimitExceeded")) > 0
    print(f"{len(jobs)} of {len(jobs)} Jobs: {dict(reasons)}")
