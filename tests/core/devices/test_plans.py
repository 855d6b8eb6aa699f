"""Plans for devices one after another: none counts on those of another, and none is counted twice."""

from __future__ import annotations

import random

import pytest

from gangsched.core.actions import AllocateClaim, Bind, Remove
from gangsched.core.devices.simulated import DevicesInThought
from gangsched.core.events import Gone
from gangsched.messages import devices
from tests.amounts import amount
from tests.builders import node, pod
from tests.core.devices.worlds import CLASSES, GPU, ask, claim, gpus, held, tainted
from tests.core.harness import Built, Cluster
from tests.verify import verify_all


def test_each_plan_has_its_own_devices() -> None:
    """The first waits for the claim controller; the second is bound meanwhile, and the third has to wait."""
    objects: list[Built] = [node("n1").cpu(64), *CLASSES, gpus("n1", 3)]
    for i in range(3):
        objects += [pod(f"r{i}").cpu(1).priority(-1).devices(f"h{i}").on("n1")]
        objects += [held(f"h{i}", "n1", f"gpu-{i}", users=(f"r{i}",))]
    for name, priority, count in (("a", 10, 2), ("b", 9, 1), ("c", 8, 1)):
        objects += [pod(name).cpu(1).priority(priority).devices(f"c{name}"), claim(f"c{name}", ask(count), owner=name)]
    cluster = Cluster(*objects)
    cluster.run()
    assert [a.pod.name for a in cluster.log if isinstance(a, Remove)] == ["r0", "r1", "r2"]
    cluster.leave()
    cluster.pass_time(5.0)
    assert not [a for a in cluster.log if isinstance(a, Bind | AllocateClaim)]
    assert cluster.core.states() == {"d/a": "PreBinding", "d/b": "PreBinding", "d/c": "Backoff"}
    cluster.control_claims()
    cluster.pass_time(5.0)
    given = [d.device.name for a in cluster.log if isinstance(a, AllocateClaim) for d in a.allocation.devices]
    assert sorted(given) == ["gpu-0", "gpu-1", "gpu-2"]
    assert {a.pod.name for a in cluster.log if isinstance(a, Bind)} == {"a", "b"}


def test_nothing_is_bound_if_the_choice_of_devices_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    """That there are enough was known from a node that is like this one; which ones was not found in time."""
    monkeypatch.setattr(DevicesInThought, "_allocate", lambda *_: None)
    cluster = Cluster(node("n1").cpu(8), *CLASSES, gpus("n1", 2))
    cluster.show(pod("a").cpu(1).devices("ca"))
    cluster.show(claim("ca", ask(1), owner="a"))
    cluster.run()
    assert cluster.decisions[-1].outcome == "unschedulable"
    assert cluster.decisions[-1].message == devices.CHOICE_STOPPED
    assert not [a for a in cluster.log if isinstance(a, Bind | AllocateClaim)]


@pytest.mark.parametrize("seed", range(amount(24, 6)))
def test_no_device_is_given_out_twice(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever comes, goes or changes; and what is kept event by event is what it is from scratch."""
    verify_all(monkeypatch, every=1)
    rng = random.Random(seed)
    names = [f"n{i}" for i in range(3)]
    cluster = Cluster(*(node(n).cpu(8) for n in names), *CLASSES, *(gpus(n, rng.randint(1, 4)) for n in names))
    for step in range(25):
        what = rng.random()
        if what < 0.5:
            name = f"p{step}"
            cluster.show(pod(name).cpu(1).priority(rng.randint(-2, 9)).devices(f"c{name}"))
            cluster.show(claim(f"c{name}", ask(rng.randint(1, 3)), owner=name))
        elif what < 0.6 and cluster.pods:
            cluster.delete(rng.choice(sorted(cluster.pods))[1])
        elif what < 0.7:
            cluster.show(gpus(rng.choice(names), rng.randint(1, 4)))
        elif what < 0.75:
            cluster.show(tainted(GPU, device_name="gpu-0"))
        elif what < 0.8:
            cluster.show(Gone("DeviceTaintRule", "", "rule"))
        elif what < 0.9:
            cluster.leave()
        else:
            cluster.control_claims()
        cluster.pass_time(rng.choice([0.5, 5.0, 40.0]))
        index = cluster.core.world.snapshot.devices
        used = [
            each.device
            for found in index.claims.values()
            if found.allocation is not None and any(uid not in index.gone for _, _, uid in found.reserved_for)
            for each in found.allocation.devices
        ]
        assert len(used) == len(set(used)), used
    assert any(isinstance(a, AllocateClaim) for a in cluster.log)
