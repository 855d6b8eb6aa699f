"""Blocks: what may be taken together, and what singly.

A *block* is everything that may be taken of one gang (of one GangGroup, of one Job that would end): single pods up to a
limit per gang, or the whole, everywhere in the cluster.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np

from gangsched.core.arrays import Ints
from gangsched.core.decision import UnitRef
from gangsched.core.options import Options
from gangsched.core.preemption.owners import Ending
from gangsched.model.records import SINGLE, Gang, GangId

OFF, MINIMAL, ATOMIC, ELASTIC = "off", "minimal", "atomic", "elastic"


NO_SLOTS: Ints = np.zeros(0, dtype=np.int64)


def by_key(gang: GangId) -> tuple[str, str, str, str]:
    """To sort gangs by."""
    return gang.namespace, gang.name, gang.family, gang.scheduler


class Part(msgspec.Struct):
    """One gang inside a block, or the pods of one Job that are in no gang (``gang`` is then that of the first of them).

    ``bound`` are the slots of its bound, live pods; ``single`` those of them that may be taken one by one, at
    most ``limit`` of them; ``minimum`` is its min_member. ``counts`` is False where groups are ignored, and of a Job.
    """

    gang: GangId
    ref: UnitRef
    bound: list[int]
    single: list[int]
    limit: int
    minimum: int
    counts: bool = True

    @property
    def grouped(self) -> bool:
        """Are its pods members of a gang?"""
        return self.gang.family != SINGLE


class Block(msgspec.Struct):
    """What may be taken together. ``whole`` are all its slots, or empty when it cannot be taken whole.

    ``number`` is its own among all blocks; ``priority`` is that of the whole unit; ``ref`` names the whole unit. Blocks
    are shared by decisions and not changed.
    """

    number: int
    ref: UnitRef
    parts: list[Part]
    whole: list[int]
    priority: int
    array: Ints  # ``whole`` again, for array operations
    gangs: Ints | None = None  # numbers of the gangs of its pods; None where that is ``number`` alone
    interrupts: int = 0  # gangs that are interrupted when it leaves whole

    def __post_init__(self) -> None:
        if any(len(part.bound) > part.limit for part in self.parts):
            self.interrupts = sum(part.counts for part in self.parts)

    @property
    def singles(self) -> list[int]:
        """Slots that may be taken one by one (each part up to its limit)."""
        return [s for part in self.parts for s in part.single]


class Known(msgspec.Struct):
    """The block of a gang all of whose live pods may be taken, as it was made from these settings, this group and these
    Jobs.
    """

    options: Options
    spec: Gang | None
    block: Block
    endings: tuple[Ending, ...] = ()


def mode_of(spec: Gang | None, options: Options) -> str:
    """How a gang may be taken apart: its own wish, as far as the options heed it, or what they say for all."""
    mode = options.gang_mode
    if spec is not None and spec.disruption == "gang":
        return ATOMIC
    if spec is not None and spec.disruption == "pod" and options.pod_disruption_mode == "honor":
        return OFF if mode == OFF else MINIMAL
    return mode


def ref_of(parts: Sequence[Part]) -> UnitRef:
    """The unit that these parts are."""
    if len(parts) == 1:
        return parts[0].ref
    return UnitRef("GangGroup", ",".join(p.ref.name for p in parts))
