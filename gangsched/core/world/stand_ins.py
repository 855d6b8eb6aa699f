"""Stand-ins for the pods of suspended Jobs and JobSets: their number, and those that exist as records."""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence

from gangsched.core.decision import group_key
from gangsched.core.quota.gang_workloads import Managed
from gangsched.core.state.expected_members import Crowd, Expected
from gangsched.core.state.membership import Membership
from gangsched.core.state.snapshot import Snapshot
from gangsched.model.constraints import PodShape
from gangsched.model.jobsets import MAX_WITHOUT_PODS
from gangsched.model.records import GangId, Pod


class StandIns:
    """The members of the gangs that have no pods."""

    def __init__(self, membership: Membership, snapshot: Snapshot, managed: Managed) -> None:
        self._membership = membership
        self._snapshot = snapshot
        self._managed = managed
        #: The members of open crowds, by UID.
        self.made: dict[str, Pod] = {}
        self._all: dict[GangId, Crowd] = {}
        #: Those whose members are made, the oldest first.
        self._open: dict[GangId, Crowd] = {}

    def members_of(self, gang: GangId) -> Sequence[Expected]:
        """Return the members of a gang."""
        return self._all[gang].kinds if gang in self._all else ()

    def put(self, gang: GangId, kinds: Sequence[Expected]) -> None:
        """The gang has exactly these from now on."""
        self.remove(gang)
        for pod in (each.like for each in kinds):
            self._snapshot.shape_number(pod.shape)
            if pod.volumes is not None:
                self._snapshot.volumes.count_pod(pod, +1)
        self._all[gang] = crowd = Crowd(gang, kinds, self.made, self._open)
        self._membership.set_crowd(crowd)

    def remove(self, gang: GangId) -> None:
        """Remove the members of a gang."""
        crowd = self._all.pop(gang, None)
        if crowd is None:
            return
        crowd.forget_made()
        self._membership.drop_crowd(gang)
        for uid in crowd.uids() if crowd.used else ():
            self._managed.forget_pod(uid)
        for pod in crowd.likes:
            if pod.volumes is not None:
                self._snapshot.volumes.count_pod(pod, -1)

    def forget_unused(self, holders: Container[str]) -> None:
        """Forget those that were made for what is over, the oldest first, but for so many as one gang may have.
        Stand-ins of groups with held room, the ``holders``, stay.
        """
        if not self._open:
            return
        over = [c for gang, c in self._open.items() if group_key(self._membership.group(gang)[0]) not in holders]
        number = sum(map(len, over))
        for crowd in over:
            if number > MAX_WITHOUT_PODS:
                number -= len(crowd)
                crowd.forget_made()

    def shapes(self) -> Iterator[PodShape]:
        """What they ask of a node."""
        return (pod.shape for crowd in self._all.values() for pod in crowd.likes)
