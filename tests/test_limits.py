"""`.ci/limits.py`: exceptions to limits are counted, and only become fewer."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PROJECT = """
[tool.limits]
C901 = 2
PLR0913 = 1
imports = 1
circles = 3

[[tool.importlinter.contracts]]
ignore_imports = ["a -> b"]
"""
SOURCE = """
from typing import TYPE_CHECKING
if TYPE_CHECKING:
    from gangsched import b
def f():  # noqa: C901, PLR0913
    return "# noqa: C901"
def g():  # noqa: C901
    return
"""


def limits(root: Path) -> subprocess.CompletedProcess[str]:
    """The script on another tree."""
    return subprocess.run([sys.executable, ROOT / ".ci/limits.py", root], capture_output=True, text=True, check=False)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Three exceptions in two functions, one import, and three modules that import each other."""
    (tmp_path / "pyproject.toml").write_text(PROJECT)
    (tmp_path / "gangsched").mkdir()
    (tmp_path / "gangsched" / "a.py").write_text(SOURCE)
    (tmp_path / "gangsched" / "__init__.py").write_text("from gangsched.a import f\n")
    (tmp_path / "gangsched" / "b.py").write_text("import gangsched.c\n")
    (tmp_path / "gangsched" / "c.py").write_text("def late():\n    from gangsched.a import f\n")
    (tmp_path / "gangsched" / "d.py").write_text("from gangsched.a import f\nfrom gangsched import e\n")
    (tmp_path / "gangsched" / "e.py").write_text("")
    return tmp_path


def test_as_many_as_were_said(tree: Path) -> None:
    """Nothing is wrong, and nothing is said; a text that reads like a comment is none."""
    done = limits(tree)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize(
    ("code", "said", "hint"),
    [
        ("C901", 1, "C901: 1 exceptions are allowed, 2 are made: mend what is new"),
        ("PLR0913", 2, 'PLR0913: 2 exceptions are allowed, 1 are made: write "PLR0913 = 1", so that it stays so'),
        ("imports", 0, "imports: 0 exceptions are allowed, 1 are made: mend what is new"),
        (
            "circles",
            2,
            (
                "circles: 2 exceptions are allowed, 3 are made: mend what is new\n"
                "  gangsched.a\n  gangsched.b\n  gangsched.c"
            ),
        ),
    ],
)
def test_one_more_or_one_less(tree: Path, code: str, said: int, hint: str) -> None:
    """Both fail, and say what to do."""
    project = tree / "pyproject.toml"
    now = tomllib.loads(PROJECT)["tool"]["limits"][code]
    project.write_text(PROJECT.replace(f"{code} = {now}", f"{code} = {said}"))
    done = limits(tree)
    assert done.returncode == 1
    assert done.stdout == f"pyproject.toml: tool.limits.{hint}\n"


def test_every_limit_is_a_rule_that_is_on() -> None:
    """None of those that are counted is ignored as a whole."""
    tool = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]
    assert set(tool["limits"]) >= {"C901", "PLR0912", "PLR0913", "PLR0915"}
    assert not set(tool["limits"]) & set(tool["ruff"]["lint"]["ignore"])
    assert not set(tool["limits"]) & {c for codes in tool["ruff"]["lint"]["per-file-ignores"].values() for c in codes}
