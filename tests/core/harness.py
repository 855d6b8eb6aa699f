"""A small cluster around the core: it answers writes and shows their effect as watch events, on a clock of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

import msgspec

from gangsched.core import events as ev
from gangsched.core.actions import (
    Action,
    Bind,
    BindVolume,
    ClaimWrite,
    HoldNode,
    Mark,
    NodeWrite,
    Nominate,
    PodWrite,
    ReleaseClaim,
    ReleaseNode,
    Remove,
    Report,
    ResumeJob,
    SelectNode,
    SetCondition,
    SuspendJob,
    Unmark,
    WithdrawNomination,
    Write,
    overruled_by,
)
from gangsched.core.decision import Decision, Verdict
from gangsched.core.events import Event, Outcome
from gangsched.core.forecast import forecast
from gangsched.core.options import Options
from gangsched.core.planning.context import Question
from gangsched.core.planning.cycle import Decider
from gangsched.core.scheduler import Scheduler
from gangsched.core.state.simulation import Phantom
from gangsched.model.devices import DeviceObject, ResourceClaim
from gangsched.model.held import Held
from gangsched.model.jobsets import JobSet
from gangsched.model.records import JOB, Budget, Condition, Gang, GangId, Job, Node, Pod, PodSelector
from gangsched.model.volumes import ClaimRef, PersistentVolume, PersistentVolumeClaim, StorageObject
from tests.builders import BudgetBuilder, GangBuilder, NodeBuilder, PodBuilder

Built: TypeAlias = (
    PodBuilder
    | NodeBuilder
    | GangBuilder
    | BudgetBuilder
    | Pod
    | Node
    | Gang
    | Budget
    | Job
    | JobSet
    | PodSelector
    | StorageObject
    | DeviceObject
    | Event
)
#: Decides the outcome of a write: (outcome, message), or None for success.
Judge: TypeAlias = Callable[[Write], tuple[Outcome, str] | None]


def event(what: Built) -> Event:
    """The watch event that shows an object (or its builder), or the event itself."""
    if isinstance(what, PodBuilder | NodeBuilder | GangBuilder | BudgetBuilder):
        what = what.obj()
    match what:
        case Pod():
            return ev.Changed(what)
        case Node():
            return ev.Changed(what)
        case Gang():
            return ev.Changed(what)
        case Budget():
            return ev.Changed(what)
        case Job():
            return ev.Changed(what)
        case JobSet():
            return ev.Changed(what)
        case PodSelector():
            return ev.Changed(what)
    if isinstance(what, StorageObject | DeviceObject):
        return ev.Changed(what)
    return what


def plan(*objects: Built, now: float = 0.0, **options: Any) -> dict[str, Decision]:
    """What would be decided for these objects, by the gang's ``namespace/name``."""
    made = forecast([event(o) for o in objects], Options(**options), now)
    return {d.gang.key: d for d in made}


def world(*objects: Built, **options: Any) -> Scheduler:
    """A scheduler that has seen these objects and decided nothing yet."""
    core = Scheduler(Options(**options))
    core.handle([*(event(o) for o in objects), ev.Synced()], 0.0)
    return core


def verdict(core: Scheduler, gangs: Sequence[GangId], now: float = 0.0) -> Verdict:
    """Decide these gangs without consequences."""
    core.world.now = now
    return Decider(core.world, core.ledger, core.options).decide(Question(gangs))


