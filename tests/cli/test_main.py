"""``gangsched``: commands, help and how everything ends."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from gangsched import __version__
from gangsched.cli import answers
from gangsched.cli.main import COMMANDS, main
from gangsched.model.errors import FieldError, InputError, Place


@pytest.fixture
def command(monkeypatch):
    """A function that puts another command in the place of ``plan``."""

    def replace(run):
        module = SimpleNamespace(add_arguments=lambda parser: None, run=lambda args: run())
        monkeypatch.setattr("gangsched.cli.main._imported", lambda command: module)

    return replace


@pytest.mark.parametrize("args", [[], ["--help"], ["-h"], ["help"]])
def test_overview(args, capsys):
    """Without a command, and with --help, the commands are listed."""
    assert main(args) == 0
    out = capsys.readouterr().out
    assert "usage: gangsched <command>" in out
    assert "  plan " in out


@pytest.mark.parametrize("args", [["plan", "--help"], ["help", "plan"]])
def test_help_of_a_command(args, capsys):
    """A command explains its options and exit codes."""
    with pytest.raises(SystemExit) as ended:
        main(args)
    assert ended.value.code == 0
    out = capsys.readouterr().out
    assert out.startswith("usage: gangsched plan")
    assert "--scheduler-name" in out
    assert "Exit code" in out


def test_the_plugin_of_kubectl_says_what_was_typed(monkeypatch, capsys):
    """`kubectl gangsched` runs kubectl-gangsched; its help names what a user would type."""
    monkeypatch.setattr(sys, "argv", ["/usr/bin/kubectl-gangsched"])
    assert main([]) == 0
    assert "usage: kubectl gangsched <command>" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        main(["plan", "--help"])
    assert capsys.readouterr().out.startswith("usage: kubectl gangsched plan ")


@pytest.mark.parametrize("arg", ["version", "--version", "-V"])
def test_version(arg, capsys):
    """The version is that of the package."""
    assert main([arg]) == 0
    assert capsys.readouterr().out == f"gangsched {__version__}\n"


@pytest.mark.parametrize(
    ("arg", "words"),
    [
        ("plna", "there is no command 'plna'; did you mean plan?"),
        ("xyzzy", "commands are plan"),
        ("--versoin", "option"),
    ],
)
def test_an_unknown_command_names_the_nearest(arg, words, capsys):
    """A typo is answered with what was meant, or with what there is."""
    assert main([arg]) == 2
    assert words in capsys.readouterr().err


@pytest.mark.parametrize(
    ("args", "line"),
    [
        (["plan", "-f", "x", "--frobnicate"], "unrecognized arguments: --frobnicate (see gangsched plan --help)"),
        (
            ["plan", "gang.yaml"],
            "unrecognized arguments: gang.yaml: for manifests write -f gang.yaml (see gangsched plan --help)",
        ),
        (["plan"], "give manifests with -f, or --cluster to read a cluster, or both"),
        (["init"], "the following arguments are required: -f/--filename (see gangsched init --help)"),
        (["config", "validate"], "the following arguments are required: FILE (see gangsched config validate --help)"),
        (["version", "--foo"], "version takes no arguments"),
    ],
)
def test_arguments_that_are_not_understood_are_one_line(args, line, capsys):
    """In the form of all errors, with the exit code of bad input."""
    assert main(args) == 2
    assert capsys.readouterr() == ("", f"gangsched: {line}\n")


@pytest.mark.parametrize("each", COMMANDS, ids=lambda c: c.name)
def test_every_command_that_exists_explains_itself(each, capsys):
    """Its module has the two functions, and its help is more than the usage line."""
    with pytest.raises(SystemExit) as ended:
        main([each.name, "--help"])
    assert ended.value.code == 0
    assert len(capsys.readouterr().out.splitlines()) > 4


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (
            InputError(Place("a.yaml", 2, "Pod ns/p"), "spec.x", "is wrong"),
            2,
            "a.yaml: document 2 (Pod ns/p): spec.x: is wrong",
        ),
        (answers.UsageError("no\nsuch thing"), 2, "no such thing"),
        (FieldError("spec.x", "is wrong"), 2, "spec.x: is wrong"),
    ],
)
def test_errors_of_users_end_with_a_line(error, code, line, command, capsys):
    """One line on stderr, and no traceback."""

    def run():
        raise error

    command(run)
    assert main(["plan"]) == code
    assert capsys.readouterr().err == f"gangsched: {line}\n"


def test_our_own_mistakes_are_not_hidden(command):
    """What is not the user's error keeps its traceback."""

    def run():
        raise ZeroDivisionError

    command(run)
    with pytest.raises(ZeroDivisionError):
        main(["plan"])


