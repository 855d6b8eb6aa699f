"""Put into the test cluster what a user would install: CRDs, and the rights of the scheduler, no more than those."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.controlplane.client import Client, Object, load, wait_until_served

MANIFESTS = Path(__file__).resolve().parents[2] / "manifests"


def manifest_objects(folder: Path = MANIFESTS) -> list[Object]:
    """Every object that `kubectl apply -k` would apply (of its patches and generators none are followed)."""
    kustomization = folder / "kustomization.yaml"
    if not kustomization.exists() and (folder / "base" / "kustomization.yaml").exists():
        return manifest_objects(folder / "base")
    if not kustomization.exists():
        return load(folder)
    objects = []
    for entry in load(kustomization)[0].get("resources", []):
        path = folder / entry
        objects += manifest_objects(path) if path.is_dir() else load(path)
    return objects


async def apply_manifests_crds(admin: Client) -> list[str]:
    """Install the CustomResourceDefinitions of manifests/ and wait until they are served; their names."""
    definitions = [thing for thing in manifest_objects() if thing["kind"] == "CustomResourceDefinition"]
    await admin.apply(definitions)
    kinds = []
    for definition in definitions:
        await admin.wait_for("CustomResourceDefinition", definition["metadata"]["name"], _established)
        served = [version["name"] for version in definition["spec"]["versions"] if version["served"]]
        kinds.append(f"{definition['spec']['group']}/{served[0]}/{definition['spec']['names']['kind']}")
    await wait_until_served(admin, *kinds)
    return [definition["metadata"]["name"] for definition in definitions]


def _established(definition: Object) -> bool:
    conditions = definition.get("status", {}).get("conditions") or []
    return any(each["type"] == "Established" and each["status"] == "True" for each in conditions)


async def apply_manifests_rbac(admin: Client, user: str) -> list[Object]:
    """Create the Roles and bindings of manifests/, bound to a user in the place of the ServiceAccount; the bindings.

    Other subjects (say, a group that may read metrics) are left as they are: they are not the scheduler.
    """
    objects = manifest_objects()
    roles = [thing for thing in objects if thing["kind"] in {"Role", "ClusterRole"}]
    bindings = [rebound(thing, user) for thing in objects if thing["kind"] in {"RoleBinding", "ClusterRoleBinding"}]
    namespaces = sorted(
        {thing["metadata"]["namespace"] for thing in (*roles, *bindings) if "namespace" in thing["metadata"]}
    )
    await admin.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in namespaces)
    await admin.apply(roles)
    return await admin.apply(bindings)


def rebound(binding: Object, user: str) -> Object:
    """A binding with a user in the place of each ServiceAccount."""

    def replaced(subject: dict[str, Any]) -> dict[str, Any]:
        if subject["kind"] != "ServiceAccount":
            return subject
        return {"kind": "User", "name": user, "apiGroup": "rbac.authorization.k8s.io"}

    return {**binding, "subjects": [replaced(subject) for subject in binding.get("subjects", [])]}
