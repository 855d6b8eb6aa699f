"""``scheduling.x-k8s.io/v1alpha1`` PodGroup of the scheduler-plugins' coscheduling plug-in.

Running gangs of that scheduler are whole units when they are victims, and their owners can move by changing only
``schedulerName``.
"""

from __future__ import annotations

from typing import Any

from gangsched.model.dialects import koordinator
from gangsched.model.dialects.dialect import CommonStatus, CurrentObject, Dialect
from gangsched.model.dialects.objects import named_in
from gangsched.model.fields import Documented
from gangsched.model.records import Gang

FAMILY = "scheduling.x-k8s.io"
GROUP_LABEL = "scheduling.x-k8s.io/pod-group"


def gang_from_object(obj: koordinator.PodGroup) -> Gang:
    """The spec is the same as that of the sigs group. Raises :class:`~gangsched.model.errors.FieldError`."""
    return koordinator.gang_of(obj, FAMILY)


def status(told: CommonStatus, seen: CurrentObject) -> dict[str, Any]:
    """The status has the form of the API's controller (``pkg/controllers/podgroup_controller.go`` of
    scheduler-plugins), which may run beside this scheduler. The two must not overwrite each other. It knows fewer
    phases.
    """
    phase = told["phase"]
    if phase not in ("Running", "Finished", "Failed"):
        phase = "Scheduling" if told["members"] >= told["minimum"] else "Pending"
    return koordinator.progress(phase, told, seen)


DIALECT = Dialect(
    FAMILY,
    lambda meta, _: named_in(meta, ("labels", GROUP_LABEL)),
    ("v1alpha1",),
    koordinator.PodGroup,
    gang_from_object=gang_from_object,
    status=status,
    documented=(
        Documented(f"PodGroup `{FAMILY}/v1alpha1`", koordinator.PodGroupSpec, koordinator.STATUS),
        Documented(
            "on pods", None, {f"label `{GROUP_LABEL}`": "the PodGroup that the pod is a member of, which must exist"}
        ),
    ),
)
