"""Answers of commands as types, with the fields of the published JSON (``schemas/``) in snake_case.

They are what :mod:`gangsched.api` returns, and change as that does.
"""

from __future__ import annotations

import html
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from gangsched.cli.decisions import IS_NOW, WOULD_DECIDE
from gangsched.cli.said import SchedulerCondition
from gangsched.core import decision as decided
from gangsched.core.decision import Reason, Spared
from gangsched.core.decision import UnitRef as Unit
from gangsched.core.events import Event
from gangsched.core.preemption.drain_plan import DrainPlan
from gangsched.messages import causes
from gangsched.model.records import GangId


class _Result(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """Base of all of them; a field with a default is there only where it has another value."""


class Victim(_Result, frozen=True):
    """A pod (``namespace/name``) that would be evicted from ``node``, by which ``method`` and rule (``reason``);
    ``why`` in a sentence.

    ``partial``: other members of its gang stay. ``pdb_violation``: it is beyond a disruption budget.
    """

    pod: str
    node: str
    unit: Unit
    partial: bool
    priority: int
    pdb_violation: bool
    method: str
    reason: str
    why: str

    @classmethod
    def of(cls, victim: decided.Victim) -> Victim:
        """In the words of the contract."""
        return cls(
            pod=victim.key,
            node=victim.node,
            unit=victim.unit,
            partial=victim.partial,
            priority=victim.priority,
            pdb_violation=victim.over_budget,
            method=victim.method,
            reason=victim.reason,
            why=victim.why,
        )


class Unplaced(_Result, frozen=True):
    """A member without a place, and why."""

    pod: str
    reasons: list[str]


class Awaited(_Result, frozen=True):
    """A pod that leaves anyway and whose room is needed; ``plan`` is the gang for which it does, if it is for one."""

    pod: str
    node: str
    plan: str | None


class Quota(_Result, frozen=True):
    """Flavor by resource, and what is borrowed, as quantities."""

    cluster_queue: str
    flavors: dict[str, str]
    borrowed: dict[str, str]


class Gap(_Result, frozen=True):
    """How far the victims are from the least harmful choice: at most so many more of ``component``."""

    component: str
    priority: int
    at_most: int


class Eta(_Result, frozen=True):
    """When a gang starts (RFC 3339; None: it is not known whether it does), and its place in the queue, the first being
    1. ``unknown`` are the workloads whose run times are not known. ``played_until`` is set if the gang had not started
    in some run of the forecast when that reached its limit in changes of the cluster.
    """

    earliest: str | None
    likely: str | None
    latest: str | None
    position: int
    assumes: list[str]
    unknown: list[str]
    would_help: list[str]
    played_until: str | None = None

    def lines(self) -> Iterator[str]:
        """For people."""
        if self.likely is None and self.played_until is not None:
            yield causes.not_before(time=self.played_until)
        elif self.likely is None:
            yield causes.START_UNKNOWN
        else:
            yield causes.starts(likely=self.likely, earliest=self.earliest, latest=self.latest or causes.LATEST_UNKNOWN)
        yield causes.in_queue(position=self.position)
        yield from (causes.if_so(assumption=each) for each in self.assumes)
        if self.played_until is not None:
            yield causes.forecast_ended(time=self.played_until)
        if self.unknown:
            yield causes.run_time_unknown(workloads=", ".join(self.unknown))
        yield from (causes.would_help(what=each) for each in self.would_help)


class Decision(_Result, frozen=True):
    """The decision for one pending gang; ``outcome`` is bind, wait, preempt, unschedulable or gathering.

    ``placements`` are nodes by pod, ``required`` the members that have to start together. ``optimal``: no less harmful
    choice of victims exists; None where that is not asked. ``eta`` is there only where it was asked for, ``said`` (the
    first sentence of what the scheduler that leads says) only where that is something else.
    """

    gang: str
    kind: str
    gang_group: str | None
    priority: int
    required: int
    outcome: str
    placements: dict[str, str]
    unplaced: list[Unplaced]
    awaiting: list[Awaited]
    victims: list[Victim]
    spared: list[Spared]
    blockers: list[str]
    warnings: list[str]
    reasons: list[Reason]
    message: str
    topology_domain: str | None
    quota: Quota | None
    search_stopped: bool
    optimal: bool | None
    gap: Gap | None
    plan_milliseconds: float
    eta: Eta | None = None
    said: str | None = None

    @classmethod
    def of(
        cls,
        decision: decided.Decision,
        milliseconds: float,
        eta: Eta | None = None,
        said: SchedulerCondition | None = None,
    ) -> Decision:
        """In the words of the contract; it took so many ``milliseconds``."""
        refusal = decision if isinstance(decision, decided.Unschedulable) else None
        use, gap = decision.quota, decision.gap
        return cls(
            gang=decision.gang.key,
            kind=decision.kind,
            gang_group=",".join(decision.group) or None,
            priority=decision.priority,
            required=decision.required,
            outcome=decision.outcome,
            placements={p.key: p.node for p in decision.placements},
            unplaced=[Unplaced(u.pod, list(u.reasons)) for u in decision.unplaced],
            awaiting=[Awaited(a.pod, a.node, a.plan) for a in decision.awaiting],
            victims=[Victim.of(v) for v in decision.victims],
            spared=list(decision.spared),
            blockers=list(refusal.blockers) if refusal is not None else [],
            warnings=list(decision.warnings),
            reasons=list(refusal.reasons) if refusal is not None else [],
            message=decision.said,
            topology_domain=decision.topology_domain,
            quota=None if use is None else Quota(use.queue, dict(use.flavors), dict(use.borrowed)),
            search_stopped=decision.stopped,
            optimal=decision.optimal,
            gap=None if gap is None else Gap(gap.component, gap.priority, gap.at_most),
            plan_milliseconds=round(milliseconds, 3),
            eta=eta,
            said=None if said is None else said.first,
        )


class Queue(_Result, frozen=True):
    """A ClusterQueue or LocalQueue that is stopped."""

    kind: str
    name: str


class Drained(_Result, frozen=True):
    """A workload that leaves because its queue is drained, or why it cannot (``blocked``)."""

    workload: str
    queue: Queue
    reason: str
    pods: list[Victim]
    blocked: str | None

    @classmethod
    def of(cls, found: DrainPlan) -> Drained:
        """In the words of the contract."""
        queue = Queue(found.stop.kind, found.stop.name)
        return cls(found.name, queue, found.stop.reason, [Victim.of(v) for v in found.victims], found.blocked or None)


def _row(values: Sequence[object], tag: str = "td") -> str:
    """A row of a table; names come from strangers."""
    return "<tr>" + "".join(f"<{tag}>{html.escape(str(value))}</{tag}>" for value in values) + "</tr>"


class Plan(_Result, frozen=True, kw_only=True):
    """A decision for each pending gang in the order of the queue, each on what the earlier ones leave. Workloads that
    are ``drained`` leave before.
    """

    drained: list[Drained] = []
    decisions: list[Decision]

    def _repr_html_(self) -> str:
        """Return HTML for a notebook."""
        head = _row(("gang", "outcome", "priority", "placed", "victims", "message"), "th")
        rows = (
            _row((d.gang, d.outcome, d.priority, len(d.placements), ", ".join(v.pod for v in d.victims), d.message))
            for d in self.decisions
        )
        return f"<table>{head}{''.join(rows)}</table>"


class Planned(NamedTuple):
    """A plan before it is printed: each decision with the milliseconds that it took, and who leaves before because of a
    queue that is stopped. ``others`` counts pending pods by the scheduler that they name and that is none of ours.
    ``etas`` says of each gang when it will start, if that was asked for; ``whole`` that no list is to be summed.
    ``actions`` has what to do first for gangs that do not start by themselves,
    ``events`` what was read, to draw it. ``said`` is how it is with gangs of which something else is decided;
    ``changed``: what was decided is not on what there is. ``failed``: the scheduler itself has failed over objects,
    which are left out.
    """

    decisions: Sequence[tuple[decided.Decision, float]]
    drained: Sequence[DrainPlan] = ()
    scheduler_names: Sequence[str] = ()
    others: Mapping[str, int] = {}
    etas: Mapping[GangId, Eta] = {}
    whole: bool = False
    actions: Mapping[GangId, str] = {}
    events: Sequence[Event] = ()
    said: Mapping[GangId, SchedulerCondition] = {}
    changed: bool = False
    failed: bool = False

    def head(self, decision: decided.Decision) -> tuple[str, str] | None:
        """With which word and sentence the answer about a gang begins, where these are not of the decision."""
        said = None if self.changed else self.said.get(decision.gang)
        return None if said is None else (said.word, said.why)

    def beside(self, decision: decided.Decision) -> Iterator[tuple[str, Sequence[str]]]:
        """Further facts about a gang: its decision or its state."""
        said = self.said.get(decision.gang)
        lines = said.differing_decision(decision) if said is not None else ()
        if said is not None and lines:
            yield (IS_NOW, [said.first]) if self.changed else (WOULD_DECIDE, lines)

    def plan(self) -> Plan:
        """In the words of the contract."""
        return Plan(
            drained=[Drained.of(each) for each in self.drained],
            decisions=[
                Decision.of(each, spent, self.etas.get(each.gang), self.said.get(each.gang))
                for each, spent in self.decisions
            ],
        )

    def fields(self) -> dict[str, Any]:
        """The fields of the JSON."""
        fields: dict[str, Any] = msgspec.to_builtins(self.plan())
        return fields


class Section(_Result, frozen=True):
    """Sentences about one question, such as ``because`` or ``would help``."""

    label: str
    lines: list[str]


class Explanation(_Result, frozen=True):
    """How a gang or pod stands (``state``, ``sentence``), and why; ``decisions`` are those that concern it."""

    title: str
    state: str
    sentence: str
    sections: list[Section]
    decisions: list[Decision] = []

    def _repr_html_(self) -> str:
        """Return HTML for a notebook."""
        head = f"<p>{html.escape(self.title)}<br><b>{html.escape(self.state)}</b> {html.escape(self.sentence)}</p>"
        return (
            head
            + "<table>"
            + "".join(_row((each.label, " · ".join(each.lines))) for each in self.sections)
            + "</table>"
        )


class PodRun(_Result, frozen=True):
    """The history of a pod. Times are seconds from the start, None for events that did not happen."""

    phase: str
    node: str | None
    nominated_node: str | None
    terminating: bool
    gang: str | None
    priority: int
    arrived_at: float
    bound_at: float | None
    started_at: float | None
    ended_at: float | None
    preempted_by: str | None
    message: str | None
    drained_by: str | None = None


class GangRun(_Result, frozen=True):
    """How many members of a gang there were and are on nodes at the end; how long it waited to start, if it did."""

    kind: str
    min_member: int
    members: int
    bound: int
    waited_seconds: float | None


class Summary(_Result, frozen=True):
    """A run in numbers: pods by phase at the end, gangs by ``namespace/name``, and how many pods were bound, preempted
    and drained. ``seconds`` is when the last thing happened, ``ended`` is ``quiet`` or ``until``.
    ``unknown_run_times`` counts, by workload, the pods that go on because their run time is not known.
    """

    seconds: float
    ended: str
    until: float
    pods: dict[str, int]
    gangs: dict[str, GangRun]
    decisions: int
    binds: int
    preempted: int
    violations: list[str]
    drained: int = 0
    unknown_run_times: dict[str, int] = {}


class Simulation(_Result, frozen=True):
    """A finished run: pods by ``namespace/name``; events and summary as in the JSON of ``gangsched simulate``."""

    events: list[dict[str, Any]]
    pods: dict[str, PodRun]
    summary: Summary
