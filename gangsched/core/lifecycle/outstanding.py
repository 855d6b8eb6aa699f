"""Writes that are on their way: what each was for, and which gangs have any."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

from gangsched.core.actions import Action, PodRef, Removal


class Outstanding:
    """Writes without an answer yet, by action id, each with the key of the group whose plan it is part of (empty for
    writes that are part of none).
    """

    def __init__(self) -> None:
        self._writes: dict[int, tuple[str, Action]] = {}
        self._of: Counter[str] = Counter()
        self._removals: dict[str, dict[int, Removal]] = {}  # those that have not been recalled
        self._removing: Counter[str] = Counter()  # and how many of them each pod or Job has, by UID

    def add(self, action_id: int, key: str, action: Action) -> None:
        """It is on its way."""
        self._writes[action_id] = (key, action)
        self._of[key] += 1
        if isinstance(action, Removal):
            self._removals.setdefault(key, {})[action_id] = action
            self._removing[action.pod.uid] += 1

    def pop(self, action_id: int) -> tuple[str, Action] | None:
        """It has been answered; None when nobody knows it any more."""
        found = self._writes.pop(action_id, None)
        if found is not None:
            self._of[found[0]] -= 1
            if not self._of[found[0]]:
                del self._of[found[0]]
            self._forget(found[0], action_id)
        return found

    def removing(self) -> list[str]:
        """The groups with removals that may still be recalled."""
        return list(self._removals)

    def removals(self, key: str) -> list[Removal]:
        """The removals of a group that are on their way and have not been recalled, oldest first."""
        return list(self._removals.get(key, {}).values())

    def recall(self, key: str, removals: Collection[Removal]) -> list[PodRef]:
        """These removals of a group are not wanted any more. Returns what no other group wants to be removed."""
        for action in removals:
            self._forget(key, action.id)
        return [action.pod for action in removals if action.pod.uid not in self._removing]

    def _forget(self, key: str, action_id: int) -> None:
        known = self._removals.get(key, {})
        action = known.pop(action_id, None)
        if action is None:
            return
        if not known:
            del self._removals[key]
        self._removing[action.pod.uid] -= 1
        if not self._removing[action.pod.uid]:
            del self._removing[action.pod.uid]

    def any_of(self, key: str) -> bool:
        """Is any write of a plan of this group on its way?"""
        return key in self._of
