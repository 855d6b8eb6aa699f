"""Requests that no API server accepts are refused before they are planned."""

from __future__ import annotations

from typing import Any

import pytest

from gangsched.cluster.manifests.validation import check_resources, is_device
from gangsched.model.errors import FieldError
from gangsched.model.wire import Container, PodSpec, ResourceRequirements


@pytest.mark.parametrize(
    ("requests", "limits", "field"),
    [
        ({"cpu": "2"}, {"cpu": "1"}, "requests.cpu"),
        ({"memory": "1Gi"}, {"memory": "1000M"}, "requests.memory"),
        ({"nvidia.com/gpu": "1"}, {"nvidia.com/gpu": "2"}, "requests.nvidia.com/gpu"),
        ({"example.com/bw": "1.5"}, None, "requests.example.com/bw"),
        (None, {"example.com/bw": "500m"}, "limits.example.com/bw"),
        ({"hugepages-2Mi": "4Mi"}, {"hugepages-2Mi": "8Mi"}, "requests.hugepages-2Mi"),
        ({"cpu": "500m"}, {"cpu": "1"}, ""),
        ({"cpu": "1000m"}, {"cpu": 1}, ""),
        ({"nvidia.com/gpu": "1"}, {"nvidia.com/gpu": 1}, ""),
        ({"example.com/bw": 2}, None, ""),
    ],
)
def test_requests_and_limits(requests: Any, limits: Any, field: str) -> None:
    """The field is named, of containers and of init containers."""
    asked = Container(resources=ResourceRequirements(requests, limits))
    for spec, where in (
        (PodSpec(containers=[asked]), "containers"),
        (PodSpec(init_containers=[asked]), "initContainers"),
    ):
        if not field:
            check_resources(spec)
            continue
        with pytest.raises(FieldError) as caught:
            check_resources(spec, "spec.template.spec")
        assert caught.value.field == f"spec.template.spec.{where}[0].resources.{field}"


def test_what_is_counted_in_whole_pieces() -> None:
    """Resources of other domains than Kubernetes' own."""
    names = ("nvidia.com/gpu", "example.com/bw", "cpu", "memory", "ephemeral-storage", "node.kubernetes.io/x")
    assert [is_device(name) for name in names] == [True, True, False, False, False, False]
