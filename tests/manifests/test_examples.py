"""The examples: complete, consistent, and each with a gang that needs preemption."""

from __future__ import annotations

import re
from collections import Counter
from decimal import Decimal

import pytest

from tests.manifests.podgroup_crd import (
    crd,
    crd_schema,
    crd_version,
    violations,
)
from tests.manifests.shipped import (
    EXAMPLES,
    SCHEDULER_NAME,
    Object,
    load_all,
    load_folder,
    of_kind,
    one,
    quantity,
)

CLUSTERS = ["koordinator", "workload"]


def cpu(pod: Object) -> Decimal:
    """CPU that a pod requests."""
    return sum((quantity(c["resources"]["requests"]["cpu"]) for c in pod["spec"]["containers"]), Decimal(0))


def group_of(pod: Object) -> str | None:
    """Name of the PodGroup that a pod belongs to, by the label or the field of its API."""
    label = pod["metadata"].get("labels", {}).get("pod-group.scheduling.sigs.k8s.io")
    field = pod["spec"].get("schedulingGroup", {}).get("podGroupName")
    name: str | None = label or field
    return name


def minimum_of(group: Object) -> int:
    """Members that a group needs, in either API."""
    spec = group["spec"]
    return int(spec["minMember"] if "minMember" in spec else spec["schedulingPolicy"]["gang"]["minCount"])


def test_every_example_is_tested() -> None:
    """A new folder of examples has to be named in this file, and in the README of the examples."""
    folders = {path.name for path in EXAMPLES.iterdir() if path.is_dir()}
    # Elsewhere: test_documented.py (each command of a README), test_example_plugin.py, test_queues.py,
    # test_volcano_example.py, test_kai_example.py and test_kind_example.py.
    dialects = {"coscheduling", "kai", "kueue-pod-group", "spark", "volcano", "yunikorn"}
    owners = {"job", "job-scheduling", "jobset", "owners", "ray", "statefulset", "trainjob"}
    assert folders == {*CLUSTERS, *dialects, *owners, "config", "devices", "kind", "plugin-gpu-reserve", "quota-gpu"}
    assert [name for name in sorted(folders) if not (EXAMPLES / name / "README.md").exists()] == []
    readme = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    assert folders == set(re.findall(r"^\| \[`([a-z-]+)/`\]", readme, re.MULTILINE))


@pytest.mark.parametrize("folder", CLUSTERS)
def test_files_of_an_example_sort_in_the_order_of_creation(folder: str) -> None:
    """Nodes come first, then priority classes, then what names them, and a group comes before its members."""
    rank = {"Node": 0, "PriorityClass": 1, "Workload": 2, "PodGroup": 3, "Pod": 4}
    paths = sorted((EXAMPLES / folder).glob("*.yaml"))
    assert all(re.fullmatch(r"[0-9]0-[a-z-]+\.yaml", path.name) for path in paths)
    for path in paths:
        ranks = [rank[o["kind"]] for o in load_all(path)]
        assert ranks == sorted(ranks), path
    kinds = [o["kind"] for o in load_folder(EXAMPLES / folder)]
    first = {kind: kinds.index(kind) for kind in kinds}
    assert first["Node"] < first["PriorityClass"] < first["Pod"]


@pytest.mark.parametrize("folder", CLUSTERS)
def test_names_in_an_example_are_unique_and_resolve(folder: str) -> None:
    """Every class, node, group and workload that an object names is in the same folder, and nothing is there twice."""
    objects = load_folder(EXAMPLES / folder)
    keys = Counter((o["kind"], o["metadata"].get("namespace"), o["metadata"]["name"]) for o in objects)
    assert max(keys.values()) == 1
    known: dict[str, set[str]] = {}
    for o in objects:
        known.setdefault(o["kind"], set()).add(o["metadata"]["name"])
    for group in of_kind(objects, "PodGroup"):
        template = group["spec"].get("workloadRef")
        if template is not None:
            workload = one(objects, "Workload", template["workloadName"])
            templates = {t["name"]: t for t in workload["spec"]["podGroupTemplates"]}
            policy = templates[template["templateName"]]["schedulingPolicy"]
            assert policy == group["spec"]["schedulingPolicy"]
        assert group["spec"].get("priorityClassName", "high-priority") in known["PriorityClass"]
    for pod in of_kind(objects, "Pod"):
        assert pod["spec"]["priorityClassName"] in known["PriorityClass"]
        assert pod["spec"].get("nodeName", objects[0]["metadata"]["name"]) in known["Node"]
        assert group_of(pod) is None or group_of(pod) in known["PodGroup"]


