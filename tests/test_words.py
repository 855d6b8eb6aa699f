"""Plain words: what the pages, the texts and the comments of the product do not say."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.pages import PAGES, ROOT, text_of, without_code

BANNED = [line for line in text_of("tests/banned_phrases.txt").splitlines() if line and not line.startswith("#")]
ANY = re.compile("|".join(f"(?:{phrase})" for phrase in BANNED), re.IGNORECASE)


def prose(source: str) -> Iterator[str]:
    """Comments, and what stands in string constants: names in code are no prose."""
    comments = tokenize.generate_tokens(io.StringIO(source).readline)
    yield " ".join(token.string.lstrip("# ") for token in comments if token.type == tokenize.COMMENT)
    for each in ast.walk(ast.parse(source)):
        if isinstance(each, ast.Constant) and isinstance(each.value, str) and " " in each.value:
            yield re.sub(r"``[^`]+``", "…", each.value)


def found(texts: Iterator[str]) -> list[str]:
    """What is banned in these texts, however their lines are broken."""
    return [match[0] for text in texts for match in ANY.finditer(" ".join(text.split()))]


@pytest.mark.parametrize("path", [*PAGES, ROOT / "SECURITY.md"], ids=lambda path: str(path.relative_to(ROOT)))
def test_pages_use_the_words_of_kubernetes(path: Path) -> None:
    """No page has a phrase that users stumbled over."""
    assert found(iter([re.sub(r"`[^`]+`", "…", without_code(path.read_text()))])) == []


def test_texts_and_comments_use_the_words_of_kubernetes() -> None:
    """Nor has any message, docstring or comment of the product, or any example or manifest."""
    files = sorted((ROOT / "gangsched").rglob("*.py"))
    assert len(files) > 100
    wrong = {str(path.relative_to(ROOT)): found(prose(path.read_text())) for path in files}
    for folder in ("examples", "manifests"):
        for path in sorted((ROOT / folder).rglob("*.yaml")):
            wrong[str(path.relative_to(ROOT))] = found(iter([path.read_text()]))
    assert {name: phrases for name, phrases in wrong.items() if phrases} == {}


def questions(source: str) -> list[str]:
    """Docstrings whose first sentence is a question."""
    definitions = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    docs = (ast.get_docstring(each) or "" for each in ast.walk(ast.parse(source)) if isinstance(each, definitions))
    return [first for first in (re.split(r"(?<=[.?!])\s", doc.strip())[0] for doc in docs) if first.endswith("?")]


def test_docstrings_are_statements() -> None:
    """No docstring of the product begins with a question: write "Return True if …"."""
    found_in = {str(path.relative_to(ROOT)): questions(path.read_text()) for path in (ROOT / "gangsched").rglob("*.py")}
    assert len(found_in) > 100
    assert {name: asked for name, asked in found_in.items() if asked} == {}
    assert questions('def f():\n    """Is it so?\n\n    Yes.\n    """') == ["Is it so?"]


#: Names of functions that nobody can place without reading them.
UNCLEAR = {
    *(
        "again",
        "calm",
        "drop",
        "gone",
        "in_vain",
        "kept",
        "later",
        "look",
        "mention",
        "moved",
        "noted",
        "over",
        "still",
    ),
    *("take", "told", "unname", "ways", "what_of", "wishes_met", "worth_asking"),
}
#: Names that have one meaning, and the files where they have it: the places of a plan, the batches of a cluster.
ONE_MEANING = {
    "settle": {"gangsched/core/preemption/settle.py"},
    "follow": {"gangsched/runtime/connecting.py", "gangsched/cli/ui_sources.py"},
}


def test_functions_are_named_by_what_they_return_or_do() -> None:
    """No function of the product has a name that was not understood; the few others mean one thing."""
    defined: dict[str, set[str]] = {}
    for path in (ROOT / "gangsched").rglob("*.py"):
        for each in ast.walk(ast.parse(path.read_text())):
            if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef):
                defined.setdefault(each.name.strip("_"), set()).add(str(path.relative_to(ROOT)))
    assert {name: defined[name] for name in UNCLEAR & defined.keys()} == {}
    assert {name: defined[name] - files for name, files in ONE_MEANING.items() if defined[name] - files} == {}


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ('"""What the pod\nis told."""', ["told"]),
        ("x = 1  # the pod that speaks\n# for the gang", ["speaks for"]),
        ("told = f'{told} of it'", []),
        ('"""See ``told`` there."""', []),
    ],
)
def test_names_in_code_are_no_prose(source: str, expected: list[str]) -> None:
    """Docstrings, comments and messages are read across line breaks; identifiers are not."""
    assert found(prose(source)) == expected
