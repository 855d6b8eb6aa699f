"""The queue definitions for clusters without Kueue, on a real API server: what is accepted, refused, kept and shown."""

from __future__ import annotations

import copy
from collections.abc import AsyncIterator

import msgspec
import pytest

from gangsched.model import convert_queues
from tests.controlplane.client import ApiError, Client, Object, load, wait_until
from tests.controlplane.rbac import MANIFESTS

GROUP = "kueue.x-k8s.io"
DEFINITIONS = load(MANIFESTS / "kueue" / "crds.yaml")
KINDS = [d["spec"]["names"]["kind"] for d in DEFINITIONS]


@pytest.fixture
async def queue_kinds(admin: Client) -> AsyncIterator[None]:
    """The definitions are installed and served."""
    await admin.apply(copy.deepcopy(DEFINITIONS))

    async def served() -> bool:
        await admin.resources(refresh=True)
        try:
            for kind in KINDS:
                for version in ("v1beta1", "v1beta2"):
                    await admin.list(f"{GROUP}/{version}/{kind}")
        except (LookupError, ApiError):
            return False
        return True

    await wait_until(served, what="the queue kinds are served")
    yield
    for kind in KINDS:
        for thing in await admin.list(f"{GROUP}/v1beta2/{kind}"):
            meta = thing["metadata"]
            await admin.delete(f"{GROUP}/v1beta2/{kind}", meta["name"], meta.get("namespace", "default"))


def cluster_queue(version: str, **spec: object) -> Object:
    """A ClusterQueue with some quota."""
    quota = {"name": "cpu", "nominalQuota": 4}
    flavors = [{"name": "default", "resources": [quota]}]
    groups = [{"coveredResources": ["cpu"], "flavors": flavors}]
    return {
        "apiVersion": f"{GROUP}/{version}",
        "kind": "ClusterQueue",
        "metadata": {"name": "cq"},
        "spec": {"resourceGroups": groups, **spec},
    }


def with_limits(queue: Object, **limits: object) -> Object:
    """The same queue with a limit on its only quota."""
    out = copy.deepcopy(queue)
    out["spec"]["resourceGroups"][0]["flavors"][0]["resources"][0].update(limits)
    return out


def conditions(definition: Object) -> dict[str, str]:
    """Status of the definition's conditions."""
    return {c["type"]: c["status"] for c in definition["status"]["conditions"]}


async def test_schemas_are_structural(admin: Client, queue_kinds: None) -> None:
    """Every definition is established, and the API server finds nothing to complain about in its schema."""
    for definition in DEFINITIONS:
        found = await admin.get("CustomResourceDefinition", definition["metadata"]["name"])
        status = conditions(found)
        assert status["Established"] == status["NamesAccepted"] == "True"
        assert "NonStructuralSchema" not in status
        assert status.get("KubernetesAPIApprovalPolicyConformant", "True") == "True"
        versions = {v["name"]: (v["served"], v["storage"]) for v in found["spec"]["versions"]}
        assert versions == {"v1beta1": (True, False), "v1beta2": (True, True)}


async def test_both_spellings_survive(admin: Client, queue_kinds: None) -> None:
    """A queue written in either version is read in the other with its cohort, and the reader takes both."""
    for version, field in (("v1beta1", "cohort"), ("v1beta2", "cohortName")):
        await admin.create(with_limits(cluster_queue(version, **{field: "team"}), borrowingLimit="500m"))
        for other in ("v1beta1", "v1beta2"):
            stored = await admin.get(f"{GROUP}/{other}/ClusterQueue", "cq")
            read = convert_queues.cluster_queue(msgspec.convert(stored, convert_queues.RawClusterQueue))
            assert read.cohort == "team"
            [(_, limits)] = read.groups[0].flavors[0].resources
            assert (limits.nominal, limits.borrowing, limits.lending) == (4000, 500, None)
        await admin.delete(f"{GROUP}/v1beta2/ClusterQueue", "cq")


