"""Selectors in CEL: the same answers as Kubernetes' own evaluator, and no expression that holds up the scheduler."""

from __future__ import annotations

import random
import re
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gangsched.model import cel
from gangsched.model.cel.regex import compile_regex
from gangsched.model.cel.values import Semver
from tests.devices import oracle
from tests.devices.expressions import REGEXES, Expressions, device, devices

GPU = cel.Device(
    "gpu.example.com", {"model": "H100", "index": 5, "version": Semver(1, 2, 3), "nic.example.com/root": "r1"}
)


def answer(expression: str, of: cel.Device) -> bool | str:
    """What a selector says of a device: the name of the error, if it is one."""
    try:
        return cel.compile_selector(expression).matches(of)
    except (cel.EvaluationError, cel.ExpressionError) as error:
        return type(error).__name__


@pytest.mark.controlplane
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_random_expressions_are_answered_as_kubernetes_does(seed: int) -> None:
    """Each expression gives each device the answer that upstream gives: true, false or an error."""
    rng = random.Random(seed)
    made = Expressions(rng)
    asked: list[dict[str, Any]] = [
        {"cel": made.boolean(rng.randint(1, 3)), "devices": devices(rng, 4)} for _ in range(1_000)
    ]
    wrong = []
    for question, found in zip(asked, oracle.ask(asked), strict=True):
        ours = [answer(question["cel"], device(each)) for each in question["devices"]]
        if found.get("compile"):
            right = ours[0] in {"ExpressionError", "UnsupportedExpressionError"}
        else:
            right = all(map(_agree, ours, found["matches"]))
        if not right:
            wrong.append((question["cel"], found.get("compile") or found["matches"], ours))
    assert wrong == []


def _agree(ours: bool | str, theirs: bool | str) -> bool:
    if isinstance(theirs, bool):
        return ours is theirs
    # An internal error of theirs is a fault: it looks a version up in a set of strings.
    return ours == "EvaluationError" or theirs.startswith("internal error")


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("device.driver == 'gpu.example.com'", True),
        ("device.attributes['gpu.example.com'].model.startsWith('H')", True),
        ("device.attributes['gpu.example.com'].index > 4.5", True),
        ("device.attributes['gpu.example.com'].version.isLessThan(semver('2.0.0'))", True),
        ("device.attributes['nic.example.com'].root == 'r1'", True),
        ("device.attributes['gpu.example.com'].?absent.orValue('x') == 'x'", True),
        ("device.attributes['absent.example.com'].x == 1", "EvaluationError"),
        ("device.attributes['absent.example.com'].x == 1 || true", True),
        ("has(device.attributes['absent.example.com'].x)", False),
        ("device.capacity['gpu.example.com'].memory.isGreaterThan(quantity('1Gi'))", "EvaluationError"),
        ("device.attributes['gpu.example.com'].model", "EvaluationError"),
        ("device.nosuch", "ExpressionError"),
        ("1", "ExpressionError"),
        ("'H100'.matches('(')", "ExpressionError"),
        ("device.driver == 5", "ExpressionError"),
        ("device.driver.", "ExpressionError"),
        ("'a", "ExpressionError"),
        ("", "ExpressionError"),
        ("ip('10.0.0.1') == ip('10.0.0.1')", "UnsupportedExpressionError"),
        ("[1].transformList(i, v, v) == [1]", "UnsupportedExpressionError"),
    ],
)
def test_answers(expression: str, expected: bool | str) -> None:
    """Attributes are found under their domain; what is missing is an error that a deciding side absorbs."""
    assert answer(expression, GPU) == expected


def test_what_is_not_supported_is_named() -> None:
    """A function that may be valid elsewhere is named in the refusal."""
    with pytest.raises(cel.UnsupportedExpressionError, match=r"function url\(\)"):
        cel.compile_selector("url('x') == url('y')")


@pytest.mark.parametrize(
    "expression",
    [
        "".join(f"[1,2,3,4,5,6,7,8,9,10].all(x{i}, " for i in range(7)) + "true" + ")" * 7,
        "'" + "a" * 5_000 + "'.matches('" + "(a|b)*" * 100 + "c')",
    ],
    ids=["nested loops", "regular expression"],
)
def test_an_evaluation_takes_a_bounded_number_of_steps(expression: str) -> None:
    """An expression that would run for long fails instead: it fails the pod that asks and nothing else."""
    assert answer(expression, GPU) == "EvaluationError"


@pytest.mark.parametrize("expression", ["(" * 100 + "true" + ")" * 100, "!" * 9_999 + "true", "[" * 70 + "]" * 70])
def test_deep_nesting_is_answered(expression: str) -> None:
    """No expression exhausts the stack."""
    assert answer(expression, GPU) in {True, False, "UnsupportedExpressionError", "ExpressionError"}


def test_long_expressions_are_refused() -> None:
    """At most 10 KiB, as the API server allows."""
    at_most = "true" + " " * (10 * 1024 - 4)
    assert answer(at_most, GPU) is True
    assert answer(at_most + " ", GPU) == "ExpressionError"


@given(st.text(alphabet="aAb.c180gb-\n h_", max_size=12), st.sampled_from(REGEXES))
@example("aaaa", "x*")
def test_regular_expressions_find_what_others_find(text: str, pattern: str) -> None:
    """The first match begins and ends where that of a backtracking matcher does."""
    found = re.search(pattern.replace("(?i)", ""), text, re.IGNORECASE if "(?i)" in pattern else 0)
    at_end = pattern.endswith("$") and text.endswith("\n")  # Python lets $ match before the last line feed
    if not at_end:
        assert compile_regex(pattern).find(text) == (found.span() if found is not None else None)


def test_regular_expressions_take_linear_time() -> None:
    """Nested repetitions, which make backtracking matchers run for years, are answered."""
    assert compile_regex("(a+)+$").find("a" * 2_000 + "b") is None
    assert compile_regex("(a|a)*b").find("a" * 2_000) is None


@pytest.mark.parametrize("pattern", ["(?=a)", "\\pN", "[[:alpha:]]", "a{1,2000}", "(a", "a)", "[z-a]", "*a", "a**"])
def test_regular_expressions_that_are_not_read(pattern: str) -> None:
    """What is invalid or not supported is an error in compiling."""
    with pytest.raises(cel.ExpressionError):
        compile_regex(pattern)


@given(st.text(alphabet="!&|=<>()[]{}?:.,'\"\\ abr01u-+*/%`\n", max_size=30))
def test_any_text_is_answered(text: str) -> None:
    """Whatever is written, the answer is a value or one of the declared errors."""
    answer(text, GPU)
