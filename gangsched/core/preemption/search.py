"""The state of one search: what is taken, whether the gang fits, what it costs, what was spent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
import numpy as np

from gangsched.core.planning.watchdog import Watchdog
from gangsched.core.preemption.budgets import Budgets
from gangsched.core.preemption.fit import Fit
from gangsched.core.preemption.harm import Harm, harm, share_of
from gangsched.core.preemption.units import Block, Units
from gangsched.core.state.snapshot import Floats, Ints


class Item(msgspec.Struct, frozen=True):
    """Something that is taken or given back at once: a whole block (``single`` = -1), or one pod."""

    block: Block
    level: int
    slots: tuple[int, ...]
    size: float
    work: float
    name: str
    single: int = -1


#: A step is one look at the cluster; looking at more pods than this at once counts as more steps.
PODS_PER_STEP = 400


class SearchState:
    """``fit`` is a simulated cluster with nothing taken; ``max_steps`` and the ``watchdog`` bound the search."""

    def __init__(
        self,
        units: Units,
        fit: Fit,
        budgets: Budgets,
        cluster: Mapping[str, float],
        now: float,
        max_steps: int,
        watchdog: Watchdog,
    ) -> None:
        self.units = units
        self.budgets = budgets
        self.cluster = cluster
        self.now = now
        self.max_steps = max_steps
        self._watchdog = watchdog
        self.steps = 0
        self.stopped = False
        self.fit = fit
        self.taken: set[int] = set()
        self._wholes: dict[int, Item] = {}
        self._sizes, self._works = self._columns()

    def _columns(self) -> tuple[Floats, Floats]:
        """Per slot: the share of the cluster that the pod holds, and the work that would be lost with it."""
        table = self.units.snapshot.table
        shares = np.array([share_of(shape.requests, self.cluster) for shape in self.units.snapshot.shapes])
        sizes = shares[table.shape[: table.size]] if len(shares) else np.zeros(table.size)
        return sizes, sizes * np.maximum(0.0, self.now - table.started[: table.size])

    def _spend(self, steps: int) -> bool:
        self.steps += steps
        return not self._exhausted()

    def _spent(self) -> int:
        return self.steps + self.fit.steps

    def _left(self) -> int:
        """Steps that may still be spent."""
        return max(0, self.max_steps - self._spent())

    def _gains(self, options: Sequence[Ints]) -> Floats:
        """By how much taking each option alone would reduce the shortfall, as far as the budget lets one look."""
        self.steps += 1 + sum(map(len, options)) // PODS_PER_STEP
        return self.fit.gains(options, self._left())

    def _everything(self) -> tuple[Ints, Ints]:
        """``(slots, levels)``: all that may leave at first, and the priority that each counts under."""
        blocks, priority = self.units.blocks, self.units.snapshot.table.priority
        wholes = [b for b in blocks if b.whole]
        singles: Ints = np.array([s for b in blocks if not b.whole for s in self.surplus(b)], dtype=np.int64)
        singles = np.concatenate([singles, self.units.loose])
        slots = np.concatenate([*(b.array for b in wholes), singles])
        levels = np.repeat([b.priority for b in wholes] or [0], [len(b.array) for b in wholes] or [0])
        return slots, np.concatenate([levels, priority[singles]])

    def _taken_items(self) -> list[Item]:
        """What of the blocks is taken: whole blocks, and single pods of others."""
        wholes = [b for b in self.units.blocks if b.whole and self.taken.issuperset(b.whole)]
        self._weigh(wholes)
        others = (b for b in self.units.blocks if not b.whole)
        return [self._whole(b) for b in wholes] + [
            self._single(b, s) for b in others for s in b.singles if s in self.taken
        ]

    def _loose_left(self) -> Ints:
        """Of the pods that are kept as an array, those that are taken."""
        return np.array(self.units.loose_taken(self.taken), dtype=np.int64)

    def _whole(self, block: Block) -> Item:
        if block.number not in self._wholes:
            self._weigh([block])
        return self._wholes[block.number]

    def _weigh(self, blocks: Sequence[Block]) -> None:
        """The items of these blocks as wholes, weighed in one go."""
        if not blocks:
            return
        starts = np.cumsum([0] + [len(b.whole) for b in blocks])[:-1]
        slots = np.concatenate([b.array for b in blocks])
        sizes = np.add.reduceat(self._sizes[slots], starts).tolist()
        works = np.add.reduceat(self._works[slots], starts).tolist()
        for block, size, work in zip(blocks, sizes, works, strict=True):
            self._wholes[block.number] = Item(block, block.priority, tuple(block.whole), size, work, block.ref.name)

    def _single(self, block: Block, slot: int) -> Item:
        pod = self.units.pod(slot)
        return Item(block, pod.priority, (slot,), float(self._sizes[slot]), float(self._works[slot]), pod.key, slot)

    def _single_of(self, slot: int) -> Item:
        return self._single(self.units.block_of(slot), slot)

    def _loose_item(self, slot: int) -> Item:
        return self._single(self.units.single_block(slot), slot)

    def _is_taken(self, item: Item) -> bool:
        return self.taken.issuperset(item.slots)

    def surplus(self, block: Block) -> list[int]:
        """Members that the block can do without, the least harmful and then the most useful first."""
        rows = self.units.snapshot.table.row
        crowd: dict[int, int] = {}
        for slot in block.singles:
            crowd[int(rows[slot])] = crowd.get(int(rows[slot]), 0) + 1
        out: list[int] = []
        for part in block.parts:
            if not part.limit:
                continue
            ranked = part.single
            if len(ranked) > part.limit:
                ranked = sorted(
                    ranked,
                    key=lambda s: (
                        self.units.pod(s).priority,
                        -float(self._sizes[s]),
                        -crowd[int(rows[s])],
                        int(rows[s]),
                        self.units.pod(s).key,
                    ),
                )
            out.extend(ranked[: part.limit])
        return out

    def _take(self, slots: Sequence[int], known: bool = False) -> None:
        new = list(slots) if known else [s for s in slots if s not in self.taken]
        self.taken.update(new)
        self.fit.take(np.array(new, dtype=np.int64))

    def _give(self, slots: Sequence[int]) -> None:
        there: Ints = np.array([s for s in slots if s in self.taken], dtype=np.int64)
        self.taken.difference_update(there.tolist())
        if len(there):
            self.fit.give_back(there)

    def _give_back(self, slots: Sequence[int]) -> bool:
        """Put these pods back if the gang still fits with them there; True when they stay."""
        if not slots:
            return True
        if self._exhausted():
            return False
        self.steps += 1 + len(slots) // PODS_PER_STEP
        array = np.array(slots, dtype=np.int64)
        self.fit.give_back(array)
        if self.fit.fits():
            self.taken.difference_update(slots)
            return True
        self.fit.take(array)
        return False

    def _fits(self) -> bool:
        self.steps += 1
        return self.fit.fits()

    def _harm(self) -> Harm:
        return self._harm_of(self.taken)

    def _harm_of(self, taken: set[int]) -> Harm:
        losses, interrupted = self.units.losses(taken)
        return harm(losses, interrupted, self.budgets, self.cluster, self.now)

    def _exhausted(self) -> bool:
        if self._spent() >= self.max_steps or self._watchdog.barks():
            self.stopped = True
        return self.stopped