@pytest.mark.parametrize("folder", CLUSTERS)
def test_pods_of_an_example_are_ours(folder: str) -> None:
    """Every pod asks for our scheduler and has one of the two states that an example starts from."""
    pods = of_kind(load_folder(EXAMPLES / folder), "Pod")
    assert {pod["spec"]["schedulerName"] for pod in pods} == {SCHEDULER_NAME}
    for pod in pods:
        running = pod.get("status", {}).get("phase") == "Running"
        assert running == ("nodeName" in pod["spec"])
        assert running or "status" not in pod


@pytest.mark.parametrize("folder", CLUSTERS)
def test_low_priority_pods_go_quickly(folder: str) -> None:
    """Victims end within seconds, so that nobody who tries an example waits half a minute."""
    victims = [
        pod
        for pod in of_kind(load_folder(EXAMPLES / folder), "Pod")
        if pod["spec"]["priorityClassName"] == "low-priority"
    ]
    assert {pod["spec"]["terminationGracePeriodSeconds"] for pod in victims} == {3}


@pytest.mark.parametrize("folder", CLUSTERS)
def test_an_example_needs_preemption_and_can_be_solved_by_it(folder: str) -> None:
    """What runs fits; the pending gang fits nowhere beside it, not even in part; it fits when all of that is gone."""
    objects = load_folder(EXAMPLES / folder)
    pods = of_kind(objects, "Pod")
    free = {n["metadata"]["name"]: quantity(n["status"]["allocatable"]["cpu"]) for n in of_kind(objects, "Node")}
    room = sorted(free.values(), reverse=True)
    for pod in pods:
        if "nodeName" in pod["spec"]:
            free[pod["spec"]["nodeName"]] -= cpu(pod)
    assert min(free.values()) >= 0
    pending = [pod for pod in pods if "nodeName" not in pod["spec"]]
    (group_name,) = {group_of(pod) for pod in pending}
    group = one(objects, "PodGroup", group_name)
    assert minimum_of(group) == len(pending) == len(free)
    needs = sorted((cpu(pod) for pod in pending), reverse=True)
    assert max(free.values()) < needs[-1]
    assert all(need <= node for need, node in zip(needs, room, strict=True))
    priority = {c["metadata"]["name"]: c["value"] for c in of_kind(objects, "PriorityClass")}
    running = [pod for pod in pods if "nodeName" in pod["spec"]]
    assert max(priority[pod["spec"]["priorityClassName"]] for pod in running) < min(
        priority[pod["spec"]["priorityClassName"]] for pod in pending
    )


@pytest.mark.parametrize("folder", CLUSTERS)
def test_nodes_of_an_example_can_be_created_on_a_cluster_of_fake_nodes(folder: str) -> None:
    """KWOK looks after the nodes, and they offer what the text says: 4 CPU, 16Gi, 110 pods."""
    for node in of_kind(load_folder(EXAMPLES / folder), "Node"):
        assert node["metadata"]["annotations"] == {"kwok.x-k8s.io/node": "fake"}
        assert node["metadata"]["labels"]["kubernetes.io/hostname"] == node["metadata"]["name"]
        assert node["status"]["allocatable"] == {"cpu": "4", "memory": "16Gi", "pods": "110"}
        assert node["status"]["capacity"] == node["status"]["allocatable"]


def test_pod_group_of_the_koordinator_example_is_valid_under_our_crd() -> None:
    """Our CRD neither refuses nor prunes anything of the PodGroup as users write it."""
    group = one(load_folder(EXAMPLES / "koordinator"), "PodGroup")
    assert group["apiVersion"] == f"{crd()['spec']['group']}/{crd_version()['name']}"
    assert violations(crd_schema(), group) == []


def test_groups_of_the_workload_example_are_taken_whole() -> None:
    """The example shows what it says: upstream groups that are disrupted as a whole, with four pods each."""
    objects = load_folder(EXAMPLES / "workload")
    groups = of_kind(objects, "PodGroup")
    members = Counter(group_of(pod) for pod in of_kind(objects, "Pod"))
    assert members == {group["metadata"]["name"]: 4 for group in groups}
    for group in groups:
        assert group["apiVersion"] == "scheduling.k8s.io/v1beta1"
        assert group["spec"]["disruptionMode"] == {"all": {}}
