"""The records on pods for a later process: data with a schema, no sentences.

On a nominated member the message of ``gangsched.dev/Nominated`` is an :class:`Intent`. Every eviction that needs a
victim is recorded on it: the condition ``gangsched.dev/EvictedFor`` names every :class:`EvictionOwner`. The message of
``DisruptionTarget`` is that of the strongest, in words. Both are written with one PATCH, the first alone for as long as
the eviction is only announced.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import msgspec

from gangsched.model.errors import FieldError
from gangsched.model.records import Pod
from gangsched.model.times import parse_time

#: The version of both schemas.
VERSION: Literal[1] = 1


class Intent(msgspec.Struct, frozen=True, order=True):
    """The plan by which a member was nominated to a node: its id, how many victims it had when it was made, and how
    many pods it waits for besides. Of a node that is empty nothing is known.
    """

    plan: str
    victims: int
    node: str = ""
    awaited: int = 0
    version: Literal[1] = VERSION


_KEYS = {"name": "for", "unit": "unitName", "kind": "unitKind", "pods": "unitPods", "not_before": "notBefore"}


class EvictionOwner(msgspec.Struct, frozen=True, rename=_KEYS):
    """An eviction that makes a pod leave: the id of its plan, its cause, the scheduler that decided it, the gang
    (``ns/name``, joined by commas for a GangGroup) or queue for which the pod leaves, the pod that represents the gang,
    the unit with which it leaves, how many pods of that the list had when it was made (0: not known), whether live
    members of it stay, by which method, and, if that was announced, the time (RFC 3339) before which it is neither
    marked nor removed.
    """

    plan: str
    cause: str
    scheduler: str
    name: str
    trigger: str = ""
    kind: str = ""
    unit: str = ""
    partial: bool = False
    method: str = "delete"
    not_before: str = ""
    pods: int = 0


class Owners(msgspec.Struct, frozen=True):
    """All of them."""

    owners: tuple[EvictionOwner, ...]
    version: Literal[1] = VERSION

    @classmethod
    def of(cls, found: Iterable[EvictionOwner]) -> Owners:
        """These, in the order in which they are written."""
        return cls(tuple(sorted(found, key=lambda owner: (owner.name, owner.plan))))


_intent, _owners = msgspec.json.Decoder(Intent), msgspec.json.Decoder(Owners)


def written(what: Intent | Owners) -> str:
    """The message of the condition."""
    return msgspec.json.encode(what).decode()


def read_intent(message: str) -> Intent | None:
    """The data that :func:`written` has written; None for other texts, and for schemas that are not known here."""
    try:
        return _intent.decode(message)
    except msgspec.MsgspecError:
        return None


def read_owners(message: str) -> tuple[EvictionOwner, ...] | None:
    """The same for a victim; None also where a time in it is none."""
    try:
        found = _owners.decode(message).owners
        for owner in found:
            parse_time(owner.not_before, "notBefore")
    except (msgspec.MsgspecError, FieldError):
        return None
    return found


def owners_of(pod: Pod) -> tuple[EvictionOwner, ...]:
    """The evictions that a pod bears as its owners, by whatever process, also where others have taken its
    DisruptionTarget back.
    """
    said = pod.evicted_for
    return (read_owners(said.message) or ()) if said is not None and said.status == "True" else ()


def bears(pod: Pod, name: str, plan: str) -> bool:
    """Return whether a pod bears the eviction for this gang or queue by this plan."""
    return any(owner.name == name and owner.plan == plan for owner in owners_of(pod))


def intent_of(pod: Pod) -> Intent | None:
    """The intent record that stands on a pod; None without one, or without a node that it could be for."""
    said = pod.intent
    if said is None or not pod.on_record or not pod.nominated_node:
        return None
    return read_intent(said.message)
