"""Members packed tightly: a class at once, and one by one."""

from __future__ import annotations

import random

import pytest

from gangsched.core.identity import group_key
from gangsched.core.placement.arrangement import Arranger
from tests.builders import PodBuilder, gang, node, pod
from tests.core.harness import Built, world


def crowd(seed: int, *, port: bool) -> list[Built]:
    """Twelve nodes with some room left, and members of three sizes, sorted by size; their ports are all different."""
    chance = random.Random(seed)
    out: list[Built] = []
    for row in range(12):
        out.append(node(f"n{row}").cpu(8).memory(chance.randint(4, 16)))
        out.append(pod(f"v{row}").cpu(chance.randint(0, 6)).on(f"n{row}"))
    sizes = sorted(chance.choices((1, 2, 3), k=chance.randint(4, 36)), reverse=True)

    def member(number: int, size: int) -> PodBuilder:
        made = pod(f"m{number:02}").cpu(size).memory(chance.choice((1, 2)) if size == 2 else 1).gang("g").priority(9)
        return made.port(8000 + number) if port else made

    out += [member(number, size) for number, size in enumerate(sizes)]
    return [*out, gang("g").min(len(sizes))]


@pytest.mark.parametrize("port", [False, True], ids=["room alone", "ports too"])
def test_a_class_goes_where_its_members_would_go_one_by_one(port: bool) -> None:
    """Each on the node that it leaves fullest; and to none where one of them finds none."""
    packed = refused = 0
    for seed in range(60):
        core = world(*crowd(seed, port=port))
        gangs = [g for g in core.world.membership.members if g.name == "g"]
        context = core.decider.context(gangs, group_key(gangs), 0.0)
        pipeline, pending = context.placer.pipeline, context.wants[0].members
        at_once, one_by_one, before = (context.simulation() for _ in range(3))
        found = Arranger(pipeline, at_once, pending).tight(pending)
        expected: dict[str, int] | None = {}
        for one in pending:
            placed = Arranger(pipeline, one_by_one, pending).tight([one])
            expected = None if placed is None or expected is None else expected | placed
        assert found == expected, f"seed {seed}"
        if found is None:
            refused += 1
            assert (at_once.free == before.free).all()
        else:
            packed += 1
            assert (at_once.free == one_by_one.free).all()
    assert packed >= 10
    assert refused >= 5
