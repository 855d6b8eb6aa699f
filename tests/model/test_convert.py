"""From API fields to records."""

from __future__ import annotations

import contextlib
import copy
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gangsched.model import wire
from gangsched.model.constraints import HostPort, LabelSelector, Requirement, Taint
from gangsched.model.convert import Converter
from gangsched.model.convert_refused import refused_job
from gangsched.model.errors import FieldError
from gangsched.model.records import Owner
from gangsched.model.survival import ignores_evictions
from gangsched.model.times import parse_time, render_time


def pod(**fields):
    """A pod record from metadata, spec and status."""
    metadata = {"name": "p", "namespace": "ns", **fields.get("metadata", {})}
    raw = {"metadata": metadata, "spec": fields.get("spec", {}), "status": fields.get("status", {})}
    return Converter().pod(msgspec.convert(raw, wire.Pod))


def node(**fields):
    """A node record from metadata, spec and status."""
    return Converter().node(msgspec.convert({"metadata": {"name": "n"}, **fields}, wire.Node))


def test_a_bare_pod_has_the_defaults_of_the_api():
    """What a manifest leaves out is what the API server would fill in."""
    bare = pod()
    assert (bare.scheduler, bare.priority, bare.preemption_policy) == ("default-scheduler", 0, "PreemptLowerPriority")
    assert (bare.phase, bare.node, bare.grace_seconds, bare.deleting_since) == ("Pending", "", 30.0, None)
    assert bare.live
    assert not bare.bound
    assert bare.gang.key == "ns/p"


def test_a_pod_on_a_node_without_phase_is_running():
    """A manifest that names the node means a pod that runs there."""
    placed = pod(spec={"nodeName": "n"})
    assert placed.phase == "Running"
    assert placed.bound


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_finished_pod_takes_no_room(phase):
    """Its node has the room back although the object is still there."""
    done = pod(spec={"nodeName": "n"}, status={"phase": phase})
    assert done.finished
    assert not done.bound
    assert not done.live


def test_a_terminating_pod_is_bound_and_not_live():
    """Until it is gone it takes room; the deletion's own grace period wins over the spec's."""
    meta = {"deletionTimestamp": "1970-01-01T00:01:00Z", "deletionGracePeriodSeconds": 5}
    leaving = pod(metadata=meta, spec={"nodeName": "n", "terminationGracePeriodSeconds": 60})
    assert (leaving.deleting_since, leaving.grace_seconds) == (60.0, 5.0)
    assert leaving.bound
    assert not leaving.live


def test_start_falls_back_to_creation():
    """A pod without startTime counts as started when it was created."""
    created = {"creationTimestamp": "1970-01-01T00:00:10Z"}
    assert pod(metadata=created).started == 10.0
    assert pod(metadata=created, status={"startTime": "1970-01-01T00:00:20Z"}).started == 20.0


NODE = {"kind": "Node", "name": "n", "controller": True}


@pytest.mark.parametrize(
    ("meta", "static"),
    [
        ({}, False),
        ({"annotations": {"kubernetes.io/config.mirror": "x"}}, False),
        ({"annotations": {"kubernetes.io/config.source": "file"}}, False),
        ({"ownerReferences": [{"kind": "Node", "name": "n", "controller": True}]}, False),
        ({"annotations": {"kubernetes.io/config.mirror": "x"}, "ownerReferences": [NODE]}, True),
        ({"annotations": {"kubernetes.io/config.mirror": "x"}, "ownerReferences": [NODE | {"kind": "Job"}]}, False),
    ],
)
def test_static_and_mirror_pods_are_recognised(meta, static):
    """The kubelet's own pods cannot be evicted, so they must be known: by their annotation and their node, together."""
    assert pod(metadata=meta).static is static


def test_the_owner_is_the_controller():
    """Other owner references do not count."""
    references = [{"kind": "X", "name": "x"}, {"kind": "Job", "name": "j", "uid": "u", "controller": True}]
    assert pod(metadata={"ownerReferences": references}).owner == Owner("Job", "j", "u")


@pytest.mark.parametrize(
    ("api", "kind", "of_api"),
    [
        ("batch/v1", "Job", ("", "Job")),
        ("batch.volcano.sh/v1alpha1", "Job.v1alpha1.batch.volcano.sh", ("batch.volcano.sh/v1alpha1", "Job")),
    ],
)
def test_a_job_of_another_api_is_another_kind(api, kind, of_api):
    """What is known of a Job of Kubernetes' own with its name does not count for it."""
    reference = {"apiVersion": api, "kind": "Job", "name": "j", "uid": "u", "controller": True}
    owner = pod(metadata={"ownerReferences": [reference]}).owner
    assert (owner.kind, owner.of_api()) == (kind, of_api)


