"""Pods that cannot be told apart by any filter or score."""

from __future__ import annotations

import msgspec

from gangsched.model.records import Labels, PodShape


class PodClass(msgspec.Struct, frozen=True, gc=False):
    """A shape with the namespace and labels by which other pods' terms may select it.

    Made by :meth:`gangsched.core.snapshot.Snapshot.class_of`; pods of one class share one object. ``ident`` is its
    number there.
    """

    shape: PodShape
    namespace: str
    labels: Labels
    ident: int
