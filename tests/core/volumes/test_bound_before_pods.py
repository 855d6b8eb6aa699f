"""Volumes before pods: every claim of a gang is bound before its first member is, and nothing is lost on the way."""

from __future__ import annotations

import pytest

from gangsched.core.actions import Bind, BindVolume, Remove, SelectNode, WithdrawNomination, Write
from gangsched.core.events import Outcome
from gangsched.model.volumes import ClaimRef, PersistentVolume
from tests.builders import LATER, MADE, claim, gang, node, pod, reserved, volume
from tests.core.harness import Cluster, nodes_of, reports, texts, writes
from tests.core.volumes.stories import G, bound, kinds, waiting


def test_no_member_is_bound_before_the_last_claim_is() -> None:
    """Both claims are asked for at once; with one of them bound nobody is bound, with both everybody."""
    cluster = waiting()
    assert kinds(cluster) == ["SelectNode", "BindVolume"]
    asked = {a.claim: (a.node if isinstance(a, SelectNode) else a.volume) for a in cluster.log if isinstance(a, _BOTH)}
    assert asked == {"c1": "n1", "c2": "v2"}
    assert cluster.core.states() == {G: "PreBinding"}
    cluster.bind_claims("c1")
    cluster.run()
    assert bound(cluster) == set()
    cluster.bind_claims()
    cluster.run()
    assert nodes_of(cluster.log) == {"m1": "n1", "m2": "n2"}
    assert cluster.core.states() == {}
    assert cluster.core.world.snapshot.volumes.assumed == {}


_BOTH = (BindVolume, SelectNode)


def test_what_is_asked_for_a_volume_names_what_it_means() -> None:
    """UID and version of the volume, UID of the claim: whoever comes in between makes the write fail."""
    (found,) = [a for a in waiting(volume("v2", "n2", version="7")).log if isinstance(a, BindVolume)]
    assert (found.volume_uid, found.version, found.claim_uid) == ("uid-volume-v2", "7", "uid-claim-c2")


def test_a_volume_that_a_person_has_reserved_stays_reserved() -> None:
    """What is asked for a volume says whether it was reserved for the claim before."""
    cluster = Cluster(node("n1"), LATER, claim("c1"), claim("c2"), volume("v2"), reserved("v1", "c1", "n1"))
    cluster.show(pod("p").claims("c1", "c2"))
    cluster.run()
    asked = {a.volume: a.reserved for a in cluster.log if isinstance(a, BindVolume)}
    assert asked == {"v1": True, "v2": False}


def test_bound_claims_need_no_phase_of_their_own() -> None:
    """A gang whose claims are all bound is bound at once."""
    cluster = waiting()
    cluster.bind_claims()
    cluster.run()
    cluster.delete("m1")
    cluster.show(pod("m1").uid("again").cpu(1).gang("g").claims("c1"))
    before = len(cluster.log)
    cluster.run()
    assert [kind for kind, _ in writes(cluster.log[before:])] == ["Bind"]


def test_room_and_volumes_are_held_while_claims_are_bound() -> None:
    """Another gang gets neither the nodes nor the volume."""
    cluster = waiting()
    cluster.show(pod("thief").cpu(1), claim("c3"), pod("other").claims("c3"))
    cluster.run()
    assert bound(cluster) == set()
    assert "Insufficient cpu" in texts(cluster.log, "thief")[0][1]
    assert "didn't find available persistent volumes" in texts(cluster.log, "other")[0][1]


def test_the_time_is_over() -> None:
    """Claims that are not bound in time: the gang says so, gives everything back, and is decided again."""
    cluster = waiting(bind_timeout_seconds=60.0)
    cluster.pass_time(59)
    assert cluster.core.states() == {G: "PreBinding"}
    cluster.now = 60.0
    cluster.run()
    assert cluster.core.states() == {G: "Backoff"}
    assert texts(cluster.log, "m1")[-1] == (
        "Unschedulable",
        "timed out while PreBinding: waiting for volumes of d/c1, d/c2",
    )
    assert len(reports(cluster.log, "FailedScheduling")) == 2
    assert cluster.core.world.snapshot.volumes.assumed == {}
    assert not any(p.uid in cluster.core.world.assumed for p in cluster.pods.values())
    assert bound(cluster) == set()
    cluster.pass_time(5)
    assert cluster.core.states() == {G: "PreBinding"}
    assert kinds(cluster) == ["SelectNode", "BindVolume"], "what the cluster knows is not asked for again"
    cluster.bind_claims()
    cluster.run()
    assert bound(cluster) == {"m1", "m2"}


