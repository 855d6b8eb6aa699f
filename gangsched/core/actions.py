"""Actions of the core: writes to the cluster, in order.

Every write names the UID it means, is safe to repeat, and is answered by one
:class:`~gangsched.core.events.WriteDone` with its ``id`` unless stated otherwise. The adapter may run writes
in parallel, but writes to the same pod take effect in the order in which they were asked for, and one that has not been
sent is answered ``outdated`` when its opposite is asked for; what must come after something else is only asked for when
that has been answered.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import NoneType, UnionType
from typing import Any, NamedTuple, TypeAlias

import msgspec

from gangsched.core.decision import Placement, Victim
from gangsched.model.constraints import Directives
from gangsched.model.devices import Allocation
from gangsched.model.records import JOB, Pod

#: Reason of the DisruptionTarget condition of a victim.
MARK_REASON = "PreemptionByScheduler"


class PodRef(msgspec.Struct, frozen=True, gc=False):
    """One incarnation of a pod."""

    namespace: str
    name: str
    uid: str

    @property
    def key(self) -> str:
        """``namespace/name``."""
        return f"{self.namespace}/{self.name}"


def reference(pod: Pod | Placement | Victim) -> PodRef:
    """The incarnation of a pod that a write means."""
    return PodRef(pod.namespace, pod.name, pod.uid)


class JobRef(PodRef, frozen=True, gc=False):
    """One incarnation of a Job, or of a JobSet if ``kind`` says so. It stands where a pod does in Events, and where
    writes to one object wait in line.
    """

    kind: str = JOB


class GroupRef(PodRef, frozen=True, gc=False):
    """One incarnation of a PodGroup of the API group ``family``, of which ``version`` is served."""

    family: str = ""
    version: str = ""


class ClaimRef(PodRef, frozen=True, gc=False):
    """One incarnation of a ResourceClaim, as it was in a ``version``."""

    version: str = ""


class Consumer(msgspec.Struct, frozen=True, gc=False):
    """An object that may use the devices of a claim, as ``status.reservedFor`` names it."""

    name: str
    uid: str
    resource: str = "pods"
    group: str = ""


class NodeRef(PodRef, frozen=True, gc=False):
    """One incarnation of a node, as it was in a ``version``: how many ``taints`` it had then, and the place (from 0)
    of that by which room on it was held, if it was.
    """

    version: str = ""
    taints: int = 0
    held_at: int | None = None

    @property
    def key(self) -> str:
        """Its name."""
        return self.name


class _Action(msgspec.Struct, frozen=True, gc=False):
    pass


class Bind(_Action, frozen=True):
    """POST the pod's binding to ``node``."""

    id: int
    pod: PodRef
    node: str


class Nominate(_Action, frozen=True):
    """PATCH ``status.nominatedNodeName`` and the condition ``gangsched.dev/Nominated`` (the intent record).

    ``plan`` is the plan's id; ``message`` is the condition's message and contains it.
    """

    id: int
    pod: PodRef
    node: str
    plan: str
    message: str


class WithdrawNomination(_Action, frozen=True):
    """Clear ``nominatedNodeName`` and set the intent condition to False with ``reason``."""

    id: int
    pod: PodRef
    reason: str
    message: str


class Mark(_Action, frozen=True):
    """PATCH the conditions DisruptionTarget, and ``gangsched.dev/EvictedFor`` with the message ``owners``, to True.
    Without a ``message`` only the second, which announces the eviction.
    """

    id: int
    pod: PodRef
    message: str
    reason: str = MARK_REASON
    owners: str = ""


class Unmark(_Action, frozen=True):
    """Set both conditions of a victim to False: it will not be evicted after all."""

    id: int
    pod: PodRef
    message: str
    reason: str = MARK_REASON


class Remove(_Action, frozen=True):
    """DELETE the pod with a UID precondition and its own grace period; ``evict`` uses policy/v1 Eviction.

    ``mark`` and ``reason`` are message and reason of its DisruptionTarget condition (an eviction overwrites it).
    """

    id: int
    pod: PodRef
    evict: bool = False
    mark: str = ""
    reason: str = MARK_REASON


