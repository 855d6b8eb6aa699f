"""The life of an everyday cluster in the simulator: the scheduler raises nothing, drifts nowhere and comes to rest."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import msgspec

from gangsched.cluster.kinds import CORE_KINDS, KINDS, SERVED_KINDS, Kind
from gangsched.cluster.kube.decode import ObjectDecoder
from gangsched.cluster.sim import SimCluster, World
from gangsched.cluster.sim import history as log
from gangsched.cluster.sim.arrival import Arrival
from gangsched.cluster.sim.history import USER, Cause
from gangsched.core.actions import Action
from gangsched.core.decision import BIND
from gangsched.core.events import Changed, Event, KindRead, ObjectRefused, Reading, Synced, record_of
from gangsched.core.options import Options
from gangsched.core.planning.contained import Fault
from gangsched.core.scheduler import Scheduler
from gangsched.core.world.world import World as KnownWorld
from gangsched.model.convert import Converter
from gangsched.model.errors import FieldError
from gangsched.model.records import Pod
from gangsched.runtime.loop import Observer, run_loop
from tests.everyday.changes import Change, changes, held_back
from tests.everyday.clusters import cluster
from tests.everyday.pods import OURS, Object
from tests.verify import Verified

#: So many writes of one kind to one object in a second are no news any more.
_WRITES = 15
_BY_API = {(kind.name, kind.group): kind for kind in (*CORE_KINDS, *SERVED_KINDS)} | dict(KINDS)
_DECODERS: dict[type[Any], ObjectDecoder] = {}
#: What is kept of a pod as the cluster has it when its manifest changes.
_OF_THE_CLUSTER = (
    *("node", "phase", "started", "deleting_since", "nominated_node"),
    *("intent", "disruption", "evicted_for", "scheduled_condition"),
)
#: States in which a gang should be for no reason that another process does not see. None: it has no member that waits.
_RESTS = (None, "Backoff", "Gathering", "Queued")


class Converted:
    """Objects as events, as a connection to a real cluster makes them."""

    def __init__(self) -> None:
        self._converter = Converter()

    def events(self, made: Object) -> list[Event]:
        """What a watch would deliver for an object that was created or changed; nothing for one that is not read."""
        kind = self._kind(made)
        if kind is None:
            return []
        decoder = _DECODERS.setdefault(kind.type, ObjectDecoder(kind.type))
        (raw,) = decoder.page(msgspec.json.encode({"items": [made]}))
        try:
            return [Changed(kind.record(self._converter, raw))]
        except FieldError as error:
            meta = made["metadata"]
            said = (kind.full_name, meta.get("namespace", ""), meta["name"], meta["uid"], error.field, error.message)
            out: list[Event] = [ObjectRefused(*said)]
            counted = kind.refused(self._converter, raw, error) if kind.refused is not None else None
            return [*out, Changed(counted)] if counted is not None else out

    def gone(self, made: Object) -> list[Event]:
        """What a watch would deliver for its end."""
        kind, meta = self._kind(made), made["metadata"]
        return [kind.deletion(meta.get("namespace", ""), meta["name"], meta["uid"])] if kind is not None else []

    @staticmethod
    def _kind(made: Object) -> Kind | None:
        return _BY_API.get((made["kind"], made["apiVersion"].rpartition("/")[0]))


class _Core(Verified):
    """Is also told which kinds there are, and verified."""

    def __init__(self, options: Options, world: World, every: int) -> None:
        super().__init__(options, every)
        self.readings: list[Event] = []
        self.told: list[Event] = []
        self._world = world

    def handle(self, events: Sequence[Event], now: float) -> list[Action]:
        told, self.readings = self.readings, []
        self.told += told
        return super().handle([*told, *events], now)


class _Faults(Observer):
    def __init__(self) -> None:
        self.faults: list[Fault] = []

    def faulted(self, fault: Fault) -> None:
        self.faults.append(fault)


class Life:
    """One life: the cluster, what happens to it, and what was wrong."""

    def __init__(self, seed: int, *, count: int = 25, seconds: float = 90.0, every: int = 3) -> None:
        self.seed = seed
        made = cluster(seed)
        self._convert = Converted()
        late = held_back(made)
        first = [event for each in made.objects.values() for event in self._convert.events(each)]
        self.changes = sorted([*late, *changes(made, count, seconds)], key=lambda change: change.at)
        self.world = World([Arrival(0.0, event) for event in first], start=1_767_225_600.0)
        options = Options(scheduler_names=(OURS,), search_steps=400, timeout_seconds=40.0, owner_wait_seconds=5.0)
        self.core = _Core(options, self.world, every)
        self.core.readings += [KindRead(kind.full_name, Reading.READ) for kind in (*CORE_KINDS, *SERVED_KINDS)]
        self._seconds = seconds
        for change in self.changes:
            self.world.after(change.at, partial(self._happens, change))

    def _happens(self, change: Change) -> None:
        if change.crd is not None:
            name, installed = change.crd
            self.core.readings.append(KindRead(name, Reading.READ if installed else Reading.ABSENT))
        events = self._convert.gone(change.gone) if change.gone is not None else []
        if change.made is not None:
            events = self._convert.events(change.made)
        for event in events:
            self.world.apply(self._as_it_is(event), Cause(USER, log.CREATE))

    def _as_it_is(self, event: Event) -> Event:
        """A pod keeps its node and what others have written to it."""
        record = record_of(event)
        if not isinstance(record, Pod):
            return event
        known = self.world.store.pods.get((record.namespace, record.name))
        if known is None or known.uid != record.uid:
            return event
        kept = {name: getattr(known, name) for name in _OF_THE_CLUSTER}
        if record.finished:
            kept["phase"] = record.phase
        return Changed(msgspec.structs.replace(record, **kept))

    def play(self) -> list[str]:
        """Run it; what is wrong, in words. Errors of the core and drifts are raised."""
        seen = _Faults()
        end = SimCluster(self.world, until_seconds=self._seconds + 60.0)
        run_loop(self.core, end, seen)
        end.close()
        found = [f"fault over {f.gang}: {f.error!r}" for f in seen.faults]
        return [*found, *self._endless(), *self._unsaid(), *self._unlike_after_a_restart()]

    def _endless(self) -> list[str]:
        """Writes of one kind to one object, again and again in one second."""
        written = (e for e in self.world.history.with_verbs(log.STATUS, log.NOMINATE, log.WITHDRAW) if e.changed)
        writes = Counter((e.verb, e.object, int(e.at_seconds)) for e in written)
        found = [(*what, count) for what, count in writes.items() if count > _WRITES]
        return [f"{name}: {count} times {verb} in second {at}" for verb, name, at, count in found]

    def _unsaid(self) -> list[str]:
        """Pods of ours that wait and were told nothing."""
        pods = [p for p in self.world.store.pods.values() if p.scheduler == OURS and not p.node and p.live]
        return [f"{p.key}: waits without a reason" for p in pods if p.scheduled_condition is None and not p.gates]

    def _unlike_after_a_restart(self) -> list[str]:
        """What another process would know or do at once, and this one does not."""
        fresh = Scheduler(self.core.options)
        fresh.handle([*self.core.told, *self.world.store.listing(), Synced()], self.world.clock.now)
        out = [f"{key}: {text}" for key, text in _unlike(self.core.world, fresh.world)]
        for _ in range(1000):
            if not fresh.has_work(self.world.clock.now):
                break
            fresh.decide(self.world.clock.now)
        known = self.core.states()
        binds = sorted({d.gang.key for d in fresh.drain_decisions() if d.outcome == BIND})
        rests = [key for key in binds if known.get(key) in _RESTS]
        out += [f"{key}: left as {known.get(key)}, and another process binds it" for key in rests]
        return out


def _unlike(ours: KnownWorld, fresh: KnownWorld) -> Iterator[tuple[str, str]]:
    """Pods that are members of another gang, or wait for another reason, than a process finds that starts now."""
    for uid, pod in sorted(fresh.pods.items()):
        known = ours.pods.get(uid)
        if known is None:
            yield pod.key, "is not known"
        elif _standing(known) != _standing(pod):
            yield pod.key, f"is {_standing(known)}, not {_standing(pod)}"
    objects = {key: (g.min_member, g.unowned) for key, g in ours.membership.objects.items()}
    for key, gang in sorted(fresh.membership.objects.items()):
        if objects.get(key) != (gang.min_member, gang.unowned):
            yield "/".join(key), f"is {objects.get(key)}, not {(gang.min_member, gang.unowned)}"
    for key in sorted(objects.keys() - fresh.membership.objects.keys()):
        yield "/".join(key), "is known, and gone"


def _standing(pod: Pod) -> tuple[object, ...]:
    """Whose an unplaced pod of another scheduler is, nobody asks."""
    return pod.gang, pod.kept, pod.unowned if pod.scheduler == OURS else ""


def play(seed: int, *, every: int = 3) -> list[str]:
    """What is wrong with the life of this seed."""
    return Life(seed, every=every).play()
