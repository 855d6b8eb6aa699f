"""docs/internals/resilience.md names the tests of each promise: they exist."""

from __future__ import annotations

import ast
import re
from pathlib import Path

TESTS = Path(__file__).resolve().parent
NAMED = re.compile(r"`([\w/]+\.py)::(test_\w+)`")


def test_the_tests_that_the_table_names_exist() -> None:
    """Each is a function of the file that is named, and no line is without one."""
    text = (TESTS.parent / "docs" / "internals" / "resilience.md").read_text()
    section = text.partition("## What is tested where\n")[2].partition("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("| ") and line != "| what | tests |"]
    assert rows
    for row in rows:
        named = NAMED.findall(row)
        assert named, row
        for path, name in named:
            found = ast.walk(ast.parse((TESTS / path).read_text()))
            assert name in {n.name for n in found if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)}, row
