"""``gangsched plan``: manifests in, one decision per pending gang out.

The JSON is a published contract: ``schemas/plan-v1.schema.json``.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from gangsched.cli import answers
from gangsched.cli.answers import Contract
from gangsched.cli.contracts import Planned
from gangsched.cli.decisions import State
from gangsched.cli.explanation import first_action
from gangsched.cli.inputs import (
    Input,
    add_cluster_arguments,
    add_decision_arguments,
    add_default_namespace_argument,
    add_eta_argument,
    moment_of,
    read_cluster,
    read_options,
)
from gangsched.cli.said import said_instead
from gangsched.cluster.manifests import Loaded, load
from gangsched.cluster.manifests.objects import Source
from gangsched.cluster.manifests.overlay import Around, overlaid
from gangsched.core.decision import BIND, Gathering, Unschedulable
from gangsched.core.events import Event, records
from gangsched.core.options import Options
from gangsched.messages import advice, failures, invalid, pictures
from gangsched.messages.text import and_nearest
from gangsched.model.errors import Problem
from gangsched.model.records import GangId, Namespace, Pod

#: Advice is tried for so many gangs, and not started after so much work.
_TRIED, _MOST_WORK = 3, 10_000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    add_decision_arguments(parser, page=True)
    parser.add_argument(
        "--cluster",
        action="store_true",
        help="read a cluster; what -f gives is laid on top of it (the same name replaces), as if it were applied",
    )
    add_default_namespace_argument(parser)
    add_cluster_arguments(parser, "with --cluster: ")
    add_eta_argument(parser)
    parser.add_argument(
        "--exit-code", action="store_true", help="end with 1 unless there is a decision and each is bind"
    )
    parser.epilog = (
        "Exit code: 0 if all input is valid (unknown kinds are warnings), 2 if not. 1 after an error of the scheduler"
        " itself: the object is left out, and a warning names it."
    )


def run(args: argparse.Namespace) -> int:
    """Print the plan; 1 when the scheduler itself has failed, 2 when some input was not understood."""
    contract = CONTRACT
    if args.output == "html":
        contract = CONTRACT._replace(show=lambda plan, _: _write_page(plan, args))
    plan = contract.answer(args, _plan)
    if plan is None:
        return answers.BAD_INPUT
    starts = bool(plan.decisions) and all(decision.outcome == BIND for decision, _ in plan.decisions)
    return answers.FAILED if plan.failed or (args.exit_code and not starts) else answers.OK


def _write_page(plan: Planned, args: argparse.Namespace) -> None:
    from gangsched.cli.render_html_plan import plan_page  # noqa: PLC0415 - as below

    sources = [pictures.OF_CLUSTER, *args.sources] if args.cluster else args.sources
    sys.stdout.write(plan_page(plan, pictures.of_input(sources=", ".join(sources))))


def _render(plan: Planned, _: str) -> None:
    from gangsched.cli.render import render_plan  # noqa: PLC0415 - rich takes longer to import than a plan to make

    render_plan(plan, whole=plan.whole)


CONTRACT: Contract[Planned] = Contract("gangsched.dev/plan/v1", Planned([]).fields(), Planned.fields, _render)


def _plan(args: argparse.Namespace) -> tuple[Planned, list[Problem]]:
    loaded, options, now, leads = _input(args)
    state = State(loaded.events, options, now, leads=leads)
    decisions = state.decisions
    others = others_waiting(loaded.events, options)
    found = {}
    if args.eta:
        from gangsched.cli.eta import etas  # noqa: PLC0415 - the simulator is for this only

        found = etas(loaded.events, options, now, [decision for decision, _ in decisions])
    if others and not decisions:
        loaded.warnings.append(_for_others(options, others))
    actions = actions_for(state) if args.output != "json" else {}
    names = options.scheduler_names
    said = {decision.gang: said for decision, _ in decisions if (said := said_instead(state, decision)) is not None}
    changed = bool(args.sources) or args.now is not None
    events = state.drawn()
    whole = args.verbose
    return Planned(
        decisions, state.drained, names, others, found, whole, actions, events, said, changed, bool(state.faults)
    ), [*loaded.warnings, *state.faults]


def others_waiting(events: Iterable[Event], options: Options) -> Counter[str]:
    """Pending pods by the scheduler that they name and that is none of ours."""
    pending = (p.scheduler for p in records(events, Pod) if p.live and not p.node)
    return Counter(name for name in pending if name not in options.scheduler_names)


def actions_for(state: State) -> dict[GangId, str]:
    """Yield advice for each gang that does not start. It is tried only for the first ones, because that takes time."""
    actions: dict[GangId, str] = {}
    for decision, _ in state.decisions:
        if not isinstance(decision, Unschedulable | Gathering):
            continue
        if len(actions) < _TRIED and state.work < _MOST_WORK:
            actions[decision.gang] = first_action(state, decision)
        else:
            actions[decision.gang] = advice.ask_explain(name=decision.gang.name, namespace=decision.gang.namespace)
    return actions


def _for_others(options: Options, others: Counter[str]) -> Problem:
    """Why there is nothing to decide: the pods that wait name other schedulers."""
    names = ", ".join(f"{count} {name}" for name, count in sorted(others.items()))
    text = invalid.none_of_ours(names=", ".join(options.scheduler_names), others=names)
    return Problem(file="", document=None, object="", field="spec.schedulerName", message=text)


def _input(args: argparse.Namespace) -> tuple[Loaded, Options, float, bool]:
    """The input of a plan: objects, options, time, and whether a scheduler leads there."""
    now = moment_of(args)
    if not args.cluster:
        if not args.sources or args.kubeconfig or args.context:
            raise answers.UsageError(failures.NOTHING_TO_PLAN)
        options, space = read_options(args), args.namespace or ""
        loaded = load(args.sources, skip_invalid=args.skip_invalid, namespace=space)
        loaded.warnings.extend(_unknown_namespace(loaded.events, args.namespace))
        return loaded, options, loaded.now if now is None else now, False
    found = read_cluster(args)  # a decision rests on all of it
    above = Loaded([], [], [], 0.0)
    if args.sources:
        above = load_above(found, args.sources, skip_invalid=args.skip_invalid, namespace=args.namespace or "")
    loaded = Loaded(overlaid(found.events, above.events), [], above.warnings, found.now)
    loaded.warnings.extend(_unknown_namespace(loaded.events, args.namespace))
    return loaded, found.options, found.now if now is None else now, found.leads


def _unknown_namespace(events: Iterable[Event], name: str | None) -> Iterator[Problem]:
    """Yield a warning if namespaces are known, and none has the name of ``-n``."""
    known = [each.name for each in records(events, Namespace)]
    if name is not None and known and name not in known:
        text = failures.no_such_namespace(name=name, nearest=and_nearest(name, known, 0.6))
        yield Problem(file="", document=None, object="", field="-n", message=text)


def load_above(
    found: Input, sources: Sequence[str | Source], *, skip_invalid: bool = False, namespace: str = ""
) -> Loaded:
    """Return the given objects as if applied to the cluster, by default in the namespace of its context."""
    around = Around.of(found.events, namespace or found.namespace or "default")
    return load(sources, around=around, skip_invalid=skip_invalid)
