"""The core's knowledge about the cluster: small, immutable records.

A cluster of 50,000 pods has few distinct *shapes* (requests to a node), so a pod is a short record that points to an
interned :class:`PodShape`. All times are seconds since the epoch, all resource amounts are integers in base units
(milli-cores, bytes, devices).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, TypeAlias

from gangsched.model.constraints import (
    NO_DIRECTIVES,
    NO_LABELS,
    Directives,
    Labels,
    LabelSelector,
    Named,
    PodDevices,
    PodShape,
    PodVolumes,
    Record,
    Taint,
)
from gangsched.model.errors import Mistake
from gangsched.model.held import Held
from gangsched.model.indexes import how_many

#: Pods with at least this priority are system pods: only a preemptor with more may evict them (2 * 10^9).
SYSTEM_CRITICAL_PRIORITY = 2_000_000_000

PREEMPT_LOWER = "PreemptLowerPriority"
PREEMPT_NEVER = "Never"


class PodSelector(Record, frozen=True):
    """A Service, ReplicaSet, StatefulSet or ReplicationController: the pods that it selects (None: none). A DaemonSet,
    of which is only known that it exists.

    Default topology spread constraints count the pods that the ones of a pod select. ``gang`` is what a StatefulSet
    says of its pods as a gang. ``owner`` is its controller; it is ``deleting`` once its deletion was asked for.
    """

    kind: str
    namespace: str
    name: str
    selector: LabelSelector | None = None
    gang: Gang | None = None
    uid: str = ""
    owner: Owner | None = None
    deleting: bool = False


class GangId(NamedTuple):
    """Identity of a gang. ``family`` keeps groups of different APIs with the same name apart."""

    family: str
    namespace: str
    name: str
    scheduler: str

    @property
    def key(self) -> str:
        """``namespace/name``, as users write it."""
        return f"{self.namespace}/{self.name}"


#: How UIDs begin of objects that come from manifests which do not give any.
UID_FROM_MANIFEST = "manifest:"
#: The family of a pod that belongs to no group: it is a gang of one.
SINGLE = "Pod"
#: The family of a Job that is planned as a gang while it has no pods.
JOB = "Job"


class Owner(Record, frozen=True):
    """The controller that owns a pod. A Job of another API than Kubernetes' own is of a kind such as
    ``Job.v1alpha1.batch.volcano.sh``, as kubectl writes it.
    """

    kind: str
    name: str
    uid: str

    def of_api(self) -> tuple[str, str]:
        """Its apiVersion, empty where the kind does not say it, and the kind in that."""
        kind, _, api = self.kind.partition(".")
        version, _, group = api.partition(".")
        return f"{group}/{version}" if api else "", kind


class Condition(Record, frozen=True):
    """A condition of a pod's status that this scheduler reads."""

    status: str
    reason: str = ""
    message: str = ""
    since: float = 0.0


class Stakes(Record, frozen=True):
    """The loss with a pod, from annotations: the time of its last checkpoint (seconds since the epoch), the seconds of
    work that a restart costs, and its eviction cost; ``never``: it is not evicted. ``never_from``: it is not evicted if
    its gang has at least this priority. ``boost`` raises a workload's priority as a victim. ``expected_seconds`` is its
    run time. See :mod:`gangsched.model.preemptible`.
    """

    checkpoint: float | None = None
    restart_seconds: float | None = None
    cost: int = 0
    never: bool = False
    boost: int | None = None
    expected_seconds: float | None = None
    never_from: int | None = None


NO_STAKES = Stakes()


