"""Watches go on soon after the server is back, however long it was away."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import cast

import pytest

from gangsched.cluster.kinds import CORE_KINDS
from gangsched.cluster.kube import reflector
from gangsched.cluster.kube.client import ApiError, Client, ListMeta, Page, UnreachableError
from gangsched.cluster.kube.reflector import Reflector
from gangsched.cluster.kube.retry import Backoff
from gangsched.model.convert import Converter
from tests.controlplane.client import wait_until

AWAY = UnreachableError("connection refused")
STARTS = ApiError(503, "ServiceUnavailable", "starting")


class Server:
    """As much of a client as a reflector needs: an empty list, watches that fail so, and one that stays."""

    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)
        self.back = asyncio.Event()

    async def list_pages(self, *_: object) -> AsyncIterator[Page]:
        """One page without objects."""
        yield Page(ListMeta(resource_version="7"), b'{"kind":"PodList","metadata":{"resourceVersion":"7"},"items":[]}')

    async def watch_lines(self, *_: object, **__: object) -> AsyncIterator[list[bytes]]:
        """It is accepted when the server is there again."""
        if self.errors:
            raise self.errors.pop(0)
        self.back.set()
        yield []
        await asyncio.Event().wait()


@pytest.mark.parametrize(
    "errors",
    [[AWAY] * 40, [AWAY] * 40 + [STARTS] * 3, [AWAY, STARTS] * 3],
    ids=["away", "away for long, then starting", "in turns"],
)
async def test_a_watch_goes_on_soon_after_the_server_is_back(
    errors: list[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pods that are created then are not seen before. An absence of minutes makes no pause of half a minute."""
    asked: list[float] = []

    class Quick(Backoff):
        """Tells what it would wait for, and waits for nothing."""

        def next_seconds(self, at_least: float | None = None) -> float:
            asked.append(super().next_seconds(at_least))
            return 0.0

    monkeypatch.setattr(reflector, "Backoff", Quick)
    kind = next(each for each in CORE_KINDS if each.name == "Pod")
    server = Server(*errors)
    running = asyncio.create_task(Reflector(kind, cast("Client", server), Converter(), lambda _: None).run())
    await wait_until(server.back.is_set)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert len(asked) == len(errors)
    assert max(asked) <= reflector.UNREACHABLE_SECONDS