@pytest.mark.parametrize("answer", [Outcome.CONFLICT, Outcome.GONE, Outcome.REFUSED, Outcome.TRANSIENT])
@pytest.mark.parametrize("kind", [BindVolume, SelectNode])
def test_a_failed_write_leaves_no_partial_gang(kind: type[Write], answer: Outcome) -> None:
    """Whatever becomes of one write, nobody is bound until a later round has all of them."""
    failing = [kind]
    cluster = Cluster(node("n1"), LATER, MADE, gang("g").min(2), claim("c1", "made"), claim("c2"), volume("v2"))
    cluster.judge = lambda w: (answer, "no") if failing and isinstance(w, failing[0]) else None
    cluster.show(*(pod(f"m{i}").gang("g").claims(f"c{i}") for i in (1, 2)))
    cluster.run()
    assert bound(cluster) == set()
    failing.clear()
    cluster.pass_time(20)
    cluster.bind_claims()
    cluster.run()
    assert bound(cluster) == {"m1", "m2"}


def test_a_volume_that_somebody_else_took_is_replaced() -> None:
    """The volume controller bound it to another claim: the gang looks for another one."""
    cluster = waiting()
    cluster.alter("PersistentVolume", "v2", claim=ClaimRef("d", "other", "uid-other"), phase="Bound")
    cluster.run()
    assert "didn't find available persistent volumes" in texts(cluster.log, "m2")[-1][1]
    assert cluster.core.world.snapshot.volumes.taken == {}
    cluster.show(volume("v3", "n2"))
    cluster.pass_time(20)
    cluster.bind_claims()
    cluster.run()
    assert bound(cluster) == {"m1", "m2"}


def test_a_provisioner_that_gives_up_is_believed() -> None:
    """It takes the annotation away; the gang is decided again and asks for a volume somewhere."""
    cluster = waiting()
    cluster.alter("PersistentVolumeClaim", "c1", selected_node="")
    cluster.pass_time(5)
    assert kinds(cluster).count("SelectNode") == 2
    assert bound(cluster) == set()


def test_a_volume_made_in_the_wrong_place_is_noticed() -> None:
    """The node must reach what was bound."""
    cluster = waiting()
    cluster.bind_claims("c2")
    cluster.show(volume("made", "n2", storage_class="made", claim=ClaimRef("d", "c1", "uid-claim-c1")))
    cluster.alter("PersistentVolumeClaim", "c1", volume_name="made", bound=True, phase="Bound")
    cluster.run()
    assert bound(cluster) == set()
    assert "0/2 nodes are available" in texts(cluster.log, "m1")[-1][1]


@pytest.mark.parametrize("lost", ["node", "member", "claim"])
def test_what_is_lost_meanwhile(lost: str) -> None:
    """A node, member or claim that goes away ends the plan; nobody is bound, nothing stays held."""
    cluster = waiting()
    if lost == "node":
        cluster.show(node("n2").cpu(1).cordoned())
    elif lost == "member":
        cluster.delete("m2")
    else:
        cluster.alter("PersistentVolumeClaim", "c2", deleting=True)
    cluster.run()
    assert bound(cluster) == set()
    assert cluster.core.states()[G] in ("Backoff", "Gathering")
    assert cluster.core.world.snapshot.volumes.assumed == {}


def test_room_that_somebody_takes_while_volumes_are_bound() -> None:
    """A pod of another scheduler comes to a node of the gang: no member is bound there all the same."""
    cluster = waiting()
    cluster.show(pod("thief").cpu(1).scheduler("default-scheduler").on("n1"))
    cluster.run()
    assert cluster.core.states() == {G: "Backoff"}
    cluster.bind_claims()
    cluster.pass_time(20)
    assert nodes_of(cluster.log) == {}


def test_room_that_a_pod_outgrows_while_volumes_are_bound() -> None:
    """A pod that is resized in place may take the room of members that are not bound yet."""
    cluster = waiting(node("n1").cpu(2), pod("other").cpu(1).on("n1"))
    assert cluster.core.states() == {G: "PreBinding"}
    cluster.show(pod("other").cpu(2).on("n1"))
    cluster.bind_claims()
    cluster.pass_time(20)
    assert nodes_of(cluster.log) == {}


