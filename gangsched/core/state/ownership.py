"""The owners of pods and groups: the controllers above them by UID, and problems with one of them.

What is being deleted, is gone, or has the name of something else that is there now, says nothing about its pods any
more; with a deletion in the background they outlive it by seconds. Until it is clear whose a pod is, it waits.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import NamedTuple, TypeAlias

from gangsched.core.events import Reading
from gangsched.messages import causes
from gangsched.model.dialects.objects import OWNER_GROUPS
from gangsched.model.dialects.operators import OPERATORS, STATEFUL_SET
from gangsched.model.records import UID_FROM_MANIFEST, Owner, Pod

#: Kind, namespace and name of an owner; of a group object its API in the place of the kind.
Key: TypeAlias = tuple[str, str, str]
#: No controllers of controllers are followed further up than this; references of users may form a circle.
_MOST_LINKS = 8


class Link(NamedTuple):
    """What is known of an owner: its UID, whether its deletion was asked for, its own owner, why it cannot be
    understood (empty: it can), and whether it has ended: then its controller deletes the pods that still wait.
    """

    uid: str
    deleting: bool = False
    owner: Owner | None = None
    refused: str = ""
    ended: bool = False


class Ownership:
    """The owners that are known, and what waits below each: pods of ours that have no node, and group objects.

    ``ours`` are the scheduler names whose pods are placed here.
    """

    def __init__(self, ours: Collection[str]) -> None:
        self._ours = ours
        #: What is known of the kinds of objects that there are in the cluster, by their full names.
        self.readings: dict[str, Reading] = {}
        self._links: dict[Key, Link] = {}
        self._below: dict[Key, set[Key]] = {}
        self._pods: dict[Key, dict[str, Pod]] = {}

    # -- changes -------------------------------------------------------------------------------------------

    def put(self, key: Key, link: Link) -> bool:
        """Store what is known of an owner or a group. Return True if it is new."""
        before = self._links.get(key)
        if before == link:
            return False
        self._unlink(key, before)
        self._links[key] = link
        above = _above(key, link.owner)
        if above is not None:
            self._below.setdefault(above, set()).add(key)
        return True

    def forget_owner(self, key: Key) -> bool:
        """Forget an owner or a group that is gone. Return True if it was known."""
        before = self._links.pop(key, None)
        self._unlink(key, before)
        return before is not None

    def refuse(self, key: Key, uid: str, why: str) -> bool:
        """Store that an owner cannot be understood, if nothing else is known of it. Return True if that is new. Only
        for operators do the pods depend on the object, so only these wait.
        """
        before = self._links.get(key)
        if before is not None and before.uid == uid and not before.refused:
            return False
        return self.put(key, Link(uid, refused=why if key[0] in OPERATORS and key[0] != STATEFUL_SET else ""))

    def _unlink(self, key: Key, link: Link | None) -> None:
        above = _above(key, link.owner) if link is not None else None
        siblings = self._below.get(above) if above is not None else None
        if above is not None and siblings is not None:
            siblings.discard(key)
            if not siblings:
                del self._below[above]

    def pod_set(self, pod: Pod, named: Key | None = None) -> None:
        """A pod was created or changed; ``named`` is what its labels name as an owner of it."""
        waits = not pod.node and pod.live and pod.scheduler in self._ours
        for key in _keys(pod, named):
            if waits:
                self._pods.setdefault(key, {})[pod.uid] = pod
            else:
                self._forget(key, pod.uid)

    def pod_dropped(self, pod: Pod, named: Key | None = None) -> None:
        """A pod is gone."""
        for key in _keys(pod, named):
            self._forget(key, pod.uid)

    def _forget(self, key: Key, uid: str) -> None:
        pods = self._pods.get(key)
        if pods is not None:
            pods.pop(uid, None)
            if not pods:
                del self._pods[key]

    # -- questions -----------------------------------------------------------------------------------------

    def find(self, owner: Owner, namespace: str) -> Link | None:
        """What is known of exactly this owner."""
        found = self._links.get((owner.kind, namespace, owner.name))
        return found if found is not None and same(owner, found.uid) else None

    def absent(self, owner: Owner | None, namespace: str) -> bool:
        """Return whether all objects of the kind of this owner are known, and it is none of them."""
        known = owner is not None and self.readings.get(full_name(owner.kind)) is Reading.READ
        return known and owner is not None and self.find(owner, namespace) is None

    def unclear(self, owner: Owner | None, namespace: str) -> str:
        """Why it is not known whose something is that this owner controls, in words; empty where it is, and where
        nothing is known of its kind.
        """
        for _ in range(_MOST_LINKS):
            if owner is None:
                break
            found = self._links.get((owner.kind, namespace, owner.name))
            text = self._of_link(owner, namespace, found)
            if text or found is None:
                return text
            owner = found.owner
        return ""

    def _of_link(self, owner: Owner, namespace: str, found: Link | None) -> str:
        kind, key = owner.kind, f"{namespace}/{owner.name}"
        if found is None:
            return self.missing(owner.kind, namespace, owner.name)
        if not same(owner, found.uid):
            return causes.owner_replaced(kind=kind, owner=key)
        if found.deleting:
            return causes.owner_being_deleted(kind=kind, owner=key)
        if found.ended:
            return causes.owner_ended(kind=kind, owner=key)
        return causes.owner_refused(kind=kind, owner=key, why=found.refused) if found.refused else ""

    def named(self, kind: str, namespace: str, name: str) -> str:
        """The same for an owner that labels name."""
        return self.unclear(Owner(kind, name, ""), namespace)

    def missing(self, kind: str, namespace: str, name: str) -> str:
        """Why an owner is not known of which nothing was read, in words; empty where nothing is known of its kind."""
        known = kind in OWNER_GROUPS  # others are read too, such as pods, which own StatefulSets of LeaderWorkerSets
        reading = self.readings.get(full_name(kind), Reading.UNKNOWN) if known else Reading.UNKNOWN
        key = f"{namespace}/{name}"
        if reading is Reading.READ:
            return causes.owner_gone(kind=kind, owner=key)
        if reading is Reading.ABSENT:
            return causes.owner_api_missing(kind=kind, owner=key, api=full_name(kind))
        return ""

    def waiting_below(self, key: Key) -> tuple[list[Pod], list[Key]]:
        """The pods that wait, and the groups, that an owner controls, by itself or by what it owns."""
        pods: dict[str, Pod] = {}
        groups: list[Key] = []
        for each in self._walk(key):
            pods |= self._pods.get(each, {})
            groups += [each] if each[0] not in OWNER_GROUPS else []
        return sorted(pods.values(), key=lambda pod: pod.uid), groups

    def waiting_for(self, full: str) -> tuple[list[Pod], list[Key]]:
        """The same of all owners of a kind, by its full name."""
        kinds = {kind for kind in OWNER_GROUPS if full_name(kind) == full}
        keys = {key for key in (*self._links, *self._below, *self._pods) if key[0] in kinds}
        pods: dict[str, Pod] = {}
        groups: set[Key] = set()
        for key in keys:
            some, more = self.waiting_below(key)
            pods |= {pod.uid: pod for pod in some}
            groups |= set(more)
        return sorted(pods.values(), key=lambda pod: pod.uid), sorted(groups)

    def _walk(self, key: Key) -> Iterator[Key]:
        seen, left = {key}, [key]
        while left:
            each = left.pop()
            yield each
            more = self._below.get(each, set()) - seen
            seen |= more
            left += sorted(more)


def full_name(kind: str) -> str:
    """The kind of an owner with its group after a dot."""
    group = OWNER_GROUPS.get(kind, "")
    return f"{kind}.{group}" if group else kind


def same(owner: Owner, uid: str) -> bool:
    """Return True if the object with this UID can be the one that is named. A manifest may leave the UID of either
    open.
    """
    return owner.uid == uid or not owner.uid or not uid or uid.startswith(UID_FROM_MANIFEST)


def _above(key: Key, owner: Owner | None) -> Key | None:
    return (owner.kind, key[1], owner.name) if owner is not None else None


def _keys(pod: Pod, named: Key | None) -> Iterator[Key]:
    if pod.owner is not None and pod.owner.kind in OWNER_GROUPS:
        yield pod.owner.kind, pod.namespace, pod.owner.name
    if named is not None:
        yield named
