"""What SECURITY.md promises, sentence by sentence, and the tests that hold it (``tests/security.txt``)."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tests.pages import ROOT, text_of

#: A sentence that promises nothing, with the reason, is listed so.
NO_PROMISE = "no promise: "
_END = re.compile(r"(?<=[a-z`)*][.])\s+(?=[A-Z*`\[])")


def sentences(text: str) -> Iterator[str]:
    """The sentences of a page in order, each on one line: of paragraphs, items of lists and rows of tables, without
    headings and what is to be typed.
    """
    text = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    blocks = re.split(r"\n\s*\n|\n(?=- )|\n(?=\|)", text)
    for block in blocks:
        line = " ".join(block.split()).removeprefix("- ")
        if not line or line.startswith("#") or set(line) <= set("|- "):
            continue
        yield from [line] if line.startswith("|") else _END.split(line)


def held() -> dict[str, list[str]]:
    """By sentence the tests that hold it, as ``path::name``, or why it promises nothing."""
    found: dict[str, list[str]] = {}
    of: list[str] = []
    for line in text_of("tests/security.txt").splitlines():
        if line.startswith("    "):
            of.append(line.strip())
        elif line and not line.startswith("# "):
            assert line not in found, f"twice: {line}"
            of = found.setdefault(line, [])
    return found


@cache
def tests_of(path: Path) -> frozenset[str]:
    """The names of the tests in a file."""
    functions = (
        n for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)
    )
    return frozenset(each.name for each in functions if each.name.startswith("test_"))


def exists(test: str) -> bool:
    """Whether there is a test of this name, given as ``path::name``."""
    path, _, name = test.partition("::")
    return (ROOT / path).is_file() and name in tests_of(ROOT / path)
