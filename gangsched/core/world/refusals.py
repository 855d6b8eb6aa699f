"""What is known of a group object, a flavor or a queue whose newest state could not be understood.

Its gang, or whoever needs its quota, waits. What runs goes on by what was known before, so that nobody is evicted
because of it, and whole gangs stay whole.
"""

from __future__ import annotations

import msgspec

from gangsched.core.events import ObjectRefused
from gangsched.core.quota.quota import Quota
from gangsched.model.dialects.koordinator import FAMILY, MAX_MEMBERS
from gangsched.model.errors import Mistake
from gangsched.model.queues import STOP_HOLD, ClusterQueue, QueueObject, queue_labels
from gangsched.model.records import Gang


def group(event: ObjectRefused, known: Gang | None) -> Gang:
    """The gang of a group object. Of one that nobody has read yet no member can be spared."""
    mistake = Mistake(event.field, event.message)
    if known is not None:
        return msgspec.structs.replace(known, mistake=mistake)
    return Gang(
        family=family_of(event),
        namespace=event.namespace,
        name=event.name,
        uid=event.uid,
        min_member=MAX_MEMBERS,
        queue=queue_labels(event.labels),
        mistake=mistake,
    )


def family_of(event: ObjectRefused) -> str:
    """The gang API of a group object."""
    return event.kind.partition(".")[2] or FAMILY


def queue_object(event: ObjectRefused, quota: Quota) -> QueueObject | None:
    """The record of a queue object from now on; None where it stays as it was.

    A queue is held, and those with a flavor that cannot be read are inactive. Of a ClusterQueue that nobody has read
    yet no quota is known. Cohorts have no policy by which they could be held, and a priority never changes.
    """
    kind = event.kind.partition(".")[0]
    if kind == "ClusterQueue":
        return msgspec.structs.replace(
            quota.queues.get(event.name) or ClusterQueue(event.name, uid=event.uid), stop=STOP_HOLD
        )
    if kind == "LocalQueue":
        local = quota.local_queues.get(f"{event.namespace}/{event.name}")
        return msgspec.structs.replace(local, stop=STOP_HOLD) if local is not None else None
    flavor = quota.flavors.get(event.name) if kind == "ResourceFlavor" else None
    return msgspec.structs.replace(flavor, outdated=True) if flavor is not None else None
