"""Objects of manifests into events: what is read, what is left out, and what is said about mistakes."""

from __future__ import annotations

import copy
import json
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from gangsched.cluster.manifests import load
from gangsched.core.events import record_of, records
from gangsched.model.errors import InputError, InvalidInputError
from gangsched.model.jobsets import JobSet
from gangsched.model.records import Budget, Gang, Job, Namespace, Node, Pod, PriorityClass
from tests.cluster.manifest_texts import HIGH, POD, many, obj, pod, read, refusal

EXAMPLES = Path(__file__).parents[2] / "examples"


def test_every_kind_becomes_its_event():
    """One object of each kind, in the order of the input."""
    kinds = [
        ("Node", "v1"),
        ("Namespace", "v1"),
        ("PriorityClass", "scheduling.k8s.io/v1"),
        ("PodDisruptionBudget", "policy/v1"),
        ("PodGroup", "scheduling.sigs.k8s.io/v1alpha1"),
        ("PodGroup", "scheduling.x-k8s.io/v1alpha1"),
        ("PodGroup", "scheduling.k8s.io/v1alpha2"),
        ("Workload", "scheduling.k8s.io/v1alpha2"),
        ("Job", "batch/v1"),
        ("JobSet", "jobset.x-k8s.io/v1alpha2"),
        ("Pod", "v1"),
    ]
    loaded = read(many(*(obj(kind, version) for kind, version in kinds)))
    assert [type(record_of(e)) for e in loaded.events] == [
        Node,
        Namespace,
        PriorityClass,
        Budget,
        Gang,
        Gang,
        Gang,
        Job,
        Pod,
        JobSet,
        Pod,
    ]
    assert loaded.warnings == []


@pytest.mark.parametrize("version", ["v1alpha2", "v1alpha3", "v1beta1"])
def test_all_versions_of_the_upstream_group(version):
    """The same kind in the shapes of several minor versions."""
    text = obj("PodGroup", f"scheduling.k8s.io/{version}", spec={"schedulingPolicy": {"gang": {"minCount": 3}}})
    assert [e.min_member for e in records(read(text).events, Gang)] == [3]


def test_lists_are_unpacked():
    """List, typed lists without kinds on their items, and lists in lists."""
    items = [{"metadata": {"name": "a"}}, {"metadata": {"name": "b"}}]
    typed = {"apiVersion": "v1", "kind": "PodList", "items": items}
    whole = {"apiVersion": "v1", "kind": "List", "items": [typed, json.loads(obj("Node", "v1"))]}
    assert len(read(json.dumps(whole)).events) == 3


def test_several_json_values_in_one_text():
    """The output of several kubectl commands, one after the other."""
    assert len(read(obj("Node", "v1", "a") + obj("Node", "v1", "b") + "\n" + obj("Node", "v1", "c")).events) == 3


@pytest.mark.parametrize(
    ("text", "field", "message"),
    [
        ("[1, 2]", None, "a Kubernetes object is a mapping; this is a list"),
        ("just text", None, "a Kubernetes object is a mapping; this is text"),
        ("{kind: Pod}", "apiVersion", "is missing"),
        ("{apiVersion: v1}", "kind", "is missing"),
        ("{apiVersion: 1, kind: Pod}", "apiVersion", "1 is not text"),
        ("{apiVersion: v1, kind: Pod}", "metadata.name", "is missing"),
        ("{apiVersion: v1, kind: Pod, metadata: 5}", "metadata", "5 is not a mapping"),
        ("{apiVersion: v1, kind: Pod, metadata: {name: a/b}}", "metadata.name", "'a/b' is not a name"),
        ("{apiVersion: v1, kind: Pod, metadata: {name: 5}}", "metadata.name", "5 is not text; put it in quotes"),
        ("{apiVersion: v1, kind: Pod, metadata: {name: a, namespace: A}}", "metadata.namespace", "'A' is not a name"),
        ("{apiVersion: v1, kind: Pod, metadata: {name: a, labels: {k: a/b}}}", "metadata.labels[k]", "label value"),
        ("{apiVersion: v1, kind: List, items: 5}", "items", "a whole number is not a list"),
        (POD % ("p", "[]"), "spec", "is a list, not a mapping"),
        (POD % ("p", "{containers: {}}"), "spec.containers", "is a mapping, not a list"),
        (POD % ("p", "{priority: high}"), "spec.priority", "'high' is not a whole number"),
        (
            POD % ("p", "{containers: [{}, {resources: {requests: {cpu: four}}}]}"),
            "spec.containers[1].resources.requests.cpu",
            "'four' is not a quantity (examples: 2, 500m, 1.5Gi)",
        ),
        (
            POD % ("p", "{containers: [{resources: {requests: {memory: 1, cpu: yes}}}]}"),
            "spec.containers[0].resources.requests.cpu",
            "true is not a quantity",
        ),
        (
            POD % ("p", "{containers: [{resources: {requests: {cpu: 999999999999999999999999}}}]}"),
            "spec.containers[0].resources.requests.cpu",
            "larger than",
        ),
    ],
)
def test_wrong_objects_are_refused(text, field, message):
    """Each mistake is named by its path, in words about manifests."""
    error = refusal(text)
    assert (error.problem["document"], error.problem["field"]) == (1, field)
    assert message in error.problem["message"]


