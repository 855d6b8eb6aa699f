"""Small objects, and a world to put them in."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar

import msgspec

from gangsched.cluster.sim import SimCluster, World
from gangsched.cluster.sim.arrival import Arrival
from gangsched.cluster.sim.faults import Faults
from gangsched.core.actions import Action, PodRef
from gangsched.core.events import Changed, Event, Outcome, WriteDone, records
from gangsched.model.constraints import LabelSelector, PodShape, Requirement
from gangsched.model.records import SINGLE, Budget, Condition, Gang, GangId, Job, Node, Pod

Record = TypeVar("Record", Pod, Node)

SCHEDULER = "py-gang-scheduler"
FAMILY = "scheduling.k8s.io"
SHAPES: dict[int, PodShape] = {}


def node(name: str = "n1", cpu: int = 4, **fields: Any) -> Node:
    """A node with so many CPUs and room for 110 pods."""
    return Node(name=name, uid=f"node-{name}", allocatable=(("cpu", cpu * 1000), ("pods", 110)), **fields)


def pod(name: str, cpu: int = 1, gang: str = "", **fields: Any) -> Pod:
    """A pod in namespace ns; with ``node`` it runs there."""
    shape = SHAPES.setdefault(cpu, PodShape(requests=(("cpu", cpu * 1000),) if cpu else ()))
    family, group = (FAMILY, gang) if gang else (SINGLE, name)
    fields.setdefault("phase", "Running" if fields.get("node") else "Pending")
    return Pod(
        namespace="ns",
        name=name,
        uid=fields.pop("uid", f"uid-{name}"),
        shape=shape,
        gang=GangId(family, "ns", group, SCHEDULER),
        scheduler=SCHEDULER,
        **fields,
    )


def gang(name: str, minimum: int, **fields: Any) -> Gang:
    """A group object of the upstream API."""
    return Gang(family=FAMILY, namespace="ns", name=name, uid=f"gang-{name}", min_member=minimum, **fields)


def budget(name: str, app: str, **fields: Any) -> Budget:
    """A budget for the pods with label ``app``."""
    return Budget("ns", name, LabelSelector((Requirement("app", "In", (app,)),)), **fields)


def event(record: Node | Pod | Gang | Budget | Job) -> Event:
    """The event that brings a record."""
    match record:
        case Node():
            return Changed(record)
        case Pod():
            return Changed(record)
        case Gang():
            return Changed(record)
        case Job():
            return Changed(record)
    return Changed(record)


def world(*records: Node | Pod | Gang | Budget | Job, faults: Faults | None = None) -> World:
    """A world with these objects from the start."""
    return World([Arrival(0.0, event(r)) for r in records], faults=faults)


def pods_in(events: Iterable[Event]) -> list[Pod]:
    """The pods that were created or changed, in the order of the events."""
    return list(records(events, Pod))


def ref(of: Pod | str, uid: str | None = None) -> PodRef:
    """How actions name a pod of namespace ns."""
    name = of if isinstance(of, str) else of.name
    return PodRef("ns", name, uid or f"uid-{name}")


def outcomes(there: World, *actions: Action) -> list[Outcome]:
    """Do these actions one after the other, each with its answer, and return the outcomes."""
    cluster = SimCluster(there)
    cluster.poll()
    out = []
    for action in actions:
        cluster.submit([action])
        answer = None
        while answer is None:
            now, events = cluster.wait(there.clock.now + 1.0)
            answer = next((e for e in events if isinstance(e, WriteDone)), None)
            assert now < 1000.0, "there was no answer"
        out.append(answer.outcome)
    cluster.close()
    return out


def get(there: World, name: str) -> Pod:
    """The pod of namespace ns as it is now."""
    return there.store.pods["ns", name]


def condition(there: World, name: str, which: str = "disruption") -> Condition:
    """A condition of a pod that has it: ``disruption``, ``intent`` or ``scheduled_condition``."""
    found = getattr(get(there, name), which)
    assert isinstance(found, Condition)
    return found


def changed(of: Record, **fields: Any) -> Record:
    """The pod (or node) with other values."""
    return msgspec.structs.replace(of, **fields)
