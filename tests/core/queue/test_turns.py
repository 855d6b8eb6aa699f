"""What may pass a gang that does not fit, and how it gets its turn in the end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gangsched.core.decision import BIND, UNSCHEDULABLE, Headline
from gangsched.core.events import Gone, Outcome
from gangsched.core.framework.arguments import NodeResourcesFitArgs
from gangsched.core.framework.registry import PluginSet
from gangsched.messages.answers import NOT_NOW
from gangsched.model.records import Stakes
from tests.amounts import amount
from tests.builders import LATER, OURS, PodBuilder, claim, gang, node, pod, required_affinity, volume
from tests.core.harness import Cluster, nodes_of, plan, reserved, texts

BIG = "d/big"
Make = Callable[[str], PodBuilder]


def big(size: int = 2, cpu: float = 4, **fields: Any) -> list[Any]:
    """A gang that is older than everything else."""
    return [gang("big").min(size), *(pod(f"big{i}").cpu(cpu).gang("big").field(**fields) for i in range(size))]


def small(name: str) -> PodBuilder:
    """A pod that takes half a node, and is behind the gang."""
    return pod(name).cpu(2).created(1)


class Stream:
    """Small pods that come one after another, and end after a while."""

    def __init__(self, cluster: Cluster, make: Make = small, lasts: float = 30, every: float = 7) -> None:
        self.cluster = cluster
        self.make = make
        self.lasts = lasts
        self.every = every
        self.count = 0

    def flow(self, seconds: float) -> float | None:
        """Let time pass; returns when the gang was bound, or None."""
        end = self.cluster.now + seconds
        while self.cluster.now < end:
            self.count += 1
            self.cluster.show(self.make(f"s{self.count}"))
            self.cluster.pass_time(self.every)
            for found in list(self.cluster.pods.values()):
                if found.bound and found.name.startswith("s") and found.started + self.lasts <= self.cluster.now:
                    self.cluster.change(found.name, phase="Succeeded")
            self.cluster.run()
            if self.cluster.pod("big0").node:
                return self.cluster.now
        return None


def busy(*objects: Any, make: Make = small, **options: Any) -> tuple[Cluster, Stream]:
    """Two nodes that small pods keep busy, and a gang that needs both."""
    cluster = Cluster(node("n1"), node("n2"), **options)
    stream = Stream(cluster, make)
    for _ in range(4):
        stream.count += 1
        cluster.show(make(f"s{stream.count}"))
        cluster.pass_time(7)
    cluster.show(*objects)
    return cluster, stream


# -- starvation --------------------------------------------------------------------------------------------


def test_without_reservations_a_stream_of_small_pods_starves_a_big_gang() -> None:
    """The node that becomes free is taken before the other one does: this is what reservations are for."""
    _, stream = busy(*big(), starvation_seconds=0)
    assert stream.flow(900) is None


@pytest.mark.parametrize("after", [60.0, 300.0])
def test_a_gang_gets_its_turn_within_the_run_time_of_what_is_there(after: float) -> None:
    """Once room is reserved nothing new enters it, so the gang starts when what runs there has ended."""
    _, stream = busy(*big(), starvation_seconds=after)
    started = stream.flow(900)
    assert started is not None
    assert after <= started - 28 <= after + stream.lasts + 2 * stream.every


def test_small_pods_go_on_beside_the_reserved_room() -> None:
    """Only the gang's room is kept: what it leaves of a node, and other nodes, are for everybody."""
    cluster = Cluster(
        node("n1").cpu(7), node("n2"), node("n3").cpu(2), pod("a").cpu(4).on("n1"), pod("b").cpu(2).on("n2"),
        *big(), starvation_seconds=10,
    )  # fmt: skip
    cluster.pass_time(20)
    cluster.show(small("s"), small("t"), pod("u").cpu(3).created(2), pod("v").cpu(3).created(3))
    cluster.pass_time(20)
    assert [cluster.pod(n).node for n in "stuv"] == ["n3", "", "", ""]
    cluster.delete("a")
    cluster.pass_time(20)
    assert [cluster.pod(n).node for n in "stuv"] == ["n3", "n1", "", ""]


def test_work_that_waits_for_a_reservation_says_for_whom() -> None:
    """The small pod would fit: it is told which gang the room is kept for."""
    cluster, stream = busy(*big(), starvation_seconds=60)
    stream.flow(75)
    waiting = [p.name for p in cluster.pods.values() if not p.node and p.name.startswith("s")]
    said = [text for name in waiting for _, text in texts(cluster.log, name)]
    assert any(text.startswith("not now: behind d/big for which room is reserved. ") for text in said)


