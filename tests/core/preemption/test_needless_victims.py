"""No plan leaves with victims that could be put back, however soon its search ended."""

from __future__ import annotations

import pytest

from gangsched.core.decision import PREEMPT
from gangsched.core.options import Options
from gangsched.core.placement.arrangement import MAX_MEMBERS
from gangsched.model.records import Gang, Taint, Toleration
from tests.bench.worlds import GI, World, pending
from tests.oracle.case import NOW, Case, Maker
from tests.oracle.generate import SIGS


def launcher_and_workers(*, cpu_nodes: int, gpu_nodes: int, workers: int, steps: int) -> Case:
    """CPU nodes full of services, tainted GPU nodes with eight notebooks each; a launcher and workers that want nodes
    for themselves: two services and eight notebooks per worker have to leave.
    """
    make = Maker()
    taint = (Taint("gpu", "yes", "NoSchedule"),)
    tolerates = (Toleration("gpu", "Exists", "", ""),)
    nodes = [make.node(f"c{i:03d}", {"cpu": 32_000, "memory": 128 * GI}) for i in range(cpu_nodes)]
    nodes += [
        make.node(f"g{i:03d}", {"cpu": 64_000, "memory": 256 * GI, "gpu": 8}, taints=taint) for i in range(gpu_nodes)
    ]
    service = make.shape({"cpu": 4000, "memory": 16 * GI})
    notebook = make.shape({"cpu": 4000, "memory": 16 * GI, "gpu": 1}, tolerations=tolerates)
    pods = []
    for n, node in enumerate(nodes):
        shape = service if n < cpu_nodes else notebook
        for i in range(8):
            started = NOW - 100 - (17 * n + 5 * i) % 97
            pods.append(make.pod(f"run-{node.name}-{i}", shape, node=node.name, priority=0, started=started))
    launcher = make.shape({"cpu": 8000, "memory": 16 * GI})
    worker = make.shape({"cpu": 32_000, "memory": 128 * GI, "gpu": 8}, tolerations=tolerates)
    pods += pending(make, "want", [launcher, *[worker] * workers])
    gangs = [Gang(SIGS, "default", "want", min_member=1 + workers)]
    return Case(nodes, pods, gangs, [], Options(search_steps=steps))


@pytest.mark.parametrize("steps", [1, 50, 5000])
@pytest.mark.parametrize("workers", [1, 3, MAX_MEMBERS - 1, MAX_MEMBERS])
def test_a_launcher_and_workers_evict_no_more_than_they_need(workers: int, steps: int) -> None:
    """A launcher needs the room of two services, a worker that of the eight notebooks of one node."""
    verdict = World(launcher_and_workers(cpu_nodes=50, gpu_nodes=20, workers=workers, steps=steps)).decide()
    assert verdict.outcome == PREEMPT
    assert len(verdict.victims) == 2 + 8 * workers
