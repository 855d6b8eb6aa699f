"""Which pods form which gang, whose they are, and what is known of Jobs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from gangsched.core.state.jobs import Jobs
from gangsched.core.state.membership import Membership
from gangsched.core.state.ownership import Ownership
from gangsched.core.world.owner_gangs import key_in_labels
from gangsched.core.world.world import World
from tests.verify.differences import filled, unlike
from tests.verify.nodes import known_pods


def membership(world: World) -> Iterator[str]:
    """Pods by gang, mistakes, and what follows from the members of each gang."""
    kept, pods = world.membership, known_pods(world)
    fresh = Membership(kept.ours, world.classes, world.names)
    fresh.assumed, fresh.layers = kept.assumed, kept.layers
    for group in kept.objects.values():
        fresh.set_object(group)
    for pod in pods.values():
        fresh.set_pod(pod)
    yield from unlike("members of gangs", kept.members, fresh.members)
    made = {pod.uid: pod for pods_made in kept.expected._open.values() for pod in pods_made}
    yield from unlike("expected members that were made", kept.expected.made, made)
    fresh.of_scheduler.update(Counter(gang.scheduler for gang in kept.expected))
    yield from unlike("gangs by scheduler name", dict(+kept.of_scheduler), dict(+fresh.of_scheduler))
    yield from unlike("mistakes of members", dict(kept._mistaken.items()), dict(fresh._mistaken.items()))
    yield from unlike("stakes of groups", kept.stakes, fresh.stakes)
    for gang, spec in kept._specs.items():
        yield from unlike(f"specification of {gang.key}", spec, kept._known(gang))
    yield from _facts(kept)


def _facts(kept: Membership) -> Iterator[str]:
    found = dict(kept._facts)
    if kept._last is not None:
        found[kept._last[0]] = kept._last[1]
    for gang, facts in found.items():
        if facts.census is not None and gang not in kept.expected:
            yield from unlike(f"census of {gang.key}", facts.census, kept._count(gang))
        before = facts.standing
        if before is not None:
            kept._facts.pop(gang, None)
            kept._last = None
            yield from unlike(f"standing of {gang.key}", before, kept._standing(gang))
    for gang in kept.members:
        names = [(p.name, p.uid) for p in kept.known_pods(gang)]
        yield from unlike(f"order of members of {gang.key}", names, sorted(names))


def ownership(world: World) -> Iterator[str]:
    """What waits below each owner."""
    kept = world.ownership
    fresh = Ownership(world.membership.ours)
    for key, link in kept._links.items():
        fresh.put(key, link)
    for pod in known_pods(world).values():
        if pod.owner is not None:
            fresh.pod_set(pod, key_in_labels(pod))
    yield from unlike("owners below owners", dict(kept._below.items()), dict(fresh._below.items()))
    yield from unlike("pods that wait below owners", dict(kept._pods.items()), dict(fresh._pods.items()))


def jobs(world: World) -> Iterator[str]:
    """Jobs with their pods, and what Kueue admits."""
    kept, fresh = world.jobs, Jobs()
    for owner in kept.all():
        fresh.put(owner)
    for pod in known_pods(world).values():
        fresh.pod_set(None, pod)
    for key, owners in kept.kueue._owners.items():
        fresh.kueue.workload_set(key, owners)
    yield from unlike("Jobs of JobSets", kept._jobs_of, fresh._jobs_of)
    yield from unlike("pods of Jobs", kept._pods, fresh._pods)
    yield from unlike("stakes of Jobs", kept.stakes, fresh.stakes)
    yield from unlike("marks of Kueue", kept.kueue._marks, fresh.kueue._marks)
    yield from unlike("Workloads by owner", dict(kept.kueue._workloads.items()), dict(fresh.kueue._workloads.items()))


def surroundings(world: World) -> Iterator[str]:
    """Names of pods, pods that wait for others, nodes with the taint of this scheduler."""
    pods = known_pods(world)
    yield from unlike("pods by name", world.uid_of, {(p.namespace, p.name): p.uid for p in pods.values()})
    ours = world.membership.is_ours
    if not world.names.guarded:
        waiting = {p.uid for p in pods.values() if p.live and not (p.node or p.gates or ours(p.gang))}
        yield from unlike("pods that wait for others", set().union(*world.rivals.waiting.values()), waiting)
    yield from unlike("assumed pods", {uid for uid in world.assumed if uid not in pods or pods[uid].node}, set())
    known = {n.name for n in world.snapshot._known.values() if n.held is not None}
    yield from unlike("held nodes", set(world.held), known)
    nominated = world.foreign_nominations._pods
    yield from unlike(
        "nominations of others",
        nominated,
        {u: p for u in nominated if (p := pods.get(u)) is not None and p.nominated_node and not p.node},
    )
    terminating = {uid for uid, p in pods.items() if p.deleting_since is not None}
    yield from unlike("terminating pods", set(world.sightings.leaves_by), terminating)
    yield from unlike("overdue pods", world.sightings.overdue - terminating, set())
    quotas = filled(world.pod_quotas)
    yield from unlike("ResourceQuotas by namespace", world.pod_quotas, quotas)