def test_what_is_ahead_in_the_queue_is_not_held_up() -> None:
    """Higher priority, or the same priority and older: a reservation behind it is no obstacle."""
    cluster = Cluster(
        node("n1"), node("n2"), pod("a").cpu(2).on("n1"), pod("b").cpu(2).on("n2"),
        *big(created=50.0), gang("big").min(2).created(50), starvation_seconds=10,
    )  # fmt: skip
    cluster.pass_time(20)
    assert [b.name for b in cluster.core.ledger.turns.reserving()] == ["d/big"]
    cluster.show(pod("high").cpu(2).priority(1).created(99))
    cluster.show(pod("old").cpu(2).created(40), pod("young").cpu(2).created(60))
    cluster.pass_time(5)
    assert [bool(cluster.pod(n).node) for n in ("high", "old", "young")] == [True, True, False]


def test_room_is_reserved_where_the_fewest_have_to_end() -> None:
    """The longest running are expected to end first; pods that a controller keeps running are not expected to end."""
    cluster = Cluster(
        node("n1"), node("n2"), node("n3"),
        pod("service").cpu(4).on("n1", 0.0).owner("ReplicaSet", "web"),
        pod("late").cpu(4).on("n2", 50.0), pod("early").cpu(4).on("n3", 40.0),
        pod("big0").cpu(4), starvation_seconds=10,
    )  # fmt: skip
    cluster.pass_time(20)
    room = [p.node for pods in reserved(cluster).values() for p in pods]
    assert room == ["n3"]


def test_nothing_is_reserved_where_waiting_has_no_end() -> None:
    """With services in the way no room is set aside, for it might lie idle for ever."""
    cluster = Cluster(
        node("n1"), node("n2"), pod("service").cpu(4).on("n1").owner("ReplicaSet", "web"), *big(), starvation_seconds=10
    )
    cluster.pass_time(20)
    cluster.show(small("s"))
    cluster.pass_time(5)
    assert cluster.pod("s").node == "n2"


def test_a_reservation_that_does_not_come_true_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """What it counts on runs for ever: room that others could use lies idle for a while, and again much later."""
    monkeypatch.setattr("gangsched.core.lifecycle.waiting.RESERVED_WITHOUT_END", 4000.0)
    cluster = Cluster(node("n1"), node("n2"), pod("for-ever").cpu(4).on("n1"), *big(), starvation_seconds=60)
    reserving = cluster.core.ledger.turns.reserving
    cluster.pass_time(120)
    cluster.show(small("s"))
    cluster.pass_time(4050 - cluster.now)
    assert [b.name for b in reserving()] == ["d/big"]
    cluster.pass_time(4100 - cluster.now)
    assert reserving() == []
    assert cluster.pod("s").node == "n2"
    cluster.pass_time(8100 - cluster.now)
    assert reserving() == []
    cluster.pass_time(8150 - cluster.now)
    assert [b.name for b in reserving()] == ["d/big"]


def test_a_pod_without_a_known_end_keeps_others_out_for_ten_minutes() -> None:
    """A shell of the same owner runs on one of the nodes that the gang needs: others have the rest after that."""
    cluster = Cluster(node("n1"), node("n2"), pod("shell").cpu(1).on("n1"), *big(), starvation_seconds=60)
    cluster.pass_time(70)
    cluster.show(pod("s").cpu(4).created(1))
    cluster.pass_time(580)
    assert cluster.pod("s").node == ""
    cluster.pass_time(20)
    assert cluster.pod("s").node == "n2"


@pytest.mark.parametrize("how", ["deadline", "declared", "learnt"])
def test_a_pod_with_a_known_end_is_waited_for(how: str) -> None:
    """An hour by its deadline, by what is declared, or because others of its owner ran so long, and a fifth more."""
    runs = pod("runs").cpu(1).on("n1").owner("Worker", "w")
    before = pod("before").cpu(1).on("n1").owner("Worker", "w").field(phase="Succeeded", started=1.0, ended=3601.0)
    known = {
        "deadline": [runs.field(deadline_seconds=3600)],
        "declared": [runs.field(stakes=Stakes(expected_seconds=3600.0))],
        "learnt": [runs, before],
    }
    cluster = Cluster(node("n1"), node("n2"), *known[how], *big(), starvation_seconds=60)
    cluster.pass_time(70)
    cluster.show(pod("s").cpu(4).created(1))
    cluster.pass_time(3600)
    assert cluster.pod("s").node == ""
    cluster.change("runs", phase="Succeeded")
    cluster.run()
    assert {cluster.pod(f"big{n}").node for n in range(2)} == {"n1", "n2"}