class Pod(Named, frozen=True):
    """One pod.

    ``node`` is empty while unbound; ``deleting_since`` is None unless a deletionTimestamp is set (the value is
    the moment by which the grace period ends). ``gang`` is the identity of its gang, which for a pod without
    a group is the pod itself. ``hints`` are the labels and annotations that gang APIs and preemption rules
    read; everything else of the annotations is dropped on decoding. ``mistake`` is the first thing in it that could not
    be understood. One that is its own gang waits because of it. ``remark`` does not delay the gang. ``kept``: the
    object of its group says that its pods are not to be evicted. ``ungrouped``: it is in no group yet, and these are to
    put it into one, in words; it waits for that where its owner is no gang. ``unowned``: it is not known whose it is,
    for this reason in words, and it waits until that is. The kubelet ends it ``deadline_seconds``
    after its start, if there are any; it has ``ended`` (0: not, or that is not known). Of a Job it has an index
    (``completion_index``; -1: none), of which so many pods have failed before (``index_failures``). It is ``tracked``
    until its Job has counted it. It is ``ready`` unless its status says otherwise.
    """

    uid: str
    shape: PodShape
    gang: GangId
    scheduler: str = "default-scheduler"
    labels: Labels = NO_LABELS
    hints: Labels = NO_LABELS
    priority: int = 0
    preemption_policy: str = PREEMPT_LOWER
    node: str = ""
    phase: str = "Pending"
    created: float = 0.0
    started: float = 0.0
    deleting_since: float | None = None
    grace_seconds: float = 30.0
    nominated_node: str = ""
    gates: tuple[str, ...] = ()
    owner: Owner | None = None
    static: bool = False
    #: Keys of marks by which it would be excluded from preemption, and which do not count.
    unheeded: frozenset[str] = frozenset()
    scheduled_condition: Condition | None = None
    disruption: Condition | None = None
    intent: Condition | None = None
    evicted_for: Condition | None = None
    version: str = ""
    priority_class: str = ""
    volumes: PodVolumes | None = None
    devices: PodDevices | None = None
    mistake: Mistake | None = None
    remark: Mistake | None = None
    stakes: Stakes = NO_STAKES
    kept: bool = False
    ungrouped: str = ""
    unowned: str = ""
    deadline_seconds: int | None = None
    ended: float = 0.0
    completion_index: int = -1
    index_failures: int = 0
    tracked: bool = True
    #: Of a pod that terminates: who has to agree before it is gone.
    finalizers: tuple[str, ...] = ()
    ready: bool = True

    @property
    def finished(self) -> bool:
        """True when the pod no longer uses its node."""
        return self.phase in ("Succeeded", "Failed")

    @property
    def bound(self) -> bool:
        """True when the pod takes room on a node (until it is gone, also while it terminates)."""
        return bool(self.node) and not self.finished

    @property
    def live(self) -> bool:
        """Neither finished nor terminating."""
        return self.deleting_since is None and not self.finished

    @property
    def deleted_at(self) -> float | None:
        """When its deletion was asked for, by the API server's clock (seconds); None while that has not happened."""
        return None if self.deleting_since is None else self.deleting_since - self.grace_seconds

    @property
    def disruption_target(self) -> bool:
        """True while its condition DisruptionTarget is True, whatever client has written it."""
        return self.disruption is not None and self.disruption.status == "True"

    @property
    def on_record(self) -> bool:
        """True while an intent record of ours stands on it."""
        return self.intent is not None and self.intent.status == "True"

    @property
    def runs_since(self) -> float:
        """When it began to run, by its stamps. Bound and not started yet, it has run no longer than it is bound."""
        placed = self.scheduled_condition
        return max(self.started, placed.since) if placed is not None and placed.status == "True" else self.started


class Node(Record, frozen=True):
    """One node. ``allocatable`` is in base units and includes ``pods``. Of one that is ``outdated`` the newest state
    could not be understood: the rest is what was known before. ``taints`` are without that by which room on it is
    ``held`` for a plan: schedulers of other installations, and other schedulers, respect it.
    """

    name: str
    uid: str = ""
    labels: Labels = NO_LABELS
    allocatable: tuple[tuple[str, int], ...] = ()
    taints: tuple[Taint, ...] = ()
    unschedulable: bool = False
    ready: bool = True
    deleting: bool = False
    images: tuple[tuple[str, int], ...] = ()
    created: float = 0.0
    version: str = ""
    features: tuple[str, ...] = ()
    outdated: bool = False
    held: Held | None = None


