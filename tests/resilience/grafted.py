"""Run pytest as if some source files had other texts: ``python -m tests.resilience.grafted ARGUMENTS < texts.json``.

Nothing is written and nothing copied: modules of these files are made of the texts that standard input gives (JSON:
path from here to text), all others come from where they always do, compiled already.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import spec_from_file_location
from pathlib import Path
from types import ModuleType

import msgspec
import pytest


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


if __name__ == "__main__":
    sys.meta_path.insert(0, Grafts(msgspec.json.decode(sys.stdin.buffer.read(), type=dict[str, str]), Path.cwd()))
    sys.exit(pytest.main(sys.argv[1:]))
