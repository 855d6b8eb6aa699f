"""What every run of this package says at its end: whether anything was wrong."""

from __future__ import annotations

import msgspec


class Findings(msgspec.Struct, kw_only=True):
    """``violations`` are breaches of the rules by kind, ``problems`` whatever else went wrong, in words; ``slow`` what
    took longer than is promised, which a machine that does other things at the same time may be to blame for.
    """

    violations: dict[str, list[str]] = msgspec.field(default_factory=dict)
    problems: list[str] = msgspec.field(default_factory=list)
    slow: list[str] = msgspec.field(default_factory=list)

    @property
    def safe(self) -> bool:
        """Nothing is wrong but, perhaps, slow."""
        return not self.problems and not any(self.violations.values())

    @property
    def good(self) -> bool:
        """Nothing is wrong."""
        return self.safe and not self.slow