#: The family of the pods of a Job with a queue: they start together.
QUEUED_JOB = "batch"


class QueueLabels(NamedTuple):
    """An object's labels about quota: its LocalQueue and its WorkloadPriorityClass, empty for none."""

    local_queue: str = ""
    priority_class: str = ""


NO_QUEUE = QueueLabels()


class Announced(Record, frozen=True):
    """Members that a gang announces before they exist: ``count`` of one ``shape`` in a role; ``alike``, they are of the
    shape of the member of this role that is there.

    ``kept``: once it runs, the gang is whole with all of them only. ``within`` is a node label: they will be in the
    domain of the members that are there, which share it with no other pods.
    """

    role: str
    count: int
    shape: PodShape = PodShape()
    kept: bool = False
    within: str = ""
    alike: bool = False


class Part(Record, frozen=True):
    """A part of a gang: ``count`` members of the role ``name``. With ``least``, it needs so many whole ``parts``.
    Without parts, its ``selector`` selects members (None: all), the values of ``keys`` divide them, and it needs
    ``least`` divisions of ``count`` members. See :mod:`gangsched.model.parts`.

    ``topology`` lists (node label key, required?) constraints of the part, outermost first. Several required keys are
    one path of labels. Each division of a part has the topology for itself. ``distinct`` is a node label key. No two
    sibling parts, or divisions of this part, may be in one domain of it.
    """

    name: str = ""
    count: int = 0
    least: int | None = None
    parts: tuple[Part, ...] = ()
    selector: LabelSelector | None = None
    keys: tuple[str, ...] = ()
    topology: tuple[tuple[str, bool], ...] = ()
    distinct: str = ""


class GroupLink(Record, frozen=True):
    """The place of a group in a tree of groups of one ``workload``: the group ``above`` it, empty for the root. A group
    of groups needs ``least`` of these; None: it has members.
    """

    above: str = ""
    workload: str = ""
    least: int | None = None


class Gang(Record, frozen=True):
    """One gang, in one form for all gang APIs.

    ``disruption`` is ``"pod"``, ``"gang"`` or None where the API says nothing. ``group`` lists the ``namespace/name``
    of all gangs of its GangGroup, sorted, itself included; empty = it stands alone. Of one that is not ``strict`` bound
    members are spared when others cannot be bound. ``topology`` lists (node label key, required?) constraints.
    ``roles`` lists how many members of which role must be among those that start, or ``parts``, where it can be of one
    role or another. ``kind`` is the object kind that users know. ``queue`` is what the object's own labels say about
    quota, ``queue_name`` a queue of its own API. With a ``mistake`` it is not known what the gang wishes, and it waits;
    ``remark`` is what else could not be understood. ``declared``: an owner of pods says whether it is a gang; None: it
    does not say. ``owner`` is the controller of the object, which is ``deleting`` once its deletion was asked for.
    ``unowned``: it is not known whose it is, for this reason in words, and the gang waits until that is. It is
    ``finished`` when the owner of its pods has ended. ``announced`` are all members of roles of which some may not
    exist before others run. ``min_resources`` are the requests of all members together, in base units, if their shapes
    are not known. ``fragile`` are roles of which no running member may be deleted without failing the owner.
    """

    family: str
    namespace: str
    name: str
    kind: str = "PodGroup"
    uid: str = ""
    created: float = 0.0
    generation: int = 0
    min_member: int = 1
    priority: int | None = None
    preemption_policy: str | None = None
    disruption: str | None = None
    timeout_seconds: float | None = None
    match_policy: str = "once-satisfied"
    strict: bool = True
    group: tuple[str, ...] = ()
    topology: tuple[tuple[str, bool], ...] = ()
    roles: tuple[tuple[str, int], ...] = ()
    parts: Part | None = None
    link: GroupLink | None = None
    source: str = ""
    status: Mapping[str, Any] | None = None
    priority_class: str = ""
    preemption_delay_seconds: float | None = None
    queue: QueueLabels = NO_QUEUE
    queue_name: str = ""
    mistake: Mistake | None = None
    remark: Mistake | None = None
    declared: bool | None = None
    stakes: Stakes = NO_STAKES
    announced: tuple[Announced, ...] = ()
    min_resources: tuple[tuple[str, int], ...] = ()
    owner: Owner | None = None
    deleting: bool = False
    unowned: str = ""
    fragile: tuple[str, ...] = ()
    finished: bool = False

    @property
    def key(self) -> str:
        """``namespace/name``."""
        return f"{self.namespace}/{self.name}"

    def grouped(self, scheduler: str) -> list[GangId]:
        """The gangs of this scheduler name that its GangGroup lists, in that order; none if it is in none."""
        return [GangId(self.family, *key.partition("/")[::2], scheduler) for key in self.group]

    @property
    def announces(self) -> bool:
        """True if it says what members need that may not exist yet."""
        return bool(self.announced or self.min_resources)


