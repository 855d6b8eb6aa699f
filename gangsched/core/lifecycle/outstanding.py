"""Writes that are on their way: what each was for, and which gangs have any."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from gangsched.core.actions import Action, Removal


class Outstanding:
    """Writes without an answer yet, by action id, each with the key of the group whose plan it is part of (empty for
    writes that are part of none).
    """

    def __init__(self) -> None:
        self._writes: dict[int, tuple[str, Action]] = {}
        self._of: Counter[str] = Counter()
        self._removals: dict[str, dict[int, Removal]] = {}  # those that have not been recalled

    def add(self, action_id: int, key: str, action: Action) -> None:
        """It is on its way."""
        self._writes[action_id] = (key, action)
        self._of[key] += 1
        if isinstance(action, Removal):
            self._removals.setdefault(key, {})[action_id] = action

    def pop(self, action_id: int) -> tuple[str, Action] | None:
        """It has been answered; None when nobody knows it any more."""
        found = self._writes.pop(action_id, None)
        if found is not None:
            self._of[found[0]] -= 1
            if not self._of[found[0]]:
                del self._of[found[0]]
            self._not_recalled(found[0], action_id)
        return found

    def removing(self) -> list[str]:
        """The groups with removals that may still be recalled."""
        return list(self._removals)

    def removals(self, key: str) -> list[Removal]:
        """The removals of a group that are on their way and have not been recalled, oldest first."""
        return list(self._removals.get(key, {}).values())

    def recall(self, key: str, removals: Iterable[Removal]) -> None:
        """These removals are on their way, and have been recalled."""
        for action in removals:
            self._not_recalled(key, action.id)

    def _not_recalled(self, key: str, action_id: int) -> None:
        known = self._removals.get(key)
        if known is not None and known.pop(action_id, None) is not None and not known:
            del self._removals[key]

    def any_of(self, key: str) -> bool:
        """Is any write of a plan of this group on its way?"""
        return key in self._of
