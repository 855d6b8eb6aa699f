"""Fixtures for tests with the whole scheduler on a real control plane."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest

from tests.controlplane.client import Client
from tests.controlplane.jobsets import DEFINITION, jobset_controller, serve_jobsets
from tests.e2e.scheduler import RunningScheduler, running_scheduler


@pytest.fixture
async def start_scheduler(
    admin: Client, crds: list[str], scheduler_kubeconfig: Path, tmp_path: Path
) -> Callable[..., AbstractAsyncContextManager[RunningScheduler]]:
    """Run the scheduler while a block lasts, with sections of its configuration as keywords."""

    def start(*arguments: str, **settings: Any) -> AbstractAsyncContextManager[RunningScheduler]:
        return running_scheduler(scheduler_kubeconfig, tmp_path, *arguments, **settings)

    return start


@pytest.fixture
async def jobsets(admin: Client) -> AsyncIterator[None]:
    """The kind is served, and its controller's stand-in works."""
    await serve_jobsets(admin)
    async with jobset_controller(admin):
        yield
    await admin.delete("CustomResourceDefinition", DEFINITION["metadata"]["name"])
