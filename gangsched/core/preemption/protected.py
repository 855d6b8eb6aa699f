"""Pods that are never victims, and stand where a gang would fit that does not fit once all have left that may."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence

import numpy as np

from gangsched.core.arrays import Bools, Ints, isin
from gangsched.core.decision import Spared, UnitRef
from gangsched.core.options import Options
from gangsched.core.preemption.free import FreeRoom, Resources
from gangsched.core.state.podtable import ASSUMED, PROTECTED, TERMINATING, PodClass, PodTable
from gangsched.core.state.simulation import Simulation
from gangsched.messages import causes
from gangsched.messages.text import counted
from gangsched.model.preemptible import BY_OWNER, OF_DAEMONSET, STATIC, protection
from gangsched.model.records import GangId, Pod

#: So many are named in a message; the plan lists more.
_NAMED = 3
#: More than so many are not looked for: a gang of 1,000 that wants whole nodes can have 5,000 in its way (300 ms).
MOST_IN_THE_WAY = 100


def never_victims(table: PodTable) -> Ints:
    """Slots of the pods on nodes that are never victims, whatever the preemptor's priority is."""
    slots = table.occupied()
    flags = table.flags[slots]
    return np.asarray(slots[((flags & PROTECTED) != 0) & ((flags & (TERMINATING | ASSUMED)) == 0)])


def no_victims_anyway(table: PodTable, slots: Ints, own: Collection[GangId], priority: int, options: Options) -> Bools:
    """``(n,)`` which pods would be no victims of a preemptor of this priority if nothing protected them: those of its
    own gangs, and those that a mark excludes from preemption but whose priority is not lower.

    DaemonSet and static pods are not among them at any priority: people expect room on a node where nothing else runs.
    """
    out = isin(table.gang[slots], [table.gang_number(gang) for gang in own])
    high = table.priority[slots] >= priority
    pods = (table.pods[slot] for slot in slots[high].tolist())
    out[high] |= np.array([pod is not None and _reason(pod, options) in BY_OWNER for pod in pods], dtype=np.bool_)
    return out


def room_for(pod: PodClass, sim: Simulation, slots: Ints, usable: Bools) -> int:
    """On how many places on ``usable`` nodes there is room for a pod of this class once those in these slots have left.

    Many gangs wait in a full cluster: whether to try to place one without these pods has to be found out quickly.
    """
    index, amounts = sim.snapshot.vector(pod.shape)
    room = FreeRoom(Resources(sim, index))
    rows, held = room.held(slots)
    room.free[:, rows] += held
    return int((room.free[:, usable] // amounts[:, None]).min(axis=0).clip(min=0).sum())


def in_the_way(pods: Sequence[Pod], options: Options) -> list[Spared]:
    """Why each of them stays, by name."""
    return [Spared(UnitRef("Pod", p.key), _reason(p, options)) for p in sorted(pods, key=lambda p: p.key)]


def fits_without(pods: Sequence[Pod], options: Options) -> str:
    """``it would fit without 2 pods of DaemonSet kube-system/agent and static pod kube-system/x, which are never
    evicted``. From MOST_IN_THE_WAY pods on there may be more.
    """
    kinds = sorted(Counter(_kind(p, options) for p in pods).items())
    parts = [f"{counted(number, 'pod')} of {name}" if many else name for (name, many), number in kinds[:_NAMED]]
    if len(kinds) > _NAMED:
        parts.append(f"{sum(number for _, number in kinds[_NAMED:])} more")
    listed = " and ".join([", ".join(parts[:-1]), parts[-1]]) if len(parts) > 1 else parts[0]
    if len(pods) >= MOST_IN_THE_WAY:
        return causes.fits_without_many_protected(listed)
    return causes.fits_without_protected(listed, "is" if len(pods) == 1 else "are")


def _kind(pod: Pod, options: Options) -> tuple[str, bool]:
    """What the pod is called here, and whether others are called so too: the names of a DaemonSet's pods change."""
    why = _reason(pod, options)
    if why == OF_DAEMONSET and pod.owner is not None:
        return f"DaemonSet {pod.namespace}/{pod.owner.name}", True
    return f"{'static ' if why == STATIC else ''}pod {pod.key}", False


def _reason(pod: Pod, options: Options) -> str:
    return protection(pod, options.evict_daemonset_pods)
