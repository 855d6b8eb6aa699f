"""``gangsched <command>``: finds the command, and turns every foreseeable end into an exit code."""

from __future__ import annotations

import argparse
import errno
import gc
import importlib
import io
import os
import sys
from collections.abc import Sequence
from typing import NamedTuple, NoReturn, Protocol, cast

from gangsched import __version__
from gangsched.cli import answers
from gangsched.messages import failures
from gangsched.messages.text import nearest
from gangsched.model.errors import UserError

_VERSION = ("version", "--version", "-V")
_HELP = ("help", "--help", "-h")
#: These commands read a cluster, unless they are given manifests; ``plan`` does with --cluster.
_OF_CLUSTERS = (
    "explain",
    "get",
    "history",
    "leave",
    "queues",
    "release",
    "run",
    "snapshot",
    "status",
    "ui",
    "why-evicted",
)


class Command(NamedTuple):
    """A command: what it does, in a line, and what its own help begins with."""

    name: str
    summary: str
    description: str

    @property
    def module(self) -> str:
        """The module that has ``add_arguments`` and ``run``."""
        return f"gangsched.cli.{self.name.replace('-', '_')}"


COMMANDS = (
    Command(
        "plan",
        "show where pending gangs would run and which pods they would evict",
        "Show for every pending gang of manifests, of a cluster, or of both, on which nodes its members would run and"
        " which pods would be evicted. Nothing is changed anywhere.",
    ),
    Command(
        "init",
        "add what makes a job a gang to its manifest",
        "Print manifests in which each workload is a gang. All its pod templates get the scheduler's name and the"
        " annotation gangsched.dev/gang. If there is a PodGroup of its name, they get its label instead. Files and"
        " cluster stay unchanged.",
    ),
    Command(
        "simulate",
        "play the whole life of gangs on a virtual clock",
        "Run the scheduler against a simulated cluster made of manifests, on a virtual clock.",
    ),
    Command(
        "get",
        "list gangs with their states and the reasons why they wait",
        "Print one line for each gang: for manifests, or for a cluster. Nothing is changed anywhere.",
    ),
    Command(
        "snapshot",
        "save a cluster to a file",
        "Save the objects that the scheduler reads, with the fields that it reads, as a file for 'gangsched plan -f'."
        " Nothing is changed anywhere.",
    ),
    Command("demo", "watch gangs preempt, without a cluster", "Play one of the built-in stories in the terminal."),
    Command(
        "explain",
        "explain why a gang waits, or why a pod is evicted",
        "Explain in words what is decided about one gang or pod, why, and what would change it: for manifests, or for"
        " a cluster that is read once. Nothing is changed anywhere.",
    ),
    Command(
        "history",
        "list past evictions",
        "Print evicted pods with time, reason and the gang for which they were evicted. They are read from a record in"
        " the cluster that outlives pods and their Events. Nothing is changed anywhere.",
    ),
    Command(
        "why-evicted",
        "explain why a pod was evicted",
        "Print why a pod, or the pods of an owner, were evicted: from the same record as 'gangsched history'.",
    ),
    Command(
        "queues",
        "show the quota of queues and its use",
        "Print the tree of cohorts and ClusterQueues with used, borrowed and free quota: for manifests, or for a"
        " cluster that is read once. Nothing is changed anywhere.",
    ),
    Command(
        "status",
        "show whether the scheduler of a cluster is healthy",
        "Print the leader, its configuration and rights, waiting gangs, and nodes with held room."
        " Nothing is changed anywhere.",
    ),
    Command(
        "ui",
        "serve pages about gangs, nodes, queues and evictions to a browser",
        "Serve pages about a cluster or manifests on a port of this machine. They show gangs and why they wait, nodes"
        " and held room, queues, evictions, and a plan for pasted manifests. Nothing is changed anywhere.",
    ),
    Command(
        "run",
        "schedule the pods of a cluster",
        "Run the scheduler until it is stopped (SIGTERM or Ctrl-C).",
    ),
    Command(
        "leave",
        "return the workloads of a namespace to another scheduler",
        "Print the steps that return the workloads of a namespace to another scheduler. With --yes, do them. Running"
        " pods stay.",
    ),
    Command(
        "release",
        "remove the taint from nodes that are held for gangs",
        "Print the nodes with the taint gangsched.dev/held of this scheduler. With --yes, remove it. A running"
        " scheduler removes it itself, and holds nodes again that its plans need.",
    ),
    Command("completion", "print a script that completes commands in a shell", "Print a script for a shell."),
    Command("config", "check a configuration file, or print the defaults", "Work with configuration files."),
)


