"""Gangs that get devices in one decision, and evictions that free devices for them."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from gangsched.core.actions import ResumeJob
from gangsched.core.decision import Decision
from tests.builders import OURS, gang, node, pod
from tests.core.devices.worlds import (
    CLASSES,
    GPU,
    NIC,
    ROOT,
    ask,
    claim,
    device,
    device_class,
    gpus,
    held,
    pool,
    template,
)
from tests.core.eviction.jobs import job, member, nodes
from tests.core.harness import Built, Cluster, plan

CHANNEL = "channel.example.com"


def given(decision: Decision) -> dict[str, list[str]]:
    """The devices that each member gets."""
    return {
        place.name: [d.device.name for c in place.claims for d in c.allocation.devices] for place in decision.placements
    }


def victims(decision: Decision) -> list[str]:
    """Names of the pods that are evicted."""
    return sorted(victim.name for victim in getattr(decision, "victims", ()))


def halves(node_name: str) -> list[Built]:
    """A GPU that is given out as a whole or as two halves."""
    counters: dict[str, Any] = {"sharedCounters": [{"name": "gpu", "counters": {"slices": {"value": "2"}}}]}

    def part(name: str, slices: int) -> dict[str, Any]:
        takes = [{"counterSet": "gpu", "counters": {"slices": {"value": str(slices)}}}]
        return {**device(name, size=slices), "consumesCounters": takes}

    of = {"name": node_name, "generation": 1, "resourceSliceCount": 2}
    first = pool(node_name, part("whole", 2), part("half-0", 1), part("half-1", 1), pool=of)
    second = pool(node_name, pool=of, name=f"{node_name}-counters", devices=None, **counters)
    return [first, second]


def either(name: str = "r") -> dict[str, Any]:
    """A request for the whole GPU, or else for a half of it."""

    def of(size: int) -> dict[str, Any]:
        where = [{"cel": {"expression": f"device.attributes['{GPU}'].size == {size}"}}]
        return {"name": f"of-{size}", "deviceClassName": "gpu", "selectors": where, "count": 1}

    return {"name": name, "firstAvailable": [of(2), of(1)]}


def test_no_member_takes_what_another_needs() -> None:
    """One GPU for two members that would each like all of it: both get a half."""
    members = [pod(f"p{i}").devices(f"c{i}").gang("g") for i in range(2)]
    claims = [claim(f"c{i}", either(), owner=f"p{i}") for i in range(2)]
    found = plan(node("n1"), *CLASSES, *halves("n1"), gang("g").min(2), *members, *claims)["d/g"]
    assert found.outcome == "bind"
    assert sorted(given(found).values()) == [["half-0"], ["half-1"]]
    alone = plan(node("n1"), *CLASSES, *halves("n1"), pod("p0").devices("c0"), claims[0])["d/p0"]
    assert given(alone) == {"p0": ["whole"]}


def test_a_half_that_is_freed_is_no_whole() -> None:
    """Both halves have to leave."""
    running: list[Built] = [pod(f"r{i}").priority(-i).devices(f"h{i}").on("n1") for i in range(2)]
    use = [held(f"h{i}", "n1", f"half-{i}", users=(f"r{i}",)) for i in range(2)]
    whole = claim("c", ask(where=f"device.attributes['{GPU}'].size == 2"), owner="p")
    objects: list[Built] = [node("n1"), *CLASSES, *halves("n1"), *running, *use]
    assert victims(plan(*objects, pod("p").priority(5).devices("c"), whole)["d/p"]) == ["r0", "r1"]
    half = claim("c", ask(where=f"device.attributes['{GPU}'].size == 1"), owner="p")
    assert victims(plan(*objects, pod("p").priority(5).devices("c"), half)["d/p"]) == ["r1"]


def test_devices_that_are_shared() -> None:
    """Claims share a device as long as its capacity suffices."""
    shared = {**device("g", memory="10Gi"), "allowMultipleAllocations": True}
    members = [pod(f"p{i}").devices(f"c{i}").gang("g") for i in range(3)]
    wanted = ask(capacity={"requests": {"memory": "4Gi"}})
    claims = [claim(f"c{i}", wanted, owner=f"p{i}") for i in range(3)]
    objects: list[Built] = [node("n1"), *CLASSES, pool("n1", shared), *members, *claims]
    assert plan(*objects, gang("g").min(2))["d/g"].outcome == "bind"
    assert plan(*objects, gang("g").min(3))["d/g"].outcome == "unschedulable"


def test_a_claim_that_another_pod_keeps_frees_nothing() -> None:
    """The pod that shares it is of higher priority: the other claim is freed."""
    running: list[Built] = [
        pod("low").priority(-9).devices("shared").on("n1"),
        pod("high").priority(9).devices("shared").on("n1"),
        pod("other").priority(-1).devices("own").on("n1"),
    ]
    use = [
        held("shared", "n1", "gpu-0", users=("low", "high")),
        held("own", "n1", "gpu-1", users=("other",)),
    ]
    objects: list[Built] = [node("n1"), *CLASSES, gpus("n1", 2), *running, *use, claim("c", owner="p")]
    assert victims(plan(*objects, pod("p").priority(5).devices("c"))["d/p"]) == ["other"]


def test_a_claim_that_victims_share_is_freed_with_the_last() -> None:
    """Both users go, or none."""
    running: list[Built] = [pod(f"r{i}").priority(-1).devices("shared").on("n1") for i in range(2)]
    objects: list[Built] = [
        node("n1"),
        *CLASSES,
        gpus("n1", 1),
        *running,
        held("shared", "n1", "gpu-0", users=("r0", "r1")),
    ]
    assert victims(plan(*objects, pod("p").priority(5).devices("c"), claim("c", owner="p"))["d/p"]) == ["r0", "r1"]


def test_the_node_of_devices_is_where_room_is_made() -> None:
    """A member that shares a claim with devices on a node needs CPU there."""
    running: list[Built] = [pod(f"r{i}").cpu(1).priority(-i).on(f"n{i}") for i in (1, 2)]
    objects: list[Built] = [*(node(f"n{i}").cpu(1) for i in (1, 2)), *CLASSES, gpus("n1", 1), *running]
    given_ = held("c", "n1", "gpu-0", users=("elsewhere",))
    assert victims(plan(*objects, given_, pod("p").cpu(1).priority(5).devices("c"))["d/p"]) == ["r1"]


@pytest.mark.parametrize("busy", [False, True])
def test_devices_on_one_root_for_each_member(busy: bool) -> None:
    """32 members on 16 nodes: four GPUs and four network cards on one root each, and a channel."""
    objects: list[Built] = [*CLASSES, device_class("channel", CHANNEL), gang("g").min(32)]
    for i in range(16):
        name = f"n{i:02}"
        places = [(k, f"pci{k // 4}") for k in range(8)]
        objects += [
            node(name),
            pool(name, *(device(f"gpu-{k}", uuid=f"{name}-{k}", root=root) for k, root in places)),
            pool(name, *(device(f"nic-{k}", rdma=True, root=root) for k, root in places), driver=NIC),
            pool(name, *(device(f"channel-{k}", id=k) for k in range(4)), driver=CHANNEL),
        ]
        if busy:
            objects += [
                pod(f"r{i:02}").priority(-1).devices(f"h{i:02}").on(name),
                held(f"h{i:02}", name, "gpu-0", users=(f"r{i:02}",)),
            ]
    four = (ask(4, name="gpu"), ask(4, of="nic", name="nic", where=f"device.attributes['{NIC}'].rdma"))
    for i in range(32):
        objects += [
            pod(f"w{i:02}").priority(5).devices(f"c{i:02}", f"l{i:02}").gang("g"),
            claim(f"c{i:02}", *four, match=ROOT, owner=f"w{i:02}"),
            claim(f"l{i:02}", ask(of="channel"), owner=f"w{i:02}"),
        ]
    found = plan(*objects)["d/g"]
    assert found.outcome == ("preempt" if busy else "bind")
    assert len(found.placements) == 32
    assert len(victims(found)) == (16 if busy else 0)
    for names in given(found).values():
        roots = {int(name.split("-")[1]) // 4 for name in names if not name.startswith("channel")}
        assert len(names) == (0 if busy else 9)
        assert len(roots) <= 1


def test_devices_of_claims_that_are_not_made_yet_are_given_once() -> None:
    """What is planned for one gang is in use for the next."""
    objects: list[Built] = [node("n1"), *CLASSES, gpus("n1", 4), template("t")]
    gangs: list[Built] = [each for g in "ab" for each in (gang(g).min(2), *_from_template(g))]
    found = plan(*objects, *gangs, pod("p").devices(templates=("t",)).created(9.0))
    assert [found[key].outcome for key in ("d/a", "d/b", "d/p")] == ["bind", "bind", "unschedulable"]
    names = [name for key in ("d/a", "d/b") for some in given(found[key]).values() for name in some]
    assert sorted(names) == [f"gpu-{i}" for i in range(4)]


def _from_template(name: str) -> list[Built]:
    return [pod(f"{name}{i}").devices(templates=("t",)).gang(name) for i in range(2)]


def test_whole_nodes_and_large_devices_stay_free() -> None:
    """A small claim goes to a node in use, and to small devices."""
    use = held("h", "n2", "gpu-0", users=("other",))
    two = [node(f"n{i}").cpu(8) for i in (1, 2)]
    objects: list[Built] = [*CLASSES, pod("p").devices("c"), claim("c", owner="p")]
    found = plan(*two, gpus("n1", 4), gpus("n2", 4), use, *objects)["d/p"]
    assert [p.node for p in found.placements] == ["n2"]
    large = pool("n1", *(device(f"d{k}", memory="80Gi") for k in range(2)))
    small = pool("n2", *(device(f"d{k}", memory="16Gi") for k in range(2)))
    assert [p.node for p in plan(*two, large, small, *objects)["d/p"].placements] == ["n2"]
    mixed = pool("n1", device("a", memory="80Gi"), device("b", memory="16Gi"))
    assert given(plan(two[0], mixed, *objects)["d/p"]) == {"p": ["b"]}


def test_members_of_several_kinds_are_packed() -> None:
    """Many more members than are tried in all ways; one by one, the small ones block the nodes of the large ones."""
    made = [each for i in range(12) for each in (node(f"n{i:02}"), gpus(f"n{i:02}", 8))]
    sizes = [5] * 12 + [3] * 12
    members = [pod(f"p{i:02}").devices(f"c{i:02}").gang("g") for i in range(24)]
    claims = [claim(f"c{i:02}", ask(size), owner=f"p{i:02}") for i, size in enumerate(sizes[::-1])]
    found = plan(*CLASSES, *made, gang("g").min(24), *members, *claims)["d/g"]
    assert found.outcome == "bind"
    used = [(place.node, name) for place in found.placements for name in given(found)[place.name]]
    assert len(set(used)) == len(used) == 96


def test_small_mixed_gangs_are_tried_in_all_ways() -> None:
    """Many equal nodes count as one, also if devices are on one root."""
    made: list[Built] = []
    for i in range(30):
        root = [
            device(f"d{k}", uuid=f"{i}-{k}", root=f"r{k // 4}", model="new" if i == 29 else "old") for k in range(8)
        ]
        made += [node(f"n{i:02}").cpu(8), pool(f"n{i:02}", *root)]
    new = f"device.attributes['{GPU}'].model == 'new'"
    claims = [claim(f"a{i}", ask(4), match=ROOT, owner=f"a{i}") for i in range(3)]
    claims += [claim(f"b{i}", ask(4, where=new), match=ROOT, owner=f"b{i}") for i in range(2)]
    members = [pod(c.name).cpu(4).devices(c.name).gang("g") for c in claims]
    found = plan(*CLASSES, *made, gang("g").min(5), *members, *claims)["d/g"]
    assert found.outcome == "bind"
    assert {p.node for p in found.placements if p.name.startswith("b")} == {"n29"}


@pytest.mark.parametrize(("count", "outcome"), [(8, "bind"), (7, "unschedulable")])
def test_members_without_pods_need_devices(count: int, outcome: str) -> None:
    """A suspended Job is planned with the template of its claims."""
    made = member(0).devices(templates=("t",)).obj()
    waits = job(suspended=True, suspended_by=OURS, template=replace(made, uid="", name="train"))
    objects: list[Built] = [*nodes(), *CLASSES, gpus("n1", 4), gpus("n2", count - 4), template("t"), waits]
    assert plan(*objects)["d/train"].outcome == outcome
    cluster = Cluster(*objects)
    cluster.run()
    assert any(isinstance(action, ResumeJob) for action in cluster.log) == (outcome == "bind")


@pytest.mark.parametrize(("members", "outcome"), [(2, "bind"), (3, "unschedulable")])
def test_devices_that_all_nodes_reach_are_there_once(members: int, outcome: str) -> None:
    """Whichever nodes the members go to; the claim can then be used from any node."""
    shared = pool("", device("d0"), device("d1"))
    pods = [pod(f"p{i}").cpu(1).devices(f"c{i}").gang("g") for i in range(members)]
    claims = [claim(f"c{i}", owner=f"p{i}") for i in range(members)]
    small = [node(f"n{i}").cpu(1) for i in range(3)]
    found = plan(*small, *CLASSES, shared, gang("g").min(members), *pods, *claims)["d/g"]
    assert found.outcome == outcome
    given_ = given(found)
    assert sorted(name for names in given_.values() for name in names) == (["d0", "d1"] if outcome == "bind" else [])
    assert all(c.allocation.terms is None for place in found.placements for c in place.claims)


def test_devices_that_all_nodes_reach_are_freed_by_pods_of_any_node() -> None:
    """The victim runs where the member does not go."""
    shared = pool("", device("d0"))
    use = claim("h", given=((GPU, "all", "d0"),), users=("r",), owner="r")
    objects: list[Built] = [node("n1").cpu(1), node("n2").cpu(1), *CLASSES, shared, use]
    running: list[Built] = [
        pod("r").cpu(1).priority(-1).devices("h").on("n1"),
        pod("keep").cpu(1).priority(9).on("n1").uid("k"),
    ]
    found = plan(*objects, *running, pod("p").cpu(1).priority(5).devices("c"), claim("c", owner="p"))["d/p"]
    assert victims(found) == ["r"]
    assert [place.node for place in found.placements] == ["n2"]


def test_access_for_administrators_takes_nothing() -> None:
    """Such claims get devices in use, and leave them to others."""
    use = held("h", "n1", "gpu-0", users=("other",))
    watch = claim("w", ask(adminAccess=True), owner="w")
    objects: list[Built] = [node("n1"), *CLASSES, gpus("n1", 1), pod("w").devices("w"), watch]
    assert plan(*objects, use)["d/w"].outcome == "bind"
    both = plan(*objects, pod("p").devices("c").created(1.0), claim("c", owner="p"))
    assert [both[f"d/{name}"].outcome for name in "wp"] == ["bind", "bind"]


def test_all_devices_of_a_node() -> None:
    """None of them may be in use, and no pool may be incomplete."""
    everything = claim("c", ask(None), owner="p")
    objects: list[Built] = [node("n1"), *CLASSES, gpus("n1", 3), pod("p").devices("c").priority(5), everything]
    assert given(plan(*objects)["d/p"]) == {"p": ["gpu-0", "gpu-1", "gpu-2"]}
    running: list[Built] = [pod("r").priority(-1).devices("h").on("n1"), held("h", "n1", "gpu-1", users=("r",))]
    assert victims(plan(*objects, *running)["d/p"]) == ["r"]
    part = {"name": "other", "generation": 1, "resourceSliceCount": 2}
    incomplete = pool("n1", device("x"), driver=NIC, pool=part)
    found = plan(*objects, incomplete)["d/p"]
    assert found.outcome == "unschedulable"
    assert "is being updated" in found.message


def test_an_incomplete_pool_evicts_no_pod() -> None:
    """Its devices are unknown, and come back without evictions."""
    part = {"name": "n1", "generation": 2, "resourceSliceCount": 2}
    use: list[Built] = [pod("r").priority(-1).devices("h").on("n1"), held("h", "n1", "gpu-0", users=("r",))]
    objects: list[Built] = [node("n1"), *CLASSES, pool("n1", device("gpu-0"), pool=part), *use]
    found = plan(*objects, pod("p").priority(5).devices("c"), claim("c", owner="p"))["d/p"]
    assert (found.outcome, victims(found)) == ("unschedulable", [])
