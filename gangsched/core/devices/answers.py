"""Whether claims can be allocated on a node in some state: asked once for each state, in a bounded time."""

from __future__ import annotations

from gangsched.core.devices.allocation import MAX_STEPS, Allocator, ClaimError, SearchStoppedError
from gangsched.core.devices.index import DeviceIndex
from gangsched.core.devices.kinds import Kinds, NodeState
from gangsched.core.devices.pools import InUse
from gangsched.model.devices import ResourceClaim
from gangsched.model.records import Node

#: Answers that are kept of all decisions.
_ANSWERS = 100_000
#: Steps of all searches of a simulation, about half a second; after these, each search may take only a few.
_STEPS, _FEW_STEPS = 100_000, 500


class Answers:
    """The answers for one simulation. ``undecided`` are the nodes of which the search has ended without one."""

    def __init__(self, index: DeviceIndex) -> None:
        self._index = index
        self._steps = 0
        self.undecided: set[str] = set()

    def answer(self, node: Node, state: NodeState, asked: tuple[int, ...], used: InUse, kinds: Kinds) -> bool:
        """Return whether claims with the specs of these numbers can be allocated together on a node in this state."""
        if state == ((),):
            return False
        answers = self._index.answers
        key = (kinds.key, state, asked)
        if key in answers:
            found = answers[key]
        else:
            full = self._steps < _STEPS
            found = self._search(node, asked, used, kinds)
            if full or found is not None:
                if len(answers) >= _ANSWERS:
                    answers.clear()
                answers[key] = found
        if found is None:
            self.undecided.add(node.name)
        return bool(found)

    def _search(self, node: Node, asked: tuple[int, ...], used: InUse, kinds: Kinds) -> bool | None:
        """Whether claims with these specs can be allocated; None if the search has ended without an answer."""
        claims = [ResourceClaim("", "", spec=self._index.specs[n]) for n in asked]
        allocator = self.allocator(node, used, kinds)
        try:
            return allocator.allocate(claims) is not None
        except ClaimError:
            return False
        except SearchStoppedError:
            return None
        finally:
            self._steps += allocator.steps

    def allocator(self, node: Node, used: InUse, kinds: Kinds, *, sizes: bool = False) -> Allocator:
        """Return the allocator of a node; with ``sizes`` it takes small devices first."""
        pools = self._index.inventory.pools(node.name, node.labels)
        most = MAX_STEPS if self._steps < _STEPS else _FEW_STEPS
        known = self._index.sizes() if sizes else None
        return Allocator(node.name, pools, used, self._index.classes, kinds.kind_of, known, most)
