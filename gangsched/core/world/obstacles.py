"""The reasons why a gang may not be scheduled yet: something is unknown of it, or is not there.

:func:`obstacle` is the only function that finds them, for ``run``, ``plan``, ``get`` and ``explain``. A new reason
needs a :class:`Kind` here, a sentence in :mod:`gangsched.messages.causes`, and its advice in ``cli/incomplete.py``.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from gangsched.core.events import Reading
from gangsched.core.ledger.condemned import Condemned
from gangsched.core.state import incomplete
from gangsched.core.world.world import World
from gangsched.messages import causes
from gangsched.messages.text import join_names
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


class Kind(enum.Enum):
    """What keeps a gang from being scheduled. ``gangsched explain`` has advice for each of them."""

    TWO_ADMITTERS = enum.auto()
    NAMESPACE_DELETED = enum.auto()
    QUEUE_API_MISSING = enum.auto()
    GROUP_API_MISSING = enum.auto()
    INVALID = enum.auto()
    INCOMPLETE = enum.auto()
    MEMBERS_LEAVE = enum.auto()


#: The conditions that are not GANG_NOT_READY.
_REASONS = {Kind.TWO_ADMITTERS: TWO_ADMITTERS, Kind.INVALID: REFUSED}


class Obstacle(NamedTuple):
    """Why a gang cannot be decided: what kind of obstacle it is, and in words."""

    kind: Kind
    text: str

    @property
    def reason(self) -> str:
        """The reason that its members show as their condition."""
        return _REASONS.get(self.kind, GANG_NOT_READY)


def obstacle(world: World, condemned: Condemned, gangs: Sequence[GangId], *, leave: bool = False) -> Obstacle | None:
    """Return why these gangs cannot be decided together now, or None if they can.

    ``leave``: the gang is being rolled back, so evictions of its own members are ignored.
    """
    for kind, find in _CHECKS:
        if text := find(world, gangs):
            return Obstacle(kind, text)
    text = incomplete.problem(world.membership, gangs)
    if text and world.membership.mistaken(gangs):
        return Obstacle(Kind.INVALID, text)
    if text:
        return Obstacle(Kind.INCOMPLETE, "; ".join((text, *_failed_indexes(world, gangs))))
    text = "" if leave else _leaving(world, condemned, gangs)
    return Obstacle(Kind.MEMBERS_LEAVE, text) if text else None


def _two_admitters(world: World, gangs: Sequence[GangId]) -> str:
    """Return how Kueue admits these gangs as well."""
    return world.managed.two_admitters(gangs)


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
        yield causes.indexes_failed(indexes=join_names(indexes, _NAMED), job=key)


def _queue_problem(world: World, gangs: Sequence[GangId]) -> str:
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


#: What is checked before the gang itself, in this order.
_CHECKS = (
    (Kind.TWO_ADMITTERS, _two_admitters),
    (Kind.NAMESPACE_DELETED, _namespace_problem),
    (Kind.QUEUE_API_MISSING, _queue_problem),
    (Kind.GROUP_API_MISSING, _group_problem),
)
