"""``gangsched explain``: why one gang waits, or why one pod is evicted. Reads, and changes nothing."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from gangsched.cli import answers, plan, without_pods
from gangsched.cli.answers import Contract, age_of
from gangsched.cli.contracts import Eta, Planned, Section
from gangsched.cli.decisions import STARTS, State
from gangsched.cli.explanation import Explanation, answered, explain
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
from gangsched.cli.left_out import line_of
from gangsched.cli.owners import Controller, controllers_of, owners_without_pods
from gangsched.cli.past_evictions import Holds, Past, evictions_on_record, last_of, of_gone, with_past
from gangsched.cli.pod_explanation import under
from gangsched.core.decision import Gathering
from gangsched.messages import causes, failures
from gangsched.messages.text import pluralize
from gangsched.model.errors import Problem
from gangsched.model.records import JOB, SINGLE, GangId

if TYPE_CHECKING:
    from gangsched.cli.inputs import Reach
    from gangsched.cluster.kube.client import Client
    from gangsched.cluster.kube.refused_pods import Refused
    from gangsched.runtime.running import Running

#: The label of what controllers say about pods that they cannot create.
NOT_CREATED = "not created"
#: That of what the scheduler leaves out because it has failed over it.
LEFT_OUT = "left out"


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
        "With -f, the manifests are decided as by 'gangsched plan'. Without, the cluster is read once. The answer"
        " explains the decision of now, and shows the scheduler's own decision from the conditions on the pods."
        " Exit code: 0, or 2 if there is no such gang or pod, or some input was not understood."
    )


def run(args: argparse.Namespace) -> int:
    """Print the explanation; 1 when the scheduler itself has failed, 2 when there is nothing of that name or some input
    was not understood.
    """
    explained = CONTRACT.answer(args, _explained)
    if explained is None:
        return answers.BAD_INPUT
    return answers.FAILED if explained.state.faults else answers.OK


class Explained(NamedTuple):
    """The subject of the question, in its current state; ``whole``: no list is to be summed."""

    state: State
    found: Explanation
    etas: Mapping[GangId, Eta] = {}
    whole: bool = False

    def fields(self) -> dict[str, Any]:
        """The decisions about it, as in ``plan``, and their words."""
        decisions = [(decision, self.state.milliseconds(decision)) for decision in self.found.decisions]
        words = msgspec.to_builtins(self.found.as_contract())
        own, said = self.found.own, self.found.said
        here = {} if own is None or said is None else {own.gang: said}
        return {**Planned(decisions, self.found.drained, etas=self.etas, said=here).fields(), "explanation": words}


def _render(explained: Explained, _: str) -> None:
    from gangsched.cli.render import render_explanation  # noqa: PLC0415 - rich takes longer to import than to explain

    own = explained.found.own
    spent = explained.state.milliseconds(own) if own is not None else 0.0
    render_explanation(explained.found, spent, whole=explained.whole)


CONTRACT: Contract[Explained] = Contract(plan.CONTRACT.api_version, plan.CONTRACT.empty, Explained.fields, _render)


def _explained(args: argparse.Namespace) -> tuple[Explained, list[Problem]]:
    namespace, kind, name = _asked(args)
    now, read = moment_of(args), read_either(args, namespace)
    now = read.now if now is None else now
    state = State(read.events, read.options, now, decides=not read.partial, leads=read.leads)
    space = namespace or read.namespace or "default"
    past = _past(read.reach, state, space, kind, name) if read.reach is not None else None
    held = Holds(state.world.held, state.options.max_wait_seconds)
    try:
        found = explained(state, read.reach, space, name, kind)
    except answers.UsageError as error:
        left_out = _left_out(state, f"{space}/{name}")
        if left_out is not None or past is None:
            raise left_out or error from None
        found = of_gone(past, f"{space}/{name}  {kind or 'Pod'}", held, now)
    else:
        found = with_past(found, past, held, now) if past is not None else found
    if read.running is not None and (lines := list(_quarantined(read.running, state, found, f"{space}/{name}"))):
        found = msgspec.structs.replace(found, sections=(Section(LEFT_OUT, lines), *found.sections))
    warnings = [*read.warnings, *state.faults]
    if not args.eta or found.own is None:
        return Explained(state, found, whole=args.verbose), warnings
    from gangsched.cli.eta import etas  # noqa: PLC0415 - the simulator is for this only

    found_etas = etas(read.events, state.options, state.now, [decision for decision, _ in state.decisions])
    when = Section(STARTS, list(found_etas[found.own.gang].lines()))
    found = msgspec.structs.replace(found, sections=(when, *found.sections))
    return Explained(state, found, found_etas, args.verbose), warnings


def _past(reach: Reach, state: State, space: str, kind: str, name: str) -> Past | None:
    """The last eviction of an object that its cluster has on record, or shows in its namespace."""
    lines = reach.ask(lambda client: evictions_on_record(client, reach.configuration, space))
    return last_of(lines, space, kind, name, state.now)


def _left_out(state: State, key: str) -> answers.UsageError | None:
    """The error for an object over which the scheduler itself has failed."""
    for fault in state.faults:
        if any(each.endswith(f" {key}") for each in str(fault["object"]).split(", ")):
            return answers.UsageError(f"{fault['object']}: {fault['message']}")
    return None


def _quarantined(running: Running, state: State, found: Explanation, key: str) -> Iterator[str]:
    """What the scheduler of the cluster leaves out of this gang, because it has failed over it."""
    names = {key}
    if found.own is not None:
        names.update([found.own.gang.key, *(pod.key for pod in state.world.membership.known_pods(found.own.gang))])
    for each in running.status.quarantined:
        mine = set(each.name.split(",")) if not each.kind else {f"{each.namespace}/{each.name}"}
        if not names.isdisjoint(mine):
            yield line_of(each)


def explained(state: State, reach: Reach | None, namespace: str, name: str, kind: str = "") -> Explanation:
    """The gang or pod of this name, with what its cluster says of it where that can be asked.

    Raises :class:`~gangsched.cli.answers.UsageError` if there is none.
    """
    found = explain(state, namespace, name, kind)
    if reach is not None and found.own is None and (owners := owners_without_pods(state, namespace, name, kind)):
        found = _without_pods(state, found, owners, reach)
    if kind in ("", JOB) and (found.own is None or found.own.gang.family == SINGLE):
        notes = reach.ask(lambda client: _annotations_of(client, namespace, name)) if reach is not None else {}
        lone = without_pods.no_gang(state, namespace, name, notes)
        if lone is not None:
            found = msgspec.structs.replace(answered(lone, *found.sections), decisions=found.decisions)
    if reach is not None and isinstance(found.own, Gathering):
        refused = _refused(controllers_of(state, found.own.gang), reach, state.now)
        found = msgspec.structs.replace(found, sections=(*under(NOT_CREATED, refused), *found.sections))
    return found


def _without_pods(state: State, found: Explanation, owners: Sequence[Controller], reach: Reach) -> Explanation:
    """The same with what keeps a controller from creating pods, where its Events say so."""
    if any(pod.live for each in owners for pod in state.world.jobs.pods_named((each[1], each[2]))):
        return found
    events = _events(owners, reach)
    lines = under(NOT_CREATED, [_render_refused(each, state.now) for each in events])
    last = next((each for each in events if not each.unread), None)
    if last is None or found.word != "waits":
        return msgspec.structs.replace(found, sections=(*found.sections, *lines))
    owner = f"{last.owner.kind} {last.owner.namespace}/{last.owner.name}"
    answer = found.title, found.word, found.sentence, ""
    return answered(without_pods.refused(answer, owner, last.note, sorted(state.world.classes)), *lines)


def _refused(owners: Sequence[tuple[str, str, str, str]], reach: Reach, now: float) -> list[str]:
    """Why these controllers cannot create pods, as their Events say."""
    return [_render_refused(each, now) for each in _events(owners, reach)] if owners else []


def _events(owners: Sequence[tuple[str, str, str, str]], reach: Reach) -> list[Refused]:
    from gangsched.cluster.kube import refused_pods  # noqa: PLC0415 - what talks to a cluster takes long to import

    asked = [refused_pods.Controller(*owner) for owner in owners]
    return reach.ask(lambda client: refused_pods.refused(client, asked))


def _render_refused(each: Refused, now: float) -> str:
    owner = f"{each.owner.kind} {each.owner.namespace}/{each.owner.name}"
    if each.unread:
        return f"{owner}: {each.note}"
    ago = f", {age_of(now - each.at)} ago" if each.at else ""
    return causes.cannot_create(
        owner=owner, note=each.note, reason=each.reason, times=pluralize(each.times, "time"), ago=ago
    )


async def _annotations_of(client: Client, namespace: str, name: str) -> Mapping[str, str]:
    """The annotations of a Job; none where it is not there or may not be read."""
    from gangsched.cluster.kube.refused_pods import annotations_of  # noqa: PLC0415 - as above

    return await annotations_of(client, namespace, name)


def _asked(args: argparse.Namespace) -> tuple[str, str, str]:
    """``(namespace, kind, name)``; the first two are empty where they are not given."""
    name = name_of(args)
    if name is None:
        raise answers.UsageError(failures.NAME_MISSING)
    return named(name, args.namespace)
