"""Members that are known by their number alone: the stand-ins of a suspended Job or JobSet.

An object of some hundred bytes may ask for ten thousand pods. What is kept of them is one of each kind, and how many
are like it. All are made when one is asked for, as in a decision, and forgotten afterwards, unless room is kept
for them: that has its bound in the size of the cluster.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, ValuesView
from typing import NamedTuple, overload

import msgspec

from gangsched.model.records import GangId, Pod


class Alike(NamedTuple):
    """Pods ``like`` this one, so many ``of_each`` Job. Their numbers come behind its ``name`` and ``uid``; where these
    are those of several ``jobs``, its own number comes between.
    """

    like: Pod
    name: str
    uid: str
    of_each: int
    jobs: range | None = None

    @property
    def number(self) -> int:
        """How many there are."""
        return self.of_each * (1 if self.jobs is None else len(self.jobs))

    def names(self) -> Iterator[tuple[str, str]]:
        """The name and the UID of each."""
        for job in ("",) if self.jobs is None else (f"-{index}" for index in self.jobs):
            name, uid = self.name + job, self.uid + job
            yield from ((f"{name}-{index}", f"{uid}/{index}") for index in range(self.of_each))


class Members:
    """Members of gangs by UID: the pods that the cluster has ``reported``, and those of open crowds, ``made``.

    They can be looked up, as the members of a plan are. They cannot be walked over: a walk is over what is reported.
    """

    def __init__(self, reported: Mapping[str, Pod], made: Mapping[str, Pod]) -> None:
        self._reported = reported
        self._made = made

    def get(self, uid: str) -> Pod | None:
        """Return the member, or None if there is none of this UID."""
        found = self._reported.get(uid)
        return self._made.get(uid) if found is None else found

    def __getitem__(self, uid: str) -> Pod:
        found = self._reported.get(uid)
        return self._made[uid] if found is None else found

    def __contains__(self, uid: str) -> bool:
        return uid in self._reported or uid in self._made


class Crowd(Mapping[str, Pod]):
    """The members of one gang, by UID and in name order; of none of them there is a pod.

    Created records are in ``all_made``, and the crowd is then in ``opened``.
    """

    def __init__(
        self, gang: GangId, kinds: Sequence[Alike], all_made: dict[str, Pod], opened: dict[GangId, Crowd]
    ) -> None:
        self.gang = gang
        self.kinds = tuple(kinds)
        #: One of each kind, without a name.
        self.likes: Sequence[Pod] = tuple(kind.like for kind in kinds)
        #: Have they ever been made?
        self.used = False
        self._size = sum(kind.number for kind in kinds)
        self._all_made = all_made
        self._opened = opened
        self._made: dict[str, Pod] | None = None

    def made(self) -> dict[str, Pod]:
        """All of them, from now on until the crowd is folded."""
        if self._made is None:
            replace = msgspec.structs.replace
            found = [replace(k.like, name=name, uid=uid) for k in self.kinds for name, uid in k.names()]
            found.sort(key=lambda pod: (pod.name, pod.uid))
            self._made = {pod.uid: pod for pod in found}
            self._all_made.update(self._made)
            self._opened[self.gang] = self
            self.used = True
        return self._made

    def fold(self) -> None:
        """None of them is needed any more."""
        for uid in self._made or ():
            self._all_made.pop(uid, None)
        self._made = None
        if self._opened.get(self.gang) is self:
            del self._opened[self.gang]

    def uids(self) -> Iterator[str]:
        """Their UIDs, without making any."""
        return (uid for kind in self.kinds for _, uid in kind.names())

    def values(self) -> ValuesView[Pod]:
        """The members."""
        return self.made().values()

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[str]:
        return iter(self.made())

    def __getitem__(self, uid: str) -> Pod:
        return self.made()[uid]


class Pods(Sequence[Pod]):
    """The members of a crowd in name order, which are counted without being made."""

    def __init__(self, crowd: Crowd) -> None:
        self._crowd = crowd

    def __len__(self) -> int:
        return len(self._crowd)

    def __iter__(self) -> Iterator[Pod]:
        return iter(self._crowd.values())

    @overload
    def __getitem__(self, index: int) -> Pod: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Pod]: ...
    def __getitem__(self, index: int | slice) -> Pod | Sequence[Pod]:
        return [*self._crowd.values()][index]
