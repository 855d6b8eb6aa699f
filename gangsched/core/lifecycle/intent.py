"""What this scheduler writes down on pods for a process that comes after: as data with a schema, not as sentences.

On a nominated member the message of ``gangsched.dev/Nominated`` is an :class:`Intent`, on a victim that of
``gangsched.dev/EvictedFor`` names every :class:`Owner`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, NamedTuple

import msgspec

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


class Owner(msgspec.Struct, frozen=True, rename={"name": "for", "unit": "unitName", "kind": "unitKind"}):
    """An eviction that makes a pod leave: the id of its plan, its cause, the scheduler that decided it, the gang
    (``ns/name``, joined by commas for a GangGroup) or queue for which the pod leaves, the pod that speaks for the gang,
    the unit with which it leaves, whether live members of that stay, and by which method.
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


class Owning(NamedTuple):
    """An owner, with what the victim's DisruptionTarget says if it is the strongest."""

    owner: Owner
    mark: str
    reason: str
    priority: float


class Owners(msgspec.Struct, frozen=True):
    """All of them."""

    owners: tuple[Owner, ...]
    version: Literal[1] = VERSION


_intent, _owners = msgspec.json.Decoder(Intent), msgspec.json.Decoder(Owners)


def written(what: Intent | Owners) -> str:
    """The message of the condition."""
    return msgspec.json.encode(what).decode()


def read_intent(message: str) -> Intent | None:
    """What :func:`written` has written; None for other texts, and for schemas that are not known here."""
    try:
        return _intent.decode(message)
    except msgspec.MsgspecError:
        return None


def read_owners(message: str) -> tuple[Owner, ...] | None:
    """The same for a victim."""
    try:
        return _owners.decode(message).owners
    except msgspec.MsgspecError:
        return None


def owners(found: Iterable[Owner]) -> Owners:
    """These, in the order in which they are written."""
    return Owners(tuple(sorted(found, key=lambda owner: (owner.name, owner.plan))))
