"""The outcome of deciding one gang, with everything needed to act on it and to explain it.

The names of a group of gangs: its key, the names for users, and its place in the queue.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar, NamedTuple, TypeAlias

import msgspec

from gangsched.messages import answers, causes
from gangsched.messages.text import join_names, pluralize
from gangsched.model.devices import Allocation
from gangsched.model.records import GangId, Pod

#: The place of a group in the queue, smaller is earlier: priority descending, then creation (seconds), then its key.
Order: TypeAlias = tuple[int, float, str]

#: The name of the failed part if no external plug-in failed.
SCHEDULER = "py-gang-scheduler"

#: kube-scheduler cuts condition messages at this length.
MAX_MESSAGE = 1024
#: Longest name of a GangGroup: it stands in the marks of its victims, whose length is bounded.
_MAX_NAMES = 2048


def group_key(gangs: Sequence[GangId]) -> str:
    """The key of a group: unique, since names are DNS names, and sorted like ``namespace/name``."""
    return ",".join([f"{g.namespace}/{g.name}#{g.family}#{g.scheduler}" for g in gangs])


def names_of(gangs: Iterable[GangId]) -> str:
    """``namespace/name`` of these gangs, joined by commas: what people read for a group, and marks name.

    One that would be longer than :data:`_MAX_NAMES` ends with how many more there are and what tells it from others.
    """
    keys = [gang.key for gang in gangs]
    whole = ",".join(keys)
    if len(whole) <= _MAX_NAMES:
        return whole
    shown = [keys.pop(0)]
    ending = hashlib.sha256(whole.encode()).hexdigest()[:32]
    while sum(map(len, shown)) + len(shown) + len(keys[0]) < _MAX_NAMES - 64:
        shown.append(keys.pop(0))
    return f"{','.join(shown)},and-{len(keys)}-more-{ending}"


class Reason(msgspec.Struct, frozen=True):
    """A text and the number of nodes it holds for; 0: it is about the pod, and no node in particular."""

    text: str
    nodes: int

    @property
    def sentence(self) -> str:
        """The text for people, with the number of nodes."""
        return f"{self.nodes} {self.text}" if self.nodes else self.text


class UnitRef(msgspec.Struct, frozen=True):
    """What goes together or stays: kind ``Pod``, ``PodGroup``, ``Gang``, ``Job``, ``GangGroup``, and its name."""

    kind: str
    name: str


class Victim(msgspec.Struct, frozen=True):
    """One pod that has to leave.

    ``priority`` is the pod's own; ``partial`` is true while live bound members of its unit stay;
    ``over_budget`` marks exactly the pods counted in harm (a); ``method`` is delete, evict or suspend;
    ``reason`` says why it could be taken; ``why`` is a sentence for people. ``budgets`` are those (``namespace/name``)
    that it goes beyond.
    """

    namespace: str
    name: str
    uid: str
    node: str
    unit: UnitRef
    partial: bool
    priority: int
    over_budget: bool
    method: str = "delete"
    reason: str = "LowerPriority"
    why: str = ""
    budgets: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        pod: Pod,
        unit: UnitRef,
        why: str = "",
        *,
        partial: bool = False,
        over_budget: bool = False,
        method: str = "delete",
        reason: str = "LowerPriority",
        budgets: tuple[str, ...] = (),
    ) -> Victim:
        """The pod as one that leaves with ``unit``."""
        names = pod.namespace, pod.name, pod.uid, pod.node
        return cls(*names, unit, partial, pod.priority, over_budget, method, reason, why, budgets)

    @property
    def key(self) -> str:
        """``namespace/name``."""
        return f"{self.namespace}/{self.name}"


def beyond_budgets(victims: Iterable[Victim]) -> str:
    """``, 2 of them beyond PodDisruptionBudget ns/name``; empty if none of the victims goes beyond a budget."""
    over = [victim for victim in victims if victim.over_budget]
    names = sorted({name for victim in over for name in victim.budgets})
    return causes.and_beyond(pods=len(over), budgets=join_names(names, _FEW_BUDGETS)) if names else ""


#: So many budgets are named.
_FEW_BUDGETS = 3


class Spared(msgspec.Struct, frozen=True):
    """A unit that could have been taken, and why it was not."""

    unit: UnitRef
    reason: str


class Unplaced(msgspec.Struct, frozen=True):
    """A pending member without a node, and why."""

    pod: str
    reasons: tuple[str, ...]


class Awaited(msgspec.Struct, frozen=True):
    """A pod that leaves anyway and whose room the plan needs. ``uid`` is the incarnation meant; ``plan`` is the
    ``namespace/name`` of the gang whose plan removes it, None where there is none.
    """

    pod: str
    node: str
    uid: str = ""
    plan: str | None = None


#: Outcomes of a decision, in the words of the plan contract.
BIND, WAIT, PREEMPT, UNSCHEDULABLE, GATHERING = "bind", "wait", "preempt", "unschedulable", "gathering"


class ClaimAllocation(msgspec.Struct, frozen=True):
    """The devices that a decision gives to a ResourceClaim that has none. ``consumers`` are the placed members (UIDs)
    that use the claim.
    """

    namespace: str
    name: str
    uid: str
    allocation: Allocation
    consumers: tuple[str, ...] = ()


class Placement(msgspec.Struct, frozen=True):
    """One member and its node. ``claims`` are its ResourceClaims that have no devices yet, with those that they get; a
    claim that several members share is with the first of them. It is filled in decisions to bind.
    """

    namespace: str
    name: str
    uid: str
    node: str
    claims: tuple[ClaimAllocation, ...] = ()

    @property
    def key(self) -> str:
        """``namespace/name``."""
        return f"{self.namespace}/{self.name}"


#: ``((resource, flavor), …)`` of one pod, in name order.
Flavors: TypeAlias = tuple[tuple[str, str], ...]


class Lack(NamedTuple):
    """A resource of which a flavor has too little quota: of what is ``asked`` so much is ``left`` now, and would be at
    ``most`` if no workload held any.
    """

    flavor: str
    resource: str
    asked: int
    left: int
    most: int


class QuotaUse(msgspec.Struct, frozen=True):
    """A gang's use of its queue: the ClusterQueue, the flavor of each resource, and by resource (as a quantity) what
    the queue borrows with it. ``by_pod`` has, by UID, the flavors of each placed member. ``short`` says what of the
    quota is not free yet, in Kueue's words; empty if all of it is. ``lacks`` is what a refused gang lacks.
    """

    queue: str
    flavors: tuple[tuple[str, str], ...] = ()
    borrowed: tuple[tuple[str, str], ...] = ()
    by_pod: Mapping[str, Flavors] = {}
    short: str = ""
    lacks: tuple[Lack, ...] = ()


#: The parts of harm that a plan is proven by, in the words of the plan contract.
PDB, GANGS, PODS = "pdb", "gangs", "pods"


class Gap(msgspec.Struct, frozen=True):
    """How far a plan is at most from the least harm, at the first part of :class:`~.preemption.harm.Harm` that is not
    proven: so many more of ``component`` (``pdb``: pods beyond a budget, ``gangs`` or ``pods`` of ``priority``).
    """

    component: str
    priority: int
    at_most: int

    @property
    def sentence(self) -> str:
        """The text for people, such as ``at most 3 pods more than needed at priority 0``."""
        noun = "gang" if self.component == GANGS else "pod"
        where = "beyond PodDisruptionBudgets" if self.component == PDB else causes.at_priority(priority=self.priority)
        return causes.more_than_needed(at_most=pluralize(self.at_most, noun), where=where)


class Headline(msgspec.Struct, frozen=True):
    """The one sentence that says why a gang does not start: a word of :data:`~.messages.answers.WORDS`, and why."""

    word: str
    why: str

    @property
    def sentence(self) -> str:
        """The whole sentence for people."""
        return answers.first_sentence(word=self.word, why=self.why)


class _Decided(msgspec.Struct, frozen=True):
    """The common part of all decisions. The gangs of a GangGroup are decided together: they have decisions of one kind,
    with the same victims.

    ``required`` is max(0, minimum - bound), ``unplaced`` are pending members without a node. ``placements`` say where
    members go, ``announced`` the same of expected members, ``awaiting`` are pods that leave
    anyway and without which the gang does not fit, ``victims`` those that have to leave for it, and
    ``spared`` units that were looked at, and stay. ``quota`` is None for a gang without a queue.

    ``headline`` says why it does not start; None where it does, or nothing was decided.

    Of the search for victims ``steps`` are those spent, and ``stopped`` says that it was cut short. ``optimal``: it is
    proven that no plan breaks fewer budgets or interrupts less at any priority; None where there are no victims, or the
    rules of quota fix the order. ``gap`` is a bound of what is not proven.
    """

    outcome: ClassVar[str] = ""

    gang: GangId
    kind: str
    group: tuple[str, ...]
    priority: int
    required: int
    unplaced: tuple[Unplaced, ...] = ()
    warnings: tuple[str, ...] = ()
    message: str = ""
    headline: Headline | None = None
    topology_domain: str | None = None
    stopped: bool = False
    quota: QuotaUse | None = None
    placements: tuple[Placement, ...] = ()
    announced: tuple[tuple[Pod, str], ...] = ()
    awaiting: tuple[Awaited, ...] = ()
    victims: tuple[Victim, ...] = ()
    spared: tuple[Spared, ...] = ()
    steps: int = 0
    optimal: bool | None = None
    gap: Gap | None = None

    @property
    def in_words_of_queues(self) -> bool:
        """Return whether quota alone refuses the gang: tools that read Kueue's conditions know its words."""
        return False

    @property
    def said(self) -> str:
        """The text for conditions, Events and the log: the headline, and the rest of the message."""
        if self.headline is None or self.in_words_of_queues:
            text = self.message
        elif self.message in ("", self.headline.why):
            text = self.headline.sentence
        else:
            text = answers.with_more(first=self.headline.sentence, more=self.message)
        return text if len(text) <= MAX_MESSAGE else f"{text[: MAX_MESSAGE - 4]} ..."

    @property
    def proof(self) -> str:
        """What is known of how good the choice of victims is, as people read it; empty where nothing is."""
        if self.optimal:
            return "optimal"
        return self.gap.sentence if self.gap is not None else ""


