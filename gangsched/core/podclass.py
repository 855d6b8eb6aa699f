"""Pods that cannot be told apart by any filter or score."""

from __future__ import annotations

import msgspec

from gangsched.model.records import NO_LABELS, Labels, Pod, PodShape


class PodClass(msgspec.Struct, frozen=True, gc=False):
    """A shape with the namespace and labels by which other pods' terms may select it."""

    shape: PodShape
    namespace: str = ""
    labels: Labels = NO_LABELS

    @property
    def ident(self) -> tuple[int, str, int]:
        """Identity of the class; shapes and label sets are interned, so object identity will do."""
        return id(self.shape), self.namespace, id(self.labels)


def class_of(pod: Pod) -> PodClass:
    """The class of a pod."""
    return PodClass(pod.shape, pod.namespace, pod.labels)
