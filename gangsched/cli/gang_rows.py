"""Gangs as a list: how each stands, in one line. Facts in, rows out; no I/O."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from gangsched.cli.decisions import can_start
from gangsched.cli.words import natural
from gangsched.core.decision import Decision
from gangsched.core.state.membership import Census
from gangsched.core.world.world import World
from gangsched.messages import failures
from gangsched.model.records import GangId, Pod

#: States, from arrival to end: see :func:`_state`.
GATHERING, QUEUED, NOMINATED, BINDING = "Gathering", "Queued", "Nominated", "Binding"
STARTING, RUNNING, LEAVING, FINISHED = "Starting", "Running", "Leaving", "Finished"


class Row(msgspec.Struct, frozen=True):
    """One gang. ``bound`` of ``needed`` members have a node, ``pending`` have none; ``created`` is in seconds since the
    epoch (0 where it is not known). ``reason`` says why it waits and is empty when it does not.
    """

    namespace: str
    name: str
    kind: str
    state: str
    bound: int
    needed: int
    pending: int
    priority: int
    created: float
    reason: str
    scheduler: str
    nodes: tuple[str, ...]

    @property
    def ready(self) -> str:
        """``2/4``."""
        return f"{self.bound}/{self.needed}"


def rows(world: World, decisions: Mapping[GangId, Decision]) -> Iterator[Row]:
    """All gangs of our scheduler names by namespace and name, where ``10`` follows ``9``. ``decisions`` are what would
    be decided, for gangs whose pods have no condition of any scheduler.
    """
    membership = world.membership
    for gang in sorted(filter(membership.is_ours, membership.members), key=_order):
        spec, census = membership.spec(gang), membership.census(gang)
        needed = spec.min_member if spec is not None else 1
        gangs = membership.group(gang)[0]
        waits = membership.waits(gang)
        problem = world.problem(gangs) if waits else ""
        yield Row(
            namespace=gang.namespace,
            name=gang.name,
            kind=spec.kind if spec is not None else "PodGroup",
            state=_state(census, needed, problem),
            bound=len(census.bound) + census.succeeded,
            needed=needed,
            pending=len(census.pending) + len(census.gated),
            priority=membership.preemptor_priority((gang,)),
            created=membership.created((gang,)),
            reason=(problem or _said(census.pending) or _decided(decisions.get(gang))) if waits else "",
            scheduler=gang.scheduler,
            nodes=tuple(sorted({pod.node for pod in census.bound if pod.node}, key=natural)),
        )


def _state(census: Census, needed: int, problem: str) -> str:
    if len(census.bound) + census.succeeded < needed:
        if census.bound:
            return BINDING
        if census.pending or census.gated:
            nominated = any(pod.on_record for pod in census.pending)
            return GATHERING if problem else NOMINATED if nominated else QUEUED
    if census.bound:
        return RUNNING if all(pod.phase == "Running" for pod in census.bound) else STARTING
    return LEAVING if census.terminating else FINISHED


def _said(pending: list[Pod]) -> str:
    """What a scheduler has written on the first member that waits, or why it could not."""
    conditions = (pod.scheduled_condition for pod in pending)
    return next((c.message for c in conditions if c is not None and c.status == "False" and c.message), "")


def _decided(decision: Decision | None) -> str:
    if decision is None:
        return failures.NOT_DECIDED
    return can_start(decision) or decision.message


def _order(gang: GangId) -> tuple[str, list[str | int], str]:
    return gang.namespace, natural(gang.name), gang.family