class Parser(argparse.ArgumentParser):
    """Arguments that are not understood end as all bad input does: in one line."""

    def error(self, message: str) -> NoReturn:
        """Raises :class:`~gangsched.cli.answers.UsageError`, which names the option that a file needs."""
        _, unknown, names = message.partition("unrecognized arguments: ")
        if unknown and not names.startswith("-") and "-f" in self._option_string_actions:
            message = f"{message}: for manifests write -f {names.split()[0]}"
        raise answers.UsageError(f"{message} (see {self.prog} --help)")


class _Module(Protocol):
    def add_arguments(self, parser: argparse.ArgumentParser) -> None: ...

    def run(self, args: argparse.Namespace) -> int: ...


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line and return its exit code: 0, 2 for what the user can mend, 130 when interrupted."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if sys.stdout is None:  # closed by the caller
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=answers.STAND_INS)  # an arrow must not end a command in a C locale
    try:
        code = _dispatch(arguments)
        sys.stdout.flush()
    except KeyboardInterrupt:
        print(file=sys.stderr)  # the shell's prompt goes below the ^C
        return answers.INTERRUPTED
    except BrokenPipeError:
        _forget_output()
        return answers.BROKEN_PIPE
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EIO):
            raise
        answers.complain([f"the output cannot be written: {error.strerror}"])
        _forget_output()
        return answers.FAILED
    except UserError as error:
        answers.complain(error.lines)
        return answers.BAD_INPUT
    return code


def _forget_output() -> None:
    """Nothing can be written. The interpreter would complain again when it flushes at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _dispatch(arguments: list[str]) -> int:
    name = arguments[0] if arguments else ""
    if name in _VERSION:
        if len(arguments) > 1:
            raise answers.UsageError(f"{name} takes no arguments")
        print(f"gangsched {__version__}")
        return answers.OK
    if name in _HELP and len(arguments) > 1:
        arguments = [arguments[1], "--help"]
        name = arguments[0]
    if not name or name in _HELP:
        print(_overview())
        return answers.OK
    command = next((c for c in COMMANDS if c.name == name), None)
    if command is None:
        raise answers.UsageError(_unknown(name))
    _tell_of_cluster(name, arguments[1:])
    module = _imported(command)
    parser = Parser(prog=f"{answers.program()} {name}", description=command.description, allow_abbrev=False)
    module.add_arguments(parser)
    options = parser.parse_args(arguments[1:])
    try:
        return module.run(options)
    except UserError as error:
        answers.refuse(error, options)
        return answers.BAD_INPUT


def _tell_of_cluster(name: str, options: Sequence[str]) -> None:
    """Say at once, on a terminal, that a cluster is read, because the modules for it take long to import."""
    words = [each.partition("=")[0] for each in options]
    reads = "--cluster" in words or (name in _OF_CLUSTERS and not {"-f", "--filename"} & set(words))
    if reads and not set(_HELP) & set(words) and sys.stderr is not None and sys.stderr.isatty():
        answers.complain([failures.CONNECTING])


def _imported(command: Command) -> _Module:
    """The command's module. The garbage collector is paused during imports, because nearly all modules stay. numpy
    starts no thread for each core, because the matrices here are small.
    """
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    collects = gc.isenabled()
    gc.disable()
    try:
        return cast("_Module", importlib.import_module(command.module))
    finally:
        if collects:
            gc.freeze()
            gc.enable()


def _unknown(name: str) -> str:
    what = "option" if name.startswith("-") else "command"
    names = [c.name for c in COMMANDS] + ["version", "help"]
    return f"there is no {what} {name!r}; {nearest(name.lstrip('-'), names, 'commands are')}"


def _overview() -> str:
    rows = [(c.name, c.summary) for c in COMMANDS] + [("version", "print the version")]
    program = answers.program()
    lines = [
        f"usage: {program} <command> [options]",
        "",
        "A second scheduler for Kubernetes: gangs start whole or not at all.",
        "",
        "commands:",
        *(f"  {name:<12} {summary}" for name, summary in rows),
        "",
        f"'{program} <command> --help' shows the options of a command.",
        "First steps, without a cluster:",
        f"  {program} demo",
        f"  {program} demo --manifests | {program} plan -f -",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
