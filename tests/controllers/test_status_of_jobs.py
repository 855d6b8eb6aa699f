"""Conditions of Jobs and queues: what they should be, and how those of Jobs are written without watching any."""

from __future__ import annotations

from typing import Any

import pytest

from gangsched.cluster.kube.bodies import Request
from gangsched.cluster.kube.client import ApiError
from gangsched.cluster.kube.status_fields import changed_fields
from gangsched.cluster.kube.statuses import RETRY_SECONDS
from gangsched.core.actions import GangStatus, JobStatus
from tests.controllers.bench import NOW, NOW_TEXT, SIGS, Api, Bench

RESERVED = ("QuotaReserved", "True", "QuotaReserved", "Quota reserved in ClusterQueue a")
ADMITTED = ("Admitted", "True", "Admitted", "The workload is admitted")
SUSPENDED = {"type": "Suspended", "status": "True", "reason": "JobSuspended"}


def job(*conditions: tuple[str, str, str, str], uid: str = "uid", name: str = "gang") -> JobStatus:
    """What the core says about a Job."""
    return JobStatus("batch", "ns", name, uid, {"conditions": conditions}, "jobs")


def of_job(conditions: tuple[tuple[str, str, str, str], ...], present: list[dict[str, Any]]) -> dict[str, Any]:
    """The conditions that a Job has then, by type; empty if nothing changes."""
    found = changed_fields("batch", "v1", {"conditions": conditions}, {"conditions": present}, 7, NOW)
    return {each["type"]: each for each in found.get("conditions", ())}


def test_conditions_of_the_job_controller_are_kept() -> None:
    """Ours come beside its own, with the time of the change, and are not written twice."""
    found = of_job((RESERVED, ADMITTED), [SUSPENDED])
    assert list(found) == ["Suspended", "QuotaReserved", "Admitted"]
    assert found["Suspended"] == SUSPENDED
    assert found["Admitted"] == {
        "type": "Admitted",
        "status": "True",
        "reason": "Admitted",
        "message": "The workload is admitted",
        "lastTransitionTime": NOW_TEXT,
    }
    assert of_job((RESERVED, ADMITTED), list(found.values())) == {}


def test_new_quota_makes_an_eviction_history() -> None:
    """Evicted and Preempted become False with what they said before; they do so once."""
    old = {"type": "Evicted", "status": "True", "reason": "Preempted", "message": "why"}
    first = of_job((RESERVED,), [old, {**old, "type": "Preempted"}])
    for name in ("Evicted", "Preempted"):
        assert [first[name][k] for k in ("status", "reason", "message")] == [
            "False",
            "QuotaReserved",
            "Previously: why",
        ]
    assert of_job((RESERVED,), list(first.values())) == {}
    assert of_job((("QuotaReserved", "False", "Pending", "m"),), [old])["Evicted"] == old


def test_a_queue_has_fields_and_one_condition() -> None:
    """Fields that differ are written, the condition says whether the queue admits; what is right is left out."""
    wanted = {"pendingWorkloads": 2, "admittedWorkloads": 0, "active": ("False", "Stopped", "m")}
    found = changed_fields("kueue.x-k8s.io", "v1beta2", wanted, {"admittedWorkloads": 0}, 3, NOW)
    [active] = found.pop("conditions")
    assert found == {"pendingWorkloads": 2}
    assert (active["type"], active["status"], active["reason"], active["observedGeneration"]) == (
        "Active",
        "False",
        "Stopped",
        3,
    )
    cohort = changed_fields("kueue.x-k8s.io", "v1beta2", {"fairSharing": {"weightedShare": 1}}, {}, 3, NOW)
    assert cohort == {"fairSharing": {"weightedShare": 1}}


async def test_jobsets_are_told_like_jobs() -> None:
    """What the controller of the JobSet wrote is kept, and the patch goes to the JobSet's status."""
    api = Api()
    api.status = {"conditions": [SUSPENDED], "restarts": 2}
    bench = Bench(api)
    asked: list[str] = []
    attempt = api.attempt

    async def noted(request: Request) -> bytes:
        asked.append(f"{request.method} {request.path}")
        return await attempt(request)

    api.attempt = noted  # type: ignore[method-assign]
    bench.statuses.want(JobStatus("jobset.x-k8s.io", "ns", "gang", "uid", {"conditions": (RESERVED,)}, "jobsets"))
    (written,) = await bench.settle()
    path = "/apis/jobset.x-k8s.io/v1alpha2/namespaces/ns/jobsets/gang"
    assert asked == [f"GET {path}", f"PATCH {path}/status"]
    assert [c["type"] for c in written["status"]["conditions"]] == ["Suspended", "QuotaReserved"]
    assert written["status"].keys() == {"conditions"}
    assert await bench.settle() == []


async def test_a_job_is_read_told_once_and_forgotten() -> None:
    """What is said within one period is written together; nobody restores it when it is changed."""
    bench = Bench(Api())
    bench.statuses.want(job(RESERVED))
    bench.statuses.want(job(ADMITTED))
    (patch,) = await bench.settle()
    assert patch["metadata"] == {"uid": "uid", "resourceVersion": "1"}
    assert [c["type"] for c in patch["status"]["conditions"]] == ["QuotaReserved", "Admitted"]
    bench.api.status = {}
    assert await bench.settle() == []
    bench.statuses.want(job(RESERVED, uid="another"))
    assert await bench.settle() == []


@pytest.mark.parametrize(
    ("error", "patches"),
    [
        (ApiError(409, "Conflict", "changed"), 2),
        (ApiError(503, "", "later"), 2),
        (ApiError(404, "NotFound", "gone"), 1),
    ],
    ids=["conflict", "overload", "gone"],
)
async def test_failures(error: Exception, patches: int) -> None:
    """A Job's status changes all the time: after a conflict it is read again."""
    bench = Bench(Api(fails=[error]))
    bench.statuses.want(job(RESERVED))
    assert len(await bench.settle()) == patches


async def test_what_is_refused_for_good_is_given_up() -> None:
    """Without the right to write, each Job costs a few attempts and no more."""
    refused = ApiError(403, "Forbidden", "no")
    bench = Bench(Api(fails=[refused] * 100))
    bench.statuses.want(job(RESERVED))
    assert len(await bench.settle()) == len(RETRY_SECONDS)
    assert await bench.settle() == []


def test_later_conditions_replace_earlier_ones_of_their_type() -> None:
    """Two statuses of the same Job are one; that of another incarnation, or of a group, stands alone."""
    pending = ("QuotaReserved", "False", "Pending", "m")
    assert job(pending).after(job(RESERVED, ADMITTED)).status["conditions"] == (pending, ADMITTED)
    assert job(pending).after(job(RESERVED, uid="other")) == job(pending)
    evicted = ("Evicted", "True", "Preempted", "why")
    history = ("Evicted", "False", "QuotaReserved", "Previously: why")
    assert job(RESERVED).after(job(evicted)).status["conditions"] == (history, RESERVED)
    assert job(ADMITTED).after(job(RESERVED).after(job(evicted))).status["conditions"] == (history, RESERVED, ADMITTED)
    assert job(evicted).after(job(RESERVED)).status["conditions"] == (RESERVED, evicted)
    group = GangStatus(SIGS, "ns", "g", "uid", {"phase": "Running"})
    assert group.after(GangStatus(SIGS, "ns", "g", "uid", {"phase": "Pending"})) == group
