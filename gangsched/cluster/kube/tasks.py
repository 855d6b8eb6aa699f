"""Ending tasks for certain."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

#: A task that has not ended by then is cancelled once more.
AGAIN_SECONDS = 1.0


async def end(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Cancel these tasks and wait until all of them have ended; what they raise is dropped.

    A cancellation can be lost on its way: a TaskGroup of Python 3.11, a ``gather`` or a library that turns whatever it
    meets into an error of its own raises that instead, and a loop that tries again after errors goes on. Waiting for
    such a task would last for ever, and with it the end of the process; so it is cancelled until it obeys.
    """
    all_of_them = set(tasks)
    left = {task for task in all_of_them if not task.done()}
    cancelled: asyncio.CancelledError | None = None
    while left:
        for task in left:
            task.cancel()
        try:
            _, left = await asyncio.wait(left, timeout=AGAIN_SECONDS)
        except asyncio.CancelledError as error:  # the caller has given up waiting: so do we, but no caller is left
            cancelled = error
            left = {task for task in left if not task.done()}
    for task in all_of_them:
        if not task.cancelled():
            task.exception()  # so that asyncio does not warn of an exception never retrieved
    if cancelled is not None:
        raise cancelled
