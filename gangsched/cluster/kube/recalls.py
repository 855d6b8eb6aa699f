"""Removals that are on their way, and those of them that are not wanted any more."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable

from gangsched.core.actions import Removal, Report, SetCondition, Write

#: Why a removal was not sent, or not repeated.
RECALLED = "the removal is not needed any more"


class OnItsWay:
    """A removal whose turn has come. ``unsure`` is True from the moment in which the bytes of an attempt leave until an
    answer says that it has had no effect.
    """

    def __init__(self) -> None:
        self.recalled = asyncio.Event()
        self.unsure = False


class Recalls:
    """Not thread-safe; belongs to the I/O loop."""

    def __init__(self) -> None:
        self._removals: dict[int, OnItsWay] = {}

    def begin(self, action: Write | SetCondition | Report) -> None:
        """The turn of this action has come; :meth:`end` must follow when it has been answered."""
        if isinstance(action, Removal):
            self._removals[action.id] = OnItsWay()

    def end(self, action: Write | SetCondition | Report) -> None:
        """It has been answered."""
        if isinstance(action, Removal):
            self._removals.pop(action.id, None)

    def of(self, action: Write | SetCondition | Report) -> OnItsWay | None:
        """What is known of a removal that is on its way; None for other actions."""
        return self._removals.get(action.id) if isinstance(action, Removal) else None

    def recall(self, ids: Iterable[int]) -> None:
        """Those of these removals that are on their way are not wanted any more."""
        for action_id in ids:
            if (removal := self._removals.get(action_id)) is not None:
                removal.recalled.set()

    def recalled(self, action: Write | SetCondition | Report) -> bool:
        """Is it a removal that is not wanted any more?"""
        removal = self.of(action)
        return removal is not None and removal.recalled.is_set()

    async def pause(self, action: Write | SetCondition | Report, seconds: float) -> None:
        """Wait before the next attempt, or until there is to be none."""
        removal = self.of(action)
        if removal is None:
            await asyncio.sleep(seconds)
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await removal.recalled.wait()
