"""Evictions that free devices, against the optimum by trying everything."""

from __future__ import annotations

import random
from collections.abc import Collection, Iterator
from itertools import combinations
from typing import Any

import msgspec
import pytest

from gangsched.core.decision import Decision, Preempt
from gangsched.core.events import Changed, Event
from gangsched.core.preemption.harm import Harm
from gangsched.model.constraints import PodClaim, PodDevices
from gangsched.model.convert_devices import resource_claim
from gangsched.model.devices import DeviceObject, ResourceClaim
from gangsched.model.raw_devices import RawResourceClaim
from gangsched.model.records import Gang, Pod
from tests.amounts import amount
from tests.core.devices.worlds import CLASSES, GPU, ROOT, ask, device, pool, spec_of
from tests.oracle.case import Case, Maker, decide
from tests.oracle.problem import Problem, read

FAMILY = "scheduling.sigs.k8s.io"


class Cluster:
    """A few nodes with devices, pods that have them, and a gang that wants some. In a ``tight`` one, CPU is scarce,
    too, and members may share a claim.
    """

    def __init__(self, seed: int, *, tight: bool = False) -> None:
        self._tight = tight
        self._rng = random.Random(seed)
        make = Maker()
        self._shape = make.shape({"cpu": 100})
        self.devices: dict[str, list[dict[str, str]]] = {}
        nodes, self._slices = [], []
        for number in range(self._rng.randint(2, 3)):
            name = f"n{number}"
            nodes.append(make.node(name, {"cpu": 400 if tight else 100_000, "memory": 64 << 30}))
            found = [
                {"name": f"d{i}", "model": self._rng.choice("ab"), "root": self._rng.choice("rs")}
                for i in range(self._rng.randint(2, 4))
            ]
            self.devices[name] = found
            made = [device(d["name"], uuid=f"{name}{d['name']}", model=d["model"], root=d["root"]) for d in found]
            self._slices.append(pool(name, *made))
        self.claims: list[ResourceClaim] = []
        self.used: dict[str, list[tuple[str, str]]] = {}
        self.users: dict[str, set[str]] = {}
        pods = [each for name in self.devices for each in self._running(make, name)]
        self.wanted = self._wanted()
        shared = self._claim("", self.wanted[0]) if tight and self._rng.random() < 0.3 else None
        self.shared = shared is not None
        for i, wanted in enumerate(self.wanted):
            mine = shared or self._claim(f"w{i}", wanted)
            pods.append(self._pod(make, f"w{i}", gang="wants", priority=10, claim=mine))
        self.pods = {pod.uid: pod for pod in pods}
        gangs = [
            Gang(FAMILY, "default", "wants", min_member=len(self.wanted), uid="uid-wants"),
            Gang(FAMILY, "default", "pair", min_member=2, uid="uid-pair"),
        ]
        self.case = Case(nodes, pods, gangs, [])

    def _wanted(self) -> list[dict[str, Any]]:
        kinds = [
            {
                "count": self._rng.randint(1, 2),
                "model": self._rng.choice(["", "a", "b"]),
                "match": self._rng.random() < 0.3,
            }
            for _ in range(2)
        ]
        return [self._rng.choice(kinds) for _ in range(self._rng.randint(1, 3))]

    def _claim(self, name: str, wanted: dict[str, Any]) -> ResourceClaim:
        where = f"device.attributes['{GPU}'].model == '{wanted['model']}'" if wanted["model"] else ""
        spec = spec_of(ask(wanted["count"], where=where), match=ROOT if wanted["match"] else "")
        return self._made(name or "shared", spec, owner=name)

    def _made(self, name: str, spec: dict[str, Any], owner: str = "", **status: Any) -> ResourceClaim:
        meta: dict[str, Any] = {"name": f"c-{name}", "namespace": "default", "uid": f"uid-c-{name}"}
        if owner:
            meta["ownerReferences"] = [
                {"kind": "Pod", "name": owner, "uid": f"uid-default-{owner}", "controller": True}
            ]
        raw = msgspec.convert({"metadata": meta, "spec": spec, "status": status}, RawResourceClaim)
        self.claims.append(resource_claim(raw))
        return self.claims[-1]

    def _running(self, make: Maker, node: str) -> Iterator[Pod]:
        free = [d["name"] for d in self.devices[node]]
        while free and self._rng.random() < 0.85:
            mine = [free.pop() for _ in range(min(len(free), self._rng.randint(1, 2)))]
            name = f"{node}-{len(free)}"
            users = [name, f"{name}-too"] if self._rng.random() < 0.25 else [name]
            given = [{"request": "r", "driver": GPU, "pool": node, "device": d} for d in mine]
            reserved = [{"resource": "pods", "name": u, "uid": f"uid-default-{u}"} for u in users]
            claim = self._made(
                name, spec_of(ask(len(mine))), allocation={"devices": {"results": given}}, reservedFor=reserved
            )
            self.used[claim.name] = [(node, d) for d in mine]
            self.users[claim.name] = {f"uid-default-{u}" for u in users}
            priority = self._rng.choice([-5, -5, 0, 20])
            gang = "pair" if self._rng.random() < 0.2 else ""
            yield from (self._pod(make, u, gang=gang, priority=priority, claim=claim, node=node) for u in users)

    def _pod(self, make: Maker, name: str, *, gang: str, priority: int, claim: ResourceClaim, node: str = "") -> Pod:
        found = make.pod(name, self._shape, gang=(FAMILY, gang) if gang else None, node=node, priority=priority)
        return msgspec.structs.replace(found, devices=PodDevices((PodClaim("c", claim.name),)))

    def events(self) -> list[Event]:
        """All objects."""
        objects: list[DeviceObject] = [*CLASSES, *self._slices, *self.claims]
        return [*(Changed(each) for each in objects), *self.case.events()]

    def fits(self, taken: Collection[str]) -> bool:
        """Whether all members find CPU and devices once these pods (UIDs) are gone."""
        gone = [name for name, users in self.users.items() if users <= set(taken)]
        used = {each for name, found in self.used.items() if name not in gone for each in found}
        room = dict.fromkeys(self.devices, 4 if self._tight else 1000)
        for uid, pod in self.pods.items():
            if pod.node and uid not in taken:
                room[pod.node] -= 1
        return self._place(0, used, room)

    def _place(self, number: int, used: set[tuple[str, str]], room: dict[str, int]) -> bool:
        if number == len(self.wanted):
            return True
        wanted = self.wanted[number]
        for node, found in self.devices.items():
            if room[node] < (len(self.wanted) if self.shared else 1):
                continue
            fine = [d for d in found if (node, d["name"]) not in used and wanted["model"] in ("", d["model"])]
            for chosen in combinations(fine, wanted["count"]):
                if wanted["match"] and len({d["root"] for d in chosen}) > 1:
                    continue
                left = {**room, node: room[node] - 1}
                if self.shared or self._place(number + 1, used | {(node, d["name"]) for d in chosen}, left):
                    return True
        return False

    def least_harm(self, problem: Problem) -> tuple[frozenset[str], Harm] | None:
        """The optimum over all legal sets of victims; None if none makes the gang fit."""
        best: tuple[frozenset[str], Harm] | None = None
        uids = [p.uid for p in problem.candidates()]
        for size in range(len(uids) + 1):
            for chosen in map(frozenset, combinations(uids, size)):
                try:
                    cost = problem.harm(chosen)
                except ValueError:
                    continue
                if (best is None or cost < best[1]) and self.fits(chosen):
                    best = chosen, cost
        return best


def outcome(cluster: Cluster, found: Decision) -> tuple[str, Harm | None]:
    """The decision and its harm."""
    if not isinstance(found, Preempt):
        return found.outcome, None
    return found.outcome, read(cluster.case).harm({v.uid for v in found.victims})


@pytest.mark.parametrize("tight", [False, True])
def test_evictions_are_the_least_harmful(tight: bool) -> None:
    """Whether the gang fits, fits after evictions or never, and the harm of these, are those of the optimum."""
    wrong = []
    preempted = 0
    for seed in range(amount(200, 200)):
        cluster = Cluster(seed, tight=tight)
        best = cluster.least_harm(read(cluster.case))
        expected = ("unschedulable", None) if best is None else ("preempt", best[1]) if best[0] else ("bind", None)
        found = outcome(cluster, decide(cluster.case, cluster.events())[0])
        preempted += expected[0] == "preempt"
        if found != expected:
            wrong.append((seed, expected, found))
    assert preempted > 40
    assert wrong == []
