"""What the adapter tells the outside while it works: measurements, by plain callables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol


class Observe(Protocol):
    """Takes one measurement. Called from the I/O thread and the decision thread; must be quick and must not raise.

    What the names mean: :mod:`gangsched.runtime.metrics`.
    """

    def __call__(self, name: str, value: float, labels: Mapping[str, str]) -> None:
        """``value`` in the unit that the name says."""


def ignore(name: str, value: float, labels: Mapping[str, str]) -> None:
    """An :class:`Observe` that drops everything."""
