"""What the members of a gang without a group object say about it, and how much work it is to know."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gangsched.core.state import membership
from gangsched.core.state.membership import Membership
from gangsched.model.dialects import gang_from_member, needs_object
from gangsched.model.records import Gang, Pod
from tests.builders import OURS, gang, pod
from tests.core.harness import Cluster

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
    found = Membership([OURS])
    ident = member(0, 0, 1, asks=False).gang
    for number, age, minimum, asks, stays in steps:
        made = member(number, age, minimum, asks)
        old = members.pop(made.uid, None)
        if stays:
            members[made.uid] = made
            found.set_pod(made)
        elif old is not None:
            found.drop_pod(old)
        assert found.spec(ident) == by_sorting(members)
        assert [p.name for p in found.pods(ident)] == sorted(p.name for p in members.values())


@pytest.mark.parametrize("oldest_first", [True, False])
def test_a_listing_reads_what_few_members_say(monkeypatch: pytest.MonkeyPatch, oldest_first: bool) -> None:
    """Of 500 members that are listed at once the oldest is read, and none again while nobody says anything new."""
    read: list[str] = []

    def reads(of: Pod) -> Gang | None:
        read.append(of.name)
        return gang_from_member(of)

    monkeypatch.setattr(membership, "gang_from_member", reads)
    listed = [pod(f"m-{n:03}").created(float(n)).light_gang("g", 501) for n in range(500)]
    cluster = Cluster(*(listed if oldest_first else reversed(listed)))
    cluster.handle()
    assert read == ["m-000"]
    cluster.change("m-007", version="2")
    cluster.handle()
    assert read == ["m-000"]
    cluster.change("m-007", created=1.5)
    cluster.handle()
    assert read == ["m-000"] * 2


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
