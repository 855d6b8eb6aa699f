"""The demand of the required members of a gang, by kind: members of one kind are equal for every node.

Beside it the free room that they find, from which pods of the table are taken and to which they are given back, many at
a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec
import numpy as np

from gangsched.core.arrays import Bools, Floats, Ints, distinct, runs
from gangsched.core.devices.columns import DeviceColumns
from gangsched.core.framework.pipeline import Pipeline
from gangsched.core.placement.arrangement import whole
from gangsched.core.placement.placer import Want
from gangsched.core.plugins.devices import DynamicResources
from gangsched.core.plugins.node import NodeResourcesFit
from gangsched.core.plugins.volumes import NodeVolumeLimits
from gangsched.core.preemption.rules import Rules, rules_of
from gangsched.core.state.podtable import PodClass
from gangsched.core.state.simulation import Simulation
from gangsched.core.volumes.index import VolumeIndex
from gangsched.model.records import Pod

#: Volumes of a driver that a node attaches where it has no limit.
_UNLIMITED = 1e9


class Pairs(msgspec.Struct):
    """Options broken down by node: for each (option, node) the option's number, the row, and ``(R, pairs)`` what its
    pods hold there.
    """

    owner: Ints
    rows: Ints
    amounts: Floats


class Resources:
    """The demand of members in numbers: rows ``index`` of the snapshot, volumes of ``drivers`` with an attach limit,
    and sets of ``devices``. ``free`` is ``(R, N)``: what the simulation has left of them.
    """

    def __init__(
        self, sim: Simulation, index: Ints, drivers: Sequence[str] = (), devices: DeviceColumns | None = None
    ) -> None:
        snapshot = sim.snapshot
        self.table = snapshot.table
        self.index = index
        self._matrix: Floats = np.ascontiguousarray(snapshot.shape_matrix()[:, index].T)
        self.free: Floats = np.ascontiguousarray(sim.free[index])
        #: ``(columns, slots)``: what each pod gives back of volumes and devices.
        self._attached: Floats | None = None
        if drivers:
            self.free = np.vstack([self.free, *(_attachable(sim, driver) for driver in drivers)])
            self._attached = np.zeros((len(drivers), self.table.size))
            for n, driver in enumerate(drivers):
                for uid in _sole_users(snapshot.volumes, driver):
                    if uid in self.table.slot_of:
                        self._attached[n, self.table.slot_of[uid]] += 1
        if devices is not None:
            self.free = np.vstack([self.free, devices.free])
            held = devices.held(self.table.pods[: self.table.size], self.table.row[: self.table.size].tolist())
            self._attached = held if self._attached is None else np.vstack([self._attached, held])

    def held(self, slots: Ints) -> Floats:
        """``(R, n)`` what these pods give back when they leave: no volume that others keep attached."""
        held = np.take(self._matrix, self.table.shape[slots], axis=1)
        return held if self._attached is None else np.concatenate([held, np.take(self._attached, slots, axis=1)])

    def without(self, slots: Ints) -> Floats:
        """``(R, N)`` what is free when these pods, all of known nodes, have left."""
        rows, size = self.table.row[slots], self.free.shape[1]
        return self.free + [np.bincount(rows, weights=amount, minlength=size) for amount in self.held(slots)]


def _attachable(sim: Simulation, driver: str) -> Floats:
    """``(N,)`` how many more volumes of this driver each node attaches."""
    attachments = sim.snapshot.volumes.attachments
    left = np.minimum(attachments.limits(driver), _UNLIMITED) - attachments.counts(driver)
    for row, change in sim.volumes.extra.get(driver, {}).items():
        left[row] -= change
    return np.asarray(left)


def _sole_users(index: VolumeIndex, driver: str) -> Iterator[str]:
    """The pods (UIDs) to whose nodes volumes of this driver are attached for them alone, once for each volume."""
    for key, users in index.users.items():
        handle = index.handle(key)
        if handle is not None and handle[0] == driver:
            there = index.attachments.nodes_of.get(handle, {})
            yield from (uid for uid, node in users.items() if there.get(node) == 1)


def shared_drivers(index: VolumeIndex) -> set[str]:
    """Drivers of which pods of one node share a volume: it is given back when all of them leave, and not before."""
    several = (key for key, users in index.users.items() if len(set(users.values())) < len(users))
    return {handle[0] for key in several if (handle := index.handle(key)) is not None}


class FreeRoom:
    """``free`` is ``(R, N)`` of these resources, a copy of the simulation's."""

    def __init__(self, resources: Resources) -> None:
        self.free: Floats = resources.free.copy()
        self._resources = resources
        self._table = resources.table

    def held(self, slots: Ints) -> tuple[Ints, Floats]:
        """The rows of these pods, ascending, and ``(R, rows)`` what they hold; those of unknown nodes left out."""
        rows = self._table.row[slots]
        if (rows < 0).any():
            slots = slots[rows >= 0]
            rows = self._table.row[slots]
        amounts = self._resources.held(slots)
        if len(slots) <= 1:
            return rows, amounts
        width = self.free.shape[1]
        if len(slots) > width // 4:  # counting is quicker than sorting when most nodes are touched
            touched: Ints = np.flatnonzero(np.bincount(rows, minlength=width))
            sums = [np.bincount(rows, weights=column, minlength=width)[touched] for column in amounts]
            return touched, np.array(sums)
        order, starts, found = runs(rows)
        return found, np.add.reduceat(np.take(amounts, order, axis=1), starts, axis=1)

    def pairs(self, options: Sequence[Ints]) -> Pairs:
        """The options by node."""
        sizes = np.array([len(o) for o in options])
        slots = np.concatenate(options) if len(options) > 1 else options[0]
        owner = np.repeat(np.arange(len(options)), sizes)
        rows = self._table.row[slots]
        if (rows < 0).any():
            owner, slots, rows = owner[rows >= 0], slots[rows >= 0], rows[rows >= 0]
        width = self.free.shape[1]
        keys = owner * width + rows
        order, starts, found = runs(keys)
        amounts = np.add.reduceat(self._resources.held(slots[order]), starts, axis=1)
        return Pairs(found // width, found % width, amounts)


#: Of more kinds than this, only every second, third, and so on is counted alone and together with all larger ones. 500
#: kinds and as many sets would take a twentieth of a second for each pod that may be put back.
_EACH = 64
#: The possible error of sums over all nodes, as a share of the sum.
_ROUNDED = 1e-12
#: Ways to choose the required ones among more members of several kinds.
_WAYS = 4


class Demand(msgspec.Struct, eq=False):
    """``request`` is ``(K, R)`` of ``resources``. ``mask`` ``(K, N)`` has the nodes for a member of each kind without
    regard to other pods. ``need`` is the number of each kind to place, ``members`` are the pods. ``only_room`` says
    that nothing else about other pods matters.
    """

    classes: list[PodClass]
    members: list[list[Pod]]
    resources: Resources
    request: Floats
    mask: Bools
    need: tuple[int, ...]
    rules: Rules
    only_room: bool
    common: Demand | None = None  # what all ways to choose the required members have in common, where there are several

    def whole(self, k: int, free: Floats, allowed: Bools) -> Floats:
        """Return ``(n,)``: how many members of one kind the nodes hold with ``(R, n)`` room, where it is ``allowed``,
        limited by the needed number and by rules between members.
        """
        return whole(self.request[k], free, allowed, 1 if self.rules.exclusive[k, k] else self.need[k])

    def counts(self, free: Floats) -> bool:
        """Return True if there is room with ``(R, N)`` free as far as counting tells. It is never wrongly False."""
        if not self.amounts(free):
            return False
        return all(float(d.whole(0, free, d.mask[0]).sum()) >= d.need[0] for d in self.parts())

    def amounts(self, free: Floats) -> bool:
        """Return True if ``(R, N)`` free has as much of each resource as all members request. It is never wrongly
        False.
        """
        if self.common is not None:
            return self.common.amounts(free)
        room = np.maximum(free[:, self.mask.any(axis=0)], 0.0).sum(axis=1)
        return bool((room >= (self.request.T @ np.array(self.need, dtype=np.float64)) * (1.0 - _ROUNDED)).all())

    def together(self, vector: Sequence[int]) -> bool:
        """Return True if so many members of each kind may share a node, as far as kinds exclude each other."""
        some = [k for k, n in enumerate(vector) if n]
        return not any(self.rules.exclusive[i, j] for i in some for j in some if i < j)

    def parts(self) -> Iterator[Demand]:
        """Yield demands of one kind each that are necessary for this one. They are every kind alone, and members of
        several largest kinds, each as small as the smallest of them in each resource and allowed on any of their nodes.
        """
        if self.common is not None:
            yield self.common
            return
        kinds = len(self.need)
        if kinds == 1:
            yield self
            return
        share = (self.request / np.maximum(self.request.max(axis=0), 1.0)).max(axis=1)
        order: list[int] = np.argsort(-share, kind="stable").tolist()
        every = 1 + (kinds - 1) // _EACH
        for k in sorted(order[::every]):
            yield self.part([k], alone=True)
        for some in reversed(range(kinds, 1, -every)):
            yield self.part(order[:some], alone=False)

    def for_kinds(self, kinds: list[int]) -> Demand:
        """Return the demand of these kinds only."""
        if len(kinds) == len(self.need):
            return self
        number = {k: i for i, k in enumerate(kinds)}
        rules = self.rules
        bars = [msgspec.structs.replace(b, of=number[b.of]) for b in rules.bars if b.of in number]
        return Demand(
            [self.classes[k] for k in kinds],
            [self.members[k] for k in kinds],
            self.resources,
            self.request[kinds],
            self.mask[kinds],
            tuple(self.need[k] for k in kinds),
            msgspec.structs.replace(
                rules, bars=bars, exclusive=rules.exclusive[np.ix_(kinds, kinds)], allowed=rules.allowed[kinds]
            ),
            self.only_room,
        )

    def part(self, kinds: list[int], *, alone: bool) -> Demand:
        """The demand of these kinds as if they were one; ``alone`` if they are."""
        bars = [msgspec.structs.replace(b, of=0, counts=b.counts.copy()) for b in self.rules.bars if b.of == kinds[0]]
        rules = Rules(
            bars if alone else [],
            np.array([[bool(self.rules.exclusive[np.ix_(kinds, kinds)].all())]]),
            None,
            complete=True,
            monotone=True,
            allowed=np.any(self.rules.allowed[kinds], axis=0, keepdims=True),
        )
        return Demand(
            [self.classes[kinds[0]]],
            [],
            self.resources,
            self.request[kinds].min(axis=0)[None],
            np.any(self.mask[kinds], axis=0, keepdims=True),
            (sum(self.need[k] for k in kinds),),
            rules,
            self.only_room,
        )


def demands_of(sim: Simulation, pipeline: Pipeline, wants: Sequence[Want]) -> list[Demand]:
    """The demand of the required members; several where they can be chosen in several ways, the easiest first."""
    kind_of, classes, attached = _kinds(sim, pipeline, wants)
    asked = [c.devices for c in classes if c.devices is not None]
    devices = DeviceColumns(sim.devices, asked) if asked else None
    vectors = [sim.snapshot.vector(c.shape) for c in classes]
    index = distinct(np.concatenate([i for i, _ in vectors]))
    drivers = sorted({driver for each in attached if each is not None for driver in each})
    resources = Resources(sim, index, drivers, devices)
    request = np.zeros((len(classes), len(resources.free)))
    for n, (rows, amounts) in enumerate(vectors):
        request[n, np.searchsorted(index, rows)] = amounts
        counted = [(attached[n] or {}).get(driver, 0) for driver in drivers]
        request[n, len(index) : len(index) + len(drivers)] = counted
        if devices is not None:
            request[n, len(index) + len(drivers) :] = devices.request(classes[n].devices)
    only_room = all(each is not None for each in attached) and (devices is None or devices.exact)
    rules = rules_of(sim, pipeline, classes)
    rules.complete |= only_room
    mask = np.array([pipeline.static_mask(c, sim) for c in classes]) & rules.allowed
    room = np.maximum(sim.snapshot.allocatable[index].mean(axis=1), 1.0) if sim.snapshot.size else np.ones(len(index))
    share = (request[:, : len(index)] / room).max(axis=1)
    out: list[Demand] = []
    for chosen in _choices(wants, kind_of, share, mask.sum(axis=1)):
        members: list[list[Pod]] = [[] for _ in classes]
        for pod in chosen:
            members[kind_of[pod.uid]].append(pod)
        need = tuple(map(len, members))
        if any(need == other.need for other in out):
            continue
        out.append(Demand(classes, members, resources, request, mask, need, rules, only_room))
    common = out[0].part(list(range(len(classes))), alone=False) if len(classes) > 1 and _free(wants) else None
    present = ([k for k, n in enumerate(demand.need) if n] for demand in out)
    return [
        msgspec.structs.replace(demand.for_kinds(kinds), common=common)
        for demand, kinds in zip(out, present, strict=True)
    ]


def _free(wants: Sequence[Want]) -> bool:
    """Return True if there are more members than required."""
    return any(len(w.members) > w.required for w in wants)


def _kinds(
    sim: Simulation, pipeline: Pipeline, wants: Sequence[Want]
) -> tuple[dict[str, int], list[PodClass], list[dict[str, int] | None]]:
    """The kind of each member (UID), a class that stands for each, and what it attaches (:func:`_attached`). Members
    that only ask for room are alike if they ask for the same and may go to the same nodes, whatever their volumes.
    """
    kind_of: dict[str, int] = {}
    classes: list[PodClass] = []
    attaching: list[dict[str, int] | None] = []
    known: dict[object, int] = {}
    by_class: dict[int, int] = {}
    for want in wants:
        for pod in want.members:
            pod_class = sim.class_of(pod)
            kind = by_class.get(pod_class.ident)
            if kind is None:
                attached = _attached(sim, pipeline, pod_class)
                key: object = pod_class.ident
                if attached is not None:
                    mask = pipeline.static_mask(pod_class, sim)
                    own = pod_class.devices.own if pod_class.devices is not None else ()
                    key = id(pod_class.shape), mask.tobytes(), tuple(sorted(attached.items())), own
                if key not in known:
                    known[key] = len(classes)
                    classes.append(pod_class)
                    attaching.append(attached)
                kind = by_class[pod_class.ident] = known[key]
            kind_of[pod.uid] = kind
    return kind_of, classes, attaching


def _attached(sim: Simulation, pipeline: Pipeline, pod: PodClass) -> dict[str, int] | None:
    """How many volumes of each driver that attaches only so many such a pod has; None where it asks for more of its
    node than room, or others may have those volumes too.
    """
    names = {rule.name for rule in pipeline.watching(pod, sim)}
    if not names <= {NodeResourcesFit.name, NodeVolumeLimits.name, DynamicResources.name}:
        return None
    if pod.devices is not None and not sim.devices.alone(pod.devices):
        return None
    out: dict[str, int] = {}
    if pod.volumes is None or NodeVolumeLimits.name not in names:
        return out
    index = sim.snapshot.volumes
    shared_by_others = shared_drivers(index)
    for handle in sim.volumes.handles(pod):
        if index.attachments.limited(handle[0]):
            if handle in index.attachments.nodes_of or handle[0] in shared_by_others:
                return None
            out[handle[0]] = out.get(handle[0], 0) + 1
    shared = any(index.mentions.get((pod.namespace, name), 0) > 1 for name in pod.volumes.claims)
    return None if shared else out


def _choices(wants: Sequence[Want], kind_of: dict[str, int], share: Floats, nodes: Ints) -> Iterator[list[Pod]]:
    """The required members: by name; the smallest; the least restricted; or as many of the most frequent kinds."""
    yield [p for w in wants for p in w.members[: w.required]]
    if not _free(wants) or len(share) == 1:
        return
    orders = (share, -nodes.astype(np.float64), -share)
    for rank in orders[: _WAYS - 1]:
        ranked = {uid: float(rank[kind]) for uid, kind in kind_of.items()}
        yield [p for w in wants for p in sorted(w.members, key=lambda p: (ranked[p.uid], p.name))[: w.required]]