@pytest.mark.parametrize("seen", [0, 1, 2])
def test_a_restart_in_the_middle_finds_what_was_asked_for(seen: int) -> None:
    """A new process waits for the claims that are on their way, on the same nodes, and asks for the others."""
    cluster = waiting()
    if seen == 0:  # only the first write reached the server
        cluster.alter("PersistentVolume", "v2", claim=None)
    elif seen == 2:
        cluster.bind_claims()
    before = len(cluster.log)
    cluster.restart()
    cluster.run()
    asked = [kind for kind, _ in writes(cluster.log[before:])]
    assert asked == {0: ["BindVolume"], 1: [], 2: ["Bind", "Bind"]}[seen]
    cluster.bind_claims()
    cluster.run()
    assert nodes_of(cluster.log) == {"m1": "n1", "m2": "n2"}


# -- with victims ------------------------------------------------------------------------------------------


def preempting() -> Cluster:
    """The gang needs the nodes of two pods that have been told to leave."""
    return waiting(*(pod(f"v{i}").cpu(1).priority(-1).on(f"n{i}") for i in (1, 2)))


def test_volumes_are_asked_for_when_the_victims_are_gone() -> None:
    """Evictions come first, then volumes, then bindings; the nominations stand until then."""
    cluster = preempting()
    assert kinds(cluster) == ["Nominate", "Nominate", "Mark", "Mark", "Remove", "Remove"]
    cluster.leave()
    cluster.run()
    assert kinds(cluster)[6:] == ["SelectNode", "BindVolume"]
    assert cluster.pod("m1").nominated_node == "n1"
    cluster.bind_claims()
    cluster.run()
    assert kinds(cluster)[8:] == ["Bind", "Bind"]
    assert bound(cluster) >= {"m1", "m2"}


def test_nominations_are_withdrawn_when_the_volumes_do_not_come() -> None:
    """A gang that gives up leaves no nomination behind."""
    cluster = preempting()
    cluster.leave()
    cluster.pass_time(599)
    assert cluster.core.states() == {G: "PreBinding"}
    cluster.now = 600.0
    cluster.run()
    assert {a.pod.name for a in cluster.log if isinstance(a, WithdrawNomination)} == {"m1", "m2"}
    assert cluster.pod("m1").nominated_node == ""


@pytest.mark.parametrize("after", [False, True], ids=["before-the-volumes", "after-the-volumes"])
def test_a_restart_of_a_nominated_gang(after: bool) -> None:
    """The plan is finished: nobody else is evicted, the volumes are those that were asked for."""
    cluster = preempting()
    cluster.leave()
    if after:
        cluster.run()
    cluster.restart()
    cluster.run()
    cluster.bind_claims()
    cluster.run()
    assert nodes_of(cluster.log) == {"m1": "n1", "m2": "n2"}
    assert len([a for a in cluster.log if isinstance(a, Remove)]) == 2


def test_members_that_share_a_claim_ask_for_it_once() -> None:
    """One claim, one write."""
    cluster = Cluster(node("n1"), MADE, gang("g").min(2), claim("c", "made", access_modes=("ReadWriteMany",)))
    cluster.show(*(pod(f"m{i}").gang("g").claims("c") for i in (1, 2)))
    cluster.run()
    assert kinds(cluster) == ["SelectNode"]
    cluster.bind_claims()
    cluster.run()
    assert {a.pod.name for a in cluster.log if isinstance(a, Bind)} == {"m1", "m2"}


def sharing(*volumes: PersistentVolume) -> Cluster:
    """Pods a and b with one claim, for which there are these volumes or one is made."""
    kind = LATER if volumes else MADE
    claimed = claim("c", kind.name)
    return Cluster(node("n1"), kind, claimed, *volumes, pod("a").claims("c"), pod("b").claims("c").created(1))