class Fits(_Decided, frozen=True):
    """The gang can be bound now."""

    outcome = BIND


class FitsWhenFreed(_Decided, frozen=True):
    """The gang fits once pods have left that leave anyway."""

    outcome = WAIT


class Preempt(_Decided, frozen=True):
    """The gang fits once the victims have left, and those that leave anyway."""

    outcome = PREEMPT


class Unschedulable(_Decided, frozen=True):
    """The gang does not fit, and no eviction would help.

    ``reasons`` say why nodes refuse the first member without one, ``blockers`` are members without a node even when
    everything that may leave has left. ``retry_at`` is when passing time alone may change it: a victim has run long
    enough, or the gang waited long enough.
    ``behind`` says that gangs ahead in the queue keep something from this one, ``short_of_quota`` that no room on
    nodes would help, ``nodes_unseen`` that they were not even looked at. ``had_quota`` are the amounts of
    (flavor, resource) that its queue had for it. Without the answer of a ``failed_plugin`` of others
    (or of :data:`SCHEDULER` itself) nothing could be decided; ``message`` says how it failed.
    """

    outcome = UNSCHEDULABLE

    reasons: tuple[Reason, ...] = ()
    blockers: tuple[str, ...] = ()
    retry_at: float | None = None
    behind: bool = False
    failed_plugin: str = ""
    short_of_quota: bool = False
    nodes_unseen: bool = False
    had_quota: tuple[tuple[tuple[str, str], int], ...] = ()

    @property
    def in_words_of_queues(self) -> bool:
        return self.short_of_quota


