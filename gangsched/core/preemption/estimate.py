"""Which pods would help most, guessed from room alone: to find out, the gang would have to be placed each time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from gangsched.core.framework.pipeline import Pipeline
from gangsched.core.preemption.arranged import each_alone
from gangsched.core.preemption.slots import FreeRoom
from gangsched.core.state.podclass import PodClass
from gangsched.core.state.simulation import Simulation
from gangsched.core.state.snapshot import Bools, Floats, Ints
from gangsched.core.state.terms import Domains, includes, selection_of
from gangsched.model.records import Pod

#: Weight of the fraction of a member that a node has room for beside whole ones: a sense of direction.
_HINT = 1e-3


class Estimate:
    """For the members of one gang in a simulation as it is now. Rules between pods are left out, but that members keep
    each other off their nodes.
    """

    def __init__(self, sim: Simulation, pipeline: Pipeline, members: Sequence[Pod]) -> None:
        #: Of each class of members: a node's room for one, where they may go, how many go to one node at most, and
        #: their part of the gang.
        self._kinds: list[tuple[_Room, Bools, float, float]] = []
        classes = {sim.snapshot.class_of(p).ident: p for p in members}
        counts = Counter(sim.snapshot.class_of(p).ident for p in members)
        for ident, pod in classes.items():
            own = sim.snapshot.class_of(pod)
            apart = (
                Domains(sim, t.topology_key) for t in pod.shape.anti_affinity if includes(sim, selection_of(t), own)
            )
            alone = bool(pod.shape.host_ports) or any(each_alone(domains.code) for domains in apart)
            most = 1.0 if alone else float(counts[ident])
            self._kinds.append((_Room(sim, own), pipeline.static_mask(own, sim), most, counts[ident] / len(members)))

    def gains(self, options: Sequence[Ints], taken: Ints) -> Floats:
        """About how many members more each option makes room for when ``taken`` have left, ``(len(options),)``: the
        mean over the members.
        """
        out = np.zeros(len(options))
        for room, allowed, most, part in self._kinds:
            rows, owner, before, after = room.with_and_without(options, taken)
            gain = np.where(allowed[rows], _hinted(after, most) - _hinted(before, most), 0.0)
            out += part * np.bincount(owner, weights=gain, minlength=len(options))
        return out


class _Room(FreeRoom):
    """What nodes have free of the resources that one class asks for, nothing taken."""

    def __init__(self, sim: Simulation, pod: PodClass) -> None:
        index, self._amounts = sim.snapshot.vector(pod.shape)
        super().__init__(sim, index)

    def with_and_without(self, options: Sequence[Ints], taken: Ints) -> tuple[Ints, Ints, Floats, Floats]:
        """``(rows, owner, before, after)`` for each option (its number) and node: the members that the node has room
        for, and how many without the option's pods there.
        """
        self.shift(taken, +1.0)
        pairs = self.pairs(options)
        free = self._free[:, pairs.rows]
        self.shift(taken, -1.0)
        before, after = ((f / self._amounts[:, None]).min(axis=0) for f in (free, free + pairs.amounts))
        return pairs.rows, pairs.owner, before, after


def _hinted(parts: Floats, most: float) -> Floats:
    """Whole members, a fraction of the next one counting a little."""
    parts = np.clip(parts, 0.0, most)
    whole = np.floor(parts)
    return np.asarray(whole + (parts - whole) * _HINT)