class AskRemoval(_Action, frozen=True):
    """Ask whether the API server would remove the pod, as :class:`Remove` has it: a dry run, which changes nothing."""

    id: int
    pod: PodRef
    evict: bool = False


class _JobWrite(_Action, frozen=True):
    id: int
    job: JobRef
    version: str
    scheduler: str

    @property
    def pod(self) -> PodRef:
        """What is written to."""
        return self.job


class SuspendJob(_JobWrite, frozen=True):
    """PATCH ``spec.suspend: true``, on condition of the Job's UID and version: its controller then deletes its pods.

    The same PATCH writes down that ``scheduler`` did it, for ``preemptor`` (``ns/gang``) by ``plan``.
    """

    preemptor: str
    plan: str


class ResumeJob(_JobWrite, frozen=True):
    """PATCH ``spec.suspend: false`` on a Job that ``scheduler`` has suspended, and take that off the record.

    ``held`` says that it never ran: it was created suspended, until its queue has room. The same PATCH gives each pod
    template, in order, what ``templates`` says instead of what it was given before; None: they stay as they are. The
    answer is ``ok`` with a message if the server takes it only without that.
    """

    held: bool = False
    templates: tuple[Directives, ...] | None = None


class BindVolume(_Action, frozen=True):
    """PATCH ``spec.claimRef`` of a PersistentVolume, on condition of its UID and version: it is for this claim.

    ``pod`` is the member that needs it. ``claim`` and ``claim_uid`` are that of the pod's namespace. ``reserved``:
    another client had reserved the volume for the claim before, so that undoing the write must leave it reserved.
    """

    id: int
    pod: PodRef
    volume: str
    volume_uid: str
    version: str
    claim: str
    claim_uid: str
    reserved: bool = False


class SelectNode(_Action, frozen=True):
    """PATCH the annotation that asks for a new volume for a claim, reachable from ``node``.

    ``pod`` is the member that needs it; the claim is one of its namespace.
    """

    id: int
    pod: PodRef
    claim: str
    claim_uid: str
    node: str


class _ClaimWrite(_Action, frozen=True):
    id: int
    claim: ClaimRef
    consumers: tuple[Consumer, ...]

    @property
    def pod(self) -> ClaimRef:
        """What is written to."""
        return self.claim


class AllocateClaim(_ClaimWrite, frozen=True):
    """Give devices to a ResourceClaim that has none: the finalizer that protects them, and after it the allocation and
    its consumers in one update. ``written`` is the allocation as the API has it (JSON).
    """

    allocation: Allocation
    written: str


class ReserveClaim(_ClaimWrite, frozen=True):
    """Add consumers to a ResourceClaim that has been allocated so."""

    allocation: Allocation


class ReleaseClaim(_ClaimWrite, frozen=True):
    """Take consumers off a ResourceClaim. Without any, its devices are given back, and then it loses the finalizer."""


class _NodeWrite(_Action, frozen=True):
    id: int
    node: NodeRef

    @property
    def pod(self) -> NodeRef:
        """What is written to."""
        return self.node


class HoldNode(_NodeWrite, frozen=True):
    """PATCH the taint ``gangsched.dev/held=<value>:NoSchedule`` onto a node, or give it this value, on condition of the
    node's UID and of the version that is changed; its other taints stay as they are.
    """

    value: str


class ReleaseNode(_NodeWrite, frozen=True):
    """PATCH that taint off a node, on the same conditions. ``value`` is its last value: that of another scheduler
    stays.
    """

    value: str


class SetCondition(_Action, frozen=True):
    """PATCH ``PodScheduled=False`` with reason and message. No answer is expected."""

    pod: PodRef
    reason: str
    message: str


