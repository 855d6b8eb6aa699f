"""SECURITY.md promises nothing that no test holds."""

from __future__ import annotations

from tests.pages import ROOT
from tests.security import NO_PROMISE, exists, held, sentences


def test_every_sentence_names_the_tests_that_hold_it() -> None:
    """None of the page is without an entry, and no entry is without its sentence."""
    page = list(sentences((ROOT / "SECURITY.md").read_text()))
    assert len(page) > 40
    assert [each for each in page if not held().get(each)] == []
    assert [each for each in held() if each not in page] == []


def test_the_tests_that_are_named_exist() -> None:
    """Each is a function of its file; of what promises nothing the reason is given."""
    named = {test for tests in held().values() for test in tests}
    promises = {test for test in named if not test.startswith(NO_PROMISE)}
    assert len(promises) > 50
    assert [test for test in sorted(promises) if not exists(test)] == []
    assert [line for line in named - promises if len(line) < len(NO_PROMISE) + 5] == []


def test_sentences_are_told_apart() -> None:
    """Of paragraphs, items and rows; neither headings nor commands are any."""
    page = (
        "# Head\n\nOne, e.g. here.\nTwo `x`. Three:\n\n- item. More.\n- other\n\n| a | b |\n|---|---|\n| 1. A | 2 |\n"
    )
    page += "\n```console\n$ command\n```\n"
    assert list(sentences(page)) == [
        "One, e.g. here.",
        "Two `x`.",
        "Three:",
        "item.",
        "More.",
        "other",
        "| a | b |",
        "| 1. A | 2 |",
    ]


def test_a_new_sentence_and_a_test_that_is_gone_are_noticed() -> None:
    """What this file is for."""
    assert not held().get("Nothing can go wrong.")
    assert not exists("tests/test_security.py::test_of_another_name")
    assert not exists("tests/no_such_file.py::test_x")
