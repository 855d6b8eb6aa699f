"""A mark names one preemptor, and two plans may need the same pod to leave: whose name it bears when one gives up.

The marks are the durable list of a plan's victims, so a pod must not stay on the list of a gang that no longer needs
it: after a restart it would be read as one of that gang's next plan.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from gangsched.core.actions import Mark, Unmark
from gangsched.core.events import Outcome
from gangsched.core.lifecycle import condemning, report

if TYPE_CHECKING:
    from gangsched.core.lifecycle.steps import Steps


class MarkTexts:
    """What the marks of pods say, by UID and by the key of the group that asked for them."""

    def __init__(self) -> None:
        self._texts: dict[str, dict[str, str]] = {}
        self._stands: dict[str, str] = {}  # whose mark the server is known to have
        self._fading: dict[str, set[str]] = {}

    def asked(self, uid: str, key: str, text: str) -> None:
        """The newest mark of a pod is that of this group; one of another that needs its room is overwritten."""
        texts = self._texts.setdefault(uid, {})
        texts.pop(key, None)
        texts[key] = text

    def given_up(self, uid: str, key: str) -> bool:
        """This group needs the pod no longer to leave: is its mark the one that the pod bears?"""
        texts = self._texts.get(uid, {})
        newest = next(reversed(texts), "") == key
        if texts.pop(key, None) is not None and self._stands.get(uid, key) == key:
            self._fading.setdefault(uid, set()).add(key)
        return newest

    def answered(self, action: Mark | Unmark, outcome: Outcome) -> None:
        """What has become of a write. One that may still take effect, or is going to be repeated, settles nothing."""
        if outcome is not Outcome.TRANSIENT:
            self.settled(action.pod.uid)
        if outcome is Outcome.OK and isinstance(action, Mark):
            self._stands[action.pod.uid] = self.asker(action.pod.uid, action.message)

    def settled(self, uid: str) -> None:
        """The newest word about the mark of a pod has been answered, or the pod leaves: no older one stands."""
        self._fading.pop(uid, None)

    def fading(self, key: str) -> bool:
        """May a pod still bear the mark of this group's earlier plan? A list that began now would be its second."""
        return any(key in keys for keys in self._fading.values())

    def of(self, uid: str) -> Mapping[str, str]:
        """The texts of those that have asked for a mark and not given up, the newest last."""
        return self._texts.get(uid, {})

    def asker(self, uid: str, text: str) -> str:
        """The key of the last that has asked for this text and not given up; empty when nobody has."""
        return next((key for key, asked in reversed(self._texts.get(uid, {}).items()) if asked == text), "")

    def forget(self, uid: str) -> None:
        """The pod bears no mark any more, or is gone."""
        self._texts.pop(uid, None)
        self._stands.pop(uid, None)


def given_up(steps: Steps, uid: str, key: str, owner: str) -> None:
    """The eviction with this key, for this gang or queue, needs the pod no longer to leave.

    Others need it to leave while they wait for that, and from their marks until they give up or it is gone: a rollback
    waits for nobody, and a removal that was accepted may not have shown yet.
    """
    condemning.spare(steps, uid, key)
    was_ours = steps.mark_texts.given_up(uid, key)
    if not steps.mark_texts.of(uid) and steps.world.ledger.awaited.get(uid, set()) <= {key}:
        steps.unmark(uid, owner)
    elif was_ours:
        _hand_over(steps, uid, owner)


def _hand_over(steps: Steps, uid: str, owner: str) -> None:
    """Another plan needs the pod to leave: its own mark, if it has been overwritten, is written again. If it has not
    come to its marks yet the pod is on nobody's list until then.
    """
    needed = list(steps.mark_texts.of(uid).values())
    pod = steps.world.pods.get(uid)
    if not needed:
        steps.unmark(uid, owner)
    elif pod is not None and pod.live:
        again = Mark(steps.new_id(), report.reference(pod), needed[-1], report.reason_of(needed[-1]))
        steps.keep_up_mark(again)
