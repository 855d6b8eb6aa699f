"""The members of one gang, counted by what they are doing."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence

import msgspec

from gangsched.core.state.expected_members import ExpectedMembers, Pods
from gangsched.model.jobsets import QUEUED_JOBSET, RESTART_ATTEMPT
from gangsched.model.records import GangId, Pod

#: Kinds of owners that replace each of their pods, however it has ended. Others count pods that complete.
_RUN_PODS = ("StatefulSet", "ReplicaSet", "ReplicationController", "DaemonSet", "RayCluster")


class Census(msgspec.Struct):
    """The members of one gang by what they are doing; each list is in name order. ``gated`` pods wait for scheduling
    gates, or for their owner. ``running`` and ``failed`` are phases of pods, ``owner`` is that of the first member that
    has one (``ns/name``). Of the ``pending`` ones that are known by their number alone there is one of each kind among
    the ``kinds``, else all.
    """

    pending: Sequence[Pod]
    gated: list[Pod]
    bound: list[Pod]
    terminating: list[Pod]
    members: int = 0
    running: int = 0
    succeeded: int = 0
    failed: int = 0
    owner: str = ""
    kinds: Sequence[Pod] = ()

    @property
    def present(self) -> int:
        """Members that count towards the minimum: placed, ready to be placed, or successfully finished."""
        return len(self.pending) + len(self.bound) + self.succeeded


def of_expected(gang: GangId, members: ExpectedMembers) -> Census:
    """Return that of a gang without pods: all of its expected members are pending."""
    kinds = [each.like for each in members.members_of(gang)]
    owner = next((f"{pod.namespace}/{pod.owner.name}" for pod in kinds if pod.owner is not None), "")
    return Census(Pods(members, gang), [], [], [], members.number(gang), owner=owner, kinds=kinds)


def of_pods(gang: GangId, members: Iterable[Pod], assumed: Container[str]) -> Census:
    """That of these pods, of which the ``assumed`` ones (UIDs) count as bound."""
    pods = list(members)
    pending: list[Pod] = []
    out = Census(pending, [], [], [], len(pods), kinds=pending)
    # A JobSet that is restarted removes the pods of the attempt before: they count no more.
    newest = max(map(_attempt, pods), default=0) if gang.family == QUEUED_JOBSET else 0
    for pod in pods:
        out.running += pod.phase == "Running"
        if pod.owner is not None and not out.owner:
            out.owner = f"{pod.namespace}/{pod.owner.name}"
        if pod.phase == "Succeeded":
            # An evicted pod may end with 0. Where its controller makes another one, the work of it is not done.
            out.succeeded += not _is_replaced(pod)
        elif pod.finished:
            out.failed += 1
        elif pod.deleting_since is not None or (newest and _attempt(pod) < newest):
            if pod.node:
                out.terminating.append(pod)
        elif pod.node or pod.uid in assumed:
            out.bound.append(pod)
        elif pod.gates or pod.unowned:
            out.gated.append(pod)
        else:
            pending.append(pod)
    return out


def _is_replaced(pod: Pod) -> bool:
    """Return True if the owner of a pod makes another one however this one has ended."""
    return pod.owner is not None and pod.owner.kind in _RUN_PODS


def _attempt(pod: Pod) -> int:
    """How often the JobSet of a pod had been restarted before it was made."""
    raw = pod.labels.get(RESTART_ATTEMPT, "")
    return int(raw) if raw.isdecimal() and len(raw) < 10 else 0