class Cluster:
    """Holds the pods, carries out writes, and tells the core.

    Victims take their grace period: they stay until :meth:`leave` (or :meth:`run` with ``patient=False``).
    ``judge`` may make writes fail; ``slow`` says which are not carried out before :meth:`answer` (nor are
    later writes to the same pod), and ``sent`` that these have left, and nothing overrules them; ``log`` has every
    action in the order in which it was asked for.
    """

    def __init__(self, *objects: Built, **options: Any) -> None:
        self.core = Scheduler(Options(**options))
        self.now = 0.0
        self.pods: dict[tuple[str, str], Pod] = {}
        self.nodes: dict[str, Node] = {}
        self.storage: dict[tuple[str, str], StorageObject] = {}
        self.claims: dict[str, ResourceClaim] = {}
        self.jobs: dict[tuple[str, str], Job] = {}
        self.jobsets: dict[tuple[str, str], JobSet] = {}
        self.log: list[Action] = []
        self.judge: Judge = lambda _: None
        self.slow: Callable[[Write], bool] = lambda _: False
        self.sent = False
        self.waiting: list[Write] = []
        self.decisions: list[Decision] = []
        self._events: list[Event] = []
        self._shown: list[Event] = []
        self.show(*objects)
        self._events.append(ev.Synced())

    # -- what happens ----------------------------------------------------------------------------------

    def show(self, *objects: Built) -> None:
        """These objects are created or changed; the core is told when it next runs."""
        for what in objects:
            made = event(what)
            match made:
                case ev.Changed(Pod() as shown):
                    self.pods[(shown.namespace, shown.name)] = shown
                case ev.Gone("Pod", namespace, name):
                    self.pods.pop((namespace, name), None)
                case ev.Changed(Node() as shown):
                    self.nodes[shown.name] = shown
                case ev.Gone("Node", _, name):
                    self.nodes.pop(name, None)
                case ev.Changed(Job() as job):
                    self.jobs[(job.namespace, job.name)] = job
                case ev.Changed(JobSet() as jobset):
                    self.jobsets[(jobset.namespace, jobset.name)] = jobset
                case ev.Changed(record) if isinstance(record, StorageObject):
                    self.storage[type(record).__name__, record.name] = record
                case ev.Changed(ResourceClaim() as claim):
                    self.claims[claim.name] = claim
            self._events.append(made)
            self._shown.append(made)

    def delete(self, name: str, namespace: str = "d") -> None:
        """A pod is gone."""
        found = self.pods[(namespace, name)]
        self.show(ev.Gone("Pod", namespace, name, found.uid))

    def pod(self, name: str, namespace: str = "d") -> Pod:
        """The pod as it is now."""
        return self.pods[(namespace, name)]

    def change(self, name: str, **fields: object) -> None:
        """Fields of a pod's record change."""
        self.show(msgspec.structs.replace(self.pod(name), **fields))

    def leave(self, *names: str) -> None:
        """Terminating pods (all, or these) are gone."""
        for (namespace, name), found in sorted(self.pods.items()):
            if found.deleting_since is not None and (not names or name in names):
                self.delete(name, namespace)

    def answer(self, *names: str) -> None:
        """Slow writes (all, or those to these pods) take effect and are answered."""
        ready = [w for w in self.waiting if not names or w.pod.name in names]
        self.waiting = [w for w in self.waiting if w not in ready]
        for write in ready:
            self._write(write)

    def restart(self, **options: Any) -> None:
        """Another process takes over: it knows what the cluster shows, and nothing else."""
        self.core = Scheduler(Options(**options))
        self.waiting.clear()
        others = [
            e
            for e in self._shown
            if not (isinstance(ev.record_of(e), Pod) or (isinstance(e, ev.Gone) and e.kind == "Pod"))
        ]
        self._events = [*others, *map(ev.Changed, self.pods.values()), ev.Synced()]

    def alter(self, kind: str, name: str, **fields: object) -> None:
        """Fields of a storage object change."""
        self.show(msgspec.structs.replace(self.storage[kind, name], **fields))

    def bind_claims(self, *names: str) -> None:
        """The volume controller binds claims of namespace ``d`` (all, or these) as it has been told to."""
        claims = [c for c in self.storage.values() if isinstance(c, PersistentVolumeClaim) and not c.bound]
        for claim in claims:
            if names and claim.name not in names:
                continue
            volumes = [v for v in self.storage.values() if isinstance(v, PersistentVolume) and v.belongs_to(claim)]
            if not volumes and claim.selected_node:
                ref = ClaimRef(claim.namespace, claim.name, claim.uid)
                volumes = [PersistentVolume(f"made-{claim.name}", storage_class=claim.storage_class, claim=ref)]
            for found in volumes[:1]:
                self.show(msgspec.structs.replace(found, phase="Bound"))
                self.show(msgspec.structs.replace(claim, volume_name=found.name, bound=True, phase="Bound"))

    # -- steps -----------------------------------------------------------------------------------------

    def handle(self, *events: Built) -> list[Action]:
        """Hand over what has happened, and ``events``; returns the actions, which are not carried out."""
        self.show(*events)
        batch, self._events = self._events, []
        return self.core.handle(batch, self.now)

    def step(self) -> list[Action]:
        """Hand over what has happened, decide at most one gang, and carry out what is asked for."""
        actions = self.handle()
        if self.core.has_work(self.now):
            actions += self.core.decide(self.now)
            self.decisions += self.core.drain_decisions()
        self.log += actions
        for action in actions:
            self._carry_out(action)
        return actions

    def run(self, limit: int = 200) -> list[Action]:
        """Step until nothing is left to do; returns the actions of this run."""
        start = len(self.log)
        for _ in range(limit):
            self.step()
            if not self._events and not self.core.has_work(self.now):
                return self.log[start:]
        raise AssertionError(f"the core does not come to rest: {self.log[-6:]}")

    def pass_time(self, seconds: float) -> list[Action]:
        """The clock moves on; the core runs at every moment at which it wants to."""
        end, start = self.now + seconds, len(self.log)
        while True:
            self.run()
            wake = self.core.wake_at()
            if wake is None or wake > end:
                break
            self.now = max(self.now, wake)
        self.now = end
        self.run()
        return self.log[start:]

    # -- effects ---------------------------------------------------------------------------------------

    def _carry_out(self, action: Action) -> None:
        if isinstance(action, SetCondition):
            self._update(
                action.pod.namespace,
                action.pod.name,
                action.pod.uid,
                scheduled_condition=Condition("False", action.reason, action.message),
            )
        if isinstance(action, PodWrite | NodeWrite | ClaimWrite) and not self.sent:
            self._overrule(action)
        if not isinstance(action, Write):
            return
        if self.slow(action) or any(w.pod.uid == action.pod.uid for w in self.waiting):
            self.waiting.append(action)
        else:
            self._write(action)

    def _overrule(self, by: PodWrite | NodeWrite | ClaimWrite) -> None:
        overruled = [w for w in self.waiting if w.pod.uid == by.pod.uid and isinstance(w, overruled_by(by))]
        self.waiting = [w for w in self.waiting if w not in overruled]
        self._events += [ev.WriteDone(write.id, Outcome.OUTDATED, "not wanted any more") for write in overruled]

    def _write(self, action: Write) -> None:
        judged = self.judge(action)
        if judged is not None:
            self._events.append(ev.WriteDone(action.id, *judged))
            return
        if isinstance(action, SuspendJob | ResumeJob):
            self._write_job(action)
            return
        if isinstance(action, NodeWrite):
            self._write_node(action)
            return
        if isinstance(action, ClaimWrite):
            self._write_claim(action)
            return
        found = self.pods.get((action.pod.namespace, action.pod.name))
        if found is None or found.uid != action.pod.uid:
            self._events.append(ev.WriteDone(action.id, Outcome.GONE, "not found"))
            return
        if isinstance(action, Bind) and found.node:
            self._events.append(ev.WriteDone(action.id, Outcome.CONFLICT, f"bound to {found.node}"))
            return
        if isinstance(action, BindVolume):
            ref = ClaimRef(action.pod.namespace, action.claim, action.claim_uid)
            self.alter("PersistentVolume", action.volume, claim=ref)
        elif isinstance(action, SelectNode):
            self.alter("PersistentVolumeClaim", action.claim, selected_node=action.node)
        self._update(action.pod.namespace, action.pod.name, action.pod.uid, **self._fields(action, found))
        self._events.append(ev.WriteDone(action.id, Outcome.OK))

    def _fields(self, action: Write, found: Pod) -> dict[str, object]:
        """What a write changes of its pod."""
        match action:
            case Bind(node=to):
                return {"node": to, "nominated_node": "", "phase": "Running", "started": self.now}
            case Nominate(node=to, message=text):
                return {"nominated_node": to, "intent": Condition("True", "Nominated", text)}
            case WithdrawNomination(reason=why, message=text):
                return {"nominated_node": "", "intent": Condition("False", why, text)}
            case Mark(message=text, reason=why):
                if not text:
                    return {"evicted_for": Condition("True", "Announced", action.owners, self.now)}
                owners = Condition("True", "Owned", action.owners, self.now)
                return {"disruption": Condition("True", why, text), "evicted_for": owners}
            case Unmark(message=text, reason=why):
                owners = Condition("False", "Withdrawn")
                return {"disruption": Condition("False", why, text), "evicted_for": owners}
            case Remove():
                return {"deleting_since": self.now + found.grace_seconds}
        return {}

    def _write_node(self, action: HoldNode | ReleaseNode) -> None:
        found = self.nodes.get(action.node.name)
        if found is None or found.uid != action.node.uid:
            self._events.append(ev.WriteDone(action.id, Outcome.GONE, "not found"))
            return
        held = Held(action.value, len(found.taints)) if isinstance(action, HoldNode) else None
        self.show(msgspec.structs.replace(found, held=held))
        self._events.append(ev.WriteDone(action.id, Outcome.OK))

    def _write_claim(self, action: ClaimWrite) -> None:
        found = self.claims[action.claim.name]
        users = {uid: (resource, name, uid) for resource, name, uid in found.reserved_for}
        outcome, given = Outcome.OK, found.allocation
        if isinstance(action, ReleaseClaim):
            for each in action.consumers:
                users.pop(each.uid, None)
            given = given if users else None
        elif found.allocation not in (None, action.allocation):
            outcome = Outcome.CONFLICT
        else:
            users |= {each.uid: (each.resource, each.name, each.uid) for each in action.consumers}
            given = action.allocation
        if outcome is Outcome.OK:
            self.show(msgspec.structs.replace(found, allocation=given, reserved_for=tuple(users.values())))
        self._events.append(ev.WriteDone(action.id, outcome))

    def control_claims(self) -> None:
        """The claim controller gives back the devices of pods that are gone or have finished."""
        there = {each.uid for each in self.pods.values() if not each.finished}
        for claim in list(self.claims.values()):
            left = tuple(each for each in claim.reserved_for if each[2] in there)
            if left != claim.reserved_for:
                given = claim.allocation if left else None
                self.show(msgspec.structs.replace(claim, allocation=given, reserved_for=left))

    def _write_job(self, action: SuspendJob | ResumeJob) -> None:
        """The Job controller deletes the pods of a suspended Job at once; it creates none for one that goes on. That of
        a JobSet does with its Jobs as with the JobSet.
        """
        key, suspend = (action.job.namespace, action.job.name), isinstance(action, SuspendJob)
        by = action.scheduler if suspend else ""
        given = action.templates if isinstance(action, ResumeJob) else None
        fields: dict[str, Any]
        jobs = [self.jobs[key]] if action.job.kind == JOB else []
        if action.job.kind == JOB:
            fields = {"added": given[0]} if given is not None else {}
            fields |= {"evicted": True} if suspend else {}
            self.show(msgspec.structs.replace(self.jobs[key], suspended=suspend, suspended_by=by, **fields))
        else:
            replicated = self.jobsets[key].replicated
            if given is not None:
                replicated = tuple(
                    msgspec.structs.replace(each, job=msgspec.structs.replace(each.job, added=added))
                    for each, added in zip(replicated, given, strict=True)
                )
            fields = {"suspended": suspend, "suspended_by": by, "replicated": replicated}
            fields |= {"evicted": True} if suspend else {}
            self.show(msgspec.structs.replace(self.jobsets[key], **fields))
            jobs = [j for j in self.jobs.values() if j.owner is not None and j.owner.uid == action.job.uid]
            for job in jobs:
                self.show(msgspec.structs.replace(job, suspended=suspend))
        uids = {job.uid for job in jobs}
        for found in list(self.pods.values()) if suspend else ():
            if found.owner is not None and found.owner.uid in uids and found.live:
                self.show(msgspec.structs.replace(found, deleting_since=self.now + found.grace_seconds))
        self._events.append(ev.WriteDone(action.id, Outcome.OK))

    def _update(self, namespace: str, name: str, uid: str, **fields: object) -> None:
        found = self.pods.get((namespace, name))
        if found is not None and found.uid == uid:
            self.show(msgspec.structs.replace(found, **fields))


