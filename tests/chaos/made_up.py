"""Histories that are made up: what the scheduler and users do, one thing after another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from gangsched.cluster.sim import World
from gangsched.cluster.sim import history as log
from gangsched.cluster.sim.arrival import arrivals
from gangsched.cluster.sim.history import Cause
from gangsched.cluster.sim.writes import reference
from gangsched.core.actions import Action, PodRef
from gangsched.core.decision import Decision
from gangsched.core.events import Event, Gone, Outcome
from tests.chaos.play import Played
from tests.chaos.scenario import scenario
from tests.chaos.told import Batch
from tests.cluster.sim.objects import outcomes
from tests.core.harness import Built, event


def played(*objects: Built, **options: Any) -> Played:
    """A world with these objects, in which nothing has happened yet."""
    made = scenario(0, parts=())
    made.options = msgspec.structs.replace(made.options, **options)
    return Played(made, World(arrivals(map(event, objects))), [], 1)


def bound(run: Played, name: str, outcome: Outcome = log.OK, to: str = "n1") -> None:
    """The scheduler binds a pod, now, or is told that it cannot."""
    cause = Cause(log.SCHEDULER, log.BIND, {"node": to})
    found = run.world.store.pods["d", name]
    if outcome == log.OK:
        run.world.store.put_pod(msgspec.structs.replace(found, node=to), cause)
    else:
        run.world.history.add(cause, "Pod", found.key, uid=found.uid, outcome=outcome, changed=False)


def about(run: Played, name: str) -> PodRef:
    """The pod of this name, as writes mean it."""
    return reference(run.world.store.pods["d", name])


def does(run: Played, *actions: Action) -> None:
    """The scheduler writes this, and it succeeds."""
    assert set(outcomes(run.world, *actions)) == {log.OK}


def told(
    run: Played,
    *objects: Built | Event,
    asks: Sequence[Action] = (),
    decides: Sequence[Decision] = (),
    process: int = 1,
) -> None:
    """This process is told of these objects, now, decides this, and asks for these actions: nothing comes of them."""
    events = [each if isinstance(each, Event) else event(each) for each in objects]
    run.batches.append(Batch(process, run.world.clock.elapsed_seconds, events, list(asks), list(decides)))


def deleted(run: Played, name: str) -> None:
    """A user deletes this pod."""
    run.world.store.apply(Gone("Pod", "d", name, about(run, name).uid), Cause(log.USER, log.GONE))
