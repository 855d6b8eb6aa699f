"""Examples in which single values are at their extremes are planned, or refused in words."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.fuzz.__main__ import played
from tests.fuzz.manifests import folders, mutated


@pytest.mark.parametrize("seed", [*range(60), 2061, 2939, 2993])
def test_an_extreme_value_is_planned_or_refused(seed: int, tmp_path: Path) -> None:
    """No value of a manifest ends in a traceback: the answer is one JSON object, with the error where there is one."""
    examples = folders()
    status, answer = played(mutated(examples[seed % len(examples)], seed), tmp_path)
    found = json.loads(answer[answer.index("{") :])
    assert (status, bool(found["error"])) in ((0, False), (2, True))
