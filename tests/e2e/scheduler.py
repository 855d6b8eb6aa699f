"""The scheduler as its users start it: a process of its own, with the rights of manifests/ and nothing else."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import yaml

from tests.controlplane.client import LIMIT_SECONDS, wait_until
from tests.forked import gangsched

#: A process that compiles its modules first on a busy machine takes long.
READY_SECONDS = 120.0


def free_port() -> int:
    """A port of the loopback interface that nothing listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class RunningScheduler:
    """One `gangsched run` process; `log` is the file that it writes to."""

    def __init__(self, process: asyncio.subprocess.Process, port: int, log: Path) -> None:
        self.process = process
        self.url = f"http://127.0.0.1:{port}"
        self.log = log

    async def ready(self) -> bool:
        """Whether /readyz says so; an AssertionError with the log when the process has ended."""
        if self.process.returncode is not None:
            raise AssertionError(f"the scheduler ended with {self.process.returncode}:\n{self.log.read_text()[-4000:]}")
        try:
            async with aiohttp.ClientSession() as session, session.get(f"{self.url}/readyz") as response:
                return response.status == 200
        except aiohttp.ClientError:
            return False

    async def metrics(self) -> str:
        """The text of /metrics."""
        async with aiohttp.ClientSession() as session, session.get(f"{self.url}/metrics") as response:
            return await response.text()

    async def stop(self) -> int:
        """SIGTERM, and how the process ended; where it does not end, its log says what each thread does."""
        if self.process.returncode is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            return await asyncio.wait_for(self.process.wait(), LIMIT_SECONDS)
        except TimeoutError:
            self.process.send_signal(signal.SIGABRT)
            await self.process.wait()
            raise


def configuration(port: int, settings: dict[str, Any]) -> dict[str, Any]:
    """A configuration for tests: fast enough not to be the bottleneck, otherwise the defaults."""
    base: dict[str, Any] = {
        "apiVersion": "gangsched.dev/v1alpha1",
        "kind": "GangSchedulerConfiguration",
        "clientConnection": {"qps": 1000, "burst": 2000},
        "http": {"bindAddress": "127.0.0.1", "port": port},
        "logging": {"format": "json", "level": "debug"},
    }
    for section, values in settings.items():
        base[section] = {**base[section], **values} if isinstance(base.get(section), dict) else values
    return base


async def start_process(
    kubeconfig: Path, folder: Path, *arguments: str, tree: Path | None = None, **settings: Any
) -> RunningScheduler:
    """Start the scheduler with these settings (sections of the configuration); whoever does has to end it. ``tree`` has
    the package of another build, which is imported anew.
    """
    port = free_port()
    config = folder / f"config-{port}.yaml"
    config.write_text(yaml.safe_dump(configuration(port, settings)))
    log = folder / f"scheduler-{port}.log"
    with log.open("wb") as out:
        process = await asyncio.create_subprocess_exec(
            *((sys.executable, "-m", "gangsched.cli.main") if tree else gangsched()),
            "run",
            "--kubeconfig",
            str(kubeconfig),
            "--config",
            str(config),
            *arguments,
            stdout=out,
            stderr=out,
            cwd=tree,
            env={
                **os.environ,
                "PYTHONUNBUFFERED": "1",
                "PYTHONFAULTHANDLER": "1",
                **({"PYTHONPATH": str(tree)} if tree else {}),
            },
        )
    return RunningScheduler(process, port, log)


@asynccontextmanager
async def running_scheduler(
    kubeconfig: Path, folder: Path, *arguments: str, **settings: Any
) -> AsyncIterator[RunningScheduler]:
    """Start the scheduler with these settings (sections of the configuration) and wait until it is ready.

    It is stopped at the end. When the block fails, the end of its log becomes a note of the exception.
    """
    scheduler = await start_process(kubeconfig, folder, *arguments, **settings)
    process, log = scheduler.process, scheduler.log
    try:
        await wait_until(scheduler.ready, READY_SECONDS, what="the scheduler is ready")
        yield scheduler
        code = await scheduler.stop()
        assert code == 0, f"the scheduler ended with {code}"
    except BaseException as error:
        error.add_note(f"end of the scheduler's log:\n{log.read_text()[-6000:]}")
        raise
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
