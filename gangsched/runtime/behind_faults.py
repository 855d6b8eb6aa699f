"""The object behind decisions that fail, if it is not one of the gang that is decided.

A pod that runs may make every decision fail in which it could be a victim, or which counts it. Then the gangs that are
decided are not to blame. An object is to blame if the decision does not fail without it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence

from gangsched.core.events import Event, Synced
from gangsched.core.keys import key_of
from gangsched.core.planning.contained import Fault
from gangsched.core.scheduler import Scheduler
from gangsched.runtime.culprits import Suspect, in_frames, objects_of
from gangsched.runtime.known import Known

#: So many suspects of the frames are tried. Where more objects are known than that, events are not replayed in halves.
_MOST_TRIALS, _MOST_REPLAYED = 3, 5000
#: So many objects are to blame together at most, each with its gang: an error over a label is one over all with it.
_MOST_TOGETHER = 4


def behind(
    fault: Fault, core: Scheduler, known: Known, events: Sequence[Event], make: Callable[[], Scheduler], now: float
) -> Suspect:
    """Return the objects without which the decision that has failed does not fail; none if there are no such.

    ``events`` are all that the ``core`` was shown; ``make`` makes another one.
    """
    own = set(objects_of(fault.gangs, core.world))

    def fails(shown: Iterable[Event]) -> bool:
        trial = make()
        try:
            trial.handle([*shown, Synced()], now)
            trial.would_decide(fault.gangs)
        except Exception:  # noqa: BLE001 - it is found out whether there is one
            return True
        return bool(trial.drain_faults())

    def is_behind(suspect: Suspect) -> bool:
        return not fails(event for event in events if key_of(event) not in suspect)

    if fault.cause is None or not fails(events):
        return ()
    frames = (_with_gang(each, core, known) for each in in_frames(fault.cause, core.world, known))
    found = [suspect for suspect in frames if own.isdisjoint(suspect)]
    for suspect in list(dict.fromkeys(found))[:_MOST_TRIALS]:
        if is_behind(suspect):
            return suspect
    if len(events) > _MOST_REPLAYED:
        return ()
    suspect = ()
    for _ in range(_MOST_TOGETHER):
        left = (event for event in events if key_of(event) not in suspect)
        more = _with_gang(_replayed(sorted(left, key=lambda event: key_of(event) not in own), fails), core, known)
        if not more or not own.isdisjoint(more):
            return ()
        suspect = (*suspect, *more)
        if is_behind(suspect):
            return suspect
    return ()


def _with_gang(suspect: Suspect, core: Scheduler, known: Known) -> Suspect:
    """The objects and, of a pod, all of its gang: what is wrong with one member is wrong with the others as a rule."""
    pods = (core.world.pods.get(getattr(key, "uid", "")) for key in suspect)
    more = (key for pod in pods if pod is not None for key in objects_of([pod.gang], core.world))
    return tuple(dict.fromkeys([*suspect, *(key for key in more if known.get(key) is not None)]))


def _replayed(events: Sequence[Event], fails: Callable[[Sequence[Event]], bool]) -> Suspect:
    """The object of the first event with which the decision fails."""
    passes_with, fails_with = 0, len(events)
    while fails_with - passes_with > 1:
        middle = (passes_with + fails_with) // 2
        if fails(events[:middle]):
            fails_with = middle
        else:
            passes_with = middle
    key: Hashable = key_of(events[fails_with - 1])
    return (key,) if key is not None else ()
