"""What the page about hardening gives to apply, on a real API server."""

from __future__ import annotations

import re

import pytest

from tests.controlplane.client import ApiError, Client, Object, load, wait_until
from tests.pages import text_of

pytestmark = pytest.mark.controlplane


def _pod(name: str, key: str, namespace: str = "default") -> Object:
    """A pod that tolerates taints with this key."""
    spec = {
        "schedulerName": "none",
        "tolerations": [{"key": key, "operator": "Exists"}],
        "containers": [{"name": "main", "image": "example.com/app:1"}],
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": namespace}, "spec": spec}


async def test_the_policy_keeps_tenants_from_tolerating_held_nodes(admin: Client) -> None:
    """With the policy of the page, only pods of kube-system may tolerate the taint of held nodes."""
    (text,) = re.findall(r"```yaml\n(.*?)```", text_of("docs/hardening.md"), re.DOTALL)
    policy = load(text)
    await admin.apply(policy)

    async def refused() -> bool:
        """Return whether the policy is in force, which it is some time after it is there."""
        try:
            await admin.create(_pod("probe", "gangsched.dev/held"))
        except ApiError as error:
            return "only pods of kube-system may tolerate gangsched.dev/held" in str(error)
        await admin.delete("Pod", "probe", grace_seconds=0)
        return False

    try:
        await wait_until(refused, what="the policy is in force")
        await admin.create(_pod("other", "example.com/other"))
        await admin.create(_pod("system", "gangsched.dev/held", "kube-system"))
    finally:
        for each in policy:
            await admin.delete(each["kind"], each["metadata"]["name"])
        await admin.delete("Pod", "system", "kube-system", grace_seconds=0)
