"""The input of read-only commands: manifests, or a cluster that is read once."""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections.abc import Awaitable, Callable, Generator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import msgspec

from gangsched.cli import answers
from gangsched.cli.answers import UsageError
from gangsched.cluster.manifests import load
from gangsched.core.events import Event
from gangsched.core.options import Options
from gangsched.messages import failures
from gangsched.model.dialects import BY_FAMILY
from gangsched.model.dialects.operators import OPERATORS
from gangsched.model.errors import FieldError, Problem
from gangsched.model.times import parse_time

if TYPE_CHECKING:
    from gangsched.cluster.kube.client import Client
    from gangsched.cluster.kube.connection import Connection
    from gangsched.runtime.connecting import Batch, Scope
    from gangsched.runtime.running import Running
    from gangsched.runtime.settings import Configuration

T = TypeVar("T")


class Input(NamedTuple):
    """The input: an event for each object, the options of the scheduler, the time, the namespace of the context (empty
    for manifests), and the warnings. For a cluster also its scheduler and how to ``reach`` it.
    """

    events: list[Event]
    options: Options
    now: float
    namespace: str
    warnings: list[Problem]
    running: Running | None = None
    reach: Reach | None = None
    scope: Scope | None = None

    @property
    def partial(self) -> bool:
        """Whether less is known than what a decision rests on."""
        return self.scope is not None and not self.scope.whole

    @property
    def leads(self) -> bool:
        """Whether a scheduler leads in the cluster that was read: what stands on its pods is how it is."""
        return self.running is not None and bool(self.running.holder)


class Reach(NamedTuple):
    """How to ask more of the cluster that was read."""

    configuration: Configuration
    connection: Connection

    def ask(self, question: Callable[[Client], Awaitable[T]]) -> T:
        """The answer to one question."""
        import asyncio  # noqa: PLC0415 - manifests are read without it

        from gangsched.runtime.connecting import client_to  # noqa: PLC0415 - as in connect

        async def asked() -> T:
            async with client_to(self.connection, self.configuration.client_connection) as client:
                return await question(client)

        return asyncio.run(asked())


class Followed(NamedTuple):
    """A cluster as input: the options of its scheduler, the namespace of the context, its scheduler, batches of
    :func:`gangsched.runtime.connecting.follow` (to be closed), and how to ``reach`` it.
    """

    options: Options
    namespace: str
    running: Running
    batches: Generator[Batch]
    reach: Reach


def add_decision_arguments(parser: argparse.ArgumentParser, *, page: bool = False) -> None:
    """The options of commands that decide, of which some can answer with a ``page``."""
    add_input_arguments(parser, required=False)
    parser.add_argument(
        "--now",
        metavar="TIME",
        help="the moment of the decision, as 2026-01-31T12:00:00Z, in seconds since 1970, or now"
        " (default: now for a cluster, else the newest creationTimestamp, startTime or checkpoint in the input)",
    )
    forms = ("table", "json", "html") if page else ("table", "json")
    parser.add_argument("-o", "--output", choices=forms, default="table", help="default: table")
    parser.add_argument(
        "-v", "--verbose", action="store_true", help="all members and victims by name, and all that is known of a gang"
    )


def add_eta_argument(parser: argparse.ArgumentParser) -> None:
    """The option of commands that say when gangs will start."""
    parser.add_argument(
        "--eta",
        action="store_true",
        help="also say when each gang will start, by a simulation over the run times that owners declare",
    )


def add_input_arguments(parser: argparse.ArgumentParser, *, required: bool = True) -> None:
    """The options of commands that read manifests; ``required``: without -f there is nothing to read."""
    add_sources_argument(
        parser,
        "YAML or JSON manifests: files, folders (with sub-folders), or - for stdin; can be repeated",
        required=required,
    )
    parser.add_argument(
        "--skip-invalid", action="store_true", help="leave out objects of -f that cannot be understood, with a warning"
    )
    _add_configuration_arguments(
        parser,
        "decide the pods with this spec.schedulerName; can be repeated (default: as configured, else"
        f" {', '.join(Options().scheduler_names)})",
    )


def add_sources_argument(parser: argparse.ArgumentParser, what: str, *, required: bool) -> None:
    """``-f``: the files that are read."""
    parser.add_argument(
        "-f",
        "--filename",
        dest="sources",
        metavar="FILE|DIR|-",
        nargs="+",
        action="extend",
        required=required,
        help=what,
    )


