"""Label and node selectors."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gangsched.model import wire
from gangsched.model.constraints import Requirement
from gangsched.model.errors import FieldError
from gangsched.model.selectors import (
    any_node_term_matches,
    label_selector,
    node_term,
    node_term_matches,
    requirement_matches,
    selector_matches,
)


def selector(**raw):
    """A label selector from API fields."""
    return label_selector(msgspec.convert(raw, wire.LabelSelector), "spec.selector")


def term(**raw):
    """A node selector term from API fields."""
    return node_term(msgspec.convert(raw, wire.NodeSelectorTerm), "term")


@pytest.mark.parametrize(
    ("operator", "values", "labels", "expected"),
    [
        ("In", ("a", "b"), {"k": "b"}, True),
        ("In", ("a", "b"), {"k": "c"}, False),
        ("In", ("a",), {}, False),
        ("NotIn", ("a",), {"k": "a"}, False),
        ("NotIn", ("a",), {"k": "b"}, True),
        ("NotIn", ("a",), {}, True),
        ("Exists", (), {"k": ""}, True),
        ("Exists", (), {}, False),
        ("DoesNotExist", (), {"k": ""}, False),
        ("DoesNotExist", (), {}, True),
        ("Gt", ("5",), {"k": "6"}, True),
        ("Gt", ("5",), {"k": "5"}, False),
        ("Lt", ("5",), {"k": "-4"}, True),
        ("Lt", ("5",), {"k": "5"}, False),
        ("Lt", ("5",), {"k": "four"}, False),
        ("Gt", ("5",), {}, False),
    ],
)
def test_requirement(operator, values, labels, expected):
    """Every operator, with the label there and not there."""
    assert requirement_matches(Requirement("k", operator, values), labels) is expected


def test_no_selector_selects_nothing_and_an_empty_one_everything():
    """The API makes this difference, and a PodDisruptionBudget depends on it."""
    assert label_selector(None, "x") is None
    assert not selector_matches(None, {"a": "b"})
    assert selector_matches(selector(), {"a": "b"})


def test_all_parts_of_a_selector_must_hold():
    """Both matchLabels and matchExpressions are one conjunction."""
    both = selector(matchLabels={"a": "1"}, matchExpressions=[{"key": "b", "operator": "Exists"}])
    assert selector_matches(both, {"a": "1", "b": ""})
    assert not selector_matches(both, {"a": "1"})
    assert not selector_matches(both, {"b": ""})


@pytest.mark.parametrize(
    ("expression", "field"),
    [
        ({"operator": "Exists"}, "key"),
        ({"key": "a", "operator": "in", "values": ["x"]}, "operator"),
        ({"key": "a", "operator": "Gt", "values": ["1"]}, "operator"),
        ({"key": "a", "operator": "In"}, "values"),
        ({"key": "a", "operator": "Exists", "values": ["x"]}, "values"),
    ],
)
def test_wrong_requirements_are_named(expression, field):
    """What the API server refuses is refused, with the path of the part that is wrong."""
    with pytest.raises(FieldError) as caught:
        selector(matchExpressions=[expression])
    assert caught.value.field == f"spec.selector.matchExpressions[0].{field}"


@pytest.mark.parametrize("values", [[], ["1", "2"], ["x"]])
def test_node_comparisons_need_one_integer(values):
    """Gt and Lt compare with exactly one integer."""
    with pytest.raises(FieldError, match="exactly one integer"):
        term(matchExpressions=[{"key": "a", "operator": "Gt", "values": values}])


def test_an_empty_node_term_matches_no_node():
    """Unlike an empty label selector."""
    assert not node_term_matches(term(), "n", {})


def test_a_node_term_joins_labels_and_name():
    """Expressions are about labels, fields about metadata.name, and both must hold."""
    both = term(
        matchExpressions=[{"key": "zone", "operator": "In", "values": ["a"]}],
        matchFields=[{"key": "metadata.name", "operator": "In", "values": ["n1"]}],
    )
    assert node_term_matches(both, "n1", {"zone": "a"})
    assert not node_term_matches(both, "n2", {"zone": "a"})
    assert not node_term_matches(both, "n1", {"zone": "b"})


def test_node_terms_are_alternatives():
    """One term that matches is enough; none at all match nothing."""
    zone_a = term(matchExpressions=[{"key": "zone", "operator": "In", "values": ["a"]}])
    zone_b = term(matchExpressions=[{"key": "zone", "operator": "In", "values": ["b"]}])
    assert any_node_term_matches((zone_a, zone_b), "n", {"zone": "b"})
    assert not any_node_term_matches((), "n", {"zone": "b"})


@given(
    values=st.lists(st.text(max_size=3), min_size=1, max_size=3),
    labels=st.dictionaries(st.sampled_from("ab"), st.text(max_size=3)),
)
def test_not_in_is_the_opposite_of_in(values, labels):
    """For any values and labels, exactly one of In and NotIn holds, and likewise for Exists."""
    assert requirement_matches(Requirement("a", "In", tuple(values)), labels) is not requirement_matches(
        Requirement("a", "NotIn", tuple(values)), labels
    )
    assert requirement_matches(Requirement("a", "Exists"), labels) is not requirement_matches(
        Requirement("a", "DoesNotExist"), labels
    )
