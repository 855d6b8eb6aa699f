"""Host ports: one pod per (address, protocol, port) of a node; 0.0.0.0 stands for every address."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gangsched.core.arrays import Bools, Ints, isin
from gangsched.core.filters.base import Failure
from gangsched.model.records import HostPort

if TYPE_CHECKING:
    from gangsched.core.state.podclass import PodClass
    from gangsched.core.state.simulation import Simulation

_ANY = "0.0.0.0"  # noqa: S104 - the API's word for "every address", nothing is bound here


def clash(a: tuple[HostPort, ...], b: tuple[HostPort, ...]) -> bool:
    """Can two pods with these ports not share a node?"""
    return any(
        x.port == y.port and x.protocol == y.protocol and (x.ip == y.ip or _ANY in (x.ip, y.ip)) for x in a for y in b
    )


class _State:
    def __init__(self, ports: tuple[HostPort, ...], size: int) -> None:
        self.ports = ports
        self.clashes: Ints = np.zeros(size, dtype=np.int64)


class NodePorts:
    """Nodes on which no pod holds a conflicting port."""

    name = "NodePorts"
    text = "node(s) didn't have free ports for the requested pod ports"
    sees_pods = True

    def applies(self, pod: PodClass, sim: Simulation) -> bool:
        return bool(pod.shape.host_ports)

    def prepare(self, pod: PodClass, sim: Simulation) -> _State:
        snapshot, table = sim.snapshot, sim.snapshot.table
        state = _State(pod.shape.host_ports, snapshot.size)
        clashing = np.zeros(len(snapshot.shapes), dtype=np.bool_)
        for number in snapshot.port_shapes:
            clashing[number] = clash(state.ports, snapshot.shapes[number].host_ports)
        if clashing.any():
            slots = table.occupied()
            slots = slots[clashing[table.shape[slots]]]
            slots = slots[~isin(slots, sim.lifted())]
            state.clashes += np.bincount(table.row[slots], minlength=snapshot.size)
        for other, row in sim.visitors():
            self.apply(state, other, row, +1)
        return state

    def mask(self, state: _State) -> Bools:
        return np.asarray(state.clashes == 0)

    def failures(self, state: _State) -> list[Failure]:
        return [Failure(self.text, state.clashes > 0, resolvable=True)]

    def apply(self, state: _State, pod: PodClass, row: int, sign: int) -> None:
        if pod.shape.host_ports and clash(state.ports, pod.shape.host_ports):
            state.clashes[row] += sign
