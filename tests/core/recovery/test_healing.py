"""A gang that runs and loses members keeps their room for a while: it is healed before weaker work gets it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gangsched.core import events as ev
from gangsched.core.actions import Bind, Mark, Nominate, Remove, Write
from gangsched.core.events import Outcome
from gangsched.core.lifecycle.expected_room import HOLD_SECONDS, ROOMS_AT_MOST
from gangsched.model.records import Job
from tests.builders import SIGS, PodBuilder, gang, node, pod
from tests.core.harness import Cluster, kept
from tests.core.queues import big, objects, queued
from tests.core.quota.world import queue
from tests.core.stories import evicted, names

#: How a member may go.
LOSSES: dict[str, Callable[[Cluster, str], None]] = {
    "deleted": Cluster.delete,
    "failed": lambda cluster, name: cluster.change(name, phase="Failed"),
}
lost = pytest.mark.parametrize("goes", LOSSES.values(), ids=LOSSES)


def member(name: str) -> PodBuilder:
    """One that fills a node."""
    return pod(name).cpu(3).priority(5).gang("g")


def running(size: int = 2, minimum: int = 2) -> Cluster:
    """Gang g runs, one member on each node; a weaker pod waits."""
    cluster = Cluster(*(node(f"n{i + 1}") for i in range(size)), gang("g").min(minimum))
    cluster.show(*(member(f"m{i + 1}") for i in range(size)))
    cluster.run()
    assert all(cluster.pod(f"m{i + 1}").node for i in range(size))
    cluster.show(pod("weak").cpu(3).priority(1))
    cluster.pass_time(60)
    assert cluster.pod("weak").node == ""
    return cluster


def node_of(cluster: Cluster, name: str) -> str:
    """Where a pod is."""
    return cluster.pod(name).node


def held(cluster: Cluster) -> list[str]:
    """The nodes on which room is held."""
    return sorted(p.node for room in kept(cluster).values() for p in room)


@lost
def test_a_successor_that_comes_later_gets_the_room(goes: Callable[[Cluster, str], None]) -> None:
    """A weaker pod that waits does not get it in between, and so nobody has to leave."""
    cluster = running()
    away = node_of(cluster, "m2")
    goes(cluster, "m2")
    cluster.pass_time(0.1)
    assert node_of(cluster, "weak") == ""
    cluster.show(member("m2b"))
    cluster.pass_time(60)
    assert (node_of(cluster, "m2b"), node_of(cluster, "weak")) == (away, "")
    assert held(cluster) == []
    assert names(cluster, Remove) == set()


@lost
def test_a_gang_that_never_preempts_is_healed(goes: Callable[[Cluster, str], None]) -> None:
    """It could not take the room back."""
    cluster = Cluster(node("n1"), node("n2"), gang("g").min(2), *(member(f"m{i}").never() for i in (1, 2)))
    cluster.run()
    cluster.show(pod("weak").cpu(3).priority(1))
    cluster.run()
    goes(cluster, "m2")
    cluster.pass_time(10)
    cluster.show(member("m2b").never())
    cluster.run()
    assert node_of(cluster, "m2b")


@lost
def test_when_the_time_is_over_others_get_the_room(goes: Callable[[Cluster, str], None]) -> None:
    """Not a moment earlier."""
    cluster = running()
    goes(cluster, "m2")
    cluster.pass_time(HOLD_SECONDS - 1)
    assert node_of(cluster, "weak") == ""
    cluster.pass_time(1)
    assert node_of(cluster, "weak")
    assert held(cluster) == []


def test_the_time_begins_once_more_when_a_successor_is_there() -> None:
    """One of two is there and cannot start alone; the room of both is held as long again, and not longer."""
    cluster = running(3, 3)
    for name in ("m2", "m3"):
        cluster.delete(name)
    cluster.pass_time(HOLD_SECONDS - 5)
    cluster.show(member("m2b"))
    cluster.pass_time(HOLD_SECONDS - 5)
    assert len(held(cluster)) == 2
    cluster.show(member("m2c").gated("later"))
    cluster.pass_time(5)
    assert held(cluster) == []
    assert node_of(cluster, "weak")


def test_a_member_that_terminates_is_replaced_when_it_is_gone() -> None:
    """Nobody is promised what it will give up, and the time begins when it has. One that takes long takes its room
    itself: then nothing is held beside it.
    """
    cluster = running()
    cluster.change("m2", deleting_since=cluster.now + 100)
    cluster.run()
    assert len(held(cluster)) == 1
    cluster.pass_time(HOLD_SECONDS + 1)
    assert cluster.pod("weak").nominated_node != ""
    cluster.leave()
    cluster.pass_time(HOLD_SECONDS - 1)
    assert node_of(cluster, "weak") == cluster.pod("weak").nominated_node == ""
    cluster.show(member("m2b"))
    cluster.run()
    assert node_of(cluster, "m2b")


def test_only_higher_priority_takes_held_room() -> None:
    """As it may take any room that is held."""
    cluster = running()
    cluster.delete("m2")
    cluster.show(pod("equal").cpu(3).priority(5))
    cluster.run()
    assert node_of(cluster, "equal") == ""
    cluster.show(pod("strong").cpu(3).priority(6))
    cluster.run()
    assert node_of(cluster, "strong")
    assert names(cluster, Remove) == set()


def test_no_more_is_held_than_the_gang_lacks() -> None:
    """Of four members, of which two are needed, three go: the room of one is held."""
    cluster = running(4, 2)
    for name in ("m2", "m3", "m4"):
        cluster.delete(name)
    cluster.run()
    assert len(held(cluster)) == 1
    assert node_of(cluster, "weak")


def _all_go(cluster: Cluster) -> None:
    cluster.delete("m1")


def _group_goes(cluster: Cluster) -> None:
    cluster.show(ev.Gone("PodGroup", "d", "g", group=SIGS))


def _needs_less(cluster: Cluster) -> None:
    cluster.show(gang("g").min(1))


@pytest.mark.parametrize("then", [_all_go, _group_goes, _needs_less], ids=["all", "the group", "needs less"])
def test_a_gang_that_lacks_nothing_any_more_gives_the_room_back(then: Callable[[Cluster], None]) -> None:
    """It is not there in part any more, or whole as it is: the weaker pod runs at once."""
    cluster = running()
    cluster.delete("m2")
    cluster.run()
    assert len(held(cluster)) == 1
    then(cluster)
    cluster.run()
    assert held(cluster) == []
    assert node_of(cluster, "weak")


NO_PLACE: dict[str, Callable[[str], ev.Event]] = {
    "gone": lambda name: ev.Gone("Node", "", name),
    "cordoned": lambda name: ev.Changed(node(name).cordoned().obj()),
    "refused": lambda name: ev.ObjectRefused("Node", "", name, f"uid-{name}", "spec.taints[0].effect", "is none"),
}


@pytest.mark.parametrize("how", NO_PLACE.values(), ids=NO_PLACE)
def test_nothing_is_held_where_no_successor_can_go(how: Callable[[str], ev.Event]) -> None:
    """The node is gone, or takes nobody, or cannot be read any more."""
    cluster = running()
    away = node_of(cluster, "m2")
    cluster.delete("m2")
    cluster.run()
    assert held(cluster) == [away]
    cluster.show(how(away))
    cluster.run()
    assert held(cluster) == []


def test_a_member_that_has_done_its_work_is_not_lost() -> None:
    """Its room is for others; it still counts for the gang."""
    cluster = running()
    cluster.change("m2", phase="Succeeded")
    cluster.run()
    assert node_of(cluster, "weak")


def test_members_of_a_job_that_is_suspended_are_not_lost() -> None:
    """They are meant to go, one after another."""
    cluster = Cluster(node("n1"), node("n2"), gang("g").min(2), *(member(f"m{i}").owner("Job", "j") for i in (1, 2)))
    cluster.show(Job("d", "j", "uid-Job-j", parallelism=2, completions=2))
    cluster.run()
    cluster.show(pod("weak").cpu(3).priority(1), Job("d", "j", "uid-Job-j", suspended=True))
    cluster.delete("m2")
    cluster.run()
    assert node_of(cluster, "weak")


@lost
def test_a_victim_that_goes_before_it_is_marked_is_lost(goes: Callable[[Cluster, str], None]) -> None:
    """It was to leave for a stronger pod, which is gone before anybody has left for it."""
    cluster = running()
    cluster.slow = lambda write: isinstance(write, Nominate)
    cluster.show(pod("strong").cpu(3).priority(9))
    cluster.run()
    away = node_of(cluster, "m2")
    goes(cluster, "m2")
    cluster.run()
    cluster.delete("strong")
    cluster.slow = lambda _: False
    cluster.answer()
    cluster.run()
    assert held(cluster) == [away]
    assert node_of(cluster, "weak") == ""
    cluster.pass_time(60)
    assert node_of(cluster, "weak") == away


def test_a_gang_that_is_evicted_keeps_nothing() -> None:
    """Its members leave one after another, for a stronger pod on one of their nodes; the other node is anybody's."""
    cluster = running()
    cluster.show(pod("strong").cpu(3).priority(9))
    cluster.run()
    assert evicted(cluster) == {"m1", "m2"}
    cluster.leave("m1")
    cluster.run()
    assert {p.uid for room in kept(cluster).values() for p in room} <= {"uid-d-strong", "uid-d-weak"}
    cluster.leave("m2")
    cluster.run()
    assert node_of(cluster, "strong")
    assert node_of(cluster, "weak")


