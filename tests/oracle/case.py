"""One question to the planner: a cluster with a pending gang, as records."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from gangsched.core.decision import Decision
from gangsched.core.events import Changed, Event
from gangsched.core.forecast import forecast
from gangsched.core.options import Options
from gangsched.model.constraints import HostPort, Labels, PodShape, PodTerm
from gangsched.model.records import SINGLE, Budget, Gang, GangId, Node, Pod

OURS = "py-gang-scheduler"
#: The moment at which every case is decided, in seconds.
NOW = 1_000_000.0
ZONE, HOSTNAME = "topology.kubernetes.io/zone", "kubernetes.io/hostname"


class Case(msgspec.Struct):
    """A cluster and the options to decide it with. ``title`` says in words what is in it."""

    nodes: list[Node]
    pods: list[Pod]
    gangs: list[Gang]
    budgets: list[Budget]
    options: Options = Options()
    title: str = ""

    def events(self) -> list[Event]:
        """The cluster as the core takes it in."""
        out: list[Event] = [Changed(n) for n in self.nodes]
        out += [Changed(g) for g in self.gangs]
        out += [Changed(b) for b in self.budgets]
        out += [Changed(p) for p in self.pods]
        return out


def decide(case: Case, events: Iterable[Event] | None = None) -> tuple[Decision, ...]:
    """The planner's decisions for the first group in the queue: one, or one per gang of a GangGroup."""
    decisions = list(forecast(case.events() if events is None else events, case.options, NOW))
    first = decisions[0]
    return tuple(d for d in decisions if d.gang.key in (first.group or (first.gang.key,)))


def told(decisions: Iterable[Decision]) -> list[tuple[object, ...]]:
    """The decisions, in what a user sees of them."""
    return [(d.outcome, d.placements, d.victims, d.awaiting, d.message) for d in decisions]


class Maker:
    """Makes records with equal parts interned, as the decoder does: the core compares shapes and labels by identity."""

    def __init__(self) -> None:
        self._shapes: dict[str, PodShape] = {}
        self._labels: dict[tuple[tuple[str, str], ...], Labels] = {}

    def shape(
        self,
        requests: dict[str, int],
        *,
        node_selector: dict[str, str] | None = None,
        anti_affinity: Sequence[PodTerm] = (),
        host_ports: Sequence[HostPort] = (),
        **more: Any,
    ) -> PodShape:
        """A pod shape; ``requests`` in base units."""
        wanted = tuple(sorted((k, v) for k, v in requests.items() if v))
        made = PodShape(
            requests=wanted,
            scored=tuple((k, requests.get(k) or d) for k, d in (("cpu", 100), ("memory", 200 << 20))),
            node_selector=tuple(sorted((node_selector or {}).items())),
            anti_affinity=tuple(anti_affinity),
            host_ports=tuple(host_ports),
            **more,
        )
        return self._shapes.setdefault(repr(made), made)

    def labels(self, labels: dict[str, str]) -> Labels:
        """A label set."""
        return self._labels.setdefault(tuple(sorted(labels.items())), labels)

    def pod(
        self,
        name: str,
        shape: PodShape,
        *,
        namespace: str = "default",
        gang: tuple[str, str] | None = None,
        labels: dict[str, str] | None = None,
        scheduler: str = OURS,
        node: str = "",
        **more: Any,
    ) -> Pod:
        """A pod; bound and running when ``node`` is given. ``gang`` is (family, name), without it a gang of one."""
        family, gang_name = gang or (SINGLE, name)
        return Pod(
            namespace=namespace,
            name=name,
            uid=f"uid-{namespace}-{name}",
            shape=shape,
            gang=GangId(family, namespace, gang_name, scheduler),
            scheduler=scheduler,
            labels=self.labels(labels or {}),
            node=node,
            **{"phase": "Running" if node else "Pending", **more},
        )

    def node(self, name: str, allocatable: dict[str, int], *, zone: str = "", **more: Any) -> Node:
        """A node with its hostname and zone labels; 110 pods unless ``allocatable`` says otherwise."""
        labels = {HOSTNAME: name, **({ZONE: zone} if zone else {})}
        amounts = {"pods": 110, **allocatable}
        return Node(
            name=name,
            uid=f"uid-{name}",
            labels=self.labels(labels),
            allocatable=tuple(sorted(amounts.items())),
            **more,
        )
