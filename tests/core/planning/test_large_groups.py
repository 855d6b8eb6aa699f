"""How much work a GangGroup of many gangs is, and that it comes to the same as looking at each gang by itself."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gangsched.core.events import Outcome
from gangsched.core.lifecycle.gangs import Gangs
from gangsched.core.state.census import Census
from gangsched.core.state.membership import Membership
from gangsched.model.records import GangId
from tests.builders import GangBuilder, NodeBuilder, PodBuilder, gang, node, pod
from tests.core.harness import Cluster

GANGS, MEMBERS = 30, 20


class Work:
    """Counts what is done: gangs looked at, and members counted."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.done: Counter[str] = Counter()
        refresh, count = Gangs.refresh, Membership._count

        def refreshing(known: Gangs, of: GangId) -> tuple[GangId, ...]:
            self.done["looks"] += 1
            return refresh(known, of)

        def counting(membership: Membership, of: GangId) -> Census:
            self.done["members"] += len(membership.members.get(of, ()))
            return count(membership, of)

        monkeypatch.setattr(Gangs, "refresh", refreshing)
        monkeypatch.setattr(Membership, "_count", counting)


def listing(names: Iterable[str]) -> str:
    """A GangGroup as the annotation spells it."""
    return json.dumps([f"d/{name}" for name in names])


def annotated() -> list[PodBuilder]:
    """A GangGroup that its members' annotations make."""
    names = [f"g{n:02}" for n in range(GANGS)]
    said = listing(names)
    return [pod(f"{g}-{n}").cpu(1).light_gang(g, MEMBERS, said) for g in names for n in range(MEMBERS)]


def with_objects() -> list[PodBuilder | GangBuilder]:
    """A GangGroup of group objects."""
    names = [f"g{n:02}" for n in range(GANGS)]
    objects = [gang(g).min(MEMBERS).group(*(f"d/{name}" for name in names)) for g in names]
    return [*objects, *(pod(f"{g}-{n}").cpu(1).gang(g) for g in names for n in range(MEMBERS))]


@pytest.mark.parametrize("made", [annotated(), with_objects()], ids=["annotations", "objects"])
def test_a_change_of_one_member_is_one_look(made: list[PodBuilder], monkeypatch: pytest.MonkeyPatch) -> None:
    """The whole GangGroup is looked at once, and only the gang of that member is counted again."""
    cluster = Cluster(node("n").cpu(10), *made)
    cluster.pass_time(1.0)
    work = Work(monkeypatch)
    cluster.change("g07-3", version="2")
    cluster.handle()
    assert work.done == {"looks": 1, "members": MEMBERS}


def test_a_listing_of_a_gang_group_is_one_look(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many of its members come at once."""
    work = Work(monkeypatch)
    Cluster(node("n").cpu(10), *annotated()).handle()
    assert work.done == {"looks": 1, "members": GANGS * MEMBERS}


names = st.sampled_from("abc")
#: What happens: a member comes or changes (with a GangGroup that may not agree), or goes, or there is more room.
happenings = st.lists(
    st.one_of(
        st.tuples(st.just("member"), names, st.integers(0, 3), st.sampled_from(["abc", "abc", "ab", ""])),
        st.tuples(st.just("gone"), names, st.integers(0, 3), st.just("")),
        st.tuples(st.just("room"), names, st.integers(1, 8), st.just("")),
        st.tuples(st.just("time"), names, st.integers(0, 40), st.just("")),
    ),
    max_size=40,
)


def play(steps: list[tuple[str, str, int, str]]) -> list[object]:
    """All actions of a small cluster in which this happens; every seventh write fails."""
    made: list[NodeBuilder | PodBuilder] = [node("n").cpu(2), pod("weak").cpu(1).priority(-1).on("n")]
    cluster = Cluster(*made)
    written = iter(range(10_000))
    cluster.judge = lambda _: (Outcome.TRANSIENT, "try again") if next(written) % 7 == 6 else None
    for number, (kind, name, n, group) in enumerate(steps):
        if kind == "member":
            said = listing(group) if group else ""
            cluster.show(pod(f"{name}-{n}").cpu(1).label(step=str(number)).light_gang(name, 2, said))
        elif kind == "gone" and ("d", f"{name}-{n}") in cluster.pods:
            cluster.delete(f"{name}-{n}")
        elif kind == "room":
            cluster.show(node("n").cpu(n))
        elif kind == "time":
            cluster.pass_time(float(n))
            cluster.leave()
    cluster.pass_time(100.0)
    return [*cluster.log, *map(msgspec.structs.astuple, cluster.decisions)]


refresh = Gangs.refresh


def one_by_one(known: Gangs, gang: GangId) -> tuple[GangId, ...]:
    """Look at each gang of a GangGroup, and again at those that were touched themselves."""
    for other in refresh(known, gang):
        refresh(known, other)
    return (gang,)


@settings(max_examples=60)
@given(happenings)
def test_together_is_as_one_by_one(steps: list[tuple[str, str, int, str]]) -> None:
    """That gangs of a GangGroup are looked at together changes no action."""
    together = play(steps)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Gangs, "refresh", one_by_one)
        assert play(steps) == together
