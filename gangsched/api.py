"""Ask the scheduler from Python: what would be decided, why, and what would become of it.

from gangsched import explain, load, plan, simulate

    cluster = load("cluster.json", "my-job.yaml")
    for decision in plan(cluster).decisions:
        print(decision.gang, decision.outcome, [victim.pod for victim in decision.victims])

Nothing is changed anywhere. The results have the fields of the JSON of the commands of the same names, in snake_case. A
minor version may add fields. Only a major version removes a field or changes its meaning.
"""

from __future__ import annotations

import argparse
import itertools
import os
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from gangsched.cli.answers import UsageError
from gangsched.cli.changed_workloads import with_priority, with_queue
from gangsched.cli.contracts import (
    Awaited,
    Decision,
    Drained,
    Eta,
    Explanation,
    GangRun,
    Gap,
    Plan,
    Planned,
    PodRun,
    Queue,
    Quota,
    Section,
    Simulation,
    Summary,
    Unplaced,
    Victim,
)
from gangsched.cli.decisions import State
from gangsched.cli.inputs import named
from gangsched.core.decision import Decision as Decided
from gangsched.core.decision import Reason, Spared
from gangsched.core.decision import UnitRef as Unit
from gangsched.core.events import Changed, Event, records
from gangsched.core.options import Options
from gangsched.messages import failures
from gangsched.messages.text import and_nearest, pluralize
from gangsched.model.records import GangId, Node, Pod

if TYPE_CHECKING:
    from gangsched.cluster.manifests import Loaded
    from gangsched.cluster.manifests.objects import Source
    from gangsched.core.preemption.drain_plan import DrainPlan
    from gangsched.model.errors import Problem

__all__ = [
    "Awaited",
    "Cluster",
    "Decision",
    "Drained",
    "Eta",
    "Explanation",
    "GangRun",
    "Gap",
    "Plan",
    "PodRun",
    "Queue",
    "Quota",
    "Reason",
    "Section",
    "Simulation",
    "Spared",
    "Summary",
    "Unit",
    "Unplaced",
    "Victim",
    "explain",
    "load",
    "plan",
    "simulate",
]


class Cluster:
    """Objects that were read, with the options that they are decided with. Made by :func:`load`; never changed: what it
    would be with other nodes is another one.
    """

    def __init__(self, loaded: Loaded, options: Options) -> None:
        self.loaded = loaded
        self.options = options

    def __repr__(self) -> str:
        counts = Counter(type(event.record).__name__ for event in self.loaded.events if isinstance(event, Changed))
        return f"<Cluster: {', '.join(pluralize(count, name) for name, count in sorted(counts.items())) or 'empty'}>"

    @property
    def warnings(self) -> list[Problem]:
        """Warnings about the input."""
        return self.loaded.warnings

    def with_nodes(self, count: int, *, like: str) -> Cluster:
        """The same with so many more nodes, empty and ready, ``like`` this one.

        Raises :class:`~gangsched.model.errors.UserError` (a ValueError) if there is no such node.
        """
        if count < 1:
            raise UsageError(failures.nodes_at_least_one(count=count))
        nodes = {node.name: node for node in records(self.loaded.events, Node)}
        if like not in nodes:
            raise UsageError(failures.no_node(name=like, nearest=and_nearest(like, nodes)))
        free = (name for n in itertools.count(1) if (name := f"{like}-more-{n}") not in nodes)
        more = [Changed(_another(nodes[like], name)) for name in itertools.islice(free, count)]
        return self._with([*self.loaded.events, *more])

    def without(self, *names: str) -> Cluster:
        """The same without these nodes (``node/gpu-0``) and pods (``pod/web-0``, ``ml/web-0``).

        Raises :class:`~gangsched.model.errors.UserError` (a ValueError) if there is no such object.
        """
        events = list(self.loaded.events)
        for text in names:
            kind, _, name = text.rpartition("/")
            is_node = kind.lower() in ("node", "nodes", "no")
            space = "default" if kind.lower() in ("", "pod", "pods", "po") else kind
            left = [event for event in events if not _is_named(event, is_node, space, name)]
            if len(left) == len(events):
                raise UsageError(failures.nothing_of_that_name(name=text))
            events = left
        return self._with(events)

    def with_priority(self, name: str, priority: int, namespace: str | None = None) -> Cluster:
        """The same with this priority of a workload (``name``, ``namespace/name`` or ``kind/name``).

        Raises :class:`~gangsched.model.errors.UserError` (a ValueError) if there is no such workload.
        """
        return self._changed(with_priority, name, namespace, priority)

    def with_queue(self, name: str, queue: str, namespace: str | None = None) -> Cluster:
        """The same with a workload in this LocalQueue of its namespace.

        Raises :class:`~gangsched.model.errors.UserError` (a ValueError) if there is no such workload.
        """
        return self._changed(with_queue, name, namespace, queue)

    def _changed(
        self, change: Callable[..., list[Event] | None], name: str, namespace: str | None, value: int | str
    ) -> Cluster:
        space, kind, called = named(name, namespace)
        state = State(self.loaded.events, self.options, self.loaded.now, decides=False)
        events = change(state, space or "default", kind, called, value)
        if events is None:
            raise UsageError(failures.nothing_of_that_name(name=name))
        return self._with(events)

    def _with(self, events: list[Event]) -> Cluster:
        return Cluster(msgspec.structs.replace(self.loaded, events=events), self.options)


