"""Devices before pods: all claims of a gang have their devices before its first member is bound, and none stays."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from gangsched.core.actions import AllocateClaim, Bind, ClaimWrite, ReleaseClaim, ReserveClaim, Write
from gangsched.core.events import Outcome
from gangsched.core.lifecycle.claims import SETTLE_SECONDS
from gangsched.core.lifecycle.holding import IN_FLIGHT_SECONDS
from gangsched.model.constraints import PodClaim, PodDevices
from tests.builders import gang, node, pod
from tests.core.devices.worlds import CLASSES, NIC, ask, claim, device, gpus, held, pool
from tests.core.harness import Cluster, Judge, nodes_of, writes

GANG = "d/g"


def story(*more: object, **options: Any) -> Cluster:
    """A gang of two, each with a claim for one of the two devices of a node, and with room for one on each node."""
    nodes = [node(name).cpu(1) for name in ("n1", "n2")]
    members = [pod(f"m{i}").cpu(1).gang("g").devices(f"c{i}") for i in (1, 2)]
    claims = [claim(f"c{i}", owner=f"m{i}") for i in (1, 2)]
    pools = [gpus(name, 1) for name in ("n1", "n2")]
    return Cluster(*CLASSES, *nodes, *pools, *claims, gang("g").min(2), *members, *more, **options)  # type: ignore[arg-type]


def kinds(cluster: Cluster) -> list[str]:
    """The writes that give and take devices, and bindings, in order."""
    return [type(a).__name__ for a in cluster.log if isinstance(a, ClaimWrite | Bind)]


def given(cluster: Cluster) -> dict[str, list[str]]:
    """For each claim with devices, who may use it."""
    return {
        c.name: [name for _, name, _ in c.reserved_for] for c in cluster.claims.values() if c.allocation is not None
    }


def fails(outcome: Outcome, kind: type[Write], name: str = "") -> Judge:
    """Writes of this kind, to this object, have this outcome."""

    def judge(write: Write) -> tuple[Outcome, str] | None:
        return (outcome, "no") if isinstance(write, kind) and name in ("", write.pod.name) else None

    return judge


def test_devices_come_before_the_first_binding() -> None:
    """For all members; what is written names the claim, its consumer, and the devices as the API has them."""
    cluster = story()
    cluster.run()
    assert kinds(cluster) == ["AllocateClaim", "AllocateClaim", "Bind", "Bind"]
    first = next(a for a in cluster.log if isinstance(a, AllocateClaim))
    assert (first.claim.key, first.claim.uid) == ("d/c1", "uid-claim-c1")
    assert [(c.resource, c.name, c.uid) for c in first.consumers] == [("pods", "m1", "uid-d-m1")]
    status = msgspec.json.decode(first.written)
    assert status["devices"]["results"] == [
        {"request": "r", "driver": "gpu.example.com", "pool": "n1", "device": "gpu-0"}
    ]
    assert given(cluster) == {"c1": ["m1"], "c2": ["m2"]}
    assert cluster.core.world.snapshot.devices.assumed == {}


def test_no_member_is_bound_before_the_last_claim_has_its_devices() -> None:
    """Nor before the cluster shows it."""
    cluster = story()
    cluster.slow = lambda write: isinstance(write, AllocateClaim) and write.claim.name == "c2"
    cluster.run()
    assert cluster.core.states() == {GANG: "PreBinding"}
    assert nodes_of(cluster.log) == {}
    cluster.answer()
    cluster.run()
    assert nodes_of(cluster.log) == {"m1": "n1", "m2": "n2"}


def test_devices_of_pods_that_are_gone_are_waited_for() -> None:
    """The claim controller gives them back a little later: until then nothing is written, and nobody is bound."""
    cluster = story(held("old", "n1", "gpu-0", users=("gone",)), pod("gone").devices("old").on("n1"))
    cluster.delete("gone")
    cluster.run()
    assert kinds(cluster) == ["AllocateClaim"]
    assert given(cluster).keys() == {"old", "c2"}
    cluster.control_claims()
    cluster.run()
    assert kinds(cluster) == ["AllocateClaim", "AllocateClaim", "Bind", "Bind"]


@pytest.mark.parametrize("outcome", [Outcome.CONFLICT, Outcome.REFUSED, Outcome.TRANSIENT, Outcome.GONE])
def test_one_claim_fails_and_the_others_give_their_devices_back(outcome: Outcome) -> None:
    """The gang is decided again; with devices for all, it is bound."""
    cluster = story()
    cluster.judge = fails(outcome, AllocateClaim, "c2")
    cluster.run()
    assert nodes_of(cluster.log) == {}
    assert given(cluster) == {}
    assert kinds(cluster)[:2] == ["AllocateClaim", "AllocateClaim"]
    assert "ReleaseClaim" in kinds(cluster)
    cluster.judge = lambda _: None
    cluster.pass_time(60)
    assert nodes_of(cluster.log) == {"m1": "n1", "m2": "n2"}
    assert given(cluster) == {"c1": ["m1"], "c2": ["m2"]}


def test_a_member_that_is_bound_keeps_its_devices() -> None:
    """That whose binding is refused gives them back."""
    cluster = story()
    cluster.judge = fails(Outcome.REFUSED, Bind, "m2")
    cluster.run()
    assert given(cluster) == {"c1": ["m1"]}
    assert [a.claim.name for a in cluster.log if isinstance(a, ReleaseClaim)] == ["c2"]


def test_devices_are_nobody_elses_until_they_are_given_back() -> None:
    """A write that is still on its way when its plan is given up may take effect: what it gives counts as taken until
    the write that takes it back is answered.
    """
    cluster = story()
    cluster.slow, cluster.sent = lambda write: isinstance(write, ClaimWrite), True
    cluster.run()
    cluster.delete("m2")
    cluster.show(claim("c3"), pod("other").devices("c3"))
    cluster.run()
    assert cluster.core.world.snapshot.devices.assumed.keys() == {("d", "c1"), ("d", "c2")}
    assert nodes_of(cluster.log) == {}
    cluster.slow = lambda _: False
    cluster.answer()
    cluster.pass_time(60)
    assert given(cluster) == {"c3": ["other"]}
    assert nodes_of(cluster.log).keys() == {"other"}


def test_devices_are_taken_back_until_it_is_known_that_they_are() -> None:
    """Without an answer it is asked for again; the gang is not decided before."""
    cluster = story()
    cluster.judge = lambda write: (
        fails(Outcome.CONFLICT, AllocateClaim, "c2")(write) or fails(Outcome.TRANSIENT, ReleaseClaim)(write)
    )
    cluster.run()
    assert given(cluster) == {"c1": ["m1"]}
    before = kinds(cluster)
    cluster.pass_time(120)
    assert set(kinds(cluster)[len(before) :]) == {"ReleaseClaim"}
    cluster.judge = lambda _: None
    cluster.pass_time(600)
    assert nodes_of(cluster.log) == {"m1": "n1", "m2": "n2"}


def test_a_restart_at_any_step_ends_alike() -> None:
    """Whichever step is the last of the first process: both members run with a device each, and no other has one."""
    for last in range(1, 12):
        cluster = story()
        for _ in range(last):
            cluster.step()
        cluster.restart()
        cluster.pass_time(60)
        assert {p.name: p.node for p in cluster.pods.values()} == {"m1": "n1", "m2": "n2"}, last
        assert given(cluster) == {"c1": ["m1"], "c2": ["m2"]}, last


def test_members_share_a_claim() -> None:
    """It gets its devices once, for all of them; a pod that comes later is added."""
    cluster = Cluster(*CLASSES, node("n1").cpu(3), gpus("n1", 1), claim("c"), gang("g").min(2))
    cluster.show(*(pod(f"m{i}").cpu(1).gang("g").devices("c") for i in (1, 2)))
    cluster.run()
    assert kinds(cluster) == ["AllocateClaim", "Bind", "Bind"]
    cluster.show(pod("late").cpu(1).devices("c"))
    cluster.run()
    assert kinds(cluster) == ["AllocateClaim", "Bind", "Bind", "ReserveClaim", "Bind"]
    assert given(cluster) == {"c": ["m1", "m2", "late"]}
    assert [c.name for a in cluster.log if isinstance(a, ReserveClaim) for c in a.consumers] == ["late"]


def test_a_device_that_another_scheduler_gave_out_too_is_given_back() -> None:
    """The API server does not look for this. If the cluster shows it before a member is bound, none is."""
    cluster = story()
    cluster.slow = lambda write: isinstance(write, AllocateClaim) and write.claim.name == "c2"
    cluster.run()
    cluster.show(held("theirs", "n1", "gpu-0", users=("foreign",)))
    cluster.show(pod("foreign").scheduler("default-scheduler").cpu(0).devices("theirs"))
    cluster.answer()
    cluster.run()
    assert nodes_of(cluster.log) == {}
    assert given(cluster) == {"theirs": ["foreign"]}
    assert sorted(a.claim.name for a in cluster.log if isinstance(a, ReleaseClaim)) == ["c1", "c2"]


def test_several_devices_of_one_claim() -> None:
    """All of them are in one write."""
    cluster = Cluster(*CLASSES, node("n1").cpu(3), gpus("n1", 4), claim("c", ask(3)), pod("p").devices("c"))
    cluster.run()
    (write,) = [a for a in cluster.log if isinstance(a, AllocateClaim)]
    assert [each.device.name for each in write.allocation.devices] == ["gpu-0", "gpu-1", "gpu-2"]


FOREIGN = (claim("theirs"), pod("foreign").scheduler("default-scheduler").cpu(0).devices("theirs"))


def test_nodes_are_held_before_devices_are_given() -> None:
    """A pod of another scheduler uses devices, too: it is kept off the nodes, and what its scheduler had decided before
    is known, before any device is given out.
    """
    cluster = story(*FOREIGN)
    cluster.run()
    assert [kind for kind, _ in writes(cluster.log)] == ["HoldNode", "HoldNode"]
    cluster.pass_time(IN_FLIGHT_SECONDS - 0.1)
    assert cluster.core.states()[GANG] == "PreBinding"
    assert given(cluster) == {}
    cluster.pass_time(0.2)
    assert nodes_of(cluster.log) == {"m1": "n1", "m2": "n2"}
    cluster.pass_time(5)
    assert all(each.held is None for each in cluster.nodes.values())


def test_devices_that_were_given_out_while_nodes_were_being_held_are_left_alone() -> None:
    """No claim of ours ever has them."""
    cluster = story(*FOREIGN)
    cluster.run()
    cluster.show(held("theirs", "n1", "gpu-0", users=("foreign",)))
    cluster.pass_time(5)
    assert nodes_of(cluster.log) == {}
    assert kinds(cluster) == []
    assert given(cluster) == {"theirs": ["foreign"]}


def test_where_nodes_are_not_held_other_schedulers_have_time_to_show_what_they_gave_out() -> None:
    """Their pods may have been decided before our claims were shown."""
    cluster = story(*FOREIGN, hold_room="never")
    cluster.run()
    assert given(cluster).keys() == {"c1", "c2"}
    cluster.pass_time(SETTLE_SECONDS - 0.1)
    assert cluster.core.states()[GANG] == "PreBinding"
    cluster.pass_time(0.2)
    assert nodes_of(cluster.log) == {"m1": "n1", "m2": "n2"}


def test_a_device_that_was_given_out_in_that_time_is_given_back() -> None:
    """Ours is not in use yet."""
    cluster = story(*FOREIGN, hold_room="never")
    cluster.run()
    cluster.show(held("theirs", "n1", "gpu-0", users=("foreign",)))
    cluster.pass_time(5)
    assert nodes_of(cluster.log) == {}
    assert given(cluster) == {"theirs": ["foreign"]}


@pytest.mark.parametrize("last", [1, 2])
def test_a_gang_is_decided_again_when_the_last_claim_is_made(last: int) -> None:
    """The claim controller writes the names of claims into the status of one pod after another."""
    cluster = story()
    cluster.change(f"m{last}", devices=PodDevices((PodClaim("gpus", "", "t"),)))
    cluster.run()
    assert nodes_of(cluster.log) == {}
    cluster.change(f"m{last}", devices=PodDevices((PodClaim("gpus", f"c{last}", "t"),)))
    cluster.run()
    assert nodes_of(cluster.log).keys() == {"m1", "m2"}


def test_devices_that_other_nodes_reach_are_checked_again_although_nodes_are_held() -> None:
    """Other schedulers may give them to pods elsewhere."""
    shared = pool("", device("net-0"), driver=NIC)
    wants = claim("c1", ask(1, of="nic"), owner="m1")
    cluster = Cluster(*CLASSES, node("n1").cpu(1), shared, wants, *FOREIGN, pod("m1").cpu(1).devices("c1"))
    cluster.run()
    cluster.pass_time(IN_FLIGHT_SECONDS + 0.1)
    assert given(cluster) == {"c1": ["m1"]}
    assert nodes_of(cluster.log) == {}
    cluster.pass_time(SETTLE_SECONDS)
    assert nodes_of(cluster.log) == {"m1": "n1"}


def test_a_pod_of_another_scheduler_that_comes_while_devices_are_given_is_waited_for() -> None:
    """Its scheduler may decide before it sees our claims."""
    cluster = story()
    cluster.slow = lambda write: isinstance(write, AllocateClaim)
    cluster.run()
    cluster.show(*FOREIGN)
    cluster.answer()
    cluster.run()
    assert given(cluster).keys() == {"c1", "c2"}
    assert nodes_of(cluster.log) == {}
    cluster.pass_time(SETTLE_SECONDS)
    assert nodes_of(cluster.log) == {"m1": "n1", "m2": "n2"}


def test_nodes_can_be_held_in_any_case() -> None:
    """Then a first pod of another scheduler cannot come in between either."""
    cluster = story(hold_room="always")
    cluster.run()
    assert [kind for kind, _ in writes(cluster.log)] == ["HoldNode", "HoldNode"]
    cluster.pass_time(IN_FLIGHT_SECONDS + 0.1)
    assert nodes_of(cluster.log) == {"m1": "n1", "m2": "n2"}
