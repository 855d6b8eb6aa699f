"""Changes of pods: the parts of a new record that count, and their possible effect on gangs that do not fit."""

from __future__ import annotations

from collections.abc import Collection, Iterator

import msgspec

from gangsched.core.events import Change, Hint, Reading
from gangsched.core.options import Options
from gangsched.core.state.ownership import same
from gangsched.core.world.world import World
from gangsched.model.preemptible import DAEMON_SET, MARKS, as_of, claims_daemon_set, marked
from gangsched.model.records import SINGLE, Pod


def as_known(world: World, options: Options, pod: Pod) -> Pod:
    """The pod in its gang, without what it claims and does not count."""
    pod = as_of(world.owner_gangs.placed(pod), world.now, _ignored(world, options, pod))
    return msgspec.structs.replace(pod, static=False) if pod.static and not _mirrors(world, pod) else pod


def _ignored(world: World, options: Options, pod: Pod) -> Collection[str]:
    """Return the keys that do not protect this pod: those of the settings, and the marks of vendors whose API is not
    served, except in namespaces where they count.
    """
    readings = world.ownership.readings
    if not readings or pod.namespace in options.mark_namespaces or not marked(pod):
        return options.ignore_keys
    absent = [key for key, kind in MARKS.items() if not kind or readings.get(kind) is Reading.ABSENT]
    if claims_daemon_set(pod) and world.ownership.absent(pod.owner, pod.namespace):
        absent.append(DAEMON_SET)
    return {*options.ignore_keys, *absent}


def _mirrors(world: World, pod: Pod) -> bool:
    """Return whether a pod that says that it is static is owned by the node on which it is, as far as is known."""
    node = world.snapshot.node(pod.node)
    return node is None or pod.owner is None or (pod.owner.name == node.name and same(pod.owner, node.uid))


def changes(world: World, options: Options, old: Pod | None, pod: Pod, assumed_on: str) -> Iterator[Change]:
    """Yield the possible effects of a pod's new record on gangs that do not fit. We were binding it
    to ``assumed_on``.
    """
    if old is not None and old.bound and not pod.bound:
        yield Change(Hint.ROOM, old.node, pod, old)
    elif assumed_on and (pod.finished or pod.node not in ("", assumed_on)):
        yield Change(Hint.ROOM, assumed_on, pod)
    if not pod.bound:
        return
    there = _was_there(old, pod, assumed_on)
    if not there:
        # Where one has come, none has become free; but its gang may now have members to spare.
        yield Change(Hint.PODS if pod.gang.family == SINGLE else Hint.PODS | Hint.VICTIMS, pod.node, pod)
    if old is None:
        return
    if pod.deleting_since is not None and old.deleting_since is None:
        yield Change(Hint.ROOM, pod.node, pod)
    if not there:
        return
    if pod.labels != old.labels:
        yield Change(Hint.PODS, pod.node, pod, old)
    if pod.shape is not old.shape:
        yield Change(Hint.ROOM, pod.node, pod, old)
    if _as_victim(old) != _as_victim(pod) or (_run_time(old) != _run_time(pod) and _timed(world, options)):
        yield Change(Hint.VICTIMS, pod.node, pod, old)
    if old.ready and not pod.ready and any(space == pod.namespace for space, _ in world.budgets):
        yield Change(Hint.BUDGET, pod.node, pod, old)


def fuller(old: Pod | None, pod: Pod, assumed_on: str) -> bool:
    """Return whether a bound pod takes room on its node that it did not take there before."""
    return pod.bound and (not _was_there(old, pod, assumed_on) or (old is not None and pod.shape is not old.shape))


def _was_there(old: Pod | None, pod: Pod, assumed_on: str) -> bool:
    return (old is not None and old.bound) or bool(assumed_on and assumed_on == pod.node)


def _timed(world: World, options: Options) -> bool:
    """Return True if any pod has to run for some time before it may be evicted."""
    classes = world.classes.values()
    return bool(options.minimum_run_time_seconds) or any(
        c.minimum_run_time_seconds or c.toleration_seconds for c in classes
    )


def _as_victim(pod: Pod) -> tuple[object, ...]:
    """Return the facts that decide if a bound pod may be evicted, except its gang and its run time."""
    stakes = pod.stakes
    never = pod.kept or stakes.never, pod.static, pod.unheeded
    return pod.node, pod.priority, pod.priority_class, pod.labels, pod.hints, pod.owner, never, stakes.boost


def _run_time(pod: Pod) -> tuple[object, ...]:
    """Return the facts that tell how long a bound pod has run."""
    return pod.phase, pod.started, pod.scheduled_condition
