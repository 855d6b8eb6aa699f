"""Run pytest again and again, each time as if some source files had other texts.

``python -m tests.resilience.grafted``: each line of standard input is a :class:`Task`, each line of standard output its
:class:`Done`. Nothing is written and nothing copied: modules of these files are made of the given texts, all others
come from where they always do, compiled already. Every run is a fork of a process in which the libraries have been
imported, and nothing of this project has: they take longer than most of the tests.
"""

from __future__ import annotations

import importlib
import os
import sys
import tempfile
import traceback
from collections.abc import Mapping, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import spec_from_file_location
from pathlib import Path
from types import ModuleType

import msgspec
import pytest

#: What nearly all tests need. Plug-ins of pytest are not among it: it imports them in its own way, and would find fault
#: with ``hypothesis``, which has one, if it looked for plug-ins by itself.
LIBRARIES = (
    "aiohttp",
    "asyncio",
    "cryptography.x509",
    "hypothesis",
    "numpy",
    "prometheus_client",
    "rich.console",
    "ssl",
    "structlog",
    "unittest.mock",
    "yaml",
)


class Task(msgspec.Struct, frozen=True):
    """``texts``: path from here to text; ``arguments`` are those of pytest."""

    texts: dict[str, str]
    arguments: tuple[str, ...]


class Done(msgspec.Struct, frozen=True):
    """How pytest ended (negative: by that signal), and all that it printed."""

    code: int
    output: str


class _Text(SourceFileLoader):
    """A module whose source is this text, whatever its file says."""

    def __init__(self, name: str, path: str, text: str) -> None:
        super().__init__(name, path)
        self._text = text

    def get_data(self, path: str) -> bytes:
        return self._text.encode()

    def path_stats(self, path: str) -> Mapping[str, float]:
        raise OSError("what has been compiled of the file is of another text")


class Grafts(MetaPathFinder):
    """Finds the modules of files (paths from ``root``) with other texts."""

    def __init__(self, texts: Mapping[str, str], root: Path) -> None:
        self._found = {_module(file): (str(root / file), text) for file, text in texts.items()}

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The module of the other text; None: it is no such module."""
        if fullname not in self._found:
            return None
        file, text = self._found[fullname]
        return spec_from_file_location(fullname, file, loader=_Text(fullname, file, text))


def _module(file: str) -> str:
    return file.removesuffix(".py").replace("/", ".")


def run(task: Task) -> Done:
    """Carry out one task in a process of its own."""
    with tempfile.TemporaryFile() as output:
        child = os.fork()
        if not child:
            code = 3  # as pytest's: an error of the runner's own
            try:
                for stream in (1, 2):
                    os.dup2(output.fileno(), stream)
                sys.meta_path.insert(0, Grafts(task.texts, Path.cwd()))
                code = int(pytest.main(list(task.arguments)))
            finally:  # nothing may go on in the copy of the server
                if sys.exc_info()[0] is not None:
                    traceback.print_exc()
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(code)
        _, status = os.waitpid(child, 0)
        output.seek(0)
        return Done(os.waitstatus_to_exitcode(status), output.read().decode(errors="replace"))


if __name__ == "__main__":
    for library in LIBRARIES:
        importlib.import_module(library)
    for line in sys.stdin.buffer:
        sys.stdout.buffer.write(msgspec.json.encode(run(msgspec.json.decode(line, type=Task))) + b"\n")
        sys.stdout.buffer.flush()
