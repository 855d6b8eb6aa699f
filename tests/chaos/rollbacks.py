"""``binding.onFailure: rollback``: gangs whose Jobs make lost members again, and members that no node takes."""

from __future__ import annotations

import random

import msgspec

from gangsched.core.events import Changed, Event
from gangsched.model.constraints import PodShape
from gangsched.model.records import Gang, Job, Owner
from tests import generators
from tests.builders import IGNORED
from tests.chaos.refusals import refuse_members
from tests.chaos.trouble import Part, Trouble, at_random, dies_in_the_middle, new_pod, small_shapes, some_of


def part(seed: int, events: list[Event]) -> Part:
    """One or two gangs of Jobs, which have made their pods at the start, and refusals that begin then, too."""
    chance = random.Random(f"{seed}/rollback")
    shapes = small_shapes(events)
    made = [event for number in range(chance.randint(1, 2)) for event in _gang(f"team-{number}", chance, shapes)]
    first = Trouble(0.0, refuse_members.__name__, at_random(refuse_members, f"{seed}/rollback refusal"))
    later = some_of((refuse_members,), f"{seed}/rollback trouble", most=1)
    crashes = dies_in_the_middle(f"{seed}/rolled back") if chance.random() < 0.5 else []
    return Part([*events, *made], [first, *later], crashes, {"rollback": True})


def _gang(name: str, chance: random.Random, shapes: list[PodShape]) -> list[Event]:
    """A gang of the pods of a Job, sometimes of one more that has no controller, and a group object."""
    namespace, size, uid = generators.NAMESPACE, chance.randint(2, 4), f"uid-{name}"
    hints = {"sim.gangsched.dev/run-for": f"{chance.randint(40, 200)}s"} if chance.random() < 0.5 else {}
    template = new_pod(
        name,
        chance.choice(shapes),
        name,
        uid="",
        hints=hints,
        priority=chance.choice((500, 2500, 4500)),
        owner=Owner("Job", name, uid),
        grace_seconds=float(chance.choice((0, 1, 10))),
    )
    job = Job(
        namespace,
        name,
        uid,
        parallelism=size,
        completions=size,
        backoff_limit=chance.choice((0, 6, 6)),
        failure_rules=IGNORED if chance.random() < 0.5 else (),
        template=template,
    )
    group = Gang(
        generators.FAMILY,
        namespace,
        name,
        uid=f"gang-{name}",
        min_member=chance.randint(max(2, size - 1), size),
    )
    members = [msgspec.structs.replace(template, name=f"{name}-{n}", uid=f"uid-{name}-{n}") for n in range(size)]
    if chance.random() < 0.2:
        members.append(msgspec.structs.replace(template, name=f"{name}-alone", uid=f"uid-{name}-alone", owner=None))
        group = msgspec.structs.replace(group, min_member=size + 1)
    return [Changed(job), Changed(group), *map(Changed, members)]
