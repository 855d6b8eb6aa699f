"""What happened in the cluster that may help a gang that did not fit."""

from __future__ import annotations

import enum
from typing import NamedTuple

from gangsched.model.records import Pod


class Hint(enum.Flag):
    """Kinds of events that may help a gang that did not fit."""

    NODE_ADDED = enum.auto()
    NODE_GONE = enum.auto()
    NODE_ROOM = enum.auto()  # allocatable changed
    NODE_LABELS = enum.auto()
    NODE_TAINTS = enum.auto()  # taints, cordon, readiness, deletion
    NODE = NODE_ADDED | NODE_GONE | NODE_ROOM | NODE_LABELS | NODE_TAINTS
    ROOM = enum.auto()  # a pod left, finished, shrank or began to terminate, or room is no longer held
    PODS = enum.auto()  # a pod came, or its labels changed
    VICTIMS = enum.auto()  # a pod or gang may be evicted that could not be, or not in this way
    BUDGET = enum.auto()  # a disruption budget changed
    CLASSES = enum.auto()  # a PriorityClass changed
    NAMESPACES = enum.auto()  # the labels of a namespace changed
    VOLUMES = enum.auto()  # a claim, a volume or a storage class changed
    TURN = enum.auto()  # a gang that was ahead is no longer in the way
    QUOTA = enum.auto()  # quota was given back, a queue object changed, or the head of a queue did
    PROMISED = enum.auto()  # room and quota are kept for a gang until its victims are gone
    ROOM_ON_NODES = NODE_ADDED | NODE_ROOM | NODE_LABELS | NODE_TAINTS | ROOM
    ANY = NODE | ROOM | PODS | VICTIMS | BUDGET | CLASSES | NAMESPACES | VOLUMES | TURN | QUOTA


class Change(NamedTuple):
    """One event that may help. ``node`` is the name of the node that it is about, ``pod`` the pod as it is now (or last
    was), ``before`` as it was before; empty where the event is not about one. ``tree`` is the root of the cohort tree
    in which quota was given back; with QUOTA, empty for all.
    """

    kind: Hint
    node: str = ""
    pod: Pod | None = None
    before: Pod | None = None
    tree: str = ""
