"""How long things take in the simulated cluster."""

from __future__ import annotations

import msgspec


class Timing(msgspec.Struct, frozen=True, kw_only=True):
    """Delays in seconds, as they are on a cluster that is not under load.

    ``write_seconds`` is one way of a request (its answer takes as long again); ``watch_seconds`` is from a change
    to whoever watches it; ``start_seconds`` from a pod's binding to Running; ``controller_seconds`` until a
    controller reacts.
    """

    write_seconds: float = 0.005
    watch_seconds: float = 0.005
    start_seconds: float = 1.0
    controller_seconds: float = 0.1
    #: The Job controller replaces a pod that has failed after this time.
    job_backoff_seconds: float = 10.0
    #: A provisioner makes a volume in this time.
    provision_seconds: float = 2.0
    #: The disruption controller takes back a mark on a pod that is not removed within this time.
    stale_mark_seconds: float = 120.0
    #: Pods of a node that no longer exists are deleted after this time.
    pod_gc_seconds: float = 40.0