def test_an_interrupt_ends_quietly(command, capsys):
    """With the exit code that shells expect."""

    def run():
        raise KeyboardInterrupt

    command(run)
    assert main(["plan"]) == 130
    assert "Traceback" not in capsys.readouterr().err


def test_a_closed_pipe_ends_quietly():
    """`gangsched ... | head` is not an error worth a traceback."""
    read_end, write_end = os.pipe()
    os.close(read_end)
    done = subprocess.run(
        [sys.executable, "-m", "gangsched.cli.main", "--help"], stdout=write_end, stderr=subprocess.PIPE, check=False
    )
    os.close(write_end)
    assert (done.returncode, done.stderr) == (141, b"")


@pytest.mark.parametrize(
    ("redirection", "code", "words"),
    [(">/dev/full", 1, "gangsched: the output cannot be written: No space left on device\n"), (">&-", 0, "")],
)
def test_output_that_cannot_be_written(redirection, code, words):
    """A full disk is one line; a closed stdout is what its owner wanted."""
    command = f"{sys.executable} -m gangsched.cli.main --help {redirection}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (code, words)


def completed(*words):
    """What bash offers for the last of these words."""
    script = "source <({0} -m gangsched completion bash); COMP_WORDS=({1}); COMP_CWORD={2}; _gangsched; echo {3}"
    program = script.format(sys.executable, " ".join(words) or "''", len(words) - 1, '"${COMPREPLY[@]}"')
    return subprocess.run(["bash", "-c", program], capture_output=True, text=True, check=True).stdout.split()


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (("gangsched", "ex"), ["explain"]),
        (("gangsched", "plan", "--sch"), ["--scheduler-name"]),
        (("gangsched", "simulate", "-o", "''"), ["table", "json", "html"]),
        (("gangsched", "plan", "--config", "''"), []),
        (("gangsched", "config", "va"), ["validate"]),
    ],
)
def test_completion_in_bash(words, offered):
    """Commands, options, their values, and arguments; files where a value is one."""
    assert completed(*words) == offered


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_knows_every_option(shell, capsys):
    """Each shell gets each command and each long option."""
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    for command in COMMANDS:
        assert command.name in script
    for option in ("scheduler-name", "dry-run", "namespace", "arrival"):
        assert (f"-l {option}" if shell == "fish" else f"--{option}") in script


def test_output_survives_a_terminal_without_unicode():
    """An arrow is written as `->` when the encoding has none."""
    done = subprocess.run(
        [sys.executable, "-m", "gangsched.cli.main", "plan", "-f", "examples/koordinator"],
        capture_output=True,
        check=False,
        env={"PYTHONIOENCODING": "ascii", "PATH": os.environ["PATH"]},
        cwd=Path(__file__).parents[2],
    )
    assert done.returncode == 0
    assert b"hp-worker-1  -> node-1" in done.stdout


@pytest.mark.parametrize("terminal", [True, False])
def test_complaints_keep_to_the_width_of_a_terminal(terminal, monkeypatch, capsys):
    """On a terminal of 80 columns they are broken between words, and of what goes on the beginning is indented; whoever
    reads a pipe gets a line each.
    """
    said = "pods is forbidden: User system:serviceaccount:research:reader cannot list resource pods in the namespace a"
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal)
    answers.complain([said])
    lines = capsys.readouterr().err.splitlines()
    assert " ".join(map(str.strip, lines)) == f"gangsched: {said}"
    assert len(lines) == 1 + terminal
    assert all(line.startswith("  ") and len(line) <= 80 for line in lines[1:])
