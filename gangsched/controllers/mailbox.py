"""Keys that need work, handed from any thread to one event loop; each is in it at most once."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Hashable
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)


class Mailbox(Generic[Key]):
    """Coalesces: a key that is put again before it was taken is taken once.

    ``put`` may be called from any thread, before and after the reader's loop runs; ``wait`` and ``take`` belong to
    the one loop that was given to :meth:`attach`.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._keys: dict[Key, None] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._news: asyncio.Event | None = None

    def attach(self) -> None:
        """The running event loop is the reader."""
        with self._lock:
            self._loop, self._news = asyncio.get_running_loop(), asyncio.Event()
            if self._keys:
                self._news.set()

    def detach(self) -> None:
        """The reader is gone; keys are kept for the next one."""
        with self._lock:
            self._loop = self._news = None

    def put(self, key: Key) -> None:
        """Ask for work on a key."""
        with self._lock:
            fresh = not self._keys
            self._keys[key] = None
            if fresh and self._loop is not None and self._news is not None:
                self._loop.call_soon_threadsafe(self._news.set)

    async def wait(self) -> None:
        """Return when there is at least one key."""
        assert self._news is not None, "attach() comes first"
        await self._news.wait()

    def take(self) -> list[Key]:
        """All keys, oldest first; the mailbox is empty afterwards."""
        with self._lock:
            keys = list(self._keys)
            self._keys.clear()
            if self._news is not None:
                self._news.clear()
            return keys
