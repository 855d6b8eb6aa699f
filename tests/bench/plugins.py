"""What each filter and score costs for one pod, in a cluster where pods come and go. Run it to see the numbers.

    python -m tests.bench.plugins [--nodes 5000] [--pods 50000] [--repeat 200] [--only NAME ...]

Before each measurement one pod leaves and another comes, so that whatever a plug-in keeps from pod to pod has to be
brought up to date; the simulation is new each time, as it is for each decision. The kernel row is the floor: comparing
and scoring two resources over all nodes with numpy. Anything above a millisecond is flagged.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

import msgspec
import numpy as np

from gangsched.core.events import Changed
from gangsched.core.framework.pipeline import pipeline_of
from gangsched.core.options import Options
from gangsched.core.plugins.base import Bools, Filter, Score
from gangsched.core.scheduler import Scheduler
from gangsched.core.state.podtable import PodClass
from gangsched.core.state.simulation import Simulation
from gangsched.core.state.snapshot import Floats
from gangsched.model.constraints import NodeTerm, PodTerm, PodVolumes, Requirement, SpreadConstraint
from gangsched.model.volumes import ClaimRef, CSINode, PersistentVolume, PersistentVolumeClaim
from tests.bench.publish.tables import table
from tests.builders import PodBuilder, node, pod, selects
from tests.core.harness import Built, event

LIMIT_SECONDS = 1e-3
HOSTNAME, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
APPS = 100


class Row(NamedTuple):
    """One line of the result: seconds of one pod. ``effect`` shows that the plug-in had something to do: the nodes that
    it refuses, or the number of different scores that it gives.
    """

    plugin: str
    kind: str
    pod: str
    seconds: list[float]
    effect: int | None = None


def term(app: str, key: str) -> PodTerm:
    """A term about the pods of an app."""
    return PodTerm(key, selects(app=app), ("d",))


def resident(number: int, nodes: int) -> PodBuilder:
    """A running pod. Some apps keep apart, some prefer company, some hold ports or volumes."""
    app = number % APPS
    made = pod(f"r{number}").cpu(0.1).memory(0.2).label(app=f"a{app}").on(f"n{number % nodes:05d}")
    if app < 5:
        made.shape(anti_affinity=(term(f"a{app}", HOSTNAME),))
    elif app < 10:
        made.shape(preferred_affinity=((10, term(f"a{app}", ZONE)),))
    elif app < 12:
        made.port(8000 + app)
    elif app == 12:
        made.field(volumes=PodVolumes(claims=(f"c{number % 500}",)))
    return made


def storage(nodes: int) -> Iterator[Changed]:
    """Every node takes one volume. 500 claims with their volumes, each in a zone; one claim is for one pod only."""
    for i in range(nodes):
        yield Changed(CSINode(f"n{i:05d}", (("csi", 1),)))
    for i in range(500):
        zone = f"z{i % 3}"
        mode = "ReadWriteOncePod" if i == 112 else "ReadWriteOnce"
        claim = PersistentVolumeClaim("d", f"c{i}", uid=f"c{i}", volume_name=f"v{i}", access_modes=(mode,))
        volume = PersistentVolume(f"v{i}", labels={ZONE: zone}, claim=ClaimRef("d", f"c{i}", f"c{i}"), phase="Bound")
        reachable = (NodeTerm((Requirement(ZONE, "In", (zone,)),)),)
        yield Changed(msgspec.structs.replace(claim, bound=True, phase="Bound"))
        yield Changed(msgspec.structs.replace(volume, node_terms=reachable, driver="csi", handle=f"v{i}"))


def cluster(nodes: int, pods: int) -> Scheduler:
    """A core that knows the cluster."""
    made: list[Built] = []
    for i in range(nodes):
        one = node(f"n{i:05d}").cpu(16).memory(64).label(**{HOSTNAME: f"n{i:05d}", ZONE: f"z{i % 3}"})
        if i % 7 == 0:
            one.taint("dedicated", f"t{i % 5}")
        if i % 11 == 0:
            one.taint("spot", effect="PreferNoSchedule")
        images = (("registry.test/image:v1", 500 << 20),) if i % 3 else ()
        made.append(msgspec.structs.replace(one.obj(), images=images))
    core = Scheduler(Options(wait_for_leadership=True))
    core.handle([*(event(o) for o in made), *storage(nodes)], 0.0)
    core.handle([event(resident(i, nodes)) for i in range(pods)], 0.0)
    return core


def wanted() -> dict[str, PodBuilder]:
    """A pod for each plug-in that gives it something to do; ``plain`` for the others."""
    near = {"preferred_affinity": ((5, term("a20", ZONE)),), "preferred_anti_affinity": ((7, term("a20", HOSTNAME)),)}
    zones = NodeTerm((Requirement(ZONE, "In", ("z0", "z1")),))
    spread = tuple(SpreadConstraint(key, 1, selects(app="a20"), required) for key, required in
                   ((ZONE, True), (HOSTNAME, False)))  # fmt: skip
    return {
        "plain": ours("plain"),
        "NodeName": ours("name").shape(node_name="n00001"),
        "TaintToleration": ours("tolerates").tolerates("dedicated", "Exists"),
        "NodeAffinity": ours("affinity").requires(zones).prefers(10, zones),
        "NodePorts": ours("port").port(8010),
        "PodTopologySpread": ours("spread").shape(spread=spread),
        "InterPodAffinity": ours("company").shape(
            affinity=(term("a20", ZONE),), anti_affinity=(term("a30", HOSTNAME),), **near
        ),
        "ImageLocality": ours("image").shape(images=("registry.test/image:v1",)),
        "Volumes": ours("volume").field(volumes=PodVolumes(claims=("c7",))),
        "VolumeRestrictions": ours("alone").field(volumes=PodVolumes(claims=("c112",))),
    }


def ours(name: str) -> PodBuilder:
    """A pending pod of the app a20."""
    return pod(name).cpu(1).memory(1).label(app="a20")


class Measured:
    """A cluster in motion."""

    def __init__(self, nodes: int, pods: int, repeat: int) -> None:
        self.core = cluster(nodes, pods)
        self.nodes, self.pods, self.repeat = nodes, pods, repeat
        self.snapshot = self.core.world.snapshot
        self._next = 0

    def churn(self) -> None:
        """One pod leaves its node, another of its app comes to the next."""
        number = self._next % self.pods
        self._next += 1
        there = self.core.world.find("d", f"r{number}")
        assert there is not None
        self.core.world.drop_pod(there.uid)
        self.core.world.set_pod(resident(number, self.nodes).on(f"n{(number + 1) % self.nodes:05d}").obj())

    def times(self, what: Callable[[Simulation], object]) -> list[float]:
        """Seconds of ``what``, each in a new simulation after a change of the cluster."""
        out = []
        for _ in range(self.repeat):
            self.churn()
            sim = Simulation(self.snapshot)
            started = time.perf_counter()
            what(sim)
            out.append(time.perf_counter() - started)
        return out

    def simulation(self) -> list[float]:
        """Seconds of making a simulation."""
        out = []
        for _ in range(self.repeat):
            self.churn()
            started = time.perf_counter()
            Simulation(self.snapshot)
            out.append(time.perf_counter() - started)
        return out

    def change(self) -> list[float]:
        """Seconds of the two changes themselves."""
        out = []
        for _ in range(self.repeat):
            started = time.perf_counter()
            self.churn()
            out.append(time.perf_counter() - started)
        return out


def kernel(sim: Simulation) -> object:
    """Two comparisons and two scores over all nodes."""
    free = sim.free
    mask = (free[1] >= 1000.0) & (free[2] >= 1e9)
    return np.floor((free[1] - 1000.0) * 100.0 / 16000.0) + np.floor(free[2] * 1e-8) * mask


def filtering(rule: Filter, kind: PodClass) -> Callable[[Simulation], Bools | None]:
    """What a decision asks a filter for one pod."""
    return lambda sim: rule.mask(rule.prepare(kind, sim)) if rule.applies(kind, sim) else None


def refused(rule: Filter, kind: PodClass, sim: Simulation) -> int | None:
    """Nodes that a filter refuses; None when it has nothing to say about such pods."""
    mask = filtering(rule, kind)(sim)
    return None if mask is None else int((~mask).sum())


def different(score: Score, kind: PodClass, sim: Simulation) -> int | None:
    """Different scores of nodes; None when it has nothing to say about such pods."""
    values = scoring(score, kind)(sim)
    return None if values is None else len(np.unique(values))


def scoring(score: Score, kind: PodClass) -> Callable[[Simulation], Floats | None]:
    """What a decision asks a score for one pod."""

    def ask(sim: Simulation) -> Floats | None:
        feasible = np.ones(sim.snapshot.size, dtype=np.bool_)
        return score.values(score.prepare(kind, sim, feasible)) if score.applies(kind, sim) else None

    return ask


def measure(nodes: int, pods: int, repeat: int, only: list[str]) -> Iterator[Row]:
    """One row for the floor, one for each filter and score, and the whole of it."""
    bed = Measured(nodes, pods, repeat)
    kinds = {name: bed.snapshot.class_of(made.obj()) for name, made in wanted().items()}
    pipeline = pipeline_of()
    bed.times(kernel)
    yield Row("(kernel)", "floor", "", bed.times(kernel))
    yield Row("(a pod leaves, a pod comes)", "event", "", bed.change())
    yield Row("(simulation)", "", "", bed.simulation())
    plain = kinds["plain"]
    yield Row("(filters blind to pods, cached)", "filter", "plain", bed.times(lambda s: pipeline.static_mask(plain, s)))
    for rule in pipeline.filters:
        of = _pod_for(rule.name, kinds)
        if not only or rule.name in only:
            effect = refused(rule, kinds[of], Simulation(bed.snapshot))
            yield Row(rule.name, "filter", of, bed.times(filtering(rule, kinds[of])), effect)
    for score, _ in pipeline.scores:
        of = _pod_for(score.name, kinds)
        if not only or score.name in only:
            effect = different(score, kinds[of], Simulation(bed.snapshot))
            yield Row(score.name, "score", of, bed.times(scoring(score, kinds[of])), effect)


def _pod_for(plugin: str, kinds: dict[str, PodClass]) -> str:
    if plugin in kinds:
        return plugin
    return "Volumes" if "Volume" in plugin else "plain"


def main() -> int:
    """Print the table; 1 when something takes more than a millisecond."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.plugins", description=__doc__)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--pods", type=int, default=50_000)
    parser.add_argument("--repeat", type=int, default=200)
    parser.add_argument("--only", nargs="*", default=[], metavar="NAME")
    given = parser.parse_args()
    rows = list(measure(given.nodes, given.pods, given.repeat, given.only))
    shown, slow = [], 0
    for row in rows:
        p50, p99 = np.percentile(row.seconds, [50, 99])
        slow += p50 > LIMIT_SECONDS
        flag = "above 1 ms" if p50 > LIMIT_SECONDS else ""
        effect = "-" if row.effect is None else row.effect
        shown.append([row.plugin, row.kind, row.pod, effect, f"{p50 * 1e6:.0f}", f"{p99 * 1e6:.0f}", flag])
    print(f"{given.nodes} nodes, {given.pods} pods, one pod at a time\n")
    print(table(["plug-in", "kind", "pod", "effect", "us p50", "us p99", ""], shown))
    return 1 if slow else 0


if __name__ == "__main__":
    sys.exit(main())
