"""``gangsched explain``: why one gang waits, or why one pod has to leave. Reads, and changes nothing."""

from __future__ import annotations

import argparse
import json
import sys

from gangsched.cli import errors
from gangsched.cli.explaining import Explanation, explain
from gangsched.cli.plan import add_decision_arguments, document, entry, moment_of, read_options
from gangsched.cli.what_if import State
from gangsched.cluster.manifests import load
from gangsched.cluster.manifests.errors import Warned
from gangsched.core.decision import Decision


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    parser.add_argument("name", metavar="[NAMESPACE/]NAME", help="a gang, or a pod (the namespace default is default)")
    add_decision_arguments(parser, required=False)
    parser.add_argument(
        "--kubeconfig",
        metavar="FILE",
        help="without -f: a kubeconfig (default: $KUBECONFIG, ~/.kube/config, or the service account inside a cluster)",
    )
    parser.add_argument("--context", metavar="NAME", help="without -f: a context of it (default: its current one)")
    parser.epilog = (
        "With -f the manifests are decided as 'gangsched plan' decides them. Without, the cluster is read once and the"
        " decision that a scheduler would make now is explained, with what the conditions on the pods say of the one"
        " that it has made. Exit code: 0, or 2 if there is no such gang or pod, or some input was not understood."
    )


def run(args: argparse.Namespace) -> int:
    """Print the explanation; 2 when there is nothing of that name or some input was not understood."""
    try:
        namespace, name = _name(args.name)
        state, warnings = _from_manifests(args) if args.sources else _from_cluster(args)
        found = explain(state, namespace, name)
    except (ValueError, OSError) as error:
        errors.complain_of(error)
        if args.output == "json":
            _print_json([], [], error)
        return errors.BAD_INPUT
    if args.output == "json":
        _print_json([(d, state.milliseconds(d)) for d in found.decisions], warnings, None)
        return errors.OK
    _print(state, found)
    return errors.OK


def _name(raw: str) -> tuple[str, str]:
    namespace, slash, name = raw.rpartition("/")
    if not name or "/" in namespace or (slash and not namespace):
        raise errors.UsageError(f"{raw!r} is not [namespace/]name")
    return namespace or "default", name


def _from_manifests(args: argparse.Namespace) -> tuple[State, list[Warned]]:
    if args.kubeconfig or args.context:
        raise errors.UsageError("-f reads manifests, --kubeconfig and --context a cluster: give one of them")
    options = read_options(args)
    now = moment_of(args)
    loaded = load(args.sources)
    return State(loaded.events, options, loaded.now if now is None else now), loaded.warnings


def _from_cluster(args: argparse.Namespace) -> tuple[State, list[Warned]]:
    # What talks to a cluster takes long to import; manifests do without.
    from gangsched.cli.run import configure  # noqa: PLC0415
    from gangsched.runtime import logs, process  # noqa: PLC0415
    from gangsched.runtime.reading import read_once  # noqa: PLC0415

    configuration = configure(args)
    logs.configure(configuration.logging.format, "warning")
    now = moment_of(args)
    try:
        connection = process.connect(configuration)
        print(f"gangsched: reading {connection}", file=sys.stderr)
        events, read_at = read_once(configuration, connection)
    except process.StartError as error:
        raise errors.UsageError(str(error)) from None
    return State(events, configuration.core_options(), read_at if now is None else now), []


def _print_json(decisions: list[tuple[Decision, float]], warnings: list[Warned], error: BaseException | None) -> None:
    record = None if error is None else errors.record(error, "")
    entries = [entry(decision, spent) for decision, spent in decisions]
    sys.stdout.write(json.dumps(document(entries, warnings, record), indent=2) + "\n")


def _print(state: State, found: Explanation) -> None:
    from gangsched.cli.render_explain import render  # noqa: PLC0415 - rich takes longer to import than to explain

    render(found, state.milliseconds(found.own) if found.own is not None else 0.0)
