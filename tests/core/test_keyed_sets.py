"""The index from a key to a set of values."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gangsched.core.keyed_sets import KeyedSets


@given(st.lists(st.tuples(st.booleans(), st.sampled_from("ab"), st.integers(0, 2)), max_size=30))
def test_equals_a_set_of_pairs(steps: list[tuple[bool, str, int]]) -> None:
    """After any additions and removals the index equals a plain set of pairs and keeps no empty key."""
    index: KeyedSets[str, int] = KeyedSets()
    pairs: set[tuple[str, int]] = set()
    for adds, key, value in steps:
        if adds:
            index.add(key, value)
            pairs.add((key, value))
        else:
            index.discard(key, value)
            pairs.discard((key, value))
    assert {(key, value) for key, values in index.items() for value in values} == pairs
    assert set(index) == {key for key, _ in pairs}
    assert len(index) == len(set(index))
    assert all(index[key] == {v for k, v in pairs if k == key} and (key in index) == bool(index[key]) for key in "ab")
