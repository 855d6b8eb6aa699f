"""The port between the decision loop and a cluster; both adapters and the loop are written against it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from gangsched.core.actions import Action
from gangsched.core.events import Event


class Cluster(Protocol):
    """A cluster as the decision loop sees it. All methods are called from the decision thread only.

    ``now`` is seconds since the epoch in the adapter's clock: the wall clock of a real cluster (never running
    backwards), the virtual one of a simulated cluster.
    """

    def wait(self, until: float | None) -> tuple[float, list[Event]]:
        """Block until there are events or ``until`` has come (None: for ever); return now and the events.

        An empty list means that the time has come, or that the cluster has been stopped.
        """

    def poll(self) -> tuple[float, list[Event]]:
        """Like :meth:`wait`, without blocking."""

    def submit(self, actions: Sequence[Action]) -> None:
        """Start these actions; answers come back as events. Never blocks on the network."""

    @property
    def stopped(self) -> bool:
        """True when the loop must end."""
