"""Which devices the claims of a pod get on one node: exact, by depth-first search with backtracking.

The rules are those of k8s.io/dynamic-resource-allocation/structured with what Kubernetes 1.37 has switched on: an
allocation is found exactly when its allocator finds one. Of devices that differ by name only, one is tried.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import ROUND_CEILING, Decimal
from typing import Any, TypeAlias

from gangsched.core.devices.pools import InUse, Pool
from gangsched.messages import devices
from gangsched.model import cel
from gangsched.model.constraints import IN, NodeTerm, Requirement
from gangsched.model.devices import (
    MAX_RESULTS,
    AllocatedDevice,
    Allocation,
    Capacity,
    Constraint,
    Device,
    DeviceClass,
    DeviceId,
    DeviceRequest,
    Request,
    ResourceClaim,
)

#: Steps of one search. Searches that end without an answer after so many are reported as such.
MAX_STEPS = 20_000
#: The id of a share that is not written yet.
NEW_SHARE = "new"


class ClaimError(Exception):
    """The claims cannot be allocated on any node as they are written; the text says why."""


class SearchStoppedError(Exception):
    """The search took too many steps; whether there is an allocation is unknown."""


@dataclass(slots=True)
class _Ask:
    """One alternative of a request, with what is known of it on the node."""

    request: Request
    alternative: DeviceRequest
    selectors: tuple[str, ...]
    #: Of a request for all devices: which these are. Else None.
    all_of: list[tuple[Pool, Device]] | None = None

    @property
    def count(self) -> int:
        """Number of devices."""
        return len(self.all_of) if self.all_of is not None else self.alternative.count or 0

    @property
    def name(self) -> str:
        """As results name it."""
        name = self.request.name
        return f"{name}/{self.alternative.name}" if self.request.prioritized else name


_Pick: TypeAlias = tuple[_Ask, Pool, Device, dict[str, Decimal]]


@dataclass(slots=True)
class _Claim:
    """A claim that is being allocated: its requests, and for each constraint the values of the devices that it has."""

    claim: ResourceClaim
    asks: list[list[_Ask]]
    picks: list[_Pick] = field(default_factory=list)
    values: list[list[Any]] = field(default_factory=list)
    devices: set[DeviceId] = field(default_factory=set)


class Allocator:
    """Allocates the claims of one pod on one node.

    ``classes`` are all DeviceClasses by name, ``pools`` those that the node reaches, ``used`` what other claims have.
    Devices of a pool with one ``kind`` are interchangeable for the claims that are asked about. With ``sizes``,
    small ones are tried first.
    """

    def __init__(
        self,
        node: str,
        pools: Sequence[Pool],
        used: InUse,
        classes: Mapping[str, DeviceClass],
        kind: Callable[[Pool, Device], Hashable] = lambda _, device: device.alike,
        sizes: Mapping[DeviceId, float] | None = None,
        most_steps: int = MAX_STEPS,
    ) -> None:
        self._node = node
        self._kind = kind
        self._sizes = sizes
        self._most_steps = most_steps
        self._pools = pools
        self._used = used
        self._classes = classes
        self._matches: dict[tuple[DeviceId, tuple[str, ...]], bool] = {}
        self._counters = {pool.key: used.free_counters(pool) for pool in pools if not pool.trouble}
        self._picked: dict[DeviceId, int] = {}
        self._shares: dict[DeviceId, list[dict[str, Decimal]]] = {}
        self._claims: list[_Claim] = []
        #: States from which the search found no way on.
        self._hopeless: set[tuple[Any, ...]] = set()
        #: Steps of the search so far.
        self.steps = 0

    def allocate(self, claims: Sequence[ResourceClaim]) -> list[Allocation] | None:
        """Return an allocation for each claim, or None if the node has none for all of them.

        Raises :class:`ClaimError` for what no node can cure, :class:`SearchStoppedError` after too many steps.
        """
        self._claims = [self._prepared(claim) for claim in claims]
        self._hopeless.clear()
        self.steps = 0
        if not self._claim(0):
            return None
        return [self._allocation(each) for each in self._claims]

    # -- what is asked -------------------------------------------------------------------------------------

    def _prepared(self, claim: ResourceClaim) -> _Claim:
        if claim.spec.refused:
            raise ClaimError(devices.refused(claim=claim.name, why=claim.spec.refused))
        asks = [[self._ask(claim, request, each) for each in request.alternatives] for request in claim.spec.requests]
        if sum(min(ask.count for ask in alternatives) for alternatives in asks) > MAX_RESULTS:
            raise ClaimError(devices.too_many(claim=claim.name, most=MAX_RESULTS))
        return _Claim(claim, asks, values=[[] for _ in claim.spec.constraints])

    def _ask(self, claim: ResourceClaim, request: Request, alternative: DeviceRequest) -> _Ask:
        found = self._classes.get(alternative.device_class)
        if found is None:
            raise ClaimError(devices.no_class(claim=claim.name, name=alternative.device_class))
        ask = _Ask(request, alternative, (*found.selectors, *alternative.selectors))
        if alternative.count is None:
            ask.all_of = self._all(claim, ask)
        return ask

    def _all(self, claim: ResourceClaim, ask: _Ask) -> list[tuple[Pool, Device]]:
        found = []
        for pool in self._pools:
            if pool.trouble:
                raise ClaimError(devices.all_of_a_pool(claim=claim.name, pool="/".join(pool.key), why=pool.trouble))
            found += [
                (pool, device)
                for device in pool.devices
                if self._selects(ask, pool, device) and _amounts(ask, device, {}, {}) is not None
            ]
        return found

    def _selects(self, ask: _Ask, pool: Pool, device: Device) -> bool:
        """Whether the selectors of the class, then those of the request, are true; the first that is not ends it."""
        key = (pool.ident(device), ask.selectors)
        if key not in self._matches:
            try:
                self._matches[key] = all(cel.compile_selector(text).matches(device.seen) for text in ask.selectors)
            except (cel.ExpressionError, cel.EvaluationError) as error:
                where = "/".join(pool.ident(device))
                raise ClaimError(devices.selector_failed(request=ask.name, device=where, why=error)) from None
        return self._matches[key]

    # -- the search ----------------------------------------------------------------------------------------

    def _claim(self, number: int) -> bool:
        """Whether this claim and all after it can be allocated; if so, what is picked stays."""
        return number == len(self._claims) or self._request(number, 0)

    def _request(self, number: int, index: int) -> bool:
        claim = self._claims[number]
        if index == len(claim.asks):
            return self._claim(number + 1)
        state = self._state(number, index)
        if state in self._hopeless:
            return False
        if any(self._devices(number, index, ask, 0, self._places(ask)) for ask in claim.asks[index]):
            return True
        self._hopeless.add(state)
        return False

    def _state(self, number: int, index: int) -> tuple[Any, ...]:
        """All that the rest of the search depends on; equal for picks of interchangeable devices in any order."""
        picks = Counter(
            (
                pool.key,
                self._kind(pool, device),
                device.name if device.shared else "",
                each.claim.name if ask.alternative.admin else "",
            )
            for each in self._claims[: number + 1]
            for ask, pool, device, _ in each.picks
        )
        shares = tuple(
            sorted((ident, len(found), tuple(_summed(found).items())) for ident, found in self._shares.items())
        )
        claim = self._claims[number]
        return number, index, frozenset(picks.items()), shares, len(claim.picks), tuple(map(tuple, claim.values))

    def _places(self, ask: _Ask) -> list[tuple[Pool, Device]]:
        if ask.all_of is not None:
            return ask.all_of
        found = [(pool, device) for pool in self._pools if not pool.trouble for device in pool.devices]
        sizes = self._sizes
        if sizes:
            found.sort(key=lambda each: sizes.get(each[0].ident(each[1]), 0.0))
        return found

    def _devices(self, number: int, index: int, ask: _Ask, had: int, places: list[tuple[Pool, Device]]) -> bool:
        """Pick the devices of a request that are still missing from ``places``, then go on."""
        self.steps += 1
        if self.steps > self._most_steps:
            raise SearchStoppedError
        claim = self._claims[number]
        if ask.count == had:
            return (ask.all_of is None or had > 0) and self._request(number, index + 1)
        if len(claim.picks) + ask.count - had > MAX_RESULTS:
            return False
        failed: set[tuple[Any, ...]] = set()
        for at, (pool, device) in enumerate(places):
            if ask.all_of is not None and at > 0:
                return False  # each of them is needed
            if ask.all_of is None and len(places) - at < ask.count - had:
                return False  # too few are left
            alike = self._alike(ask, pool, device)
            if alike in failed:
                continue
            if self._selectable(ask, pool, device) and self._pick(claim, ask, pool, device):
                if self._devices(number, index, ask, had + 1, places[at + 1 :]):
                    return True
                self._put_back(claim)
                failed.add(alike)
            elif ask.all_of is not None:
                self._complain_of_constraint(claim, ask, pool, device)
        return False

    def _selectable(self, ask: _Ask, pool: Pool, device: Device) -> bool:
        ident = pool.ident(device)
        if not ask.alternative.admin and (ident in self._used.devices or self._picked.get(ident)):
            return False
        return ask.all_of is not None or self._selects(ask, pool, device)

    def _alike(self, ask: _Ask, pool: Pool, device: Device) -> tuple[Any, ...]:
        """What is equal for devices of a pool that are interchangeable now."""
        ident = pool.ident(device)
        if ask.all_of is not None or device.shared or ask.alternative.admin:
            return (ident,)
        return (pool.key, self._kind(pool, device), device.binds_to_node)

    def _pick(self, claim: _Claim, ask: _Ask, pool: Pool, device: Device) -> bool:
        """Take a device for the claim if counters, taints, constraints and capacity allow it."""
        ident = pool.ident(device)
        if ask.alternative.admin and not device.shared and ident in claim.devices:
            return False
        again = device.shared and (ident in self._used.shares or ident in self._shares)
        if any(taint.keeps_off and not ask.alternative.tolerates(taint) for taint in device.taints):
            return False
        if not self._keeps_constraints(claim, ask, device):
            return False
        amounts = _amounts(ask, device, self._used.taken(ident), _summed(self._shares.get(ident, ())))
        if amounts is None or (device.counters and not again and not self._takes_counters(pool, device)):
            return False
        for values, constraint in zip(claim.values, claim.claim.spec.constraints, strict=True):
            if constraint.concerns(ask.request.name, ask.alternative.name if ask.request.prioritized else ""):
                values.append(device.attribute(constraint.attribute))
        if device.shared:
            self._shares.setdefault(ident, []).append(amounts)
        else:
            self._picked[ident] = self._picked.get(ident, 0) + 1
            claim.devices.add(ident)
        claim.picks.append((ask, pool, device, amounts if not again else {**amounts, "": Decimal(0)}))
        return True

    def _put_back(self, claim: _Claim) -> None:
        """Undo the last pick."""
        ask, pool, device, amounts = claim.picks.pop()
        ident = pool.ident(device)
        for values, constraint in zip(claim.values, claim.claim.spec.constraints, strict=True):
            if constraint.concerns(ask.request.name, ask.alternative.name if ask.request.prioritized else ""):
                values.pop()
        if device.shared:
            self._shares[ident].pop()
            if not self._shares[ident]:
                del self._shares[ident]
        else:
            self._picked[ident] -= 1
            claim.devices.discard(ident)
        if "" not in amounts:
            for counter_set, counter, amount in device.counters:
                self._counters[pool.key][counter_set, counter] += amount

    def _takes_counters(self, pool: Pool, device: Device) -> bool:
        left = self._counters[pool.key]
        for counter_set, counter, amount in device.counters:
            left[counter_set, counter] -= amount
        if min(left.values()) >= 0:  # of all counters of the pool, not only of these
            return True
        for counter_set, counter, amount in device.counters:
            left[counter_set, counter] += amount
        return False

    @staticmethod
    def _keeps_constraints(claim: _Claim, ask: _Ask, device: Device) -> bool:
        alternative = ask.alternative.name if ask.request.prioritized else ""
        for values, constraint in zip(claim.values, claim.claim.spec.constraints, strict=True):
            if constraint.concerns(ask.request.name, alternative) and not _fits(values, constraint, device):
                return False
        return True

    def _complain_of_constraint(self, claim: _Claim, ask: _Ask, pool: Pool, device: Device) -> None:
        """A claim whose constraint excludes one of all devices cannot be allocated anywhere."""
        ident = pool.ident(device)
        usable = self._selectable(ask, pool, device) and not any(
            taint.keeps_off and not ask.alternative.tolerates(taint) for taint in device.taints
        )
        enough = not device.counters or self._counters_would_do(pool, device)
        if (
            usable
            and enough
            and not self._keeps_constraints(claim, ask, device)
            and not (ask.alternative.admin and ident in claim.devices)
        ):
            raise ClaimError(devices.excluded(claim=claim.claim.name, device="/".join(ident)))

    def _counters_would_do(self, pool: Pool, device: Device) -> bool:
        if not self._takes_counters(pool, device):
            return False
        for counter_set, counter, amount in device.counters:
            self._counters[pool.key][counter_set, counter] += amount
        return True

    # -- the answer ----------------------------------------------------------------------------------------

    def _allocation(self, claim: _Claim) -> Allocation:
        given = tuple(
            AllocatedDevice(
                ask.name,
                pool.ident(device),
                ask.alternative.admin,
                share=NEW_SHARE if device.shared else "",
                consumed=tuple(sorted((n, a) for n, a in amounts.items() if n)) if device.shared else (),
                tolerations=ask.alternative.tolerations,
                conditions=device.conditions,
                failure_conditions=device.failure_conditions,
            )
            for ask, pool, device, amounts in claim.picks
        )
        return Allocation(given, self._terms([(pool, device) for _, pool, device, _ in claim.picks]))

    def _terms(self, picks: Sequence[tuple[Pool, Device]]) -> tuple[NodeTerm, ...] | None:
        """The nodes from which all of these devices can be used."""
        places = [pool.places[device.name] for pool, device in picks]
        if any(place.node for place in places) or any(device.binds_to_node for _, device in picks):
            return (NodeTerm(fields=(Requirement("metadata.name", IN, (self._node,)),)),)
        terms = list(dict.fromkeys(place.term for place in places if place.term is not None))
        if not terms:
            return None
        expressions = dict.fromkeys(each for term in terms for each in term.expressions)
        return (NodeTerm(tuple(expressions), tuple(dict.fromkeys(each for term in terms for each in term.fields))),)


def _fits(values: Sequence[Any], constraint: Constraint, device: Device) -> bool:
    value = device.attribute(constraint.attribute)
    if value is None:
        return False
    return value not in values if constraint.distinct else not values or value == values[0]


def _summed(shares: Sequence[Mapping[str, Decimal]]) -> dict[str, Decimal]:
    out: dict[str, Decimal] = {}
    for share in shares:
        for name, amount in share.items():
            out[name] = out.get(name, Decimal(0)) + amount
    return out


def _amounts(
    ask: _Ask, device: Device, taken: Mapping[str, Decimal], picked: Mapping[str, Decimal]
) -> dict[str, Decimal] | None:
    """Return what the request takes of each capacity of the device, or None if the device has too little or none.

    Raises :class:`ClaimError` for an amount that cannot be computed with.
    """
    asked = dict(ask.alternative.capacity)
    if asked.keys() - device.capacity.keys():
        return None
    found = {name: _rounded(asked.get(name), capacity) for name, capacity in device.capacity.items()}
    for name, amount in found.items():
        if amount < 0:
            raise ClaimError(devices.negative(request=ask.name, name=name))
        capacity = device.capacity[name]
        total = amount + taken.get(name, Decimal(0)) + picked.get(name, Decimal(0))
        if _violates(amount, capacity) or total > capacity.value:
            return None
    return found


def fills(request: DeviceRequest, device: Device) -> bool:
    """Return whether the device, if no claim had any of it, has the capacity that is asked for."""
    return _amounts(_Ask(Request(request.name, (request,)), request, ()), device, {}, {}) is not None


def _rounded(asked: Decimal | None, capacity: Capacity) -> Decimal:
    """The amount that is taken for a request: the next one that the device's policy allows."""
    if asked is None:
        return capacity.value if capacity.default is None else capacity.default
    if capacity.least is not None:
        if asked < capacity.least:
            return capacity.least
        if capacity.step is None:
            return asked
        steps = ((asked - capacity.least) / capacity.step).to_integral_value(ROUND_CEILING)
        return capacity.least + steps * capacity.step
    return next((value for value in capacity.values if asked <= value), asked)


def _violates(amount: Decimal, capacity: Capacity) -> bool:
    if not capacity.limited or amount == capacity.default:
        return False
    if capacity.values:
        return amount not in capacity.values
    if capacity.most is not None and amount > capacity.most:
        return True
    return capacity.step is not None and (amount - (capacity.least or 0)) % capacity.step != 0


def in_use(claims: Iterator[ResourceClaim] | Sequence[ResourceClaim]) -> InUse:
    """Return what the allocations of claims take. Admin access takes nothing."""
    found = InUse()
    for claim in claims:
        if claim.allocation is not None:
            found.add(claim.allocation)
    return found