@pytest.mark.parametrize("volumes", [(), (volume("v"),), (reserved("v", "c", "n1"),)], ids=["new", "free", "reserved"])
def test_a_shared_claim_that_the_first_gang_gives_up(volumes: tuple[PersistentVolume, ...]) -> None:
    """The gang that has asked goes before the cluster has seen it: the other one, which counted on it, asks itself."""
    cluster = sharing(*volumes)
    cluster.slow = lambda w: isinstance(w, _BOTH)
    cluster.run()
    assert cluster.core.states() == {"d/a": "PreBinding", "d/b": "PreBinding"}
    cluster.judge = lambda w: (Outcome.REFUSED, "no") if isinstance(w, _BOTH) and w.pod.name == "a" else None
    cluster.slow = lambda w: False
    cluster.answer()
    cluster.delete("a")
    cluster.pass_time(5)
    assert [w.pod.name for w in cluster.log if isinstance(w, _BOTH)] == ["a", "b"]
    cluster.bind_claims()
    cluster.run()
    assert nodes_of(cluster.log) == {"b": "n1"}


@pytest.mark.parametrize("volumes", [(), (volume("v"),)], ids=["new", "free"])
def test_a_shared_claim_that_the_cluster_has_seen(volumes: tuple[PersistentVolume, ...]) -> None:
    """The gang that has asked goes, its request stands: the other one goes on waiting and is not decided again."""
    cluster = sharing(*volumes)
    cluster.run()
    cluster.delete("a")
    cluster.pass_time(5)
    assert [d.gang.name for d in cluster.decisions] == ["a", "b"]
    cluster.bind_claims()
    cluster.run()
    assert nodes_of(cluster.log) == {"b": "n1"}


def test_volumes_that_a_nominated_gang_gives_back_wake_others_elsewhere() -> None:
    """The only volume was to be used on n1; who needs it runs on n2, where nothing has happened."""
    cluster = Cluster(
        node("n1").cpu(1),
        node("n2").cpu(4),
        LATER,
        volume("v"),
        claim("c1"),
        claim("c2"),
        pod("low").cpu(1).on("n1"),
        pod("high").cpu(1).priority(9).claims("c1").selector(**{"kubernetes.io/hostname": "n1"}),
        pod("waits").cpu(2).claims("c2"),
    )
    cluster.run()
    cluster.delete("high")
    cluster.pass_time(60)
    assert "waits" in {a.pod.name for a in cluster.log if isinstance(a, BindVolume)}


def test_volumes_are_shared_out_so_that_all_claims_are_served() -> None:
    """The claim that has a choice leaves the volume that another one needs."""
    cluster = Cluster(
        node("n1"),
        LATER,
        gang("g").min(2),
        claim("c1", gib=1),
        claim("c2", gib=1, access_modes=("ReadOnlyMany",)),
        volume("va", gib=1, access_modes=("ReadOnlyMany", "ReadWriteOnce")),
        volume("vb", gib=5),
        pod("m2").gang("g").claims("c1"),
        pod("m1").gang("g").claims("c2"),
    )
    cluster.run()
    assert {a.claim: a.volume for a in cluster.log if isinstance(a, BindVolume)} == {"c1": "vb", "c2": "va"}


def test_more_claims_than_the_stack_is_deep_share_the_volumes_out() -> None:
    """As many volumes as members, and all of them within reach of everybody."""
    size = 1100
    cluster = Cluster(
        *(node(f"n{i:02}").cpu(100) for i in range(12)),
        LATER,
        gang("g").min(size),
        *(volume(f"v{i}") for i in range(size)),
        *(claim(f"c{i}") for i in range(size)),
        *(pod(f"m{i}").cpu(1).gang("g").claims(f"c{i}") for i in range(size)),
    )
    cluster.step()
    assert len({a.volume for a in cluster.log if isinstance(a, BindVolume)}) == size


def test_a_new_volume_wakes_a_gang_that_had_none() -> None:
    """The event is enough, once the backoff is over."""
    cluster = Cluster(node("n1"), LATER, claim("c"), pod("p").claims("c"))
    cluster.run()
    assert cluster.core.states() == {"d/p": "Backoff"}
    cluster.pass_time(15)
    cluster.show(volume("v"))
    cluster.run()
    assert cluster.core.states() == {"d/p": "PreBinding"}


def test_what_is_told_of_a_claim_is_kept_up_to_date() -> None:
    """A claim that has been created is not told as missing, although its pod still does not fit."""
    cluster = Cluster(node("n1"), LATER, pod("p").claims("c"))
    cluster.run()
    assert 'persistentvolumeclaim "c" not found' in texts(cluster.log, "p")[-1][1]
    cluster.show(claim("c"))
    cluster.pass_time(15)
    assert "1 node(s) didn't find available persistent volumes to bind" in texts(cluster.log, "p")[-1][1]
