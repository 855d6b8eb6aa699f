"""The scheduler core: events in, actions out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from gangsched.core import events as ev
from gangsched.core.actions import Action, QueueStatus, ReleaseNode
from gangsched.core.decision import Decision, Verdict
from gangsched.core.events import Change, Hint
from gangsched.core.framework.pipeline import Stopwatch
from gangsched.core.keys import ObjectKey, key_of_record, object_key
from gangsched.core.ledger.ledger import Ledger
from gangsched.core.lifecycle.executor import Executor, Ids
from gangsched.core.lifecycle.group import Group
from gangsched.core.lifecycle.holding import HeldRoom
from gangsched.core.lifecycle.table import State
from gangsched.core.options import Options
from gangsched.core.planning.contained import Fault
from gangsched.core.planning.context import Question
from gangsched.core.planning.cycle import Decider
from gangsched.core.state.jobs import WITHOUT_PODS, OwnerKey, Suspendable, family_of, key_of
from gangsched.core.state.ownership import Key, Link
from gangsched.core.state.scheduler_names import SchedulerNames
from gangsched.core.watchdog import Watchdog
from gangsched.core.world import pod_news, suspended
from gangsched.core.world.amounts import Amounts, devices
from gangsched.core.world.late_owners import LateOwners
from gangsched.core.world.obstacles import CLUSTER_QUEUES
from gangsched.core.world.owner_gangs import owner_key
from gangsched.core.world.world import World, api_of, group_refused, queue_object_refused, renew_domains, take_in
from gangsched.messages import causes
from gangsched.model.dialects import BY_FAMILY, GROUP_APIS, group_api
from gangsched.model.dialects.objects import OWNER_GROUPS
from gangsched.model.dialects.operators import COUNTS_ALL, FAMILIES, OPERATORS, STATEFUL_SET
from gangsched.model.errors import Mistake
from gangsched.model.jobsets import GROUP, JOBSET
from gangsched.model.preemptible import DAEMON_SET, DAEMON_SETS, MARKS, as_of, claims_daemon_set, marked
from gangsched.model.queues import QUEUE_KINDS, QueueObject, foreign_queue
from gangsched.model.records import JOB, Budget, Gang, GangId, Job, Pod, PriorityClass

#: So many objects that cannot be understood are remembered, lest each is reported twice.
_REFUSED_AT_MOST = 10_000


class Lasting:
    """The parts that outlive a core. A core that replaces another in the same process goes on with them."""

    def __init__(self) -> None:
        self.ids = Ids()
        self.watchdog = Watchdog()
        self.stopwatch = Stopwatch()


class Scheduler:
    """The whole decision side of a scheduler for one set of scheduler names.

    Single-threaded and deterministic: call :meth:`handle` with events as they come, then :meth:`decide` while
    :meth:`has_work`, and again :meth:`handle` at :meth:`wake_at` at the latest. ``lasting`` is what it takes over from
    the core whose place it has.
    """

    def __init__(self, options: Options, lasting: Lasting | None = None) -> None:
        self.options = options
        self.world = World(
            options.scheduler_names,
            options.evict_daemonset_pods,
            options.fair_sharing,
            options.overdue_after_seconds,
            options.gang_owners,
            SchedulerNames(options.guarded_names, options.leased_names, options.trusted_names),
            surplus_after=options.surplus_after,
        )
        self._late = LateOwners(self.world, options.owner_wait_seconds)
        lasting = lasting or Lasting()
        self.decider = Decider(self.world, Ledger(), options, lasting.watchdog, lasting.stopwatch)
        self._ids = lasting.ids
        self._run = self._begin()
        self._jobs: set[OwnerKey] = set()
        self._synced = False
        self._leading = not options.wait_for_leadership
        self._taken_over = False
        self._refused: set[tuple[str, str, str]] = set()
        self._untold: list[ev.ObjectRefused] = []
        self._fresh: list[Decision] = []
        self._busy_with: ev.Event | Group | None = None

    def _begin(self) -> Executor:
        """Nothing is intended yet."""
        return Executor(self.world, self.decider, self.options, self._ids)

    @property
    def ledger(self) -> Ledger:
        """What is intended."""
        return self.decider.ledger

    @property
    def _acts(self) -> bool:
        """True when this process leads and its caches are complete. A standby only observes."""
        return self._synced and self._leading

    # -- what happens --------------------------------------------------------------------------------------

    def handle(self, events: Sequence[ev.Event], now: float) -> list[Action]:
        """Take in events (possibly none: time has passed) and return what follows from them."""
        self._run.at(now)
        for event in events:
            self._busy_with = event
            self._apply(event)
        self._busy_with = None
        if self._late.seconds:
            for pod in self._late.release_due(now):
                self._pod_changed(pod)
        if self.world.hyper_nodes.changed:
            self._note(renew_domains(self.world))
        self._renew_jobs()
        names = self.world.names.changed_names(now) if self.world.names.guarded else {}
        if not self._acts:
            self._run.work.gangs.clear()  # all gangs are looked at when it takes over
            if self._synced:
                self.world.managed.update_holdings()
            suspended.forget_made(self.world, ())
            return []
        untold, self._untold = self._untold, []
        for refused in untold:
            self._run.refused(refused)
        if not self._taken_over:
            self._taken_over = True
            names = {name: (owner, True) for name, owner in self.world.names.taken.items()}
            self._look_at_all()
            self._run.take_over()
        for name, (owner, taken) in sorted(names.items()):
            self._run.name_served(name, owner, taken=taken)
            if not taken:
                self._look_at_all()
        return self._settled()

    def has_work(self, now: float) -> bool:
        """True when a gang is ready to be decided now."""
        return self._acts and self._run.head() is not None

    def decide(self, now: float) -> list[Action]:
        """Decide the gang at the head of the queue (exactly one) and return what is to be done."""
        self._run.at(now)
        group = self._run.head()
        if group is None or not self._acts:
            return []
        self._busy_with = group
        self._fresh.extend(self._run.decide(group))
        self._busy_with = None
        return self._settled()

    def _settled(self) -> list[Action]:
        actions = self._run.process_worklist()
        suspended.forget_made(self.world, self.ledger.holders())
        return actions

    def wake_at(self) -> float | None:
        """When :meth:`handle` must be called even without events (backoff over, timeout); None: never."""
        return self.world.agenda.next() if self._acts else None

    # -- what can be asked ---------------------------------------------------------------------------------

    def cancelled(self) -> ev.SearchCancelled | None:
        """The event to replay before the last decision for it to come out the same again; None: nothing."""
        ended_at = self.decider.watchdog.ended_at
        return ev.SearchCancelled(ended_at) if ended_at else None

    def would_decide(self, gangs: Sequence[GangId]) -> Verdict:
        """The decision about these gangs as all stands, without any consequence."""
        return self.decider.decide(Question(tuple(gangs)))

    def drain_decisions(self) -> list[Decision]:
        """Decisions made since the last call, oldest first."""
        out, self._fresh = self._fresh, []
        return out

    def next_gang(self) -> str:
        """The name of the gang that :meth:`decide` would decide; empty if there is none."""
        group = self._run.head() if self._acts else None
        return group.name if group is not None else ""

    def drain_faults(self) -> list[Fault]:
        """Return the errors over single gangs since the last call, oldest first."""
        return self.decider.contained.drain()

    def drain_held_back(self) -> int:
        """Return how many writes of statuses have been held back since the last call, because they might never end."""
        return self._run.drain_held_back()

    @property
    def busy_with(self) -> ev.Event | Group | None:
        """The event that is being applied, or the group that is being decided; else None."""
        return self._busy_with

    @property
    def waits(self) -> bool:
        """True while there will be something to do that is not known yet: never, as all is known by its events."""
        return False

    def evicted_repeatedly(self) -> int:
        """How many units were evicted in the last hour as often as it takes to be protected."""
        return self.world.evictions.repeatedly(self.options.protect_after_evictions, self.world.now)

    def held_room(self) -> HeldRoom:
        """How many nodes are held against other schedulers, and whether that is not allowed."""
        return self._run.gangs.holding.status()

    def held_nodes(self) -> list[ReleaseNode]:
        """Return the writes that take back every taint of this scheduler."""
        return self._run.gangs.holding.releases()

    def drain_held_seconds(self) -> dict[str, float]:
        """By namespace the node-seconds that were held for its gangs since the last call."""
        return self._run.gangs.holding.drain_seconds()

    def queue_counts(self) -> dict[str, int]:
        """Gangs by queue: active, backoff, unschedulable, gathering."""
        counts = self._run.queue.counts()
        counts["gathering"] = sum(1 for g in self._run.groups.values() if g.state is State.GATHERING)
        return counts

    def pending_pods(self) -> dict[str, int]:
        """Pending pods by the queue that their gang is in, named as in kube-scheduler. ``gated`` are those that may not
        be decided yet; a gang that waits for its victims counts as unschedulable.
        """
        out = dict.fromkeys(("active", "backoff", "unschedulable", "gated"), 0)
        queue, membership = self._run.queue, self.world.membership
        for group in self._run.groups.values():
            found = [membership.census(gang) for gang in group.gangs]
            pending = sum(len(each.pending) for each in found)
            out["gated"] += sum(len(each.gated) for each in found)
            if group.state is State.GATHERING:
                out["gated"] += pending
            elif queue.active_place(group.key) is not None:
                out["active"] += pending
            elif queue.backs_off(group.key):
                out["backoff"] += pending
            else:
                out["unschedulable"] += pending
        return out

    def devices(self) -> Mapping[str, Amounts]:
        """Return the amounts of each extended resource of nodes: used, held for gangs, free."""
        return devices(self.world, self.ledger)

    def stage_counts(self) -> dict[str, int]:
        """Gangs with pending members by what they wait for: a state, or the phase of the eviction for them."""
        return dict(Counter(group.stage for group in self._run.groups.values()))

    def queue_statuses(self, again: bool = False) -> list[QueueStatus]:
        """Return the statuses of queue objects that have changed since the last call, or all of them."""
        return self.world.managed.statuses(again) if self.options.quota else []

    def states(self) -> dict[str, str]:
        """Where every gang with pending members is, by name: its state, or the phase of its eviction."""
        return {g.name: g.stage for g in self._run.groups.values()}

    # -- events --------------------------------------------------------------------------------------------

    def _apply(self, event: ev.Event) -> None:
        match event:
            case ev.Changed(Pod() as pod):
                if not (self._synced and self._late.seconds and self._late.keep(pod, self.world.now)):
                    self._pod_changed(pod)
            case ev.Gone("Pod", _, _, uid):
                self._late.release(uid)
                self._pod_gone(uid)
            case ev.Changed(record):
                self._object_is(key_of_record(record), record)
            case ev.Gone(kind, namespace, name, uid, group):
                self._object_is(object_key(kind, group, namespace, name, uid), None)
            case _:
                self._happened(event)

    def _happened(self, event: ev.Event) -> None:
        """What is about no object of the cluster as it is."""
        match event:
            case ev.WriteDone(action_id, outcome, message):
                # An adapter may say it in plain words, which are equal to an outcome and not the same object.
                known_outcome = outcome if type(outcome) is ev.Outcome else ev.Outcome(outcome)
                self._run.phases.answer(action_id, known_outcome, message)
            case ev.ObjectRefused():
                self._object_refused(event)
            case ev.KindRead(kind, reading):
                self._kind_read(kind, reading)
            case ev.SearchCancelled(question):
                self.decider.watchdog.end_at(question)
            case ev.Quarantined(kind=""):  # what is wrong with an object is kept from the core
                self._run.quarantined(event)
            case ev.Synced():
                self._synced = True
                for pod in self._late.among(self.world.pods.values()):  # it was listed after the Jobs
                    self._pod_gone(pod.uid)
                    self._late.keep(pod, self.world.now)
            case ev.NameLeased() | ev.FormerNames():
                self._names_known(event)
            case ev.LeadershipChanged(leading):
                self._leadership(leading)
            case ev.ServerClock(ahead):
                self.world.sightings.set_server_clock(ahead, self.world.pods.values(), self.world.now)

    def _names_known(self, event: ev.NameLeased | ev.FormerNames) -> None:
        """More is known of who has, or had, which scheduler name."""
        if isinstance(event, ev.NameLeased):
            self.world.names.leased(event.name, event.owner, event.lease)
        else:
            for node in self.world.held_taints.former(event.names):
                self._apply(ev.Changed(node))

    def _object_is(self, about: ObjectKey, now: Any) -> None:
        """The object with this key is another from now on; None: it is gone."""
        kind, group, namespace, name, _ = about
        if kind == "PodGroup" and now is not None and now.owner is None and group not in FAMILIES:
            self._group_object_is((group, namespace, name), self._as_of(now))  # it owns nothing, and nothing owns it
            return
        key = owner_key(kind, group, namespace, name)
        news = key is not None and self._link_is(key, now)
        self._object_changed(kind, group, namespace, name, now)
        if key is not None and (news or key[0] == COUNTS_ALL):
            self._owned_again(*self.world.ownership.waiting_below(key))
        if kind == DAEMON_SET and news:
            self._claims_again([pod for pod in self.world.pods.values() if claims_daemon_set(pod, namespace, name)])

    def _link_is(self, key: Key, now: Any) -> bool:
        """Store what is known of an owner or a group. Return True if that is news to what it owns. A group owns
        nothing.
        """
        if now is None:
            return self.world.ownership.forget_owner(key)
        link = Link(now.uid, now.deleting, now.owner, ended=getattr(now, "finished", False))
        return self.world.ownership.put(key, link) and key[0] in OWNER_GROUPS

    def _owned_again(self, pods: Sequence[Pod], groups: Sequence[Key]) -> None:
        """What is known of whose these pods and groups are has changed."""
        membership = self.world.membership
        self._pods_regrouped(self.world.owner_gangs.owner_changed(pods))
        for key in groups:
            known = membership.objects.get(key)
            if known is not None and known.unowned != self._unowned(known):
                self._group_is(key, known)
            for scheduler in membership.ours:
                self._touch(GangId(*key, scheduler))

    def _unowned(self, gang: Gang) -> str:
        """Why it is not known whose a group object is, in words. Of what owns pods that is asked for each of them."""
        if gang.family in FAMILIES:
            return ""
        if gang.deleting:
            return causes.group_being_deleted(gang=gang.key)
        trees, key = self.world.group_trees, (gang.family, gang.namespace, gang.name)
        unclear = self.world.ownership.unclear(gang.owner, gang.namespace)
        return unclear or (trees.problem(key) if key in trees else "")

    def _kind_read(self, kind: str, reading: ev.Reading) -> None:
        """So much is known of the objects of a kind."""
        readings = self.world.ownership.readings
        if readings.get(kind, ev.Reading.UNKNOWN) is not reading:
            readings[kind] = reading
            if kind == CLUSTER_QUEUES or kind in GROUP_APIS:
                self._look_at_all()
            if kind in MARKS.values() or kind == DAEMON_SETS or len(readings) == 1:
                self._claims_again([pod for pod in self.world.pods.values() if marked(pod)])
            self._owned_again(*self.world.ownership.waiting_for(kind))

    def _object_changed(self, kind: str, group: str, namespace: str, name: str, now: Any) -> None:
        if kind == "PodGroup":
            self._group_object_is((group, namespace, name), self._as_of(now))
        elif kind in WITHOUT_PODS:
            self._owner_is((kind, namespace, name), self._as_of(now))
        elif kind == "Workload":
            self._jobs.update(self.world.set_workload(namespace, name, now.owners if now is not None else ()))
        elif kind == "Queue" or kind in QUEUE_KINDS:
            self._queue_object_is(kind, group, namespace, name, now)
        else:
            self._surroundings_are(kind, namespace, name, now)

    def _as_of(self, now: Any) -> Any:
        return as_of(now, self.world.now, self.options.ignore_keys) if now is not None else None

    def _owner_is(self, key: OwnerKey, now: Suspendable | None) -> None:
        """A Job or JobSet."""
        gangs, before = self.world.owner_gangs, self.world.jobs.find(*key)
        if now is not None and now.remark is not None:
            self._tell(_refused(now, *now.remark))
        self._pods_regrouped(gangs.put(now) if now is not None else gangs.forget_owner(key))
        known = now or before
        self._jobs.update(_with_jobset(known) if known is not None else [key])

    def _queue_object_is(self, kind: str, group: str, namespace: str, name: str, now: QueueObject | None) -> None:
        """Without ``quota`` queue objects mean nothing."""
        world = self.world
        if not self.options.quota or (now is not None and world.managed.quota.knows(now)):
            return
        if now is not None:
            self._queues_changed(world.put_queue_object(now))
        elif kind == "Queue":
            self._queues_changed(world.drop_queue_object("ClusterQueue", "", foreign_queue(group, name)))
        else:
            self._queues_changed(world.drop_queue_object(kind, namespace, name))

    def _surroundings_are(self, kind: str, namespace: str, name: str, now: Any) -> None:
        """No gang in particular is concerned: those that did not fit may fit now, or their victims leave."""
        gangs = self.world.owner_gangs
        may_declare = kind == "Namespace" and now is not None
        declared, deleted = may_declare and gangs.declared_in(name), name in self.world.deleted_namespaces
        news = kind == "Node" and now is not None and self._other_node(name, now.uid)
        if isinstance(now, Budget):
            self.ledger.condemned.budget_changed(now, self.world.budgets.get((namespace, name), now))
        change = take_in(self.world, kind, namespace, name, now)
        if change is not None:
            self._note(change)
        if news:
            self._claims_again([pod for pod in self.world.snapshot.pods_on(name) if pod.static])
        if kind == "ResourceQuota":
            self._jobs.update(key for key in suspended.expecting(self.world) if key[1] == namespace)
        if may_declare and gangs.declared_in(name) != declared:
            self._pods_regrouped(gangs.renew_all(name))
        if kind == "Namespace" and deleted != (name in self.world.deleted_namespaces):
            self._look_at_all()
        if change is not None and isinstance(now, PriorityClass):
            self._jobs.update(suspended.expecting(self.world))
        if kind == STATEFUL_SET:
            key, gang = (OPERATORS[STATEFUL_SET].family, namespace, name), now.gang if now is not None else None
            if self.world.membership.objects.get(key) != gang:  # not its status
                self._group_object_is(key, gang)

    def _other_node(self, name: str, uid: str) -> bool:
        """Return whether the node of this name is one that was not known before."""
        row = self.world.snapshot.row_of.get(name)
        return row is None or self.world.snapshot.nodes[row].uid != uid

    def _pods_regrouped(self, pods: Sequence[Pod]) -> None:
        """These pods are in another gang than before because of what their Job says."""
        for pod in pods:
            self._pod_changed(pod)

    def _queues_changed(self, regrouped: Sequence[Pod]) -> None:
        """Any gang may need quota from now on, or none: its place in the queue may be another too."""
        self._pods_regrouped(regrouped)
        self._jobs.update(suspended.with_queue(self.world))
        self._note(Change(Hint.QUOTA))
        self._look_at_all()
        self._run.drains.queues_changed()

    def _pod_changed(self, pod: Pod) -> None:
        pod = pod_news.as_known(self.world, self.options, pod)
        earlier = self.world.uid_of.get((pod.namespace, pod.name), pod.uid)
        if earlier != pod.uid:
            self._pod_gone(earlier)  # re-created under the same name before its deletion was seen
        old = self.world.pods.get(pod.uid)
        if old is not None and old.gang != pod.gang:
            self._run.work.gangs.add(old.gang)
            self._note(Change(Hint.VICTIMS))
        assumed_on = self.world.assumed.get(pod.uid, "")
        if self._acts and self.world.names.guarded:  # else another process of ours binds them
            self.world.names.seen(old, pod, self.world.now)
        untold = self._new_mistakes(pod) if pod.mistake is not None or pod.remark is not None else ()
        self.world.set_pod(pod)
        self._nominated_by_others()
        for mistake in untold:
            self._tell(ev.ObjectRefused("Pod", pod.namespace, pod.name, pod.uid, *mistake))
        if old is None or not self._run.gangs.only_told(old, pod):
            self._run.work.gangs.add(pod.gang)
        self._job_touched(pod)
        for change in pod_news.changes(self.world, self.options, old, pod, assumed_on):
            self._note(change)
        if self._acts and pod_news.fuller(old, pod, assumed_on):
            self._run.work.nodes_fuller.add(pod.node)
        if pod.finished:
            self._run.gangs.pod_gone(pod.uid, old)
        if pod.node or not pod.live:
            self._run.gangs.pod_seen(old, pod)

    def _claims_again(self, pods: Sequence[Pod]) -> None:
        """Evaluate these pods again: what they claim to be may count, or not count any more."""
        for pod in pods:
            self._pod_changed(pod)

    def _new_mistakes(self, pod: Pod) -> Sequence[Mistake]:
        """What is to be reported of what is wrong with a pod that is ours."""
        membership = self.world.membership
        return membership.new_mistakes(pod) if pod.live and membership.is_ours(pod.gang) else ()

    def _job_touched(self, pod: Pod) -> None:
        """A suspended Job is planned again when the last of its pods is gone."""
        owner = self.world.jobs.owner_of(pod) if pod.owner is not None else None
        if owner is not None and (owner.suspended_by or suspended.ours(self.world, owner)):
            self._jobs.add(key_of(owner))

    def _renew_jobs(self) -> None:
        """Suspended Jobs wait, or go on."""
        over = self._late.release_due_jobs(self.world.now) if self._late.seconds else []
        for key in sorted(self._jobs.union(over)):
            kept = key not in over and self._late.keep_job(key, self.world.now)
            renewed = () if kept else suspended.renew(self.world, key)
            for gang in (*renewed, *self.world.owner_gangs.of_owner(*key)):
                self._touch(gang)
            self._run.work.gangs.update(GangId(*key, scheduler) for scheduler in self.world.membership.ours)
            owner = self.world.jobs.find(*key)
            problem = suspended.refusal(self.world, owner) if owner is not None else None
            if problem is not None and owner is not None:
                self._object_refused(_refused(owner, problem.field, problem.message))
        self._jobs.clear()

    def _nominated_by_others(self) -> None:
        """Other nodes than before may be left to pods of other schedulers."""
        for was, now in self.world.foreign_nominations.changed_nodes:
            if was:
                self._note(Change(Hint.ROOM, was))
            if now and self._acts:
                self._run.work.nodes_changed.add(now)
        self.world.foreign_nominations.changed_nodes.clear()

    def _note(self, change: Change) -> None:
        """Something has happened that may help gangs that do not fit."""
        if not self._acts:
            return
        self._run.work.changes.append(change)
        if change.kind & Hint.NODE and change.node:
            self._run.work.nodes_changed.add(change.node)

    def _pod_gone(self, uid: str) -> None:
        assumed_on = self.world.assumed.get(uid, "")
        pod = self.world.drop_pod(uid)
        self._nominated_by_others()
        self._run.gangs.pod_gone(uid, pod)
        if pod is not None:
            self._run.work.gangs.add(pod.gang)
            self._job_touched(pod)
            if pod.bound or assumed_on:
                self._note(Change(Hint.ROOM, pod.node or assumed_on, pod))

    def _look_at_all(self) -> None:
        """Look at every gang again, those of suspended Jobs without expected members too: why they wait is reported."""
        membership = self.world.membership
        self._run.work.gangs.update(membership.gangs())
        for key in membership.objects:
            dialect = BY_FAMILY.get(key[0])
            if dialect is not None and dialect.awaited_from:  # it waits for a phase, to have members
                self._run.work.gangs.add(GangId(*key, dialect.awaited_from))
        for key in suspended.with_queue(self.world):
            self._run.work.gangs.update(GangId(*key, scheduler) for scheduler in self.world.membership.ours)

    def _group_object_is(self, key: tuple[str, str, str], now: Gang | None) -> None:
        """A group object, known by its API, namespace and name. If it is in a tree, so are others."""
        trees, membership = self.world.group_trees, self.world.membership
        if (now is None or now.link is None) and not (trees.used and key in trees):
            self._group_is(key, now)
            return
        changed = sorted(trees.put(key, now if now is None or now.link is not None else None))
        for each in changed:
            self._group_is(each, trees.gang(each) if each != key or each in trees else now)
        moved = [pod for each in changed for pod in membership.pods_of_group(*each)]
        self._pods_regrouped(self.world.owner_gangs.owner_changed(moved))

    def _group_is(self, key: tuple[str, str, str], now: Gang | None) -> None:
        """A group, or the gang of a tree of groups."""
        membership = self.world.membership
        known, matters = membership.objects.get(key), True
        if now is not None:
            if now.owner is not None or now.deleting or now.unowned or now.link is not None:
                now = msgspec.structs.replace(now, unowned=self._unowned(now))
            matters = membership.set_object(now)
        else:
            membership.drop_object(*key)
        self._pods_regrouped(self.world.owner_gangs.group_changed(key[0], known, now))
        if matters:
            self._note(Change(Hint.VICTIMS))
        if now is not None and now.remark is not None:
            self._tell(ev.ObjectRefused(group_api(now.family), now.namespace, now.name, now.uid, *now.remark))
        for scheduler in membership.ours:
            self._touch(GangId(*key, scheduler))
            for other in known.grouped(scheduler) if now is None and known is not None else ():
                self._touch(other)  # what it listed is not known any more when it is looked at

    def _touch(self, gang: GangId) -> None:
        """Evaluate the gang again."""
        self._run.work.gangs.add(gang)
        self.world.membership.changed.add(gang)

    def _object_refused(self, event: ev.ObjectRefused) -> None:
        kind, membership = event.kind.partition(".")[0], self.world.membership
        if event.kind in GROUP_APIS:
            family = api_of(event)
            gang = group_refused(event, membership.objects.get((family, event.namespace, event.name)))
            membership.set_object(gang)
            if (family, event.namespace, event.name) in self.world.group_trees:
                self._group_object_is((family, event.namespace, event.name), gang)
            for scheduler in membership.ours:
                self._touch(GangId(family, event.namespace, event.name, scheduler))
        if kind in QUEUE_KINDS and self.options.quota:
            held = queue_object_refused(event, self.world.managed.quota)
            if held is not None:
                self._queues_changed(self.world.put_queue_object(held))
        owner = owner_key(kind, event.kind.partition(".")[2], event.namespace, event.name)
        if owner is not None and self.world.ownership.refuse(owner, event.uid, f"{event.field}: {event.message}"):
            self._owned_again(*self.world.ownership.waiting_below(owner))
        known_node = self.world.snapshot.node(event.name) if event.kind == "Node" else None
        if known_node is not None:
            self._surroundings_are("Node", "", event.name, msgspec.structs.replace(known_node, outdated=True))
        self._tell(event)

    def _tell(self, event: ev.ObjectRefused) -> None:
        """Report what is wrong with an object on it, once."""
        key = (event.uid, event.field, event.message)
        if key not in self._refused:
            if len(self._refused) >= _REFUSED_AT_MOST:
                self._refused.clear()
                del self._untold[:-_REFUSED_AT_MOST]
            self._refused.add(key)
            self._untold.append(event)

    def _leadership(self, leading: bool) -> None:
        self._leading = leading
        self.world.snapshot.devices.foresees_claims = False
        if not leading:
            # Another process may write from now on: nothing that was under way here is ours any more.
            self._run = self._begin()
            self._taken_over = False


#: The API groups of what is suspended.
_API_GROUPS = {JOB: "batch", JOBSET: GROUP}


def _with_jobset(owner: Suspendable) -> Iterator[OwnerKey]:
    """The Job or JobSet, and the JobSet that it is one of."""
    yield key_of(owner)
    if isinstance(owner, Job) and owner.owner is not None and owner.owner.kind == JOBSET:
        yield JOBSET, owner.namespace, owner.owner.name


def _refused(owner: Suspendable, field: str, message: str) -> ev.ObjectRefused:
    """Return the event that a field of a Job or JobSet could not be understood, to be reported to its owner."""
    family = family_of(owner)
    kind = f"{family}.{_API_GROUPS[family]}"
    return ev.ObjectRefused(kind, owner.namespace, owner.name, owner.uid, field, message)
