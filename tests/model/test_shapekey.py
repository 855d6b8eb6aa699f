"""Pods that are like the one before get its shape; whatever makes a difference makes one."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gangsched.model import wire
from gangsched.model.convert import Converter
from gangsched.model.shapes import shape_key

_read = msgspec.json.Decoder(wire.Pod).decode


def pod(spec: dict[str, Any] | None = None, status: dict[str, Any] | None = None) -> wire.Pod:
    """A pod of one container, with this beside or instead."""
    containers = [{"name": "main", "image": "i", "resources": {"requests": {"cpu": "1"}}}]
    whole = {"containers": containers, **(spec or {})}
    return _read(msgspec.json.encode({"metadata": {"name": "p", "uid": "u"}, "spec": whole, "status": status or {}}))


_TERM = {"labelSelector": {"matchLabels": {"a": "b"}}, "topologyKey": "zone"}
_RESIZED = [{"name": "main", "resources": {"requests": {"cpu": "3"}}}]
#: Each of another shape.
APART = (
    pod(),
    pod({"containers": [{"name": "main", "image": "other", "resources": {"requests": {"cpu": "1"}}}]}),
    pod({"containers": [{"name": "main", "image": "i", "resources": {"requests": {"cpu": "2"}}}]}),
    pod({"containers": [{"name": "main", "image": "i", "ports": [{"hostPort": 80, "containerPort": 80}]}]}),
    pod({"initContainers": [{"name": "first", "image": "i", "resources": {"requests": {"cpu": "4"}}}]}),
    pod({"resources": {"requests": {"cpu": "5"}}}),
    pod({"overhead": {"cpu": "8"}}),
    pod({"nodeSelector": {"disk": "fast"}}),
    pod({"tolerations": [{"key": "k", "operator": "Exists"}]}),
    pod({"hostNetwork": True, "hostUsers": False}),
    pod({"volumes": [{"name": "v", "image": {"reference": "of-a-volume"}}]}),
    pod({"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [_TERM]}}}),
    pod({"topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}]}),
    pod(status={"containerStatuses": _RESIZED}),
    pod({"resources": {"requests": {"cpu": "5"}}}, {"allocatedResources": {"cpu": "7"}, "resources": {}}),
)


@settings(max_examples=100)
@given(st.lists(st.sampled_from(range(len(APART))), max_size=12))
def test_the_shape_is_always_that_of_the_pod(order: list[int]) -> None:
    """Whoever was read before, a pod has the shape that it would have if it were the first."""
    converter = Converter()
    for number in order:
        assert converter.pod(APART[number]).shape == Converter().pod(APART[number]).shape


def test_these_shapes_differ() -> None:
    """The pods above could be told apart by their shapes, so that a mistake would show."""
    assert len({Converter().pod(each).shape for each in APART}) == len(APART)


def test_where_a_pod_runs_makes_no_difference() -> None:
    """A pod that is created and the same pod that is bound are compared, not read twice."""
    bound = pod({"nodeName": "n"}, {"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "True"}]})
    assert shape_key(pod().spec, pod().status) == shape_key(bound.spec, bound.status) is not None


@pytest.mark.parametrize("reason", ["Infeasible", "Deferred"])
def test_a_pod_that_is_being_resized_is_read_in_full(reason: str) -> None:
    """What counts of it depends on why the resize is pending."""
    conditions = [{"type": "PodResizePending", "status": "True", "reason": reason}]
    assert shape_key(pod().spec, pod(status={"conditions": conditions}).status) is None
