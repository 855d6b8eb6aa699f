"""JobSets as records, and the Jobs that their controller makes of them."""

from __future__ import annotations

from hashlib import sha1
from typing import Any

import msgspec
import pytest

from gangsched.model import children
from gangsched.model.convert import Converter, job_set
from gangsched.model.errors import FieldError
from gangsched.model.jobset_survival import JobSetPolicy, JobSetRule
from gangsched.model.jobsets import JobSet, RawJobSet, ReplicatedJob, why_it_cannot_wait
from gangsched.model.records import Job, Owner, QueueLabels

POD = {"spec": {"schedulerName": "us", "containers": [{"resources": {"requests": {"cpu": "2"}}}]}}


def jobset(**fields: Any) -> RawJobSet:
    """A JobSet with a driver and three workers of two pods."""
    driver = {"name": "driver", "template": {"spec": {"template": POD}}}
    workers = {"name": "w", "replicas": 3, "template": {"spec": {"parallelism": 2, "completions": 2, "template": POD}}}
    raw = {
        "metadata": {"name": "js", "namespace": "ns", "uid": "u", "labels": {"kueue.x-k8s.io/queue-name": "q"}},
        "spec": {"replicatedJobs": [driver, workers], **fields.pop("spec", {})},
        **fields,
    }
    return msgspec.convert(raw, RawJobSet)


def test_the_failure_policy_of_a_jobset() -> None:
    """With the restarts that count, those of single Jobs among them; without one a failed Job is the end."""
    rules = [
        {"name": "a", "action": "FailJobSet", "onJobFailureReasons": ["PodFailurePolicy"]},
        {"name": "b", "action": "RestartJob", "targetReplicatedJobs": ["w"], "onJobFailureMessagePatterns": ["x.*"]},
    ]
    status = {
        "restarts": 9,
        "restartsCountTowardsMax": 2,
        "replicatedJobsStatus": [{"name": "w", "jobRestartsCountTowardsMax": [1, 0]}, {"name": "v"}],
    }
    found = job_set(Converter(), jobset(spec={"failurePolicy": {"maxRestarts": 4, "rules": rules}}, status=status))
    first = JobSetRule("FailJobSet", ("PodFailurePolicy",))
    assert found.failure_policy == JobSetPolicy(4, (first, JobSetRule("RestartJob", (), ("w",), True)), 3)
    assert job_set(Converter(), jobset(status=status)).failure_policy is None


def test_a_jobset_is_its_templates_times_their_replicas() -> None:
    """One driver pod and six worker pods, whose Jobs bear its name, and its queue."""
    found = job_set(Converter(), jobset())
    assert [(r.replicas, r.job.name, r.job.wanted) for r in found.replicated] == [(1, "js-driver", 1), (3, "js-w", 2)]
    assert (found.wanted, found.queue) == (7, QueueLabels("q"))
    assert found.template is not None
    assert found.template.scheduler == "us"
    assert (found.suspended, found.finished, found.in_order, found.suspended_by) == (False, False, False, "")


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({"spec": {"suspend": True}}, "suspended"),
        ({"spec": {"startupPolicy": {"startupPolicyOrder": "InOrder"}}}, "in_order"),
        ({"status": {"conditions": [{"type": "Completed", "status": "True"}]}}, "finished"),
        ({"status": {"conditions": [{"type": "Failed", "status": "True"}]}}, "finished"),
    ],
)
def test_what_is_said_of_the_whole(fields: dict[str, Any], name: str) -> None:
    """Suspended, in an order, or over."""
    assert getattr(job_set(Converter(), jobset(**fields)), name) is True


def test_jobs_that_depend_on_others_start_in_order() -> None:
    """A name that does not come before is an error: its Jobs would never start."""
    raw = jobset()
    raw.spec.replicated_jobs[1].depends_on = msgspec.convert([{"name": "driver", "status": "Ready"}], list[Any])
    raw = msgspec.convert(msgspec.to_builtins(raw), RawJobSet)
    assert job_set(Converter(), raw).in_order
    raw.spec.replicated_jobs.reverse()
    with pytest.raises(FieldError, match=r"spec.replicatedJobs\[0\].dependsOn\[0\].name"):
        job_set(Converter(), raw)


def test_a_child_is_named_labelled_and_owned_as_its_controller_does() -> None:
    """Both the Job and its pods bear the labels by which they are found."""
    raw = jobset(spec={"suspend": True})
    made = children.job(raw, raw.spec.replicated_jobs[1], 2)
    labels = {
        "jobset.sigs.k8s.io/jobset-name": "js",
        "jobset.sigs.k8s.io/replicatedjob-name": "w",
        "jobset.sigs.k8s.io/replicatedjob-replicas": "3",
        "jobset.sigs.k8s.io/job-index": "2",
        "jobset.sigs.k8s.io/job-key": sha1(b"ns/js-w-2", usedforsecurity=False).hexdigest(),
    }
    assert (made.metadata.name, made.metadata.labels, made.spec.template.metadata.labels) == ("js-w-2", labels, labels)
    job = Converter().job(made)
    assert (job.owner, job.suspended, job.queue.local_queue) == (Owner("JobSet", "js", "u"), True, "")


def test_a_jobset_knows_its_controller() -> None:
    """Of all its owners the one that controls it."""
    owners = [
        {"apiVersion": "v1", "kind": "ConfigMap", "name": "c", "uid": "u1"},
        {
            "apiVersion": "trainer.kubeflow.org/v1alpha1",
            "kind": "TrainJob",
            "name": "t",
            "uid": "u2",
            "controller": True,
        },
    ]
    found = jobset(metadata={"name": "js", "namespace": "ns", "uid": "u", "ownerReferences": owners})
    assert job_set(Converter(), found).owner == Owner("TrainJob", "t", "u2")
    assert job_set(Converter(), jobset()).owner is None


@pytest.mark.parametrize(
    ("replicas", "parallelism", "fits"),
    [(5_000, 2, True), (5_001, 2, False), (1, 2_000_000_000, False), (0, 9**9, True)],
)
def test_how_large_a_jobset_may_be_to_wait(replicas: int, parallelism: int, fits: bool) -> None:
    """All of its Jobs together, without counting them one by one."""
    job = Job("ns", "js-w", parallelism=parallelism)
    problem = why_it_cannot_wait(JobSet("ns", "js", replicated=(ReplicatedJob(0, job), ReplicatedJob(replicas, job))))
    assert (problem is None) is fits
    assert problem is None or problem.field == "spec.replicatedJobs[1].replicas"
