"""What one seed is: a random cluster, what others do to it meanwhile, which calls fail, when the scheduler dies.

Every part draws from a generator of its own, so that leaving one out does not change the others: a failing seed can be
made smaller by switching parts off.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection

import msgspec

from gangsched.cluster.sim import World
from gangsched.cluster.sim.faults import Faults, NoFaults, SeededFaults
from gangsched.core.events import Changed, Event, Gone, records
from gangsched.core.options import Options
from gangsched.model.constraints import Taint
from gangsched.model.records import Gang, Job, Node, Owner, Pod
from tests import generators
from tests.chaos import (
    bursts,
    changes,
    claims,
    clocks,
    losses,
    marks,
    notices,
    others,
    priorities,
    queues,
    refusals,
    rollbacks,
    storage,
    takeovers,
)
from tests.chaos.refusals import Refusing
from tests.chaos.trouble import (
    CHANGED,
    CREATED,
    FIRST_TROUBLE,
    GONE_BY_USER,
    LAST_TROUBLE,
    Crash,
    Part,
    Trouble,
    at_random,
    new_pod,
)

#: A write takes effect at most so many seconds after it was sent, its answer takes as long again.
MAX_WRITE_DELAY = 0.4
#: Parts that a share of the seeds has besides. All else is drawn as without them: objects, troubles, faults, crashes.
PARTS: dict[str, tuple[float, Callable[[int, list[Event]], Part]]] = {
    "rollback": (0.04, rollbacks.part),
    "queues": (0.04, queues.part),
    "volumes": (0.06, storage.part),
    "changes": (0.1, changes.part),
    "takeovers": (0.04, takeovers.part),
    "clocks": (0.05, clocks.part),
    "priorities": (0.1, priorities.part),
    "losses": (0.08, losses.part),
    "marks": (0.08, marks.part),
    "bursts": (0.3, bursts.part),
    "notices": (0.08, notices.part),
    "others": (0.1, others.part),
    "claims": (0.1, claims.part),
}


class Scenario(msgspec.Struct):
    """All that happens under one seed."""

    seed: int
    events: list[Event]
    options: Options
    faults: Faults
    troubles: list[Trouble]
    crashes: list[Crash]
    parts: tuple[str, ...] = ()


def scenario(
    seed: int,
    *,
    faults: bool = True,
    troubles: bool = True,
    refusing: bool = True,
    crashes: bool = True,
    jobs: bool = True,
    parts: Collection[str] | None = None,
) -> Scenario:
    """The scenario of this seed, with the parts that are asked for. ``parts`` are those of :data:`PARTS` that it has,
    whatever its share; None: those that it draws.
    """
    made = generators.cluster(seed)
    events = [*made.events, *_jobs(seed, made.events)] if jobs else made.events
    further: list[Trouble] = []
    first: list[Crash] = []
    options = msgspec.structs.replace(made.options, timeout_seconds=40.0, search_steps=400, owner_wait_seconds=5.0)
    chosen = [name for name in PARTS if name in (_parts(seed) if parts is None else parts)]
    quiet = False
    for name in chosen:
        part = PARTS[name][1](seed, events)
        quiet = quiet or part.quiet
        events = part.events
        options = msgspec.structs.replace(options, **part.options)
        further += part.troubles if troubles else []
        first += part.crashes if crashes else []
    all_troubles = [*_troubles(seed), *_job_troubles(seed)] if troubles and not quiet else []
    all_troubles += [*(_refusals(seed) if refusing and not quiet else []), *further]
    return Scenario(
        seed,
        events,
        options,
        Refusing(_faults(seed) if faults else NoFaults()),
        sorted(all_troubles, key=lambda t: t.at_seconds),
        [*first, *(_crashes(seed) if crashes else [])],
        tuple(chosen),
    )


def _parts(seed: int) -> list[str]:
    chance = random.Random(f"{seed}/parts")
    return [name for name, (share, _) in PARTS.items() if chance.random() < share]


def _jobs(seed: int, events: list[Event]) -> list[Event]:
    """Further pods that arrive at the start, owned by Jobs that do not survive the loss of many of them."""
    chance = random.Random(f"{seed}/jobs")
    shapes = [e.shape for e in records(events, Pod)]
    out: list[Event] = []
    for number in range(chance.choice((0, 0, 1, 2))):
        name, size = f"job-{number}", chance.randint(1, 4)
        grace, run_for = float(chance.choice((0, 1, 10))), f"{chance.randint(5, 90)}s"
        template = new_pod(
            name,
            chance.choice(shapes),
            uid="",
            hints={"sim.gangsched.dev/run-for": run_for},
            priority=chance.choice((0, 1500)),
            owner=Owner("Job", name, f"uid-{name}"),
            grace_seconds=grace,
        )
        limit, completions = chance.choice((0, 1, 2)), chance.choice((size, size + 2))
        out.append(
            Changed(
                Job(
                    generators.NAMESPACE,
                    name,
                    f"uid-{name}",
                    parallelism=size,
                    completions=completions,
                    backoff_limit=limit,
                    template=template,
                )
            )
        )
        for member in (f"{name}-{index}" for index in range(size)):
            ident = template.gang._replace(name=member)
            out.append(Changed(msgspec.structs.replace(template, name=member, uid=f"uid-{member}", gang=ident)))
    return out


def _faults(seed: int) -> Faults:
    chance = random.Random(f"{seed}/faults")
    if chance.random() < 0.2:
        return NoFaults()
    return SeededFaults(
        seed,
        before=chance.choice((0.0, 0.05, 0.2)),
        after=chance.choice((0.0, 0.05, 0.2)),
        write_delay_seconds=chance.choice((0.0, 0.02, MAX_WRITE_DELAY)),
        watch_delay_seconds=chance.choice((0.0, 0.02, 0.4)),
    )


def _crashes(seed: int) -> list[Crash]:
    chance = random.Random(f"{seed}/crashes")
    return [
        Crash(chance.randint(1, 25), chance.random() < 0.5, chance.choice((0.0, 0.5, 5.0)))
        for _ in range(chance.choice((0, 0, 1, 1, 2, 3)))
    ]


def _troubles(seed: int) -> list[Trouble]:
    chance = random.Random(f"{seed}/troubles")
    kinds = (
        _delete_pod,
        _recreate_pod,
        _delete_node,
        _cordon,
        _taint,
        _shrink,
        _thief,
        _stronger_gang,
        _tighten_budget,
        _delete_group,
        _change_minimum,
    )
    out = []
    for n in range(chance.choice((0, 0, 1, 2, 3, 5))):
        kind = chance.choice(kinds)
        moment = round(chance.uniform(FIRST_TROUBLE, LAST_TROUBLE if chance.random() < 0.5 else 3.0), 3)
        out.append(Trouble(moment, kind.__name__.strip("_"), at_random(kind, f"{seed}/trouble/{n}")))
    return sorted(out, key=lambda t: t.at_seconds)


def _job_troubles(seed: int) -> list[Trouble]:
    """What users do to Jobs: most of it while they are suspended, or just before or after."""
    chance = random.Random(f"{seed}/job troubles")
    kinds = (_delete_job, _recreate_job, _suspend_job, _resume_job, _resize_job)
    out = []
    for n in range(chance.choice((0, 0, 1, 2, 3))):
        kind = chance.choice(kinds)
        moment = round(chance.uniform(FIRST_TROUBLE, LAST_TROUBLE * chance.choice((0.2, 1.0, 2.0))), 3)
        out.append(Trouble(moment, kind.__name__.strip("_"), at_random(kind, f"{seed}/job trouble/{n}")))
    return out


def _refusals(seed: int) -> list[Trouble]:
    """What the server refuses for a while. Half of the seeds go without."""
    chance = random.Random(f"{seed}/refusals")
    out = []
    for n in range(chance.choice((0, 0, 1, 2))):
        kind = chance.choice(refusals.KINDS)
        moment = round(chance.uniform(0.0, LAST_TROUBLE * chance.choice((0.1, 1.0))), 3)
        out.append(Trouble(moment, kind.__name__, at_random(kind, f"{seed}/refusal/{n}")))
    return out


# ------------------------------------------------------------------------------------------------- what others do


def _pick_pod(world: World, chance: random.Random) -> Pod | None:
    pods = sorted(world.store.pods.values(), key=lambda p: p.key)
    return chance.choice(pods) if pods else None


def _pick_node(world: World, chance: random.Random) -> Node | None:
    nodes = sorted(world.store.nodes.values(), key=lambda n: n.name)
    return chance.choice(nodes) if nodes else None


def _delete_pod(world: World, chance: random.Random) -> None:
    pod = _pick_pod(world, chance)
    if pod is not None:
        _delete(world, pod)


def _delete(world: World, pod: Pod) -> None:
    if not pod.node or pod.finished or pod.grace_seconds <= 0:
        world.store.apply(Gone("Pod", pod.namespace, pod.name, pod.uid), GONE_BY_USER)
    elif pod.deleting_since is None:
        ends = world.clock.stamp + pod.grace_seconds
        world.store.put_pod(msgspec.structs.replace(pod, deleting_since=ends), CHANGED)


def _recreate_pod(world: World, chance: random.Random) -> None:
    """Gone at once, and another one of the same name a moment later."""
    pod = _pick_pod(world, chance)
    if pod is None:
        return
    world.store.apply(Gone("Pod", pod.namespace, pod.name, pod.uid), GONE_BY_USER)
    fresh = msgspec.structs.replace(
        pod,
        uid=f"{pod.uid}-again",
        node="",
        phase="Pending",
        deleting_since=None,
        nominated_node="",
        scheduled_condition=None,
        disruption=None,
        intent=None,
        evicted_for=None,
        created=world.clock.stamp,
    )

    def create() -> None:
        if (fresh.namespace, fresh.name) not in world.store.pods:
            world.store.put_pod(fresh, CREATED)

    world.after(chance.choice((0.0, 0.003, 0.5)), create)


def _delete_node(world: World, chance: random.Random) -> None:
    node = _pick_node(world, chance)
    if node is not None and len(world.store.nodes) > 1:
        world.store.apply(Gone("Node", "", node.name), GONE_BY_USER)


def _change_node(world: World, node: Node | None, **fields: object) -> None:
    if node is not None:
        world.store.apply(Changed(msgspec.structs.replace(node, **fields)), CHANGED)


def _cordon(world: World, chance: random.Random) -> None:
    _change_node(world, _pick_node(world, chance), unschedulable=True)


def _taint(world: World, chance: random.Random) -> None:
    _change_node(world, _pick_node(world, chance), taints=(Taint("broken", "", "NoSchedule"),))


def _shrink(world: World, chance: random.Random) -> None:
    node = _pick_node(world, chance)
    if node is not None:
        less = tuple((name, units // 2 if name == "cpu" else units) for name, units in node.allocatable)
        _change_node(world, node, allocatable=less)


def _thief(world: World, chance: random.Random) -> None:
    """Another scheduler binds a pod of its own."""
    node = _pick_node(world, chance)
    if node is None:
        return
    name = f"thief-{chance.randint(0, 10**6)}"
    some = sorted(world.store.pods.values(), key=lambda p: p.key)
    if not some:
        return
    like = chance.choice(some)
    more = {"priority": chance.choice((0, 10_000)), "node": node.name, "created": world.clock.stamp}
    world.store.put_pod(new_pod(name, like.shape, "", "default-scheduler", **more), CREATED)


def _stronger_gang(world: World, chance: random.Random) -> None:
    """A gang of higher priority than all others arrives."""
    waiting = sorted((p for p in world.store.pods.values() if not p.node), key=lambda p: p.key)
    if not waiting:
        return
    shape = chance.choice(waiting).shape
    name = f"vip-{chance.randint(0, 10**6)}"
    size = chance.randint(1, 3)
    group = Gang(
        generators.FAMILY, generators.NAMESPACE, name, uid=f"gang-{name}", min_member=size, created=world.clock.stamp
    )
    world.store.apply(Changed(group), CREATED)
    for n in range(size):
        world.store.put_pod(new_pod(f"{name}-{n}", shape, name, priority=9000, created=world.clock.stamp), CREATED)


def _tighten_budget(world: World, chance: random.Random) -> None:
    budgets = sorted(world.store.budgets.values(), key=lambda b: b.key)
    if budgets:
        changed = msgspec.structs.replace(chance.choice(budgets), allowed=0)
        world.store.apply(Changed(changed), CHANGED)


def _pick_gang(world: World, chance: random.Random) -> Gang | None:
    gangs = sorted(world.store.gangs.values(), key=lambda g: g.key)
    return chance.choice(gangs) if gangs else None


def _delete_group(world: World, chance: random.Random) -> None:
    gang = _pick_gang(world, chance)
    if gang is not None:
        world.store.apply(Gone("PodGroup", gang.namespace, gang.name, group=gang.family), GONE_BY_USER)


def _change_minimum(world: World, chance: random.Random) -> None:
    gang = _pick_gang(world, chance)
    if gang is not None:
        wanted = max(1, gang.min_member + chance.choice((-1, 1)))
        world.store.apply(Changed(msgspec.structs.replace(gang, min_member=wanted)), CHANGED)


def _pick_job(world: World, chance: random.Random) -> Job | None:
    jobs = [j for j in sorted(world.store.jobs(), key=lambda j: j.key) if not j.finished]
    return chance.choice(jobs) if jobs else None


def _delete_job(world: World, chance: random.Random) -> None:
    """The Job at once, its pods as they are garbage."""
    job = _pick_job(world, chance)
    if job is None:
        return
    world.store.apply(Gone("Job", job.namespace, job.name), GONE_BY_USER)
    for pod in sorted(world.store.pods.values(), key=lambda p: p.key):
        if pod.owner is not None and pod.owner.uid == job.uid:
            _delete(world, pod)


def _recreate_job(world: World, chance: random.Random) -> None:
    """Another Job of the same name, at once; it goes on, and makes pods of its own."""
    job = _pick_job(world, chance)
    if job is None or job.template is None:
        return
    for pod in sorted(world.store.pods.values(), key=lambda p: p.key):
        if pod.owner is not None and pod.owner.uid == job.uid:
            _delete(world, pod)
    uid = f"{job.uid}-again"
    template = msgspec.structs.replace(job.template, owner=Owner("Job", job.name, uid))
    fresh = msgspec.structs.replace(
        job,
        uid=uid,
        template=template,
        suspended=True,
        suspended_by="",
        failed=0,
        succeeded=0,
        created=world.clock.stamp,
    )
    world.store.apply(Gone("Job", job.namespace, job.name), GONE_BY_USER)
    world.store.apply(Changed(fresh), CREATED)
    world.store.apply(Changed(msgspec.structs.replace(fresh, suspended=False)), CHANGED)


def _change_job(world: World, job: Job | None, **fields: object) -> None:
    if job is not None:
        world.store.apply(Changed(msgspec.structs.replace(job, **fields)), CHANGED)


def _suspend_job(world: World, chance: random.Random) -> None:
    """One that we have suspended stays as it is: there is nothing to change about it."""
    job = _pick_job(world, chance)
    if job is not None and not job.suspended:
        _change_job(world, job, suspended=True, suspended_by="")


def _resume_job(world: World, chance: random.Random) -> None:
    """As ``kubectl patch`` does it: the name of whoever has suspended it stays on record."""
    _change_job(world, _pick_job(world, chance), suspended=False)


def _resize_job(world: World, chance: random.Random) -> None:
    job = _pick_job(world, chance)
    if job is not None:
        _change_job(world, job, parallelism=max(1, job.parallelism + chance.choice((-1, 1))))
