"""``gangsched``: commands, help and how everything ends."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from gangsched import __version__
from gangsched.cli import errors
from gangsched.cli import main as cli
from gangsched.cli.main import COMMANDS, main
from gangsched.cluster.manifests import InputError
from gangsched.model.errors import FieldError


@pytest.fixture
def command(monkeypatch):
    """A function that puts another command in the place of ``plan``."""

    def replace(run):
        module = SimpleNamespace(add_arguments=lambda parser: None, run=lambda args: run())
        monkeypatch.setattr("gangsched.cli.main.quickly", lambda name: module)

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


def test_unknown_options_end_with_usage(capsys):
    """Two, as for all bad input."""
    with pytest.raises(SystemExit) as ended:
        main(["plan", "-f", "x", "--frobnicate"])
    assert ended.value.code == 2
    assert "--frobnicate" in capsys.readouterr().err


@pytest.mark.parametrize("each", COMMANDS, ids=lambda c: c.name)
def test_every_command_that_exists_explains_itself(each, capsys):
    """Its module has the two functions, and its help is more than the usage line."""
    if each not in cli._available():
        assert main([each.name]) == 2
        return
    with pytest.raises(SystemExit) as ended:
        main([each.name, "--help"])
    assert ended.value.code == 0
    assert len(capsys.readouterr().out.splitlines()) > 4


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (
            InputError("a.yaml", 2, "Pod ns/p", "spec.x", "is wrong"),
            2,
            "a.yaml: document 2 (Pod ns/p): spec.x: is wrong",
        ),
        (errors.UsageError("no\nsuch thing"), 2, "no such thing"),
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


def test_output_survives_a_terminal_without_unicode():
    """An arrow is written in another way when the encoding has none."""
    done = subprocess.run(
        [sys.executable, "-m", "gangsched.cli.main", "plan", "-f", "examples/koordinator"],
        capture_output=True,
        check=False,
        env={"PYTHONIOENCODING": "ascii", "PATH": os.environ["PATH"]},
        cwd=Path(__file__).parents[2],
    )
    assert done.returncode == 0
    assert b"hp-worker-1" in done.stdout
