"""What the members of a gang without a group object say about it, and how much work it is to know."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gangsched.core.state import member_annotations as speakers
from gangsched.core.state.member_annotations import Speakers
from gangsched.core.state.membership import Membership
from gangsched.model.dialects import gang_from_member, needs_object
from gangsched.model.records import Gang, Pod
from tests.builders import OURS, gang, pod

#: A member by number, its age, what it says (0: nothing), whether it asks for a group object, and whether it stays.
changes = st.lists(
    st.tuples(
        st.integers(0, 9), st.integers(0, 2), st.integers(0, 3), st.integers(0, 9).map(lambda n: n == 0), st.booleans()
    ),
    max_size=60,
)


def member(number: int, age: int, minimum: int, asks: bool) -> Pod:
    """A member of gang ``g``."""
    made = pod(f"m-{number}").created(float(age))
    return made.gang("g").obj() if asks else made.light_gang("g", minimum or None).obj()


def by_sorting(members: dict[str, Pod]) -> Gang | None:
    """The definition."""
    if any(map(needs_object, members.values())):
        return None
    oldest_first = sorted(members.values(), key=lambda p: (p.created, p.name, p.uid))
    return next((said for p in oldest_first if (said := gang_from_member(p)) is not None), None)


@given(changes)
def test_the_oldest_that_says_something_speaks(steps: list[tuple[int, int, int, bool, bool]]) -> None:
    """Whoever comes, changes or goes, it is what sorting all of them would give."""
    members: dict[str, Pod] = {}
    found = Speakers(members)
    for number, age, minimum, asks, stays in steps:
        made = member(number, age, minimum, asks)
        old = members.pop(made.uid, None)
        if stays:
            members[made.uid] = made
            found.put(old, made)
        elif old is not None:
            found.drop(old)
        assert found.said() == by_sorting(members)


@pytest.mark.parametrize("oldest_first", [True, False])
def test_a_listing_reads_what_few_members_say(monkeypatch: pytest.MonkeyPatch, oldest_first: bool) -> None:
    """Of 2,000 members that are listed and deleted one by one, each is read once at most, asked for after each."""
    read: list[str] = []

    def reads(of: Pod) -> Gang | None:
        read.append(of.name)
        return gang_from_member(of)

    monkeypatch.setattr(speakers, "gang_from_member", reads)
    found = Membership([OURS])
    listed = [pod(f"m-{n:04}").created(float(n)).light_gang("g", 2000).obj() for n in range(2000)]
    ident = listed[0].gang
    for each in listed if oldest_first else reversed(listed):
        found.set_pod(each)
        assert found.spec(ident) is not None
    small = 16  # below that all are looked at again
    assert len(read) <= 2000 + small
    read.clear()
    for each in listed if oldest_first else reversed(listed):
        found.drop_pod(each)
        found.spec(ident)
    assert len(read) <= 2000 + small


def test_nothing_is_remembered_of_members_that_are_gone() -> None:
    """A gang whose members come and go while the oldest stays keeps no more entries than some for each member."""
    members = {p.uid: p for p in (member(n, 0, 2, asks=False) for n in range(3))}
    found = Speakers(members)
    for number in range(10, 1000):
        made = member(number, 1, 2, asks=False)
        members[made.uid] = made
        found.put(None, made)
        del members[made.uid]
        found.drop(made)
        assert found.said() == by_sorting(members)
    assert len(found._by_age) <= 2 * len(members) + speakers._SPARE + 1


def test_a_group_object_speaks_before_them() -> None:
    """Members are asked again when their group object is gone."""
    found = Membership([OURS])
    listed = [pod(f"m-{n:02}").light_gang("g", 20).obj() for n in range(20)]
    for each in listed:
        found.set_pod(each)
    ident = listed[0].gang
    found.set_object(gang("g").min(3).obj())
    for each in listed[:5]:
        found.drop_pod(each)
    spec = found.spec(ident)
    assert spec is not None
    assert spec.min_member == 3
    found.drop_object(ident.family, "d", "g")
    spec = found.spec(ident)
    assert spec is not None
    assert spec.min_member == 20