def test_room_that_is_held_goes_back_when_the_gang_is_evicted() -> None:
    """It lacks a member already when the others have to leave."""
    cluster = running(3, 3)
    away, there = node_of(cluster, "m3"), node_of(cluster, "m1")
    cluster.delete("m3")
    cluster.run()
    assert held(cluster) == [away]
    cluster.show(node(there).label(zone="a"), pod("strong").cpu(3).priority(9).selector(zone="a"))
    cluster.run()
    assert evicted(cluster) == {"m1", "m2"}
    assert {p.uid for room in kept(cluster).values() for p in room} == {"uid-d-strong"}
    assert node_of(cluster, "weak") == away


def test_room_is_held_again_when_the_gang_is_not_evicted_after_all() -> None:
    """The plan of whoever would have evicted it is withdrawn before anybody has left: it is to be healed as before."""
    cluster = running(3, 3)
    away, there = node_of(cluster, "m3"), node_of(cluster, "m1")
    cluster.delete("weak")
    cluster.delete("m3")
    cluster.run()
    cluster.judge = lambda write: (Outcome.REFUSED, "no") if isinstance(write, Mark) else None
    cluster.show(node(there).label(zone="a"), pod("strong").cpu(3).priority(9).selector(zone="a"))
    cluster.run()
    cluster.show(pod("late").cpu(3).priority(1))
    cluster.run()
    assert names(cluster, Mark) == {"m1", "m2"}
    assert (evicted(cluster), node_of(cluster, "late"), held(cluster)) == (set(), "", [away])


