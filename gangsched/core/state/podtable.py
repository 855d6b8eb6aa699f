"""Pods that take room as columns, one slot each, so that filters and victim search work on arrays; and the classes of
pods that are the same for every filter and score. And numbers for nodes that stay while their rows move.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import Any, Generic, TypeAlias, TypeVar

import msgspec
import numpy as np

from gangsched.core.arrays import Bools, Floats, Ints
from gangsched.core.devices.demand import DeviceDemand
from gangsched.model.constraints import Labels, LabelSelector, PodShape, PodVolumes
from gangsched.model.records import JOB, SINGLE, GangId, Pod


class PodClass(msgspec.Struct, frozen=True, gc=False):
    """A shape with the namespace and labels by which other pods' terms may select it.

    Made by :meth:`gangsched.core.state.snapshot.Snapshot.class_of`; pods of one class share one object. ``ident`` is
    its number there. ``spread_selector`` is what default spread constraints select for it
    (:meth:`gangsched.core.state.termcounts.SelectorIndex.selector_of`). ``volumes`` are those of its pods; ``name`` and
    ``uid`` are given where one of them must belong to the very pod. ``devices`` is what its pods ask of devices.
    """

    shape: PodShape
    namespace: str
    labels: Labels
    ident: int
    spread_selector: LabelSelector | None = None
    volumes: PodVolumes | None = None
    name: str = ""
    uid: str = ""
    devices: DeviceDemand | None = None


K = TypeVar("K")


class Numbers(Generic[K]):
    """A number for each key as long as it is used; unused numbers are given out again.

    ``keys[number]`` is the key of a number in use.
    """

    def __init__(self) -> None:
        self.keys: list[K] = []
        self._number_of: dict[K, int] = {}
        self._users: list[int] = []
        self._free: list[int] = []

    def number(self, key: K) -> int:
        """The number of a key; -1 while it has none."""
        return self._number_of.get(key, -1)

    def join(self, key: K) -> int:
        """One user more; returns the number."""
        number = self._number_of.get(key)
        if number is None:
            if self._free:
                number = self._free.pop()
                self.keys[number] = key
            else:
                number = len(self.keys)
                self.keys.append(key)
                self._users.append(0)
            self._number_of[key] = number
        self._users[number] += 1
        return number

    def release(self, number: int) -> bool:
        """Count one user less, and return True if it was the last."""
        self._users[number] -= 1
        if self._users[number]:
            return False
        del self._number_of[self.keys[number]]
        self._free.append(number)
        return True


class NodeIds(Numbers[str]):
    """A small number for every node that is known or has pods, so that counts by node outlive a change of rows.

    ``row`` is ``(ids,)``: the row of the node, -1 while it has none.
    """

    def __init__(self) -> None:
        super().__init__()
        self.row: Ints = np.full(64, -1, dtype=np.int64)

    def join(self, key: str) -> int:
        """See :class:`Numbers`."""
        number = super().join(key)
        if number >= len(self.row):
            self.row = np.concatenate([self.row, np.full(len(self.row), -1, dtype=np.int64)])
        return number

    def release(self, number: int) -> bool:
        """See :class:`Numbers`."""
        last = super().release(number)
        if last:
            self.row[number] = -1
        return last

    def place(self, names: Sequence[str]) -> None:
        """Of these nodes the rows are 0, 1, 2 and so on, of others they are not known."""
        self.row.fill(-1)
        self.row[[self.number(name) for name in names]] = np.arange(len(names))


#: Namespace, name and UID of a Job.
JobId: TypeAlias = tuple[str, str, str]

#: Bits of the ``flags`` column.
TERMINATING = 1  # has a deletionTimestamp: its room is on its way to be free
PROTECTED = 2  # never a victim: static, mirror, marked non-preemptible, or a DaemonSet's
ASSUMED = 4  # our own binding is on its way
STARTING = 8  # bound, and nothing of it runs yet
UNREADY = 16  # it is not ready

_FIRST = 256
#: The value of each column in unused slots.
_UNUSED: dict[str, float] = {
    **dict.fromkeys(("row", "place", "gang", "job"), -1),
    **dict.fromkeys(("priority", "shape", "flags", "kin", "tie", "cost", "started"), 0),
    **dict.fromkeys(("checkpoint", "restart"), np.nan),
}


class PodTable:
    """Columns over slots: ``row`` (node row, -1 = node unknown or slot free), ``place`` (the number of the node,
    which it keeps while rows move; -1 = slot free), ``priority``, ``shape`` and
    ``gang`` (dense numbers), ``kin`` (namespace and labels, a dense number), ``flags``, ``started`` (seconds);
    of what its annotations say ``checkpoint`` and ``restart`` (seconds, NaN without one) and ``cost``.

    ``tie`` orders pods that are otherwise equal: marked ones first, then by a hash of their name, so that no order of
    arrival shows in a decision. ``pods[slot]`` is the record, or None for a free slot.

    ``gang_ids[number]`` is the gang of that number as long as it has pods here, ``alone[number]`` whether it is a pod
    without a group. ``known[number]`` is for whoever wants to remember something about the pods of a gang: it is
    forgotten as soon as one of them changes.

    ``job`` is a dense number of the Job that owns a pod, by its namespace, name and UID in ``job_ids``; -1 without one.
    """

    def __init__(self) -> None:
        self.pods: list[Pod | None] = []
        #: Slots in use or free; columns are meaningful up to here.
        self.size = 0
        self.slot_of: dict[str, int] = {}
        self._free: list[int] = []
        self.row: Ints = np.full(_FIRST, -1, dtype=np.int64)
        self.place: Ints = np.full(_FIRST, -1, dtype=np.int64)
        self.priority: Ints = np.zeros(_FIRST, dtype=np.int64)
        self.shape: Ints = np.zeros(_FIRST, dtype=np.int64)
        self.gang: Ints = np.full(_FIRST, -1, dtype=np.int64)
        self.flags: Ints = np.zeros(_FIRST, dtype=np.int64)
        self.started: Floats = np.zeros(_FIRST, dtype=np.float64)
        self.checkpoint: Floats = np.full(_FIRST, np.nan, dtype=np.float64)
        self.restart: Floats = np.full(_FIRST, np.nan, dtype=np.float64)
        self.cost: Ints = np.zeros(_FIRST, dtype=np.int64)
        self.tie: Ints = np.zeros(_FIRST, dtype=np.int64)
        self.kin: Ints = np.zeros(_FIRST, dtype=np.int64)
        self.job: Ints = np.full(_FIRST, -1, dtype=np.int64)
        self._jobs: Numbers[JobId] = Numbers()
        self.job_ids = self._jobs.keys
        self.kins: list[tuple[str, Labels]] = []
        self.kin_generation = 0
        self._kin_number: dict[tuple[str, int], int] = {}
        self._gangs: Numbers[GangId] = Numbers()
        self.gang_ids = self._gangs.keys
        self.alone: Bools = np.zeros(_FIRST, dtype=np.bool_)
        self.known: dict[int, Any] = {}

    def __len__(self) -> int:
        return len(self.slot_of)

    def add(self, pod: Pod, row: int, shape: int, flags: int) -> int:
        """Insert a pod that is not in the table; returns its slot."""
        if self._free:
            slot = self._free.pop()
            self.pods[slot] = pod
        else:
            slot = len(self.pods)
            self.pods.append(pod)
            self.size += 1
            if slot >= len(self.row):
                self._grow()
        self.slot_of[pod.uid] = slot
        self.row[slot] = row
        self.shape[slot] = shape
        self.tie[slot] = _tie(pod)
        self._write(slot, pod, flags)
        return slot

    def replace(self, slot: int, pod: Pod, flags: int) -> None:
        """The record of the pod in this slot changed, its shape did not."""
        self._leave(slot)
        self.pods[slot] = pod
        self._write(slot, pod, flags)

    def remove(self, uid: str) -> int:
        """Take a pod out; returns the slot it had. KeyError if it is not there."""
        slot = self.slot_of.pop(uid)
        self._leave(slot)
        self.pods[slot] = None
        self.row[slot] = -1
        self.place[slot] = -1
        self.gang[slot] = -1
        self.job[slot] = -1
        self.flags[slot] = 0
        self._free.append(slot)
        return slot

    def _write(self, slot: int, pod: Pod, flags: int) -> None:
        """The facts about a pod that may change while it stays on its node."""
        self.priority[slot] = pod.priority
        self.gang[slot] = self._join(pod.gang)
        self.job[slot] = self._join_job(pod)
        self.kin[slot] = self.kin_number(pod.namespace, pod.labels)
        self.flags[slot] = flags
        self.started[slot] = pod.started
        told = pod.stakes
        self.checkpoint[slot] = np.nan if told.checkpoint is None else told.checkpoint
        self.restart[slot] = np.nan if told.restart_seconds is None else told.restart_seconds
        self.cost[slot] = told.cost

    def gang_number(self, gang: GangId) -> int:
        """The dense number of a gang while it has pods here, else -1."""
        return self._gangs.number(gang)

    def _join(self, gang: GangId) -> int:
        """A pod more of this gang; returns its number."""
        number = self._gangs.join(gang)
        if number >= len(self.alone):
            self.alone = np.concatenate([self.alone, np.zeros(len(self.alone), dtype=np.bool_)])
        self.alone[number] = gang.family == SINGLE
        self.known.pop(number, None)
        return number

    def _leave(self, slot: int) -> None:
        """The pod in this slot is of no gang and no Job any more."""
        number, job = int(self.gang[slot]), int(self.job[slot])
        self.known.pop(number, None)
        self._gangs.release(number)
        if job >= 0:
            self._jobs.release(job)

    def _join_job(self, pod: Pod) -> int:
        """A pod more of its Job; returns the number of that."""
        if pod.owner is None or pod.owner.kind != JOB:
            return -1
        return self._jobs.join((pod.namespace, pod.owner.name, pod.owner.uid))

    def kin_number(self, namespace: str, labels: Labels) -> int:
        """The dense number of a (namespace, label set), which is all that other pods' terms select by."""
        key = (namespace, id(labels))
        number = self._kin_number.get(key)
        if number is None:
            if len(self.kins) > 2 * len(self.slot_of) + 4096:
                self._renumber_kin()
            number = self._kin_number[key] = len(self.kins)
            self.kins.append((namespace, labels))
        return number

    def _renumber_kin(self) -> None:
        """Forget label sets that no pod has any more; numbers change, so answers by number are void."""
        self.kins.clear()
        self._kin_number.clear()
        self.kin_generation += 1
        for slot, pod in enumerate(self.pods):
            if pod is not None:
                key = (pod.namespace, id(pod.labels))
                if key not in self._kin_number:
                    self._kin_number[key] = len(self.kins)
                    self.kins.append((pod.namespace, pod.labels))
                self.kin[slot] = self._kin_number[key]

    def renumber_rows(self, new_row: Ints) -> None:
        """Node rows have moved: old row i is now ``new_row[i]`` (-1: the node is gone)."""
        size = self.size
        rows = self.row[:size]
        known = rows >= 0
        rows[known] = new_row[rows[known]]
        self.known.clear()

    def occupied(self) -> Ints:
        """Slots of pods on known nodes, ascending."""
        return np.flatnonzero(self.row[: self.size] >= 0)

    def _grow(self) -> None:
        for name, unused in _UNUSED.items():
            column = getattr(self, name)
            setattr(self, name, np.concatenate([column, np.full_like(column, unused)]))


#: Above every hash.
_UNMARKED = 1 << 56


def _tie(pod: Pod) -> int:
    """A hash of the pod's name. Pods that are marked come before all others: they know already that they may leave."""
    digest = blake2b(pod.key.encode(), digest_size=7).digest()
    marked = pod.evicted_for is not None and pod.evicted_for.status == "True"
    return int.from_bytes(digest, "big") + (0 if marked else _UNMARKED)