def add_connection_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of commands that go on working in a cluster."""
    add_cluster_arguments(parser, "")
    _add_configuration_arguments(
        parser, "serve pods of this spec.schedulerName, instead of the profiles of the configuration; can be repeated"
    )
    parser.add_argument(
        "--port", metavar="N", type=port_number, help="port of /healthz and /metrics, instead of http.port; 0 for none"
    )
    parser.add_argument(
        "--tls",
        metavar="FOLDER",
        help="serve that port by TLS with tls.crt and tls.key of a folder, metrics only to accounts that may get them",
    )
    parser.add_argument(
        "--log-level", choices=("debug", "info", "warning", "error"), help="instead of logging.level (default: info)"
    )


def _add_configuration_arguments(parser: argparse.ArgumentParser, scheduler_name: str) -> None:
    parser.add_argument(
        "--config",
        metavar="FILE",
        help="a GangSchedulerConfiguration (default: of a cluster that of its leader, else built-in defaults)",
    )
    parser.add_argument("--scheduler-name", metavar="NAME", action="append", help=scheduler_name)


def port_number(text: str) -> int:
    """The number of a port. Raises ArgumentTypeError."""
    if not text.isdecimal() or int(text) > 65535:
        raise argparse.ArgumentTypeError(failures.not_a_port(text=text))
    return int(text)


def add_cluster_arguments(parser: argparse.ArgumentParser, when: str = "without -f: ") -> None:
    """The options that choose the cluster, ``when`` one is read."""
    parser.add_argument(
        "--kubeconfig",
        metavar="FILE",
        help=f"{when}a kubeconfig (default: $KUBECONFIG, ~/.kube/config, or the service account inside a cluster)",
    )
    parser.add_argument("--context", metavar="NAME", help=f"{when}a context of it (default: its current one)")


def read_options(args: argparse.Namespace) -> Options:
    """Return the options of the core. Raises :class:`~gangsched.model.errors.UserError`."""
    if args.config is not None:
        from gangsched.runtime import config  # noqa: PLC0415 - not needed by most plans

        configuration = config.load(Path(args.config))
        if args.scheduler_name:
            configuration = configuration.serving(args.scheduler_name)
        return with_errors_contained(configuration.core_options())
    if args.scheduler_name:
        return with_errors_contained(Options(scheduler_names=tuple(dict.fromkeys(args.scheduler_name))))
    return with_errors_contained(Options())


def moment_of(args: argparse.Namespace) -> float | None:
    """Return the time of ``--now``, if given. Raises :class:`~gangsched.cli.answers.UsageError`."""
    return None if args.now is None else _moment(args.now)


def _moment(raw: str) -> float:
    if raw == "now":
        return time.time()
    if re.fullmatch(r"\d{1,12}(\.\d{1,9})?", raw):
        return float(raw)
    try:
        return parse_time(raw, "--now")
    except FieldError as error:
        raise answers.UsageError(failures.or_seconds(error=error)) from None


def read_either(args: argparse.Namespace, within: str | None = None) -> Input:
    """Manifests, if there are any, else the cluster, ``within`` as :func:`follow_cluster` has it.

    Raises :class:`~gangsched.model.errors.UserError`.
    """
    if not args.sources:
        return read_cluster(args, within)
    if args.kubeconfig or args.context:
        raise answers.UsageError(failures.MANIFESTS_OR_CLUSTER)
    options, loaded = read_options(args), load(args.sources, skip_invalid=args.skip_invalid)
    return Input(loaded.events, options, loaded.now, "", loaded.warnings)


def read_cluster(args: argparse.Namespace, within: str | None = None) -> Input:
    """The cluster that arguments and configuration name, read once; ``within`` as :func:`follow_cluster` has it.

    Raises :class:`~gangsched.cli.answers.UsageError` with what cannot be read.
    """
    found = follow_cluster(args, within)
    with closing(found.batches):
        events, now, scope = next(found.batches)
    if not scope.whole:
        answers.complain([scope.notice])
    return Input(events, found.options, now, found.namespace, [], found.running, found.reach, scope)


def follow_cluster(args: argparse.Namespace, within: str | None = None) -> Followed:
    """Return the cluster that arguments and configuration name, for reading. Of the namespace ``within`` (empty: that
    of the context) is read what may not be read of all; None: all has to be read.

    Raises :class:`~gangsched.model.errors.UserError`, and so do the batches, with what cannot be read.
    """
    from gangsched.runtime.connecting import follow  # noqa: PLC0415 - as in connect

    configuration, connection, running = connect(args)
    space = "" if within is None else within or connection.namespace or "default"
    batches = follow(configuration, connection, space)
    options, reach = with_errors_contained(configuration.core_options()), Reach(configuration, connection)
    return Followed(options, connection.namespace, running, batches, reach)


def connect(args: argparse.Namespace) -> tuple[Configuration, Connection, Running]:
    """The connection to the cluster that the arguments name, what runs there, and with which configuration to answer:
    that of ``--config``, else the one that the leader publishes. Says so, and first of all if none leads.

    Raises :class:`~gangsched.model.errors.UserError`.
    """
    # Modules for a cluster take long to import, and manifests do not need them.
    from gangsched.messages import standing  # noqa: PLC0415
    from gangsched.runtime import running  # noqa: PLC0415
    from gangsched.runtime.connecting import connect as connected  # noqa: PLC0415

    own = configure(args, log_level="error")
    found: list[Running] = []

    async def ask(client: Client) -> None:
        found.append(await running.find_running(client, own))

    connection = connected(own, ask=ask)
    runs: Running = found[0]
    configuration, whose = own, standing.as_given(file=args.config)
    if not args.config:
        configuration, whose = running.merged(runs, own), runs.whose
        if names := getattr(args, "scheduler_name", None):
            configuration = configuration.serving(names)
        if runs.ignored:
            answers.complain([standing.settings_not_known(names=", ".join(runs.ignored))])
    _say(args, runs, standing.reading(connection=connection, leader=runs.leader, whose=whose))
    return configuration, connection, runs


def _say(args: argparse.Namespace, runs: Running, reading: str) -> None:
    """Print first if no scheduler leads. Otherwise print, on a terminal, what is read, and if the answer does not use
    the scheduler's configuration.
    """
    for_people = getattr(args, "output", "table") in ("table", "wide", "html")
    doubtful = bool(runs.unknown) or (runs.published is None and not args.config)
    if runs.alarm and for_people:
        print(answers.clean(runs.alarm))
    elif runs.alarm:
        answers.complain([runs.alarm])
    if for_people and not runs.alarm and (doubtful or sys.stdout.isatty()):
        answers.complain([reading])


def configure(args: argparse.Namespace, *, log_level: str | None = None) -> Configuration:
    """The configuration file with the options over it, those that the command has; sets up logging.

    Raises :class:`~gangsched.model.errors.UserError`.
    """
    from gangsched import logs  # noqa: PLC0415 - as in connect
    from gangsched.runtime import config  # noqa: PLC0415 - as in connect

    read = config.load(Path(args.config)) if args.config else config.Configuration()
    tls: dict[str, object] = {}
    if folder := getattr(args, "tls", None):
        files = {"tls_cert_file": "tls.crt", "tls_key_file": "tls.key"}
        tls = {"authorize": True, **{name: str(Path(folder) / file) for name, file in files.items()}}
    for section, changes in (
        ("client_connection", {"kubeconfig": args.kubeconfig, "context": args.context}),
        ("http", {"port": getattr(args, "port", None), **tls}),
        ("logging", {"level": log_level or getattr(args, "log_level", None)}),
    ):
        given = {name: value for name, value in changes.items() if value is not None}
        changed = msgspec.structs.replace(getattr(read, section), **given)
        read = msgspec.structs.replace(read, **{section: changed})
    if names := getattr(args, "scheduler_name", None):
        read = read.serving(names)
    logs.configure(read.logging.format, read.logging.level)
    return read


_KINDS = {
    "Pod": ("po", "pod", "pods"),
    "PodGroup": ("pg",),
    "Job": ("job", "jobs"),
    "Deployment": ("deploy", "deployment", "deployments"),
    "JobSet": ("jobset", "jobsets"),
    "ReplicaSet": ("rs", "replicaset", "replicasets"),
    "LeaderWorkerSet": ("lws",),
    "SparkApplication": ("sparkapp",),
    "StatefulSet": ("sts", "statefulset", "statefulsets"),
}
_KIND_OF = {
    **{name: each.kind for each in BY_FAMILY.values() for name in (each.kind.lower(), each.plural)},
    **{name: each.kind for each in OPERATORS.values() for name in (each.kind.lower(), each.plural)},
    **{short: kind for kind, shorts in _KINDS.items() for short in shorts},
}


def add_namespace_argument(parser: argparse.ArgumentParser) -> None:
    """``-n``."""
    parser.add_argument(
        "-n", "--namespace", metavar="NS", help="the namespace (default: that of the context, else default)"
    )


def add_default_namespace_argument(parser: argparse.ArgumentParser) -> None:
    """``-n`` of commands that read manifests which may name no namespace."""
    parser.add_argument(
        "-n",
        "--namespace",
        metavar="NS",
        help="the namespace of objects of -f that name none (default: that of the context, else default)",
    )


def name_of(args: argparse.Namespace) -> str | None:
    """The name that was given; with `-f FILE NAME` the option has taken it, since it takes all that follows."""
    if args.name is None and len(args.sources or ()) > 1 and not Path(args.sources[-1]).exists():
        args.name = args.sources.pop()
    name: str | None = args.name
    return name


def named(text: str, namespace: str | None) -> tuple[str, str, str]:
    """``(namespace, kind, name)`` of an argument beside ``-n``; the first two are empty where they are not given.

    Raises :class:`~gangsched.cli.answers.UsageError`.
    """
    before, slash, name = text.rpartition("/")
    if not name or "/" in before or (slash and not before):
        raise UsageError(failures.not_a_name(text=text))
    kind = _KIND_OF.get(before.lower().partition(".")[0], "")
    if before and not kind and namespace not in (None, before):
        names = ", ".join(sorted({each.lower() for each in _KIND_OF.values()}))
        raise UsageError(failures.kind_unknown(kind=before, names=names))
    return namespace or ("" if kind else before), kind, name


def with_errors_contained(options: Options) -> Options:
    """The settings of a command: an error over one gang is reported for that gang, and the others are answered."""
    return msgspec.structs.replace(options, contain_errors=True)
