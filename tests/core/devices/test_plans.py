"""Plans for devices one after another: none counts on those of another, and none is counted twice."""

from __future__ import annotations

from gangsched.core.actions import AllocateClaim, Bind, Remove
from tests.builders import node, pod
from tests.core.devices.worlds import CLASSES, ask, claim, gpus, held
from tests.core.harness import Built, Cluster


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