def _another(node: Node, name: str) -> Node:
    labels = {**node.labels, "kubernetes.io/hostname": name}
    return msgspec.structs.replace(node, name=name, uid=name, labels=labels, unschedulable=False, ready=True)


def _is_named(event: Event, is_node: bool, namespace: str, name: str) -> bool:
    record = event.record if isinstance(event, Changed) else None
    if is_node:
        return isinstance(record, Node) and record.name == name
    return isinstance(record, Pod) and (record.namespace, record.name) == (namespace, name)


def load(
    *sources: Any,
    scheduler_names: Sequence[str] = (),
    config: str | os.PathLike[str] | None = None,
    skip_invalid: bool = False,
    live: bool = False,
    kubeconfig: str | os.PathLike[str] | None = None,
    context: str | None = None,
) -> Cluster:
    """Read manifests or snapshots. Sources are files and folders, YAML or JSON text (with a line break), mappings,
    models of ``kubernetes`` or ``kubernetes_asyncio``, and lists of them.

    With ``live``, a ``kubeconfig`` or a ``context``, a cluster is read once, and ``sources`` count as applied to it.
    The configuration of its leader is used unless another one is given. ``scheduler_names`` are those to decide for, by
    default the configured ones; ``config`` is a configuration file.

    Raises :class:`~gangsched.model.errors.UserError` (a ValueError) for what cannot be understood or read.
    """
    from gangsched.cluster.manifests import load as read  # noqa: PLC0415 - `import gangsched` stays quick

    given = [_source(source, number) for number, source in enumerate(sources, 1)]
    if live or kubeconfig is not None or context is not None:
        return _of_cluster(given, scheduler_names, config, kubeconfig, context, skip_invalid=skip_invalid)
    options = Options()
    if config is not None:
        from gangsched.runtime.config import load as configured  # noqa: PLC0415 - as above

        options = configured(Path(config)).core_options()
    if scheduler_names:
        options = msgspec.structs.replace(options, scheduler_names=tuple(scheduler_names))
    return Cluster(read(given, skip_invalid=skip_invalid), options)


def _source(source: Any, number: int) -> str | Source:
    from gangsched.cluster.manifests.models import source_of  # noqa: PLC0415 - as in load
    from gangsched.cluster.manifests.objects import Source  # noqa: PLC0415 - as in load

    if isinstance(source, os.PathLike):
        return str(os.fspath(source))
    if isinstance(source, str):
        return Source(f"argument {number}", source) if "\n" in source else source
    return source_of(source, number)


