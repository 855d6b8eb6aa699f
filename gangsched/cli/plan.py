"""``gangsched plan``: manifests in, one decision per pending gang out.

The JSON is a published contract: ``schemas/plan-v1.schema.json``.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from gangsched.cli import errors
from gangsched.cli.inputs import (
    add_cluster_arguments,
    add_decision_arguments,
    moment_of,
    read_cluster,
    read_options,
)
from gangsched.cluster.manifests import ErrorRecord, Loaded, Warned, load
from gangsched.cluster.manifests.overlay import Around, overlaid
from gangsched.core.decision import BIND, Decision, Gap, QuotaUse, UnitRef, Victim
from gangsched.core.events import Event, PodChanged
from gangsched.core.forecast import forecast
from gangsched.core.options import Options
from gangsched.core.preemption.drained import Leaving

API_VERSION = "gangsched.dev/plan/v1"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    add_decision_arguments(parser)
    parser.add_argument(
        "--cluster",
        action="store_true",
        help="read a cluster; what -f gives is laid on top of it (the same name replaces), as if it were applied",
    )
    add_cluster_arguments(parser, "with --cluster")
    parser.add_argument("--exit-code", action="store_true", help="end with 1 unless every decision is bind")
    parser.epilog = "Exit code: 0 if every input was understood (unknown kinds are warnings), 2 if not."


def run(args: argparse.Namespace) -> int:
    """Print the plan; 2 when some input was not understood."""
    try:
        loaded, options, moment = _input(args)
    except (ValueError, OSError) as error:
        return errors.refuse(error, args, lambda record: document([], [], record))
    if args.output == "json":
        drained: list[Leaving] = []
        entries = [entry(d, spent) for d, spent in decide(loaded.events, options, moment, drained)]
        errors.print_document("json", document(entries, loaded.warnings, None, drained))
        return _exit_code(args, (each["outcome"] for each in entries))
    from gangsched.cli.render_plan import render  # noqa: PLC0415 - rich takes longer to import than a plan to make

    leaving: list[Leaving] = []
    decisions = list(decide(loaded.events, options, moment, leaving))
    render(decisions, options.scheduler_names, _others_pending(loaded, options), drained=leaving)
    errors.warn(loaded.warnings)
    return _exit_code(args, (decision.outcome for decision, _ in decisions))


def _input(args: argparse.Namespace) -> tuple[Loaded, Options, float]:
    """What to decide on, with which options, and when."""
    now = moment_of(args)
    if not args.cluster:
        if not args.sources or args.kubeconfig or args.context:
            raise errors.UsageError("give manifests with -f, or --cluster to read a cluster, or both")
        options, loaded = read_options(args), load(args.sources)
        return loaded, options, loaded.now if now is None else now
    found = read_cluster(args)
    above = Loaded([], [], [], 0.0)
    if args.sources:
        above = load(args.sources, around=Around.of(found.events, found.namespace or "default"))
    loaded = Loaded(overlaid(found.events, above.events), [], above.warnings, found.now)
    return loaded, found.options, found.now if now is None else now


def _exit_code(args: argparse.Namespace, outcomes: Iterable[str]) -> int:
    return errors.FAILED if args.exit_code and any(outcome != BIND for outcome in outcomes) else errors.OK


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


def _others_pending(loaded: Loaded, options: Options) -> Counter[str]:
    """How many pods wait for which scheduler that is none of ours."""
    pods = (e.pod for e in loaded.events if isinstance(e, PodChanged))
    return Counter(p.scheduler for p in pods if p.live and not p.node and p.scheduler not in options.scheduler_names)


def document(
    decisions: list[dict[str, Any]],
    warnings: list[Warned],
    error: ErrorRecord | None,
    drained: Sequence[Leaving] = (),
) -> dict[str, Any]:
    """The whole answer of the contract. Without a queue that is drained it says nothing of that."""
    leaving = {"drained": [_leaving(each) for each in drained]} if drained else {}
    return {"apiVersion": API_VERSION, **leaving, "decisions": decisions, "warnings": warnings, "error": error}


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
        "blockers": list(decision.blockers),
        "warnings": list(decision.warnings),
        "reasons": [{"text": r.text, "nodes": r.nodes} for r in decision.reasons],
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