#: Node labels that no object has: the domain of a node in each tier of a tree of HyperNodes, by number and by name.
TIER, TIER_NAME = "topology.volcano.sh/tier-", "topology.volcano.sh/tier-name-"
#: Each tier is one more level in which a place is looked for.
MAX_TIER = 8


class HyperMember(Record, frozen=True):
    """Members of a HyperNode: nodes, or if ``hyper`` HyperNodes, of this name, or whose name matches the whole of the
    pattern, or nodes whose labels the selector selects.
    """

    hyper: bool = False
    name: str = ""
    pattern: str = ""
    selector: LabelSelector | None = None


class HyperNode(Record, frozen=True):
    """A domain of a network topology; those of higher tiers are farther apart inside."""

    name: str
    tier: int
    tier_name: str = ""
    members: tuple[HyperMember, ...] = ()


class ClusterNetworkTopology(Record, frozen=True):
    """The node labels of the layers of a topology, by the keys of these layers in constraints of gangs."""

    name: str
    labels: tuple[tuple[str, str], ...] = ()


class Topology(Record, frozen=True):
    """A topology of KAI. A domain of a level has the labels of all levels above too: the ``paths`` have them, outermost
    first, by the keys of the levels in constraints of gangs.
    """

    name: str
    paths: tuple[tuple[str, tuple[str, ...]], ...] = ()


class Budget(Named, frozen=True):
    """A PodDisruptionBudget.

    ``allowed`` is status.disruptionsAllowed; None when the object has no status yet (manifests), in which
    case the budget follows from ``min_available`` / ``max_unavailable`` (an int or a percentage).
    ``disrupted`` names pods whose eviction the API server has already counted. By its status so many pods are
    ``healthy``, and so many are ``desired`` to be. While it is ``outdated``, its status is that of an earlier spec, and
    the API server refuses evictions. Pods that are not ready go without it if that is ``always_allow``-ed.
    """

    selector: LabelSelector | None
    allowed: int | None = None
    min_available: int | str | None = None
    max_unavailable: int | str | None = None
    disrupted: tuple[str, ...] = ()
    healthy: int = 0
    desired: int = 0
    outdated: bool = False
    always_allow: bool = False


class Namespace(Record, frozen=True):
    """A namespace and its labels, by which namespace selectors choose. Nothing is created in one that is ``deleting``,
    and a binding is created.
    """

    name: str
    labels: Labels = NO_LABELS
    deleting: bool = False


class PriorityClass(Record, frozen=True):
    """A PriorityClass.

    ``minimum_run_time_seconds`` and ``preemption_delay_seconds`` are its annotations
    ``gangsched.dev/minimum-run-time`` (of pods of this class as victims) and ``gangsched.dev/preemption-delay`` (of
    gangs of this class as preemptors); None where it has none: the configuration counts. Its pods tolerate preemption
    by lower priorities than ``preemptable_from`` for ``toleration_seconds`` (infinite: for ever).
    """

    name: str
    value: int = 0
    global_default: bool = False
    preemption_policy: str = PREEMPT_LOWER
    minimum_run_time_seconds: float | None = None
    preemption_delay_seconds: float | None = None
    preemptable_from: int = 0
    toleration_seconds: float = 0.0


