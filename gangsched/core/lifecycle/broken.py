"""Gangs that run below their minimum because a member was removed for a plan.

Half a minute later each such gang is checked, whatever the result of the plan. If it is still below its minimum the
rest of it is evicted, since it is of no use; if that may not be, an Event says so. A gang that its controller has made
whole by then is left alone.

Until then its members keep the marks of the plan: they are what another process finds.
"""

from __future__ import annotations

import math

import msgspec

from gangsched.core.actuation.actuator import Actuator
from gangsched.core.agenda import Page
from gangsched.core.decision import Victim
from gangsched.core.events import Outcome
from gangsched.core.ledger.condemned import Eviction, Grounds, Phase
from gangsched.core.ledger.ledger import Ledger
from gangsched.core.lifecycle import report
from gangsched.core.lifecycle.conditions import Reporter
from gangsched.core.lifecycle.evicting import Evictions
from gangsched.core.options import Options
from gangsched.core.preemption.blocks import ATOMIC, ELASTIC, mode_of, ref_of
from gangsched.core.world.world import World
from gangsched.messages import notes
from gangsched.model.preemptible import protected
from gangsched.model.records import SINGLE, GangId, Pod

#: The time from the removal of a member to the check of its gang (seconds).
FINISH_AFTER_SECONDS = 30.0


class BrokenGangs:
    """Finishes the eviction of gangs of which a member was removed and that run on with too few."""

    def __init__(
        self,
        world: World,
        ledger: Ledger,
        options: Options,
        actuator: Actuator,
        reporter: Reporter,
        evictions: Evictions,
    ) -> None:
        self._world = world
        self._condemned = ledger.condemned
        self._options = options
        self._actuator = actuator
        self._reporter = reporter
        self._evictions = evictions
        self._due: Page[GangId] = ledger.agenda.page()
        self._removed: dict[GangId, Grounds] = {}
        #: The members of these gangs (UIDs) that bear the mark of an eviction which is over, each with its key and for
        #: whom it was.
        self._marked: dict[GangId, dict[str, tuple[str, str]]] = {}
        #: What is being finished of gangs.
        self.open: dict[GangId, tuple[Eviction, Grounds]] = {}

    def note(self, gang: GangId, removed: Grounds) -> None:
        """A member of this gang was removed on these grounds, for a plan."""
        if gang.family != SINGLE and gang not in self._removed:
            self._removed[gang] = removed
            self._due.at(gang, self._world.now + FINISH_AFTER_SECONDS)

    def withdraw(self, eviction: Eviction) -> None:
        """Take the name of an eviction that is over off the pods that stay. If members of a gang were removed, or may
        have been, its other members keep their marks until the gang is checked. After the end of this process they tell
        what was removed.
        """
        for pod in self._evictions.withdraw(eviction):
            self.note(pod.gang, eviction.grounds)
            self._marked.setdefault(pod.gang, {})[pod.uid] = eviction.key, eviction.grounds.owner

    def found(self, pod: Pod, owner: str) -> bool:
        """Return whether a mark that an earlier process has left on a pod, for this owner, stays until its gang is
        checked.
        """
        if pod.gang not in self._removed or not pod.live or self._condemned.named(pod.uid) is not None:
            return False
        self._marked.setdefault(pod.gang, {})[pod.uid] = "", owner
        return True

    def time_passed(self) -> None:
        """Look at the gangs whose time has come."""
        for gang in self._due.due(self._world.now):
            removed = self._removed.pop(gang)
            pods = self._rest(gang)
            if any(pod.uid in self._condemned or pod.uid in self._world.assumed for pod in pods):
                self.note(gang, removed)  # a plan takes some of the rest, or some are being bound: look again later
                continue
            if pods and self._below_minimum(gang):
                self._finish(gang, removed, pods)
            self._unmark(gang)

    def _unmark(self, gang: GangId) -> None:
        """Take the marks of evictions that are over off the members that no other eviction has named since."""
        for uid, (key, owner) in self._marked.pop(gang, {}).items():
            pod, named = self._world.pods.get(uid), self._condemned.named(uid)
            if named is not None and named.key == key:
                self._evictions.disown(uid, key)
            elif named is None and pod is not None and pod.live:
                self._evictions.restate(pod, owner)

    def _rest(self, gang: GangId) -> list[Pod]:
        """The members of the gang, and of its GangGroup, that run."""
        membership = self._world.membership
        return [pod for each in membership.group(gang)[0] for pod in membership.census(each).bound if pod.live]

    def _below_minimum(self, gang: GangId) -> bool:
        """Return whether the gang is one that leaves as a whole, and too few of its members run."""
        membership = self._world.membership
        gangs = membership.group(gang)[0]
        whole = any(mode_of(membership.spec(each), self._options) in (ATOMIC, ELASTIC) for each in gangs)
        return whole and membership.half_bound(gangs)

    def _finish(self, gang: GangId, removed: Grounds, pods: list[Pod]) -> None:
        membership = self._world.membership
        unit = ref_of(membership, membership.group(gang)[0])
        victims = [Victim.of(pod, unit, notes.MARKED_EARLIER, method=self._options.removal) for pod in pods]
        plan = notes.rest_of(plan=removed.ident.removeprefix(notes.rest_of(plan="")))
        mark = report.mark_message(removed.scheduler, removed.owner, removed.trigger)
        grounds = msgspec.structs.replace(removed, ident=plan, priority=math.inf, mark=mark)
        eviction = Eviction(f"{plan} {gang.key}", grounds, victims)
        daemons, below = self._options.evict_daemonset_pods, removed.priority
        stays = [pod for pod in pods if protected(pod, daemons) or pod.priority >= below]
        if stays:
            self._reporter.left_in_part(eviction, pods)
            return
        self.open[gang] = eviction, removed
        self._evictions.begin(eviction)
        self._evictions.mark(eviction)

    def continue_answered(self) -> None:
        """Continue what is being finished and has all answers of its phase. Failed writes are tried again half a minute
        later.
        """
        for gang, (eviction, removed) in list(self.open.items()):
            if not self._actuator.settled(eviction.key):
                continue
            failures, marking = self._evictions.written(eviction), eviction.phase is Phase.MARKING
            if not eviction.fails(failures) and eviction.to_go(self._world.pods) and (failures or marking):
                self._evictions.remove(eviction)
                continue
            stays = eviction.to_go(self._world.pods)
            if any(failure.outcome is not Outcome.TRANSIENT for failure in failures):
                self._reporter.left_in_part(eviction, stays)
            elif stays:
                self.note(gang, removed)
            self.withdraw(eviction)
            self._evictions.end(eviction)
            del self.open[gang]
