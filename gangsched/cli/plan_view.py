"""What ``plan`` answers: decisions in the fields of the published contract, ``schemas/plan-v1.schema.json``."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from gangsched.core.decision import Decision, Gap, QuotaUse, UnitRef, Unschedulable, Victim
from gangsched.core.events import Event
from gangsched.core.forecast import forecast
from gangsched.core.options import Options
from gangsched.core.preemption.drained import Leaving

if TYPE_CHECKING:
    from gangsched.cli.eta import Eta
    from gangsched.model.records import GangId


class Plan(NamedTuple):
    """Each decision with the milliseconds that it took, and who leaves before because of a queue that is stopped.
    ``others`` counts pending pods by the scheduler that they name and that is none of ours. ``etas`` says of each gang
    when it will start, in the fields of the contract, if that was asked for.
    """

    decisions: Sequence[tuple[Decision, float]]
    drained: Sequence[Leaving] = ()
    scheduler_names: Sequence[str] = ()
    others: Mapping[str, int] = {}
    etas: Mapping[GangId, Eta] | None = None

    def fields(self) -> dict[str, Any]:
        """The fields of the contract. Without a queue that is drained it says nothing of that."""
        leaving = {"drained": [_leaving(each) for each in self.drained]} if self.drained else {}
        return {**leaving, "decisions": [{**entry(*each), **self._eta(each[0])} for each in self.decisions]}

    def _eta(self, decision: Decision) -> dict[str, Any]:
        """Nothing, unless it was asked for."""
        return {} if self.etas is None else {"eta": self.etas[decision.gang].fields()}


def decide(
    events: Sequence[Event], options: Options, now: float, drained: list[Leaving] | None = None
) -> Iterator[tuple[Decision, float]]:
    """Each decision with the milliseconds it took; ``drained`` as :func:`forecast` has it."""
    decisions = forecast(events, options, now, drained)
    while True:
        begun = time.perf_counter()
        decision = next(decisions, None)
        if decision is None:
            return
        yield decision, (time.perf_counter() - begun) * 1000


def _leaving(found: Leaving) -> dict[str, Any]:
    """A workload that leaves because its queue is drained."""
    return {
        "workload": found.name,
        "queue": {"kind": found.stop.kind, "name": found.stop.name},
        "reason": found.stop.reason,
        "pods": [_victim(v) for v in found.victims],
        "blocked": found.blocked or None,
    }


def entry(decision: Decision, milliseconds: float) -> dict[str, Any]:
    """One decision in the words of the contract."""
    refusal = decision if isinstance(decision, Unschedulable) else None
    return {
        "gang": decision.gang.key,
        "kind": decision.kind,
        "gangGroup": ",".join(decision.group) or None,
        "priority": decision.priority,
        "required": decision.required,
        "outcome": decision.outcome,
        "placements": {p.key: p.node for p in decision.placements},
        "unplaced": [{"pod": u.pod, "reasons": list(u.reasons)} for u in decision.unplaced],
        "awaiting": [{"pod": a.pod, "node": a.node, "plan": a.plan} for a in decision.awaiting],
        "victims": [_victim(v) for v in decision.victims],
        "spared": [{"unit": _unit(s.unit), "reason": s.reason} for s in decision.spared],
        "blockers": list(refusal.blockers) if refusal is not None else [],
        "warnings": list(decision.warnings),
        "reasons": [{"text": r.text, "nodes": r.nodes} for r in (refusal.reasons if refusal is not None else ())],
        "message": decision.message,
        "topologyDomain": decision.topology_domain,
        "quota": _quota(decision.quota),
        "searchStopped": decision.stopped,
        "optimal": decision.optimal,
        "gap": _gap(decision.gap),
        "planMilliseconds": round(milliseconds, 3),
    }


def _victim(victim: Victim) -> dict[str, Any]:
    return {
        "pod": victim.key,
        "node": victim.node,
        "unit": _unit(victim.unit),
        "partial": victim.partial,
        "priority": victim.priority,
        "pdbViolation": victim.over_budget,
        "method": victim.method,
        "reason": victim.reason,
        "why": victim.why,
    }


def _quota(use: QuotaUse | None) -> dict[str, Any] | None:
    if use is None:
        return None
    return {"clusterQueue": use.queue, "flavors": dict(use.flavors), "borrowed": dict(use.borrowed)}


def _gap(gap: Gap | None) -> dict[str, Any] | None:
    if gap is None:
        return None
    return {"component": gap.component, "priority": gap.priority, "atMost": gap.at_most}


def _unit(unit: UnitRef) -> dict[str, str]:
    return {"kind": unit.kind, "name": unit.name}