def test_the_whole_line():
    """File, document, object, field and message in one line."""
    error = refusal(many(HIGH, "", POD % ("lp-pod-1", "{containers: [{resources: {requests: {cpu: four}}}]}")))
    assert str(error) == (
        "stdin: document 3 (Pod default/lp-pod-1): spec.containers[0].resources.requests.cpu: "
        "'four' is not a quantity (examples: 2, 500m, 1.5Gi)"
    )
    assert error.problem == {
        "file": "stdin",
        "document": 3,
        "object": "Pod default/lp-pod-1",
        "field": "spec.containers[0].resources.requests.cpu",
        "message": "'four' is not a quantity (examples: 2, 500m, 1.5Gi)",
    }


def test_errors_cannot_steer_the_terminal():
    """Control characters of the input are shown, not sent."""
    error = refusal('{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a\\u001b[31m\\nb"}}')
    assert str(error).isprintable()


def test_nulls_mean_not_given():
    """What kubectl prints for empty fields is no error."""
    text = "{apiVersion: v1, kind: Pod, metadata: {name: p, creationTimestamp: null}, spec: {containers: null}}"
    assert pod(text).created == 0.0


def test_generated_names_are_the_same_every_time():
    """An object for `kubectl create` has a name of the form that it would get, and no two have the same."""
    text = many(*("{apiVersion: v1, kind: Pod, metadata: {generateName: train-}}" for _ in range(2)))
    assert [e.record.name for e in read(text).events] == ["train-00001", "train-00002"]


