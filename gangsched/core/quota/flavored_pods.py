"""The forms in which pods run that need quota: what their flavors ask of nodes counts as if the pods asked for it."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from gangsched.core.quota.flavors import mismatch
from gangsched.core.quota.gang_workloads import Managed
from gangsched.core.quota.usage import Flavors
from gangsched.core.quota.workloads import PODS
from gangsched.model.queues import ClusterQueue, ResourceFlavor
from gangsched.model.records import GangId, Pod, PodShape

#: So many shapes of pods in flavors are kept; those of pods that are long gone are among them.
MAX_SHAPES = 4096
#: Of a pod for which more flavors can be combined only so many combinations are looked at.
MAX_FORMS = 64


def in_flavors(shape: PodShape, flavors: Sequence[ResourceFlavor]) -> PodShape:
    """A shape as pods have it that are admitted in these flavors: their labels as node selector, their tolerations."""
    labels: Mapping[str, str] = {key: value for f in flavors for key, value in f.labels.items()}
    selector = tuple(sorted({**labels, **dict(shape.node_selector)}.items()))
    more = tuple(t for f in flavors for t in f.tolerations if t not in shape.tolerations)
    if selector == tuple(sorted(shape.node_selector)) and not more:
        return shape
    return msgspec.structs.replace(shape, node_selector=selector, tolerations=(*shape.tolerations, *more))


def admitted(managed: Managed, pod: Pod, flavors: Flavors) -> Pod:
    """A pod as it is when it is admitted in these flavors."""
    key = pod.shape, flavors
    known = managed.shapes
    shape = known.get(key)
    if shape is None:
        if len(known) >= MAX_SHAPES:
            known.clear()  # only a cache: a shape that is made again costs others their caches, too
        found = [managed.quota.flavors.get(name) for name in dict.fromkeys(name for _, name in flavors)]
        shape = known[key] = in_flavors(pod.shape, [f for f in found if f is not None])
    return pod if shape is pod.shape else msgspec.structs.replace(pod, shape=shape)


class Nominated:
    """The members of a group as they are where they are nominated: in the flavors that they were given, or that
    ``given`` says by UID, else in those of the node. Without a queue they are as they are.
    """

    def __init__(self, managed: Managed, gangs: Sequence[GangId], given: Mapping[str, Flavors] = {}) -> None:
        self._managed = managed
        self._queue = managed.queue_of(gangs)
        self._given = given

    def on(self, pod: Pod, node: str) -> Pod:
        """A member on this node."""
        if self._queue is None:
            return pod
        flavors = self._given.get(pod.uid)
        if flavors is None:
            flavors = self._managed.flavors_at(self._queue, pod, node)
        return admitted(self._managed, pod, flavors)


def forms(managed: Managed, queue: ClusterQueue, pod: Pod) -> Iterator[Pod]:
    """A pod in each combination of flavors in which the queue might ever admit it, whatever is left of their quota."""
    asked = {name for name, units in pod.shape.requests if units} | {PODS}
    known = managed.quota.flavors
    choices = [
        [
            tuple((resource, f.flavor) for resource in group.resources if resource in asked)
            for f in group.flavors
            if f.flavor in known and not mismatch(known[f.flavor], pod.shape)
        ]
        for group in queue.groups
        if not asked.isdisjoint(group.resources)
    ]
    for chosen in itertools.islice(itertools.product(*choices), MAX_FORMS):
        yield admitted(managed, pod, tuple(sorted(pair for part in chosen for pair in part)))
