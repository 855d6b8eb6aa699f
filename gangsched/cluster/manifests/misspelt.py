"""Labels and annotations of workloads that are nearly those which make gangs: nothing else would say so."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from gangsched.cluster.manifests.objects import Found
from gangsched.messages import invalid
from gangsched.model import wire
from gangsched.model.dialects.keys import misspelt
from gangsched.model.dialects.operator_specs import OperatorObject
from gangsched.model.errors import Problem
from gangsched.model.jobsets import RawJobSet
from gangsched.model.pod_clique_sets import PodCliqueSet
from gangsched.model.unsubmitted import VolcanoJob


def misspelt_keys(found: Sequence[Found]) -> Iterator[Problem]:
    """A warning for each object that has such a key, or whose templates of pods have, of those not yet submitted."""
    for each in found:
        raw = each.object
        kinds = wire.Job | RawJobSet | OperatorObject | wire.StatefulSet | VolcanoJob | PodCliqueSet | wire.Pod
        if not isinstance(raw, kinds) or raw.metadata.resource_version:
            continue
        for path, meta in _metas(raw, ""):
            for field, keys in (("labels", meta.labels), ("annotations", meta.annotations)):
                near = misspelt(keys or ())
                if near is not None:
                    where = f"{path}metadata.{field}[{near.found}]"
                    yield each.place.warning(where, invalid.near_key(meant=near.meant))


def _metas(value: Any, path: str) -> Iterator[tuple[str, wire.ObjectMeta]]:
    """The metadata of an object and of all templates in it, each with its path."""
    if isinstance(value, wire.Object):
        yield path, value.metadata
    if isinstance(value, msgspec.Struct):
        for name, field in zip(value.__struct_fields__, value.__struct_encode_fields__, strict=True):
            if name != "metadata":
                yield from _metas(getattr(value, name), f"{path}{field}.")
    elif isinstance(value, list):
        for i, each in enumerate(value):
            yield from _metas(each, f"{path.removesuffix('.')}[{i}].")
    elif isinstance(value, dict):
        for key, each in value.items():
            yield from _metas(each, f"{path}{key}.")
