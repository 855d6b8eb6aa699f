"""Reports about a gang: conditions and Events, without a flood.

Of gangs that need quota it is reported in the words of Kueue when they get it, run, wait, or have to give it back.
Events: https://kueue.sigs.k8s.io/docs/concepts/workload/ . They are about the object that stands for the gang: its Job
or JobSet, its group object, or its pod. On Jobs and JobSets the same is kept as conditions; their controllers leave
those of others alone. The Events' actions are those of pods: what waits to be reported of "Scheduling" is history after
"Binding".
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence
from typing import TypeAlias

import msgspec

from gangsched.core.actions import (
    Action,
    Bind,
    JobRef,
    JobStatus,
    PodRef,
    SetCondition,
    reference,
)
from gangsched.core.agenda import Page
from gangsched.core.decision import QuotaUse, Verdict, Victim, group_key
from gangsched.core.ledger.condemned import Eviction, Phase
from gangsched.core.ledger.ledger import Ledger
from gangsched.core.lifecycle import report
from gangsched.core.lifecycle.group import Failed, Group, Plan
from gangsched.core.lifecycle.group_statuses import GroupStatuses
from gangsched.core.lifecycle.report import ADMITTED, EVICTED, PENDING, PREEMPTED, RESERVED
from gangsched.core.lifecycle.table import State
from gangsched.core.options import Options
from gangsched.core.planning.outcomes import with_what_is_bound
from gangsched.core.quota.preemption import REASON_TEXT
from gangsched.core.quota.stop_policy import Stop
from gangsched.core.state.incomplete import without
from gangsched.core.state.jobs import WITHOUT_PODS
from gangsched.core.world.waiting_since import waits_since
from gangsched.core.world.world import World
from gangsched.messages import notes
from gangsched.messages.text import join_names
from gangsched.model.jobsets import JOBSET
from gangsched.model.records import JOB, SINGLE, GangId, Pod
from gangsched.model.times import render_time

#: Longest text of a condition: names in it are as long as users make them.
_TEXT_LIMIT = 4096


def _shows(group: Group, pod: Pod, said: tuple[str, str]) -> bool:
    """Return True if a member shows this already, written by another process."""
    seen = pod.scheduled_condition
    return pod.uid not in group.written and seen is not None and (seen.reason, seen.message) == said


#: So many objects are remembered as reported.
_MOST_TOLD = 10_000
#: The kinds that get conditions, each with its apiVersion.
_WITH_CONDITIONS = [report.pod_reference(JobRef("", "", "", kind))[:2] for kind in (JOB, JOBSET)]
#: The condition of Jobs and JobSets; that of groups is made of their status.
_EVICTED_PODS = f"gangsched.dev/{report.PODS_EVICTED}"


#: Type, status, reason and message.
Condition: TypeAlias = tuple[str, str, str, str]
_RUNS: Condition = (ADMITTED, "True", ADMITTED, notes.WORKLOAD_ADMITTED)


def _has_quota(queue: str) -> Condition:
    return RESERVED, "True", RESERVED, notes.quota_reserved(queue=queue)


def _told_as(gang: GangId) -> str:
    """Under which name a group keeps what was reported about a gang with pods; these have names of their own."""
    return f"{PENDING} {gang}"


class Reporter:
    """Adds reports about gangs to the ``actions``; see each attribute for what it remembers of them."""

    def __init__(self, world: World, ledger: Ledger, options: Options, actions: list[Action]) -> None:
        self._world = world
        self._ledger = ledger
        self._options = options
        self._actions = actions
        #: When reports follow that were held back, by the key of the group.
        self.to_tell: Page[str] = ledger.agenda.page()
        #: Groups that have their quota and do not run yet, by key: the ClusterQueue, and since when.
        self.reserved: dict[str, tuple[str, float]] = {}
        #: The status of group objects.
        self.statuses = GroupStatuses(world, ledger, actions)
        #: Bindings that succeeded and that one Event per gang will report, by the key of the group whose they are.
        self.unsaid: dict[str, dict[GangId, list[Bind]]] = {}
        #: The UIDs of objects that know that Kueue admits them as well.
        self._told_two_admitters: set[str] = set()

    def event(
        self, about: report.About, reason: str, note: str, related: report.About | None = None, action: str = ""
    ) -> None:
        """Report an Event."""
        self._actions.append(report.event(about, reason, note, related, action))

    def where_it_stands(self, group: Group) -> None:
        """Tell every member where its gang stands."""
        for gang in group.gangs:
            for pod in self._world.membership.census(gang).gated:
                if pod.unowned and not pod.gates:
                    self._tell_unowned(group, pod)
        if group.obstacle is not None or group.state is State.GATHERING:
            found = group.obstacle
            reason, text = (found.reason, found.text) if found is not None else (report.GANG_NOT_READY, "")
            # Of two admitters, and of a mistake, an Event tells whose object it is.
            self.tell(group, reason, text, reason if reason == report.GANG_NOT_READY else "")
            return
        # A gang that is decided before its backoff is over has no more to say for it.
        early = self._world.now < group.quiet_until
        if group.outlook.failed_plugin:
            told = self.tell(group, report.SCHEDULER_ERROR, group.message, report.SCHEDULER_ERROR, early=early)
        else:
            text = self._with_what_is_bound(group)
            queued = group.gangs[0].family in WITHOUT_PODS and self._world.managed.is_managed(group.gangs)
            event = report.PENDING if queued else report.FAILED_SCHEDULING
            told = self.tell(group, report.UNSCHEDULABLE, text, event, early=early)
            if told and self._world.managed.is_managed(group.gangs):
                self._waits(group, group.message, told=True)
        if told:
            group.quiet_until = self._world.now + self._options.backoff(group.failures.count(Failed.ATTEMPT) + 1)

    def _with_what_is_bound(self, group: Group) -> str:
        """Why the gang does not fit; of one that is bound in part, that it is."""
        tried = notes.ON_OTHER_NODES if group.failures.refused_on else notes.BEFORE_WEAKER_WORK
        text = with_what_is_bound(self._world, group.gangs, group.message, tried)
        return notes.and_bound_are_removed(text=text) if group.rolled_back and text != group.message else text

    def tell(self, group: Group, reason: str, text: str, event: str, early: bool = False) -> bool:
        """Condition and Event on every pending member, when the text is a new one for it. If it is ``early``, those
        that have another reason get it later. ``event`` is its reason; without one there is the condition only. Returns
        whether anything was written.

        With one Event per gang the conditions are the same, and the Event is written once, when the text is a new one
        for the gang.
        """
        said, some = (reason, text[:_TEXT_LIMIT]), False
        for gang in group.gangs if text else ():
            pending = self._world.membership.census(gang).pending
            as_one = self._as_one(gang)
            if gang.family in WITHOUT_PODS:
                job = report.job(self._world, gang)
                refs: list[PodRef] = (
                    [job] if pending and self._news(group, job.uid, said, early) else []
                )  # else it goes on
            else:
                new = (p for p in pending if not _shows(group, p, said) and self._news(group, p.uid, said, early))
                refs = [reference(pod) for pod in new]
            for ref in refs:
                if not isinstance(ref, JobRef):
                    self._actions.append(SetCondition(ref, *said))
                if event and not as_one:
                    self.event(ref, event, said[1])
            if event and refs and as_one and group.written.get(str(gang)) != said:
                group.written[str(gang)] = said
                self.event(self._spokesman(gang, refs), event, said[1])
            some = some or bool(refs)
        return some

    def _tell_unowned(self, group: Group, pod: Pod) -> None:
        """Condition and Event on a member that waits until it is known whose it is."""
        said = report.GANG_NOT_READY, pod.unowned[:_TEXT_LIMIT]
        if not _shows(group, pod, said) and self._news(group, pod.uid, said, early=False):
            self._actions.append(SetCondition(reference(pod), *said))
            self.event(reference(pod), *said)

    def _news(self, group: Group, uid: str, said: tuple[str, str], early: bool) -> bool:
        """Return True if this is new for a member or a Job. If it is too early to write it, set a timer and return
        False.
        """
        known = group.written.get(uid)
        if known == said:
            return False
        if early and known is not None:
            self.to_tell.at(group.key, group.quiet_until)
            return False
        group.written[uid] = said
        return True

    def bound(self, key: str, group: Group | None, action: Bind) -> None:
        """A pod has been bound by a write of the phase of the group ``key`` (empty: of none)."""
        pod = self._world.pods.get(action.pod.uid)
        if pod is None or not self._as_one(pod.gang):
            self.event(action.pod, report.SCHEDULED, notes.assigned(pod=action.pod.key, node=action.node))
        else:
            self.unsaid.setdefault(key, {}).setdefault(pod.gang, []).append(action)
        if group is not None:
            group.written.pop(action.pod.uid, None)
            if pod is not None:
                group.written.pop(str(pod.gang), None)

    def bound_by_now(self, key: str) -> None:
        """No binding of the group ``key`` is on its way any more: one Event per gang for those that have succeeded."""
        for gang, binds in self.unsaid.pop(key, {}).items():
            about = self._spokesman(gang, [action.pod for action in binds])
            self._actions.append(report.members_scheduled(about, [(action.pod, action.node) for action in binds]))

    def _as_one(self, gang: GangId) -> bool:
        """Return True if an Event about members of this gang is written once for all of them. A Job without pods is one
        anyway.
        """
        return self._options.events_per_gang and gang.family != SINGLE and gang.family not in WITHOUT_PODS

    def _spokesman(self, gang: GangId, members: Iterable[PodRef]) -> report.Reference:
        """Return the object for Events about a gang: its group object, or the first of these members by name."""
        spec = self._world.membership.objects.get((gang.family, gang.namespace, gang.name))
        if spec is None:
            return report.pod_reference(min(members, key=lambda ref: ref.name))
        return report.group_reference(gang.family, spec.kind, gang.namespace, gang.name, spec.uid)

    def waits_for(self, group: Group) -> str:
        """Return the state of a gang, and the pods whose end it waits for."""
        uids = self._ledger.waits(group.key) if group.evicts(Phase.LEAVING) else ()
        stay = {pod.uid for pod in group.plan.eviction.to_go(self._world.pods)} if group.plan is not None else ()
        names = sorted(self._world.pods[uid].key for uid in uids if uid in self._world.pods and uid not in stay)
        return notes.still_terminating(message=group.message, names=join_names(names, 5)) if names else group.message

    def room_taken(self, group: Group, plan: Plan, why: str) -> str:
        """Say who took the room that was freed, on the gang's first member too."""
        thieves = sorted(
            f"{p.key} ({p.scheduler})"
            for node in sorted(set(plan.node_of.values()))
            for p in self._world.snapshot.pods_on(node)
            if p.uid not in plan.neighbours and p.deleting_since is None
        )
        text = notes.room_taken(by=" by " + ", ".join(thieves[:5]) if thieves else "", why=why)
        self.event(report.trigger(self._world, group), report.ROOM_TAKEN, text)
        return text

    def tell_two_admitters(self, gangs: Sequence[GangId], text: str) -> None:
        """These gangs have two admitters: tell the objects that stand for them so, each once."""
        for gang in gangs:
            about = report.admitted_object(self._world, gang)
            if about is None or about[4] in self._told_two_admitters:
                continue
            if len(self._told_two_admitters) >= _MOST_TOLD:
                self._told_two_admitters.clear()
            self._told_two_admitters.add(about[4])
            self.event(about, report.TWO_ADMITTERS, text)

    def rolled_back(self, group: Group, members: Iterable[Victim]) -> None:
        """The removal of these members, which are bound, has been accepted: say so on them."""
        for victim in members:
            pod = self._world.pods.get(victim.uid)
            if pod is not None and pod.owner is not None:
                note = notes.rolled_back(
                    node=victim.node, gang=group.name, kind=pod.owner.kind, owner=pod.owner.name, why=group.message
                )
                self.event(victim, report.ROLLED_BACK, note)

    def pods_evicted(self, group: Group, victims: Iterable[Victim], plan: str) -> None:
        """These victims are being removed for the group. The pods and their Events do not last, owners do: Jobs,
        JobSets and groups of ours get a condition; other owners an Event, since their status is not ours to write. Each
        is written once for all of its pods that a plan takes.
        """
        lost: dict[tuple[report.Reference, GangId | None], list[Victim]] = {}
        for victim in victims:
            pod = self._world.pods.get(victim.uid)
            for owner in report.owners_of(self._world, pod) if pod is not None else ():
                lost.setdefault(owner, []).append(victim)
        for (about, gang), theirs in lost.items():
            text = report.evicted_for(group.name, theirs, plan)
            last = f"{render_time(self._world.now)}: {text}"
            if gang is not None:
                self.statuses.evicted(gang, last)
            elif about[:2] in _WITH_CONDITIONS:
                self.set_conditions(about, (_EVICTED_PODS, "True", report.PREEMPTED, last))
            else:
                self.event(about, report.PODS_EVICTED, text, report.trigger(self._world, group))

    def _new_use(self, group: Group, verdict: Verdict) -> QuotaUse | None:
        """The quota that a decision gives the group. None if it needs none, or has had it before: it has pods on nodes,
        or they are those of a Job that goes on.
        """
        use = next((d.quota for d in verdict.decisions if d.quota is not None), None)
        world = self._world
        if use is None or world.managed.pods_of(group.key):
            return None
        pods = (p for gang in group.gangs for p in world.membership.kinds(gang))
        return None if world.managed.rooms_of(pods) else use

    def quota_after_victims(self, group: Group, verdict: Verdict) -> None:
        """The group gets quota and nodes when others have left; until then it has neither, and says so."""
        use = self._new_use(group, verdict)
        if use is None:
            return
        text = use.short or verdict.message
        if verdict.victims:
            text += notes.and_pending_preemption(count=len({v.unit for v in verdict.victims}))
        elif use.short:
            text += f". {verdict.message}"
        self._waits(group, text, told=False)

    def quota_reserved(self, group: Group, verdict: Verdict) -> None:
        """A decision gives the group its quota, and no pod has to leave first."""
        use = self._new_use(group, verdict)
        if use is None:
            return
        self.reserved[group.key] = use.queue, self._world.now
        for gang in group.gangs:
            group.written.pop(_told_as(gang), None)
        condition = _has_quota(use.queue)
        waited = max(0, int(self._world.now - waits_since(self._world, group.gangs)))
        note = notes.quota_reserved_after(condition=condition[3], waited=waited)
        for about in self._objects(group.gangs):
            self.event(about, RESERVED, note)
            self.set_conditions(about, condition)

    def admitted(self, group: Group) -> None:
        """The group runs: its members are bound, or its suspension has ended."""
        if group.key not in self.reserved:
            return
        queue, since = self.reserved.pop(group.key)
        note = notes.admitted_after(queue=queue, waited=max(0, int(self._world.now - since)))
        for about in self._objects(group.gangs):
            self.event(about, ADMITTED, note)
            self.set_conditions(about, _RUNS)

    def runs_with_quota(self) -> None:
        """Tell each Job that runs with quota so: an earlier process may have ended before it did. An equal condition on
        the Job is not written again.
        """
        managed = self._world.managed
        managed.update_holdings()
        for uid, admission in sorted(managed.quota.admissions.items()):
            if not admission.evicted and managed.tally.runs(uid):
                ours = (gang for gang in managed.gangs_of(uid) if self._world.membership.is_ours(gang))
                for about in self._objects(ours):
                    self.set_conditions(about, _has_quota(admission.workload.queue), _RUNS)

    def _waits(self, group: Group, why: str, *, told: bool) -> None:
        """The group has no quota, or no nodes with it. Where an Event about its members says so on the same object,
        there is no second one, nor for the same reason again; ``told`` says that a Job without pods has had its Event.
        """
        for gang in group.gangs:
            about = report.stands_for(self._world, gang)
            if about is None:
                continue
            said = report.UNSCHEDULABLE, why
            if gang.family in WITHOUT_PODS:
                new = not told and group.written.get(about[4]) != said
                group.written[about[4]] = said
            else:
                key = _told_as(gang)
                new = gang.family != SINGLE and not self._options.events_per_gang and group.written.get(key) != said
                group.written[key] = said
            if new:
                self.event(about, PENDING, why)
            self.set_conditions(
                about,
                (RESERVED, "False", PENDING, why),
                (ADMITTED, "False", "NoReservation", notes.NO_RESERVATION),
            )

    def left_in_part(self, eviction: Eviction, staying: Sequence[Pod]) -> None:
        """Report each gang, or gang of a GangGroup, that is left in part because an eviction removed other pods of
        their units and these pods stay.
        """
        membership, gone = self._world.membership, eviction.removing
        for gangs in sorted({membership.group(pod.gang)[0] for pod in staying if pod.gang.family != SINGLE}):
            below = membership.half_bound(gangs) or any(without(membership, gang, gone) for gang in gangs)
            refused = (eviction.refused.get(pod.uid) for pod in staying if pod.gang in gangs)
            why = next(filter(None, refused), notes.MARK_TAKEN_BACK)
            for gang in gangs if below else ():
                stay = [reference(pod) for pod in membership.census(gang).bound if pod.uid not in gone]
                if stay:
                    names = join_names(sorted(ref.key for ref in stay), 5)
                    on = eviction.grounds
                    note = notes.left_broken(preemptor=on.owner, plan=on.ident, staying=names, why=why)
                    self.event(self._spokesman(gang, stay), report.GANG_BROKEN, note)

    def evicted_for_quota(self, group: Group, plan: Plan, uids: Container[str]) -> None:
        """These victims of the plan are being removed: tell those workloads among them that quota makes leave."""
        managed = self._world.managed
        managed.update_holdings()
        preemptor = managed.quota.admissions.get(group.key)
        asking = report.stands_for(self._world, group.gangs[0])
        if preemptor is None or asking is None:
            return
        workload = msgspec.structs.replace(preemptor.workload, uid=asking[4])
        owner = asking[4] if asking[1] in (JOB, JOBSET) else ""
        for gangs, reason in self._workloads(plan, uids):
            victim = managed.quota.admissions.get(group_key(gangs))
            if victim is None:
                continue
            said = managed.quota.message(victim.workload, reason, workload, owner)
            note = notes.evicted_for_quota(message=said, gang=group.name, priority=workload.priority, plan=plan.ident)
            for about in self._objects(gangs):
                self.event(about, EVICTED, note, asking)
                self.set_conditions(about, ("Evicted", "True", PREEMPTED, said), (PREEMPTED, "True", reason, said))

    def drained(self, gangs: Iterable[GangId], stop: Stop) -> None:
        """These gangs are being removed because their queue is drained."""
        note = notes.drained_workload(message=stop.message, stop=stop)
        for about in self._objects(gangs):
            self.event(about, report.EVICTED_DUE_TO + stop.reason, note)
            self.set_conditions(about, ("Evicted", "True", stop.reason, stop.message))

    def drain_blocked(self, gangs: Iterable[GangId], stop: Stop, why: str) -> None:
        """These gangs have to leave because their queue is drained, and cannot for now."""
        for about in self._objects(gangs):
            note = notes.drain_blocked(stop=stop, why=why)
            self.event(about, report.DRAIN_BLOCKED, note)

    def _workloads(self, plan: Plan, uids: Container[str]) -> Iterator[tuple[tuple[GangId, ...], str]]:
        """The gangs of each workload that has to go because of quota, and why it may be taken. One that only loses
        surplus members goes on.
        """
        found: dict[tuple[GangId, ...], str] = {}
        for uid, victim in plan.victims.items():
            pod = self._world.pods.get(uid)
            if pod is not None and uid in uids and victim.reason in REASON_TEXT and not victim.partial:
                gangs, _ = self._world.membership.group(pod.gang)
                found.setdefault(gangs, victim.reason)
        yield from sorted(found.items())

    def set_conditions(self, about: report.Reference, *conditions: Condition) -> None:
        """Conditions of a Job or JobSet; other objects have none of these."""
        api, kind, namespace, name, uid = about
        if about[:2] in _WITH_CONDITIONS:
            family, plural = api.partition("/")[0], f"{kind.lower()}s"
            self._actions.append(JobStatus(family, namespace, name, uid, {"conditions": conditions}, plural))

    def _objects(self, gangs: Iterable[GangId]) -> Iterator[report.Reference]:
        found = (report.stands_for(self._world, gang) for gang in gangs)
        return (about for about in found if about is not None)
