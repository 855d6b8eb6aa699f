"""Work for the scheduler that never stops preempting: low pods fill the nodes, gangs of higher priority come and go.

The load plays the controllers: what was evicted is made again, what has run for its time is deleted. It also keeps,
from the API server's watch, the life of every pod, against which the audit log is checked.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager

import msgspec

from gangsched.core.actuation.records import read_intent, read_owners
from gangsched.model.convert import INTENT_CONDITION, OWNERS_CONDITION
from tests.controlplane.client import ApiError, Client, Object, wait_until
from tests.controlplane.plane import SCHEDULER_USER
from tests.controlplane.rbac import apply_manifests_crds, apply_manifests_rbac

OURS = "py-gang-scheduler"
GANG_LABEL = "pod-group.scheduling.sigs.k8s.io"
KOORDINATOR = "gang.scheduling.koordinator.sh/"
PRIORITIES = {"resilience-low": 1, "resilience-high": 100, "resilience-top": 200}
LOW, HIGH, TOP = PRIORITIES
#: Requests of the load under way at once.
_AT_ONCE = 16


class Life(msgspec.Struct):
    """One incarnation of a pod. Times are seconds since the epoch when the watch told of it; None: it has not.

    ``marked_for`` are the preemptors and plans whose marks it has borne, ``plans`` those that have nominated it,
    ``withdrawn_at`` is when it was seen without a nomination that it had had, ``unmarked_at`` without a mark.
    """

    uid: str
    name: str
    gang: str
    minimum: int
    priority: int
    milli: int
    scheduler: str
    node: str = ""
    marked_for: set[tuple[str, str]] = msgspec.field(default_factory=set)
    plans: set[str] = msgspec.field(default_factory=set)
    withdrawn_at: list[float] = msgspec.field(default_factory=list)
    unmarked_at: list[float] = msgspec.field(default_factory=list)
    bound_at: float | None = None
    leaving_at: float | None = None
    gone_at: float | None = None

    @property
    def preemptor(self) -> str:
        """What marks call it when room is made for it: its gang, or the pod itself if it is alone."""
        return self.gang if self.minimum > 1 else self.name

    @property
    def runs(self) -> bool:
        """Bound, and nobody has asked for its end."""
        return self.bound_at is not None and self.leaving_at is None and self.gone_at is None


class Gang(msgspec.Struct):
    """So many pods that start together. ``seconds`` is how long it holds its room when it is whole; None: for ever.

    ``with_object``: a PodGroup object says its minimum, else annotations on the members do. Size 1: a pod without a
    gang.
    """

    name: str
    size: int
    priority_class: str
    milli: int
    seconds: float | None = None
    with_object: bool = False
    scheduler: str = OURS
    grace_seconds: int = 0
    made: int = 0
    whole_at: float | None = None
    finished: bool = False

    @property
    def key(self) -> str:
        """``namespace/name``."""
        return f"default/{self.name}"


def stream(seed: int, *, sizes: tuple[int, int], milli: Iterable[int], seconds: tuple[float, float]) -> Iterator[Gang]:
    """Gangs of high and of top priority without end."""
    chance = random.Random(seed)
    amounts = tuple(milli)
    number = 0
    while True:
        yield Gang(
            name=f"gang-{number:05d}",
            size=chance.randint(*sizes),
            priority_class=HIGH if chance.random() < 0.7 else TOP,
            milli=chance.choice(amounts),
            seconds=chance.uniform(*seconds),
            with_object=chance.random() < 0.5,
        )
        number += 1


def fillers(nodes: int, cpu: int, grace_seconds: int) -> list[Gang]:
    """Low pods of one CPU that would fill all nodes: half of them alone, half in gangs of two."""
    total = nodes * cpu
    singles = [Gang(f"low-{n:04d}", 1, LOW, 1000, grace_seconds=grace_seconds) for n in range(total // 2)]
    pairs = [
        Gang(f"pair-{n:04d}", 2, LOW, 1000, with_object=n % 2 == 0, grace_seconds=grace_seconds)
        for n in range(total // 4)
    ]
    return [*singles, *pairs]


class Load:
    """Keeps ``fillers`` alive, and ``at_once`` gangs of ``gangs`` unfinished; ``lives`` is all that the watch told.

    With ``when_full`` a gang comes only while so much room (mCPU) is taken, or asked for by gangs that wait for it.
    """

    def __init__(
        self, admin: Client, *, fillers: Iterable[Gang], gangs: Iterator[Gang], at_once: int, when_full: int = 0
    ) -> None:
        self._admin = admin
        self._gangs = gangs
        self._at_once = at_once
        self._when_full = when_full
        self._more = True
        self._limit = asyncio.Semaphore(_AT_ONCE)
        self._making: set[asyncio.Task[None]] = set()
        self._deleting: set[str] = set()
        self._changed = asyncio.Event()
        self.known: dict[str, Gang] = {g.name: g for g in fillers}
        self._fillers = list(self.known.values())
        self.lives: dict[str, Life] = {}
        self.by_gang: dict[str, dict[str, Life]] = {}
        self.finished = 0
        self.failures: list[str] = []
        self.listeners: list[Callable[[str, Object, Life], None]] = []

    # ----------------------------------------------------------------------------------------------------- lifetime

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Watch and work while the block runs."""
        head = await self._admin.list_raw("Pod")
        tasks = [
            asyncio.create_task(self._watch(head["metadata"]["resourceVersion"]), name="watch"),
            asyncio.create_task(self._work(), name="work"),
        ]
        try:
            yield
            for task in tasks:
                if task.done():
                    task.result()
        finally:
            for task in (*tasks, *self._making):
                task.cancel()
            await asyncio.gather(*tasks, *self._making, return_exceptions=True)

    def no_more(self) -> None:
        """No further gangs come."""
        self._more = False

    @property
    def unfinished(self) -> list[Gang]:
        """Gangs that have not been whole for their time yet."""
        return [g for g in self.known.values() if g.seconds is not None and not g.finished]

    async def settled(self, timeout: float) -> None:
        """Wait until all gangs have come (see :meth:`no_more`) and finished, and the fillers run again."""

        def done() -> bool:
            return not self._more and not self.unfinished and all(self._whole(g) for g in self._fillers)

        try:
            await wait_until(done, timeout, "all gangs have finished and the low pods run again")
        except AssertionError as error:
            slow = [g for g in self.known.values() if not g.finished and not self._whole(g)]
            late = [f"{g.name} ({sum(x.runs for x in self._there(g))} of {g.size} run)" for g in slow]
            raise AssertionError(f"{error}; not yet: {', '.join(late[:10])}") from None

    def partial(self) -> list[str]:
        """Gangs of which now some members run and some do not."""
        out = []
        for gang in self.known.values():
            running = [x for x in self._there(gang) if x.runs]
            if not gang.finished and running and len(running) < gang.size:
                out.append(f"{gang.key}: {len(running)} of {gang.size} run")
        return out

    async def pod(self, name: str, milli: int = 1, priority_class: str = TOP) -> Life:
        """One single pod more, and its life once it is bound; the caller deletes it."""
        gang = Gang(name, 1, priority_class, milli)
        self.known[name] = gang
        self._make(gang)
        await wait_until(lambda: any(x.bound_at for x in self._there(gang)), 60.0, f"{name} is bound", 0.01)
        return next(x for x in self._there(gang) if x.bound_at)

    async def drop(self, gang: Gang) -> None:
        """Delete what is left of a gang."""
        gang.finished = True
        self._delete(gang)

    # --------------------------------------------------------------------------------------------------- the watch

    async def _watch(self, version: str) -> None:
        async for change, pod in self._admin.watch("Pod", resource_version=version):
            self.take(change, pod, time.time())
            self._changed.set()

    def take(self, change: str, pod: Object, now: float) -> None:
        """One change of a pod."""
        metadata, spec, status = pod["metadata"], pod["spec"], pod.get("status", {})
        uid = metadata["uid"]
        life = self.lives.get(uid)
        if life is None:
            labels = metadata.get("labels") or {}
            gang = labels.get("resilience/gang") or metadata["name"]
            requests = spec["containers"][0].get("resources", {}).get("requests", {})
            life = Life(
                uid,
                f"{metadata['namespace']}/{metadata['name']}",
                f"{metadata['namespace']}/{gang}",
                int(labels.get("resilience/minimum", "1")),
                spec.get("priority", 0),
                _milli(requests.get("cpu", "0")),
                spec.get("schedulerName", ""),
            )
            self.lives[uid] = life
            self.by_gang.setdefault(life.gang, {})[uid] = life
        if spec.get("nodeName") and life.bound_at is None:
            life.node, life.bound_at = spec["nodeName"], now
        if metadata.get("deletionTimestamp") and life.leaving_at is None:
            life.leaving_at = now
        if (change == "DELETED" or status.get("phase") in ("Succeeded", "Failed")) and life.gone_at is None:
            life.gone_at = now
        for each in status.get("conditions") or () if life.gone_at is None else ():
            if each["status"] == "True" and each["type"] == OWNERS_CONDITION:
                said = read_owners(each.get("message", "")) or ()
                life.marked_for.update((owner.name, owner.plan) for owner in said)
            elif each["status"] == "True" and each["type"] == INTENT_CONDITION:
                intent = read_intent(each.get("message", ""))
                life.plans.update([intent.plan] if intent is not None else ())
            elif each["type"] == INTENT_CONDITION:
                life.withdrawn_at.append(now)
            elif each["status"] == "False" and each["type"] == "DisruptionTarget":
                life.unmarked_at.append(now)
        for listener in self.listeners:
            listener(change, pod, life)

    # ---------------------------------------------------------------------------------------------------- the work

    async def _work(self) -> None:
        while True:
            self._changed.clear()
            self._step(time.time())
            # Not asyncio.wait_for, which forgets now and then in Python 3.11 that it has been cancelled.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(0.2):
                    await self._changed.wait()
            await asyncio.sleep(0.02)

    def _step(self, now: float) -> None:
        while self._more and len(self.unfinished) < self._at_once and self._full():
            gang = next(self._gangs, None)
            if gang is None:
                self._more = False
                break
            self.known[gang.name] = gang
        for gang in list(self.known.values()):
            if gang.finished:
                continue
            whole = self._whole(gang)
            gang.whole_at = (gang.whole_at or now) if whole else None
            if whole and gang.seconds is not None and now - (gang.whole_at or now) >= gang.seconds:
                gang.finished = True
                self.finished += 1
                self._delete(gang)
            elif not whole and gang.name.split("-")[0] != "probe":
                self._make(gang)

    def _full(self) -> bool:
        """Would the next gang have to make room?"""
        if not self._when_full:
            return True
        used = sum(x.milli for x in self.lives.values() if x.bound_at is not None and x.gone_at is None)
        asked = sum(g.size * g.milli for g in self.unfinished if g.whole_at is None)
        return used + asked >= self._when_full

    def _there(self, gang: Gang) -> list[Life]:
        return [x for x in self.by_gang.get(gang.key, {}).values() if x.gone_at is None]

    def _whole(self, gang: Gang) -> bool:
        there = self._there(gang)
        return len(there) == gang.size and all(x.runs for x in there)

    def _make(self, gang: Gang) -> None:
        """Make what is missing, unless that is under way."""
        missing = gang.size - len(self._there(gang))
        if missing <= 0 or any(t.get_name() == gang.name for t in self._making):
            return
        task = asyncio.create_task(self._create(gang, missing), name=gang.name)
        self._making.add(task)
        task.add_done_callback(self._making.discard)

    async def _create(self, gang: Gang, missing: int) -> None:
        try:
            async with self._limit:
                if gang.with_object and not gang.made:
                    await self._admin.create(_group(gang))
                for _ in range(missing):
                    gang.made += 1
                    created = await self._admin.create(_pod(gang))
                    if created["metadata"]["uid"] not in self.lives:
                        self.take("ADDED", created, time.time())
        except (ApiError, OSError) as error:
            self.failures.append(f"create {gang.name}: {error}")

    def _delete(self, gang: Gang) -> None:
        async def delete() -> None:
            async with self._limit:
                for life in self._there(gang):
                    try:
                        await self._admin.delete("Pod", life.name.partition("/")[2], grace_seconds=0, uid=life.uid)
                    except ApiError as error:
                        if error.status not in (404, 409):
                            self.failures.append(f"delete {life.name}: {error}")
                if gang.with_object:
                    with contextlib.suppress(ApiError):
                        await self._admin.delete("scheduling.sigs.k8s.io/v1alpha1/PodGroup", gang.name)

        task = asyncio.create_task(delete(), name=f"delete {gang.name}")
        self._making.add(task)
        task.add_done_callback(self._making.discard)


