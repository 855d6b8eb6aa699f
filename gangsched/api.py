"""Ask the scheduler from Python: what would be decided, why, and what would become of it.

    from gangsched import explain, load, plan, simulate

    cluster = load("cluster.json", "my-job.yaml")
    for decision in plan(cluster).decisions:
        print(decision.gang, decision.outcome, [victim.pod for victim in decision.victims])

Nothing is changed anywhere. The results have the fields of the JSON of the commands of the same names, in snake_case,
and change as that does: fields come with a minor version, and go or change their meaning with a major one only.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from gangsched.core.options import Options

if TYPE_CHECKING:
    from gangsched.cluster.manifests import Loaded
    from gangsched.model.errors import Problem


class _Result(msgspec.Struct, frozen=True, rename="camel"):
    pass


class Unit(_Result, frozen=True):
    """What leaves together: a pod, a group, a Job; ``name`` is ``namespace/name``."""

    kind: str
    name: str


class Victim(_Result, frozen=True):
    """A pod (``namespace/name``) that would be evicted from ``node``, by which ``method`` and rule (``reason``);
    ``why`` in a sentence.

    ``partial``: other members of its gang stay. ``pdb_violation``: it is beyond a disruption budget.
    """

    pod: str
    node: str
    unit: Unit
    partial: bool
    priority: int
    pdb_violation: bool
    method: str
    reason: str
    why: str


class Unplaced(_Result, frozen=True):
    """A member without a place, and why."""

    pod: str
    reasons: list[str]


class Awaited(_Result, frozen=True):
    """A pod that leaves anyway and whose room is needed; ``plan`` is the gang for which it does, if it is for one."""

    pod: str
    node: str
    plan: str | None


class Spared(_Result, frozen=True):
    """What might have been evicted and is not."""

    unit: Unit
    reason: str


class Reason(_Result, frozen=True):
    """What is wrong, and with how many nodes."""

    text: str
    nodes: int


class Quota(_Result, frozen=True):
    """Flavor by resource, and what is borrowed, as quantities."""

    cluster_queue: str
    flavors: dict[str, str]
    borrowed: dict[str, str]


class Gap(_Result, frozen=True):
    """How far the victims are from the least harmful choice: at most so many more of ``component``."""

    component: str
    priority: int
    at_most: int


class Decision(_Result, frozen=True):
    """What would be done for one pending gang; ``outcome`` is bind, wait, preempt, unschedulable or gathering.

    ``placements`` are nodes by pod, ``required`` the members that have to start together. ``optimal``: no less harmful
    choice of victims exists; None where that is not asked.
    """

    gang: str
    kind: str
    gang_group: str | None
    priority: int
    required: int
    outcome: str
    placements: dict[str, str]
    unplaced: list[Unplaced]
    awaiting: list[Awaited]
    victims: list[Victim]
    spared: list[Spared]
    blockers: list[str]
    warnings: list[str]
    reasons: list[Reason]
    message: str
    topology_domain: str | None
    quota: Quota | None
    search_stopped: bool
    optimal: bool | None
    gap: Gap | None
    plan_milliseconds: float


class Plan(_Result, frozen=True):
    """A decision for each pending gang in the order of the queue, each on what the earlier ones leave."""

    decisions: list[Decision]


class Section(_Result, frozen=True):
    """Sentences about one question, such as ``because`` or ``would help``."""

    label: str
    lines: list[str]


class Explanation(_Result, frozen=True):
    """How a gang or pod stands (``state``, ``sentence``), and why; ``decisions`` are those that concern it."""

    title: str
    state: str
    sentence: str
    sections: list[Section]
    decisions: list[Decision] = []


class PodRun(_Result, frozen=True):
    """What became of a pod; times are seconds from the start, None for what did not happen."""

    phase: str
    node: str | None
    nominated_node: str | None
    terminating: bool
    gang: str | None
    priority: int
    arrived_at: float
    bound_at: float | None
    started_at: float | None
    ended_at: float | None
    preempted_by: str | None
    message: str | None
    drained_by: str | None = None


class Simulation(_Result, frozen=True):
    """A finished run: pods by ``namespace/name``; events and summary as in the JSON of ``gangsched simulate``."""

    events: list[dict[str, Any]]
    pods: dict[str, PodRun]
    summary: dict[str, Any]


class Cluster:
    """Objects that were read, with the options that they are decided with. Made by :func:`load`."""

    def __init__(self, loaded: Loaded, options: Options) -> None:
        self.loaded = loaded
        self.options = options

    @property
    def warnings(self) -> list[Problem]:
        """What was not understood, or not as its author may think."""
        return self.loaded.warnings


def load(
    *sources: str | os.PathLike[str],
    scheduler_names: Sequence[str] = (),
    config: str | os.PathLike[str] | None = None,
    skip_invalid: bool = False,
) -> Cluster:
    """Read manifests, or what ``gangsched snapshot`` has written: files and folders, YAML or JSON.

    ``scheduler_names`` are those to decide for, by default the configured ones; ``config`` is a configuration file.

    Raises :class:`~gangsched.model.errors.UserError` (a ValueError) for what cannot be understood.
    """
    from gangsched.cluster.manifests import load as read  # noqa: PLC0415 - `import gangsched` stays quick

    options = Options()
    if config is not None:
        from gangsched.runtime.config import load as configured  # noqa: PLC0415 - as above

        options = configured(Path(config)).core_options()
    if scheduler_names:
        options = msgspec.structs.replace(options, scheduler_names=tuple(scheduler_names))
    return Cluster(read([str(source) for source in sources], skip_invalid=skip_invalid), options)


def plan(cluster: Cluster, *, now: float | None = None) -> Plan:
    """What would be decided at ``now`` (seconds since the epoch; by default the newest time in the input)."""
    from gangsched.cli.plan_view import Plan as View  # noqa: PLC0415 - as in load
    from gangsched.cli.plan_view import decide  # noqa: PLC0415 - as in load

    loaded = cluster.loaded
    found = decide(loaded.events, cluster.options, loaded.now if now is None else now)
    return msgspec.convert(View(list(found)).fields(), Plan)


def explain(cluster: Cluster, name: str, *, now: float | None = None) -> Explanation:
    """Why a gang waits, or why a pod is evicted: ``name``, ``namespace/name`` or ``kind/name``.

    Raises :class:`~gangsched.model.errors.UserError` (a ValueError) when there is nothing of that name.
    """
    from gangsched.cli.explain import Explained  # noqa: PLC0415 - as in load
    from gangsched.cli.explanation import explain as explained  # noqa: PLC0415 - as in load
    from gangsched.cli.names import named  # noqa: PLC0415 - as in load
    from gangsched.cli.what_if import State  # noqa: PLC0415 - as in load

    loaded = cluster.loaded
    state = State(loaded.events, cluster.options, loaded.now if now is None else now)
    namespace, kind, rest = named(name, None)
    fields = Explained(state, explained(state, namespace or "default", rest, kind)).fields()
    return msgspec.convert({**fields["explanation"], "decisions": fields["decisions"]}, Explanation)


def simulate(cluster: Cluster, *, until_seconds: float = 600.0) -> Simulation:
    """The whole life of the gangs on a virtual clock, for so many seconds of it."""
    from gangsched.cli.simulation import fields_of  # noqa: PLC0415 - as in load
    from gangsched.cli.simulation import simulate as played  # noqa: PLC0415 - as in load

    loaded = cluster.loaded
    run = played(
        loaded.events,
        cluster.options,
        until_seconds=until_seconds,
        start=loaded.now,
        group_hints=loaded.group_hints,
    )
    return msgspec.convert(fields_of(run), Simulation)
