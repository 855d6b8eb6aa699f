"""`make rules`: what is promised about a word, and where that is tested."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests import rules

PIPED = [
    "tests/b/test_x.py:1: A gang leaves. As a whole, and nobody is removed before the last mark is written.",
    "tests/b/test_x.py:10: Nobody said why.",
]
NARROW = """\
tests/a/test_y.py
    1  It waits. For its turn.

tests/b/test_x.py
    1  A gang leaves. As a whole, and nobody is removed before the last mark is
       written.
   10  Nobody said why.
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Three rules in two files, and functions that are none."""
    for folder in ("a", "b"):
        (tmp_path / "tests" / folder).mkdir(parents=True)
    (tmp_path / "tests" / "a" / "test_y.py").write_text('async def test_it_waits():\n    """For its turn."""\n')
    (tmp_path / "tests" / "a" / "helper.py").write_text(
        'def test_less():\n    """No test: not in a file of tests."""\n'
    )
    (tmp_path / "tests" / "b" / "test_x.py").write_text(
        '''def test_a_gang_leaves():
    """As a whole, and nobody is removed before the last mark
    is written.

    What else there is to say.
    """

def helper():
    """No test."""
def test_nobody_said_why(): ...
'''
    )
    return tmp_path


@pytest.mark.parametrize(
    ("words", "found"),
    [([], 3), (["nobody"], 2), (["NOBODY", "mark"], 1), (["gang leaves"], 1), (["else"], 0), (["no test"], 0)],
)
def test_a_rule_has_all_of_the_words(root: Path, words: list[str], found: int) -> None:
    """In its test's name or in its sentence, in any case; what else the docstring says does not count."""
    assert len(rules.matching(words, root)) == found


def test_rules_are_one_line_each_when_piped(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """File, line and text, as grep prints what it finds."""
    assert rules.main(["nobody"], root) == 0
    assert capsys.readouterr().out.splitlines() == PIPED


def test_rules_are_wrapped_on_a_terminal(root: Path) -> None:
    """Below the name of their file, no line longer than 80 columns."""
    assert "\n".join(rules.lines(rules.matching([], root), 80)) + "\n" == NARROW


def test_no_rule_is_an_error(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It is said on standard error, and the exit code is 1."""
    assert rules.main(["zebra", "gang"], root) == 1
    assert capsys.readouterr() == ("", "no test's rule has 'zebra' and 'gang'\n")


def test_words_are_not_taken_for_targets() -> None:
    """`make rules check help` runs nothing but the search, though both are targets."""
    made = subprocess.run(
        ["make", "--no-print-directory", f"PYTHON={sys.executable}", "rules", "check", "help"],
        cwd=rules.ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert [line for line in made.stdout.splitlines() if "tests/test_rules.py" in line]
    assert all("check" in line.lower() and "help" in line.lower() for line in made.stdout.splitlines())


def test_every_rule_has_its_sentence() -> None:
    """No test is without a docstring, and each is found."""
    found = rules.matching([])
    assert len(found) > 1000
    assert [f"{r.file}:{r.line}" for r in found if r.text.endswith(". ") or ". " not in r.text] == []
