"""What the claims that are decided about together can tell apart of devices: devices of one kind serve them alike.

A node's devices then are numbers of kinds, and nodes with equal numbers give equal answers. A device of an identity of
its own (an UUID, a bus address) is of the same kind as its neighbour unless a selector reads that.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

from gangsched.core.devices.allocation import ClaimError, fills
from gangsched.core.devices.matching import Matches
from gangsched.core.devices.pools import InUse, Pool
from gangsched.messages import devices
from gangsched.model.devices import MAX_RESULTS, ClaimSpec, Device, DeviceClass, DeviceId, DeviceRequest

#: What a node has for some claims. Equal states give equal answers.
NodeState: TypeAlias = tuple[Hashable, ...]


class Kinds:
    """The kinds of devices for some ``specs``, with what is wrong with each of these: ``problems``, by its place."""

    def __init__(
        self, key: Hashable, specs: Sequence[ClaimSpec], classes: Mapping[str, DeviceClass], matches: Matches
    ) -> None:
        self.key = key
        self.problems = [_problem(spec, classes) for spec in specs]
        fine = [spec for spec, problem in zip(specs, self.problems, strict=True) if not problem]
        self._asks: list[tuple[tuple[str, ...], DeviceRequest]] = []
        for each in _requests(fine):
            ask = ((*classes[each.device_class].selectors, *each.selectors), each)
            if ask not in self._asks:
                self._asks.append(ask)
        attributes = dict.fromkeys(constraint.attribute for spec in fine for constraint in spec.constraints)
        self._attributes = tuple(sorted(attributes))
        self._all = any(each.count is None for each in _requests(fine))
        self._sees_used = self._all or any(each.admin for each in _requests(fine))
        self._numbers: dict[Hashable, int] = {}
        self._matches = matches
        self._of_spec = [self._places(spec, classes) for spec in specs]
        self._countable = all(map(_counted, fine))
        self._kinds: list[tuple[tuple[int, ...], bool]] = [((), True)]
        #: Why a selector has failed on some device, the first time.
        self.error = ""

    def kind_of(self, pool: Pool, device: Device) -> Hashable:
        """Return the kind of a device, with the values that constraints compare."""
        number, values = self._of_pool(pool)[device.name]
        return number, values

    def _of_pool(self, pool: Pool) -> dict[str, tuple[int, tuple[Hashable, ...]]]:
        found: dict[str, tuple[int, tuple[Hashable, ...]]] | None = pool.kinds.get(self.key)
        if found is None:
            found = pool.kinds[self.key] = {each.name: self._kind(each) for each in pool.devices}
        return found

    def _kind(self, device: Device) -> tuple[int, tuple[Hashable, ...]]:
        """The number of its kind, which is 0 if no request can use it, and the values of constraints."""
        serves = tuple(self._serves(selectors, ask, device) for selectors, ask in self._asks)
        if not any(serves):
            return 0, ()
        name = device.name if device.shared else ""
        kind = (serves, device.counters, name, len(self._attributes) > 1)
        values = tuple(device.attribute(each) for each in self._attributes)
        number = self._numbers.setdefault(kind, len(self._numbers) + 1)
        if number == len(self._kinds):
            self._kinds.append((serves, not device.counters and not device.shared))
        return number, values

    # -- numbers -------------------------------------------------------------------------------------------

    def _places(self, spec: ClaimSpec, classes: Mapping[str, DeviceClass]) -> list[tuple[int, int]]:
        """The requests of a spec that must have a number of devices: their places among all, and the numbers."""
        if _problem(spec, classes):
            return []
        must = [request.alternatives[0] for request in spec.requests if len(request.alternatives) == 1]
        return [
            (self._asks.index(((*classes[each.device_class].selectors, *each.selectors), each)), each.count)
            for each in must
            if each.count is not None and not each.admin
        ]

    @property
    def countable(self) -> bool:
        """True if numbers of devices say whether claims can be allocated."""
        return self._countable and not self.error and all(plain for _, plain in self._kinds)

    def asked(self, places: Iterable[int]) -> list[tuple[int, int]]:
        """Return the requests of these specs (by place) that must have a number of devices."""
        return [ask for place in places for ask in self._of_spec[place]]

    def served(self, ask: tuple[int, int]) -> frozenset[int]:
        """Return the kinds that serve such a request."""
        return frozenset(n for n, (serves, _) in enumerate(self._kinds) if serves and serves[ask[0]] == 2)

    def devices(self, pools: Sequence[Pool]) -> list[tuple[DeviceId, int]]:
        """Return the devices that some request can have, with their kinds."""
        out: list[tuple[DeviceId, int]] = []
        for pool in pools:
            if not pool.trouble:
                known: list[tuple[DeviceId, int]] | None = pool.numbered.get(self.key)
                if known is None:
                    kinds = self._of_pool(pool).items()
                    known = [(DeviceId(*pool.key, name), number) for name, (number, _) in kinds if number]
                    pool.numbered[self.key] = known
                out += known
        return out

    @property
    def number(self) -> int:
        """How many kinds have been seen, with that of devices that serve nothing."""
        return len(self._kinds)

    def _serves(self, selectors: tuple[str, ...], ask: DeviceRequest, device: Device) -> int:
        """0 if the device does not match, 2 if it does, 1 if the request cannot have it all the same."""
        matches = self._matches.all(selectors, device)
        if isinstance(matches, str):
            self.error = self.error or devices.selector_error(name=ask.device_class, device=device.name, why=matches)
            return 0
        try:
            if not matches or not fills(ask, device):
                return 0
        except ClaimError as error:
            self.error = self.error or str(error)
            return 0
        tainted = any(taint.keeps_off and not ask.tolerates(taint) for taint in device.taints)
        if not tainted:
            return 2
        return 1 if self._all else 0

    def state(self, pools: Sequence[Pool], used: InUse, *, empty: bool = False) -> NodeState:
        """Return what the pools of a node have beside what is ``used``; with ``empty``, if nothing of it were."""
        merged: list[tuple[int, tuple[Hashable, ...]]] = []
        parts: list[Hashable] = []
        for pool in pools:
            if pool.trouble:
                parts += [pool.trouble] if self._all else []
                continue
            here = merged if not pool.counters else []
            kinds = self._of_pool(pool)
            for device in pool.devices:
                number, values = kinds[device.name]
                if not number:
                    continue
                ident = DeviceId(*pool.key, device.name)
                if not empty and ident in used.devices:
                    if self._sees_used:
                        here.append((-number, values))
                    continue
                here.append((number, values))
                if device.shared and not empty and ident in used.shares:
                    parts.append((number, tuple(sorted(used.shares[ident].items()))))
            if pool.counters:
                left = pool.counters if empty else used.free_counters(pool)
                parts.append((tuple(sorted(left.items())), self._grouped(here)))
        return (self._grouped(merged), *parts)

    def _grouped(self, found: Sequence[tuple[int, tuple[Hashable, ...]]]) -> Hashable:
        """Devices as numbers. Of one attribute that constraints compare, only which devices are equal in it matters."""
        if not self._attributes:
            return tuple(sorted(number for number, _ in found))
        if len(self._attributes) > 1:
            return tuple(sorted(found, key=repr))
        groups: dict[Hashable, list[int]] = {}
        for number, (value,) in found:
            groups.setdefault(value, []).append(number)
        without = tuple(sorted(groups.pop(None, ())))
        return without, tuple(sorted(tuple(sorted(each)) for each in groups.values()))


def _requests(specs: Sequence[ClaimSpec]) -> Iterator[DeviceRequest]:
    return (each for spec in specs for request in spec.requests for each in request.alternatives)


def _counted(spec: ClaimSpec) -> bool:
    """Whether a claim asks for numbers of devices alone."""
    alone = all(len(r.alternatives) == 1 and not r.alternatives[0].admin for r in spec.requests)
    return alone and not spec.constraints and all(each.count is not None for each in _requests([spec]))


def _problem(spec: ClaimSpec, classes: Mapping[str, DeviceClass]) -> str:
    """Return why no node can have devices for this."""
    if spec.refused:
        return spec.refused
    least = sum(min(each.count or 0 for each in request.alternatives) for request in spec.requests)
    if least > MAX_RESULTS:
        return devices.more_than(most=MAX_RESULTS)
    missing = [each.device_class for each in _requests([spec]) if each.device_class not in classes]
    return devices.no_device_class(name=missing[0]) if missing else ""
