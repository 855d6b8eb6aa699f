"""Every test's rule, in one sentence: what this scheduler promises, and where that is tested.

``make rules WORD...`` lists the rules that have all of the words, and ``make rules`` all of them.
"""

from __future__ import annotations

import ast
import itertools
import os
import shutil
import sys
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
NARROWEST = 40


@dataclass(frozen=True, slots=True)
class Rule:
    """What a test's name says, which is often what its sentence is about, and the sentence, on one line."""

    file: str
    line: int
    text: str

    def matches(self, words: Iterable[str]) -> bool:
        """Whether all words are in the text, in whatever case, also as parts of words."""
        return all(word.lower() in self.text.lower() for word in words)


def rules_in(path: Path, root: Path = ROOT) -> Iterator[Rule]:
    """The rules of a file of tests: each test's name in words, and the first paragraph of its docstring."""
    outer = ast.parse(path.read_text()).body
    for node in itertools.chain(outer, *(each.body for each in outer if isinstance(each, ast.ClassDef))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
            name = node.name.removeprefix("test_").replace("_", " ")
            said = (ast.get_docstring(node) or "").partition("\n\n")[0]
            text = f"{name[:1].upper()}{name[1:]}. {said}"
            yield Rule(path.relative_to(root).as_posix(), node.lineno, " ".join(text.split()))


def matching(words: Sequence[str], root: Path = ROOT) -> list[Rule]:
    """The rules of all tests below a folder that have all of the words, by file and line."""
    found = (rule for path in sorted((root / "tests").rglob("test_*.py")) for rule in rules_in(path, root))
    return sorted((r for r in found if r.matches(words)), key=lambda r: (r.file, r.line))


def lines(rules: Iterable[Rule], columns: int | None) -> Iterator[str]:
    """What is printed: on a terminal rules below their file's name, wrapped; else one line each, as grep prints it."""
    file = ""
    for rule in rules:
        if columns is None:
            yield f"{rule.file}:{rule.line}: {rule.text}"
            continue
        if rule.file != file:
            yield from ("",) if file else ()
            yield (file := rule.file)
        number = f"{rule.line:5}  "
        yield from textwrap.wrap(
            rule.text,
            max(NARROWEST, columns),
            initial_indent=number,
            subsequent_indent=" " * len(number),
            break_on_hyphens=False,
        )


def main(words: Sequence[str], root: Path = ROOT) -> int:
    """Print the rules that match; 1 if there are none."""
    rules = matching(words, root)
    if not rules:
        print(f"no test's rule has {' and '.join(map(repr, words)) or 'any word'}", file=sys.stderr)
        return 1
    columns = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    try:
        for line in lines(rules, columns):
            print(line)
        sys.stdout.flush()
    except BrokenPipeError:  # as in `make rules evict | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
