"""Preconditions of writes: the state behind a decision may have changed since.

A write waits for its turn, for a token and for a connection. So this is checked again just before its bytes are sent.
Then only those races are left that only the API server can decide.

*Bindings*: other schedulers bind pods to the same nodes meanwhile, and the API server knows no room. Events are
counted. A decision has the number of events that the core had processed, so newer events can be distinguished from
known ones.

*Removals* are only for marked pods, and the API server checks that. Another process or a user may have removed the
mark, or it was reset because no removal followed for long. The version of the pod with its mark (``resourceVersion``)
is therefore a precondition of its removal, as its UID is. A pod that others write repeatedly, and that had its mark at
each read, is removed without that precondition. Otherwise a user who may annotate it could keep it.

An accepted binding shows on the watch of pods. If it has not after some seconds, that watch has died without a word,
and what is known of pods is old.

A *binding* names the version in which the pod had no node. If it arrives late, when another process leads, it is
refused if the pod was written since.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from gangsched import logs
from gangsched.core.actions import Bind, PodRef
from gangsched.core.events import Changed, Event, Gone
from gangsched.messages import notes
from gangsched.model.records import Pod

K = TypeVar("K")
V = TypeVar("V")

#: So many objects are remembered at most where nothing else bounds them.
MOST = 50_000
#: So often a removal may meet a pod that was rewritten since its mark was seen; then its UID and the mark are enough.
REWRITTEN_AT_MOST = 3
#: A binding that the watch has not shown so long (seconds) after it was accepted tells that the watch is dead. A slow
#: server takes a second or two.
SHOWN_SECONDS = 10.0
#: By then a silent watch is known by its silence; else the pod cannot be read any more.
GIVEN_UP_SECONDS = 90.0

_log = logs.get(__name__)


class Preconditions:
    """Per node the newest binding that is not ours, and per victim the newest version in which its mark is known to
    stand. Not thread-safe; belongs to the I/O loop.

    So many of each, and so many bindings of ours that have not been seen yet, are remembered at ``most``; the oldest is
    forgotten. Then a binding is sent that might have been held back, or held back for one of our own, and a marked pod
    is read.
    """

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._delivered = 0
        self._bound: set[str] = set()  # UIDs of pods that have been seen on a node
        self._ours: dict[str, str] = {}  # by UID, the node that a binding of ours that no watch has shown yet names
        self._accepted: dict[str, float] = {}  # when it was accepted, by UID, the oldest first; among these
        self._was_unshown = False
        self._newest: dict[str, tuple[int, str, str]] = {}  # by node: number of the event, namespace, name
        self._marked: dict[str, str] = {}  # by UID, the version
        self._pending: dict[str, str] = {}  # by UID of a pod without a node, its newest known version
        self._rewritten: dict[str, int] = {}  # by UID, how often a removal met another version that bears the mark

    def delivered(self, events: Sequence[Event]) -> None:
        """These events are on their way to the decision thread; to be called for every one of them, in order."""
        self._delivered += len(events)
        for event in events:
            if isinstance(event, Changed) and isinstance(event.record, Pod):
                pod = event.record
                if pod.node:
                    self._pending.pop(pod.uid, None)
                    if pod.uid not in self._bound:
                        self._seen_on_a_node(pod)
                elif newer(pod.version, self._pending.get(pod.uid, "")):
                    self._put(self._pending, pod.uid, pod.version)
                if pod.disruption is not None or pod.uid in self._marked:
                    self._seen_with_a_mark(pod)
            elif isinstance(event, Gone) and event.kind == "Pod":
                self._bound.discard(event.uid)
                self._ours.pop(event.uid, None)
                self._accepted.pop(event.uid, None)
                for of in (self._marked, self._pending, self._rewritten):
                    of.pop(event.uid, None)

    # -- bindings ------------------------------------------------------------------------------------------

    def overtakes(self, action: Bind, known: int) -> str:
        """Return the pod that another scheduler has bound to the node since the binding was decided, in words, or ""
        for none.

        ``known`` is the number of events that had been taken in when the binding was decided. A binding that may have
        taken effect already is never overtaken: to send it again is the way to know.
        """
        uid = action.pod.uid
        newest = self._newest.get(action.node)
        if newest is None or newest[0] <= known or self._ours.get(uid) == action.node or uid in self._bound:
            return ""
        return notes.bound_since(namespace=newest[1], name=newest[2], node=action.node)

    def unbound_version(self, pod: PodRef) -> str:
        """The newest version that is known of a pod without a node; empty if none is."""
        return self._pending.get(pod.uid, "")

    def unbound(self, pod: PodRef, version: str) -> None:
        """The pod has been read, and has no node in this version."""
        if newer(version, self.unbound_version(pod)):
            self._put(self._pending, pod.uid, version)

    def leaves(self, action: Bind) -> None:
        """This binding is being sent."""
        if action.pod.uid not in self._bound:
            self._put(self._ours, action.pod.uid, action.node)

    def failed(self, action: Bind) -> None:
        """It is known that this binding has not taken effect."""
        self._ours.pop(action.pod.uid, None)

    def accepted(self, action: Bind, now: float) -> None:
        """The API server has bound the pod at this moment of a monotonic clock."""
        if action.pod.uid not in self._bound:
            self._put(self._accepted, action.pod.uid, now)

    def unshown(self, now: float) -> str:
        """Return why nothing is to be written that rests on what is known of pods, in words; empty if it is new enough.
        A change of the answer is logged.
        """
        for uid in [uid for uid, at in self._accepted.items() if now - at > GIVEN_UP_SECONDS]:
            del self._accepted[uid]
        since = next(iter(self._accepted.values()), now)
        unshown = now - since > SHOWN_SECONDS
        if unshown != self._was_unshown:
            self._was_unshown = unshown
            if unshown:
                _log.warning("the watch of pods does not show an accepted binding: no pod is bound or evicted")
            else:
                _log.warning("the watch of pods shows bindings again: pods are bound and evicted again")
        return notes.not_shown(seconds=int(now - since)) if unshown else ""

    def _seen_on_a_node(self, pod: Pod) -> None:
        """For the first time."""
        self._accepted.pop(pod.uid, None)
        if pod.finished:
            return
        self._bound.add(pod.uid)
        if self._ours.pop(pod.uid, None) != pod.node:
            self._put(self._newest, pod.node, (self._delivered, pod.namespace, pod.name))

    # -- marks ---------------------------------------------------------------------------------------------

    def marked_version(self, pod: PodRef) -> str:
        """In which version the mark stands; empty if that is not known."""
        return self._marked.get(pod.uid, "")

    def marked(self, pod: PodRef, version: str) -> None:
        """A mark has been written, or read; older news may follow."""
        if newer(version, self.marked_version(pod)):
            self._put(self._marked, pod.uid, version)

    def rewritten(self, pod: PodRef) -> bool:
        """A removal was refused because the pod was written since, but it still has its mark. Return whether this was
        the last time that its version counts.
        """
        times = self._rewritten.get(pod.uid, 0) + 1
        self._put(self._rewritten, pod.uid, times)
        return times == REWRITTEN_AT_MOST

    def always_rewritten(self, pod: PodRef) -> bool:
        """Return True if the pod is rewritten so often that no version of it lasts long enough for a write."""
        return self._rewritten.get(pod.uid, 0) >= REWRITTEN_AT_MOST

    def forget_mark(self, pod: PodRef) -> None:
        """The known state of the pod's mark is outdated."""
        self._marked.pop(pod.uid, None)

    def _seen_with_a_mark(self, pod: Pod) -> None:
        if not newer(pod.version, self._marked.get(pod.uid, "")):
            return  # the answer to a mark comes before the watch shows it
        if pod.live and pod.disruption_target:
            self._put(self._marked, pod.uid, pod.version)
        else:
            self._marked.pop(pod.uid, None)

    def _put(self, into: dict[K, V], key: K, value: V) -> None:
        """As the last entry; the first one goes if there is no room."""
        into.pop(key, None)
        if len(into) >= self._most:
            del into[next(iter(into))]
        into[key] = value


def newer(version: str, known: str) -> bool:
    """Return True if a version of an object is newer than another of it, which may be empty. Versions are numbers that
    grow (https://kubernetes.io/docs/reference/using-api/api-concepts/#resource-versions).
    """
    try:
        return int(version) > int(known or 0)
    except ValueError:
        return bool(version)
