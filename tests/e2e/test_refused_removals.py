"""An admission policy of the real API server refuses to remove pods: others are found, and none is evicted in vain."""

from __future__ import annotations

from textwrap import dedent

import pytest
import yaml

from tests.controlplane.client import ApiError, Client, Object, load, wait_until
from tests.controlplane.policies import refuses
from tests.e2e.jobs import CLUSTER, template
from tests.e2e.stories import Start, condition, is_marked, nodes_ready, running

pytestmark = pytest.mark.controlplane

LOW = """
    apiVersion: scheduling.k8s.io/v1
    kind: PriorityClass
    metadata: {name: low}
    value: 10
"""


MORE = """
    apiVersion: v1
    kind: Node
    metadata: {name: node-3, labels: {kubernetes.io/hostname: node-3}}
    status: {capacity: {cpu: "4", memory: 16Gi, pods: "50"}, allocatable: {cpu: "4", memory: 16Gi, pods: "50"}}
    ---
    apiVersion: v1
    kind: Node
    metadata: {name: node-4, labels: {kubernetes.io/hostname: node-4}}
    status: {capacity: {cpu: "4", memory: 16Gi, pods: "50"}, allocatable: {cpu: "4", memory: 16Gi, pods: "50"}}
"""
GANG = """
    apiVersion: scheduling.sigs.k8s.io/v1alpha1
    kind: PodGroup
    metadata: {name: pair, namespace: default}
    spec: {minMember: 2}
"""
#: Most of a node.
CPU = "3900m"


def pod(name: str, cpu: str, class_name: str = "", on: str = "", **labels: str) -> Object:
    """A pod of this scheduler, which can only run on one node if that is given."""
    made = {"apiVersion": "v1", "kind": "Pod", **template(cpu)}
    made["metadata"] |= {"name": name, "namespace": "default", "labels": labels}
    if class_name:
        made["spec"]["priorityClassName"] = class_name
    if on:
        made["spec"]["nodeSelector"] = {"kubernetes.io/hostname": on}
    return made


async def test_a_pod_that_a_policy_keeps_is_tried_once(admin: Client, start_scheduler: Start) -> None:
    """`keep` is the least harm, so it is chosen first; when that is refused the gang takes the other node. By then a
    refusal is likely in this namespace: `pair` would need the places of `kept` and `lose`, and writes to neither, since
    a dry run says that the first may not go. A pod that needs no victim is bound after that.
    """
    await admin.apply(load(CLUSTER))
    made = [*refuses("keep", "DELETE", {"keep": "true"}, "it is to be kept"), *yaml.safe_load_all(dedent(LOW))]
    await admin.apply(made)
    await nodes_ready(admin)
    await admin.apply(pod("keep", CPU, keep="true"))

    async def kept() -> bool:
        """Return whether the policy is in force, which it is some time after it is there."""
        probe = pod("probe", CPU, keep="true")
        probe["spec"]["schedulerName"] = "none"
        await admin.apply(probe)
        try:
            await admin.delete("Pod", "probe", grace_seconds=0)
        except ApiError as error:
            return "it is to be kept" in str(error)
        return False

    async def not_kept() -> bool:
        return not await kept()

    await wait_until(kept, what="the policy is in force")
    try:
        async with start_scheduler(), admin.record("Pod") as recorder:
            await running(admin, ["keep"])
            await admin.apply(pod("other", CPU, "low"))
            await running(admin, ["other"])
            await admin.apply(pod("strong", CPU, "urgent"))
            await admin.wait_for("Pod", "strong", lambda p: p["status"].get("phase") == "Running", timeout=120)
            names = {each["metadata"]["name"] for each in await admin.list("Pod")}
            await admin.apply(yaml.safe_load_all(dedent(MORE)))
            await nodes_ready(admin)
            await admin.apply([pod("kept", CPU, "low", "node-3", keep="true"), pod("lose", CPU, "low", "node-4")])
            await running(admin, ["kept", "lose"])
            group = {"pod-group.scheduling.sigs.k8s.io": "pair"}
            pair = [pod(f"pair-{n}", CPU, "urgent", f"node-{n}", **group) for n in (3, 4)]
            await admin.apply([*yaml.safe_load_all(dedent(GANG)), *pair])
            refused = "has refused to remove 2 pods"
            await admin.wait_for(
                "Pod", "pair-3", lambda p: refused in condition(p, "PodScheduled").get("message", ""), timeout=120
            )
            await admin.apply(pod("small", "10m"))
            await running(admin, ["small"])
            left = {
                each["metadata"]["name"]
                for each in await admin.list("Pod")
                if not each["metadata"].get("deletionTimestamp")
            }
    finally:
        for each in made:
            await admin.delete(each["kind"], each["metadata"]["name"])
        await wait_until(not_kept, what="the policy is not in force any more")
    assert names == {"keep", "probe", "strong"}
    assert left == {*names, "kept", "lose", "pair-3", "pair-4", "small"}
    marked = [change.name for change in recorder.changes if is_marked(change)]
    assert marked[0] == "keep"
    assert set(marked) == {"keep", "other"}


async def test_a_pod_that_a_policy_lets_nobody_mark_is_tried_once(admin: Client, start_scheduler: Start) -> None:
    """`keep` is the least harm, so it is chosen first. When its mark is refused, the gang takes the other node, and no
    mark of `keep` is tried again.
    """
    await admin.apply(load(CLUSTER))
    marks = "object.status.conditions.exists(c, c.type == 'gangsched.dev/EvictedFor')"
    unmarked = f"!has(object.status.conditions) || !{marks}"
    policy = refuses(
        "unmarked", "UPDATE", {"keep": "true"}, "it is not to be marked", unless=unmarked, resource="pods/status"
    )
    await admin.apply([*policy, *yaml.safe_load_all(dedent(LOW))])
    await nodes_ready(admin)
    await admin.apply(pod("keep", CPU, keep="true"))
    try:
        async with start_scheduler() as scheduler, admin.record("Pod") as recorder:
            await running(admin, ["keep"])
            await admin.apply(pod("other", CPU, "low"))
            await running(admin, ["other"])
            await wait_until(lambda: _refuses_marks(admin), what="the policy is in force")
            await admin.apply(pod("strong", CPU, "urgent"))
            await admin.wait_for("Pod", "strong", lambda p: p["status"].get("phase") == "Running", timeout=120)
            assert scheduler.process.returncode is None
    finally:
        for each in policy:
            await admin.delete(each["kind"], each["metadata"]["name"])
    assert {each["metadata"]["name"] for each in await admin.list("Pod")} == {"keep", "strong"}
    assert {change.name for change in recorder.changes if is_marked(change)} == {"other"}
    nominated = [c for c in recorder.changes if c.name == "strong" and c.object["status"].get("nominatedNodeName")]
    assert len({c.object["status"]["nominatedNodeName"] for c in nominated}) == 2


async def _refuses_marks(admin: Client) -> bool:
    """Return whether the policy is in force, which it is some time after it is there. Asked by a dry run."""
    mark = {"type": "gangsched.dev/EvictedFor", "status": "False", "reason": "Test", "message": ""}
    try:
        await admin.request(
            "PATCH",
            "/api/v1/namespaces/default/pods/keep/status",
            {"status": {"conditions": [mark]}},
            params={"dryRun": "All"},
            content_type="application/strategic-merge-patch+json",
        )
    except ApiError as error:
        return "not to be marked" in str(error)
    return False