def test_only_annotations_that_are_read_are_kept():
    """Everything else of the annotations is dropped, because it can be large."""
    notes = {"gang.scheduling.koordinator.sh/name": "g", "kubectl.kubernetes.io/last-applied-configuration": "{}"}
    assert dict(pod(metadata={"annotations": notes}).hints) == {"gang.scheduling.koordinator.sh/name": "g"}


def test_equal_shapes_and_labels_are_one_object():
    """50,000 pods of few kinds must not be 50,000 shapes."""
    convert = Converter()
    raw = {"spec": {"containers": [{"resources": {"requests": {"cpu": "1"}}}]}}
    meta = {"labels": {"a": "b"}}
    one, two = (
        convert.pod(msgspec.convert({**raw, "metadata": {"name": name, **meta}}, wire.Pod)) for name in ("a", "b")
    )
    assert one.shape is two.shape
    assert one.labels is two.labels


def test_where_a_pod_runs_is_no_part_of_its_shape():
    """Bound pods share the shape of pending ones; a template that names a node does not."""
    assert pod(spec={"nodeName": "n"}).shape == pod().shape
    template = msgspec.convert({"nodeName": "n"}, wire.PodSpec)
    assert Converter().shape_of_template(wire.ObjectMeta(), template).node_name == "n"


def test_host_ports():
    """Only ports of the node count; with hostNetwork that is every container port, sidecars included."""
    ports = {
        "containers": [{"ports": [{"containerPort": 80}, {"containerPort": 1, "hostPort": 8080, "protocol": "UDP"}]}]
    }
    assert pod(spec=ports).shape.host_ports == (HostPort("0.0.0.0", "UDP", 8080),)
    sidecar = {"initContainers": [{"restartPolicy": "Always", "ports": [{"containerPort": 9, "hostIP": "10.0.0.1"}]}]}
    both = pod(spec={"hostNetwork": True, **ports, **sidecar}).shape.host_ports
    assert {(p.ip, p.port) for p in both} == {("10.0.0.1", 9), ("0.0.0.0", 80), ("0.0.0.0", 8080)}


def test_affinity_terms_stay_in_the_pods_namespace_unless_they_name_others():
    """No namespaces and no namespace selector mean the pod's own namespace."""
    own = {"topologyKey": "zone", "labelSelector": {}}
    named = {**own, "namespaces": ["b", "a"]}
    selected = {**own, "namespaceSelector": {}}
    affinity = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [own, named, selected]}}
    terms = pod(spec={"affinity": affinity}).shape.affinity
    assert [t.namespaces for t in terms] == [("ns",), ("a", "b"), ()]
    assert [t.namespace_selector for t in terms] == [None, None, LabelSelector()]


def test_match_label_keys_add_the_pods_own_value_once():
    """The key is merged into the selector, also when the API server has done so already."""
    merged = {"key": "rev", "operator": "In", "values": ["1"]}
    for expressions in ([], [merged]):
        constraint = {
            "maxSkew": 1,
            "topologyKey": "zone",
            "labelSelector": {"matchExpressions": expressions},
            "matchLabelKeys": ["rev", "absent"],
        }
        spread = pod(metadata={"labels": {"rev": "1"}}, spec={"topologySpreadConstraints": [constraint]}).shape.spread
        assert spread[0].selector == LabelSelector((Requirement("rev", "In", ("1",)),))


def test_no_required_node_affinity_differs_from_one_without_terms():
    """The one allows every node, the other none."""
    empty: dict[str, Any] = {
        "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}}
    }
    assert pod().shape.node_terms is None
    assert pod(spec={"affinity": empty}).shape.node_terms == ()


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"spec": {"preemptionPolicy": "Sometimes"}}, "spec.preemptionPolicy"),
        ({"spec": {"tolerations": [{"operator": "equal"}]}}, "spec.tolerations[0].operator"),
        ({"metadata": {"creationTimestamp": "yesterday"}}, "metadata.creationTimestamp"),
        ({"metadata": {"deletionTimestamp": "x"}}, "metadata.deletionTimestamp"),
        ({"status": {"startTime": "x"}}, "status.startTime"),
        (
            {"status": {"conditions": [{"type": "Ready", "lastTransitionTime": "x"}]}},
            "status.conditions[0].lastTransitionTime",
        ),
        ({"spec": {"topologySpreadConstraints": [{"topologyKey": "z", "maxSkew": 0}]}}, "maxSkew"),
        ({"spec": {"topologySpreadConstraints": [{}]}}, "topologyKey"),
        (
            {"status": {"containerStatuses": [{"resources": {}, "allocatedResources": {"cpu": "x"}}]}},
            "status.containerStatuses[0].allocatedResources.cpu",
        ),
    ],
)
def test_wrong_values_of_pods_are_named(fields, path):
    """The error carries the path of the field."""
    with pytest.raises(FieldError) as caught:
        pod(**fields)
    assert caught.value.field.endswith(path)