def test_a_restart_forgets_what_was_held() -> None:
    """It is nowhere on record: the weaker pod gets the room, and leaves when the successor comes."""
    cluster = running()
    cluster.delete("m2")
    cluster.run()
    assert node_of(cluster, "weak") == ""
    cluster.restart()
    cluster.run()
    assert node_of(cluster, "weak")
    cluster.show(member("m2b"))
    cluster.run()
    assert evicted(cluster) == {"weak"}


def test_what_was_lost_while_another_process_was_in_charge_is_not_held() -> None:
    """A process that only stands by notes nothing."""
    cluster = Cluster(node("n1"), node("n2"), gang("g").min(2), wait_for_leadership=True)
    cluster.show(member("m1").on("n1"), member("m2").on("n2"), pod("weak").cpu(3).priority(1))
    cluster.run()
    cluster.delete("m2")
    cluster.run()
    cluster.show(ev.LeadershipChanged(True))
    cluster.run()
    assert node_of(cluster, "weak") == "n2"


def test_room_goes_with_the_gang_into_its_gang_group() -> None:
    """It is held once, under the key of the group."""
    cluster = running()
    cluster.delete("m2")
    cluster.run()
    (before,) = kept(cluster)
    cluster.show(*(gang(name).min(2 if name == "g" else 1).group("d/g", "d/h") for name in ("g", "h")))
    cluster.show(pod("other").cpu(1).priority(5).gang("h").on(node_of(cluster, "m1")))
    cluster.run()
    (now,) = kept(cluster)
    assert now != before
    assert (len(held(cluster)), node_of(cluster, "weak")) == (1, "")
    cluster.show(member("m2b"))
    cluster.run()
    assert node_of(cluster, "m2b")
    assert held(cluster) == []


