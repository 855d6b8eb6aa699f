"""Workloads whose queue is drained (``stopPolicy: HoldAndDrain``) leave: marked first, then removed.

A plan without a preemptor. What it has in common with one: a workload leaves as a whole; every pod of it is marked,
durably, before the first one is removed; before that it is asked once more whether it has to go; a Job is suspended
rather than deleted. The mark names the queue and the workload, and nothing else: a process that starts anew writes the
same, so it knows what was begun before, and goes on with that.

Each workload is marked, removed and watched until it is on its way out; what could not be written is tried again after
a pause. When the queue is opened in between, the marks of the pods that are still there are taken back.

A Job that goes on, and of which no pod runs yet, has nobody to mark: it is suspended again, and keeps its room until
the cluster shows that.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from gangsched.core.actions import Action, Mark, Remove, SuspendJob, Unmark
from gangsched.core.decision import Victim
from gangsched.core.events import Outcome
from gangsched.core.identity import names_of
from gangsched.core.ledger.condemned import NO_PLAN
from gangsched.core.lifecycle import admission, condemning, report, shared_marks, suspension
from gangsched.core.lifecycle.permit import Barrier
from gangsched.core.lifecycle.table import HOLDING, ROLLING_BACK, Signal, State
from gangsched.core.preemption.budgets import Budgets
from gangsched.core.preemption.drained import Leaving, budgets_of, leaving, movable, standing
from gangsched.core.preemption.removal import SUSPEND, may_suspend
from gangsched.core.quota import stopping
from gangsched.core.quota.stopping import Stop
from gangsched.model.queues import STOP_DRAIN, STOP_NONE
from gangsched.model.records import GangId, Pod

if TYPE_CHECKING:
    from gangsched.core.groups import Group
    from gangsched.core.lifecycle.steps import Steps

#: So many workloads leave at the same time: the others can still stay when the queue is opened again.
AT_ONCE = 32
#: Seconds after which pods that were removed, and neither terminate nor are gone, are asked to leave again.
_UNSEEN_SECONDS = 30.0


class Phase(enum.Enum):
    """How far a workload is on its way out."""

    MARKING = "marking"  # the marks are on their way
    REMOVING = "removing"  # all of them stand; the removals are on their way
    LEAVING = "leaving"  # the cluster has accepted the removals and will show them
    RESTING = "resting"  # something is in the way: tried again at a time


class Drain:
    """One workload on its way out. ``key`` is that of its writes; ``marked`` and ``removed`` are UIDs for which that
    has been asked, ``with_job`` by the UID of a Job those that leave with it. ``until`` (seconds) ends a pause, or the
    time in which the removals must show.
    """

    def __init__(self, uid: str, gangs: tuple[GangId, ...], stop: Stop) -> None:
        self.uid = uid
        self.gangs = gangs
        self.stop = stop
        self.key = key_of(uid)
        self.phase = Phase.RESTING
        self.barrier = Barrier()
        self.victims: dict[str, Victim] = {}
        self.marked: set[str] = set()
        self.removed: set[str] = set()
        self.with_job: dict[str, set[str]] = {}
        self.until = 0.0
        self.failures = 0
        self.blocked = ""

    @property
    def name(self) -> str:
        """``namespace/name`` of its gangs, joined by commas."""
        return names_of(self.gangs)

    def meant(self, uid: str) -> set[str]:
        """The pods that a write to this pod or Job (UID) is about."""
        return self.with_job.get(uid, {uid})


def key_of(uid: str) -> str:
    """The key of the writes for a workload: that of no group."""
    return f"drain {uid}"


class Drains:
    """All workloads that leave because of a stopped queue.

    :meth:`follow` is called whenever anything may have changed. ``groups`` are the gangs under way; ``signal`` takes a
    step of the lifecycle table for one, ``taken_over`` the one of a Job that goes on and keeps no room any more.
    """

    def __init__(
        self,
        steps: Steps,
        groups: Mapping[str, Group],
        signal: Callable[[Group, Signal], None],
        taken_over: Callable[[Group], None],
    ) -> None:
        self._steps = steps
        self._world = steps.world
        self._groups = groups
        self._signal = signal
        self._taken_over = taken_over
        self._open: dict[str, Drain] = {}
        self._queues: dict[str, tuple[str, ...]] = {}
        self._changed = True
        self._found: set[str] = set()
        self._budgets: Budgets | None = None
        #: Jobs that go on and are to be suspended, by group: how often that was tried, and when it is due (seconds).
        self._starting: dict[str, tuple[int, float]] = {}

    def queues_changed(self) -> None:
        """Queue objects came, changed or went."""
        self._changed = True

    def holds(self, key: str) -> bool:
        """Is the workload under which this group holds quota on its way out?"""
        return key in self._open

    def wake_at(self) -> float | None:
        """When :meth:`follow` will have something to do although nothing has happened; None: never."""
        times = [d.until for d in self._open.values() if d.phase in (Phase.LEAVING, Phase.RESTING)]
        times += [due for _, due in self._starting.values() if due > self._steps.now]  # else an event is awaited
        return min(times, default=None)

    # -- what an earlier process has begun -----------------------------------------------------------------

    def take_over(self) -> None:
        """Go on with the workloads that bear marks; take back those of pods that need not leave any more."""
        world, managed = self._world, self._world.managed
        managed.settle()
        for pod in sorted(world.pods.values(), key=lambda p: p.key):
            mark = report.drain_of(pod)
            if mark is None or mark.scheduler not in world.membership.ours or not pod.live:
                continue
            holder = managed.holder_of(pod.gang)
            workload = holder.admission.workload if holder is not None else None
            stop = stopping.stop_of(managed.quota, workload) if workload is not None else None
            owner = world.suspended.owner_of(pod)
            if workload is None or stop is None:
                if owner is None or not owner.suspended:
                    self._steps.unmark(pod.uid, "", report.drain_over(mark.queue), mark.reason)
                continue
            drain = self._open.get(workload.uid)
            if drain is None:
                drain = self._open[workload.uid] = Drain(workload.uid, managed.gangs_of(workload.uid), stop)
                drain.until = self._steps.now
            text = self._text(drain)
            self._asked(drain, pod.uid, text)
            if pod.disruption is not None and pod.disruption.message == text:
                self._found.add(pod.uid)

    # -- following -----------------------------------------------------------------------------------------

    def follow(self) -> None:
        """Do what is to be done now."""
        managed, self._budgets = self._world.managed, None
        if self._changed:
            self._changed = False
            self._queues = stopping.drained_queues(managed.quota)
            self._take_promises_back()
        if not self._queues and not self._open and not self._starting:
            return
        managed.settle()
        for key in list(self._starting):
            self._suspend_again(key)
        for uid in list(self._open):
            self._go_on(self._open[uid])
        self._begin()

    def _take_promises_back(self) -> None:
        """Who has quota by a queue that is stopped, and does not run yet, loses it. Of Jobs that go on already only
        where it is drained.
        """
        for key in sorted(self._world.ledger.holders()):
            group = self._groups.get(key)
            if group is None:
                continue
            policy = stopping.policy(self._world.managed, group.gangs)
            if policy != STOP_NONE and group.state in HOLDING:
                group.message = "its queue is stopped"
                self._signal(group, Signal.PLAN_BROKEN)
            elif policy == STOP_DRAIN and group.state is State.STARTING:
                self._starting.setdefault(key, (0, 0.0))

    def _suspend_again(self, key: str) -> None:
        """A Job that goes on is suspended once the cluster shows that it does, if none of its pods runs. If one does,
        it leaves with them.
        """
        steps, group, stop = self._steps, self._groups.get(key), self._stop_of(key)
        job = suspension.owner(steps, group.gangs[0]) if group is not None else None
        if group is None or group.state is not State.STARTING or job is None or stop is None:
            del self._starting[key]
            return
        runs = any(p.bound or self._world.assumed(p.uid) for p in self._world.suspended.pods_of(job))
        if runs or not may_suspend(job, self._world, steps.options):
            del self._starting[key]
            self._taken_over(group)
            return
        tried, due = self._starting[key]
        if job.suspended or steps.now < due or steps.writes.any_of(key) or steps.writes.any_of(key_of(key)):
            return
        self._starting[key] = tried + 1, steps.now + steps.pause(tried + 1)
        about, gang, action_id = suspension.reference(job), group.gangs[0], steps.new_id()
        action = SuspendJob(action_id, about, job.version, gang.scheduler, str(stop), f"drain of {gang.key}")
        steps.writes.add(action_id, key_of(key), action)
        steps.actions.append(action)
        if not tried:
            admission.drained(steps, group.gangs, stop)

    def _begin(self) -> None:
        busy = sum(d.phase in (Phase.MARKING, Phase.REMOVING) for d in self._open.values())
        for uid, stop in stopping.leaving(self._world.managed, self._queues) if busy < AT_ONCE else ():
            if uid in self._open or self._steps.writes.any_of(key_of(uid)):
                continue
            drain = Drain(uid, self._world.managed.gangs_of(uid), stop)
            if self._settled(drain) and self._mark(drain):
                self._open[uid] = drain
                busy += drain.phase is not Phase.RESTING
                if busy >= AT_ONCE:
                    return

    def _settled(self, drain: Drain) -> bool:
        """Is nothing of the workload being bound, or rolled back?"""
        group = self._groups.get(drain.uid)
        if group is not None and group.state in (State.BINDING, *ROLLING_BACK):
            return False
        return not any(self._world.assumed(p.uid) for p in self._world.managed.pods_of(drain.uid))

    def _stop_of(self, uid: str) -> Stop | None:
        """The queue that makes a workload leave; None if it holds no quota, too."""
        holder = self._world.managed.quota.holders.by_uid.get(uid)
        return stopping.stop_of(self._world.managed.quota, holder.admission.workload) if holder is not None else None

    def _go_on(self, drain: Drain) -> None:
        stop = self._stop_of(drain.uid)
        if stop is None:
            self._give_up(drain)
        elif drain.phase is Phase.LEAVING:
            live = (uid for uid in drain.removed if (pod := self._world.pods.get(uid)) is not None and pod.live)
            if self._steps.now >= drain.until or not any(live):
                self._drop(drain)
        elif drain.phase is Phase.RESTING:
            if self._steps.now < drain.until:
                return
            if not self._settled(drain):
                drain.until = self._steps.now + self._steps.pause(1)
            else:
                drain.stop, drain.gangs = stop, self._world.managed.gangs_of(drain.uid)
                if not self._mark(drain):
                    self._drop(drain)
        elif drain.barrier.complete:
            self._phase_over(drain, stop)

    def _phase_over(self, drain: Drain, stop: Stop) -> None:
        failures = [f for f in drain.barrier.failed if f.outcome is not Outcome.GONE]
        drain.barrier = Barrier()
        if failures:
            again = all(f.outcome in (Outcome.TRANSIENT, Outcome.CONFLICT) for f in failures)
            drain.removed.difference_update(pod for f in failures for pod in drain.meant(f.uid))
            self._rest(drain, "" if again else failures[0].text, marks_stay=again)
        elif drain.phase is Phase.REMOVING:
            drain.phase, drain.until, drain.failures = Phase.LEAVING, self._steps.now + _UNSEEN_SECONDS, 0
        else:
            self._marked(drain, stop)

    def _marked(self, drain: Drain, stop: Stop) -> None:
        """All marks stand. If the workload is no longer what it was then, or may not go now, it begins anew."""
        now = self._look(drain)
        if now is None:
            self._give_up(drain)
        elif stop != drain.stop or now.blocked or not {v.uid for v in now.victims} <= drain.marked:
            drain.stop = stop
            self._mark(drain)
        else:
            drain.victims = {v.uid: v for v in now.victims}
            self._remove(drain)

    def _look(self, drain: Drain) -> Leaving | None:
        """How the workload leaves as it is now; None when nobody of it is left who has to."""
        pods = standing(self._world, drain.uid)
        if not pods or not movable(pods, self._steps.options):
            return None
        if self._budgets is None:
            theirs = {uid for each in self._open.values() for uid in each.marked}
            self._budgets = budgets_of(self._world, but=theirs)  # each of these is charged below where it is to be
        also = self._others(drain) if self._budgets else ()
        return leaving(self._world, self._steps.options, drain.uid, drain.stop, pods, self._budgets, also)

    def _others(self, drain: Drain) -> list[Pod]:
        """The pods of other workloads that leave too and that budgets do not count yet."""
        others = (d for d in self._open.values() if d.uid != drain.uid and d.phase is not Phase.RESTING)
        found = (self._world.pods.get(uid) for each in others for uid in each.victims)
        return [p for p in found if p is not None and p.live]

    # -- steps ---------------------------------------------------------------------------------------------

    def _mark(self, drain: Drain) -> bool:
        """Mark all pods of the workload; False when there is nobody to mark."""
        found = self._look(drain)
        if found is None:
            return False
        if found.blocked:
            self._rest(drain, found.blocked, marks_stay=False)
            return True
        drain.phase, drain.barrier = Phase.MARKING, Barrier()
        drain.victims = {v.uid: v for v in found.victims}
        text = self._text(drain)
        for uid in drain.victims:
            known = uid in self._found
            self._found.discard(uid)
            self._asked(drain, uid, text)
            if not known:
                steps, action_id = self._steps, self._steps.new_id()
                steps.repeats.drop(Unmark, uid)
                steps.repeats.drop(Mark, uid)
                ref = report.reference(self._world.pods[uid])
                self._write(drain, Mark(action_id, ref, text, drain.stop.reason), action_id, uid)
        if drain.barrier.complete:
            self._remove(drain)
        return True

    def _asked(self, drain: Drain, uid: str, text: str) -> None:
        """The pod is on the list of those that leave."""
        drain.marked.add(uid)
        self._steps.marks.add(uid)
        self._steps.mark_texts.asked(uid, drain.key, text)
        self._world.ledger.wait_for(uid, drain.key)
        self._world.ledger.condemned.begin(drain.key)
        condemning.condemn(self._steps, drain.key, (uid,))

    def _text(self, drain: Drain) -> str:
        return report.drain_message(_first(self._steps), drain.stop, drain.name)

    def _remove(self, drain: Drain) -> None:
        """Remove what is marked and still there: Jobs by suspending them."""
        steps, text = self._steps, self._text(drain)
        drain.phase = Phase.REMOVING
        there = [steps.world.pods[uid] for uid in drain.victims if uid in steps.world.pods]
        jobs = {}
        first = not drain.removed and not any(p.deleting_since is not None for p in self._pods(drain))
        for pod in (p for p in there if p.live):
            drain.removed.add(pod.uid)
            owner = steps.world.suspended.owner_of(pod) if drain.victims[pod.uid].method == SUSPEND else None
            if owner is not None:
                jobs[owner.uid] = owner
                drain.with_job.setdefault(owner.uid, set()).add(pod.uid)
                continue
            action_id = steps.new_id()
            evict = steps.options.strict_budgets
            action = Remove(action_id, report.reference(pod), evict=evict, mark=text, reason=drain.stop.reason)
            self._write(drain, action, action_id, pod.uid)
        for job in jobs.values():
            action_id, ours = steps.new_id(), steps.world.membership.ours
            scheduler = drain.gangs[0].scheduler if drain.gangs[0].scheduler in ours else _first(steps)
            about, plan = suspension.reference(job), f"drain of {drain.name}"
            suspend = SuspendJob(action_id, about, job.version, scheduler, str(drain.stop), plan)
            self._write(drain, suspend, action_id, job.uid)
        if first and drain.removed:
            admission.drained(steps, drain.gangs, drain.stop)
        if drain.barrier.complete:
            drain.phase, drain.until = Phase.LEAVING, steps.now

    def _pods(self, drain: Drain) -> Sequence[Pod]:
        return self._world.managed.pods_of(drain.uid)

    def _rest(self, drain: Drain, why: str, *, marks_stay: bool) -> None:
        """Try again later. ``why`` is what is in the way, if people should know."""
        if not marks_stay:
            self._take_back(drain)
        drain.phase = Phase.RESTING
        drain.failures += 1
        drain.until = self._steps.now + self._steps.pause(drain.failures)
        if why and why != drain.blocked:
            drain.blocked = why
            admission.drain_blocked(self._steps, drain.gangs, drain.stop, why)

    def _give_up(self, drain: Drain) -> None:
        """The queue is open again, or the workload is gone: who has not been removed stays."""
        self._steps.recall(drain.key, self._steps.writes.removals(drain.key))
        self._take_back(drain)
        self._drop(drain)

    def _take_back(self, drain: Drain) -> None:
        for uid in sorted(drain.marked - drain.removed):
            pod = self._world.pods.get(uid)
            owner = self._world.suspended.owner_of(pod) if pod is not None else None
            if owner is None or not owner.suspended:
                self._unmark(drain, uid)
        drain.marked &= drain.removed

    def _unmark(self, drain: Drain, uid: str) -> None:
        self._found.discard(uid)
        shared_marks.given_up(self._steps, uid, drain.key, "", report.drain_over(str(drain.stop)), drain.stop.reason)
        self._steps.no_longer_awaited(uid, drain.key)

    def _drop(self, drain: Drain) -> None:
        self._open.pop(drain.uid, None)
        for uid in drain.marked:
            self._steps.no_longer_awaited(uid, drain.key)
            self._world.ledger.condemned.sent(uid, drain.key, self._steps.now)
        self._world.ledger.condemned.end(drain.key)

    def _write(self, drain: Drain, action: Action, action_id: int, uid: str) -> None:
        self._steps.writes.add(action_id, drain.key, action)
        drain.barrier.expect(action_id, uid)
        self._steps.actions.append(action)

    # -- answers -------------------------------------------------------------------------------------------

    def answered(self, key: str, action: Action, action_id: int, outcome: Outcome, message: str) -> bool:
        """The outcome of a write; False when it is none of ours."""
        if not key.startswith("drain "):
            return False
        drain = self._open.get(key.removeprefix("drain "))
        if drain is None or drain.barrier.arrive(action_id, outcome, message) is None:
            return self._late(action, key, outcome)
        if outcome is Outcome.OK and isinstance(action, Remove | SuspendJob):
            about = action.job.uid if isinstance(action, SuspendJob) else action.pod.uid
            gone = [drain.victims[uid] for uid in sorted(drain.meant(about)) if uid in drain.victims]
            if len(drain.gangs) > 1 or drain.victims.keys() != {v.uid for v in gone} or gone[0].unit.kind != "Pod":
                self._steps.actions += [report.drained(v, drain.stop, drain.name) for v in gone]
        return True

    def _late(self, action: Action, key: str, outcome: Outcome) -> bool:
        """A removal that nobody follows any more has failed: its pods stay, and so must not bear a mark."""
        if not isinstance(action, Remove | SuspendJob):
            return False
        if outcome in (Outcome.OK, Outcome.GONE):
            return True
        if isinstance(action, SuspendJob):
            job = self._world.suspended.find(action.job.kind, action.job.namespace, action.job.name)
            uids = [p.uid for p in self._world.suspended.pods_of(job)] if job is not None else []
            said = action.preemptor
        else:
            uids, said = [action.pod.uid], report.queue_of(action.mark)
        reason = stopping.STOPPED[said.partition(" ")[0]]
        for uid in uids:
            condemning.spare(self._steps, uid, NO_PLAN)
            if uid in self._steps.marks and uid in self._world.pods:
                shared_marks.given_up(self._steps, uid, key, "", report.drain_over(said), reason)
        return True


def _first(steps: Steps) -> str:
    return steps.options.scheduler_names[0]
