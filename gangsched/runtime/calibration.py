"""How many search steps this machine does in a millisecond.

A search is bounded in steps, so that the same cluster gives the same plan; the configuration bounds it in
milliseconds. A running scheduler converts once, at its start, with the figure measured here, and logs it.
"""

from __future__ import annotations

import time

from gangsched.core.framework.pipeline import Ranking, default_pipeline
from gangsched.core.options import Options
from gangsched.core.state.simulation import Simulation
from gangsched.core.state.snapshot import Snapshot
from gangsched.model.records import SINGLE, GangId, Node, Pod, PodShape

_NODES = 1000
_ROUNDS = 30
#: A figure outside of these says more about the moment than about the machine.
LOWEST, HIGHEST = 2, 100


def steps_per_millisecond() -> int:
    """Steps of the dearest kind per millisecond: one class of pods filtered and scored over 1000 nodes."""
    snapshot = Snapshot()
    shape = PodShape(requests=(("cpu", 1000), ("memory", 2**30)), scored=(("cpu", 1000), ("memory", 2**30)))
    for n in range(_NODES):
        snapshot.set_node(Node(f"n{n}", allocatable=(("cpu", 4000), ("memory", 2**34), ("pods", 110))))
    sim = Simulation(snapshot)
    pod = snapshot.class_of(Pod("calibration", "p", "p", shape, GangId(SINGLE, "calibration", "p", "none")))
    pipeline = default_pipeline(Options())
    began = time.thread_time()  # others may be at work
    for _ in range(_ROUNDS):
        Ranking(pipeline, pod, sim, pipeline.mask(pod, sim)).best()
    milliseconds = max((time.thread_time() - began) * 1000.0, 1e-6)
    return max(LOWEST, min(HIGHEST, round(_ROUNDS / milliseconds)))