def writes(actions: Iterable[Action]) -> list[tuple[str, str]]:
    """``(kind, pod)`` of the writes among these actions, in order."""
    return [(type(a).__name__, a.pod.name) for a in actions if isinstance(a, Write)]


def nodes_of(actions: Iterable[Action]) -> dict[str, str]:
    """Which pod was bound to which node."""
    return {a.pod.name: a.node for a in actions if isinstance(a, Bind)}


def texts(actions: Iterable[Action], name: str) -> list[tuple[str, str]]:
    """``(reason, message)`` of the conditions that a pod was given."""
    return [(a.reason, a.message) for a in actions if isinstance(a, SetCondition) and a.pod.name == name]


def reports(actions: Iterable[Action], reason: str) -> list[Report]:
    """The Events with this reason."""
    return [a for a in actions if isinstance(a, Report) and a.reason == reason]


def encoded(actions: Iterable[Action]) -> bytes:
    """Byte for byte."""
    return msgspec.json.encode(list(actions))


def victims(decision: Decision) -> list[str]:
    """Names of the victims."""
    return [v.name for v in decision.victims]


def placed(decision: Decision) -> dict[str, str]:
    """Which member goes where."""
    return {p.name: p.node for p in decision.placements}


def kept(cluster: Cluster) -> dict[str, Sequence[Phantom]]:
    """The room that is kept for pods still to come, by the key of their group; that for turns aside."""
    ledger = cluster.core.ledger
    return {holder: ledger.pods_of(holder) for holder in ledger.holders()}


def reserved(cluster: Cluster) -> dict[str, Sequence[Phantom]]:
    """The room that is kept for the turns of gangs, by name."""
    turns = cluster.core.ledger.turns
    return {blocked.name: turns.room_of(blocked.key) for blocked in turns.reserving()}
