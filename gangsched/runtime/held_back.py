"""Pods of a namespace over whose events the core fails again and again: their news waits until a pause is over.

A pod that fails the core when it is deleted cannot be quarantined any more. Each such pod costs a new core, so users
who create and delete them could keep the scheduler busy with that. What waits here is only news that may wait: pods
without a node, and deletions, after which a pod holds its room a little longer.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from gangsched.core.events import Changed, Event, Gone
from gangsched.core.keys import key_of
from gangsched.model.records import Pod
from gangsched.runtime.known import Known
from gangsched.runtime.namespace_pauses import NamespacePauses


class HeldBack:
    """The news of each namespace that is held back, of all that is ``known``."""

    def __init__(self, known: Known) -> None:
        self._known = known
        self._pauses = NamespacePauses()
        self._waits: dict[str, dict[Hashable, Event]] = {}

    def __bool__(self) -> bool:
        return bool(self._pauses)

    def failed(self, event: Event, now: float, *, found: bool) -> None:
        """The core has failed over this event. An object was ``found`` that is quarantined for it, or not."""
        namespace = _namespace(event)
        if namespace:
            self._pauses.begin(namespace, now, found=found)

    def next_at(self) -> float | None:
        """When news is due."""
        return min(map(self._pauses.until, self._waits), default=None)

    def shown(self, events: Sequence[Event], now: float) -> list[Event]:
        """These events without those that have to wait, behind those that have waited for long enough. Of each object
        the last one counts.
        """
        out: list[Event] = []
        for namespace in [each for each in self._waits if self._pauses.until(each) <= now]:
            for key, event in self._waits.pop(namespace).items():
                out.append(self._known.get(key) or event)
        for event in events:
            namespace = _namespace(event)
            if namespace and self._pauses.until(namespace) > now:
                self._waits.setdefault(namespace, {})[key_of(event)] = event
            else:
                out.append(event)
        return out


def _namespace(event: Event) -> str:
    """The namespace of a pod of which the news may wait, else empty."""
    if isinstance(event, Gone):
        return event.namespace if event.kind == "Pod" else ""
    record = event.record if isinstance(event, Changed) else None
    return record.namespace if isinstance(record, Pod) and not record.node else ""
