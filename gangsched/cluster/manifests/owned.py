"""The existing pods of an owner: those in the input, or those in its status."""

from __future__ import annotations

from collections.abc import Iterable

from gangsched.messages import invalid
from gangsched.model import wire
from gangsched.model.dialects import owners
from gangsched.model.dialects.operator_specs import ENDS, OperatorObject, has_ended, phase_of
from gangsched.model.unsubmitted import VolcanoJob

#: Controllers by namespace, API group, kind and name.
Controller = tuple[str, str, str, str]
_RUNS = ("ready", "Running", "RUNNING", "SUBMITTED", "SUCCEEDING", "PENDING_RERUN")


def controllers(found: Iterable[wire.Object]) -> set[Controller]:
    """The controllers of these objects, and the LeaderWorkerSets that labels name: StatefulSets own their pods."""
    out: set[Controller] = set()
    for each in found:
        meta = each.metadata
        for owner in meta.owner_references or ():
            if owner.controller:
                out.add((meta.namespace, owner.api_version.rpartition("/")[0], owner.kind, owner.name))
        name = (meta.labels or {}).get(owners.NAME)
        if name:
            out.add((meta.namespace, owners.FAMILY, owners.LEADER_WORKER_SET, name))
    return out


def why_none(raw: OperatorObject | wire.StatefulSet | VolcanoJob) -> str | None:
    """Why no pods are made of an owner without any in the input, in words; empty where it has come to its end, None
    where they are made.
    """
    if isinstance(raw, wire.StatefulSet):
        return invalid.pods_not_in_input(active=raw.status.replicas) if raw.status.replicas else None
    if isinstance(raw, VolcanoJob):
        phase = raw.status.state.phase if raw.status.state is not None else ""
        active = raw.status.running + raw.status.pending
        return _standing(phase, active)
    status, spec = raw.status, raw.spec
    active = sum(each.active for each in (status.replica_statuses or {}).values())
    active += sum(each.active for each in status.jobs_status or ())
    active += status.replicas + status.available_worker_replicas
    found = "" if has_ended(status) else _standing(phase_of(status), active)
    if found is None and (spec.suspend or (spec.run_policy is not None and spec.run_policy.suspend)):
        return invalid.IT_IS_SUSPENDED
    return found


def _standing(phase: str, active: int) -> str | None:
    if phase in ENDS:
        return ""
    if active:
        return invalid.pods_not_in_input(active=active)
    return invalid.IT_RUNS if phase in _RUNS else None
