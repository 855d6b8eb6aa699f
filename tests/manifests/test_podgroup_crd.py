"""The PodGroup CRD: the API that people already use, with every field described."""

from __future__ import annotations

import pytest

from tests.manifests.podgroup_crd import (
    crd,
    crd_schema,
    crd_version,
    schema_nodes,
    violations,
)
from tests.manifests.shipped import (
    Object,
)


def test_crd_is_the_api_that_people_already_use() -> None:
    """Group, version, names and scope are those of Koordinator's and scheduler-plugins' PodGroup."""
    spec = crd()["spec"]
    assert (spec["group"], crd_version()["name"], spec["scope"]) == ("scheduling.sigs.k8s.io", "v1alpha1", "Namespaced")
    names = spec["names"]
    assert (names["kind"], names["listKind"], names["plural"]) == ("PodGroup", "PodGroupList", "podgroups")
    assert names["singular"] == "podgroup"
    assert "pg" in names["shortNames"]
    # A short name that repeats a name is ambiguous with the resource of the same name in scheduling.k8s.io.
    assert not {names["plural"], names["singular"]} & set(names["shortNames"])
    assert crd()["metadata"]["name"] == f"{names['plural']}.{spec['group']}"
    assert crd_version()["served"] is True
    assert crd_version()["storage"] is True


def test_crd_carries_the_approval_that_its_protected_group_needs() -> None:
    """Without a URL or "unapproved…" in this annotation the API server refuses CRDs of groups under k8s.io."""
    approval = crd()["metadata"]["annotations"]["api-approved.kubernetes.io"]
    assert approval == "https://github.com/kubernetes-sigs/scheduler-plugins/pull/50"


def test_crd_schema_is_structural() -> None:
    """Each field has a type (or is int-or-string, which must not have one), and each array and map says of what."""
    for path, node in schema_nodes(crd_schema()):
        if node.get("x-kubernetes-int-or-string"):
            assert "type" not in node, path
            assert node.get("anyOf", [{"type": "integer"}, {"type": "string"}]) == [
                {"type": "integer"},
                {"type": "string"},
            ]
            continue
        assert node.get("type") in {"object", "array", "string", "integer"}, f"{path} has no type"
        assert ("items" in node) == (node["type"] == "array"), path
        assert not ("properties" in node and "additionalProperties" in node), path
        assert set(node.get("required", [])) <= set(node.get("properties", {})), path
        if node.get("x-kubernetes-list-type") == "map":
            assert set(node["x-kubernetes-list-map-keys"]) <= set(node["items"]["required"]), path


def test_crd_describes_every_field() -> None:
    """`kubectl explain podgroups` has a sentence for everything but metadata, where the API server refuses one."""
    silent = [path for path, node in schema_nodes(crd_schema()) if not node.get("description", "").endswith(".")]
    assert silent == [".metadata"]
    assert crd_schema()["properties"]["metadata"] == {"type": "object"}


def test_crd_has_the_fields_and_types_of_the_published_one() -> None:
    """No field that users or other controllers write would be pruned or refused for its type."""
    fields = {path: (node.get("type"), node.get("format")) for path, node in schema_nodes(crd_schema())}
    number, text = ("integer", "int32"), ("string", None)
    published = {
        ".spec.minMember": number,
        ".spec.minResources": ("object", None),
        ".spec.minResources[]": (None, None),
        ".spec.scheduleTimeoutSeconds": number,
        ".status.phase": text,
        ".status.occupiedBy": text,
        ".status.scheduled": number,
        ".status.running": number,
        ".status.succeeded": number,
        ".status.failed": number,
        ".status.scheduleStartTime": ("string", "date-time"),
    }
    assert {path: fields.get(path) for path in published} == published
    assert "enum" not in crd_schema()["properties"]["status"]["properties"]["phase"]
    assert "required" not in crd_schema()
    assert "required" not in crd_schema()["properties"]["spec"]


@pytest.mark.parametrize(
    ("spec", "accepted"),
    [
        ({"minMember": 2, "scheduleTimeoutSeconds": 300}, True),
        ({"minMember": 1, "minResources": {"cpu": 4, "memory": "16Gi", "nvidia.com/gpu": "0.5"}}, True),
        ({"minMember": 3, "minResources": {"cpu": "500m", "memory": "1e9", "pods": "+3."}}, True),
        ({"minMember": 3, "scheduleTimeoutSeconds": -1}, True),
        ({}, True),
        ({"minMember": 0}, False),
        ({"minMember": "2"}, False),
        ({"minMember": 2, "minResources": {"cpu": "four"}}, False),
        ({"minMember": 2, "minResources": {"memory": "16 Gi"}}, False),
        ({"minMember": 2, "minResources": {"memory": ""}}, False),
        ({"minMembers": 2}, False),
    ],
)
def test_crd_accepts_what_users_write_and_nothing_else(spec: Object, accepted: bool) -> None:
    """Specs in use are valid and keep all of their fields; mistakes are refused or show as unknown fields."""
    found = violations(crd_schema(), {"metadata": {"name": "a"}, "spec": spec})
    assert (found == []) is accepted, found


def test_crd_accepts_the_status_that_we_write() -> None:
    """Counts and a condition go in whole; a condition without a transition time is refused."""
    condition = {
        "type": "PodGroupScheduled",
        "status": "False",
        "observedGeneration": 1,
        "lastTransitionTime": "2026-01-01T00:00:00Z",
        "reason": "Unschedulable",
        "message": "0/2 nodes are available: 2 Insufficient cpu.",
    }
    status = {"phase": "Scheduling", "scheduled": 1, "running": 0, "conditions": [condition]}
    assert violations(crd_schema(), {"status": status}) == []
    del condition["lastTransitionTime"]
    assert violations(crd_schema(), {"status": status}) == [".status.conditions[0].lastTransitionTime: missing"]


def test_crd_status_is_a_subresource_and_conditions_are_merged_by_type() -> None:
    """Users cannot write the status with the spec, and two writers of conditions do not overwrite each other."""
    assert crd_version()["subresources"] == {"status": {}}
    conditions = crd_schema()["properties"]["status"]["properties"]["conditions"]
    assert (conditions["x-kubernetes-list-type"], conditions["x-kubernetes-list-map-keys"]) == ("map", ["type"])


def test_crd_columns_point_at_fields_of_the_schema() -> None:
    """`kubectl get podgroups` shows min, scheduled, running, phase and age, each from a field of that type."""
    columns = crd_version()["additionalPrinterColumns"]
    assert [column["name"] for column in columns] == ["Min", "Scheduled", "Running", "Phase", "Age"]
    fields = dict(schema_nodes(crd_schema()))
    for column in columns:
        if column["jsonPath"] == ".metadata.creationTimestamp":
            assert column["type"] == "date"
        else:
            assert fields[column["jsonPath"]]["type"] == column["type"]
