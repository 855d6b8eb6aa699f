"""Replicas of the scheduler that are killed, stopped, frozen and started again."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import aiohttp
import yaml

from tests.controlplane.client import wait_until
from tests.e2e.scheduler import configuration, free_port
from tests.resilience import evidence

LEASE_SECONDS, RENEW_SECONDS, REQUEST_SECONDS = 2.0, 1.2, 0.7
#: A lease that passes soon; a request has to fit between the renew deadline and the lease.
QUICK = {
    "leaderElection": {"leaseDuration": "2s", "renewDeadline": "1200ms", "retryPeriod": "300ms"},
    "clientConnection": {"qps": 1000, "burst": 2000, "requestTimeout": "700ms"},
    "logging": {"format": "json", "level": "info"},
}
_ROOT = Path(__file__).resolve().parents[2]


class Replica:
    """One process; ``tag`` is how the audit log calls it. What it has said about its lease is read from its log.

    ``evidence`` is the file in which it writes down what it knew and did.
    """

    def __init__(self, tag: str, kubeconfig: Path, folder: Path, settings: dict[str, Any]) -> None:
        self.tag = tag
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        self.log = folder / f"{tag}.log"
        self.evidence = folder / f"{tag}.evidence"
        config = folder / f"{tag}.yaml"
        config.write_text(yaml.safe_dump(configuration(port, settings)))
        self._command = ["run", "--kubeconfig", str(kubeconfig), "--config", str(config)]
        self.process: asyncio.subprocess.Process | None = None

    async def prepare(self) -> None:
        """Start the process; it reads its modules and waits for :meth:`go`."""
        with self.log.open("wb") as out:
            self.process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "tests.resilience.child",
                self.tag,
                *self._command,
                stdin=asyncio.subprocess.PIPE,
                stdout=out,
                stderr=out,
                cwd=_ROOT,
                env={**os.environ, "PYTHONUNBUFFERED": "1", evidence.VARIABLE: str(self.evidence)},
            )

    def go(self) -> None:
        """Let it begin."""
        assert self.process is not None
        assert self.process.stdin is not None
        self.process.stdin.write(b"\n")

    @property
    def pid(self) -> int:
        """Of the process, which must have been started."""
        assert self.process is not None
        return self.process.pid

    @property
    def alive(self) -> bool:
        """Started, and not ended."""
        return self.process is not None and self.process.returncode is None

    @property
    def leads(self) -> bool:
        """As its log says."""
        text = self.log.read_text(errors="replace")
        return text.rfind('"leading"') > text.rfind('"no longer leading"')

    @property
    def warm(self) -> bool:
        """Has it listed everything?"""
        return '"all caches have been listed"' in self.log.read_text(errors="replace")

    def check(self) -> None:
        """Raises AssertionError with the end of the log when the process has ended by itself."""
        if not self.alive:
            code = self.process.returncode if self.process is not None else None
            raise AssertionError(f"{self.tag} ended with {code}:\n{self.log.read_text(errors='replace')[-3000:]}")

    async def until_leads(self, seconds: float = 60.0) -> float:
        """Wait until it says that it leads; when that was noticed, seconds since the epoch."""

        def leads() -> bool:
            self.check()
            return self.leads

        await wait_until(leads, seconds, f"{self.tag} leads", 0.02)
        return time.time()

    async def until_warm(self, seconds: float = 60.0) -> None:
        """Wait until its caches are complete."""

        def warm() -> bool:
            self.check()
            return self.warm

        await wait_until(warm, seconds, f"{self.tag} is warm", 0.05)

    async def answers(self, path: str) -> tuple[int, str]:
        """Status and body of one of its own pages; 0 without an answer."""
        limit = aiohttp.ClientTimeout(total=5.0)
        try:
            async with aiohttp.ClientSession(timeout=limit) as session, session.get(self.url + path) as response:
                return response.status, await response.text()
        except (aiohttp.ClientError, TimeoutError):
            return 0, ""

    def send(self, number: signal.Signals) -> float:
        """Send a signal; when, in seconds since the epoch."""
        os.kill(self.pid, number)
        return time.time()

    async def kill(self) -> float:
        """SIGKILL; when, in seconds since the epoch."""
        assert self.process is not None
        at = time.time()
        if self.alive:
            self.process.kill()
            await self.process.wait()
        return at

    async def stop(self) -> float:
        """SIGTERM, and wait for a clean end; when it was sent, in seconds since the epoch."""
        assert self.process is not None
        at = self.send(signal.SIGTERM)
        code = await asyncio.wait_for(self.process.wait(), 30.0)
        assert code == 0, f"{self.tag} ended with {code}:\n{self.log.read_text(errors='replace')[-3000:]}"
        return at
