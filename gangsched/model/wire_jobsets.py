"""The fields of a ``jobset.x-k8s.io/v1alpha2`` JobSet that are read, as the API spells them."""

from __future__ import annotations

import msgspec

from gangsched.model import wire


class DependsOn(wire.Wire):
    """A replicated Job that has to be ready or complete first."""

    name: str = ""


class ReplicatedJob(wire.Wire):
    """``replicas`` Jobs of one template."""

    name: str = ""
    replicas: int = 1
    template: wire.Job = msgspec.field(default_factory=wire.Job)
    depends_on: list[DependsOn] | None = None


class StartupPolicy(wire.Wire):
    """``AnyOrder`` or ``InOrder``."""

    startup_policy_order: str = ""


class JobSetSpec(wire.Wire):
    """Which Jobs it makes, and when."""

    replicated_jobs: list[ReplicatedJob] = msgspec.field(default_factory=list)
    startup_policy: StartupPolicy | None = None
    suspend: bool = False


class JobSetStatus(wire.Wire):
    """Only whether the JobSet is over."""

    conditions: list[wire.Condition] | None = None


class JobSet(wire.Object):
    """One JobSet."""

    spec: JobSetSpec = msgspec.field(default_factory=JobSetSpec)
    status: JobSetStatus = msgspec.field(default_factory=JobSetStatus)
