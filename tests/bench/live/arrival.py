"""Pods that arrive while the scheduler runs: which, how fast, and for how long.

A cell has nodes and running pods, and a scheduler that is ready; then gangs are created at a steady rate, and, in
churn, deleted some seconds after they were bound. kube-scheduler and the floor get the same gangs at the same rate, in
churn for a shorter time.
"""

from __future__ import annotations

import msgspec

from tests.bench.live.backlog import STILL_SECONDS
from tests.bench.live.cells import Cell

#: Pods that have arrived are given so long to be bound.
LAST_SECONDS = 60.0
#: Whoever is only compared with is given less, lest one cell takes much of the time of all.
SHORT_SECONDS, SHORT_LAST_SECONDS = 60.0, 30.0


class Arrival(msgspec.Struct, frozen=True, kw_only=True):
    """Gangs of ``cell`` arrive at ``rate`` pods per second; bound pods live ``life_seconds`` (0: for ever).

    With a ``share`` the rate is that part of the floor's, and as many gangs arrive as ``seconds`` have room for: the
    floor is a bare loop that creates, binds and deletes the same objects, and is measured just before. Events and
    statuses are waited for ``still_seconds`` after the last binding.
    """

    cell: Cell
    rate: float = 0.0
    life_seconds: float = 0.0
    share: float = 0.0
    seconds: float = 0.0
    last_seconds: float = LAST_SECONDS
    still_seconds: float = STILL_SECONDS
    smoke: int = 20

    @property
    def name(self) -> str:
        return self.cell.name

    def smaller(self) -> Arrival:
        """The same, for a run that only shows that everything works."""
        cell = self.cell
        small = msgspec.structs.replace(
            cell, nodes=max(10, cell.nodes // self.smoke), gangs=max(5, cell.gangs // self.smoke)
        )
        return msgspec.structs.replace(
            self,
            cell=small,
            rate=min(self.rate, 50.0),
            seconds=self.seconds / self.smoke,
            life_seconds=min(self.life_seconds, 1.0),
            still_seconds=0.5,
        )

    def at(self, rate: float) -> Arrival:
        """The same at this rate, whatever the floor's is."""
        gangs = max(1, int(rate * self.seconds / self.cell.size)) if self.seconds else self.cell.gangs
        return msgspec.structs.replace(self, cell=msgspec.structs.replace(self.cell, gangs=gangs), rate=rate, share=0.0)

    def bounded(self) -> Arrival:
        """The same for those that ours is compared with."""
        return msgspec.structs.replace(
            self, seconds=min(self.seconds, SHORT_SECONDS), last_seconds=min(self.last_seconds, SHORT_LAST_SECONDS)
        )


#: 5,000 nodes with ten pods each; 2,000 pods in gangs of 8.
LARGE = Arrival(
    cell=Cell(
        name="5,000 nodes, 50,000 pods; gangs of 8 arrive",
        nodes=5000,
        gangs=250,
        size=8,
        victims_per_node=10,
        victim_milli_cpu=1000,
    ),
    rate=100.0,
    smoke=250,
)
#: Gangs of 4 come and go on 1,000 nodes for three minutes, at a quarter of the rate of the floor.
CHURN = Arrival(
    cell=Cell(name="churn on 1,000 nodes; gangs of 4", nodes=1000, size=4),
    life_seconds=10.0,
    share=0.25,
    seconds=180.0,
    smoke=60,
)
ALL = (LARGE, CHURN)