@pytest.mark.parametrize(
    ("queue", "message"),
    [
        (with_limits(cluster_queue("v1beta2"), borrowingLimit=1), "borrowingLimit must be nil when cohort is empty"),
        (with_limits(cluster_queue("v1beta1"), lendingLimit=1), "lendingLimit must be nil when cohort is empty"),
        (cluster_queue("v1beta2", cohort="a", cohortName="b"), "cohort and cohortName must be the same"),
        (cluster_queue("v1beta2", preemption={"borrowWithinCohort": {"policy": "LowerPriority"}}), "contradict"),
        (cluster_queue("v1beta2", preemption={"reclaimWithinCohort": "Sometimes"}), "Unsupported value"),
        (cluster_queue("v1beta2", flavorFungibility={"preference": "BorrowingOverPreemption"}), "preference needs"),
        (with_limits(cluster_queue("v1beta2"), nominalQuota=-1), "nominalQuota"),
        (with_limits(cluster_queue("v1beta2"), nominalQuota="lots"), "nominalQuota"),
    ],
)
async def test_mistakes_are_refused(admin: Client, queue_kinds: None, queue: Object, message: str) -> None:
    """What can be said in a schema the API server says at once, naming the field or the rule."""
    with pytest.raises(ApiError) as refused:
        await admin.create(copy.deepcopy(queue))
    assert refused.value.status == 422
    assert message in str(refused.value)


async def test_the_reader_understands_what_is_accepted(admin: Client, namespace: str, queue_kinds: None) -> None:
    """Objects of every kind go in as Kueue users write them and come out as records."""
    flavor = {"spec": {"nodeLabels": {"kind": "spot"}, "nodeTaints": [{"key": "spot", "effect": "NoSchedule"}]}}
    cohort = {"spec": {"parentName": "company", "fairSharing": {"weight": "2"}}}
    things: list[tuple[str, Object]] = [("ResourceFlavor", flavor), ("Cohort", cohort)]
    things += [("LocalQueue", {"spec": {"clusterQueue": "cq"}}), ("WorkloadPriorityClass", {"value": 100})]
    found = {}
    for kind, body in things:
        made = {"apiVersion": f"{GROUP}/v1beta1", "kind": kind, "metadata": {"name": "x"}, **body}
        found[kind] = await admin.create(made, namespace)
    convert = convert_queues
    spot = convert.resource_flavor(msgspec.convert(found["ResourceFlavor"], convert_queues.RawResourceFlavor))
    assert (spot.labels, spot.taints[0].key) == ({"kind": "spot"}, "spot")
    parent = convert.cohort(msgspec.convert(found["Cohort"], convert_queues.RawCohort))
    assert (parent.parent, parent.weight) == ("company", 2.0)
    local = convert.local_queue(msgspec.convert(found["LocalQueue"], convert_queues.RawLocalQueue))
    assert (local.key, local.cluster_queue, local.stop) == (f"{namespace}/x", "cq", "None")
    priority = msgspec.convert(found["WorkloadPriorityClass"], convert_queues.RawWorkloadPriorityClass)
    assert convert.workload_priority_class(priority).value == 100
    with pytest.raises(ApiError, match="immutable"):
        await admin.patch(f"{GROUP}/v1beta2/LocalQueue", "x", {"spec": {"clusterQueue": "other"}}, namespace)


@pytest.mark.parametrize(("version", "field"), [("v1beta1", "cohort"), ("v1beta2", "cohortName")])
async def test_columns(admin: Client, queue_kinds: None, version: str, field: str) -> None:
    """A table of queues shows the cohort, however it is written, and how many workloads wait and run."""
    await admin.create(cluster_queue(version, **{field: "team"}))
    status = {"pendingWorkloads": 3, "reservingWorkloads": 2, "admittedWorkloads": 2}
    status_now = status | {"conditions": [{"type": "Active", "status": "True"}]}
    await admin.patch(f"{GROUP}/v1beta2/ClusterQueue", "cq", {"status": status_now}, subresource="status")
    resource = await admin.resource(f"{GROUP}/v1beta2/ClusterQueue")
    shown = await admin.request("GET", resource.path("cq"), accept="application/json;as=Table;v=v1;g=meta.k8s.io")
    names = [c["name"] for c in shown["columnDefinitions"]]
    cells = dict(zip(names, shown["rows"][0]["cells"], strict=True))
    del cells["Age"]
    assert cells == {
        "Name": "cq",
        "Cohort": "team",
        "Strategy": "BestEffortFIFO",
        "Active": "True",
        "Pending Workloads": 3,
        "Reserving Workloads": 2,
        "Admitted Workloads": 2,
    }
