"""A cluster, read once: what the scheduler would know of it now. Nothing is written."""

from __future__ import annotations

from collections.abc import Generator

from gangsched.cluster.kube.adapter import KubeCluster
from gangsched.core.events import Event, LeadershipChanged, Synced
from gangsched.http.connection import Connection
from gangsched.messages import failures
from gangsched.runtime.connecting import StartError
from gangsched.runtime.settings import Configuration

#: A cluster that has not been listed after this time is reported to the user instead of waited for.
LIMIT_SECONDS = 60.0
#: The reader tries again by itself: what cannot be read after this time is refused for good.
_TRIES_SECONDS = 5.0
_POLL_SECONDS = 0.5


def unreadable(cluster: KubeCluster, waited_seconds: float, limit_seconds: float = LIMIT_SECONDS) -> str | None:
    """Why a cluster that is not listed after this time will not be; None while that is open."""
    health = cluster.health()
    refused = bool(health.problems) and waited_seconds >= _TRIES_SECONDS
    if cluster.stopped or refused or waited_seconds >= limit_seconds:
        return "; ".join(health.problems) or health.failure or "no answer"
    return None


def follow(
    configuration: Configuration, connection: Connection, limit_seconds: float = LIMIT_SECONDS
) -> Generator[tuple[list[Event], float]]:
    """``(events, now)`` again and again: first an event for each object, once all have been listed; then what happens.

    Close it. Raises :class:`StartError` with what cannot be read.
    """
    wanted = configuration.client_connection
    cluster = KubeCluster(
        connection, lease=None, dry_run=True, qps=wanted.qps, burst=wanted.burst, quota_mode=configuration.quota.mode
    )
    cluster.start()
    try:
        began, synced = cluster.now(), False
        events: list[Event] = []
        while True:
            now, batch = cluster.wait(cluster.now() + _POLL_SECONDS)
            synced = synced or any(isinstance(event, Synced) for event in batch)
            events.extend(e for e in batch if not isinstance(e, Synced | LeadershipChanged))
            if synced and not cluster.stopped:
                yield events, now
                events = []
            elif problem := unreadable(cluster, now - began, limit_seconds):
                raise StartError(failures.unreadable(connection, problem))
    finally:
        cluster.stop()
