"""Each safeguard is removed once, and the test that is there for it fails."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from tests.resilience import mutants
from tests.resilience.mutants import MUTANTS, Mutant, MutantError, Runner

#: The others start an API server of their own each, which takes longer than all of these.
FAST = [mutant for mutant in MUTANTS if not mutant.plane]


@pytest.fixture(scope="module")
def runner() -> Iterator[Runner]:
    """What runs the tests on other sources."""
    with Runner() as made:
        yield made


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda m: m.name)
def test_the_source_is_as_the_mutants_expect(mutant: Mutant) -> None:
    """The lines that a mutant replaces are there exactly once, and the new text is another that can be compiled."""
    for file, text in mutants.changed(mutant).items():
        assert text != (mutants.ROOT / file).read_text()
        compile(text, file, "exec")


def test_a_mutant_of_lines_that_are_not_there_is_refused() -> None:
    """Else it would be the source as it is, and its tests would say nothing."""
    with pytest.raises(MutantError, match=r"x: gangsched/__init__.py has 0 times 'no such line', not once"):
        mutants.changed(Mutant("x", (("gangsched/__init__.py", "no such line", ""),), ()))


def test_a_mutant_that_crashes_is_refused(runner: Runner) -> None:
    """It does not show that anybody would notice what is missing."""
    crash = ("gangsched/core/state/membership.py", "return min(out or others, default=0)", "return no_such_name")
    with pytest.raises(MutantError, match=r"x: a crash, .*(.|\n)*NameError: name 'no_such_name' is not defined"):
        runner.run(Mutant("x", (crash,), ("tests/core/preemption/test_lowest_priority.py",)))


@pytest.mark.parametrize("mutant", FAST, ids=lambda m: m.name)
def test_a_missing_safeguard_is_noticed(runner: Runner, mutant: Mutant) -> None:
    """Without it the test that the mutant names fails."""
    assert runner.run(mutant).killed


def test_nothing_is_noticed_where_nothing_is_missing(runner: Runner) -> None:
    """The same tests, run in the same way on the source as it is, all pass."""
    verdict = runner.unchanged(FAST)
    assert not verdict.killed, verdict.by


def test_the_documentation_names_the_tests_that_notice() -> None:
    """Those and no others, in its table of mutants."""
    text = (
        (mutants.ROOT / "docs" / "internals" / "resilience.md")
        .read_text()
        .partition("### Mutants\n")[2]
        .partition("\n#")[0]
    )
    noticing = {test.partition("::")[2] for mutant in MUTANTS for test in mutant.tests}
    assert set(re.findall(r"`(test_\w+)`", text)) == noticing