def test_of_very_many_members_only_so_many_rooms_are_held() -> None:
    """Each of them is looked at whenever anything is decided."""
    size = ROOMS_AT_MOST + 20
    cluster = Cluster(node("n1").cpu(1000).pods(1000), gang("g").min(size))
    cluster.show(*(pod(f"m{i:03}").priority(5).gang("g").on("n1") for i in range(size)))
    cluster.run()
    for i in range(size - 1):
        cluster.delete(f"m{i:03}")
    cluster.run()
    assert len(held(cluster)) == ROOMS_AT_MOST


def _refuses_once() -> Callable[[Write], tuple[Outcome, str] | None]:
    asked: list[Write] = []

    def judge(write: Write) -> tuple[Outcome, str] | None:
        if not isinstance(write, Bind) or write.pod.name != "m2" or asked:
            return None
        asked.append(write)
        return Outcome.REFUSED, "no"

    return judge


@pytest.mark.parametrize("never", [False, True])
def test_the_room_of_a_member_that_was_refused_is_kept_in_the_pause(never: bool) -> None:
    """Weaker work that comes meanwhile does not get it: the member is bound when it is tried again."""
    members = [member(f"m{i}").never() if never else member(f"m{i}") for i in (1, 2)]
    cluster = Cluster(node("n1"), node("n2"), gang("g").min(2), *members)
    cluster.judge = _refuses_once()
    cluster.run()
    cluster.show(pod("weak").cpu(3).priority(1))
    cluster.run()
    assert (node_of(cluster, "m2"), node_of(cluster, "weak")) == ("", "")
    cluster.pass_time(60)
    assert (node_of(cluster, "m2"), node_of(cluster, "weak")) == ("n2", "")
    assert names(cluster, Remove) == set()


def _in_turn(answers: dict[str, list[Outcome]]) -> Callable[[Write], tuple[Outcome, str] | None]:
    """The bindings of each of these members fail so, one after the other; the next takes effect."""

    def judge(write: Write) -> tuple[Outcome, str] | None:
        left = answers.get(write.pod.name) if isinstance(write, Bind) else None
        return (left.pop(0), "no") if left else None

    return judge


REFUSED, UNKNOWN = Outcome.REFUSED, Outcome.TRANSIENT


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ([UNKNOWN], [REFUSED, REFUSED]),
        ([REFUSED], [REFUSED, REFUSED]),
        ([REFUSED, UNKNOWN], [REFUSED, REFUSED]),
        ([REFUSED, REFUSED, UNKNOWN], [REFUSED] * 4),
    ],
)
def test_room_is_kept_for_who_was_refused_before_another_was_bound(first: list[Outcome], second: list[Outcome]) -> None:
    """It does not matter how often both were refused before, nor whose answer comes last."""
    cluster = Cluster(node("n1"), node("n2"), gang("g").min(2), *(member(f"m{i}").never() for i in (1, 2)))
    cluster.judge = _in_turn({"m1": first, "m2": second})
    while not node_of(cluster, "m1"):
        cluster.pass_time(1)
    assert node_of(cluster, "m2") == ""
    cluster.show(pod("weak").cpu(3).priority(1))
    cluster.pass_time(HOLD_SECONDS)
    assert (node_of(cluster, "m2") != "", node_of(cluster, "weak")) == (True, "")


