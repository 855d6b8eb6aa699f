"""Claims get their devices before the first member of a gang is bound, and give back what no member needs.

A claim is reserved for a member that waits only while a plan has a place for that member. Any other reservation of such
a pod is what is left of a plan that was given up, here or by an earlier process, and is taken back. The claims of pods
that are bound are left to the claim controller.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from gangsched.core.actuation import desired
from gangsched.core.actuation.actuator import Actuator, Aspect
from gangsched.core.agenda import Page
from gangsched.core.devices import binding as claims
from gangsched.core.devices.binding import DeviceBinding
from gangsched.core.devices.index import Assumed
from gangsched.core.events import Change, Hint
from gangsched.core.ledger.ledger import Ledger
from gangsched.core.lifecycle.group import Group, Plan
from gangsched.core.lifecycle.holding import Holding
from gangsched.core.world.world import World
from gangsched.messages import causes
from gangsched.model.devices import Allocation, ClaimKey
from gangsched.model.records import Pod

#: Other schedulers do not look for what was given out since they decided. If their pods cannot be kept off the nodes,
#: so long they may take from a decision to the write that shows it.
SETTLE_SECONDS = 1.0


class DeviceClaims:
    """Asks ``actuator`` for what gives devices to claims and takes them back."""

    def __init__(
        self, world: World, ledger: Ledger, actuator: Actuator, holding: Holding, groups: Mapping[str, Group]
    ) -> None:
        self._holding = holding
        self._world = world
        self._ledger = ledger
        self._actuator = actuator
        self._groups = groups
        #: When the devices of a group, by key, may be taken as its own.
        self._settling: Page[str] = ledger.agenda.page(on_due=ledger.work.phases.add)
        self._shared = False
        #: By claim the UIDs of pods whose reservation is being taken back.
        self._leaving: dict[ClaimKey, set[str]] = {}

    # -- before the members are bound ----------------------------------------------------------------------

    def lacking(self, plan: Plan) -> bool:
        """Return True if a claim of a member has no devices yet, or is not reserved for the member."""
        return claims.lacks_devices(self._world.snapshot.devices, self._members(plan))

    def _members(self, plan: Plan) -> Iterator[Pod]:
        return (self._world.members[p.uid] for p in plan.placements if p.uid in self._world.members)

    def begin(self, plan: Plan) -> str:
        """Assume the devices of the members' claims; returns why a claim has none, or an empty text."""
        index = self._world.snapshot.devices
        found = claims.bindings(index, self._members(plan), chosen(plan))
        if isinstance(found, str):
            return found
        taken = next((each for each in found if each.key in index.assumed), None)
        if taken is not None:  # another gang shares it: its devices are known when that gang is bound
            return causes.claim_allocated_elsewhere(name=taken.key[1])
        plan.devices = found
        for each in found:
            index.assume(each.key, Assumed(each.uid, each.allocation, tuple(pod.uid for pod in each.consumers)))
        return ""

    def write_claims(self, group: Group, plan: Plan) -> tuple[bool, str]:
        """Ask for what can be written by now. Returns whether all claims have their devices and are reserved, and why
        one will not be.
        """
        index, everything = self._world.snapshot.devices, True
        if not any(each.asked for each in plan.devices):
            self._keep_others_off(plan)
        may_give = self._holding.may_give_devices(group, plan)
        for each in plan.devices:
            done, problem = claims.progress(index, each)
            if may_give and not (problem or done or each.asked):
                problem = self._write(group, each)
            if problem:
                return False, problem
            everything = everything and done
        return everything and not self._contested(group, plan), ""

    def _contested(self, group: Group, plan: Plan) -> bool:
        """Return True while another scheduler may have given out the same devices before it saw whose they are. That is
        so if its pods are not kept off the nodes, or could use the devices from other nodes.
        """
        new = [each for each in plan.devices if each.new]
        held = bool(plan.device_nodes) and self._holding.is_holding(group.key)
        if not new or (held and all(map(claims.of_one_node, new))) or not self._others_use_devices():
            return False
        if plan.given_at is None:
            plan.given_at = self._world.now
            self._settling.at(group.key, plan.given_at + SETTLE_SECONDS)
        return self._world.now < plan.given_at + SETTLE_SECONDS

    def _keep_others_off(self, plan: Plan) -> None:
        """Have the nodes held of members that are given devices, if other schedulers may give out the same ones."""
        new = {pod.uid for each in plan.devices if each.new for pod in each.consumers}
        if new and (self._holding.always or self._others_use_devices()):
            plan.device_nodes = frozenset(place.node for place in plan.placements if place.uid in new)

    def _others_use_devices(self) -> bool:
        """Return True if pods of other schedulers have used devices since this process leads, or wait for some."""
        if not self._shared:
            ours = self._world.membership.ours
            users = (pod for pod in self._world.pods.values() if pod.devices is not None and pod.live)
            self._shared = any(pod.scheduler not in ours for pod in users)
        return self._shared

    def _write(self, group: Group, each: DeviceBinding) -> str:
        """Ask for a write unless its devices are still shown for another claim; returns why they will stay there."""
        index = self._world.snapshot.devices
        if each.new:
            waits, stays = claims.waits_for(index, each)
            if waits:
                return causes.claim_allocated_elsewhere(name=each.key[1]) if stays else ""
        each.asked = True
        self._actuator.want(desired.give_devices(index, each), group.key)
        return ""

    # -- afterwards ----------------------------------------------------------------------------------------

    def plan_over(self, plan: Plan) -> None:
        """What the cluster shows of the plan's claims counts again. Members that are not being bound give back what
        was asked for, and until it is given back it counts as theirs.
        """
        index, now = self._world.snapshot.devices, plan.devices
        plan.devices, plan.given_at = [], None
        for each in now:
            left = {pod.uid for pod in each.consumers if not self._is_bound(pod.uid)}
            if each.asked and left:
                self._take_back(each.key, left)
            else:
                index.forget(each.key)
        if now:
            self._ledger.work.changes.append(Change(Hint.DEVICES))
        self.no_longer_placed(plan.node_of)

    def _is_bound(self, uid: str) -> bool:
        pod = self._world.pods.get(uid)
        return uid in self._world.assumed or (pod is not None and bool(pod.node))

    def _waits(self, uid: str) -> bool:
        return uid in self._world.pods and not self._is_bound(uid)

    def no_longer_placed(self, uids: Iterable[str]) -> None:
        """Plans may have no place for these pods any more."""
        if self._world.snapshot.devices.claims:
            self._ledger.work.unplaced.update(uids)

    def take_back_unused(self) -> None:
        """Take back the reservations of pods that wait and that no plan has a place for."""
        self._forget_released()
        unplaced, self._ledger.work.unplaced = self._ledger.work.unplaced, set()
        index = self._world.snapshot.devices
        if not unplaced or not index.claims:
            return
        placed = {uid for g in self._groups.values() if g.plan is not None for uid in g.plan.node_of}
        for uid in sorted(unplaced - placed):
            pod = self._world.pods.get(uid)
            if pod is None or self._is_bound(uid) or pod.scheduler not in self._world.membership.ours:
                continue
            for key in index.reserved_for(uid):
                self._take_back(key, {uid})

    def take_over(self) -> None:
        """An earlier process may have left reservations for any pod that waits."""
        self._ledger.work.unplaced.update(self._world.snapshot.devices.consumers())

    def _take_back(self, key: ClaimKey, uids: set[str]) -> None:
        known = self._leaving.setdefault(key, set())
        if uids <= known:
            return
        known |= uids
        action = desired.release_claim(self._world, key, known)
        if action is None:
            del self._leaving[key]
            self._world.snapshot.devices.forget(key)
        else:
            self._actuator.want(action)

    def _forget_released(self) -> None:
        """What the cluster shows of claims counts again once nothing is asked of them any more and it shows the end of
        the reservation.
        """
        if not self._leaving:
            return
        index, asked = self._world.snapshot.devices, self._actuator.pods_kept(Aspect.CLAIM)
        for key, uids in list(self._leaving.items()):
            claim = index.claims.get(key)
            if claim is None or (claim.uid not in asked and not any(map(self._waits, uids & claims.users_of(claim)))):
                del self._leaving[key]
                index.forget(key)
                self._ledger.work.changes.append(Change(Hint.DEVICES))

    def settled(self, pods: Iterable[Pod]) -> bool:
        """Return True if no reservation of these pods is being taken back any more, as far as the cluster shows."""
        if not self._leaving:
            return True
        names = ((p.namespace, name) for p in pods if p.devices is not None for name in p.devices.names)
        return self._leaving.keys().isdisjoint(names)


def chosen(plan: Plan) -> dict[ClaimKey, Allocation]:
    """The devices that the decision gave to claims that have none."""
    return {
        (each.namespace, each.name): each.allocation
        for place in plan.placements
        for each in getattr(place, "claims", ())
    }
