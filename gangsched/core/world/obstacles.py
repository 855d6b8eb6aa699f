"""Why a gang cannot be decided now. What is not known of it, or is not there yet, is a reason for it to gather.

One function says so, for all who ask: a gang that waits, a plan, and who lists gangs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from gangsched.core.events import Reading
from gangsched.core.ledger.condemned import Condemned
from gangsched.core.state import incomplete
from gangsched.core.world.world import World
from gangsched.messages import causes
from gangsched.messages.text import listed
from gangsched.model.dialects import group_api, needs_object
from gangsched.model.queues import DEFAULT_QUEUE, GROUP, QUEUE_LABEL, is_foreign, queue_api
from gangsched.model.records import Gang, GangId

#: The kind of objects without which no queue exists.
CLUSTER_QUEUES = f"ClusterQueue.{GROUP}"
#: Reasons that members show as their condition: something is missing, a record cannot be understood, or Kueue admits
#: the gang as well.
GANG_NOT_READY = "GangNotReady"
REFUSED = "InvalidObject"
TWO_ADMITTERS = "TwoAdmitters"
#: So many rows of indexes of a Job are named.
_NAMED = 3


class Obstacle(NamedTuple):
    """Why a gang cannot be decided: the reason that its members show as their condition, and in words."""

    reason: str
    text: str


def obstacle(world: World, condemned: Condemned, gangs: Sequence[GangId], *, leave: bool = False) -> Obstacle | None:
    """Why these gangs cannot be decided now, together; None: they can. That members are about to be evicted is no
    reason where all of them ``leave`` of their own accord.
    """
    membership, admitted_twice = world.membership, world.managed.two_admitters(gangs)
    if admitted_twice:
        return Obstacle(TWO_ADMITTERS, admitted_twice)
    text = _namespace_problem(world, gangs) or queue_problem(world, gangs) or _group_problem(world, gangs)
    if text:
        return Obstacle(GANG_NOT_READY, text)
    text = incomplete.problem(membership, gangs)
    if text and membership.mistaken(gangs):
        return Obstacle(REFUSED, text)
    if text:
        text = "; ".join((text, *_failed_indexes(world, gangs)))
    elif not leave:
        text = _leaving(world, condemned, gangs)
    return Obstacle(GANG_NOT_READY, text) if text else None


def _namespace_problem(world: World, gangs: Sequence[GangId]) -> str:
    """Return which namespace is being deleted: the API server refuses bindings there, which would be created."""
    deleted = next((gang.namespace for gang in gangs if gang.namespace in world.deleted_namespaces), "")
    return causes.namespace_being_deleted(namespace=deleted) if deleted else ""


def _failed_indexes(world: World, gangs: Sequence[GangId]) -> Iterator[str]:
    """The indexes of Jobs of which no member comes any more, in words: a group may count them all the same."""
    found = (world.jobs.job_of(pod) for gang in gangs for pod in world.membership.kinds(gang)) if world.jobs else ()
    jobs = {job.key: job for job in found if job is not None and job.failed_indexes}
    for key, job in sorted(jobs.items()):
        indexes = [str(a) if a == b else f"{a}-{b}" for a, b in job.failed_indexes]
        yield causes.indexes_failed(indexes=listed(indexes, _NAMED), job=key)


def queue_problem(world: World, gangs: Sequence[GangId]) -> str:
    """Return why it is not known whether these gangs have quota: a label names their queue, and nothing serves it.

    Where queues are left to others, as with ``quota.mode: off``, they mean nothing here. A queue of another API that is
    known has been read from there, whatever is served of Kueue's. A group says ``default`` by the default of its API.
    """
    readings = world.ownership.readings
    absent = readings.get(CLUSTER_QUEUES) is Reading.ABSENT
    named = next(
        (spec for spec in map(world.membership.spec, gangs) if spec is not None and _misses(spec, readings)), None
    )
    if not absent and named is None:
        return ""
    queue = world.managed.written_labels(gangs).local_queue
    if queue:
        counts = absent and not is_foreign(queue)
        return causes.queue_api_missing(label=QUEUE_LABEL, queue=queue, api=CLUSTER_QUEUES) if counts else ""
    if named is None:
        return ""
    return causes.group_queue_api_missing(gang=named.key, queue=named.queue_name, api=queue_api(named.family))


def _misses(spec: Gang, readings: Mapping[str, Reading]) -> bool:
    """Return whether a group names a queue of its API that the cluster does not serve."""
    named = spec.queue_name not in {"", DEFAULT_QUEUE}
    return named and readings.get(queue_api(spec.family)) is Reading.ABSENT


def _group_problem(world: World, gangs: Sequence[GangId]) -> str:
    """Return which API is missing where members name a group and nothing serves groups of that kind."""
    for gang in gangs:
        api = group_api(gang.family)
        if world.ownership.readings.get(api) is not Reading.ABSENT or world.membership.spec(gang) is not None:
            continue
        if any(map(needs_object, world.membership.kinds(gang))):
            return causes.group_api_missing(gang=gang.key, api=api)
    return ""


def _leaving(world: World, condemned: Condemned, gangs: Sequence[GangId]) -> str:
    """Why no further members of these gangs may start: those who are bound are being evicted, or their Job is. They
    would be less than the gang needs, or leave at once with the others.
    """
    if not condemned.records:
        return ""
    for gang in gangs:
        text = incomplete.without(world.membership, gang, condemned)
        if text:
            return text
        owners = map(world.jobs.owner_of, world.membership.census(gang).kinds if condemned.suspends else ())
        suspended = next((o for o in owners if o is not None and o.uid in condemned.suspends), None)
        if suspended is not None:
            return causes.owner_leaves(name=suspended.key)
    return ""
