"""Every kind of write."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from gangsched.cluster.kube.claim_writes import Allocations, Releases, Reservations
from gangsched.cluster.kube.job_writes import JobWrites, Suspensions
from gangsched.cluster.kube.kind_of_write import KindOfWrite, Means
from gangsched.cluster.kube.nodes import NodeWrites
from gangsched.cluster.kube.pod_writes import (
    Bindings,
    Conditions,
    Marks,
    Nominations,
    Removals,
    RemovalsAsked,
    Unmarks,
)
from gangsched.cluster.kube.report_writes import GroupStatuses, Reports
from gangsched.cluster.kube.volume_writes import BoundVolumes, SelectedNodes
from gangsched.core.actions import (
    AllocateClaim,
    AskRemoval,
    Bind,
    BindVolume,
    HoldNode,
    Mark,
    Nominate,
    ReleaseClaim,
    ReleaseNode,
    Remove,
    Report,
    ReserveClaim,
    ResumeJob,
    SelectNode,
    SetCondition,
    SetGroupStatus,
    SuspendJob,
    Unmark,
    WithdrawNomination,
)

Kinds: TypeAlias = Mapping[type[Any], KindOfWrite[Any]]


def kinds_of_writes(means: Means) -> Kinds:
    """Of each type of action what carries it out."""
    nominations, nodes = Nominations(means), NodeWrites(means)
    return {
        Bind: Bindings(means),
        Nominate: nominations,
        WithdrawNomination: nominations,
        Mark: Marks(means),
        Unmark: Unmarks(means),
        Remove: Removals(means),
        AskRemoval: RemovalsAsked(means),
        SetCondition: Conditions(means),
        SetGroupStatus: GroupStatuses(means),
        Report: Reports(means),
        BindVolume: BoundVolumes(means),
        SelectNode: SelectedNodes(means),
        AllocateClaim: Allocations(means),
        ReserveClaim: Reservations(means),
        ReleaseClaim: Releases(means),
        SuspendJob: Suspensions(means),
        ResumeJob: JobWrites(means),
        HoldNode: nodes,
        ReleaseNode: nodes,
    }
