"""What stands between a former leader and the cluster: every write has a condition, a deadline and a fence."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from typing import cast

import pytest

from gangsched.cluster.kube.bodies import remove_request
from gangsched.cluster.kube.client import Client
from gangsched.cluster.kube.retry import TokenBucket
from gangsched.cluster.kube.statuses import Statuses
from gangsched.cluster.kube.writer import MIN_ATTEMPT_SECONDS, Writer, WriteSettings
from gangsched.core.actions import (
    AskRemoval,
    Bind,
    JobStatus,
    Mark,
    Nominate,
    PodRef,
    PodWrite,
    Remove,
    Unmark,
    WithdrawNomination,
)
from gangsched.core.events import Event, Outcome, WriteDone
from tests.cluster.kube.made import request_of

POD = PodRef("default", "a", "uid-of-a")
WRITES: list[PodWrite] = [
    Bind(1, POD, "node-0"),
    Nominate(1, POD, "node-0", "1-1", "plan 1-1"),
    WithdrawNomination(1, POD, "Withdrawn", "over"),
    Mark(1, POD, "mark"),
    Unmark(1, POD, "no longer"),
    Remove(1, POD),
    Remove(1, POD, evict=True, mark="mark"),
    AskRemoval(1, POD),
    AskRemoval(1, POD, evict=True),
]


@pytest.mark.parametrize("action", WRITES, ids=lambda a: f"{type(a).__name__}{'-evict' * getattr(a, 'evict', False)}")
def test_every_write_to_a_pod_names_the_uid_that_it_means(action: PodWrite) -> None:
    """Where the API takes it as a condition: a precondition of a removal, the metadata of everything else."""
    body = json.loads(request_of(action).body)
    if isinstance(action, Remove | AskRemoval):
        options = body["deleteOptions"] if action.evict else body
        assert options["preconditions"] == {"uid": "uid-of-a"}
        assert options.get("dryRun") == (["All"] if isinstance(action, AskRemoval) else None)
    else:
        assert body["metadata"]["uid"] == "uid-of-a"


@pytest.mark.parametrize("evict", [False, True])
def test_a_removal_names_the_version_that_bears_its_mark(*, evict: bool) -> None:
    """So the API server refuses it once the mark has been taken back."""
    body = json.loads(remove_request(Remove(1, POD, evict, "m"), "7").body)
    assert body.get("deleteOptions", body)["preconditions"] == {"uid": POD.uid, "resourceVersion": "7"}


class Server:
    """As much of a client as the writer needs; it remembers the deadlines of attempts."""

    def __init__(self) -> None:
        self.bucket = TokenBucket(1000.0, 1000)
        self.timeouts: list[float] = []
        self.fences: list[Callable[[], float]] = []

    async def attempt(
        self, *_: object, timeout_seconds: float, server_timeout: bool, fence: Callable[[], float], **__: object
    ) -> bytes:
        """Succeeds."""
        assert server_timeout
        self.fences.append(fence)
        self.timeouts.append(timeout_seconds)
        return b"{}"


async def write(fence_seconds: float, timeout_seconds: float) -> tuple[Server, WriteDone]:
    """One binding with the fence so far away; what the server saw, and the answer."""
    server, answers = Server(), asyncio.Queue[Event]()
    until = time.monotonic() + fence_seconds
    writer = Writer(
        cast("Client", server),
        lambda events: answers.put_nowait(events[0]),
        now=lambda: 0.0,
        fence=lambda: until,
        controller="c",
        instance="i",
        settings=WriteSettings(timeout_seconds=timeout_seconds),
    )
    task = asyncio.create_task(writer.run())
    writer.submit([Bind(1, POD, "node-0")])
    answer = await asyncio.wait_for(answers.get(), 10.0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert isinstance(answer, WriteDone)
    return server, answer


@pytest.mark.parametrize("fence_seconds", [-1.0, MIN_ATTEMPT_SECONDS / 2])
async def test_nothing_is_written_behind_the_fence(fence_seconds: float) -> None:
    """A leader whose time is over, or nearly, sends nothing and says so."""
    server, answer = await write(fence_seconds, 2.0)
    assert server.timeouts == []
    assert answer == WriteDone(1, Outcome.TRANSIENT, "not the leader (any more)")


async def test_no_status_is_written_behind_the_fence() -> None:
    """It has its turn again when the lease has been renewed."""
    server, until, again = Server(), [time.monotonic()], asyncio.Queue[Callable[[], None]]()

    def later(_: float, call: Callable[[], None]) -> asyncio.TimerHandle:
        again.put_nowait(call)
        return asyncio.get_running_loop().call_later(60.0, str)

    statuses = Statuses(call_later=later)
    writer = Writer(
        cast("Client", server),
        lambda _: None,
        now=lambda: 0.0,
        fence=lambda: until[0],
        controller="c",
        instance="i",
        statuses=statuses,
        settings=WriteSettings(kept_back_seconds=0.0, calm_seconds=0.0),
    )
    task = asyncio.create_task(writer.run())
    writer.submit([JobStatus("batch", "ns", "j", "uid", {"conditions": ()}, "jobs")])
    look_again = await asyncio.wait_for(again.get(), 10.0)
    assert server.timeouts == []
    until[0] += 600.0
    look_again()
    writer.look_at_statuses()
    for _ in range(50):
        await asyncio.sleep(0)
    assert server.timeouts
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_a_write_ends_before_the_fence() -> None:
    """Its deadline, here and on the server, is that of the leader if its own is later."""
    server, answer = await write(fence_seconds=5.0, timeout_seconds=60.0)
    assert answer == WriteDone(1, Outcome.OK)
    [timeout] = server.timeouts
    assert 0 < timeout <= 5.0
    server, _ = await write(fence_seconds=600.0, timeout_seconds=0.7)
    assert server.timeouts == [0.7]


async def test_the_fence_goes_with_the_write() -> None:
    """What sends the bytes asks the fence itself, which may have come nearer or have been taken away meanwhile."""
    server, _ = await write(fence_seconds=5.0, timeout_seconds=60.0)
    [fence] = server.fences
    assert 0 < fence() - time.monotonic() <= 5.0
