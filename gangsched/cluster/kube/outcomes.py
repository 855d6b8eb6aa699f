"""How a write can come out; what they mean stands at :class:`gangsched.core.events.WriteDone`."""

from __future__ import annotations

from typing import TypeAlias

OK, GONE, CONFLICT, OUTDATED = "ok", "gone", "conflict", "outdated"
REFUSED, BLOCKED, TRANSIENT = "refused", "blocked", "transient"

#: An outcome, and why in words.
Verdict: TypeAlias = tuple[str, str]
