"""What Events are about."""

from __future__ import annotations

import pytest

from gangsched.core.lifecycle.report import group_reference
from gangsched.model.dialects import coscheduling, koordinator, upstream
from gangsched.model.jobsets import QUEUED_JOBSET
from gangsched.model.records import QUEUED_JOB


@pytest.mark.parametrize(
    ("family", "kind", "expected"),
    [
        (koordinator.FAMILY, "PodGroup", "scheduling.sigs.k8s.io/v1alpha1"),
        (coscheduling.FAMILY, "PodGroup", "scheduling.x-k8s.io/v1alpha1"),
        (upstream.FAMILY, "PodGroup", "scheduling.k8s.io/v1alpha2"),
        (QUEUED_JOB, "Job", "batch/v1"),
        (QUEUED_JOBSET, "JobSet", "jobset.x-k8s.io/v1alpha2"),
        ("", "Pod", "v1"),
    ],
)
def test_objects_are_named_with_a_version(family: str, kind: str, expected: str) -> None:
    """`kubectl describe` finds an Event by the whole reference."""
    assert group_reference(family, kind, "d", "g", "u") == (expected, kind, "d", "g", "u")
