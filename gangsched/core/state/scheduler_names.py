"""Former owners of our scheduler names, which may be alive."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from gangsched.core.agenda import Page
from gangsched.messages import causes
from gangsched.model.records import Pod

#: So long after a binding by another scheduler (seconds) that counts as alive; one that has work binds sooner.
ALIVE_SECONDS = 60.0


class NameOwner(NamedTuple):
    """The owner of a name, in words, and the Lease or pod that shows it: (apiVersion, kind, namespace, name, uid)."""

    text: str
    shown_by: tuple[str, str, str, str, str] | None = None


#: Of a name as long as the Lease has not been read.
NOT_KNOWN = NameOwner(causes.FORMER_OWNER_UNKNOWN)


class SchedulerNames:
    """``guarded`` are the names of which a former owner may be alive, ``leased`` those of them that have a Lease to be
    looked at first. ``taken`` has the names that are left to their owners. Under the ``trusted`` names, ours or not, a
    group has the priority of the class that it names.
    """

    def __init__(self, guarded: Iterable[str] = (), leased: Iterable[str] = (), trusted: Iterable[str] = ()) -> None:
        self.trusted = frozenset(trusted)
        self.guarded = frozenset(guarded)
        self._leases: dict[str, NameOwner | None] = dict.fromkeys(leased, NOT_KNOWN)
        self._bindings: dict[str, NameOwner] = {}
        #: Until when each counts as alive whose pod was bound by another scheduler.
        self.alive: Page[str] = Page()
        #: UIDs of pods of these names that we have bound, or tried to: they are no sign of another scheduler.
        self._ours: set[str] = set()
        self.taken: Mapping[str, NameOwner] = dict.fromkeys(leased, NOT_KNOWN)

    def leased(self, name: str, owner: str, lease: str) -> None:
        """The Lease (``namespace/name``) of the former owner of a name is held by ``owner``, or free (empty)."""
        namespace, _, own = lease.partition("/")
        self._leases[name] = (
            NameOwner(owner, ("coordination.k8s.io/v1", "Lease", namespace, own, "")) if owner else None
        )

    def assumed(self, pod: Pod) -> None:
        """We are about to bind a pod."""
        if pod.scheduler in self.guarded:
            self._ours.add(pod.uid)

    def forget_pod(self, uid: str) -> None:
        """Forget a pod that no longer exists."""
        self._ours.discard(uid)

    def seen(self, old: Pod | None, pod: Pod, now: float) -> None:
        """A pod has a new record instead of the ``old`` one, while we are not binding it."""
        bound = old is not None and not old.node and pod.node
        if bound and pod.scheduler in self.guarded and pod.uid not in self._ours:
            text = causes.bound_by_another(pod=pod.key, node=pod.node)
            self._bindings[pod.scheduler] = NameOwner(text, ("v1", "Pod", pod.namespace, pod.name, pod.uid))
            self.alive.at(pod.scheduler, now + ALIVE_SECONDS)

    def changed_names(self, now: float) -> dict[str, tuple[NameOwner, bool]]:
        """The names that are taken now and were not at the last look, or the other way round (False), each with its
        owner.
        """
        found = {name: owner for name, owner in self._leases.items() if owner is not None}
        for name in self.alive.due(now):
            del self._bindings[name]
        for name, owner in self._bindings.items():
            found.setdefault(name, owner)
        before, self.taken = self.taken, found
        changed = {name: (owner, True) for name, owner in found.items() if before.get(name, NOT_KNOWN) is NOT_KNOWN}
        return changed | {name: (owner, False) for name, owner in before.items() if name not in found}
