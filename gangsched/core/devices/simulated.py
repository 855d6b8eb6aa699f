"""Devices in a simulation: which nodes can give a pod its devices when pods have been placed and lifted.

A placed pod gets no devices in particular. What is known is that the claims of all pods that were placed on a node can
be allocated together there, which is asked anew with each of them. So no choice for one pod takes the last fitting
device of another. The devices are chosen at the end, for all pods of a node at once. Only devices that several nodes
reach are chosen when a pod is placed: no node may count on those that another has taken.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from gangsched.core.arrays import Bools, Floats
from gangsched.core.decision import ClaimAllocation
from gangsched.core.devices.allocation import ClaimError, SearchStoppedError
from gangsched.core.devices.answers import Answers
from gangsched.core.devices.demand import DeviceDemand, own_claims
from gangsched.core.devices.index import DeviceIndex
from gangsched.core.devices.kinds import Kinds, NodeState
from gangsched.core.devices.pools import InUse
from gangsched.messages import devices
from gangsched.model.constraints import NodeTerm
from gangsched.model.devices import MAX_RESERVED, Allocation, ClaimKey, DeviceId, ResourceClaim
from gangsched.model.records import Node, Pod

#: In the list of changed rows: all of them.
_ALL = -1


class Guest(NamedTuple):
    """A pod that was placed on a node: the specs of its own claims, claims that get devices here, and those that have
    some.
    """

    ident: int
    own: tuple[int, ...]
    fresh: tuple[ClaimKey, ...]
    held: tuple[ClaimKey, ...]


class DevicesInThought:
    """The devices of a simulation. ``mask_of`` returns the nodes that match the terms of an allocation."""

    def __init__(
        self,
        index: DeviceIndex,
        nodes: Sequence[Node],
        mask_of: Callable[[tuple[NodeTerm, ...] | None], Bools],
    ) -> None:
        self.index = index
        self._nodes = nodes
        self._mask_of = mask_of
        self._used = index.in_use()
        self._copied = False
        self._left: dict[ClaimKey, int] = {}
        self._joined: dict[ClaimKey, int] = {}
        #: Claims that get devices in this simulation: the row, and how many pods use them.
        self._given: dict[ClaimKey, tuple[int, int]] = {}
        self._guests: dict[int, list[Guest]] = {}
        #: Devices that several nodes reach, by the row of the pods that have them.
        self._wide: dict[int, list[Allocation]] = {}
        self._numbers: tuple[int, ...] = ()
        self._changed: list[int] = []
        #: Rows whose devices are not those of the index.
        self._altered: set[int] = set()
        self._masks: dict[tuple[int, ...], tuple[Bools, int]] = {}
        self._states: dict[int, NodeState] = {}
        self._answers = Answers(index)
        self._serves: tuple[Hashable, frozenset[int]] = ((), frozenset())

    # -- changes -------------------------------------------------------------------------------------------

    def lift(self, demand: DeviceDemand, by: int) -> None:
        """A pod that uses claims leaves its node (+1), or returns to it (-1)."""
        for key in demand.named:
            self._move(key, left=by)

    def _move(self, key: ClaimKey, *, left: int = 0, joined: int = 0) -> None:
        """Pods leave a claim or join it: it gives its devices back with the last one."""
        before = self.allocation(key)
        self._left[key] = self._left.get(key, 0) + left
        self._joined[key] = self._joined.get(key, 0) + joined
        after = self.allocation(key)
        if before == after:
            return
        if not self._copied:
            self._used, self._copied = self._used.copy(), True
        if before is not None:
            self._used.give_back(before)
        if after is not None:
            self._used.add(after)
        for each in (before or after or Allocation(())).devices:
            self._alter(each.device.driver, each.device.pool)

    def _alter(self, driver: str, pool: str) -> None:
        nodes = self.index.inventory.nodes_of((driver, pool))
        if nodes is None:
            self._changed.append(_ALL)
            self._altered.update(range(len(self._nodes)))
            self._states.clear()
            return
        for name in nodes:
            row = self._row_of(name)
            if row >= 0:
                self._changed.append(row)
                self._altered.add(row)
                self._states.pop(row, None)

    def _row_of(self, name: str) -> int:
        if not hasattr(self, "_rows"):
            self._rows = {node.name: row for row, node in enumerate(self._nodes)}
        return self._rows.get(name, -1)

    def allocation(self, key: ClaimKey) -> Allocation | None:
        """Return the devices that a claim has, unless all of its users have left it here."""
        found = self.index.allocation(key)
        if found is None or not self._left.get(key):
            return found
        users = len(self.index.users_of(key))
        return found if users - self._left[key] + self._joined.get(key, 0) > 0 else None

    def place(self, ident: int, demand: DeviceDemand, row: int) -> None:
        """A pod comes to a node."""
        held = tuple(key for key in demand.named if self.allocation(key) is not None)
        fresh = tuple(key for key in demand.named if key not in held and key in self.index.claims)
        for key in held:
            self._move(key, joined=1)
        for key in fresh:
            at, users = self._given.get(key, (row, 0))
            self._given[key] = at, users + 1
        guest = Guest(ident, demand.own, fresh, held)
        self._guests.setdefault(row, []).append(guest)
        self._widen(self._asked([guest]))
        self._choose_devices(row)

    def unplace(self, ident: int, row: int) -> None:
        """The last pod of this class that came to the node leaves it again."""
        guests = self._guests[row]
        guest = guests.pop(max(n for n, each in enumerate(guests) if each.ident == ident))
        if not guests:
            del self._guests[row]
        for key in guest.fresh:
            at, users = self._given.pop(key)
            if users > 1:
                self._given[key] = at, users - 1
        for key in guest.held:
            self._move(key, joined=-1)
        self._choose_devices(row)

    def _choose_devices(self, row: int) -> None:
        """Other pods are on the node: what of its devices other nodes reach is chosen now."""
        self._changed.append(row)
        if not self.index.inventory.wide:
            return
        for each in self._wide.pop(row, ()):
            self._used.give_back(each)
        if not self._copied:
            self._used, self._copied = self._used.copy(), True
        found = self._allocate(row, self._guests.get(row, ()))
        wide = [self._reached_by_several(each) for each in found or ()]
        for each in wide:
            self._used.add(each)
        self._wide[row] = wide
        self._changed.append(_ALL)
        self._altered.update(range(len(self._nodes)))
        self._states.clear()

    def _reached_by_several(self, given: Allocation) -> Allocation:
        return Allocation(tuple(d for d in given.devices if self.index.inventory.several(d.device)))

    # -- questions -----------------------------------------------------------------------------------------

    def mask(self, demand: DeviceDemand) -> Bools:
        """``(N,)``: the nodes that can give a further pod its devices."""
        out = np.ones(len(self._nodes), dtype=np.bool_)
        if demand.problem:
            return ~out
        numbers = list(demand.own)
        for key in demand.named:
            found = self.allocation(key)
            if found is not None:
                if self.reserved(key) >= MAX_RESERVED:
                    return np.zeros(len(self._nodes), dtype=np.bool_)
                out &= self._mask_of(found.terms)
            elif key in self._given:
                at = np.zeros(len(self._nodes), dtype=np.bool_)
                at[self._given[key][0]] = self._given[key][1] < MAX_RESERVED
                out &= at
            elif key in self.index.claims:
                numbers.append(self.index.number(self.index.claims[key].spec))
            else:
                return np.zeros(len(self._nodes), dtype=np.bool_)
        return out & self._with_devices(tuple(sorted(numbers))) if numbers else out

    def problem(self, demand: DeviceDemand) -> str:
        """Return why no node at all will do for the claims of a pod; empty if one may."""
        specs = [(n, "") for n in demand.own]
        for key in demand.named:
            claim = self.index.claims.get(key)
            if claim is None:
                return devices.no_claim(name=key[1])
            if self.allocation(key) is None:
                specs.append((self.index.number(claim.spec), key[1]))
            elif self.reserved(key) >= MAX_RESERVED:
                return devices.reserved(name=key[1], most=MAX_RESERVED)
        for number, name in specs:
            kinds = self.index.kinds((number,))
            if kinds.problems[0]:
                return devices.claim_problem(name=name, why=kinds.problems[0]) if name else kinds.problems[0]
        if specs and not self.index.slices:
            return devices.NO_SLICES
        return ""

    def hopes(self, demand: DeviceDemand) -> tuple[Bools, Bools]:
        """``(N,)`` twice: nodes that reach the devices that claims have, and those that could give the others theirs if
        no pod had any.
        """
        reach = np.ones(len(self._nodes), dtype=np.bool_)
        numbers = list(demand.own)
        for key in demand.named:
            found = self.allocation(key)
            if found is not None:
                reach &= self._mask_of(found.terms)
            elif key in self._given:
                row = self._given[key][0]
                reach[:row] = reach[row + 1 :] = False
            elif key in self.index.claims:
                numbers.append(self.index.number(self.index.claims[key].spec))
        ever = np.array([not numbers or self._fits_empty(row, tuple(numbers)) for row in range(len(self._nodes))])
        return reach, ever.astype(np.bool_)

    def troubles(self) -> dict[str, Bools]:
        """Return ``(N,)`` the nodes with a pool that cannot be used, by what is wrong with the first one."""
        out: dict[str, Bools] = {}
        for row, node in enumerate(self._nodes):
            pools = self.index.inventory.pools(node.name, node.labels)
            why = next((pool.trouble for pool in pools if pool.trouble), "")
            if why:
                out.setdefault(why, np.zeros(len(self._nodes), dtype=np.bool_))[row] = True
        return out

    def reserved(self, key: ClaimKey) -> int:
        """Return for how many pods a claim is reserved here."""
        return len(self.index.users_of(key)) - self._left.get(key, 0) + self._joined.get(key, 0)

    def _with_devices(self, numbers: tuple[int, ...]) -> Bools:
        """``(N,)``: nodes on which claims with these specs can be allocated beside those of the pods there."""
        self._widen(numbers)
        known = self._masks.get(numbers)
        if known is None:
            mask = np.zeros(len(self._nodes), dtype=np.bool_)
            rows: Iterable[int] = range(len(self._nodes))
        else:
            mask, seen = known
            changed = self._changed[seen:]
            rows = range(len(self._nodes)) if _ALL in changed else dict.fromkeys(changed)
        for row in rows:
            mask[row] = self._fits(row, numbers)
        self._masks[numbers] = mask, len(self._changed)
        return mask

    def _widen(self, numbers: Iterable[int]) -> None:
        """Claims with these specs are in play from now on."""
        wanted = {*self._numbers, *numbers}
        if len(wanted) > len(self._numbers):
            self._numbers = tuple(sorted(wanted))
            self._states.clear()

    def _asked(self, guests: Iterable[Guest]) -> list[int]:
        """The specs of all claims that get devices with these pods, each shared one once."""
        out: list[int] = []
        shared: set[ClaimKey] = set()
        for guest in guests:
            out += guest.own
            shared.update(guest.fresh)
        return out + [self.index.number(self.index.claims[key].spec) for key in sorted(shared)]

    @property
    def kinds(self) -> Kinds:
        """The kinds of devices that the claims in play can tell apart."""
        return self.index.kinds(self._numbers)

    def _fits(self, row: int, numbers: tuple[int, ...]) -> bool:
        guests = self._guests.get(row)
        asked = tuple(sorted((*self._asked(guests), *numbers))) if guests else numbers
        state = self._state(row)
        return self._answers.answer(self._nodes[row], state, asked, self._used, self.kinds)

    def _fits_empty(self, row: int, numbers: tuple[int, ...]) -> bool:
        """Return whether claims with these specs could be allocated if no pod had devices of the node."""
        self._widen(numbers)
        node = self._nodes[row]
        state = self.kinds.state(self.index.inventory.pools(node.name, node.labels), self._used, empty=True)
        return self._answers.answer(self._nodes[row], state, tuple(sorted(numbers)), InUse(), self.kinds)

    def undecided(self) -> Bools:
        """``(N,)``: nodes of which the search for devices has ended without an answer, in this simulation."""
        out = np.zeros(len(self._nodes), dtype=np.bool_)
        for name in self._answers.undecided:
            out[self._row_of(name)] = True
        return out

    def _state(self, row: int) -> NodeState:
        found = self._states.get(row)
        if found is not None:
            return found
        index, node = self.index, self._nodes[row]
        known = index.known_states()
        key = (self._numbers, node.name)
        if row not in self._altered and key in known:
            found = known[key]
        else:
            found = self.kinds.state(index.inventory.pools(node.name, node.labels), self._used)
            if row not in self._altered:
                known[key] = found
        self._states[row] = found
        return found

    # -- numbers -------------------------------------------------------------------------------------------

    def counts(self, numbers: Iterable[int]) -> tuple[Kinds, dict[DeviceId, int], Floats]:
        """Return the kinds of devices for claims with these specs and those of pods here, that of each device that some
        of them can have, and ``(K, N)`` how many of each are free where no pod of this simulation has any. Devices that
        several nodes reach count as free: pods of any node may give them back.
        """
        self._widen(numbers)
        kinds, pools_of = self.kinds, self.index.inventory.pools
        used, inventory = self._used.devices, self.index.inventory
        if inventory.wide:
            used = {device for device in used if not inventory.several(device)}
        rows, found, kind_of = list[int](), list[int](), dict[DeviceId, int]()
        for row, node in enumerate(self._nodes):
            here = kinds.devices(pools_of(node.name, node.labels))
            kind_of.update(here)
            free = [kind for device, kind in here if device not in used]
            found += free
            rows += [row] * len(free)
        size = kinds.number, len(self._nodes)
        flat = np.array(found, dtype=np.int64) * size[1] + np.array(rows, dtype=np.int64)
        return kinds, kind_of, np.bincount(flat, minlength=size[0] * size[1]).reshape(size).astype(np.float64)

    def place_of(self, numbers: Iterable[int]) -> list[int]:
        """Return the places of specs among those in play."""
        return [self._numbers.index(n) for n in numbers]

    def guests(self) -> Iterator[tuple[int, Guest]]:
        """Yield the pods that were placed here, with their rows."""
        return ((row, guest) for row, found in self._guests.items() for guest in found)

    def can_take(self, demand: DeviceDemand, row: int) -> bool:
        """Return whether a node can give a further pod its devices. The pod has claims of its own alone."""
        return not demand.own or self._fits(row, tuple(sorted(demand.own)))

    @property
    def size(self) -> int:
        """Number of nodes."""
        return len(self._nodes)

    def usage(self, demand: DeviceDemand, row: int) -> tuple[float, float]:
        """Return the share of such devices of a node that is in use, and the size of the others: 1 is that of the
        largest of the cluster.
        """
        self._widen(demand.own)
        node, kinds = self._nodes[row], self.kinds
        # All kinds of the node are known before it is asked which of them serve.
        here = list(kinds.devices(self.index.inventory.pools(node.name, node.labels)))
        serving, sizes = self._serving(demand.own), self.index.sizes()
        mine = [device for device, kind in here if kind in serving]
        if not mine:
            return 0.0, 0.0
        free = [device for device in mine if device not in self._used.devices]
        taken = sum(n for _, n in kinds.asked(self.place_of(self._asked(self._guests.get(row, ())))))
        size = sum(sizes.get(device, 0.0) for device in free) / len(free) if free else 0.0
        return min(1.0, (len(mine) - len(free) + taken) / len(mine)), size

    def _serving(self, numbers: tuple[int, ...]) -> frozenset[int]:
        kinds = self.kinds
        key = (kinds.key, kinds.number, numbers)
        if self._serves[0] != key:
            found = (kinds.served(ask) for ask in kinds.asked(self.place_of(numbers)))
            self._serves = key, frozenset[int]().union(*found)
        return self._serves[1]

    def name(self, row: int) -> str:
        """Return the name of a node."""
        return self._nodes[row].name

    def least(self, demand: DeviceDemand, row: int, *, empty: bool) -> int | None:
        """Return how many devices a node has for the request of such a pod of which it lacks the most; with ``empty``,
        if no pod had any. None if it has enough for each by itself.
        """
        specs = list(demand.own)
        specs += [self.index.number(self.index.claims[k].spec) for k in demand.named if k in self.index.claims]
        self._widen(specs)
        node, kinds = self._nodes[row], self.kinds
        pools = self.index.inventory.pools(node.name, node.labels)
        here = [kind for device, kind in kinds.devices(pools) if empty or device not in self._used.devices]
        found: list[tuple[int, int]] = []
        for ask in kinds.asked(self.place_of(specs)):
            there = sum(kind in kinds.served(ask) for kind in here) - (0 if empty else self._taken(ask, row))
            found.append((there - ask[1], there))
        return min(found)[1] if found else None

    def _taken(self, ask: tuple[int, int], row: int) -> int:
        """How many devices pods that were placed on a node need of those that serve a request."""
        kinds = self.kinds
        others = kinds.asked(self.place_of(self._asked(self._guests.get(row, ()))))
        return sum(count for other, count in others if kinds.served((other, count)) & kinds.served(ask))

    def fingerprint(self, row: int) -> Hashable:
        """Return what tells a node from others for the claims in play: what it has, and what pods here take of it."""
        return self._state(row), tuple(sorted(self._asked(self._guests.get(row, ()))))

    def alone(self, demand: DeviceDemand) -> bool:
        """Return whether such a pod changes what its own node has, and nothing else."""
        return not demand.named and not demand.problem and not self.index.inventory.wide

    # -- the devices of each pod ---------------------------------------------------------------------------

    def _allocate(self, row: int, guests: Sequence[Guest]) -> list[Allocation] | None:
        """Allocations for :meth:`_claims` of the pods on a node."""
        specs = [spec for _, _, spec in self._claims(guests)]
        claims = [ResourceClaim("", "", spec=self.index.specs[n]) for n in specs]
        for sizes in (True, False):  # the order that has found an answer may be the other one
            try:
                return self._answers.allocator(self._nodes[row], self._used, self.kinds, sizes=sizes).allocate(claims)
            except ClaimError:
                return None
            except SearchStoppedError:
                continue
        return None

    def _claims(self, guests: Sequence[Guest]) -> Iterator[tuple[int, ClaimKey | int, int]]:
        """The claims of these pods that get devices: the pod's place, the claim's key or place, and its spec."""
        seen: set[ClaimKey] = set()
        for n, guest in enumerate(guests):
            yield from ((n, i, number) for i, number in enumerate(guest.own))
            for key in guest.fresh:
                if key not in seen:
                    seen.add(key)
                    yield n, key, self.index.number(self.index.claims[key].spec)

    def chosen(self, members: Sequence[tuple[Pod, int, int]]) -> dict[str, tuple[ClaimAllocation, ...]] | None:
        """Return the devices of claims that have none, by the UID of the member. All ``members`` have been placed:
        each with its class and row. None if the search for the devices of one was stopped.
        """
        out: dict[str, tuple[ClaimAllocation, ...]] = {}
        by_row: dict[int, list[tuple[Pod, int]]] = {}
        for pod, ident, row in members:
            by_row.setdefault(row, []).append((pod, ident))
        users = self._users(members)
        for row, pods in by_row.items():
            guests = self._guests.get(row, [])
            for each in self._wide.get(row, ()):
                self._used.give_back(each)
            found = self._allocate(row, guests)
            for each in self._wide.get(row, ()):
                self._used.add(each)
            if found is None:
                return None
            given: dict[int, dict[ClaimKey | int, Allocation]] = {}
            for (n, what, _), allocation in zip(self._claims(guests), found, strict=True):
                given.setdefault(n, {})[what] = allocation
            free = list(range(len(guests)))
            for pod, ident in pods:
                place = next(n for n in reversed(free) if guests[n].ident == ident)
                free.remove(place)
                out[pod.uid] = tuple(self._of_pod(pod, given.get(place, {}), users))
        return out

    def _users(self, members: Sequence[tuple[Pod, int, int]]) -> dict[ClaimKey, tuple[str, ...]]:
        out: dict[ClaimKey, tuple[str, ...]] = {}
        for pod, _, _ in members:
            for name in pod.devices.names if pod.devices is not None else ():
                key = (pod.namespace, name)
                out[key] = (*out.get(key, ()), pod.uid)
        return out

    def _of_pod(
        self, pod: Pod, given: dict[ClaimKey | int, Allocation], users: dict[ClaimKey, tuple[str, ...]]
    ) -> Iterator[ClaimAllocation]:
        for i, claim in enumerate(own_claims(self.index, pod)):
            if i in given:
                yield ClaimAllocation(pod.namespace, claim.name, claim.uid, given[i], (pod.uid,))
        for what, allocation in given.items():
            if isinstance(what, tuple):
                uid = self.index.claims[what].uid
                yield ClaimAllocation(*what, uid, allocation, users.get(what, ()))
