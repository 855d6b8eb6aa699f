"""What the API server and the controllers would have filled in and made."""

from __future__ import annotations

import json

import pytest

from gangsched.core.events import record_of, records
from gangsched.model.records import Gang, Job, Node, Pod
from tests.cluster.manifest_texts import HIGH, POD, many, obj, pod, read, refusal


def test_namespace_and_uid_are_filled_in():
    """The UID is the same in every run; one that the input gives is kept."""
    filled = pod(POD % ("p", "{}"))
    assert (filled.namespace, filled.uid) == ("default", "manifest:Pod/default/p")
    kept = "{apiVersion: v1, kind: Pod, metadata: {name: p, namespace: ns, uid: u-1}}"
    assert (pod(kept).namespace, pod(kept).uid) == ("ns", "u-1")


@pytest.mark.parametrize(
    ("spec", "priority"),
    [
        ("{}", 0),
        ("{priority: 0}", 0),
        ("{priorityClassName: high}", 1000),
        ("{priorityClassName: high, priority: 1000}", 1000),
        ("{priorityClassName: system-cluster-critical}", 2_000_000_000),
        ("{priorityClassName: system-node-critical}", 2_000_001_000),
    ],
)
def test_priority_of_pods(spec, priority):
    """The class gives the priority, wherever in the input it stands."""
    assert pod(many(POD % ("p", spec), HIGH)).priority == priority


def test_the_global_default_class():
    """Pods and groups without a class get it; of several the lowest value counts, with a warning."""
    default = HIGH.replace("high", "usual").replace("1000", "7") + "globalDefault: true\npreemptionPolicy: Never\n"
    filled = pod(many(default, POD % ("p", "{}")))
    assert (filled.priority, filled.preemption_policy) == (7, "Never")
    group = obj("PodGroup", "scheduling.k8s.io/v1alpha2", spec={})
    gangs = list(records(read(many(default, group)).events, Gang))
    assert gangs[0].priority == 7
    lower = default.replace("usual", "lower").replace("7", "-3")
    loaded = read(many(default, lower, POD % ("p", "{}")))
    assert [e.priority for e in records(loaded.events, Pod)] == [-3]
    assert [w["field"] for w in loaded.warnings] == ["globalDefault"]


def test_priority_of_upstream_groups():
    """The class gives priority and policy; without class and default the members' priorities count."""
    spec = {"priorityClassName": "high", "schedulingPolicy": {"gang": {"minCount": 2}}}
    text = many(HIGH, *(obj("PodGroup", "scheduling.k8s.io/v1beta1", n, spec=s) for n, s in (("a", spec), ("b", {}))))
    gangs = list(records(read(text).events, Gang))
    assert [(g.priority, g.preemption_policy) for g in gangs] == [(1000, "PreemptLowerPriority"), (None, None)]


@pytest.mark.parametrize(
    ("text", "field", "message"),
    [
        (POD % ("p", "{priorityClassName: hihg}"), "spec.priorityClassName", "no PriorityClass 'hihg'"),
        (POD % ("p", "{priorityClassName: hihg}"), "spec.priorityClassName", "did you mean high?"),
        (POD % ("p", "{priorityClassName: high, priority: 5}"), "spec.priority", "5 is not 1000"),
        (POD % ("p", "{priority: 5}"), "spec.priority", "5 is not 0"),
        (POD % ("p", "{priorityClassName: high, preemptionPolicy: Never}"), "spec.preemptionPolicy", "'Never' is not"),
        (
            obj("PodGroup", "scheduling.k8s.io/v1beta1", spec={"priorityClassName": "no"}),
            "spec.priorityClassName",
            "no PriorityClass 'no'",
        ),
        (
            obj("PodGroup", "scheduling.k8s.io/v1beta1", spec={"priorityClassName": "high", "priority": 1}),
            "spec.priority",
            "1 is not 1000",
        ),
        (obj("PodGroup", "scheduling.k8s.io/v1beta1", spec={"priority": 1}), "spec.priority", "1 is not 0"),
        (
            obj("Job", "batch/v1", spec={"template": {"spec": {"priorityClassName": "no"}}}),
            "spec.template.spec.priorityClassName",
            "no PriorityClass 'no'",
        ),
        (obj("PriorityClass", "scheduling.k8s.io/v1", value=1_000_000_001), "value", "1000000001 is above"),
        (obj("PriorityClass", "scheduling.k8s.io/v1", value=-(2**31) - 1), "value", "32 bits"),
        (obj("PriorityClass", "scheduling.k8s.io/v1", preemptionPolicy="No"), "preemptionPolicy", "'No' is neither"),
    ],
)
def test_what_priority_admission_refuses(text, field, message):
    """As the API server does, with the path and what would be right."""
    error = refusal(many(HIGH, text))
    assert error.problem["document"] == 2
    assert error.problem["field"] == field
    assert message in error.problem["message"]


