"""Small exchanges at the end of a search: a few units come back, and what goes instead is chosen again."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np

from gangsched.core.preemption.attempts import REPRIEVE_ITEMS
from gangsched.core.preemption.bundles import Bundles
from gangsched.core.preemption.search import Item

#: Up to this many victims' subsets are re-chosen in the final exchange, and up to this many items at once.
_EXCHANGE_VICTIMS = 40
_EXCHANGE_OUT = 3
_EXCHANGE_PODS = 2000
#: The harm of so many victims is weighed in about one step.
_HARM_PER_STEP = 40


class Exchange(Bundles):
    """Local improvement of what the levels have ended in."""

    def _exchange(self) -> None:
        """Put a few units back and choose again what to take instead, as long as that is less harmful."""
        improved = not len(self.units.loose) and len(self.taken) <= _EXCHANGE_PODS
        while improved and not self._exhausted():
            improved = False
            victims = self._victims()
            if not victims or len(victims) > _EXCHANGE_VICTIMS:
                return
            others = self._candidates()
            for count in range(1, min(_EXCHANGE_OUT, len(victims)) + 1):
                for out in combinations(victims, count):
                    if self._exhausted():
                        return
                    if self._swap(out, others):
                        improved = True
                        break
                if improved:
                    break

    def _swap(self, out: Sequence[Item], others: list[Item]) -> bool:
        before, was, cost = self.fit.save(), set(self.taken), self._harm()
        self.steps += 1 + len(was) // _HARM_PER_STEP
        for item in out:
            self._give([s for s in item.slots if s in self.taken])
        ceiling = max(i.level for i in out)
        names = {i.name for i in out}
        options = [i for i in others if i.level <= ceiling and i.name not in names and not self._is_taken(i)]
        chosen = self._take_useful(options, per_pod=False)
        if chosen is not None:
            fresh = sorted((self._single_of(s) for s in self.taken - was), key=lambda i: i.name)
            self._give_back_singles(
                [i for i in fresh if not i.block.whole or not self.units.is_whole(i.block, self.taken)]
            )
            for item in sorted(self._victims(), key=lambda i: (-i.level, len(i.slots), i.name)):
                self._give_back([s for s in item.slots if s in self.taken])
            if self._closed() and self._harm() < cost:
                return True
        self.fit.restore(before)
        self.taken = was
        return False

    def _closed(self) -> bool:
        """No block is taken beyond its surplus without being taken whole."""
        for block in self.units.blocks:
            for part in block.parts:
                gone = sum(1 for s in part.bound if s in self.taken)
                if gone > part.limit and not (block.whole and all(s in self.taken for s in block.whole)):
                    return False
        return True

    def _victims(self) -> list[Item]:
        out: list[Item] = []
        for block in self.units.blocks:
            if self.units.is_whole(block, self.taken):
                out.append(self._whole(block))
            else:
                out += [self._single(block, s) for p in block.parts for s in p.bound if s in self.taken]
        return sorted(out, key=lambda i: (-i.level, -len(i.slots), i.name))

    def _candidates(self) -> list[Item]:
        """Everything that could be taken instead: singles within the surplus, and whole blocks."""
        out: list[Item] = []
        for block in self.units.blocks:
            if block.whole:
                out.append(self._whole(block))
            out += [self._single(block, s) for s in block.singles]
        if len(out) <= REPRIEVE_ITEMS:
            return out
        # Those that would help most if nothing was taken yet.
        state, was = self.fit.save(), set(self.taken)
        self._give(sorted(self.taken))
        gains = np.round(self._gains([np.array(i.slots, dtype=np.int64) for i in out]), 9)
        self.fit.restore(state)
        self.taken = was
        names = np.array([i.name for i in out])
        sizes = np.array([len(i.slots) for i in out])
        order = np.lexsort((names, sizes, -gains / sizes))[:REPRIEVE_ITEMS]
        return [out[n] for n in sorted(order.tolist())]
