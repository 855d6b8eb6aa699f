"""What the judge excuses, and no more than that."""

from __future__ import annotations

import msgspec

from gangsched.cluster.sim import World
from gangsched.cluster.sim import history as log
from gangsched.cluster.sim.arrival import arrivals
from gangsched.cluster.sim.history import Cause
from gangsched.core.actions import Bind, Mark, PodRef
from gangsched.core.events import GangChanged, NodeChanged, PodChanged
from tests import generators
from tests.builders import GangBuilder, PodBuilder, gang, node, pod
from tests.chaos.checks import asleep, partial_gangs
from tests.chaos.play import Played
from tests.chaos.refusals import REFUSED, Rule
from tests.chaos.scenario import scenario


def played(*objects: GangBuilder | PodBuilder) -> Played:
    """A world with these objects, in which nothing has happened yet."""
    events = [PodChanged(o.obj()) if isinstance(o, PodBuilder) else GangChanged(o.obj()) for o in objects]
    return Played(scenario(0), World(arrivals(events)), [], 1)


def bound(run: Played, name: str, outcome: str = log.OK) -> None:
    """The scheduler binds a pod, now, or is told that it cannot."""
    cause = Cause(log.SCHEDULER, log.BIND, {"node": "n1"})
    found = run.world.store.pods["d", name]
    if outcome == log.OK:
        run.world.store.put_pod(msgspec.structs.replace(found, node="n1"), cause)
    else:
        run.world.history.add(cause, "Pod", found.key, uid=found.uid, outcome=outcome, changed=False)


def half_bound(*others: PodBuilder) -> Played:
    """One of the two members that gang g needs is bound, and a minute has passed since."""
    run = played(gang("g").min(2), *(pod(f"m{i}").priority(5).gang("g") for i in (1, 2)), *others)
    bound(run, "m1")
    run.world.clock.advance_to(60.0)
    return run


def test_a_gang_that_stays_bound_in_part_is_found() -> None:
    """It has had time enough, and nobody is in its way."""
    assert partial_gangs(half_bound()) == ["d/g: 1 bound of at least 2"]


def test_a_gang_that_has_only_just_begun_is_on_its_way() -> None:
    """The run has ended while a binding was to be repeated."""
    run = played(gang("g").min(2), *(pod(f"m{i}").gang("g") for i in (1, 2)))
    run.world.clock.advance_to(60.0)
    bound(run, "m1")
    assert partial_gangs(run) == []


def test_room_on_a_node_that_refuses_a_member_is_not_kept_from_its_equals() -> None:
    """What is lost to weaker pods can be had again, and what a gang gives to its own members it has not lost."""
    for priority, found in ((5, 0), (4, 1)):
        run = half_bound(pod("other").priority(priority))
        bound(run, "m2", REFUSED)
        assert len(partial_gangs(run)) == 1
        bound(run, "other")
        assert len(partial_gangs(run)) == found


def test_nobody_is_asleep_over_what_has_only_just_happened() -> None:
    """The cluster lives on for a little after the scheduler has stopped; what it has known for long is no excuse."""
    for seconds, found in ((0.1, []), (60.0, ["d/p could bind"])):
        run = played(pod("p").scheduler(generators.SCHEDULER).cpu(1))
        run.world.clock.advance_to(100.0)
        run.world.apply(NodeChanged(node("n1").obj()), Cause(log.USER, log.CREATE))
        run.world.clock.advance_to(100.0 + seconds)
        assert asleep(run) == found


def test_a_refused_pair_stays_refused() -> None:
    """While the rule stands: about a third of the pairs, always the same; and nothing that it is not about."""
    rule = Rule("seed", (Bind,), 0.3)
    pairs = [Bind(i, PodRef("d", f"p{i}", f"uid-{i}"), f"n{j}") for i in range(20) for j in range(10)]
    first = [rule.refuses(pair) for pair in pairs]
    assert 30 < sum(first) < 90
    assert [rule.refuses(pair) for pair in pairs] == first
    assert not any(rule.refuses(Mark(i, PodRef("d", f"p{i}", f"uid-{i}"), "text")) for i in range(20))
