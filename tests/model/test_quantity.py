"""Quantities as the API server reads them."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gangsched.model.errors import FieldError
from gangsched.model.quantity import MAX_BASE_UNITS, base_units, integer, parse, render

SUFFIXES = {
    "": Fraction(1),
    "m": Fraction(1, 1000),
    "u": Fraction(1, 10**6),
    "n": Fraction(1, 10**9),
    "k": Fraction(10**3),
    "M": Fraction(10**6),
    "G": Fraction(10**9),
    "T": Fraction(10**12),
    "Ki": Fraction(2**10),
    "Mi": Fraction(2**20),
    "Gi": Fraction(2**30),
    "Ti": Fraction(2**40),
    "e3": Fraction(10**3),
    "E-2": Fraction(1, 100),
}


@pytest.mark.parametrize(
    ("resource", "raw", "units"),
    [
        ("cpu", "250m", 250),
        ("cpu", 2, 2000),
        ("cpu", 0.1, 100),
        ("cpu", "0.1m", 1),
        ("cpu", "1e1", 10_000),
        ("cpu", "+.5", 500),
        ("memory", "1.5Gi", 1_610_612_736),
        ("memory", "1Mi", 1_048_576),
        ("memory", "128974848000m", 128_974_848),
        ("memory", "1.0000001k", 1001),
        ("nvidia.com/gpu", "8", 8),
        ("memory", "5.", 5),
        ("memory", "0", 0),
        ("memory", "1E", 10**18),
    ],
)
def test_base_units(resource, raw, units):
    """Each form of a quantity becomes whole base units, rounded up."""
    if units > MAX_BASE_UNITS:
        with pytest.raises(FieldError, match="larger"):
            base_units(resource, raw)
    else:
        assert base_units(resource, raw) == units


@pytest.mark.parametrize(
    "raw",
    [
        "",
        " 1",
        "1 ",
        "four",
        "1Kib",
        "1KI",
        "1 Gi",
        "--1",
        "1e",
        "1e100",
        "0x10",
        "1_000",
        "٣",
        ".",
        "1.5.2",
        "nan",
        "inf",
    ],
)
def test_what_is_no_quantity_is_refused(raw):
    """Text that the API server refuses is refused, with the text and examples in the message."""
    with pytest.raises(FieldError) as caught:
        base_units("cpu", raw)
    assert repr(raw) in caught.value.message
    assert "500m" in caught.value.message


@pytest.mark.parametrize("raw", [True, None, [], {}])
def test_values_of_other_types_are_refused(raw):
    """A truth value, nothing, a list or a mapping is no quantity, even though Python counts True as 1."""
    with pytest.raises(FieldError, match="not a quantity"):
        parse(raw)


def test_negative_amounts_are_refused():
    """No pod asks for less than nothing."""
    with pytest.raises(FieldError, match="negative"):
        base_units("cpu", "-1")


def test_the_largest_exact_amount_is_accepted_and_the_next_is_not():
    """The bound is that of exact float64 arithmetic."""
    assert base_units("memory", MAX_BASE_UNITS) == MAX_BASE_UNITS
    with pytest.raises(FieldError, match="larger"):
        base_units("memory", MAX_BASE_UNITS + 1)


@given(
    whole=st.integers(0, 10**6),
    fraction=st.text("0123456789", max_size=12),
    suffix=st.sampled_from(sorted(SUFFIXES)),
    resource=st.sampled_from(["cpu", "memory"]),
)
def test_base_units_is_the_exact_value_rounded_up(whole, fraction, suffix, resource):
    """Whatever the digits and suffix, the result is the exact rational value, rounded up once."""
    text = f"{whole}.{fraction}" if fraction else str(whole)
    exact = (Fraction(whole) + (Fraction(int(fraction), 10 ** len(fraction)) if fraction else 0)) * SUFFIXES[suffix]
    expected = math.ceil(exact * 1000 if resource == "cpu" else exact)
    if expected <= MAX_BASE_UNITS:
        assert base_units(resource, text + suffix) == expected


@pytest.mark.parametrize(
    ("text", "label", "taint"),
    [
        ("5", 5, 5),
        ("-5", -5, -5),
        ("0", 0, 0),
        ("+5", 5, None),
        ("05", 5, None),
        ("-0", 0, None),
        ("1_0", None, None),
        (" 5", None, None),
        ("\u0665", None, None),
        ("", None, None),
        ("9223372036854775807", 2**63 - 1, 2**63 - 1),
        ("9223372036854775808", None, None),
    ],
)
def test_integers_that_are_compared(text, label, taint):
    """Labels and taints are read as the API server reads them: 64 bits, no underscores, taints in canonical form."""
    assert integer(text) == label
    assert integer(text, canonical=True) == taint


@given(st.text(max_size=20) | st.floats() | st.integers())
def test_any_value_is_a_quantity_or_a_field_error(raw):
    """Nothing but FieldError comes out of hostile input."""
    try:
        units = base_units("cpu", raw)
    except FieldError:
        return
    assert 0 <= units <= MAX_BASE_UNITS


@given(st.integers(0, 10**9))
def test_rendered_cpu_is_read_back(units):
    """What is printed for cpu means the same when it is typed in again, up to six digits."""
    assert base_units("cpu", render("cpu", units)) == pytest.approx(units, rel=1e-5)


@pytest.mark.parametrize(
    ("resource", "units", "text"),
    [
        ("cpu", 3500, "3.5"),
        ("cpu", 4000, "4"),
        ("memory", 2**30, "1Gi"),
        ("memory", 500, "500"),
        ("hugepages-2Mi", 2**21, "2Mi"),
        ("nvidia.com/gpu", 8, "8"),
    ],
)
def test_render(resource, units, text):
    """Amounts are printed as people write them."""
    assert render(resource, units) == text
