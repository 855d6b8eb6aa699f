"""Parts of pages that are written from what was measured, or from what commands print.

A block stands between ``<!-- NAME: begin, written by make readme -->`` and ``<!-- NAME: end -->``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from tests.pages import between


def filled(text: str, blocks: Mapping[str, Callable[[], str]]) -> str:
    """A page with these blocks, by name, written anew."""
    for name, make in blocks.items():
        between(text, name)
        begin, end = f"<!-- {name}: begin, written by make readme -->", f"<!-- {name}: end -->"
        head, rest = re.split(rf"<!-- {re.escape(name)}: begin[^>]*-->", text, maxsplit=1)
        text = f"{head}{begin}\n{make()}\n{end}{rest.partition(end)[2]}"
    return text


def fenced(text: str, language: str = "") -> str:
    """A block of code."""
    return f"```{language}\n{text}\n```"
