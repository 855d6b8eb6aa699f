"""Writes that are on their way: what each was for, and which gangs have any."""

from __future__ import annotations

from collections import Counter

from gangsched.core.actions import Action


class Outstanding:
    """Writes without an answer yet, by action id, each with the key of the group whose plan it is part of (empty for
    writes that are part of none).
    """

    def __init__(self) -> None:
        self._writes: dict[int, tuple[str, Action]] = {}
        self._of: Counter[str] = Counter()

    def add(self, action_id: int, key: str, action: Action) -> None:
        """It is on its way."""
        self._writes[action_id] = (key, action)
        self._of[key] += 1

    def pop(self, action_id: int) -> tuple[str, Action] | None:
        """It has been answered; None when nobody knows it any more."""
        found = self._writes.pop(action_id, None)
        if found is not None:
            self._of[found[0]] -= 1
            if not self._of[found[0]]:
                del self._of[found[0]]
        return found

    def any_of(self, key: str) -> bool:
        """Is any write of a plan of this group on its way?"""
        return key in self._of

    def clear(self) -> None:
        """Forget all."""
        self._writes.clear()
        self._of.clear()
