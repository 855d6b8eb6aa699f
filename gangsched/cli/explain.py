"""``gangsched explain``: why one gang waits, or why one pod is evicted. Reads, and changes nothing."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from gangsched.cli import answers, plan
from gangsched.cli.answers import Contract, UsageError, age_of
from gangsched.cli.contracts import Eta, Planned, Section
from gangsched.cli.decisions import STARTS, State
from gangsched.cli.explanation import Explanation, explain
from gangsched.cli.inputs import (
    add_cluster_arguments,
    add_decision_arguments,
    add_eta_argument,
    add_namespace_argument,
    moment_of,
    name_of,
    named,
    read_either,
)
from gangsched.cli.owners import controllers_of, owners_without_pods
from gangsched.cli.pod_explanation import under
from gangsched.core.decision import Gathering
from gangsched.messages import causes, failures
from gangsched.messages.text import counted
from gangsched.model.errors import Problem
from gangsched.model.records import GangId

if TYPE_CHECKING:
    from gangsched.cli.inputs import Reach
    from gangsched.cluster.kube.refused_pods import Refused

#: The label of what controllers say about pods that they cannot create.
NOT_CREATED = "not created"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    parser.add_argument(
        "name",
        nargs="?",
        metavar="[KIND/]NAME",
        help="a gang, a pod, or what owns pods: hp-worker-1, job/train; NAMESPACE/NAME is understood too",
    )
    add_namespace_argument(parser)
    add_decision_arguments(parser)
    add_eta_argument(parser)
    add_cluster_arguments(parser)
    parser.epilog = (
        "With -f the manifests are decided as 'gangsched plan' decides them. Without, the cluster is read once and the"
        " decision that a scheduler would make now is explained, with what the conditions on the pods say of the one"
        " that it has made. Exit code: 0, or 2 if there is no such gang or pod, or some input was not understood."
    )


def run(args: argparse.Namespace) -> int:
    """Print the explanation; 2 when there is nothing of that name or some input was not understood."""
    return CONTRACT.run(args, _explained)


class Explained(NamedTuple):
    """What is asked about, in the state that it is in; ``whole``: no list is to be summed."""

    state: State
    found: Explanation
    etas: Mapping[GangId, Eta] = {}
    whole: bool = False

    def fields(self) -> dict[str, Any]:
        """What ``plan`` says of the decisions that concern it, and the words."""
        decisions = [(decision, self.state.milliseconds(decision)) for decision in self.found.decisions]
        words = msgspec.to_builtins(self.found.told())
        return {**Planned(decisions, self.found.drained, etas=self.etas).fields(), "explanation": words}


def _render(explained: Explained, _: str) -> None:
    from gangsched.cli.render import render_explanation  # noqa: PLC0415 - rich takes longer to import than to explain

    own = explained.found.own
    spent = explained.state.milliseconds(own) if own is not None else 0.0
    render_explanation(explained.found, spent, whole=explained.whole)


CONTRACT: Contract[Explained] = Contract(plan.CONTRACT.api_version, plan.CONTRACT.empty, Explained.fields, _render)


def _explained(args: argparse.Namespace) -> tuple[Explained, list[Problem]]:
    namespace, kind, name = _asked(args)
    now, read = moment_of(args), read_either(args)
    state = State(read.events, read.options, read.now if now is None else now)
    namespace = namespace or read.namespace or "default"
    try:
        found = explain(state, namespace, name, kind)
    except UsageError as error:
        if read.reach is None:
            raise
        owners = owners_without_pods(state, namespace, name, kind)
        raise answers.UsageError("; ".join([str(error), *_refused(owners, read.reach, state.now)])) from None
    if read.reach is not None and isinstance(found.own, Gathering):
        refused = _refused(controllers_of(state, found.own.gang), read.reach, state.now)
        found = msgspec.structs.replace(found, sections=(*under(NOT_CREATED, refused), *found.sections))
    if not args.eta or found.own is None:
        return Explained(state, found, whole=args.verbose), read.warnings
    from gangsched.cli.eta import etas  # noqa: PLC0415 - the simulator is for this only

    found_etas = etas(read.events, state.options, state.now, [decision for decision, _ in state.decisions])
    when = Section(STARTS, list(found_etas[found.own.gang].lines()))
    found = msgspec.structs.replace(found, sections=(when, *found.sections))
    return Explained(state, found, found_etas, args.verbose), read.warnings


def _refused(owners: Sequence[tuple[str, str, str, str]], reach: Reach, now: float) -> list[str]:
    """Why these controllers cannot create pods, as their Events say."""
    if not owners:
        return []
    from gangsched.cluster.kube import refused_pods  # noqa: PLC0415 - what talks to a cluster takes long to import

    asked = [refused_pods.Controller(*owner) for owner in owners]
    return [_told(each, now) for each in reach.ask(lambda client: refused_pods.refused(client, asked))]


def _told(each: Refused, now: float) -> str:
    owner = f"{each.owner.kind} {each.owner.namespace}/{each.owner.name}"
    if each.unread:
        return f"{owner}: {each.note}"
    ago = f", {age_of(now - each.at)} ago" if each.at else ""
    return causes.cannot_create(
        owner=owner, note=each.note, reason=each.reason, times=counted(each.times, "time"), ago=ago
    )


def _asked(args: argparse.Namespace) -> tuple[str, str, str]:
    """``(namespace, kind, name)``; the first two are empty where they are not given."""
    name = name_of(args)
    if name is None:
        raise answers.UsageError(failures.NAME_MISSING)
    return named(name, args.namespace)
