"""The commands that the documentation shows, and a shell in which tests run them."""

from __future__ import annotations

import itertools
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.forked import script
from tests.pages import PAGES, ROOT, text_of

#: Where a reader starts, and every other page with commands.
WITH_COMMANDS = (*PAGES, ROOT / "SECURITY.md")
COMMAND = re.compile(r"^\$ (.+?)(?:  +# .*)?$", re.MULTILINE)


def shown(path: Path) -> Iterator[str]:
    """The commands in the ``console`` blocks of a page, without the comments behind them."""
    for block in re.findall(r"^```console\n(.*?)^```$", path.read_text(), re.MULTILINE | re.DOTALL):
        yield from COMMAND.findall(block)


#: Each command once, and the first page that shows it.
DOCUMENTED = {command: path for path in reversed(WITH_COMMANDS) for command in shown(path)}


def not_run() -> dict[str, str]:
    """Commands that no test runs, and why, as ``documented_not_run.txt`` lists them."""
    lines = text_of("tests/documented_not_run.txt").splitlines()
    return dict(line.split("  # ", 1) for line in lines if line and not line.startswith("# "))


class Shell:
    """Runs commands of the documentation in a folder that has the examples and manifests of this tree.

    Args:
        folder: an empty folder of the test's own.
        environment: more variables, such as KUBECONFIG.
    """

    def __init__(self, folder: Path, **environment: str) -> None:
        self.folder = folder
        self._numbers = itertools.count(1)
        for name in ("examples", "manifests"):
            (folder / name).symlink_to(ROOT / name)
        hidden = ("ARGS", "COLUMNS", "FORCE_COLOR", "KUBECONFIG", "MAKEFLAGS", "TTY_COMPATIBLE", "VIRTUAL_ENV")
        clean = {name: value for name, value in os.environ.items() if name not in hidden}
        programs = folder / "programs"
        programs.mkdir()
        script(programs)
        path = os.pathsep.join([str(programs), str(Path(sys.executable).parent), clean["PATH"]])
        self.environment = {**clean, "PATH": path, "HOME": str(folder), **environment}

    def __call__(
        self, command: str, *, ends: int = 0, seconds: float = 60, where: Path | None = None, **placeholders: str
    ) -> str:
        """What a documented command prints on stdout.

        Args:
            command: as a page has it.
            ends: the exit code that is right.
            seconds: after this time it is killed, and the test fails.
            where: the working directory, if not the folder.
            placeholders: what the reader puts in for words in capitals.
        """
        assert command in DOCUMENTED, f"no page shows: {command}"
        for name, value in placeholders.items():
            command = command.replace(name, value)
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=where or self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )
        assert done.returncode == ends, f"$ {command}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
        return done.stdout

    def ask(self, script: str) -> str:
        """What a Python script of the folder prints."""
        return subprocess.run(
            [sys.executable, script], cwd=self.folder, env=self.environment, capture_output=True, text=True, check=True
        ).stdout

    @contextmanager
    def running(self, command: str) -> Iterator[Path]:
        """Let a documented command run that ends when it is interrupted; yields the file with what it prints."""
        assert command in DOCUMENTED, f"no page shows: {command}"
        log = self.folder / f"running-{next(self._numbers)}.log"
        environment = {**self.environment, "PYTHONFAULTHANDLER": "1"}
        with log.open("wb") as out:
            process = subprocess.Popen(command.split(), cwd=self.folder, env=environment, stdout=out, stderr=out)
        try:
            yield log
            assert process.poll() is None, f"$ {command}\n{log.read_text()[-3000:]}"
            process.send_signal(signal.SIGINT)
            assert process.wait(30) in (0, 130), f"$ {command}\n{log.read_text()[-3000:]}"
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGABRT)  # it prints where its threads are
            process.wait(30)
            raise AssertionError(f"$ {command} did not end\n{log.read_text()[-6000:]}") from None
        except BaseException as error:
            error.add_note(f"$ {command}\n{log.read_text()[-3000:]}")
            raise
        finally:
            process.kill()
            process.wait()
