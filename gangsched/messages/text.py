"""Texts with named fields; how they write numbers of things, lists of names, and names that may have been meant."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from string import Formatter


class Text:
    """``Text("{pod} waits for {node}")(pod="a", node="b")`` is "a waits for b". Values are given by the names of the
    fields only, so that a sentence may be put in another order; a TypeError names what is missing or unknown.
    """

    __slots__ = ("fields", "template")

    def __init__(self, template: str) -> None:
        self.template = template
        self.fields = frozenset(name for _, name, _, _ in Formatter().parse(template) if name)

    def __call__(self, /, **values: object) -> str:
        if values.keys() != self.fields:
            missing, unknown = sorted(self.fields - values.keys()), sorted(values.keys() - self.fields)
            raise TypeError(f"{self.template!r} has no value for {missing}, and no field for {unknown}")
        return self.template.format_map(values)


def nearest(name: str, known: Iterable[str], otherwise: str = "known are", cutoff: float = 0.5) -> str:
    """``did you mean A?`` of the known names, whatever the case; else ``known are A, B``; nothing if
    ``otherwise`` is empty.
    """
    names = list(known)
    if close := closest(name, names, cutoff):
        return f"did you mean {close}?"
    return f"{otherwise} {', '.join(names)}" if otherwise else ""


def closest(name: str, known: Iterable[str], cutoff: float = 0.5) -> str:
    """Return the known name that is most like this one, whatever the case; empty if none is near."""
    folded = {each.casefold(): each for each in known}
    close = difflib.get_close_matches(name.casefold(), sorted(folded), 1, cutoff)
    return folded[close[0]] if close else ""


def and_nearest(name: str, known: Iterable[str], cutoff: float = 0.8) -> str:
    """The same as the end of a sentence; empty if no name is near."""
    hint = nearest(name, known, "", cutoff)
    return f"; {hint}" if hint else ""


def pluralize(number: int, what: str) -> str:
    """``1 pod``, ``2 pods``, ``2 policies``, ``2 PriorityClasses``."""
    return f"{number} {what if number == 1 else plural(what)}"


def plural(noun: str) -> str:
    """The regular plural of a noun."""
    if noun.endswith(("s", "x", "ch", "sh")):
        return f"{noun}es"
    return f"{noun[:-1]}ies" if noun.endswith("y") and noun[-2:-1] not in "aeiou" else f"{noun}s"


def are(number: int) -> str:
    """The verb behind :func:`pluralize`."""
    return "is" if number == 1 else "are"


def join_names(names: Sequence[str], most: int) -> str:
    """The first names, and how many there are beside them."""
    shown = ", ".join(names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"
