"""Commands about everyday clusters answer in words, within a minute, and always the same."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.amounts import amount
from tests.everyday.answers import answers


@pytest.mark.parametrize("seed", range(amount(60, 8)))
def test_commands_answer(seed: int) -> None:
    """None of `plan`, `get`, `explain` and `init` ends in a traceback, in silence, or after more than a minute."""
    assert answers(seed)[0] == []


def test_answers_are_the_same_again_and_under_other_hash_seeds() -> None:
    """A second time in one process, and in two others."""
    program = "from tests.everyday.answers import answers\nfor seed in (3, 11): print(answers(seed)[1])"
    command = [sys.executable, "-c", program]
    others = [
        subprocess.run(
            command, env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, text=True, check=True, timeout=300
        ).stdout.split()
        for seed in ("1", "2")
    ]
    here = [answers(seed)[1] for seed in (3, 11)]
    assert [*others, [answers(seed)[1] for seed in (3, 11)]] == [here, here, here]
