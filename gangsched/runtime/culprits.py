"""Over which object the core has failed: what it says of that, and what the frames of the exception show."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from types import FrameType
from typing import Any, TypeAlias

from gangsched.core.actions import PodRef, Write
from gangsched.core.decision import Placement, Victim
from gangsched.core.events import Event, WriteDone
from gangsched.core.keys import key_of, key_of_record, object_key
from gangsched.core.lifecycle.group import Group
from gangsched.core.world.world import World
from gangsched.model.records import Gang, GangId, Job, Node, Pod
from gangsched.runtime.known import Known
from gangsched.runtime.unanswered import Unanswered, key_of_ref

#: Objects that are to blame together, by their keys in :class:`~gangsched.runtime.known.Known`.
Suspect: TypeAlias = tuple[Hashable, ...]
#: The first part of the key of a decision; the second is the name of the gang.
DECISION = "decision"
#: So many suspects are looked for in an exception.
_MOST = 5
#: Longer tuples are not looked into.
_MOST_PARTS = 8


def suspects(error: BaseException, core: Any, known: Known, writes: Unanswered) -> list[Suspect]:
    """Return who may be to blame for an exception of this core, the likeliest first.

    That is the object of the event that was applied, the pod of the write that was answered, or the gang that was
    decided. If the core was busy with none of them, it is what the innermost function was called with.
    """
    busy: Event | Group | None = core.busy_with
    if isinstance(busy, Group):
        return [((DECISION, busy.name),)]
    if isinstance(busy, WriteDone):
        write = writes.get(busy.action_id)
        return [(key_of_ref(write.pod),)] if write is not None else []
    key = key_of(busy) if busy is not None else None
    out: list[Suspect] = [(key,)] if key is not None else []
    for found in in_frames(error, core.world, known) if busy is None else ():
        if found not in out:
            out.append(found)
        if len(out) == _MOST:
            break
    return out


def in_frames(error: BaseException, world: World, known: Known) -> Iterator[Suspect]:
    """Yield the objects that the frames of an exception hold, from the innermost frame on."""
    frames: list[FrameType] = []
    at = error.__traceback__
    while at is not None:
        frames.append(at.tb_frame)
        at = at.tb_next
    for frame in reversed(frames):
        for value in [*frame.f_locals.values()]:
            for each in _parts(value):
                keys = tuple(key for key in _keys_of(each, world) if known.get(key) is not None)
                if keys:
                    yield keys


def _parts(value: object) -> Sequence[object]:
    """A value, or what a short tuple holds: the gangs of a GangGroup are to blame together."""
    if not isinstance(value, tuple) or len(value) > _MOST_PARTS or hasattr(value, "_fields"):
        return (value,)
    return (value,) if all(isinstance(each, GangId) for each in value) else value


def _keys_of(value: object, world: World) -> Sequence[Hashable]:
    """The keys of what a local variable holds, if that is an object or a gang."""
    match value:
        case Placement() | Victim():
            return [object_key("Pod", "", value.namespace, value.name, value.uid)]
        case Pod() | Node() | Job() | Gang():
            return [key_of_record(value)]
        case GangId():
            return objects_of([value], world)
        case Group():
            return objects_of(getattr(value, "gangs", ()), world)  # it may be about to be made
        case PodRef():
            return [key_of_ref(value)]
    if isinstance(value, tuple) and value and all(isinstance(each, GangId) for each in value):
        return objects_of(value, world)
    if isinstance(value, Write):
        return [key_of_ref(value.pod)]
    name = value if isinstance(value, str) else getattr(value, "name", None)
    return _named(name, world) if isinstance(name, str) else []


def _named(name: str, world: World) -> list[Hashable]:
    """The keys of the pod with this UID, or of the pod or the gang ``namespace/name``."""
    pod = world.pods.get(name) or world.find(*name.partition("/")[::2])
    if pod is not None:
        return [key_of_record(pod)]
    gangs = [gang for gang in world.membership.gangs() if gang.key == name] if "/" in name else []
    return objects_of(gangs, world)


def objects_of(gangs: Sequence[GangId], world: World) -> list[Hashable]:
    """The group objects, Jobs and pods of gangs."""
    out: list[Hashable] = []
    for gang in gangs:
        out.append(object_key("PodGroup", gang.family, gang.namespace, gang.name))
        out.append(object_key(gang.family, "", gang.namespace, gang.name))
    out.extend(key_of_record(pod) for pod in world.pods.values() if pod.gang in gangs)
    return out
