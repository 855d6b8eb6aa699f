"""Time of a new core after an error, and the cost of the boundary: ``python -m tests.bench.rebuild [NODES PODS]``."""

from __future__ import annotations

import gc
import sys
import time
from functools import partial

from gangsched.core.actions import Action, Bind
from gangsched.core.events import Changed, Event, Outcome, Synced, WriteDone
from gangsched.core.options import Options
from gangsched.core.scheduler import Scheduler
from gangsched.runtime.boundary import Boundary
from tests.builders import node, pod
from tests.core.harness import event


def cluster(nodes: int, pods: int) -> list[Event]:
    """So many nodes, and pods of Deployments that run on them."""
    out = [event(node(f"n{i}").cpu(64).memory(256).label(zone=f"z{i % 3}")) for i in range(nodes)]
    for i in range(pods):
        built = pod(f"p{i}").cpu(1).memory(2).label(app=f"a{i % 200}").owner("ReplicaSet", f"a{i % 200}")
        out.append(event(built.on(f"n{i % nodes}")))
    return out


def pending(count: int, start: int = 0) -> list[Event]:
    """Pods that wait."""
    return [event(pod(f"new{i}").cpu(1).memory(1).label(app=f"a{i % 200}")) for i in range(start, start + count)]


def rebuild(nodes: int, pods: int) -> float:
    """Seconds from an error to the end of the call; a pod that has come with it is decided after it."""
    boundary = Boundary(partial(Scheduler, Options()), leads_by_itself=True)
    boundary.handle([*cluster(nodes, pods), Synced()], 0.0)

    def fail() -> list[Action]:
        raise ZeroDivisionError

    boundary.core._settled = fail  # type: ignore[method-assign]
    began = time.process_time()
    boundary.handle(pending(1), 1.0)
    seconds = time.process_time() - began
    assert boundary.has_work(1.0)
    assert any(isinstance(each, Bind) for each in boundary.decide(1.0))
    return seconds


def decide(core: Scheduler | Boundary[Scheduler], start: int, count: int) -> float:
    """Seconds to decide so many pods, their answers and watch events included."""
    now = float(start)
    began = time.process_time()
    core.handle(pending(count, start), now)
    while core.has_work(now):
        for bound in [each for each in core.decide(now) if isinstance(each, Bind)]:
            core.drain_decisions()
            built = pod(bound.pod.name).cpu(1).memory(1).label(app="a0").field(node=bound.node)
            core.handle([WriteDone(bound.id, Outcome.OK), Changed(built.obj())], now)
    return time.process_time() - began


def cost(nodes: int, rounds: int = 30, count: int = 100) -> tuple[float, float]:
    """Microseconds a decision without and with the boundary: the least of many rounds, which take turns."""
    cores = Scheduler(Options()), Boundary(partial(Scheduler, Options()), leads_by_itself=True)
    for core in cores:
        core.handle([*cluster(nodes, 10 * nodes), Synced()], 0.0)
    least = [float("inf"), float("inf")]
    for number in range(rounds):
        for which in (0, 1) if number % 2 else (1, 0):
            least[which] = min(least[which], decide(cores[which], number * count, count) / count * 1e6)
    return least[0], least[1]


def main(nodes: int, pods: int) -> None:
    """Print the figures; the collector rests, as it does in a process whose caches are complete."""
    gc.disable()
    print(f"rebuild with {nodes} nodes and {pods} pods: {rebuild(nodes, pods):.2f} s")
    without, contained = cost(nodes // 10)
    print(f"a decision: {without:.1f} us, within the boundary {contained:.1f} us, x {contained / without:.3f}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:3] or ("5000", "50000")))
