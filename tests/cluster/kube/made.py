"""What writes ask of the API server, without one."""

from __future__ import annotations

from typing import Any, cast

from gangsched.cluster.kube.bodies import Request
from gangsched.cluster.kube.client import Client
from gangsched.cluster.kube.kind_of_write import Means
from gangsched.cluster.kube.preconditions import Preconditions
from gangsched.cluster.kube.writes import kinds_of_writes
from gangsched.cluster.queue import Sendable
from gangsched.core.actions import Report


def told_to_nobody(report: Report) -> None:
    """No Event is expected."""
    raise AssertionError(report)


def means(known: Preconditions | None = None, client: Any = None, told: Any = told_to_nobody) -> Means:
    """What kinds of writes have at hand; the epoch is now."""
    return Means(cast("Client", client), known or Preconditions(), 1.0, told, lambda: 0.0)


def request_of(action: Sendable) -> Request:
    """The request for an action of which nothing is known."""
    return kinds_of_writes(means())[type(action)].request(action)
