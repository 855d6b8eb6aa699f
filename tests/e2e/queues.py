"""Queue objects on a cluster, and what Jobs are told of them."""

from __future__ import annotations

import copy

from tests.controlplane.client import Client, Object, load, wait_until_served
from tests.controlplane.rbac import MANIFESTS

EXAMPLE = MANIFESTS.parent / "examples" / "quota-gpu"

GROUP = "kueue.x-k8s.io"


def example(name: str, teams: str = "team") -> list[Object]:
    """One file of the example; pods are quick to go. Namespaces cannot be used twice: the teams have other names."""
    found = load((EXAMPLE / name).read_text().replace("team-", f"{teams}-"))
    for each in found:
        if each["kind"] == "Job":
            each["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] = 2
    return found


async def install_queues(admin: Client, teams: str = "team") -> None:
    """The definitions of manifests/kueue, and the queues of the example once they are served."""
    definitions = load(MANIFESTS / "kueue" / "crds.yaml")
    await admin.apply(copy.deepcopy(definitions))
    await wait_until_served(admin, *(f"{GROUP}/v1beta1/{each['spec']['names']['kind']}" for each in definitions))
    await admin.apply(example("10-queues.yaml", teams))


async def ready(admin: Client, team: str) -> Object:
    """The team's Job once its pod runs."""
    return await admin.wait_for(
        "Job", f"{team}-job", lambda j: j.get("status", {}).get("ready", 0) == 1, namespace=team, timeout=60
    )


def conditions(job: Object, status: str) -> dict[str, str]:
    """Reasons of the Job's conditions with this status, by type."""
    return {c["type"]: c.get("reason", "") for c in job["status"].get("conditions", ()) if c["status"] == status}
