"""LocalQueues that mean more to Kueue than here."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gangsched.cluster.manifests.objects import Found
from gangsched.messages import invalid
from gangsched.model import wire
from gangsched.model.errors import Problem
from gangsched.model.jobsets import RawJobSet
from gangsched.model.queues import DEFAULT_QUEUE, QUEUE_LABEL


def default_queues(found: Sequence[Found]) -> Iterator[Problem]:
    """Warnings about LocalQueues into which the webhook of Kueue puts Jobs without a label when they are created."""
    unlabelled = {
        each.object.metadata.namespace
        for each in found
        if isinstance(each.object, wire.Job | RawJobSet)
        and each.object.metadata.controller is None
        and not (each.object.metadata.labels or {}).get(QUEUE_LABEL)
    }
    for each in found:
        meta = each.object.metadata
        if each.kind.name == "LocalQueue" and meta.name == DEFAULT_QUEUE and meta.namespace in unlabelled:
            yield each.place.warning("metadata.name", invalid.default_local_queue(label=QUEUE_LABEL))
