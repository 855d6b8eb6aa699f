"""A simulation of what was read, with the run times that are known of its pods."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import msgspec

from gangsched.cli.run_times import RunTimes, workload_of
from gangsched.cli.simulation import Simulation, simulate
from gangsched.cluster.sim.arrival import RUN_FOR
from gangsched.core.events import records
from gangsched.core.options import Options
from gangsched.model.records import Pod

if TYPE_CHECKING:
    from gangsched.cluster.manifests import Loaded
    from gangsched.cluster.sim.faults import Faults


def rehearse(
    loaded: Loaded,
    options: Options,
    *,
    until_seconds: float,
    file_order: bool = False,
    faults: Faults | None = None,
    contained: bool = False,
) -> Simulation:
    """Run a scheduler in a cluster of these objects, as :func:`~gangsched.cli.simulation.simulate` does. Pods end when
    ``--eta`` expects them to, unless an annotation for simulations says otherwise.
    """
    times = RunTimes(loaded.events, options, loaded.now)
    events = [times.declared_in(event) for event in loaded.events]
    live = (pod for pod in records(events, Pod) if pod.live and RUN_FOR not in pod.hints)
    simulation = simulate(
        events,
        options,
        until_seconds=until_seconds,
        start=loaded.now,
        file_order=file_order,
        group_hints=loaded.group_hints,
        faults=faults,
        contained=contained,
    )
    unknown = Counter(workload_of(pod) for pod in live)
    return msgspec.structs.replace(simulation, unknown_run_times=dict(sorted(unknown.items())))
