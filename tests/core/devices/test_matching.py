"""Selectors are evaluated once for devices that do not differ in what these read."""

from __future__ import annotations

import random

import pytest

from gangsched.core.devices.matching import Matches, read_by
from gangsched.model.cel import EvaluationError, ExpressionError, compile_selector
from gangsched.model.devices import Device
from tests.core.devices.worlds import GPU, device, pool

A, C = f"device.attributes['{GPU}']", f'device.capacity["{GPU}"]'
PLAIN = [
    f"device.driver == '{GPU}'",
    f"{A}.model == 'a'",
    f'{A}.model == "a" && {A}.index < 2',
    f"{A}.index != 1 || {A}.other == 'x'",
    f"!({A}.fast) && {C}.memory.compareTo(quantity('40Gi')) >= 0",
    f"{A}.model == 1",
    "device.attributes['other.example.com'].model == 'b'",
]
OTHERS = [
    f"{A}['mo' + 'del'] == 'a'",
    f"{A}[{A}.key] == 'a'",
    f"'model' in {A}",
    f"{A}.exists(k, k == 'index')",
    f"has({A}.model)",
    f"{A}['\\x6dodel'] == 'a'",
]


def expected(text: str, of: Device) -> bool | str:
    """The answer of the selector itself."""
    try:
        return compile_selector(text).matches(of.seen)
    except (EvaluationError, ExpressionError) as error:
        return str(error)


def drawn(rng: random.Random, name: str) -> Device:
    """A device with some of the attributes."""
    some = {"model": rng.choice("ab"), "index": rng.randint(0, 3), "fast": rng.random() < 0.5, "key": "model"}
    kept = {key: value for key, value in some.items() if rng.random() < 0.8}
    if rng.random() < 0.3:
        kept["other.example.com/model"] = rng.choice("ab")
    return pool("n", device(name, memory=rng.choice(["", "40Gi", "80Gi"]), **kept)).devices[0]


@pytest.mark.parametrize("text", [*PLAIN, *OTHERS])
def test_answers_are_those_of_the_selector(text: str) -> None:
    """Whatever was asked before."""
    rng, matches = random.Random(text), Matches()
    for number in range(200):
        of = drawn(rng, f"d{number}")
        assert matches.all((text,), of) == expected(text, of)


def test_plain_selectors_are_known() -> None:
    """Any other may read what its text does not show."""
    assert [text for text in PLAIN if read_by(text) is None] == []
    assert [text for text in OTHERS if read_by(text) is not None] == []
