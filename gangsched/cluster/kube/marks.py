"""Marks that were written, and the versions of the pods that bear them.

A removal is for a pod that bears its mark, and the API server is to check that: another process may have taken the mark
back meanwhile, a user may want the pod to stay, or the mark was reset because nothing followed for long. The version of
the pod with its mark is therefore a precondition of its removal, as its UID is.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from gangsched.cluster.kube.client import answer_of
from gangsched.cluster.kube.depth import decode
from gangsched.cluster.kube.jobs import Verdict
from gangsched.cluster.kube.latest import MOST, put_latest
from gangsched.core.actions import Mark, PodRef, Remove, Unmark
from gangsched.core.events import Event, Outcome, PodChanged, PodGone
from gangsched.model.records import Pod

UNMARKED = "its mark does not stand any more"


class _Metadata(msgspec.Struct, rename="camel"):
    uid: str = ""
    resource_version: str = ""
    deletion_timestamp: str | None = None


class _Condition(msgspec.Struct):
    type: str = ""
    status: str = ""


class _Spec(msgspec.Struct, rename="camel"):
    node_name: str = ""


class _Status(msgspec.Struct):
    conditions: list[_Condition] | None = None


class SeenPod(msgspec.Struct):
    """What a pod says about a write to it that has failed. An answer to a write has the metadata only."""

    metadata: _Metadata = msgspec.field(default_factory=_Metadata)
    spec: _Spec = msgspec.field(default_factory=_Spec)
    status: _Status = msgspec.field(default_factory=_Status)


_decoder = msgspec.json.Decoder(SeenPod)


def seen_pod(body: bytes, what: str) -> SeenPod:
    """The pod of an answer to the request ``what``. Raises :class:`UnreachableError` if it is none."""
    return answer_of(_decoder, body, what)


class Marks:
    """The newest version (``resourceVersion``) of each victim in which its mark is known to stand, by its UID: from the
    answer to the mark, and from the watch, of so many at ``most``. What is not known, or has changed since, is read.

    Not thread-safe; belongs to the I/O loop.
    """

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._versions: dict[str, str] = {}

    def __len__(self) -> int:
        return len(self._versions)

    def version(self, pod: PodRef) -> str:
        """In which version the mark stands; empty if that is not known."""
        return self._versions.get(pod.uid, "")

    def delivered(self, events: Iterable[Event]) -> None:
        """The watch has brought these events."""
        versions = self._versions
        for event in events:
            if isinstance(event, PodChanged):
                pod = event.pod
                if pod.disruption is not None or pod.uid in versions:
                    self._seen(pod)
            elif isinstance(event, PodGone):
                versions.pop(event.uid, None)

    def _seen(self, pod: Pod) -> None:
        if not _newer(pod.version, self._versions.get(pod.uid, "")):
            return  # the answer to a mark comes before the watch shows it
        if pod.live and pod.disruption_target:
            put_latest(self._versions, pod.uid, pod.version, self._most)
        else:
            self._versions.pop(pod.uid, None)

    def written(self, action: object, body: bytes) -> None:
        """A write has succeeded and been answered with ``body``."""
        if isinstance(action, Mark):
            version = _version_of(body)
            if _newer(version, self.version(action.pod)):
                put_latest(self._versions, action.pod.uid, version, self._most)
        elif isinstance(action, Unmark | Remove):
            self.forget(action.pod)

    def forget(self, pod: PodRef) -> None:
        """What was known of the pod is not so (any more)."""
        self._versions.pop(pod.uid, None)

    def judge(self, action: Remove, pod: SeenPod) -> Verdict | None:
        """May the pod, which is the one that is meant, be removed as it is now? None if so.

        The mark may be that of another gang, as two may need the same pod to leave, or what the Eviction API has
        written over it; one that is taken back is False.
        """
        self.forget(action.pod)
        if pod.metadata.deletion_timestamp is not None:
            return Outcome.OK, ""
        if not any(c.type == "DisruptionTarget" and c.status == "True" for c in pod.status.conditions or ()):
            return Outcome.CONFLICT, UNMARKED
        put_latest(self._versions, action.pod.uid, pod.metadata.resource_version, self._most)
        return None


def _version_of(body: bytes) -> str:
    """The version in the answer to a mark; empty if it has none: then the pod is read."""
    try:
        return decode(_decoder, body).metadata.resource_version
    except msgspec.DecodeError:
        return ""


def _newer(version: str, known: str) -> bool:
    """Is a version of an object newer than another of it, which may be empty? Versions are numbers that grow.
    (https://kubernetes.io/docs/reference/using-api/api-concepts/#resource-versions)
    """
    try:
        return int(version) > int(known or 0)
    except ValueError:
        return bool(version)
