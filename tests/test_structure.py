"""How the tests are laid out: helpers are beside them, and a test can be moved or deleted alone."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parent
#: A statement that imports, up to the end of its line or of its brackets.
IMPORT = re.compile(r"^[ \t]*(?:from\s+\S+\s+)?import\s+(?:\([^)]*\)|.*)", re.MULTILINE)
FILES = sorted(TESTS.rglob("*.py"))


def imported(tree: ast.AST) -> Iterator[str]:
    """Every module that a file imports, and every name that it imports from one, with dots."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{each.name}" for each in node.names)


def modules_of_tests(names: Iterator[str]) -> list[str]:
    """Modules of tests among imported names."""
    return [n for n in names if n.startswith("tests.") and any(part.startswith("test_") for part in n.split("."))]


def may_import_one(text: str) -> bool:
    """Return whether it is worth the time to take a file apart: one of its statements that import names a test."""
    return any("test_" in each for each in IMPORT.findall(text))


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("from tests.core.test_x import a", ["tests.core.test_x.a"]),
        ("from tests.core import test_x", ["tests.core.test_x"]),
        ("def f():\n    import tests.core.test_x", ["tests.core.test_x"]),
        ("from tests.core.stories import a", []),
        ("from tests.core import (\n    other,\n    test_x,\n)", ["tests.core.test_x"]),
        ("import test_x", []),
    ],
)
def test_an_imported_test_is_seen(line: str, found: list[str]) -> None:
    """However it is imported, and nothing else is taken for one."""
    assert modules_of_tests(imported(ast.parse(line))) == found
    assert may_import_one(line) or not found


def test_no_test_imports_another() -> None:
    """What two files need is in a helper beside them."""
    texts = {str(path.relative_to(TESTS)): path.read_text() for path in FILES}
    found = {name: modules_of_tests(imported(ast.parse(text))) for name, text in texts.items() if may_import_one(text)}
    assert {name: tests for name, tests in found.items() if tests} == {}