CLAIM = {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]}
OWNED = {"ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "u", "controller": True}]}


@pytest.mark.parametrize(
    ("spec", "metadata", "kind", "version"),
    [
        (CLAIM, {}, "PersistentVolumeClaim", "v1"),
        ({}, OWNED, "Job", "batch/v1"),
        ({}, {"labels": {"pod-group.scheduling.sigs.k8s.io": "g"}}, "PodGroup", "scheduling.sigs.k8s.io/v1alpha1"),
        ({}, {"labels": {"scheduling.x-k8s.io/pod-group": "g"}}, "PodGroup", "scheduling.x-k8s.io/v1alpha1"),
        ({"schedulingGroup": {"podGroupName": "g"}}, {}, "PodGroup", "scheduling.k8s.io/v1alpha2"),
        ({}, {"labels": {"kueue.x-k8s.io/queue-name": "q"}}, "LocalQueue", "kueue.x-k8s.io/v1beta2"),
    ],
)
def test_kinds_that_a_dump_left_out_are_a_warning(spec, metadata, kind, version):
    """Once for a kind, at the first object that names one; not when there is any of it."""
    pods = [
        json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": n, **metadata}, "spec": spec}) for n in "ab"
    ]
    (warned,) = read(many(*pods)).warnings
    assert warned["object"] == "Pod default/a"
    assert f"names a {kind}, and there is none in the input: add " in warned["message"]
    other = obj(kind, version, "other", spec={"clusterQueue": "c"} if kind == "LocalQueue" else {})
    assert read(many(*pods, other)).warnings == []


def test_a_job_of_another_api_is_not_asked_for():
    """Jobs of Volcano are not read, so their pods may be there without them."""
    owner = {**OWNED["ownerReferences"][0], "apiVersion": "batch.volcano.sh/v1alpha1"}
    assert read(obj("Pod", "v1", "a", metadata={"name": "a", "ownerReferences": [owner]})).warnings == []


def test_owners_of_what_is_there_need_no_warning():
    """A PyTorchJob in a dump has its pods beside it; where it runs, and they are not there, they are asked for."""
    controller = {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "name": "t", "uid": "u", "controller": True}
    replicas = {"Worker": {"template": {"spec": {"containers": [{"name": "c"}]}}}}
    owner = obj("PyTorchJob", "kubeflow.org/v1", "t", spec={"pytorchReplicaSpecs": replicas})
    meta = {"name": "t-0", "ownerReferences": [controller]}
    running = json.loads(owner) | {"status": {"replicaStatuses": {"Worker": {"active": 1}}}}
    (warned,) = read(json.dumps(running)).warnings
    assert "it runs 1 pods, and none is in the input" in warned["message"]
    assert read(many(owner, json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": meta}))).warnings == []


def test_the_same_object_twice_names_both_places(tmp_path):
    """Which of the two is meant cannot be known."""
    (tmp_path / "a.yaml").write_text(many(HIGH, POD % ("p", "{}")))
    (tmp_path / "b.yaml").write_text(POD % ("p", "{}"))
    with pytest.raises(InputError) as caught:
        load([str(tmp_path)])
    assert str(caught.value) == (
        f"{tmp_path}/b.yaml: document 1 (Pod default/p): metadata.name: was already defined in "
        f"{tmp_path}/a.yaml, document 2"
    )


def test_equal_names_of_other_kinds_and_namespaces_are_fine():
    """Only kind, API group, namespace and name together are an identity."""
    other = json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x", "namespace": "other"}})
    groups = [obj("PodGroup", f"{g}/v1alpha1") for g in ("scheduling.sigs.k8s.io", "scheduling.x-k8s.io")]
    assert len(read(many(obj("Pod", "v1"), obj("Node", "v1"), other, *groups)).events) == 5


@pytest.mark.parametrize(
    ("kind", "version", "message"),
    [
        ("ConfigMap", "v1", "not read by the scheduler"),
        ("CustomResourceDefinition", "apiextensions.k8s.io/v1", "not read by the scheduler"),
        ("Deployment", "apps/v1", "a Deployment is ignored; pass its pods instead"),
        ("Widget", "example.com/v1", "unknown kind 'Widget'"),
        ("Podgroup", "scheduling.sigs.k8s.io/v1alpha1", "did you mean PodGroup?"),
        ("PodGroup", "scheduling.volcano.sh/v1alpha1", "volcano"),
        ("PodDisruptionBudget", "policy/v1beta1", "known: policy/v1"),
        ("GangSchedulerConfiguration", "gangsched.dev/v1alpha1", "--config"),
    ],
)
def test_what_is_not_read_gives_a_warning(kind, version, message):
    """The object is left out, and that is said."""
    loaded = read(obj(kind, version, spec={"anything": [1]}))
    assert loaded.events == []
    (warned,) = loaded.warnings
    assert message in warned["message"]
    assert (warned["file"], warned["document"], warned["object"]) == ("stdin", 1, f"{kind} x")


@pytest.mark.parametrize(
    ("text", "field", "near"),
    [
        (obj("PodGroup", "scheduling.sigs.k8s.io/v1alpha1", spec={"minMembers": 2}), "spec.minMembers", "minMember"),
        (obj("PodGroup", "scheduling.sigs.k8s.io/v1alpha1", spec={"minmember": 2}), "spec.minmember", "minMember"),
        (POD % ("p", "{schedulerNmae: me}"), "spec.schedulerNmae", "schedulerName"),
        (
            obj("Job", "batch/v1", spec={"template": {"spec": {"priorityClass": "a"}}}),
            "spec.template.spec.priorityClass",
            "priorityClassName",
        ),
    ],
)
def test_misspelt_keys_give_a_warning(text, field, near):
    """A key that is silently ignored would change the decision."""
    (warned,) = read(text).warnings
    assert warned["field"] == field
    assert f"did you mean {near}?" in warned["message"]


@pytest.mark.parametrize(
    ("text", "field"),
    [
        (obj("Job", "batch/v1", spec={"suspend": True, "parallelism": 2_000_000_000}), "spec.parallelism"),
        (
            obj(
                "JobSet",
                "jobset.x-k8s.io/v1alpha2",
                spec={"suspend": True, "replicatedJobs": [{"name": "a", "replicas": 10_001}]},
            ),
            "spec.replicatedJobs[0].replicas",
        ),
    ],
)
def test_what_waits_for_its_start_has_a_largest_size(text, field):
    """A number in a file is not a reason to make so many pods."""
    labelled = {**json.loads(text)}
    labelled["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "q"}
    with pytest.raises(InputError, match=r"more than the 10000") as caught:
        read(json.dumps(labelled))
    assert field in str(caught.value)


def test_fields_of_newer_versions_give_no_warning():
    """A pod's spec grows with every version of Kubernetes."""
    assert read(POD % ("p", "{somethingNew: {a: 1}, containers: [{lifecycle: {}}]}")).warnings == []


def test_a_pod_on_an_unknown_node_gives_a_warning():
    """Once per node: nothing on it can be a victim, which a misspelt name would hide."""
    pods = [POD % (name, "{nodeName: n9}") for name in ("a", "b")]
    (warned,) = read(many(*pods)).warnings
    assert (warned["object"], warned["field"]) == ("Pod default/a", "spec.nodeName")
    assert read(many(*pods, obj("Node", "v1", "n9"))).warnings == []


@pytest.mark.parametrize("minimum", [0, -3])
def test_a_minimum_below_one_is_refused(minimum):
    """A gang needs a member."""
    error = refusal(obj("PodGroup", "scheduling.sigs.k8s.io/v1alpha1", "g", spec={"minMember": minimum}))
    assert (error.problem["object"], error.problem["field"]) == ("PodGroup default/g", "spec.minMember")


@pytest.mark.parametrize("name", ["koordinator", "workload"])
def test_the_examples_load_without_warnings(name):
    """What the documentation shows is understood completely, and the same every time."""
    loaded = load([str(EXAMPLES / name)])
    assert loaded.warnings == []
    assert loaded.events == load([str(EXAMPLES / name)]).events


def _examples():
    """The documents of the examples, and some of the kinds that these do not have."""
    texts = [path.read_text() for path in sorted(EXAMPLES.glob("[kw]*/*0-*.yaml"))]
    seen = {(d["kind"], d["apiVersion"]): d for text in texts for d in yaml.safe_load_all(text)}
    more = [
        obj("Job", "batch/v1", spec={"parallelism": 2, "template": {"spec": {"containers": [{"name": "c"}]}}}),
        obj("PodDisruptionBudget", "policy/v1", spec={"minAvailable": "50%", "selector": {"matchLabels": {"a": "b"}}}),
        obj("JobSet", "jobset.x-k8s.io/v1alpha2", spec={"replicatedJobs": [{"name": "a", "template": {"spec": {}}}]}),
    ]
    return [*seen.values(), *map(json.loads, more)]


def _paths(value, path=()):
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield from _paths(inner, (*path, key))


DOCUMENTS = _examples()
TEXTS = ["", "x", "a/b", "\x1b[0m", "9" * 5000, "100%", "Never", "-"]
TIMES = ["2026-13-01", "9999-12-31T23:59:59-23:59", "0001-01-01T00:00:00+23:59"]
NUMBERS = [None, True, 0, -1, 2**31, 10**30, 1.5, 1e300]
HOLDERS = [[], [1], [{}], [None], {}, {"a": 1}, {"a": "b"}]
ODD = st.sampled_from([*TEXTS, *TIMES, *NUMBERS, *HOLDERS])


def _answer(document):
    """What becomes of one document: events and warnings, or the error."""
    try:
        loaded = read(json.dumps(document))
    except InputError as error:
        return str(error)
    return loaded.events, loaded.warnings


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda d: f"{d['kind']} {d['apiVersion']}")
def test_a_null_is_as_good_as_nothing(document):
    """In the place of any field, as in the API; but for maps from text to text, whose values are text."""
    for *above, key in (path for path in _paths(document) if path):
        if isinstance(key, int) or {"labels", "annotations", "nodeSelector", "matchLabels"} & {*above}:
            continue
        answers = []
        for null in (True, False):
            changed = copy.deepcopy(document)
            holder = changed
            for step in above:
                holder = holder[step]
            if null:
                holder[key] = None
            else:
                del holder[key]
            answers.append(_answer(changed))
        assert answers[0] == answers[1], (*above, key)


@given(place=st.sampled_from([(i, *p) for i, d in enumerate(DOCUMENTS) for p in _paths(d) if p]), value=ODD)
def test_any_value_anywhere_is_read_or_named(place, value):
    """Whatever stands in the place of whatever field: events, or one printable line."""
    changed = copy.deepcopy(DOCUMENTS)
    holder = changed
    for step in place[:-1]:
        holder = holder[step]
    holder[place[-1]] = value
    try:
        read("\n".join(map(json.dumps, changed)))
    except InputError as error:
        assert str(error).isprintable()  # noqa: PT017 - both ends are right, a crash is not


SOME_WRONG = """
apiVersion: v1
kind: Node
metadata: {name: n1}
status: {capacity: {cpu: "4", pods: "10"}}
---
apiVersion: v1
kind: Pod
metadata: {name: typed}
spec: {containers: [{resources: {requests: {cpu: [1]}}}]}
---
apiVersion: batch/v1
kind: Job
metadata: {name: quantity}
spec: {template: {spec: {containers: [{resources: {requests: {cpu: 1x}}}]}}}
---
apiVersion: v1
kind: Pod
metadata: {name: right}
spec: {containers: [{resources: {requests: {cpu: "1"}}}]}
---
apiVersion: v1
kind: Pod
metadata: {name: right}
"""


def test_all_objects_that_cannot_be_understood_are_named(tmp_path):
    """Each has a line; the contract's error is the first one."""
    file = tmp_path / "some.yaml"
    file.write_text(SOME_WRONG)
    with pytest.raises(InvalidInputError) as caught:
        load([str(file)])
    assert [line.removeprefix(f"{file}: ").partition(")")[0] for line in caught.value.lines] == [
        "document 2 (Pod default/typed",
        "document 5 (Pod default/right",
        "document 3 (Job default/quantity",
    ]
    assert str(caught.value) == caught.value.lines[0]
    assert caught.value.problem["document"] == 2


def test_objects_that_cannot_be_understood_can_be_left_out(tmp_path):
    """With a warning each; nothing of them is left, and the others are read."""
    file = tmp_path / "some.yaml"
    file.write_text(SOME_WRONG)
    loaded = load([str(file)], skip_invalid=True)
    assert [type(record_of(event)) for event in loaded.events] == [Node, Pod]
    assert len(loaded.places) == 2
    assert [each["document"] for each in loaded.warnings if each["message"].startswith("skipped: ")] == [2, 5, 3]


@pytest.mark.parametrize(("count", "lines"), [(50, 50), (51, 51), (60, 51)])
def test_of_thousands_of_errors_some_are_shown(count, lines, tmp_path):
    """And how many there are beside them."""
    file = tmp_path / "many.yaml"
    file.write_text("---\n".join(f"apiVersion: v1\nkind: Pod\nmetadata: {{name: {n}.}}\n" for n in range(count)))
    with pytest.raises(InvalidInputError) as caught:
        load([str(file)])
    assert len(caught.value.lines) == lines
    assert (caught.value.lines[-1] == f"and {count - 50} more") == (count > 50)