class Gathering(_Decided, frozen=True):
    """The gang is not complete; nothing was decided."""

    outcome = GATHERING


#: What is to be done for one gang.
Decision = Fits | FitsWhenFreed | Preempt | Unschedulable | Gathering


class Verdict:
    """The decisions about all gangs of a group: of one kind, with the same victims and the same message. What they have
    in common the ``first`` says.
    """

    __slots__ = ("decisions", "first")

    def __init__(self, decisions: tuple[Decision, ...]) -> None:
        self.decisions = decisions
        self.first = decisions[0]

    @property
    def outcome(self) -> str:
        """Of which kind they are, in the words of the plan contract."""
        return self.first.outcome

    @property
    def message(self) -> str:
        """The message for all of them."""
        return self.first.message

    @property
    def said(self) -> str:
        """The text for conditions, Events and the log."""
        return self.first.said

    @property
    def victims(self) -> tuple[Victim, ...]:
        """Pods that have to leave."""
        return self.first.victims

    @property
    def awaiting(self) -> tuple[Awaited, ...]:
        """Pods that leave anyway and without which the gangs do not fit."""
        return self.first.awaiting

    @property
    def placements(self) -> tuple[Placement, ...]:
        """Where members of all gangs go."""
        return tuple(place for decision in self.decisions for place in decision.placements)

    @property
    def announced(self) -> tuple[tuple[Pod, str], ...]:
        """Where members of all gangs would go that do not exist yet."""
        return self.first.announced

    def but(self, **changes: object) -> Verdict:
        """The same verdict with these fields of all decisions changed."""
        return Verdict(tuple(msgspec.structs.replace(decision, **changes) for decision in self.decisions))