def test_room_with_a_known_end_comes_first() -> None:
    """A pod that has run longest and says nothing of its end does not count before one that does."""
    shell, job = pod("shell").cpu(1).on("n1"), pod("job").cpu(1).on("n2").field(deadline_seconds=900, started=50.0)
    cluster = Cluster(node("n1"), node("n2"), shell, job, *big(1), starvation_seconds=60)
    cluster.pass_time(70)
    assert [phantom.node for phantom in reserved(cluster)["d/big"]] == ["n2"]


def test_one_turn_at_a_time() -> None:
    """The second gang that starves for the same nodes waits until the first has started; for others it does not."""
    cluster = Cluster(
        node("n1"), node("n2"), node("other").taint("x"),
        pod("a").cpu(1).on("n1"), pod("b").cpu(1).on("n2"), pod("c").cpu(1).on("other"),
        pod("first").cpu(4).created(1), pod("second").cpu(4).created(2),
        pod("third").cpu(4).created(3).tolerates("x", "Exists").shape(node_name="other"),
        starvation_seconds=10,
    )  # fmt: skip
    cluster.pass_time(20)
    assert sorted(b.name for b in cluster.core.ledger.turns.reserving()) == ["d/first", "d/third"]
    cluster.delete("a")
    cluster.pass_time(400)
    assert cluster.pod("first").node == "n1"
    assert sorted(b.name for b in cluster.core.ledger.turns.reserving()) == ["d/second", "d/third"]


@pytest.mark.parametrize("how", ["deleted", "bound", "no longer complete"])
def test_a_reservation_ends_with_its_reason(how: str) -> None:
    """What was kept is free for others when its gang is gone, has started or waits for members; they are woken."""
    cluster = Cluster(
        node("n1"), node("n2"), pod("a").cpu(2).on("n1"), pod("b").cpu(2).on("n2"), *big(), starvation_seconds=10
    )
    cluster.pass_time(20)
    cluster.show(small("s"))
    cluster.pass_time(20)
    assert not cluster.pod("s").node
    if how == "deleted":
        cluster.show(Gone("PodGroup", "d", "big", group="scheduling.sigs.k8s.io"))
        cluster.delete("big0")
        cluster.delete("big1")
    elif how == "bound":
        cluster.show(node("n3"), node("n4"))
    else:
        cluster.delete("big0")
    cluster.run()
    assert cluster.pod("s").node in ("n1", "n2")
    assert not list(cluster.core.ledger.turns.reserving())


def test_a_reservation_moves_when_its_node_is_lost() -> None:
    """The gang is decided again at once, and room is reserved on another node."""
    cluster = Cluster(
        node("n1"), node("n2"), pod("a").cpu(2).on("n1", 5.0), pod("b").cpu(2).on("n2", 9.0),
        pod("big0").cpu(4), starvation_seconds=10,
    )  # fmt: skip
    cluster.pass_time(20)
    assert [p.node for pods in reserved(cluster).values() for p in pods] == ["n1"]
    cluster.show(Gone("Node", "", "n1"))
    cluster.run()
    assert [p.node for pods in reserved(cluster).values() for p in pods] == ["n2"]


def test_held_room_is_safe_from_reservations() -> None:
    """A gang that has evicted for its place gets it, though one ahead has been given a turn since."""
    cluster = Cluster(
        node("n1"), pod("a").cpu(1).on("n1"), pod("b").cpu(2).on("n1").priority(-1),
        pod("mid").cpu(2).created(5), pod("big0").cpu(4).never(), starvation_seconds=10,
    )  # fmt: skip
    cluster.run()
    assert cluster.core.states()["d/mid"] == "WaitingForVictims"
    cluster.pass_time(20)
    cluster.leave()
    cluster.run()
    assert cluster.pod("mid").node == "n1"


