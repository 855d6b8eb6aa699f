"""The simulated cluster: objects, time, kubelets and controllers, without any scheduler in it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import msgspec

from gangsched.cluster.sim.arrival import Arrival, created_at
from gangsched.cluster.sim.clock import VirtualClock
from gangsched.cluster.sim.controllers import DisruptionController, PodGarbageCollector
from gangsched.cluster.sim.faults import Faults, NoFaults
from gangsched.cluster.sim.history import CREATE, EXISTS, INPUT, USER, Cause, History
from gangsched.cluster.sim.jobs import JobController, JobSetController
from gangsched.cluster.sim.kubelet import Kubelet
from gangsched.cluster.sim.store import Store, describe
from gangsched.cluster.sim.timing import Timing
from gangsched.cluster.sim.volumes import VolumeController
from gangsched.cluster.sim.writes import ApiServer
from gangsched.core.events import Changed, Event, record_of
from gangsched.model.records import Pod
from gangsched.model.volumes import PersistentVolume, PersistentVolumeClaim

__all__ = ["Timing", "World"]


class World:
    """A cluster that lives on its virtual clock from ``start`` (seconds since the epoch) on.

    ``arrivals`` are its objects (:func:`gangsched.cluster.sim.arrival.arrivals` makes them of events); what arrives
    after 0 seconds is there before any scheduler connects. A scheduler connects with
    :class:`~gangsched.cluster.sim.adapter.SimCluster`; it may go away and another one come.
    """

    def __init__(
        self,
        arrivals: Sequence[Arrival],
        *,
        start: float = 0.0,
        timing: Timing | None = None,
        faults: Faults | None = None,
    ) -> None:
        self.timing = timing or Timing()
        self.faults: Faults = faults or NoFaults()
        self.clock = VirtualClock(start)
        self.history = History(self.clock)
        self.store = Store(self.history)
        self.kubelet = Kubelet(self.clock, self.store, self.timing)
        self.disruption = DisruptionController(self.clock, self.store, self.timing)
        self.pod_gc = PodGarbageCollector(self.clock, self.store, self.timing)
        self.job_controller = JobController(self.clock, self.store, self.timing)
        self.jobset_controller = JobSetController(self.clock, self.store, self.timing)
        self.volume_controller = VolumeController(self.clock, self.store, self.timing)
        self.api = ApiServer(self.clock, self.store, self.history, self.timing, self.faults)
        for after_seconds, event in arrivals:
            if after_seconds <= 0:
                self.apply(event, Cause(INPUT, EXISTS))
            else:
                self.create_after(after_seconds, event)
        self.disruption.catch_up()

    @classmethod
    def of(cls, events: Iterable[Event], *, start: float = 0.0) -> World:
        """A world in which everything is there from the start."""
        return cls([Arrival(0.0, event) for event in events], start=start)

    def apply(self, event: Event, cause: Cause | None = None) -> bool:
        """Make a change now, as a user would; see :meth:`Store.apply`."""
        return self.store.apply(with_uid(event), cause or Cause(USER, CREATE))

    def create_after(self, seconds: float, event: Event) -> None:
        """Create (or change, or remove) an object ``seconds`` from now; its creation time is that moment."""

        def create() -> None:
            self.apply(created_at(event, self.clock.stamp))

        self.clock.after(seconds, create)

    def after(self, seconds: float, action: Callable[[], None]) -> None:
        """Let something else happen ``seconds`` from now: another scheduler binds, a node goes away."""
        self.clock.after(seconds, action)


def with_uid(event: Event) -> Event:
    """A pod, claim or volume without a UID gets one that follows from its name: whoever acts on them names UIDs."""
    record = record_of(event)
    if isinstance(record, Pod) and not record.uid:
        return Changed(msgspec.structs.replace(record, uid=f"sim:{record.key}"))
    if isinstance(record, PersistentVolume | PersistentVolumeClaim) and not record.uid:
        kind, name, _ = describe(event)
        return Changed(msgspec.structs.replace(record, uid=f"sim:{kind}/{name}"))
    return event
