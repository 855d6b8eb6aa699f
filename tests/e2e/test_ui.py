"""The page of a scheduler on a real API server: for those who may get it, and how it follows what happens."""

from __future__ import annotations

import re
import urllib.parse
from base64 import b64encode
from pathlib import Path

import aiohttp
import pytest

from tests.cli.on_a_cluster import page_of
from tests.controlplane.client import Client, load, wait_until
from tests.controlplane.plane import SCHEDULER_USER
from tests.controlplane.rbac import MANIFESTS, rebound
from tests.e2e.jobs import CLUSTER, job, template, urgent
from tests.e2e.scheduler import RunningScheduler
from tests.e2e.stories import Start, nodes_ready
from tests.e2e.tokens import token_of

pytestmark = pytest.mark.controlplane

COMPONENT = MANIFESTS / "components" / "authorized-metrics" / "rbac.yaml"


async def read(url: str, token: str = "", **fields: str) -> tuple[int, str]:
    """The status and the words of a page; with ``fields`` they are sent to it."""
    headers = {"Authorization": f"Basic {b64encode(f'me:{token}'.encode()).decode()}"} if token else {}
    async with aiohttp.ClientSession() as session:
        ask = session.post(url, data=fields, headers=headers) if fields else session.get(url, headers=headers)
        async with ask as answer:
            text = re.sub(r"<style.*?</style>|<[^>]*>", " ", await answer.text(), flags=re.DOTALL)
            return answer.status, " ".join(text.split())


async def says(url: str, token: str, *words: str) -> None:
    """The page has these words, now or soon: it is of some seconds ago."""
    found = ""

    async def there() -> bool:
        nonlocal found
        status, found = await read(url, token)
        return status == 200 and all(word in found for word in words)

    try:
        await wait_until(there, 60, f"{urllib.parse.urlsplit(url).path} says {words}", interval=0.5)
    except AssertionError as error:
        error.add_note(found)
        raise


async def test_the_page_shows_who_waits_and_who_was_evicted(
    admin: Client, start_scheduler: Start, scheduler_kubeconfig: Path, namespace: str
) -> None:
    """An account that may get /ui sees why a gang waits, then for whom pods were evicted, and plans a manifest that
    is not there afterwards; others are refused. A replica that stands by says who leads; `gangsched ui` shows the same.
    """
    role, delegator = (
        next(o for o in load(COMPONENT) if o["metadata"]["name"] == f"gangsched-{n}")
        for n in ("ui-reader", "auth-delegator")
    )
    subject = {"kind": "ServiceAccount", "name": "sre", "namespace": namespace}
    to = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role["metadata"]["name"]}
    bound = {**delegator, "metadata": {"name": f"sre-{namespace}"}, "roleRef": to, "subjects": [subject]}
    await admin.apply([*load(CLUSTER), rebound(delegator, SCHEDULER_USER), role, bound])
    token, other = [await token_of(admin, name, namespace) for name in ("sre", "other")]
    await nodes_ready(admin)
    http = {"authorize": True}
    try:
        async with start_scheduler(http=http) as leader:
            url = f"{leader.url}/ui"

            async def judged() -> bool:  # the API server of a busy machine does not answer in time
                return [(await read(url, each))[0] for each in (token, other, "made-up", "")] == [200, 403, 401, 401]

            await wait_until(judged, 60, "one account may see the page, another may not, and two are none")
            await admin.apply([job("train", template=template("1"), parallelism=8, completions=8, backoffLimit=20)])
            await admin.wait_for("Job", "train", lambda j: j.get("status", {}).get("ready", 0) == 8, timeout=60)
            too_large = [o for o in urgent("large") if o["kind"] != "PodGroup"]
            for each in too_large:
                each["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "5"
            await admin.apply([*(o for o in urgent("large") if o["kind"] == "PodGroup"), *too_large])
            await says(url, token, "large PodGroup Queued 0/2 1000", "never fits", "leads: this page is of the leader")
            await says(f"{url}/explain?namespace=default&name=large", token, "NEVER FITS", "gangsched explain large")
            await says(f"{url}/nodes", token, "2 nodes, 8 of 8 CPU used")
            pasted = {"manifest": PASTED}
            status, found = await read(f"{url}/plan", token, **pasted)
            assert (status, "PREEMPT 2 members can start after 8 pods are evicted" in found) == (200, True), found
            assert (await read(f"{url}/plan", other, **pasted))[0] in (403, 503)
            assert {j["metadata"]["name"] for j in await admin.list("Job", "default")} == {"train"}
            async with start_scheduler(http=http) as standby:
                await says(f"{standby.url}/ui", token, "This replica stands by:", " leads")
                await admin.apply(urgent("first"))
                await says(f"{url}/evictions", token, "Preempted", "default/train-", "gang default/first")
                await says(f"{standby.url}/ui/evictions", token, "gang default/first")
            await shown_to_people(scheduler_kubeconfig, leader)
    finally:
        for kind, name in (
            ("ClusterRoleBinding", bound["metadata"]["name"]),
            ("ClusterRoleBinding", delegator["metadata"]["name"]),
            ("ClusterRole", role["metadata"]["name"]),
        ):
            await admin.delete(kind, name)


async def shown_to_people(kubeconfig: Path, leader: RunningScheduler) -> None:
    """The same from the command, which follows the cluster and tries what would help."""
    async with page_of("--kubeconfig", str(kubeconfig)) as (url, secret):
        assert (await read(url))[0] == 403
        await says(url, secret, "large", "never fits", " leads since ")
        await says(f"{url}/evictions", secret, "gang default/first")
        await says(
            f"{url}/explain?namespace=default&name=large", secret, "NEVER FITS", "none of the changes that were tried"
        )


PASTED = """
apiVersion: scheduling.sigs.k8s.io/v1alpha1
kind: PodGroup
metadata: {name: pasted, namespace: default}
spec: {minMember: 2}
---
apiVersion: batch/v1
kind: Job
metadata: {name: pasted, namespace: default}
spec:
  parallelism: 2
  completions: 2
  template:
    metadata: {labels: {pod-group.scheduling.sigs.k8s.io: pasted}}
    spec:
      schedulerName: py-gang-scheduler
      priorityClassName: urgent
      containers: [{name: main, image: "example.com/app:1", resources: {requests: {cpu: "4"}}}]
"""