@settings(max_examples=amount(8, 4), deadline=None)
@given(st.lists(st.tuples(st.integers(1, 4), st.integers(1, 8)), min_size=3, max_size=12), st.integers(1, 3))
def test_a_gang_always_starts(stream: list[tuple[int, int]], size: int) -> None:
    """Whatever mixture of (cores, tens of seconds) streams by, the gang starts."""
    cluster = Cluster(*(node(f"n{i}") for i in range(3)), starvation_seconds=60)
    ends: dict[str, float] = {}
    cluster.show(*big(size))
    cluster.show(*(pod(f"first{i}").cpu(1).on(f"n{i}") for i in range(3)))
    ends.update({f"first{i}": 50.0 for i in range(3)})
    for turn in range(60):
        cores, tens = stream[turn % len(stream)]
        cluster.show(pod(f"s{turn}").cpu(cores).created(1))
        ends[f"s{turn}"] = tens * 10.0
        cluster.pass_time(5)
        for name, lasts in ends.items():
            found = cluster.pod(name)
            if found.bound and found.started + lasts <= cluster.now:
                cluster.show(msgspec.structs.replace(found, phase="Succeeded"))
        cluster.run()
    assert cluster.pod("big0").node


# -- strict ------------------------------------------------------------------------------------------------


def test_strictly_nothing_passes_on_nodes_that_a_blocked_gang_could_use() -> None:
    """Smaller and younger work waits although it would fit, and says for whom."""
    cluster = Cluster(node("n1"), node("n2"), pod("a").cpu(1).on("n1"), *big(), small("s"), queue_policy="strict")
    cluster.run()
    assert not cluster.pod("s").node
    (_, text), *_ = texts(cluster.log, "s")
    assert text.startswith(
        "not now: behind d/big under strict queue policy. 0/2 nodes are available: 2 node(s) were kept for "
    )
    cluster.delete("a")
    cluster.run()
    assert cluster.pod("big0").node
    assert not cluster.pod("s").node


def test_strictly_a_gang_that_has_started_is_in_nobodys_way() -> None:
    """Those behind are woken when it has, not by chance later."""
    cluster = Cluster(
        node("n1"), node("n2"), pod("a").cpu(2).on("n1"), pod("big0").cpu(3), pod("block").cpu(2).on("n2"),
        small("s"), queue_policy="strict",
    )  # fmt: skip
    cluster.run()
    assert not cluster.pod("s").node
    cluster.delete("a")
    cluster.run()
    assert (cluster.pod("big0").node, cluster.pod("s").node) == ("n1", "n2")


@pytest.mark.parametrize(
    ("blocked", "passes"),
    [
        ([pod("big0").cpu(9)], True),
        ([pod("big0").cpu(4).selector(pool="gpu")], True),
        ([pod("big0").cpu(4)], False),
        ([gang("big").min(2), pod("big0").cpu(4).gang("big")], True),
        ([gang("big").min(2), pod("big0").cpu(1).gang("big"), pod("big1").gpu(1).gang("big")], True),
        ([gang("big").min(1), pod("big0").on("n1").gang("big"), pod("big1").cpu(4).gang("big")], True),
        ([pod("big0").cpu(4).gated()], True),
        ([pod("big0").cpu(4).created(5)], True),
    ],
    ids=["too-big", "elsewhere", "blocks", "gathering", "hopeless-member", "surplus", "gated", "behind"],
)
def test_who_blocks_under_strict_order(blocked: list[Any], passes: bool) -> None:
    """Only a complete gang ahead that lacks required members, and only on nodes that it could use."""
    cluster = Cluster(node("n1"), pod("a").cpu(1).on("n1"), *blocked, small("s"), queue_policy="strict")
    cluster.run()
    assert bool(cluster.pod("s").node) is passes


def test_strict_order_leaves_other_nodes_to_others() -> None:
    """What the blocked gang cannot use is no concern of its."""
    cluster = Cluster(
        node("n1").label(pool="gpu"), node("n2"), pod("a").cpu(1).on("n1"),
        pod("big0").cpu(4).selector(pool="gpu"), small("s"), small("t"), small("u"), queue_policy="strict",
    )  # fmt: skip
    cluster.run()
    assert [cluster.pod(n).node for n in ("s", "t", "u")] == ["n2", "n2", ""]


def test_strict_order_counts_after_failed_writes_too() -> None:
    """A gang that rests after an error is still ahead."""
    cluster = Cluster(node("n1"), pod("big0").cpu(4), queue_policy="strict")
    cluster.judge = lambda write: (Outcome.REFUSED, "no") if write.pod.name == "big0" else None
    cluster.run()
    cluster.show(small("s"))
    cluster.run()
    assert not cluster.pod("s").node


