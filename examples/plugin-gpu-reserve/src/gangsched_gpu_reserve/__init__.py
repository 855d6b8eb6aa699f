"""Keeps cores on GPU nodes for the pods that come for the GPUs.

On a node with idle GPUs and no cores left the GPUs stay idle. The filter lets pods without GPUs run there only as long
as every idle GPU keeps its share of cores. The score sends pods without GPUs to nodes without any, and pods with GPUs
to the nodes that they leave fullest, so that whole nodes stay free for large gangs.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

import msgspec
import numpy as np

from gangsched.plugins import CPU, Bools, Failure, Floats, PodClass, Simulation


class Arguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """What ``pluginConfig`` may say; the filter and the score are made from the same arguments."""

    resource: Annotated[str, msgspec.Meta(min_length=1)] = "nvidia.com/gpu"
    millicores_per_device: Annotated[int, msgspec.Meta(ge=0)] = 4000


class State(NamedTuple):
    """What a class of pods asks for. What is free is read from the simulation each time, so it is always current."""

    sim: Simulation
    row: int
    devices: float
    millicores: float


class _Plugin:
    """What the filter and the score have in common."""

    name = "GpuReserve"
    Arguments = Arguments

    def __init__(self, arguments: Arguments) -> None:
        self.resource = arguments.resource
        self.reserve = float(arguments.millicores_per_device)

    def _state(self, pod: PodClass, sim: Simulation) -> State:
        asked = dict(pod.shape.requests)
        row = sim.snapshot.resource_row[self.resource]
        return State(sim, row, float(asked.get(self.resource, 0)), float(asked.get("cpu", 0)))

    def _any_devices(self, sim: Simulation) -> bool:
        row = sim.snapshot.resource_row.get(self.resource)
        return row is not None and bool(sim.snapshot.allocatable[row].any())


class GpuReserveFilter(_Plugin):
    """Pods without devices leave enough cores for the devices that are idle."""

    sees_pods = True  # the answer depends on what runs on a node

    def applies(self, pod: PodClass, sim: Simulation) -> bool:
        """Pods that bring devices into use are what the cores are kept for."""
        return self.resource not in dict(pod.shape.requests) and self._any_devices(sim)

    def prepare(self, pod: PodClass, sim: Simulation) -> State:
        """Nothing is counted: the simulation's own numbers are enough."""
        return self._state(pod, sim)

    def mask(self, state: State) -> Bools:
        """Nodes without idle devices, and those with cores to spare."""
        kept = np.maximum(state.sim.free[state.row], 0.0) * self.reserve
        return np.asarray((kept == 0) | (state.sim.free[CPU] - state.millicores >= kept))

    def failures(self, state: State) -> list[Failure]:
        """Eviction can help: pods that leave free cores."""
        return [Failure("node(s) kept their cores for GPUs", ~self.mask(state), resolvable=True)]

    def apply(self, state: State, pod: PodClass, row: int, sign: int) -> None:
        """The simulation has counted the pod already."""


class GpuReserveScore(_Plugin):
    """Fill nodes with devices by pods with devices, and the other nodes by other pods."""

    local = True  # a pod changes the score of its own node only

    def applies(self, pod: PodClass, sim: Simulation) -> bool:
        """Without devices all nodes are alike."""
        return self._any_devices(sim)

    def prepare(self, pod: PodClass, sim: Simulation, feasible: Bools) -> State:
        """No normalisation, so it does not matter which nodes are feasible."""
        return self._state(pod, sim)

    def values(self, state: State) -> Floats:
        """100 for a node without idle devices (pods without devices) or that would have none left (pods with them)."""
        total = state.sim.snapshot.allocatable[state.row]
        idle = np.clip(state.sim.free[state.row] - state.devices, 0.0, total)
        return np.asarray(np.floor(100.0 * (1.0 - idle / np.where(total > 0, total, 1.0))))

    def value(self, state: State, row: int) -> float:
        """The same for one node; gangs of many pods ask for it once per pod."""
        total = float(state.sim.snapshot.allocatable[state.row, row])
        idle = min(max(float(state.sim.free[state.row, row]) - state.devices, 0.0), total)
        return float(np.floor(100.0 * (1.0 - idle / (total if total > 0 else 1.0))))
