"""Compares all that the core keeps incrementally with the same built from scratch."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from gangsched.core.actions import Action
from gangsched.core.options import Options
from gangsched.core.scheduler import Scheduler
from gangsched.core.world.world import World
from tests.verify import devices, gangs, intent, nodes, quota, storage, waiting

_OF_THE_WORLD: tuple[Callable[[World], Iterator[str]], ...] = (
    nodes.nodes,
    nodes.table,
    nodes.terms,
    nodes.images,
    nodes.selectors,
    gangs.membership,
    gangs.ownership,
    gangs.jobs,
    gangs.surroundings,
    storage.volumes,
    devices.devices,
    quota.quota,
)
_OF_THE_CORE: tuple[Callable[[Scheduler], Iterator[str]], ...] = (
    waiting.queue,
    waiting.asleep,
    waiting.agenda,
    intent.ledger,
    intent.condemned,
    intent.holding,
)
#: Batches after which a core is verified: the first ones, and then every so many.
_FIRST, _EVERY = (1, 2, 4, 8, 16), 25


class DriftError(AssertionError):
    """Something that is kept incrementally is not what it is from scratch."""


def drifts(core: Scheduler) -> list[str]:
    """Return what differs from the same state built from scratch, in words; the first word names the structure."""
    out = [text for check in _OF_THE_WORLD for text in check(core.world)]
    return out + [text for check in _OF_THE_CORE for text in check(core)]


def verify(core: Scheduler) -> None:
    """Raise :class:`DriftError` if anything differs."""
    found = drifts(core)
    if found:
        raise DriftError("\n".join(found))


class Verified(Scheduler):
    """A scheduler that is verified after every so many batches."""

    def __init__(self, options: Options, every: int = 1) -> None:
        super().__init__(options)
        self._every = every
        self._batches = 0

    def _settled(self) -> list[Action]:
        out = super()._settled()
        self._batches += 1
        if self._batches % self._every == 0:
            verify(self)
        return out


def verify_all(patch: pytest.MonkeyPatch, every: int = _EVERY) -> None:
    """Verify every scheduler of this process from now on: after its first batches, and then after every so many."""
    settled = Scheduler._settled

    def _settled(core: Scheduler) -> list[Action]:
        out = settled(core)
        count: int = core.__dict__.get("_verified_batches", 0) + 1
        core.__dict__["_verified_batches"] = count
        if count in _FIRST or count % every == 0:
            verify(core)
        return out

    patch.setattr(Scheduler, "_settled", _settled)
