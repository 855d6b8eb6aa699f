"""``gangsched explain``: why one gang waits, or why one pod has to leave. Reads, and changes nothing."""

from __future__ import annotations

import argparse
from typing import Any

from gangsched.cli import errors
from gangsched.cli.explaining import Explanation, explain
from gangsched.cli.inputs import add_cluster_arguments, add_decision_arguments, moment_of, read_either
from gangsched.cli.names import add_namespace_argument, name_of, named
from gangsched.cli.plan import document, entry
from gangsched.cli.what_if import State
from gangsched.cluster.manifests.errors import Warned


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
    add_cluster_arguments(parser)
    parser.epilog = (
        "With -f the manifests are decided as 'gangsched plan' decides them. Without, the cluster is read once and the"
        " decision that a scheduler would make now is explained, with what the conditions on the pods say of the one"
        " that it has made. Exit code: 0, or 2 if there is no such gang or pod, or some input was not understood."
    )


def run(args: argparse.Namespace) -> int:
    """Print the explanation; 2 when there is nothing of that name or some input was not understood."""
    try:
        namespace, kind, name = _asked(args)
        now, read = moment_of(args), read_either(args)
        state = State(read.events, read.options, read.now if now is None else now)
        found = explain(state, namespace or read.namespace or "default", name, kind)
    except (ValueError, OSError) as error:
        return errors.refuse(error, args, lambda record: document([], [], record))
    if args.output == "json":
        errors.print_document("json", _document(state, found, read.warnings))
        return errors.OK
    _print(state, found)
    errors.warn(read.warnings)
    return errors.OK


def _asked(args: argparse.Namespace) -> tuple[str, str, str]:
    """``(namespace, kind, name)``; the first two are empty where they are not said."""
    name = name_of(args)
    if name is None:
        raise errors.UsageError("which gang or pod? Give its name: gangsched explain NAME")
    return named(name, args.namespace)


def _document(state: State, found: Explanation, warnings: list[Warned]) -> dict[str, Any]:
    """What ``plan`` would print of the decisions that concern it, and the words."""
    entries = [entry(decision, state.milliseconds(decision)) for decision in found.decisions]
    sections = [{"label": section.label, "lines": list(section.lines)} for section in found.sections]
    words = {"title": found.title, "state": found.word, "sentence": found.sentence, "sections": sections}
    return {**document(entries, warnings, None, found.drained), "explanation": words}


def _print(state: State, found: Explanation) -> None:
    from gangsched.cli.render_explain import render  # noqa: PLC0415 - rich takes longer to import than to explain

    render(found, state.milliseconds(found.own) if found.own is not None else 0.0)
