"""Which nodes can give a pod its devices, and what is said of the others."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from gangsched.core.framework.pipeline import pipeline_of
from gangsched.core.state.simulation import Simulation
from gangsched.messages import devices as messages
from gangsched.model.constraints import PodDevices
from gangsched.model.devices import Constraint, ResourceClaim
from tests.builders import PodBuilder, gang, node, pod
from tests.core.devices.worlds import CLASSES, GPU, NIC, ROOT, ask, claim, device, gpus, held, pool, tainted, template
from tests.core.harness import Built, event, plan, world

NODES = [node(f"n{i}") for i in (1, 2, 3)]


def passing(wanted: PodBuilder, *objects: Built) -> list[str]:
    """Names of the nodes that pass every filter."""
    sim = Simulation(world(*NODES, *CLASSES, *objects).world.snapshot)
    mask = pipeline_of().mask(sim.snapshot.class_of(wanted.obj()), sim)
    return [n.name for n, ok in zip(sim.snapshot.nodes, mask, strict=True) if ok]


def told(wanted: PodBuilder, *objects: Built) -> tuple[list[str], bool]:
    """What is said of a pod that no node takes, and whether preemption could help on any of them."""
    sim = Simulation(world(*NODES, *CLASSES, *objects).world.snapshot)
    reasons, resolvable = pipeline_of().diagnose(sim.snapshot.class_of(wanted.obj()), sim)
    return [r.sentence for r in reasons], bool(resolvable.any())


def planned(name: str, *templates: str) -> PodBuilder:
    """A pod that does not exist yet."""
    found = pod(name).devices(templates=templates)._fields["devices"]
    return pod(name).field(devices=PodDevices(found.claims, planned=True))


WITH_GPUS = (gpus("n1", 1), gpus("n2", 2), gpus("n3", 4))


@pytest.mark.parametrize(("count", "fine"), [(1, ["n1", "n2", "n3"]), (2, ["n2", "n3"]), (4, ["n3"]), (5, [])])
def test_a_claim_needs_so_many_free_devices(count: int, fine: list[str]) -> None:
    """On one node."""
    assert passing(pod("p").devices("c"), *WITH_GPUS, claim("c", ask(count), owner="p")) == fine


def test_devices_in_use_do_not_count() -> None:
    """Nor do tainted ones, and those of other drivers."""
    use = held("h", "n3", "gpu-0", "gpu-1", "gpu-2", users=("other",))
    assert passing(pod("p").devices("c"), *WITH_GPUS, use, claim("c", ask(2), owner="p")) == ["n2"]
    assert passing(pod("p").devices("c"), *WITH_GPUS, tainted(GPU), claim("c", owner="p")) == []
    assert passing(pod("p").devices("c"), *WITH_GPUS, claim("c", ask(of="nic"), owner="p")) == []


def test_all_claims_of_a_pod_are_allocated_together() -> None:
    """Two claims for one GPU each need two."""
    claims = claim("a", owner="p"), claim("b", owner="p")
    assert passing(pod("p").devices("a", "b"), *WITH_GPUS, *claims) == ["n2", "n3"]


def test_an_allocated_claim_binds_its_pods_to_a_node() -> None:
    """More pods may use it, up to the limit."""
    users = tuple(f"u{i}" for i in range(255))
    assert passing(pod("p").devices("c"), *WITH_GPUS, held("c", "n2", "gpu-0", users=users)) == ["n2"]
    full = held("c", "n2", "gpu-0", users=(*users, "last"))
    assert told(pod("p").devices("c"), *WITH_GPUS, full) == ([messages.reserved(name="c", most=256)], False)


def test_devices_on_one_root() -> None:
    """A GPU and a network card with the same attribute."""
    same = pool("n1", device("g", root="a"), device("h", root="b")), pool("n1", device("x", root="b"), driver=NIC)
    apart = pool("n2", device("g", root="a")), pool("n2", device("x", root="b"), driver=NIC)
    wanted = claim("c", ask(name="g"), ask(of="nic", name="n"), match=ROOT, owner="p")
    assert passing(pod("p").devices("c"), *same, *apart, wanted) == ["n1"]


@pytest.mark.parametrize(
    ("objects", "text", "resolvable"),
    [
        ([claim("c", ask(9), owner="p")], f"3 {messages.NO_SUCH_DEVICES}", False),
        ([claim("c", ask(of="none"), owner="p")], messages.no_device_class(name="none"), False),
        ([], messages.no_claim(name="c"), False),
        ([claim("c", owner="p"), held("h", "n1", "gpu-0", users=("o",))], "", True),
    ],
)
def test_reasons(objects: list[Built], text: str, resolvable: bool) -> None:
    """Evictions only help if devices are in use."""
    world_ = (gpus("n1", 1), *objects)
    if text:
        assert told(pod("p").devices("c"), *world_) == ([text], resolvable)
    else:
        reasons, found = told(pod("p").devices("c"), *world_)
        assert f"1 {messages.DEVICES_IN_USE}" in reasons
        assert found == resolvable


BIG = f"device.capacity['{GPU}'].memory.compareTo(quantity('80Gi')) >= 0"
NEXT = "0 of 1 member fit; the next needs 3 devices gpu"
FAILED = "a selector of a request for class gpu failed on device g0: no such key: y"
FEW_BIG = [
    pool(
        n.obj().name,
        *(device(f"g{k}", memory="80Gi" if k < 3 else "40Gi", root=f"r{k // 4}", uuid=f"u{k}") for k in range(8)),
    )
    for n in NODES
]


@pytest.mark.parametrize(
    ("wanted", "word", "why"),
    [
        (
            claim("c", ask(4, where=BIG), match=ROOT, owner="p"),
            "never fits",
            "the pod asks for 4 devices gpu with memory ≥ 80Gi on one pcieRoot; node n1 has 3",
        ),
        (
            claim("c", ask(3, where=BIG), distinct="uuid", owner="p"),
            "not now",
            f"{NEXT} with memory ≥ 80Gi each with another uuid; node n1 has 2 free",
        ),
        (
            claim("c", ask(where="device.attributes['x'].y == 1"), owner="p"),
            "never fits",
            f"the pod asks for 1 device gpu with y = 1; {FAILED}",
        ),
        (claim("c", ask(of="other"), owner="p"), "waits", "there is no DeviceClass other"),
    ],
)
def test_what_is_lacking(wanted: ResourceClaim, word: str, why: str) -> None:
    """The request in words, and the node that comes nearest."""
    use = [held(f"h{i}", f"n{i}", "g0", users=("o",)) for i in (1, 2, 3)]
    found = plan(*NODES, *CLASSES, *FEW_BIG, *use, pod("p").devices("c"), wanted)["d/p"]
    assert found.headline is not None
    assert (found.headline.word, found.headline.why) == (word, why)


def test_a_node_reaches_other_devices_with_other_labels() -> None:
    """Nothing is remembered of the old ones."""
    term = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "rack", "operator": "In", "values": ["a"]}]}]}
    near = pool("", {"name": "d"}, allNodes=None, nodeSelector=term)
    core = world(*NODES, *CLASSES, near, pod("p").devices("c"), claim("c", owner="p"))

    def passes() -> list[bool]:
        sim = Simulation(core.world.snapshot)
        found: list[bool] = pipeline_of().mask(sim.snapshot.class_of(pod("p").devices("c").obj()), sim).tolist()
        return found

    assert passes() == [False, False, False]
    core.handle([event(node("n2").label(rack="a"))], 1.0)
    assert passes() == [False, True, False]
    core.handle([event(node("n2"))], 2.0)
    assert passes() == [False, False, False]


def test_searches_end() -> None:
    """Claims that are hard to allocate are refused with that reason, on each node in little time."""
    hard = [pool(n.obj().name, *(device(f"d{k}", a=k % 9, b=k) for k in range(27))) for n in NODES]
    different = (Constraint("a", distinct=True), Constraint("b", distinct=True))
    wanted = claim("c", ask(10), owner="p")
    wanted = replace(wanted, spec=replace(wanted.spec, constraints=different))
    reasons, resolvable = told(pod("p").devices("c"), *hard, wanted)
    assert reasons == [f"3 {messages.SEARCH_STOPPED}"]
    assert not resolvable


def test_claims_of_templates() -> None:
    """A pod waits until its claim is made; one that does not exist yet has what the template says."""
    objects = (*WITH_GPUS, template("t", ask(4)))
    assert told(pod("p").devices(templates=("t",)), *objects) == ([messages.claim_not_made(name="t")], False)
    assert passing(planned("p", "t"), *objects) == ["n3"]


def test_members_get_different_devices() -> None:
    """Each its own, all in one decision."""
    members = [pod(f"p{i}").devices(f"c{i}").gang("g") for i in range(3)]
    claims = [claim(f"c{i}", ask(2), owner=f"p{i}") for i in range(3)]
    found = plan(*NODES, *CLASSES, *WITH_GPUS, *claims, gang("g").min(3), *members)["d/g"]
    assert found.outcome == "bind"
    given = [
        (place.node, d.device.name) for place in found.placements for c in place.claims for d in c.allocation.devices
    ]
    assert sorted(given) == [("n2", "gpu-0"), ("n2", "gpu-1"), *(("n3", f"gpu-{i}") for i in range(4))]
    assert [c.uid for place in found.placements for c in place.claims] == [f"uid-claim-c{i}" for i in range(3)]


def test_members_that_share_a_claim_share_a_node() -> None:
    """It is allocated once, and reserved for all of them."""
    members = [pod(f"p{i}").cpu(1).devices("c").gang("g") for i in range(3)]
    found = plan(
        *[node(f"n{i}").cpu(i + 1) for i in (1, 2)], *CLASSES, *WITH_GPUS, claim("c"), gang("g").min(3), *members
    )["d/g"]
    assert {place.node for place in found.placements} == {"n2"}
    (only,) = (each for place in found.placements for each in place.claims)
    assert set(only.consumers) == {f"uid-d-p{i}" for i in range(3)}