def test_node_defaults():
    """Allocatable falls back to capacity, pods to 110, and a node without conditions is ready."""
    bare = node(status={"capacity": {"cpu": "4"}})
    assert dict(bare.allocatable) == {"cpu": 4000, "pods": 110}
    assert bare.ready
    assert not bare.unschedulable


def test_allocatable_wins_over_capacity():
    """What the kubelet keeps for itself is not there for pods."""
    both = node(status={"capacity": {"cpu": "4", "pods": "9"}, "allocatable": {"cpu": "3500m", "pods": "8"}})
    assert dict(both.allocatable) == {"cpu": 3500, "pods": 8}


@pytest.mark.parametrize(("status", "ready"), [("True", True), ("False", False), ("Unknown", False)])
def test_node_readiness(status, ready):
    """Only Ready=True is ready."""
    assert node(status={"conditions": [{"type": "Ready", "status": status}]}).ready is ready


def test_node_taints_are_checked():
    """An effect that does not exist is refused."""
    assert node(spec={"taints": [{"key": "k", "effect": "NoExecute"}]}).taints == (Taint("k", "", "NoExecute"),)
    with pytest.raises(FieldError, match="none of NoSchedule") as caught:
        node(spec={"taints": [{"key": "k", "effect": "noschedule"}]})
    assert caught.value.field == "spec.taints[0].effect"


@pytest.mark.parametrize("value", [1, "50%", "3"])
def test_budget_bounds(value):
    """A budget's bound is a number or a percentage; a missing status leaves the allowance open."""
    raw = msgspec.convert({"spec": {"minAvailable": value, "selector": {}}}, wire.PodDisruptionBudget)
    budget = Converter().budget(raw)
    assert budget.min_available == value
    assert budget.allowed is None


@pytest.mark.parametrize("value", ["half", "-1%", "%", "1.5"])
def test_other_budget_bounds_are_refused(value):
    """Anything else is named."""
    raw = msgspec.convert({"spec": {"maxUnavailable": value}}, wire.PodDisruptionBudget)
    with pytest.raises(FieldError, match="percentage") as caught:
        Converter().budget(raw)
    assert caught.value.field == "spec.maxUnavailable"


def test_job_defaults():
    """The API's defaults: one pod, six failures, and disruptions count as failures."""
    job = Converter().job(msgspec.convert({"metadata": {"name": "j"}}, wire.Job))
    assert (job.parallelism, job.completions, job.backoff_limit, job.suspended) == (1, None, 6, False)
    assert not ignores_evictions(job)


def test_a_job_has_what_its_pods_will_be():
    """The template with the labels of the Job controller, and the annotations of the Job that its pods get."""
    suspended = {"type": "Suspended", "status": "True", "lastTransitionTime": "1970-01-01T00:01:00Z"}
    raw = {
        "metadata": {
            "name": "j",
            "namespace": "ns",
            "uid": "u",
            "resourceVersion": "7",
            "annotations": {"gangsched.dev/suspended-by": "s", "sim.gangsched.dev/run-for": "9s", "x": "y"},
            "ownerReferences": [{"kind": "CronJob", "name": "c", "uid": "cu", "controller": True}],
        },
        "spec": {
            "suspend": True,
            "parallelism": 4,
            "completions": 6,
            "template": {
                "metadata": {"labels": {"app": "a"}},
                "spec": {"schedulerName": "s", "priorityClassName": "high", "containers": [{}]},
            },
        },
        "status": {"succeeded": 3, "conditions": [suspended]},
    }
    job = Converter().job(msgspec.convert(raw, wire.Job))
    assert (job.suspended, job.suspended_by, job.finished, job.version) == (True, "s", False, "7")
    assert job.suspended_since == 60.0
    assert (job.wanted, job.owner) == (3, Owner("CronJob", "c", "cu"))
    assert job.template is not None
    assert job.template.owner == Owner("Job", "j", "u")
    assert (job.template.scheduler, job.template.priority_class) == ("s", "high")
    assert job.template.labels["app"] == "a"
    assert job.template.labels["batch.kubernetes.io/job-name"] == "j"
    assert job.template.hints == {"sim.gangsched.dev/run-for": "9s"}


