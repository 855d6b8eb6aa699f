"""Metrics are for accounts that may get them, by what the real API server says of their tokens; probes are for all."""

from __future__ import annotations

import shutil
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest

from tests.controlplane import certificates
from tests.controlplane.client import Client, load, wait_until
from tests.controlplane.plane import SCHEDULER_USER
from tests.controlplane.rbac import MANIFESTS, rebound
from tests.e2e.scheduler import RunningScheduler, start_process
from tests.e2e.tokens import token_of

pytestmark = pytest.mark.controlplane

COMPONENT = MANIFESTS / "components" / "authorized-metrics" / "rbac.yaml"


class Port:
    """The port of a scheduler, asked by TLS."""

    def __init__(self, scheduler: RunningScheduler, authority: Path) -> None:
        self._url = scheduler.url.replace("http:", "https:")
        self._context = ssl.create_default_context(cafile=str(authority))

    async def get(self, path: str, token: str = "") -> tuple[int, str]:
        """Status and text."""
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        connector = aiohttp.TCPConnector(ssl=self._context)
        async with (
            aiohttp.ClientSession(connector=connector) as session,
            session.get(f"{self._url}{path}", headers=headers) as answer,
        ):
            return answer.status, await answer.text()

    async def ready(self) -> bool:
        """Whether /readyz says so, to whoever asks."""
        try:
            return (await self.get("/readyz"))[0] == 200
        except aiohttp.ClientError:
            return False


@asynccontextmanager
async def secured(kubeconfig: Path, folder: Path) -> AsyncIterator[Port]:
    """A scheduler with the option of the component, and a certificate for loopback in the place of its Secret."""
    files = certificates.create(folder / "made")
    secret = folder / "secret"
    secret.mkdir()
    shutil.copy(files.server, secret / "tls.crt")
    shutil.copy(files.server_key, secret / "tls.key")
    scheduler = await start_process(kubeconfig, folder, f"--tls={secret}")
    port = Port(scheduler, files.ca)
    try:
        await wait_until(port.ready, what="the scheduler is ready")
        yield port
    except BaseException as error:
        error.add_note(scheduler.log.read_text()[-4000:])
        raise
    finally:
        await scheduler.stop()


async def test_metrics_are_for_accounts_that_may_get_them(
    admin: Client, crds: list[str], scheduler_kubeconfig: Path, tmp_path: Path, namespace: str
) -> None:
    """With the rights of the component: one account is bound to the ClusterRole for metrics, the other is not, and a
    third request has no token. The configuration needs a right of its own.
    """
    objects = load(COMPONENT)
    delegator, reader = (next(o for o in objects if o["kind"] == k) for k in ("ClusterRoleBinding", "ClusterRole"))
    subject = {"kind": "ServiceAccount", "name": "prometheus", "namespace": namespace}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": reader["metadata"]["name"]}
    bound = {**delegator, "metadata": {"name": f"prometheus-{namespace}"}, "roleRef": role, "subjects": [subject]}
    allowed, other = [await token_of(admin, name, namespace) for name in ("prometheus", "other")]
    async with secured(scheduler_kubeconfig, tmp_path) as port:
        assert await port.get("/metrics", allowed) == (
            503,
            "the API server does not say who may read this; the scheduler's log has the reason\n",
        ), "without the right to ask"
        await admin.apply([rebound(delegator, SCHEDULER_USER), reader, bound])

        async def lets_in() -> bool:
            return (await port.get("/metrics", allowed))[0] == 200

        try:
            await wait_until(lets_in, what="metrics for the account that may get them")
            assert "gangsched_leader" in (await port.get("/metrics", allowed))[1]
            assert (await port.get("/metrics", other))[0] == 403
            assert (await port.get("/metrics"))[0] == 401
            assert (await port.get("/metrics", f"{other}x"))[0] == 401
            assert (await port.get("/configz", allowed))[0] == 403
            assert [(await port.get(path))[0] for path in ("/healthz", "/livez", "/readyz")] == [200] * 3
        finally:
            for kind, name in (
                ("ClusterRoleBinding", f"prometheus-{namespace}"),
                ("ClusterRoleBinding", delegator["metadata"]["name"]),
                ("ClusterRole", reader["metadata"]["name"]),
            ):
                await admin.delete(kind, name)
