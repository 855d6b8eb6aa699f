"""The permit barrier as data: what a gang still waits for before its next phase."""

from __future__ import annotations

from typing import NamedTuple

from gangsched.core.events import Outcome


class Failure(NamedTuple):
    """How a write about the pod or Job ``uid`` has failed, and why in words."""

    uid: str
    outcome: Outcome
    message: str

    @property
    def text(self) -> str:
        """Both, for people."""
        return f"{self.outcome}: {self.message}"


class Barrier:
    """Answers to writes, by action id, that a phase waits for, and how they came out.

    A phase is over when every answer is there; whether it succeeded is asked only then, so that a failed phase is
    never left while some of its writes may still take effect.
    """

    def __init__(self) -> None:
        self._open: dict[int, str] = {}
        self.failed: list[Failure] = []

    def expect(self, action_id: int, uid: str) -> None:
        """Wait for the answer to this write about this pod."""
        self._open[action_id] = uid

    def arrive(self, action_id: int, outcome: Outcome, message: str = "") -> str | None:
        """An answer is there; returns the pod's UID, or None when this barrier does not wait for it."""
        uid = self._open.pop(action_id, None)
        if uid is not None and outcome is not Outcome.OK:
            self.failed.append(Failure(uid, outcome, message))
        return uid

    @property
    def complete(self) -> bool:
        """Every answer is there."""
        return not self._open