# ------------------------------------------------------------------------------------------------------------ objects


def _milli(text: str) -> int:
    return int(text[:-1]) if text.endswith("m") else int(float(text) * 1000)


def _group(gang: Gang) -> Object:
    return {
        "apiVersion": "scheduling.sigs.k8s.io/v1alpha1",
        "kind": "PodGroup",
        "metadata": {"name": gang.name, "namespace": "default"},
        "spec": {"minMember": gang.size},
    }


def _pod(gang: Gang) -> Object:
    name = gang.name if gang.size == 1 and gang.made == 1 else f"{gang.name}-{gang.made:03d}"
    labels = {"resilience/minimum": str(gang.size), "resilience/gang": gang.name}
    notes = {}
    if gang.size > 1 and gang.with_object:
        labels[GANG_LABEL] = gang.name
    elif gang.size > 1:
        notes = {f"{KOORDINATOR}name": gang.name, f"{KOORDINATOR}min-available": str(gang.size)}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "labels": labels, "annotations": notes},
        "spec": {
            "schedulerName": gang.scheduler,
            "priorityClassName": gang.priority_class,
            "terminationGracePeriodSeconds": gang.grace_seconds,
            "containers": [
                {"name": "main", "image": "example/none", "resources": {"requests": {"cpu": f"{gang.milli}m"}}}
            ],
        },
    }


async def furnish(admin: Client, nodes: int, cpu: int) -> None:
    """CRDs, rights, priority classes and Ready nodes."""
    await apply_manifests_crds(admin)
    await apply_manifests_rbac(admin, SCHEDULER_USER)
    for name, value in PRIORITIES.items():
        await admin.apply(
            {
                "apiVersion": "scheduling.k8s.io/v1",
                "kind": "PriorityClass",
                "metadata": {"name": name},
                "value": value,
            }
        )
    for number in range(nodes):
        name = f"node-{number:03d}"
        room = {"cpu": str(cpu), "memory": "64Gi", "pods": "110"}
        await admin.create(
            {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
                "status": {"capacity": room, "allocatable": room},
            }
        )

    async def ready() -> bool:
        return all(
            any(c["type"] == "Ready" and c["status"] == "True" for c in n["status"].get("conditions", []))
            and not n["spec"].get("taints")
            for n in await admin.list("Node")
        )

    await wait_until(ready, 60.0, "nodes are Ready")
