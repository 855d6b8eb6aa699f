"""Which pods would help most, guessed from room alone: to find out, the gang would have to be placed each time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from gangsched.core.framework.pipeline import Pipeline
from gangsched.core.preemption.slots import FreeRoom, hinted
from gangsched.core.state.podclass import PodClass
from gangsched.core.state.simulation import Simulation
from gangsched.core.state.snapshot import Bools, Floats, Ints
from gangsched.core.state.terms import Domains, against
from gangsched.model.records import Pod

#: Gains of so many options are guessed in about one step.
GUESSED_PER_STEP = 100
#: They are found out one by one instead if that takes no larger part of the steps that are left.
PART = 0.25


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
            apart = (Domains(sim, t.topology_key) for t in against(sim, pod.shape, own))
            alone = bool(pod.shape.host_ports) or any(domains.single for domains in apart)
            most = 1.0 if alone else float(counts[ident])
            self._kinds.append((_Room(sim, own), pipeline.static_mask(own, sim), most, counts[ident] / len(members)))

    def gains(self, options: Sequence[Ints], taken: Ints) -> Floats:
        """About how many members more each option makes room for when ``taken`` have left, ``(len(options),)``: the
        mean over the members.
        """
        out = np.zeros(len(options))
        for room, allowed, most, part in self._kinds:
            rows, owner, before, after = room.with_and_without(options, taken)
            gain = np.where(allowed[rows], hinted(after, most) - hinted(before, most), 0.0)
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
