"""Fixtures for tests with the whole scheduler on a real control plane."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest

from tests.controlplane.client import Client
from tests.e2e.scheduler import RunningScheduler, running_scheduler


@pytest.fixture
async def start_scheduler(
    admin: Client, crds: list[str], scheduler_kubeconfig: Path, tmp_path: Path
) -> Callable[..., AbstractAsyncContextManager[RunningScheduler]]:
    """Run the scheduler while a block lasts, with sections of its configuration as keywords."""

    def start(*arguments: str, **settings: Any) -> AbstractAsyncContextManager[RunningScheduler]:
        return running_scheduler(scheduler_kubeconfig, tmp_path, *arguments, **settings)

    return start