def test_objects_of_a_cluster_keep_their_priority():
    """A pod with a UID was admitted once; its class need not be in the input any more."""
    text = "{apiVersion: v1, kind: Pod, metadata: {name: p, uid: u}, spec: {priority: 5, priorityClassName: gone}}"
    assert pod(text).priority == 5


def test_now_is_the_newest_time_of_the_input():
    """Creation of anything, or the start of a pod."""
    assert read(POD % ("p", "{}")).now == 0.0
    meta = {"name": "n", "creationTimestamp": "1970-01-01T00:01:00Z"}
    budget = json.dumps({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": meta})
    started = "{apiVersion: v1, kind: Pod, metadata: {name: q}, status: {startTime: 1970-01-01T00:02:00Z}}"
    assert read(budget).now == 60.0
    assert read(many(budget, started)).now == 120.0


def test_a_wrong_time_is_named():
    """Of any kind of object."""
    meta = {"name": "n", "creationTimestamp": "soon"}
    error = refusal(json.dumps({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": meta}))
    assert error.problem["field"] == "metadata.creationTimestamp"


def test_workload_templates_are_checked():
    """Names must be there once each; a group that refers to a missing one gets a warning."""

    def workload(*names):
        templates = [{"name": n} if n else {} for n in names]
        return obj("Workload", "scheduling.k8s.io/v1alpha2", "w", spec={"podGroupTemplates": templates})

    assert refusal(workload("a", None)).problem["field"] == "spec.podGroupTemplates[1].name"
    assert refusal(workload("a", "a")).problem["field"] == "spec.podGroupTemplates[1].name"
    reference = {"podGroupTemplateRef": {"workload": {"workloadName": "w", "podGroupTemplateName": "workers"}}}
    group = obj("PodGroup", "scheduling.k8s.io/v1alpha2", spec=reference)
    newer = obj(
        "PodGroup",
        "scheduling.k8s.io/v1beta1",
        "y",
        spec={"workloadRef": {"workloadName": "w", "templateName": "workers"}},
    )
    assert read(many(workload("workers"), group, newer)).warnings == []
    warnings = read(many(workload("other"), group, newer)).warnings
    assert ["has no template 'workers'" in w["message"] for w in warnings] == [True, True]


def job(name="j", **spec):
    """A Job whose pods ask for one cpu."""
    template = {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [{"resources": {"limits": {"cpu": 1}}}]}}
    return obj("Job", "batch/v1", name, spec={"template": template, **spec})


def pods(text):
    """All pods of one text."""
    return list(records(read(text).events, Pod))


def test_a_job_without_pods_gets_them():
    """As its controller would make them, named by index, right behind the Job."""
    loaded = read(many(job(parallelism=3, completions=2, completionMode="Indexed"), obj("Node", "v1", "n")))
    assert [type(record_of(e)) for e in loaded.events] == [Job, Pod, Pod, Node]
    made = list(records(loaded.events, Pod))
    assert [p.key for p in made] == ["default/j-0", "default/j-1"]
    assert dict(made[1].shape.requests) == {"cpu": 1000}
    assert made[1].labels["batch.kubernetes.io/job-name"] == "j"
    assert made[1].labels["batch.kubernetes.io/job-completion-index"] == "1"
    assert made[1].labels["app"] == "x"
    assert made[1].owner is not None
    assert (made[1].owner.kind, made[1].owner.name, made[1].owner.uid) == ("Job", "j", "manifest:Job/default/j")
    assert made[0].uid == "manifest:Pod/default/j-0"


@pytest.mark.parametrize(
    ("text", "count"),
    [
        (job(), 1),
        (job(parallelism=4), 4),
        (job(parallelism=4, completions=9), 4),
        (job(parallelism=0), 0),
        (job(parallelism=2, suspend=True), 0),
        (obj("Job", "batch/v1", spec={"parallelism": 3, "completions": 3}, status={"succeeded": 2}), 1),
        (obj("Job", "batch/v1", status={"conditions": [{"type": "Complete", "status": "True"}]}), 0),
        (obj("Job", "batch/v1", status={"conditions": [{"type": "Failed", "status": "False"}]}), 1),
    ],
)
def test_how_many_pods_a_job_gets(text, count):
    """What would run at once: nothing for suspended and finished Jobs."""
    assert len(pods(text)) == count


@pytest.mark.parametrize(
    "meta",
    [
        {"ownerReferences": [{"kind": "Job", "name": "j", "controller": True}]},
        {"labels": {"batch.kubernetes.io/job-name": "j"}},
        {"labels": {"job-name": "j"}},
    ],
)
def test_a_job_with_pods_is_left_alone(meta):
    """Its controller has acted already."""
    own = json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "j-x7k2p", **meta}})
    assert [p.name for p in pods(many(job(parallelism=3), own))] == ["j-x7k2p"]


def test_a_jobs_template_is_checked_even_when_it_makes_no_pods():
    """A suspended Job with a wrong template is wrong input."""
    template = {"spec": {"containers": [{"resources": {"limits": {"cpu": "x"}}}]}}
    error = refusal(job(suspend=True, template=template))
    assert error.problem["field"] == "spec.template.spec.containers[0].resources.limits.cpu"


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"parallelism": -1}, "spec.parallelism"),
        ({"completions": -1}, "spec.completions"),
        ({"parallelism": 10**9}, "spec.parallelism"),
    ],
)
def test_counts_of_jobs_are_bounded(spec, field):
    """One line must not make a billion pods."""
    assert refusal(job(**spec)).problem["field"] == field


