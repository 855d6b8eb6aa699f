"""JobSets with random failure policies that lose Jobs, beside what is foretold of them."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import msgspec

from gangsched.model.convert import Converter, job_set
from gangsched.model.jobset_survival import (
    FAIL_JOBSET,
    RESTART_JOB,
    RESTART_JOB_FREE,
    RESTART_JOBSET,
    RESTART_JOBSET_FREE,
)
from gangsched.model.jobsets import JobSet, RawJobSet
from gangsched.model.survival import BY_INDEXES, BY_LIMIT
from tests.controlplane.client import ApiError, Client, Object, wait_until
from tests.controlplane.plane import ControlPlane
from tests.e2e.jobs import template
from tests.producers.jobset import KIND, running_jobset

#: So many JobSets, of which each loses a Job so often at most.
JOBSETS, ROUNDS = 40, 3
#: By which limit a Job of each replicated Job fails when it loses a pod.
REASONS = {"w": BY_LIMIT, "ps": BY_INDEXES}
_LIMITS: dict[str, Object] = {
    "w": {"backoffLimit": 0},
    "ps": {"backoffLimitPerIndex": 0, "maxFailedIndexes": 0},
}
_JOB = "jobset.sigs.k8s.io/replicatedjob-name"


def random_jobset(name: str, chance: random.Random) -> Object:
    """A JobSet of three Jobs of one pod, with up to three rules, or without a policy."""
    one: Object = {"parallelism": 1, "completions": 1, "completionMode": "Indexed", "template": template("1")}
    jobs = [
        {"name": each, "replicas": 2 if each == "w" else 1, "template": {"spec": one | limits}}
        for each, limits in _LIMITS.items()
    ]
    spec: Object = {"replicatedJobs": jobs}
    if chance.random() < 0.9:
        actions = (FAIL_JOBSET, RESTART_JOBSET, RESTART_JOBSET_FREE, RESTART_JOB, RESTART_JOB_FREE)
        rules: list[Object] = []
        for number in range(chance.randrange(4)):
            rule: Object = {"name": f"r{number}", "action": chance.choice(actions)}
            if chance.random() < 0.5:
                rule["onJobFailureReasons"] = [chance.choice([BY_LIMIT, BY_INDEXES, "PodFailurePolicy"])]
            if chance.random() < 0.5:
                rule["targetReplicatedJobs"] = [chance.choice(["w", "ps"])]
            rules.append(rule)
        spec["failurePolicy"] = {"maxRestarts": chance.randrange(3), "rules": rules}
    meta = {"name": name, "namespace": "default"}
    return {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": meta, "spec": spec}


def record_of(found: Object) -> JobSet:
    """A JobSet as plans see it."""
    return job_set(Converter(), msgspec.convert(found, RawJobSet))


async def failures_story(plane: ControlPlane, folder: Path, binary: Path, sources: Path) -> None:
    """One Job of each fails, again and again while it goes on: it ends, starts anew, or makes that Job anew, as is
    foretold.
    """
    chance = random.Random(11)
    made = [random_jobset(f"js-{number}", chance) for number in range(JOBSETS)]
    settings = {"featureGates": {"RestartJob": True}}
    async with (
        Client(plane.admin_kubeconfig) as admin,
        running_jobset(admin, plane, folder, binary, sources, **settings),
    ):

        async def there() -> bool:
            try:
                await admin.apply(made)
            except ApiError:
                return False
            return True

        await wait_until(there, what="the webhook of JobSet answers", timeout=60)
        checked = sum(await asyncio.gather(*(_foretold(admin, each, chance.choice(["w", "ps"])) for each in made)))
    print(f"what is foretold of JobSets was right {checked} of {checked} times, of {JOBSETS} JobSets")


async def _foretold(admin: Client, made: Object, fails: str) -> int:
    name = made["metadata"]["name"]
    for number in range(ROUNDS):
        jobs = await _jobs(admin, name, 3)
        lost = next(job for job in jobs if job["metadata"]["labels"][_JOB] == fails)
        before = record_of(await admin.get(KIND, name))
        job = next(each.job for each in before.replicated if each.job.name == f"{name}-{fails}")
        job = msgspec.structs.replace(job, name=lost["metadata"]["name"])
        after = before.after([(job, REASONS[fails])])
        await _lose(admin, lost)
        uids, wanted = {each["metadata"]["uid"] for each in jobs}, 3 if after.restarted else 1
        await _answered(admin, name, uids, wanted)
        found = record_of(await admin.get(KIND, name))
        assert found.finished == after.ends, (made, after)
        if after.ends:
            return number + 1
        anew = {j["metadata"]["uid"] for j in await _of(admin, name)} - uids
        assert len(anew) == (3 if after.restarted else 1), (made, after)
        if found.failure_policy is not None and before.failure_policy is not None:
            assert found.failure_policy.counted == before.failure_policy.counted + after.counted, (made, after)
    return ROUNDS


async def _answered(admin: Client, name: str, uids: set[str], wanted: int) -> None:
    """Wait until a JobSet has ended, or so many of its three Jobs are others than these."""

    async def answered() -> bool:
        now = {j["metadata"]["uid"] for j in await _of(admin, name)}
        return record_of(await admin.get(KIND, name)).finished or (len(now) == 3 and len(now - uids) >= wanted)

    await wait_until(answered, what=f"{name} ends, or has {wanted} new Jobs", timeout=60)


async def _of(admin: Client, name: str) -> list[Object]:
    found = await admin.list("Job")
    return [j for j in found if j["metadata"]["labels"].get("jobset.sigs.k8s.io/jobset-name") == name]


async def _jobs(admin: Client, name: str, count: int) -> list[Object]:
    async def there() -> bool:
        return len(await _of(admin, name)) == count

    await wait_until(there, what=f"the Jobs of {name} are made", timeout=60)
    return await _of(admin, name)


async def _lose(admin: Client, job: Object) -> None:
    """Delete the pod of a Job."""

    async def gone() -> bool:
        pods = [
            p for p in await admin.list("Pod") if p["metadata"]["ownerReferences"][0]["uid"] == job["metadata"]["uid"]
        ]
        for pod in pods:
            await admin.delete("Pod", pod["metadata"]["name"])
        return bool(pods)

    await wait_until(gone, what="a pod of the Job is deleted", timeout=60)