def _of_cluster(
    given: Sequence[str | Source],
    scheduler_names: Sequence[str],
    config: str | os.PathLike[str] | None,
    kubeconfig: str | os.PathLike[str] | None,
    context: str | None,
    *,
    skip_invalid: bool,
) -> Cluster:
    from gangsched.cli.inputs import read_cluster  # noqa: PLC0415 - as in load
    from gangsched.cluster.manifests import Loaded  # noqa: PLC0415 - as in load
    from gangsched.cluster.manifests import load as read  # noqa: PLC0415 - as in load
    from gangsched.cluster.manifests.overlay import Around, overlaid  # noqa: PLC0415 - as in load

    args = argparse.Namespace(
        kubeconfig=None if kubeconfig is None else os.fspath(kubeconfig),
        context=context,
        config=None if config is None else os.fspath(config),
        scheduler_name=list(scheduler_names) or None,
        output="json",
    )
    # A notebook has an event loop of its own in this thread.
    with ThreadPoolExecutor(1) as thread:
        found = thread.submit(read_cluster, args).result()
    above = Loaded([], [], [], 0.0)
    if given:
        around = Around.of(found.events, found.namespace or "default")
        above = read(given, around=around, skip_invalid=skip_invalid)
    return Cluster(Loaded(overlaid(found.events, above.events), [], above.warnings, found.now), found.options)


def _known(cluster: object) -> Cluster:
    if not isinstance(cluster, Cluster):
        raise TypeError(f"what load() returns is needed, not {type(cluster).__name__}")
    return cluster


def plan(cluster: Cluster, *, now: float | None = None, eta: bool = False) -> Plan:
    """Return the decisions at ``now`` (seconds since the epoch; by default the newest time in the input). With ``eta``
    each says when its gang will start.
    """
    from gangsched.cli.decisions import decide  # noqa: PLC0415 - as in load

    loaded = _known(cluster).loaded
    moment = loaded.now if now is None else now
    drained: list[DrainPlan] = []
    found = list(decide(loaded.events, cluster.options, moment, drained))
    etas = _etas(cluster, moment, [decision for decision, _ in found]) if eta else {}
    return Planned(found, drained, etas=etas).plan()


def _etas(cluster: Cluster, now: float, decisions: Sequence[Decided]) -> dict[GangId, Eta]:
    from gangsched.cli.eta import etas  # noqa: PLC0415 - as in load

    return etas(cluster.loaded.events, cluster.options, now, decisions)


def explain(
    cluster: Cluster, name: str, *, namespace: str | None = None, now: float | None = None, eta: bool = False
) -> Explanation:
    """Why a gang waits, or why a pod is evicted: ``name``, ``namespace/name`` or ``kind/name`` in a ``namespace`` (by
    default ``default``). With ``eta`` the decisions say when their gangs will start.

    Raises :class:`~gangsched.model.errors.UserError` (a ValueError) when there is nothing of that name.
    """
    from gangsched.cli.decisions import State  # noqa: PLC0415 - as in load
    from gangsched.cli.explanation import explain as explained  # noqa: PLC0415 - as in load
    from gangsched.cli.inputs import named  # noqa: PLC0415 - as in load

    loaded = _known(cluster).loaded
    state = State(loaded.events, cluster.options, loaded.now if now is None else now)
    space, kind, rest = named(name, namespace)
    found = explained(state, space or "default", rest, kind)
    etas = _etas(cluster, state.now, [decision for decision, _ in state.decisions]) if eta else {}
    decisions = [Decision.of(each, state.milliseconds(each), etas.get(each.gang)) for each in found.decisions]
    return found.as_contract(decisions)


def simulate(cluster: Cluster, *, until_seconds: float = 600.0) -> Simulation:
    """The whole life of the gangs on a virtual clock, for so many seconds of it. Pods end when ``eta`` expects it."""
    from gangsched.cli.rehearsal import rehearse  # noqa: PLC0415 - as in load
    from gangsched.cli.simulation import fields_of  # noqa: PLC0415 - as in load

    loaded = _known(cluster).loaded
    if until_seconds <= 0:
        raise UsageError(failures.until_not_positive(seconds=until_seconds))
    run = rehearse(loaded, cluster.options, until_seconds=until_seconds)
    return msgspec.convert(fields_of(run), Simulation)
