"""An admission policy of the real API server refuses to remove a pod: others are found, and none is evicted in vain."""

from __future__ import annotations

from textwrap import dedent

import pytest
import yaml

from tests.controlplane.client import ApiError, Client, Object, load, wait_until
from tests.e2e.jobs import CLUSTER, template
from tests.e2e.stories import Start, is_marked, nodes_ready, running

pytestmark = pytest.mark.controlplane

POLICY = """
    apiVersion: admissionregistration.k8s.io/v1
    kind: ValidatingAdmissionPolicy
    metadata: {name: keep}
    spec:
      failurePolicy: Fail
      matchConstraints:
        resourceRules:
        - {apiGroups: [""], apiVersions: [v1], operations: [DELETE], resources: [pods]}
        objectSelector: {matchLabels: {keep: "true"}}
      validations:
      - {expression: "false", message: it is to be kept}
    ---
    apiVersion: admissionregistration.k8s.io/v1
    kind: ValidatingAdmissionPolicyBinding
    metadata: {name: keep}
    spec: {policyName: keep, validationActions: [Deny]}
    ---
    apiVersion: scheduling.k8s.io/v1
    kind: PriorityClass
    metadata: {name: low}
    value: 10
"""


def pod(name: str, cpu: str, class_name: str = "", **labels: str) -> Object:
    """A pod of this scheduler."""
    made = {"apiVersion": "v1", "kind": "Pod", **template(cpu)}
    made["metadata"] |= {"name": name, "namespace": "default", "labels": labels}
    if class_name:
        made["spec"]["priorityClassName"] = class_name
    return made


async def test_a_pod_that_a_policy_keeps_is_tried_once(admin: Client, start_scheduler: Start) -> None:
    """`keep` is the least harm, so it is chosen first; when that is refused the gang takes the other node."""
    await admin.apply(load(CLUSTER))
    made = list(yaml.safe_load_all(dedent(POLICY)))
    await admin.apply(made)
    await nodes_ready(admin)
    await admin.apply(pod("keep", "4", keep="true"))

    async def kept() -> bool:
        """Return whether the policy is in force, which it is some time after it is there."""
        probe = pod("probe", "4", keep="true")
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
            await admin.apply(pod("other", "4", "low"))
            await running(admin, ["other"])
            await admin.apply(pod("strong", "4", "urgent"))
            await admin.wait_for("Pod", "strong", lambda p: p["status"].get("phase") == "Running", timeout=120)
            names = {each["metadata"]["name"] for each in await admin.list("Pod")}
    finally:
        for each in made:
            await admin.delete(each["kind"], each["metadata"]["name"])
        await wait_until(not_kept, what="the policy is not in force any more")
    assert names == {"keep", "probe", "strong"}
    marked = [change.name for change in recorder.changes if is_marked(change)]
    assert marked[0] == "keep"
    assert set(marked) == {"keep", "other"}
