"""What group objects of all APIs say in the same way."""

from __future__ import annotations

from typing import Any

from gangsched.model import wire
from gangsched.model.dialects import kai
from gangsched.model.errors import Mistake
from gangsched.model.queues import queue_labels
from gangsched.model.records import Gang
from gangsched.model.stakes import stakes_of
from gangsched.model.times import parse_time


def described(family: str, meta: wire.ObjectMeta, remark: Mistake | None, **wishes: Any) -> Gang:
    """The gang of a PodGroup of the API group ``family``. ``wishes`` are fields of the record, from its spec.

    Raises :class:`~gangsched.model.errors.FieldError`.
    """
    notes = meta.annotations or {}
    stakes, unclear = stakes_of(notes)
    return Gang(
        family=family,
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        created=parse_time(meta.creation_timestamp, "metadata.creationTimestamp"),
        generation=meta.generation,
        source=f"PodGroup.{family}",
        preemption_delay_seconds=kai.preemption_delay(notes),
        queue=queue_labels(meta.labels or {}),
        remark=remark or kai.remark(notes) or unclear,
        stakes=stakes,
        **wishes,
    )
