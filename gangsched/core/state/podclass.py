"""Pods that are the same for every filter and score."""

from __future__ import annotations

import msgspec

from gangsched.model.records import Labels, LabelSelector, PodShape, PodVolumes


class PodClass(msgspec.Struct, frozen=True, gc=False):
    """A shape with the namespace and labels by which other pods' terms may select it.

    Made by :meth:`gangsched.core.state.snapshot.Snapshot.class_of`; pods of one class share one object. ``ident`` is
    its number there. ``spread_selector`` is what default spread constraints select for it (see :mod:`.spreading`).
    ``volumes`` are those of its pods; ``name`` and ``uid`` are given where one of them must belong to the very pod.
    """

    shape: PodShape
    namespace: str
    labels: Labels
    ident: int
    spread_selector: LabelSelector | None = None
    volumes: PodVolumes | None = None
    name: str = ""
    uid: str = ""
