"""JSON of the server, however deep and whatever its bytes: nothing that a user can store may end the reading of all.

The API server keeps some values as a user has sent them (``metadata.managedFields[].fieldsV1`` of any object). They may
have 10,000 levels, and names that are not UTF-8. Decoders here recurse, also over fields that are not decoded, and
Python bounds them to about a thousand levels. They raise ``RecursionError`` then, and ``UnicodeDecodeError`` for such
bytes: neither is a ``msgspec.MsgspecError``.
"""

from __future__ import annotations

import re
from typing import TypeVar

import msgspec

T = TypeVar("T")

#: No field that is read here lies deeper than 20 levels, lists and frames included. Copying or encoding a decoded value
#: needs several frames of Python's stack for each level.
MAX_DEPTH = 100

_OPENING = b"{["
#: Matches all text before the next bracket, with whole strings (an unfinished one takes the rest), or a bracket and the
#: text after it. Possessive, so that the time is linear.
_TEXT = rb'(?:[^"\[\]{}]++|"[^"\\]*+(?:\\.[^"\\]*+)*+"?)*+'
_text = re.compile(_TEXT, re.DOTALL).match
_brackets = re.compile(rb"[\[\]{}]" + _TEXT, re.DOTALL).finditer


def decode(decoder: msgspec.json.Decoder[T], body: bytes | msgspec.Raw) -> T:
    """Return the decoded body, if necessary after :func:`bounded`. Raises :class:`msgspec.DecodeError` only."""
    try:
        return decoder.decode(body)
    except (RecursionError, UnicodeDecodeError):
        return decoder.decode(bounded(bytes(body)))


def bounded(body: bytes) -> bytes:
    """The same JSON in valid UTF-8, with null for each value that lies deeper than ``MAX_DEPTH`` levels.

    What is not well-formed stays so, except within such a value. Bytes that are not UTF-8 become U+FFFD, as in Go.
    """
    try:
        body.decode()
    except UnicodeDecodeError:
        body = body.decode(errors="replace").encode()
    if body.count(b"{") + body.count(b"[") <= MAX_DEPTH:
        return body
    kept: list[bytes] = []
    depth = begin = 0
    first = _text(body)
    for token in _brackets(body, first.end() if first else 0):
        at = token.start()
        if body[at] in _OPENING:
            depth += 1
            if depth == MAX_DEPTH + 1:
                kept += (body[begin:at], b"null")
        else:
            if depth == MAX_DEPTH + 1:
                begin = at + 1
            depth -= 1
    if not kept:
        return body
    if depth <= MAX_DEPTH:
        kept.append(body[begin:])
    return b"".join(kept)
