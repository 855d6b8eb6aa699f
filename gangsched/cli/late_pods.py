"""Pods that should have stopped and have not: since when, what keeps them, and what ends it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gangsched.cli.answers import age_of
from gangsched.cli.decisions import State
from gangsched.core.state.lingering import cause, cure
from gangsched.messages import lingering
from gangsched.model.records import Pod
from gangsched.model.times import clock_time


def is_late(state: State, pod: Pod) -> bool:
    """Return whether a pod terminates beyond its grace period."""
    return pod.deleting_since is not None and pod.deleting_since < state.now


def lateness(state: State, pod: Pod) -> str:
    """Return since when the pod should have stopped, and what keeps it."""
    since = pod.deleting_since or state.now
    why = cause(pod, state.world.snapshot.node(pod.node))
    time, ago = clock_time(since, state.now), age_of(state.now - since)
    return lingering.SHOULD_HAVE_STOPPED(time=time, ago=ago, cause=why)


def lingering_pod(state: State, pod: Pod) -> str:
    """Return the same for a gang that waits for it, and until when it does."""
    since = pod.deleting_since or state.now
    why = cause(pod, state.world.snapshot.node(pod.node))
    time, ago = clock_time(since, state.now), age_of(state.now - since)
    text = lingering.OVERDUE(pod=pod.key, node=pod.node, time=time, ago=ago, cause=why)
    until = since + state.options.overdue_after_seconds
    waits = lingering.GIVES_UP(time=clock_time(until, state.now)) if until > state.now else lingering.NOT_WAITED_FOR
    return f"{text}{waits}"


def cures(state: State, pods: Iterable[Pod]) -> Iterator[str]:
    """Yield who has to act on those of these pods that are late."""
    for pod in sorted(pods, key=lambda pod: pod.key):
        if is_late(state, pod):
            yield cure(pod, state.world.snapshot.node(pod.node))