#: Indexes of a Job, ascending: first and last of each row of them.
Intervals: TypeAlias = tuple[tuple[int, int], ...]


class FailureRule(Record, frozen=True):
    """One rule of a podFailurePolicy: its action for pods that end so.

    A container ends with one of these exit ``codes``, or with none of them (not ``within``); without codes (None), the
    pod has one of these ``conditions`` (type, status). ``of_one``: the rule is about one of several containers;
    ``of_init``: about an init container that ends before the others start.
    """

    action: str
    codes: tuple[int, ...] | None = None
    within: bool = True
    of_one: bool = False
    of_init: bool = False
    conditions: tuple[tuple[str, str], ...] = ()


class SuccessRule(Record, frozen=True):
    """One rule of a successPolicy: so many (``count``; None: all) of these ``indexes`` (None: any) have completed."""

    indexes: Intervals | None = None
    count: int | None = None


class Job(Named, frozen=True):
    """The facts about a Job that the planner needs.

    Its survival follows from ``backoff_limit``, the number of ``failed`` pods, with those that still exist and are
    ``counted`` (UIDs), and the ``failure_rules`` of its podFailurePolicy. If it is ``indexed``, also from
    ``limit_per_index``, ``max_failed_indexes``, the ``success_rules`` and the ended indexes
    (:mod:`gangsched.model.survival`). Pods are counted, and replaced, when they terminate, or if it ``awaits_end`` when
    they have ended. ``suspended_by`` is the scheduler that has suspended it to make room, ``suspended_since`` (seconds)
    since when it is suspended (0: its controller has not reported so); ``owner`` is its controller. ``template`` is
    what its pods will be, without a name and a UID of their own; None for a Job of which nothing more than the counts
    is known. ``added`` is what its pods get beside that, of the flavor in which it was admitted last. ``gang`` says
    whether its pods start together; None: it does not say. ``scheduling`` is what it says about them as a gang, if it
    does. It is ``deleting`` once its deletion was asked for, and ``evicted`` if its status says that pods of it were.
    Its pods are ended ``deadline_seconds`` after its start, if there are any. ``exclusive``: its pods have a domain of
    this node label to themselves, and others than the first are made when that has a node. It is ``elsewhere`` if its
    ``managedBy`` leaves it to a controller that makes its pods in another cluster, as a rule.
    """

    uid: str = ""
    created: float = 0.0
    parallelism: int = 1
    completions: int | None = None
    backoff_limit: int = 6
    failed: int = 0
    suspended: bool = False
    queue: QueueLabels = NO_QUEUE
    succeeded: int = 0
    finished: bool = False
    suspended_by: str = ""
    owner: Owner | None = None
    template: Pod | None = None
    version: str = ""
    added: Directives = NO_DIRECTIVES
    suspended_since: float = 0.0
    gang: bool | None = None
    scheduling: Gang | None = None
    stakes: Stakes = NO_STAKES
    remark: Mistake | None = None
    deadline_seconds: int | None = None
    counted: frozenset[str] = frozenset()
    failure_rules: tuple[FailureRule, ...] = ()
    awaits_end: bool = False
    indexed: bool = False
    limit_per_index: int | None = None
    max_failed_indexes: int | None = None
    failed_indexes: Intervals = ()
    completed_indexes: Intervals = ()
    success_rules: tuple[SuccessRule, ...] = ()
    deleting: bool = False
    evicted: bool = False
    exclusive: str = ""
    elsewhere: bool = False

    @property
    def wanted(self) -> int:
        """How many pods it runs at once: min(parallelism, completions that are still missing). An index that has failed
        for good is not tried again.
        """
        if self.completions is None:
            return self.parallelism
        return min(self.parallelism, max(0, self.completions - self.succeeded - how_many(self.failed_indexes)))
