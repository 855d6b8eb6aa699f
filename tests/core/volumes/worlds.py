"""Three nodes and volumes: which nodes pass for a pod, and what is said about the others."""

from __future__ import annotations

from typing import Any

from gangsched.core.framework.pipeline import pipeline_of
from gangsched.core.state.simulation import Simulation
from gangsched.model.volumes import CSINode, StorageObject
from tests.builders import LATER, MADE, PodBuilder, node, volume
from tests.core.harness import Built, world

NODES = [node(f"n{i}").label(rack=f"r{i % 2}") for i in (1, 2, 3)]
DRIVER = MADE.provisioner
LIMITS = [CSINode(f"n{i}", ((DRIVER, 1),)) for i in (1, 2)]


def passing(wanted: PodBuilder, *objects: Built) -> list[str]:
    """Names of the nodes that pass every filter."""
    sim = Simulation(world(*NODES, LATER, MADE, *objects).world.snapshot)
    mask = pipeline_of().mask(sim.snapshot.class_of(wanted.obj()), sim)
    return [n.name for n, ok in zip(sim.snapshot.nodes, mask, strict=True) if ok]


def told(wanted: PodBuilder, *objects: Built) -> tuple[str, bool]:
    """What is said of a pod that no node takes, and whether preemption could help on any of them."""
    sim = Simulation(world(*NODES, LATER, MADE, *objects).world.snapshot)
    reasons, resolvable = pipeline_of().diagnose(sim.snapshot.class_of(wanted.obj()), sim)
    return ", ".join(r.sentence for r in reasons), bool(resolvable.any())


def csi(name: str, **fields: Any) -> StorageObject:
    """A volume of the driver with limits."""
    return volume(name, driver=DRIVER, handle=f"h-{name}", **fields)
