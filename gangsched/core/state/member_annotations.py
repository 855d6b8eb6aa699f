"""What the members of a gang without a group object say about it."""

from __future__ import annotations

import heapq
from collections.abc import Mapping

from gangsched.model.dialects import gang_from_member, needs_object
from gangsched.model.records import Gang, Pod

#: Entries beyond two for each member before those of members that are gone are thrown away.
_SPARE = 16


class Speakers:
    """The members of one gang, the oldest first by time, name and UID: the first that says how many are needed speaks
    for all, and nobody does where a member asks for a group object.

    ``members`` is by UID and stays the caller's, who tells of every change after it was made. A change costs the
    logarithm of their number: in a heap the entry of a member that is gone, or says nothing valid, stays until it comes
    first.
    """

    def __init__(self, members: Mapping[str, Pod]) -> None:
        self._members = members
        self._speaker: Pod | None = None
        self._said: Gang | None = None
        self._objects_needed = sum(map(needs_object, members.values()))
        self._sort()

    def _sort(self) -> None:
        self._by_age = [_age(pod) for pod in self._members.values()]
        self._entered = set(self._by_age)
        heapq.heapify(self._by_age)

    def put(self, old: Pod | None, pod: Pod) -> None:
        """A member is new, or has a new record instead of the ``old`` one."""
        self._objects_needed += needs_object(pod) - (old is not None and needs_object(old))
        age = _age(pod)
        if age not in self._entered:
            self._entered.add(age)
            heapq.heappush(self._by_age, age)

    def drop(self, pod: Pod) -> None:
        """A member is gone; this was its last record."""
        self._objects_needed -= needs_object(pod)
        if len(self._by_age) > 2 * len(self._members) + _SPARE:
            self._sort()

    def said(self) -> Gang | None:
        """The gang as they describe it; None if nobody does."""
        while self._by_age and not self._objects_needed:
            first = self._by_age[0]
            pod = self._members.get(first[2])
            if pod is not None and _age(pod) == first:
                if pod is not self._speaker:
                    self._speaker, self._said = pod, gang_from_member(pod)
                if self._said is not None:
                    return self._said
            heapq.heappop(self._by_age)
            self._entered.discard(first)
        return None


def _age(pod: Pod) -> tuple[float, str, str]:
    return pod.created, pod.name, pod.uid
