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
from typing import TYPE_CHECKING

import msgspec

from gangsched.cli.contracts import (
    Awaited,
    Decision,
    Drained,
    Eta,
    Explanation,
    Gap,
    Plan,
    Planned,
    PodRun,
    Queue,
    Quota,
    Section,
    Simulation,
    Unplaced,
    Victim,
)
from gangsched.core.decision import Reason, Spared
from gangsched.core.decision import UnitRef as Unit
from gangsched.core.options import Options

if TYPE_CHECKING:
    from gangsched.cluster.manifests import Loaded
    from gangsched.core.preemption.removal import Leaving
    from gangsched.model.errors import Problem

__all__ = [
    "Awaited",
    "Cluster",
    "Decision",
    "Drained",
    "Eta",
    "Explanation",
    "Gap",
    "Plan",
    "PodRun",
    "Queue",
    "Quota",
    "Reason",
    "Section",
    "Simulation",
    "Spared",
    "Unit",
    "Unplaced",
    "Victim",
    "explain",
    "load",
    "plan",
    "simulate",
]


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
    from gangsched.cli.decisions import decide  # noqa: PLC0415 - as in load

    loaded = cluster.loaded
    drained: list[Leaving] = []
    found = list(decide(loaded.events, cluster.options, loaded.now if now is None else now, drained))
    return Planned(found, drained).plan()


def explain(cluster: Cluster, name: str, *, now: float | None = None) -> Explanation:
    """Why a gang waits, or why a pod is evicted: ``name``, ``namespace/name`` or ``kind/name``.

    Raises :class:`~gangsched.model.errors.UserError` (a ValueError) when there is nothing of that name.
    """
    from gangsched.cli.decisions import State  # noqa: PLC0415 - as in load
    from gangsched.cli.explanation import explain as explained  # noqa: PLC0415 - as in load
    from gangsched.cli.inputs import named  # noqa: PLC0415 - as in load

    loaded = cluster.loaded
    state = State(loaded.events, cluster.options, loaded.now if now is None else now)
    namespace, kind, rest = named(name, None)
    found = explained(state, namespace or "default", rest, kind)
    return found.told([Decision.of(each, state.milliseconds(each)) for each in found.decisions])


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
