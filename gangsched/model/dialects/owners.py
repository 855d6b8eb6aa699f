"""Gangs without an object of their own: pods that start together because of what owns them.

They are declared by the annotation ``gangsched.dev/gang`` on a Job, JobSet or LeaderWorkerSet, or on its pod template.
Without it, the label of that name on the namespace counts, then the setting ``gangs.owners``. Only the annotation makes
gangs of StatefulSets, whose pods mostly work alone. A Job starts with all pods that it runs at once. A JobSet starts
with those of all its Jobs unless it starts them in order. Each group of a LeaderWorkerSet starts by itself. Objects of
other operators are in :mod:`gangsched.model.dialects.operators`.

The labels and the annotation of a LeaderWorkerSet are those that its controller puts on every pod of a group
(https://lws.sigs.k8s.io/docs/reference/labels-annotations-and-environment-variables/).
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from gangsched.messages import invalid
from gangsched.model.constraints import Labels
from gangsched.model.dialects.dialect import Dialect
from gangsched.model.dialects.objects import is_subdomain, shown
from gangsched.model.errors import FieldError, Mistake
from gangsched.model.records import Gang, GangId, Pod

#: The kinds of owners that a setting makes gangs.
Kind: TypeAlias = Literal[
    "Job",
    "JobSet",
    "LeaderWorkerSet",
    "PyTorchJob",
    "TFJob",
    "XGBoostJob",
    "PaddleJob",
    "JAXJob",
    "MPIJob",
    "RayCluster",
]
LEADER_WORKER_SET: Kind = "LeaderWorkerSet"

GANG = "gangsched.dev/gang"
#: The family of the groups of a LeaderWorkerSet.
FAMILY = "leaderworkerset.x-k8s.io"
HINT_PREFIX = "leaderworkerset.sigs.k8s.io/"
NAME, GROUP_INDEX, SIZE = f"{HINT_PREFIX}name", f"{HINT_PREFIX}group-index", f"{HINT_PREFIX}size"
WORKER_INDEX, LEADER, WORKER = f"{HINT_PREFIX}worker-index", "leader", "worker"

_WORDS = {"true": True, "false": False}


def declared(notes: Labels) -> bool | None:
    """Return whether the pods start together by these annotations or labels, or None where they do not say. Raises
    :class:`FieldError` for any other word.
    """
    raw = notes.get(GANG)
    if raw is None:
        return None
    if raw not in _WORDS:
        raise FieldError(f"metadata.annotations[{GANG}]", invalid.neither(value=shown(raw), one="true", other="false"))
    return _WORDS[raw]


def said_by(pod: Pod) -> bool | None:
    """Return the declaration of a pod or its template. An invalid one counts as none."""
    return _WORDS.get(pod.hints.get(GANG, ""))


def remark(notes: Labels) -> Mistake | None:
    """What is wrong with what a pod says."""
    try:
        declared(notes)
    except FieldError as error:
        return error.remark
    return None


def group_of(pod: Pod) -> str:
    """The group of a LeaderWorkerSet that a pod is in, named ``<LeaderWorkerSet>-<index>``; empty for other pods."""
    name = pod.labels.get(NAME, "")
    if not name:
        return ""
    index = pod.labels.get(GROUP_INDEX, "")
    found = f"{name}-{index}"
    return found if index.isdecimal() and _size(pod) and is_subdomain(found) else ""


def _size(pod: Pod) -> int:
    raw = pod.hints.get(SIZE, "")
    return int(raw) if raw.isdecimal() and len(raw) < 6 else 0


def gang_from_member(pod: Pod) -> Gang:
    """The leader and all workers of its group start together."""
    gang: GangId = pod.gang
    return Gang(gang.family, gang.namespace, gang.name, kind=LEADER_WORKER_SET, min_member=_size(pod))


def no_group(_meta: object, _spec: object) -> tuple[str, str]:
    """No pod names the group that it is in: its owner and labels do."""
    return "", ""


#: Of the groups of a LeaderWorkerSet.
DIALECT = Dialect(
    FAMILY,
    no_group,
    needs_object=lambda _: False,
    gang_from_member=gang_from_member,
    role_of=lambda pod, _: LEADER if pod.labels.get(WORKER_INDEX) == "0" else WORKER,
)