@pytest.mark.parametrize(("status", "finished"), [("True", True), ("False", False)])
def test_a_job_is_over_by_its_conditions(status, finished):
    """Failed and Complete end it."""
    for kind in ("Failed", "Complete"):
        raw = {"metadata": {"name": "j"}, "status": {"conditions": [{"type": kind, "status": status}]}}
        assert Converter().job(msgspec.convert(raw, wire.Job)).finished is finished


@pytest.mark.parametrize(("value", "said"), [(None, None), ("true", True), ("false", False)])
def test_a_job_says_whether_it_is_a_gang(value, said):
    """By its annotation, which only two words can follow."""
    notes = {} if value is None else {"gangsched.dev/gang": value}
    raw = {"metadata": {"name": "j", "annotations": notes}}
    assert Converter().job(msgspec.convert(raw, wire.Job)).gang is said


@pytest.mark.parametrize("value", ["", "yes", "True"])
def test_another_word_is_refused_on_a_job_and_told_of_a_pod(value):
    """A Job is refused and its counts are known; a pod is known without what it says wrong."""
    notes = {"gangsched.dev/gang": value}
    raw = msgspec.convert({"metadata": {"name": "j", "annotations": notes}, "spec": {"parallelism": 3}}, wire.Job)
    with pytest.raises(FieldError, match=r"metadata\.annotations\[gangsched\.dev/gang\]: .* is neither true nor false"):
        Converter().job(raw)
    counted = refused_job(Converter(), raw)
    assert (counted.parallelism, counted.gang) == (3, None)
    found = pod(metadata={"annotations": notes})
    assert found.remark.field == "metadata.annotations[gangsched.dev/gang]"
    assert found.remark.message.endswith("is neither true nor false; it is ignored")


def test_job_failure_policy():
    """A rule that ignores DisruptionTarget means that evictions do not use up the backoff limit."""
    rule = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}
    raw = {"metadata": {"name": "j"}, "spec": {"podFailurePolicy": {"rules": [rule]}}}
    assert ignores_evictions(Converter().job(msgspec.convert(raw, wire.Job)))


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1970-01-01T00:00:00Z", 0.0),
        ("1970-01-01T01:00:00+01:00", 0.0),
        ("1970-01-01T00:00:01.5Z", 1.5),
        ("", 0.0),
        (None, 0.0),
    ],
)
def test_times(text, seconds):
    """RFC 3339 with any offset; absent is zero."""
    assert parse_time(text, "f") == seconds


@given(st.integers(0, 4_000_000_000))
def test_rendered_times_are_read_back(seconds):
    """Whole seconds survive the API's form."""
    assert parse_time(render_time(seconds), "f") == seconds


FULL_POD = {
    "metadata": {
        "name": "p",
        "labels": {"pod-group.scheduling.sigs.k8s.io": "g"},
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "ownerReferences": [{"kind": "Job", "name": "j", "controller": True}],
    },
    "spec": {
        "nodeSelector": {"a": "b"},
        "priority": 5,
        "containers": [{"resources": {"requests": {"cpu": "1"}}, "ports": [{"hostPort": 1}]}],
        "tolerations": [{"key": "k", "operator": "Exists"}],
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [{"matchExpressions": [{"key": "z", "operator": "Gt", "values": ["1"]}]}]
                },
                "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": {}}],
            },
            "podAntiAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "h", "labelSelector": {}}]
            },
        },
        "topologySpreadConstraints": [{"topologyKey": "z", "maxSkew": 1, "labelSelector": {}}],
        "schedulingGates": [{"name": "g"}],
    },
    "status": {"startTime": "2026-01-01T00:00:00Z", "conditions": [{"type": "PodScheduled", "status": "True"}]},
}


def _paths(value, path=()):
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield from _paths(inner, (*path, key))


ANYTHING = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=5)
    | st.sampled_from(["", "Exists", "In"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=4,
)


@given(path=st.sampled_from([p for p in _paths(FULL_POD) if p]), value=ANYTHING)
def test_any_value_anywhere_in_a_pod_is_read_or_named(path, value):
    """Replacing any part of a pod by anything gives a record, a type error or a FieldError, never a crash."""
    raw = copy.deepcopy(FULL_POD)
    holder: Any = raw
    for step in path[:-1]:
        holder = holder[step]
    holder[path[-1]] = value
    try:
        typed = msgspec.convert(raw, wire.Pod)
    except msgspec.ValidationError:
        return
    with contextlib.suppress(FieldError):
        hash(Converter().pod(typed).shape)
