"""JSON that is too deep to be decoded, or no text: as much of it as can be read is read."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gangsched.cluster.kube.json_limits import MAX_DEPTH, bounded, decode
from tests.cluster.kube.deep import deep

anything: msgspec.json.Decoder[Any] = msgspec.json.Decoder(Any)
TEXT = st.text(alphabet=st.one_of(st.sampled_from('"\\{}[],:u'), st.characters(codec="utf-8")))
VALUES = st.recursive(
    st.none() | st.integers() | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=20,
)


def depth_of(value: Any) -> int:
    """How many levels of dicts and lists there are."""
    levels = 0
    while isinstance(value, dict | list):
        value = next(iter(value.values() if isinstance(value, dict) else value), None)
        levels += 1
    return levels


@given(VALUES, VALUES, st.booleans(), st.integers(MAX_DEPTH - 2, 4 * MAX_DEPTH), st.booleans())
def test_only_what_is_too_deep_becomes_null(
    before: Any, after: Any, ascii_only: bool, levels: int, lists: bool
) -> None:
    """Whatever stands around it, with quotes, escapes and brackets in its texts, stays as it was."""
    inner = deep(levels, b"[", b"]") if lists else deep(levels)
    texts = [json.dumps(each, ensure_ascii=ascii_only).encode() for each in (before, after)]
    found = json.loads(bounded(b'{"before":%s,"deep":%s,"after":%s}' % (texts[0], inner, texts[1])))
    assert (found["before"], found["after"]) == (before, after)
    assert depth_of(found["deep"]) == min(levels + 1, MAX_DEPTH - 1)


@pytest.mark.parametrize("levels", [1, MAX_DEPTH - 1])
def test_what_is_not_too_deep_is_not_touched(levels: int) -> None:
    """The same bytes come back, however many brackets there are."""
    body = b"[" + b",".join([deep(levels - 1)] * 200) + b"]"
    assert bounded(body) == body


@pytest.mark.parametrize("levels", [1100, 9990, 100_000])
def test_any_depth_is_decoded(levels: int) -> None:
    """What lies beside the depth is read, in whatever the decoder looks at or skips."""
    body = b'{"before":[1],"deep":%s,"name":"n"}' % deep(levels)
    assert decode(anything, body)["name"] == "n"
    assert decode(msgspec.json.Decoder(msgspec.defstruct("Named", [("name", str)])), body).name == "n"  # type: ignore[attr-defined]


def test_bytes_that_are_no_text_are_replaced() -> None:
    """They become U+FFFD, whether in a value, a name or beside what is too deep."""
    assert decode(anything, b'{"a":"caf\xe9"}') == {"a": "caf�"}
    assert decode(anything, b'{"\xff":1,"deep":%s}' % deep(1100))["�"] == 1


@pytest.mark.parametrize(
    "garbage",
    [
        b"",
        b"<html>",
        b"\xff",
        deep(1100)[:-1],
        deep(1100)[:6000],
        b'{"a":"' + deep(1100),
        b"]" * 3000,
        b'"\\' + deep(1100),
    ],
)
def test_garbage_is_a_decode_error(garbage: bytes) -> None:
    """What is not JSON is not made JSON, and its error is always the same."""
    with pytest.raises(msgspec.DecodeError):
        decode(anything, garbage)