class SetGroupStatus(_Action, frozen=True):
    """PATCH the status of a PodGroup whose API has no status subresource, and whose controllers wait for what it says.
    No answer is expected.

    ``status`` has the fields that are to be changed, as the API calls them.
    """

    pod: GroupRef
    status: Mapping[str, Any]


class Report(_Action, frozen=True):
    """Write an Event (events.k8s.io/v1). No answer is expected.

    ``regarding`` and ``related`` are (apiVersion, kind, namespace, name, uid). ``kind`` is Normal or Warning.
    """

    regarding: tuple[str, str, str, str, str]
    kind: str
    reason: str
    action: str
    note: str
    related: tuple[str, str, str, str, str] | None = None


class ObjectKey(NamedTuple):
    """An object whose status is kept, by API family, name and kind; ``namespace`` is empty for kinds of the whole
    cluster.
    """

    family: str
    namespace: str
    name: str
    plural: str = "podgroups"

    def __str__(self) -> str:
        return f"{self.plural}.{self.family} {self.namespace}{'/' if self.namespace else ''}{self.name}"


class GangStatus(_Action, frozen=True):
    """The state of a group object for its status; handled by the low-rate controller. No answer."""

    family: str
    namespace: str
    name: str
    uid: str
    status: Mapping[str, Any]
    plural: str = "podgroups"

    @property
    def key(self) -> ObjectKey:
        """The object."""
        return ObjectKey(self.family, self.namespace, self.name, self.plural)

    def after(self, earlier: GangStatus) -> GangStatus:
        """What is to be written when an earlier status of the same object has not been written yet."""
        return self


class QueueStatus(GangStatus, frozen=True):
    """The state of a ClusterQueue, LocalQueue or Cohort: fields, and ``active`` as ``(status, reason, message)``."""


#: The condition of Jobs after which those of an earlier eviction are no longer true.
_RESERVED = "QuotaReserved"


class JobStatus(GangStatus, frozen=True):
    """Conditions of a Job or JobSet: where it stands with its queue. Each is ``(type, status, reason, message)``."""

    def after(self, earlier: GangStatus) -> GangStatus:
        """Conditions of both, the later one of each type; with new quota an earlier eviction is history."""
        if earlier.uid != self.uid:
            return self
        both = {each[0]: each for each in earlier.status["conditions"]}
        later = {each[0]: each for each in self.status["conditions"]}
        if later.get(_RESERVED, ("", ""))[1] == "True":
            for name in both.keys() & {"Evicted", "Preempted"}:
                _, status, _, message = both[name]
                if status == "True":
                    both[name] = (name, "False", _RESERVED, f"Previously: {message}")
        both.update(later)
        return msgspec.structs.replace(self, status={"conditions": tuple(both.values())})


VolumeWrite: TypeAlias = BindVolume | SelectNode
PodWrite: TypeAlias = Bind | Nominate | WithdrawNomination | Mark | Unmark | Remove | AskRemoval
ClaimWrite: TypeAlias = AllocateClaim | ReserveClaim | ReleaseClaim
JobWrite: TypeAlias = SuspendJob | ResumeJob
NodeWrite: TypeAlias = HoldNode | ReleaseNode
Write: TypeAlias = PodWrite | VolumeWrite | ClaimWrite | JobWrite | NodeWrite
Removal: TypeAlias = Remove | SuspendJob
Action: TypeAlias = Write | SetCondition | SetGroupStatus | Report | GangStatus

_OVERRULED: Mapping[type[Action], type[Any] | UnionType] = {
    Mark: Unmark,
    Unmark: Mark,
    Nominate: WithdrawNomination,
    WithdrawNomination: Nominate,
    HoldNode: NodeWrite,
    ReleaseNode: HoldNode,
    ReleaseClaim: AllocateClaim | ReserveClaim,
}


def overruled_by(action: Action) -> type[Any] | UnionType:
    """The kind of write to the same object that need not be sent any more once this has been asked for."""
    return _OVERRULED.get(type(action), NoneType)