def test_plan_knows_strict_order() -> None:
    """What is forecast is what the scheduler does, and says."""
    objects = (node("n1"), pod("a").cpu(1).on("n1"), pod("big0").cpu(4), small("s"))
    assert plan(*objects)["d/s"].outcome == BIND
    found = plan(*objects, queue_policy="strict")["d/s"]
    assert found.outcome == UNSCHEDULABLE
    assert found.headline == Headline(NOT_NOW, "behind d/big0 under strict queue policy")


def test_two_gangs_that_need_everything_never_share_it() -> None:
    """Under either policy the cluster goes to one and then to the other, never half to each."""
    for policy in ("strict", "backfill"):
        cluster = Cluster(
            node("n1"), node("n2"), gang("a").min(2), gang("b").min(2),
            *(pod(f"{g}{i}").cpu(4).gang(g) for i in (1, 2) for g in ("b", "a")), queue_policy=policy,
            starvation_seconds=5,
        )  # fmt: skip
        cluster.pass_time(20)
        assert sorted(p.name for p in cluster.pods.values() if p.node) == ["a1", "a2"]
        for name in ("a1", "a2"):
            cluster.change(name, phase="Succeeded")
            cluster.pass_time(20)
        assert cluster.pod("b1").node
        assert cluster.pod("b2").node


def test_strict_order_follows_the_volumes_of_those_ahead() -> None:
    """The first pod's claim is bound to a volume of n1: n2 is open to those behind it from then on."""
    cluster = Cluster(
        node("n1").cpu(2), node("n2").cpu(2), LATER, claim("c"), volume("v1", "n1"), volume("v2", "n2"),
        pod("x").cpu(1).on("n1"), pod("y").cpu(1).on("n2"),
        pod("first").cpu(2).claims("c"), pod("second").cpu(1).created(1),
        queue_policy="strict",
    )  # fmt: skip
    cluster.run()
    assert nodes_of(cluster.log) == {}
    cluster.alter("PersistentVolumeClaim", "c", volume_name="v1", bound=True, phase="Bound")
    cluster.pass_time(20)
    assert nodes_of(cluster.log) == {"second": "n2"}


def test_a_pod_that_asks_for_what_the_profile_ignores_keeps_its_nodes() -> None:
    """No node has any of the resource, which does not count."""
    ignoring = PluginSet(
        arguments=(("NodeResourcesFit", NodeResourcesFitArgs(ignored_resources=("example.com/licence",))),)
    )
    first = pod("first").cpu(4).requests(**{"example.com/licence": 1})
    cluster = Cluster(
        node("n1").cpu(4), pod("x").cpu(2).on("n1"), first, pod("second").cpu(1).created(1),
        queue_policy="strict", profiles=((OURS, ignoring),),
    )  # fmt: skip
    cluster.run()
    assert nodes_of(cluster.log) == {}


# -- profiles ----------------------------------------------------------------------------------------------


def only(pool: str) -> PluginSet:
    """A profile for the nodes of one pool."""
    return PluginSet(arguments=(("NodeAffinity", required_affinity(pool)),))


POOLS: dict[str, Any] = {
    "scheduler_names": ("gpu", "cpu"),
    "profiles": (("gpu", only("gpu")), ("cpu", only("cpu"))),
}


def test_strictly_a_gang_keeps_only_what_its_own_profile_may_use() -> None:
    """The blocked pod's profile is for other nodes: those of the second one are not kept for it."""
    cluster = Cluster(
        node("c1").label(pool="cpu"), node("g1").label(pool="gpu"), pod("x").cpu(4).on("g1"),
        pod("first").cpu(4).scheduler("gpu"), pod("second").cpu(1).scheduler("cpu").created(1),
        queue_policy="strict", **POOLS,
    )  # fmt: skip
    cluster.run()
    assert nodes_of(cluster.log) == {"second": "c1"}


def test_gangs_of_profiles_with_nodes_of_their_own_have_their_turns_at_once() -> None:
    """They could not use the same nodes, though their pods ask for the same."""
    cluster = Cluster(
        node("c1").label(pool="cpu"), node("g1").label(pool="gpu"), pod("x").cpu(1).on("g1"), pod("y").cpu(1).on("c1"),
        pod("first").cpu(4).scheduler("gpu"), pod("second").cpu(4).scheduler("cpu").created(1),
        starvation_seconds=10, **POOLS,
    )  # fmt: skip
    cluster.pass_time(20)
    rooms = {name: [p.node for p in pods] for name, pods in reserved(cluster).items()}
    assert rooms == {"d/first": ["g1"], "d/second": ["c1"]}
