"""The promise of docs/design.md, sentence by sentence, and what judges each in a finished life.

What the page does not promise is counted (:mod:`tests.chaos.counted`), not judged.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from gangsched.cluster.sim.history import History
from tests.chaos import endings
from tests.chaos.given_devices import Devices
from tests.chaos.play import RACE_SECONDS, Played
from tests.chaos.removals import Allowed, Charged
from tests.chaos.rooms import Room, Whole
from tests.chaos.told import Life, judged
from tests.judge import disrupted, invariants

#: The page of the promise, and that about whom a gang may evict.
DESIGN, PREEMPTION, QUOTA = "docs/design.md", "docs/reference/preemption.md", "docs/reference/quota.md"


class Sentence(NamedTuple):
    """A sentence of a page, and what has broken it: ``check`` returns sentences that say which gang, and when."""

    page: str
    text: str
    check: Callable[[Played], list[str]]


def _in_history(check: Callable[[History], list[str]]) -> Callable[[Played], list[str]]:
    return lambda played: check(played.world.history)


def _by_knowledge(kind: type[Life]) -> Callable[[Played], list[str]]:
    return lambda played: judged(played.batches, kind, played.processes)


def charged(played: Played) -> list[str]:
    """What plans take together."""

    class Here(Charged):
        options = played.scenario.options

    return judged(played.batches, Here, played.processes)


PROMISE = (
    Sentence(DESIGN, "A pod is condemned by one plan.", _in_history(invariants.shared_victims)),
    Sentence(DESIGN, "For later decisions they are gone", charged),
    Sentence(DESIGN, "so no two wait for each other.", endings.asleep),
    Sentence(
        DESIGN,
        "The API server acknowledges each step for all pods before the next step begins.",
        _in_history(invariants.phases_out_of_order),
    ),
    Sentence(DESIGN, "no pod is removed that was not marked", _in_history(invariants.unmarked_removals)),
    Sentence(DESIGN, "A pod that is neither needed nor removed loses its mark.", endings.left_marked),
    Sentence(DESIGN, "nominations hold room", endings.left_held),
    Sentence(
        DESIGN,
        "A gang below its minimum because a member was removed for a plan",
        lambda played: disrupted.broken_gangs(played.world.history, played.scenario.options),
    ),
    Sentence(DESIGN, "no gang is bound in part because of a plan", _by_knowledge(Whole)),
    Sentence(DESIGN, "no node is given out twice", _by_knowledge(Room)),
    Sentence(DESIGN, "all volumes are ready", _in_history(invariants.bound_before_volumes)),
    Sentence(DESIGN, "no device is given out twice", _by_knowledge(Devices)),
    Sentence(DESIGN, "a member that is not bound gives its devices back", endings.left_claims),
    Sentence(DESIGN, "an eviction that did not help is not repeated at once", endings.repeated_at_once),
    Sentence(PREEMPTION, "of strictly lower priority than the gang", _by_knowledge(Allowed)),
    Sentence(
        PREEMPTION,
        "A process that takes over reads the time off the pods and keeps it.",
        lambda played: invariants.left_too_early(played.world.history, played.world.clock.start),
    ),
    Sentence(
        QUOTA,
        "A queue is drained as carefully as a gang preempts",
        lambda played: disrupted.drained_while_open(played.world.history, RACE_SECONDS),
    ),
)


def problems(played: Played) -> list[str]:
    """The sentences that a finished life has broken, each with by which gang and when."""
    return [f"{sentence.text}: {text}" for sentence in PROMISE for text in sentence.check(played)]
