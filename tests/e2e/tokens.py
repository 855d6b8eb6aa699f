"""Tokens of accounts, as pods have them."""

from __future__ import annotations

from tests.controlplane.client import Client


async def token_of(admin: Client, name: str, namespace: str) -> str:
    """A ServiceAccount, and a token of it as a pod would have."""
    await admin.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}}, namespace)
    asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token"
    answer = await admin.request("POST", path, asked)
    return str(answer["status"]["token"])
