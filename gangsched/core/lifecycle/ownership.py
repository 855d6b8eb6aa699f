"""Who makes a victim leave. Every eviction that needs it to stands on the victim by name, whatever the cause.

The condition ``gangsched.dev/EvictedFor`` names them all, as data; the message of ``DisruptionTarget`` is that of the
strongest, in words. Both are written with one PATCH. A process that starts anew reads from it which pods are the
victims of which plan.
"""

from __future__ import annotations

from collections.abc import Collection

from gangsched.core.actions import Mark
from gangsched.core.lifecycle import intent, report, sentences
from gangsched.core.lifecycle.intent import Intent, Owner, Owning
from gangsched.model.records import Pod


def owners_of(pod: Pod) -> tuple[Owner, ...]:
    """The evictions that a pod bears as its owners, by whatever process; none if its mark does not stand (any more)."""
    if pod.disruption is None or not pod.disruption_target:
        return ()
    said = pod.evicted_for
    found = intent.read_owners(said.message) if said is not None and said.status == "True" else None
    if found is not None:
        return found
    old = sentences.owner(pod.disruption)
    return (old,) if old is not None else ()


def intent_of(pod: Pod) -> Intent | None:
    """The intent record that stands on a pod; None without one, or without a node that it could be for."""
    said = pod.intent
    if said is None or not pod.on_record or not pod.nominated_node:
        return None
    return intent.read_intent(said.message) or sentences.intent(said.message)


class Ownership:
    """What victims bear, or are about to: by UID, and by the key of its writes, each eviction that owns them."""

    def __init__(self) -> None:
        self._of: dict[str, dict[str, Owning]] = {}

    def __contains__(self, uid: object) -> bool:
        return uid in self._of

    def own(self, uid: str, key: str, owning: Owning) -> None:
        """This eviction needs the pod to leave."""
        self._of.setdefault(uid, {})[key] = owning

    def disown(self, uid: str, key: str) -> Owner | None:
        """It needs the pod no longer to leave. Returns what it was as an owner, if it was one."""
        known = self._of.get(uid, {})
        found = known.pop(key, None)
        if not known:
            self._of.pop(uid, None)
        return found.owner if found is not None else None

    def forget(self, uid: str) -> None:
        """The pod bears nothing any more, or is gone."""
        self._of.pop(uid, None)

    def keys(self, uid: str) -> Collection[str]:
        """The evictions that own a pod, by key."""
        return self._of.get(uid, {}).keys()

    def names(self, uid: str) -> set[tuple[str, str]]:
        """The same: for whom each is, and its plan."""
        return {(each.owner.name, each.owner.plan) for each in self._of.get(uid, {}).values()}

    def mark(self, pod: Pod, action_id: int) -> Mark:
        """What a pod that has owners is to bear."""
        owning = self._of[pod.uid].values()
        strongest = max(owning, key=lambda each: each.priority)
        data = intent.written(intent.owners(each.owner for each in owning))
        return Mark(action_id, report.reference(pod), strongest.mark, strongest.reason, data)
