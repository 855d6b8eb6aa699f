"""Names of gangs and pods as kubectl's users write them: NAME, KIND/NAME, and NAMESPACE/NAME."""

from __future__ import annotations

import argparse
from pathlib import Path

from gangsched.cli.errors import UsageError
from gangsched.messages import failures

_KINDS = {
    "Pod": ("po", "pod", "pods"),
    "PodGroup": ("pg", "podgroup", "podgroups"),
    "Job": ("job", "jobs"),
    "Deployment": ("deploy", "deployment", "deployments"),
    "JobSet": ("jobset", "jobsets"),
    "ReplicaSet": ("rs", "replicaset", "replicasets"),
    "StatefulSet": ("sts", "statefulset", "statefulsets"),
}
_KIND_OF = {short: kind for kind, shorts in _KINDS.items() for short in shorts}


def add_namespace_argument(parser: argparse.ArgumentParser) -> None:
    """``-n``."""
    parser.add_argument(
        "-n", "--namespace", metavar="NS", help="the namespace (default: that of the context, else default)"
    )


def name_of(args: argparse.Namespace) -> str | None:
    """The name that was given; with `-f FILE NAME` the option has taken it, since it takes all that follows."""
    if args.name is None and len(args.sources or ()) > 1 and not Path(args.sources[-1]).exists():
        args.name = args.sources.pop()
    name: str | None = args.name
    return name


def named(text: str, namespace: str | None) -> tuple[str, str, str]:
    """``(namespace, kind, name)`` of an argument beside ``-n``; the first two are empty where they are not given.

    Raises :class:`~gangsched.cli.errors.UsageError`.
    """
    before, slash, name = text.rpartition("/")
    if not name or "/" in before or (slash and not before):
        raise UsageError(failures.not_a_name(text))
    kind = _KIND_OF.get(before.lower().partition(".")[0], "")
    if before and not kind and namespace not in (None, before):
        raise UsageError(failures.kind_unknown(before, ", ".join(sorted(_KIND_OF))))
    return namespace or ("" if kind else before), kind, name
