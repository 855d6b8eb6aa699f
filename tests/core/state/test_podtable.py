"""The pod table: what is remembered of a gang ends with the first change of its pods, and numbers are used again."""

from __future__ import annotations

from gangsched.core.state.podtable import TERMINATING, PodTable
from tests.builders import gang, node, pod
from tests.core.harness import Built, event, world
from tests.core.preemption.units import found, told, units_of


def test_numbers_of_gangs_are_used_again() -> None:
    """A table through which gangs come and go does not grow: numbers of those that are gone go to others."""
    table = PodTable()
    for n in range(1000):
        made = pod(f"p{n}").gang(f"g{n}").obj()
        table.add(made, 0, 0, 0)
        assert table.gang_ids[table.gang_number(made.gang)] == made.gang
        table.remove(made.uid)
        assert table.gang_number(made.gang) == -1
    assert len(table.gang_ids) == 1


def test_a_gang_keeps_its_number_while_it_has_pods() -> None:
    """The number is that of all its pods, and does not change when one of them leaves or changes."""
    table = PodTable()
    first, second = (pod(name).gang("g").obj() for name in ("a", "b"))
    slots = [table.add(p, 0, 0, 0) for p in (first, second)]
    number = table.gang_number(first.gang)
    table.replace(slots[0], first, TERMINATING)
    table.remove(second.uid)
    assert table.gang_number(first.gang) == number == table.gang[slots[0]]


def test_pods_without_a_group_are_told_from_gangs() -> None:
    """Also when the number belonged to the other kind before."""
    table = PodTable()
    alone, member = pod("a").obj(), pod("b").gang("g").obj()
    for made, expected in ((alone, True), (member, False), (alone, True)):
        slot = table.add(made, 0, 0, 0)
        assert bool(table.alone[table.gang[slot]]) is expected
        table.remove(made.uid)


def test_what_is_known_of_a_gang_ends_with_a_change() -> None:
    """Of its own pods: others may come and go."""
    table = PodTable()
    first, second, other = pod("a").gang("g").obj(), pod("b").gang("g").obj(), pod("o").gang("h").obj()
    slot = table.add(first, 0, 0, 0)
    number = table.gang_number(first.gang)

    def remembered() -> bool:
        return table.known.pop(number, None) is not None

    def change_others() -> None:
        table.add(other, 0, 0, 0)
        table.remove(other.uid)

    for change, kept in (
        (change_others, True),
        (lambda: table.add(second, 0, 0, 0), False),
        (lambda: table.replace(slot, first, TERMINATING), False),
        (lambda: table.remove(second.uid), False),
    ):
        table.known[number] = "something"
        change()
        assert remembered() is kept


def test_units_follow_what_happens_to_a_gang() -> None:
    """Units made again after each event are those of a scheduler that starts from the state as it is then."""
    three = [pod(f"g{i}").gang("g").on(f"n{i}") for i in (1, 2, 3)]
    nodes = [node(f"n{i}") for i in (1, 2, 3)]
    state: list[Built] = [*nodes, *three, gang("g").min(2)]
    core = world(*state)
    changes: list[Built] = [
        gang("g").min(3),
        gang("g").min(1),
        gang("g").min(1).priority(50),
        gang("g").min(2),
        pod("g2").gang("g").on("n2").priority(20),
        pod("g2").gang("g").on("n2"),
        pod("g4").gang("g").on("n1"),
        pod("g3").gang("g").on("n3").terminating(),
        node("n1").not_ready(),
        node("n1"),
        pod("g1").gang("g").on("n1").phase("Succeeded"),
    ]
    for change in changes:
        units_of(core)  # so that something is known
        core.handle([event(change)], 0.0)
        state.append(change)
        assert told(units_of(core)) == told(found(*state)), change
