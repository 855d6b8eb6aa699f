"""People with one role, and nothing else, on a real API server."""

from __future__ import annotations

from pathlib import Path

import yaml

from tests.controlplane.client import Client
from tests.controlplane.plane import ControlPlane

BINDING = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding"}
REFERENCE = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole"}


async def person(
    admin: Client, namespace: str, role: str, plane: ControlPlane, folder: Path, *, here: bool = False
) -> Path:
    """The kubeconfig of somebody who has this ClusterRole and no other; ``here``: in this namespace only."""
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": role}}
    await admin.create(account, namespace)
    subject = {"kind": "ServiceAccount", "name": role, "namespace": namespace}
    bound = {"metadata": {"name": f"{namespace}-{role}"}, "roleRef": {**REFERENCE, "name": role}, "subjects": [subject]}
    if here:
        await admin.create({**BINDING, "kind": "RoleBinding", **bound}, namespace)
    else:
        await admin.create({**BINDING, **bound})
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{role}/token"
    answer = await admin.request("POST", path, {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest"})
    content = yaml.safe_load(plane.admin_kubeconfig.read_text())
    content["users"][0]["user"] = {"token": answer["status"]["token"]}
    found = folder / f"{role}.kubeconfig"
    found.write_text(yaml.safe_dump(content))
    return found
