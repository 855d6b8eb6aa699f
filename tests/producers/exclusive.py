"""JobSets and LeaderWorkerSets with exclusive placement: most pods are made only when a first one has a node."""

from __future__ import annotations

from pathlib import Path

from tests.controlplane.client import ApiError, Client, Object, load, wait_until, wait_until_served
from tests.controlplane.plane import ControlPlane
from tests.e2e.jobs import template
from tests.e2e.scheduler import free_port, running_scheduler
from tests.e2e.stories import running
from tests.producers.jobset import KIND, running_jobset
from tests.producers.quota_and_groups import LWS, prepared
from tests.producers.running import HERE, record, running_controller, webhooks

RECORDED_JOBSET = HERE / "recorded-jobset-exclusive.json"
RECORDED_LWS = HERE / "recorded-lws-exclusive.json"
RACK = "example.com/rack"
DECLARED = {"gangsched.dev/gang": "true"}
#: A domain of two nodes, on each of which there is room for one pod; the nodes of ``prepared`` are in none.
NODE = """
apiVersion: v1
kind: Node
metadata: {{name: {rack}-{number}, labels: {{example.com/rack: {rack}, kubernetes.io/hostname: {rack}-{number}}}}}
status: {{capacity: {{cpu: "6", memory: 16Gi, pods: "50"}}, allocatable: {{cpu: "6", memory: 16Gi, pods: "50"}}}}
"""


def rack(name: str) -> list[Object]:
    """Its two nodes."""
    return load("\n---\n".join(NODE.format(rack=name, number=number) for number in (1, 2)))


async def one_rack_each(admin: Client) -> dict[str, set[str]]:
    """The racks in which the pods of each Job, or group, run."""
    racks = {n["metadata"]["name"]: n["metadata"]["labels"].get(RACK, "") for n in await admin.list("Node")}
    found: dict[str, set[str]] = {}
    for pod in await admin.list("Pod"):
        labels = pod["metadata"]["labels"]
        whose = labels.get("jobset.sigs.k8s.io/job-index") or labels["leaderworkerset.sigs.k8s.io/name"]
        found.setdefault(whose, set()).add(racks[pod["spec"]["nodeName"]])
    return found


async def exclusive_jobset_story(plane: ControlPlane, folder: Path, binary: Path, sources: Path) -> None:
    """The webhook refuses the followers of two Jobs until their leaders have nodes. With one rack no pod starts; with
    two the leaders start where there is room for their followers, which follow them.
    """
    notes = {**DECLARED, "alpha.jobset.sigs.k8s.io/exclusive-topology": RACK}
    meta = {"name": "train", "namespace": "default", "annotations": notes}
    work = {"parallelism": 2, "completions": 2, "completionMode": "Indexed", "template": template("5")}
    spec = {"replicatedJobs": [{"name": "w", "replicas": 2, "template": {"spec": work}}]}
    made = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": meta, "spec": spec}
    leaders = ["train-w-0-0", "train-w-1-0"]
    async with Client(plane.admin_kubeconfig) as admin:
        await prepared(admin)
        await admin.apply(rack("a"))
        async with running_jobset(admin, plane, folder, binary, sources):

            async def there() -> bool:
                try:
                    await admin.apply(made)
                except ApiError:
                    return False
                return [_alone(p) for p in await admin.list("Pod")] == leaders

            await wait_until(there, what="the leaders are made", timeout=90)
            await record(admin, ("Node", KIND, "Job", "Pod"), RECORDED_JOBSET)
            async with running_scheduler(plane.scheduler_kubeconfig, folder):
                first = (await admin.list("Pod"))[0]["metadata"]["name"]
                await admin.wait_for("Pod", first, lambda p: bool(p["status"].get("conditions")), timeout=60)
                assert not [p for p in await admin.list("Pod") if p["spec"].get("nodeName")]
                await admin.apply(rack("b"))
                await _all(admin, 4)
                found = await one_rack_each(admin)
                assert sorted(found.values(), key=sorted) == [{"a"}, {"b"}]
    print("with one rack no leader started; with two each Job of the JobSet runs in one of its own")


def _alone(pod: Object) -> str:
    """The name of a pod without its random end."""
    return str(pod["metadata"]["name"]).rpartition("-")[0]


async def _all(admin: Client, count: int) -> None:
    async def there() -> bool:
        return len(await admin.list("Pod")) == count

    await wait_until(there, what="the followers are made", timeout=120)
    await running(admin, [p["metadata"]["name"] for p in await admin.list("Pod")])


async def exclusive_lws_story(plane: ControlPlane, folder: Path, binary: Path, sources: Path) -> None:
    """Of a group with a rack to itself, and of one that starts with its leader, the leader alone is made at first. It
    starts when there is room for its worker too, which comes then.
    """
    port, config = free_port(), sources / "config"
    worker = template("5")
    worker["spec"].pop("restartPolicy")
    meta = {"name": "serve", "namespace": "default"}
    notes = {**DECLARED, "leaderworkerset.sigs.k8s.io/exclusive-topology": RACK}
    made = [
        {
            "apiVersion": "leaderworkerset.x-k8s.io/v1",
            "kind": "LeaderWorkerSet",
            "metadata": {**meta, "name": name, "annotations": annotations},
            "spec": {"replicas": 1, "leaderWorkerTemplate": {"size": 2, "workerTemplate": worker}, **more},
        }
        for name, annotations, more in (("serve", notes, {}), ("late", DECLARED, {"startupPolicy": "LeaderReady"}))
    ]
    async with Client(plane.admin_kubeconfig) as admin:
        await prepared(admin, config / "crd" / "bases" / "leaderworkerset.x-k8s.io_leaderworkersets.yaml")
        await wait_until_served(admin, LWS)
        await admin.apply(rack("a")[:1])
        api = "config.lws.x-k8s.io/v1alpha1"
        with running_controller(binary, plane.admin_kubeconfig, folder, port, api) as authority:
            found = webhooks(config / "webhook" / "manifests.yaml", port, authority)
            for each in (hook for configuration in found for hook in configuration["webhooks"]):
                if "pods" in each["rules"][0]["resources"]:
                    named = {"key": "leaderworkerset.sigs.k8s.io/name", "operator": "Exists"}
                    each["objectSelector"] = {"matchExpressions": [named]}
            await admin.apply(found)

            async def there() -> bool:
                try:
                    await admin.apply(made)
                except ApiError:
                    return False
                return sorted(p["metadata"]["name"] for p in await admin.list("Pod")) == ["late-0", "serve-0"]

            await wait_until(there, what="the leaders are made", timeout=90)
            await record(admin, ("Node", LWS, "StatefulSet", "Pod"), RECORDED_LWS)
            async with running_scheduler(plane.scheduler_kubeconfig, folder):
                await admin.wait_for("Pod", "serve-0", lambda p: bool(p["status"].get("conditions")), timeout=60)
                assert not [p for p in await admin.list("Pod") if p["spec"].get("nodeName")]
                await admin.apply([*rack("a"), *rack("b")])
                await _all(admin, 4)
                racks = (await one_rack_each(admin))["serve"]
                assert len(racks) == 1
    print(f"no leader started where its worker had no room; then both groups ran, one in rack {racks.pop()}")
