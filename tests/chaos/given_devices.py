"""Devices, judged by what the process that gives them had been told: each is given out once, and before its pod."""

from __future__ import annotations

from collections.abc import Iterator

from gangsched.core.actions import Action, AllocateClaim, Bind, ReleaseClaim
from gangsched.core.events import Changed, Event, Gone, Outcome, WriteDone
from gangsched.model.devices import ClaimKey, DeviceId, ResourceClaim
from tests.chaos.told import Life, Told

#: After these answers a write has had no effect.
_NOTHING = (Outcome.CONFLICT, Outcome.REFUSED, Outcome.GONE, Outcome.OUTDATED)


class Devices(Life):
    """A device is given to no claim while another is known to have it, or was given it and may have it. A pod is bound
    when all of its claims are known to have their devices, which no other claim has, and to be reserved for it.
    """

    def __init__(self, told: Told) -> None:
        super().__init__(told)
        self._claims: dict[ClaimKey, ResourceClaim] = {}
        #: By claim what it was given and has not been seen to have, or to have lost.
        self._given: dict[ClaimKey, frozenset[DeviceId]] = {}
        self._asked: dict[int, AllocateClaim | ReleaseClaim] = {}

    def hears(self, event: Event) -> None:
        """Claims change, and writes to them are answered."""
        match event:
            case Changed(ResourceClaim() as claim):
                self._claims[claim.key] = claim
                if _devices(claim) == self._given.get(claim.key):
                    del self._given[claim.key]
            case Gone("ResourceClaim", namespace, name):
                self._claims.pop((namespace, name), None)
                self._given.pop((namespace, name), None)
            case WriteDone(action_id, outcome) if action_id in self._asked:
                action = self._asked.pop(action_id)
                over = isinstance(action, ReleaseClaim) and outcome in (Outcome.OK, Outcome.GONE)
                if over or (isinstance(action, AllocateClaim) and outcome in _NOTHING):
                    self._given.pop((action.claim.namespace, action.claim.name), None)

    def asks(self, action: Action) -> Iterator[str]:
        """What is wrong with a gift of devices, or with a binding."""
        match action:
            case AllocateClaim():
                self._asked[action.id] = action
                key = (action.claim.namespace, action.claim.name)
                devices = frozenset(each.device for each in action.allocation.devices)
                for device, other in self._held(key, devices):
                    yield f"{action.claim.key} is given {'/'.join(device)}, which {'/'.join(other)} has"
                self._given[key] = devices
            case ReleaseClaim():
                self._asked[action.id] = action
            case Bind() if action.pod.uid in self.told.pods and action.pod.uid not in self.told.tried:
                yield from self._bound(action)

    def _bound(self, action: Bind) -> Iterator[str]:
        pod = self.told.pods[action.pod.uid]
        for entry in pod.devices.claims if pod.devices is not None else ():
            claim = self._claims.get((pod.namespace, entry.claim))
            if claim is None or claim.allocation is None:
                yield f"{pod.key} is bound before its claim {entry.claim or entry.entry} has devices"
            elif pod.uid not in {uid for _, _, uid in claim.reserved_for}:
                yield f"{pod.key} is bound before its claim {claim.name} is reserved for it"
            elif any(each.device.pool != action.node for each in claim.allocation.devices):
                yield f"{pod.key} is bound to {action.node}, and its claim {claim.name} has devices elsewhere"
            else:
                for device, other in self._held(claim.key, _devices(claim)):
                    yield f"{pod.key} is bound with {'/'.join(device)}, which {'/'.join(other)} has too"

    def _held(self, key: ClaimKey, devices: frozenset[DeviceId]) -> Iterator[tuple[DeviceId, ClaimKey]]:
        """Those of the devices that another claim has, or may have."""
        there = {k: _devices(c) for k, c in self._claims.items()}
        for other in sorted((there.keys() | self._given.keys()) - {key}):
            held = there.get(other, frozenset()) | self._given.get(other, frozenset())
            yield from ((device, other) for device in sorted(devices & held))


def _devices(claim: ResourceClaim) -> frozenset[DeviceId]:
    given = claim.allocation.devices if claim.allocation is not None else ()
    return frozenset(each.device for each in given)
