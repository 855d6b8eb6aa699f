"""Workloads that need an eviction because their queue is drained (``stopPolicy: HoldAndDrain``), and when.

A workload is evicted as a whole. Before the first pod is removed, the need is checked again. The mark names only the
queue and the workload. A new process writes the same mark, so it recognises the work of the earlier one and continues
it. Failed writes are tried again after a pause. When the queue is opened in between, the marks of the pods that are
still there are taken back.

A resumed Job without running pods has no pod to mark. It is suspended again, and holds its room until the cluster shows
that.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from gangsched.core.actuation.actuator import Actuator
from gangsched.core.actuation.records import bears, owners_of
from gangsched.core.agenda import Page
from gangsched.core.decision import Victim, names_of
from gangsched.core.events import Outcome
from gangsched.core.ledger.condemned import Cause, Eviction, Grounds, Phase, VictimState
from gangsched.core.ledger.ledger import Ledger
from gangsched.core.lifecycle import report
from gangsched.core.lifecycle.conditions import Reporter
from gangsched.core.lifecycle.gangs import Gangs
from gangsched.core.lifecycle.table import Signal, State
from gangsched.core.options import Options
from gangsched.core.preemption.drain_plan import DrainPlan, leaving, movable, standing
from gangsched.core.preemption.harm import Budgets
from gangsched.core.preemption.removal import budgets_of, may_suspend
from gangsched.core.quota import stop_policy
from gangsched.core.quota.stop_policy import Stop
from gangsched.core.world.world import World
from gangsched.messages import notes
from gangsched.model.queues import STOP_DRAIN, STOP_NONE
from gangsched.model.records import GangId, Pod

#: So many workloads leave at the same time: the others can still stay when the queue is opened again.
AT_ONCE = 32
#: Seconds after which pods that were removed, and neither terminate nor are gone, are asked to leave again.
_UNSEEN_SECONDS = 30.0
_DRAIN = Cause.DRAIN.value


class Drain:
    """One workload on its way out. While it ``rests`` something is in the way: it is tried again at a time."""

    def __init__(self, uid: str, gangs: tuple[GangId, ...], stop: Stop, eviction: Eviction) -> None:
        self.uid = uid
        self.gangs = gangs
        self.stop = stop
        self.eviction = eviction
        self.rests = True
        self.failures = 0
        self.blocked = ""

    @property
    def name(self) -> str:
        """``namespace/name`` of its gangs, joined by commas."""
        return names_of(self.gangs)


def key_of(uid: str) -> str:
    """The key of the writes for a workload: that of no group, which may have writes of its own on their way."""
    return f"drain {uid}"


class Drains:
    """All workloads that leave because of a stopped queue.

    :meth:`follow` is called whenever anything may have changed, as long as they are ``at_work``.
    """

    def __init__(
        self,
        world: World,
        ledger: Ledger,
        options: Options,
        actuator: Actuator,
        reporter: Reporter,
        gangs: Gangs,
    ) -> None:
        self._world = world
        self._ledger = ledger
        self._options = options
        self._actuator = actuator
        self._reporter = reporter
        self._evictions = gangs.evictions
        self._gangs = gangs
        self._groups = gangs.groups
        self._signal = gangs.signal
        self._open: dict[str, Drain] = {}
        self._queues: dict[str, tuple[str, ...]] = {}
        #: Is there something to :meth:`follow`? Not while no queue is drained and no workload leaves.
        self._changed = self.at_work = world.managed.active
        self._budgets: Budgets | None = None
        #: When a workload that rests is tried again, or by when its removals must show; and, by the key of its writes,
        #: when that is tried again of a Job that goes on and is to be suspended.
        self._due: Page[str] = ledger.agenda.page()
        #: Those Jobs, by group; a failure is counted each time that is tried.
        self._starting: dict[str, Drain] = {}

    def queues_changed(self) -> None:
        """Queue objects came, changed or went."""
        self._changed = self.at_work = True

    def holds(self, key: str) -> bool:
        """Return True if the workload under which this group holds quota is being drained."""
        return key in self._open

    # -- recovery ------------------------------------------------------------------------------------------

    def take_over(self) -> None:
        """Go on with the workloads that bear marks; take back those of pods that need not leave any more."""
        world, managed = self._world, self._world.managed
        managed.update_holdings()
        for pod in sorted(world.pods.values(), key=lambda p: p.key):
            ours = (owner.scheduler in world.membership.ours for owner in owners_of(pod) if owner.cause == _DRAIN)
            if not any(ours) or not pod.live:
                continue
            holder = managed.holder_of(pod.gang)
            workload = holder.admission.workload if holder is not None else None
            stop = stop_policy.stop_of(managed.quota, workload) if workload is not None else None
            if workload is None or stop is None:
                continue  # it need not leave any more
            drain = self._open.get(workload.uid)
            if drain is None:
                drain = self._new_drain(workload.uid, stop)
                self._say(drain, stop)
                self._open[workload.uid] = drain
            self._ledger.condemned.name(pod, drain.eviction)
            self._condemn(drain, (pod.uid,))
            if pod.disruption_target and bears(pod, drain.eviction.grounds.owner, drain.eviction.grounds.ident):
                drain.eviction.state[pod.uid] = VictimState.MARKED

    def _new_drain(self, uid: str, stop: Stop) -> Drain:
        gangs = self._world.managed.gangs_of(uid)
        ours = gangs[0].scheduler in self._world.membership.ours
        scheduler = gangs[0].scheduler if ours else self._options.scheduler_names[0]
        plan = notes.drain_of(workload=names_of(gangs))
        return Drain(uid, gangs, stop, Eviction(key_of(uid), Grounds(Cause.DRAIN, str(stop), scheduler, plan)))

    def _say(self, drain: Drain, stop: Stop) -> None:
        """This is the queue because of which the workload leaves, and what the marks of its pods say."""
        drain.stop, eviction = stop, drain.eviction
        text = notes.draining(scheduler=self._options.scheduler_names[0], stop=stop, workload=drain.name)
        if text != eviction.grounds.mark:
            for uid in eviction.victims:
                eviction.lost_mark(uid)
        eviction.grounds = replace(eviction.grounds, owner=str(stop), reason=stop.reason, mark=text)

    def _condemn(self, drain: Drain, uids: Iterable[str]) -> None:
        self._evictions.begin(drain.eviction)
        self._evictions.condemn(drain.eviction, uids)
        for uid in uids:
            self._ledger.wait_for(uid, drain.eviction.key)

    # -- following -----------------------------------------------------------------------------------------

    def advance(self) -> None:
        """Take the next step of every drain."""
        managed, self._budgets = self._world.managed, None
        if self._changed:
            self._changed = False
            self._queues = stop_policy.drained_queues(managed.quota)
            self._take_promises_back()
        self.at_work = bool(self._queues or self._open or self._starting)
        if not self.at_work:
            return
        managed.update_holdings()
        self._due.due(self._world.now)  # whose time has come is waited for no longer
        for key in list(self._starting):
            self._suspend_again(key)
        for uid in list(self._open):
            self._go_on(self._open[uid])
        self._begin()

    def _take_promises_back(self) -> None:
        """Workloads with quota from a stopped queue that do not run yet lose it. Of Jobs that go on already only where
        it is drained.
        """
        for key in sorted(self._ledger.holders()):
            group = self._groups.get(key)
            if group is None:
                continue
            policy = stop_policy.policy(self._world.managed, group.gangs)
            if policy != STOP_NONE and group.holding:
                group.message = notes.QUEUE_STOPPED
                self._signal(group, Signal.BROKEN)
            elif policy == STOP_DRAIN and group.state is State.STARTING and key not in self._starting:
                stop = self._stop_of(key)
                if stop is not None:
                    self._starting[key] = drain = self._new_drain(key, stop)
                    self._evictions.begin(drain.eviction)

    def _suspend_again(self, key: str) -> None:
        """A Job that goes on is suspended once the cluster shows that it does, if none of its pods runs: an eviction
        without victims. If one does, it leaves with them.
        """
        group, stop, drain = self._groups.get(key), self._stop_of(key), self._starting[key]
        job = report.job_of(self._world, group.gangs[0]) if group is not None else None
        if group is None or group.state is not State.STARTING or job is None or stop is None:
            self._started(key)
            return
        runs = any(p.bound or p.uid in self._world.assumed for p in self._world.jobs.pods_of(job))
        if runs or not may_suspend(job, self._world, self._options):
            self._started(key)
            self._gangs.no_longer_kept(group)
            return
        if (
            job.suspended
            or key_of(key) in self._due
            or any(map(self._actuator.has_writes_in_flight, (key, key_of(key))))
        ):
            return
        self._say(drain, stop)
        drain.failures += 1
        self._due.at(key_of(key), self._world.now + self._options.backoff(drain.failures))
        self._evictions.suspend(drain.eviction, job)
        if drain.failures == 1:
            self._reporter.drained(group.gangs, stop)

    def _started(self, key: str) -> None:
        self._due.never(key_of(key))
        self._evictions.end(self._starting.pop(key).eviction)

    def _begin(self) -> None:
        busy = sum(not d.rests and d.eviction.phase is not Phase.LEAVING for d in self._open.values())
        for uid, stop in stop_policy.leaving(self._world.managed, self._queues) if busy < AT_ONCE else ():
            if uid in self._open or uid in self._starting or self._actuator.has_writes_in_flight(key_of(uid)):
                continue
            drain = self._new_drain(uid, stop)
            if self._settled(drain) and self._mark(drain):
                self._open[uid] = drain
                busy += not drain.rests
                if busy >= AT_ONCE:
                    return

    def _settled(self, drain: Drain) -> bool:
        """Return True if no pod of the workload is being bound or rolled back."""
        group = self._groups.get(drain.uid)
        if group is not None and (group.state is State.BINDING or group.rolled_back):
            return False
        return not any(p.uid in self._world.assumed for p in self._world.managed.pods_of(drain.uid))

    def _stop_of(self, uid: str) -> Stop | None:
        """The queue that makes a workload leave; None if it holds no quota, too."""
        holder = self._world.managed.quota.holders.by_uid.get(uid)
        return stop_policy.stop_of(self._world.managed.quota, holder.admission.workload) if holder is not None else None

    def _go_on(self, drain: Drain) -> None:
        stop = self._stop_of(drain.uid)
        if stop is None:
            self._give_up(drain)
        elif drain.rests:
            if drain.uid in self._due:
                return
            if not self._settled(drain):
                self._due.at(drain.uid, self._world.now + self._options.backoff(1))
            else:
                drain.stop, drain.gangs = stop, self._world.managed.gangs_of(drain.uid)
                if not self._mark(drain):
                    self._end(drain)
        elif drain.eviction.phase is Phase.LEAVING:
            found = (self._world.pods.get(uid) for uid in drain.eviction.removing)
            if drain.uid not in self._due or not any(pod is not None and pod.live for pod in found):
                self._end(drain)
        elif self._actuator.settled(drain.eviction.key):
            self._phase_over(drain, stop)

    def _phase_over(self, drain: Drain, stop: Stop) -> None:
        eviction = drain.eviction
        failures = self._evictions.written(eviction)
        if failures:
            again = all(f.outcome in (Outcome.TRANSIENT, Outcome.CONFLICT) for f in failures)
            self._rest(drain, "" if again else failures[0].text, marks_stay=again)
        elif eviction.phase is Phase.REMOVING:
            unseen = _UNSEEN_SECONDS if eviction.removing else 0.0
            eviction.phase, drain.failures = Phase.LEAVING, 0
            self._due.at(drain.uid, self._world.now + unseen)
        else:
            self._marked(drain, stop)

    def _marked(self, drain: Drain, stop: Stop) -> None:
        """All marks stand. If the workload is no longer what it was then, or may not go now, it begins anew."""
        now = self._next_plan(drain)
        if now is None:
            self._give_up(drain)
        elif stop != drain.stop or now.blocked or not {v.uid for v in now.victims} <= drain.eviction.state.keys():
            drain.stop = stop
            self._mark(drain)
        else:
            drain.eviction.victims = {v.uid: v for v in now.victims}
            self._remove(drain)

    def _next_plan(self, drain: Drain) -> DrainPlan | None:
        """Return how the workload leaves as it is now, or None when none of its pods is left that has to."""
        pods = standing(self._world, drain.uid)
        if not pods or not movable(pods, self._options):
            return None
        if self._budgets is None:
            theirs = {uid for each in self._open.values() for uid in each.eviction.state}
            # Each of these is charged below where it is to be.
            self._budgets = budgets_of(self._world, self._ledger.condemned, but=theirs)
        also = self._others(drain) if self._budgets else ()
        condemned = self._ledger.condemned
        return leaving(self._world, condemned, self._options, drain.uid, drain.stop, pods, self._budgets, also)

    def _others(self, drain: Drain) -> list[Pod]:
        """The pods of other workloads that leave too and that budgets do not count yet."""
        others = (d for d in self._open.values() if d.uid != drain.uid and not d.rests)
        found = (self._world.pods.get(uid) for each in others for uid in each.eviction.victims)
        return [p for p in found if p is not None and p.live]

    # -- one workload ---------------------------------------------------------------------------------------------

    def _mark(self, drain: Drain) -> bool:
        """Mark all pods of the workload; False when there is none to mark."""
        found = self._next_plan(drain)
        if found is None:
            return False
        if found.blocked:
            self._rest(drain, found.blocked, marks_stay=False)
            return True
        drain.rests = False
        drain.eviction.victims = {v.uid: v for v in found.victims}
        self._say(drain, drain.stop)
        self._take_from_plans(drain)
        self._condemn(drain, drain.eviction.victims)
        self._evictions.mark(drain.eviction)
        return True

    def _take_from_plans(self, drain: Drain) -> None:
        """A stopped queue is stronger than any plan: one that takes pods of the workload is decided anew."""
        victims, priority = drain.eviction.victims, drain.eviction.grounds.priority
        for key in sorted(self._ledger.condemned.weaker_owners(victims, priority)):
            if key in self._groups:
                self._groups[key].message = notes.VICTIM_TAKEN
                self._signal(self._groups[key], Signal.BROKEN)

    def _remove(self, drain: Drain) -> None:
        first = not any(p.deleting_since is not None for p in self._world.managed.pods_of(drain.uid))
        if self._evictions.remove(drain.eviction) and first:
            self._reporter.drained(drain.gangs, drain.stop)

    def _rest(self, drain: Drain, why: str, *, marks_stay: bool) -> None:
        """Try again later. ``why`` is what is in the way, if people should know."""
        if not marks_stay:
            self._take_back(drain)
        drain.rests = True
        drain.failures += 1
        self._due.at(drain.uid, self._world.now + self._options.backoff(drain.failures))
        if why and why != drain.blocked:
            drain.blocked = why
            self._reporter.drain_blocked(drain.gangs, drain.stop, why)

    def _give_up(self, drain: Drain) -> None:
        """The queue is open again, or the workload is gone: who has not been removed stays."""
        self._take_back(drain)
        self._end(drain)

    def _take_back(self, drain: Drain) -> None:
        eviction = drain.eviction
        self._evictions.withdraw(eviction)
        for uid in eviction.state.keys() - eviction.removing:
            self._ledger.no_longer_waits(uid, eviction.key)
            del eviction.state[uid]

    def _end(self, drain: Drain) -> None:
        self._open.pop(drain.uid, None)
        self._due.never(drain.uid)
        self._ledger.stop_waiting(drain.eviction.key)
        self._evictions.end(drain.eviction)

    def leave(self, eviction: Eviction, pods: Sequence[Victim]) -> None:
        """The removal of these pods has been accepted: it is reported on them, where their workload is not one pod."""
        drain = next((d for d in self._open.values() if d.eviction is eviction), None)
        if drain is not None and (len(drain.gangs) > 1 or len(eviction.victims) > 1 or any(_in_group(v) for v in pods)):
            stop, reason = drain.stop, report.EVICTED_DUE_TO + drain.stop.reason
            for v in pods:
                note = notes.drained_pod(message=stop.message, stop=stop, workload=drain.name, node=v.node)
                self._reporter.event(v, reason, note)


def _in_group(victim: Victim) -> bool:
    return victim.unit.kind != "Pod"