def test_nothing_is_kept_for_a_gang_of_which_nobody_could_be_bound() -> None:
    """It is not bound in part: weaker work may run in its pause."""
    cluster = Cluster(node("n1"), node("n2"), gang("g").min(2), *(member(f"m{i}") for i in (1, 2)))
    cluster.judge = _in_turn({f"m{i}": [REFUSED] * 20 for i in (1, 2)})
    cluster.run()
    cluster.show(pod("weak").cpu(3).priority(1))
    cluster.run()
    assert held(cluster) == []
    assert node_of(cluster, "weak")


def test_room_of_who_was_refused_is_kept_from_a_gang_that_goes_on_in_the_same_moment() -> None:
    """The victim of an equal gang has left when the last answer comes: its further member does not get the room."""
    cluster = Cluster(
        *(node(f"n{i}") for i in (1, 2, 3)),
        *(member(f"m{i}") for i in (1, 2)),
        gang("g").min(2),
        pod("v").cpu(3).priority(1).on("n3"),
        gang("h").min(1),
        *(pod(f"h{i}").cpu(3).priority(5).gang("h") for i in (1, 2)),
    )
    cluster.slow = lambda write: isinstance(write, Bind)
    cluster.run()
    assert evicted(cluster) == {"v"}
    cluster.judge = lambda write: (Outcome.REFUSED, "no") if write.pod.name == "m2" else None
    cluster.answer("m1")
    cluster.run()
    cluster.leave()
    cluster.answer("m2")
    cluster.slow = lambda _: False
    cluster.run()
    assert node_of(cluster, "m1")
    assert (node_of(cluster, "h1"), node_of(cluster, "h2")) == ("n3", "")


def test_room_is_kept_no_longer_for_who_is_refused_again_and_again() -> None:
    """The time is over for all refusals of one pause, and weaker work gets the room."""
    cluster = Cluster(node("n1"), node("n2"), gang("g").min(2), *(member(f"m{i}").never() for i in (1, 2)))
    cluster.judge = _in_turn({"m2": [REFUSED] * 100})
    cluster.run()
    cluster.show(pod("weak").cpu(3).priority(1))
    cluster.pass_time(HOLD_SECONDS - 1)
    assert node_of(cluster, "weak") == ""
    cluster.pass_time(10)
    assert node_of(cluster, "weak")


def test_what_is_held_is_promised_by_the_queue_once() -> None:
    """The quota of the lost member waits for its successor; neither it nor the successor counts twice."""
    members = [queued(f"m{i}", "a", 2, priority=5).gang("g") for i in (1, 2)]
    cluster = Cluster(big(), *objects(queue("a", cpu=4)), gang("g").min(2), *members)
    cluster.run()
    cluster.show(queued("weak", "a", 1, priority=1))
    cluster.run()

    def used() -> int:
        cluster.core.world.managed.update_holdings()
        return sum(units for a in cluster.core.world.managed.quota.admissions.values() for _, units in a.usage)

    assert used() == 4000
    cluster.change("m2", deleting_since=cluster.now + 30)
    cluster.run()
    assert used() == 4000
    cluster.leave()
    cluster.run()
    assert (used(), node_of(cluster, "weak")) == (4000, "")
    cluster.show(queued("m2b", "a", 2, priority=5).gang("g"))
    cluster.run()
    assert node_of(cluster, "m2b")
    assert (used(), node_of(cluster, "weak")) == (4000, "")
    cluster.delete("m2b")
    cluster.pass_time(HOLD_SECONDS)
    assert node_of(cluster, "weak")
    assert used() == 3000