def test_made_pods_do_not_replace_given_ones():
    """A pod of that name that is not the Job's is a conflict, and both places are named."""
    error = refusal(many(obj("Pod", "v1", "j-0"), job()))
    assert error.problem["object"] == "Job default/j"
    assert "Pod default/j-0 was already defined in stdin, document 1" in error.problem["message"]


def jobset(**spec):
    """A JobSet of two Jobs of two pods."""
    template = {"spec": {"schedulingGroup": {"podGroupName": "g"}}}
    jobs = [
        {"name": "rj", "replicas": 2, "template": {"spec": {"parallelism": 2, "completions": 2, "template": template}}}
    ]
    return obj("JobSet", "jobset.x-k8s.io/v1alpha2", "js", spec={"replicatedJobs": jobs, **spec})


def test_a_jobset_without_pods_gets_jobs_and_pods():
    """Names, labels and group are those of the JobSet's controller and its template."""
    loaded = read(jobset())
    assert [e.key for e in records(loaded.events, Job)] == ["default/js-rj-0", "default/js-rj-1"]
    made = list(records(loaded.events, Pod))
    assert [p.name for p in made] == ["js-rj-0-0", "js-rj-0-1", "js-rj-1-0", "js-rj-1-1"]
    assert {p.gang.key for p in made} == {"default/g"}
    assert made[3].labels["jobset.sigs.k8s.io/jobset-name"] == "js"
    assert made[3].labels["jobset.sigs.k8s.io/job-index"] == "1"
    assert made[3].labels["batch.kubernetes.io/job-completion-index"] == "1"


@pytest.mark.parametrize("kind", [("Pod", "v1"), ("Job", "batch/v1")])
def test_a_jobset_with_pods_or_jobs_is_left_alone(kind):
    """Its controller has acted already."""
    meta = {"name": "js-rj-0", "labels": {"jobset.sigs.k8s.io/jobset-name": "js"}}
    own = json.dumps({"apiVersion": kind[1], "kind": kind[0], "metadata": meta})
    assert "js-rj-1-0" not in [p.name for p in pods(many(jobset(), own))]


def test_a_suspended_jobset_gets_no_pods():
    """Its Jobs are there, suspended."""
    loaded = read(jobset(suspend=True))
    assert [e.suspended for e in records(loaded.events, Job)] == [True, True]
    assert not pods(jobset(suspend=True))


def test_errors_in_a_jobset_carry_the_whole_path():
    """From the JobSet down to the container."""
    template = {"spec": {"containers": [{"resources": {"requests": {"cpu": "x"}}}]}}
    jobs = [{"name": "a", "template": {"spec": {"template": template}}}]
    error = refusal(obj("JobSet", "jobset.x-k8s.io/v1alpha2", spec={"replicatedJobs": jobs}))
    assert (
        error.problem["field"]
        == "spec.replicatedJobs[0].template.spec.template.spec.containers[0].resources.requests.cpu"
    )
    assert refusal(obj("JobSet", "jobset.x-k8s.io/v1alpha2", spec={"replicatedJobs": [{}]})).problem["field"] == (
        "spec.replicatedJobs[0].name"
    )
