"""What the quota side may read of the cluster."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

import msgspec

from gangsched.core.state.membership import Membership
from gangsched.core.state.simulation import Phantom
from gangsched.model.records import GangId, Labels, Node, Pod, QueueLabels


class Known(msgspec.Struct, frozen=True):
    """The containers are those of the world and change with it.

    ``queue_of_gang`` and ``queue_of_pod`` have the labels of the Job or JobSet that a gang stands for, or that owns a
    pod. ``holders`` are the keys of the groups for which room is kept, ``promised`` has the pods that this is for.
    ``assumed`` and ``leaves`` say of a pod (UID) whether our binding of it is on its way, or it is to be evicted.
    ``rooms_of`` has the keys of the groups that keep room for pods of a Job that goes on. ``kueue_admits`` says in
    words how it is known that Kueue admits these gangs as well; empty if it is not.
    """

    membership: Membership
    queue_of_gang: Callable[[GangId], QueueLabels]
    queue_of_pod: Callable[[Pod], QueueLabels]
    node: Callable[[str], Node | None]
    namespaces: Mapping[str, Labels]
    holders: Callable[[], Collection[str]]
    promised: Callable[[str], Sequence[Phantom]]
    assumed: Callable[[str], bool]
    leaves: Callable[[str], bool]
    rooms_of: Callable[[Iterable[Pod]], set[str]]
    kueue_admits: Callable[[Sequence[GangId]], str]
