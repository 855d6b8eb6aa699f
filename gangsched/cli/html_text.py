"""Text of others in a page: it is neither markup nor able to steer a terminal, or turn the text behind it around."""

from __future__ import annotations

import html

from gangsched.model.errors import one_line

_KEPT = frozenset("\n\r\t")


def escape(text: str) -> str:
    """Return the text as HTML. Control characters and those that change the direction are shown by their number."""
    if not text.isprintable():
        text = "".join(c if c.isprintable() or c in _KEPT else one_line(c) or " " for c in text)
    return html.escape(text)
