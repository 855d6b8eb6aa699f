"""What would give a gang its quota: the change of a queue object that the decision itself accepts, with numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeAlias

from msgspec.structs import replace

from gangsched.cli.decisions import State
from gangsched.core.decision import Lack, QuotaUse
from gangsched.core.events import records
from gangsched.core.quota.workloads import quantity
from gangsched.messages import advice
from gangsched.messages.text import and_nearest, closest, join_names, nearest
from gangsched.model.constraints import LabelSelector, Record
from gangsched.model.queues import (
    QUEUE_LABEL,
    STOP_NONE,
    ClusterQueue,
    FlavorQuota,
    Limits,
    LocalQueue,
    ResourceFlavor,
    ResourceGroup,
    WorkloadPriorityClass,
)
from gangsched.model.records import GangId

#: A record as it would be; None: it would not be there.
Change: TypeAlias = Callable[[Record], Record | None]
#: When a gang can start with a change and with further records, in words; empty if it cannot.
Try: TypeAlias = Callable[[Change, Sequence[Record]], str]
_FEW = 3


class QuotaAdvisor:
    """Tries changes of queue objects for the gangs of a group."""

    def __init__(self, state: State, gangs: Sequence[GangId], attempt: Try) -> None:
        self._state = state
        self._gangs = gangs
        self._attempt = attempt
        self._labels = state.world.managed.written_labels(gangs)
        self._space = gangs[0].namespace

    def found(self, use: QuotaUse) -> Iterator[str]:
        """Sentences about a gang that has no quota."""
        if not use.queue:
            yield from self._local_queue()
            return
        if use.flavors and not use.lacks:
            return
        mended = list(self._queue_objects(use.queue))
        yield from mended or self._more(use)

    # -- objects that are missing, stopped or not for this gang ----------------------------------------------

    def _local_queue(self) -> Iterator[str]:
        """A LocalQueue of the name that is asked for: another name, or the first of the queues that lets it start."""
        name = self._labels.local_queue
        found = [q for q in records(self._state.events, LocalQueue) if q.namespace == self._space]
        if not name or any(queue.name == name for queue in found):
            return
        near = closest(name, [each.name for each in found], 0.6)
        for queue in (each.cluster_queue for each in found if each.name == near):
            then = self._attempt(_same, [LocalQueue(self._space, name, queue)])
            yield advice.other_local_queue(name=near, key=QUEUE_LABEL, then=then or advice.IT_IS_CONSIDERED)
            return
        for queue in sorted(queue.name for queue in records(self._state.events, ClusterQueue))[:_FEW]:
            if then := self._attempt(_same, [LocalQueue(self._space, name, queue)]):
                meant = and_nearest(name, [each.name for each in found], 0.4)
                yield advice.create_local_queue(key=f"{self._space}/{name}", queue=queue, then=then, nearest=meant)
                return

    def _queue_objects(self, name: str) -> Iterator[str]:
        """What keeps the queue from admitting this gang, whatever quota it has; all that is, is changed in the try."""
        quota = self._state.world.managed.quota
        spec = quota.queues.get(name)
        if spec is None or spec.foreign:
            return
        texts, more = self._what_keeps(spec)
        local = self._local()
        if not texts:
            return

        def mended(record: Record) -> Record:
            if isinstance(record, ClusterQueue) and record.name == name:
                cohort = "" if record.cohort in quota.tree.cyclic else record.cohort
                return replace(record, stop=STOP_NONE, checks=(), namespaces=LabelSelector(), cohort=cohort)
            if isinstance(record, LocalQueue) and record == local:
                return replace(record, stop=STOP_NONE)
            return record

        then = self._attempt(mended, more) or advice.IT_IS_CONSIDERED
        text = texts[0]
        for each in texts[1:]:
            text = advice.both(first=text, second=each)
        yield advice.starts_then(change=text, then=then)

    def _local(self) -> LocalQueue | None:
        return self._state.world.managed.quota.local_queues.get(f"{self._space}/{self._labels.local_queue}")

    def _what_keeps(self, spec: ClusterQueue) -> tuple[list[str], list[Record]]:
        """What is to be changed of a queue and around it, in words, and the objects that are missing."""
        quota, local, name = self._state.world.managed.quota, self._local(), spec.name
        texts: list[str] = []
        more: list[Record] = []
        if spec.stop != STOP_NONE:
            texts.append(advice.start_queue(kind="ClusterQueue", queue=name))
        if local is not None and local.stop != STOP_NONE:
            texts.append(advice.start_queue(kind="LocalQueue", queue=local.name))
        absent = sorted({f.flavor for group in spec.groups for f in group.flavors} - quota.flavors.keys())
        if absent:
            more += [ResourceFlavor(flavor) for flavor in absent]
            hint = _hint(absent[0], quota.flavors)
            texts.append(advice.create_flavor(flavors=join_names(absent, _FEW), hint=hint))
        if spec.checks:
            texts.append(advice.without_checks(checks=join_names(spec.checks, _FEW), queue=name))
        if spec.cohort in quota.tree.cyclic:
            texts.append(advice.no_circle(queue=name, cohort=spec.cohort))
        if not quota.selects(name, self._space, self._state.world.snapshot.namespaces.get(self._space)):
            texts.append(advice.select_namespace(queue=name, namespace=self._space))
        wished = self._labels.priority_class
        if wished and wished not in quota.priority_classes:
            more.append(WorkloadPriorityClass(wished, 0))
            hint = _hint(wished, quota.priority_classes)
            texts.append(advice.create_priority_class(name=wished, hint=hint))
        return texts, more

    # -- too little quota --------------------------------------------------------------------------------------

    def _more(self, use: QuotaUse) -> Iterator[str]:
        """As much more nominal quota as is enough, in the flavor that lacks least."""
        name, short = use.queue, dict[str, list[Lack]]()
        for each in use.lacks:
            short.setdefault(each.flavor, []).append(each)
        for lacking in sorted(short.values(), key=lambda found: (len(found), found[0].flavor))[:1]:
            enough = {s.resource: s.asked - (s.most if s.asked > s.most else s.left) for s in lacking}
            now = {s.resource: s.asked - s.left for s in lacking}
            for extra in [enough, now] if enough != now else [now]:
                if then := self._attempt(_raised(name, lacking[0].flavor, extra), ()):
                    yield self._amounts(name, lacking[0].flavor, extra, then)
                    return
            yield self._amounts(name, lacking[0].flavor, enough, advice.QUOTA_IS_ENOUGH)

    def _amounts(self, name: str, flavor: str, extra: dict[str, int], then: str) -> str:
        spec = self._state.world.managed.quota.queues[name]
        of = {r: limits for g in spec.groups for f in g.flavors if f.flavor == flavor for r, limits in f.resources}
        raised = [f"{quantity(r, of[r].nominal + more)} {r}" for r, more in sorted(extra.items()) if r in of]
        return advice.more_quota(queue=name, flavor=flavor, amounts=", ".join(raised), then=then)


def _hint(name: str, known: Iterable[str]) -> str:
    near = nearest(name, known, "", 0.8)
    return advice.hint(nearest=near) if near else ""


def _same(record: Record) -> Record:
    return record


def _raised(name: str, flavor: str, extra: dict[str, int]) -> Change:
    """The queue with so much more nominal quota in a flavor."""

    def limits(resource: str, of: Limits) -> Limits:
        more = extra.get(resource, 0)
        return replace(of, nominal=of.nominal + more)

    def quota(of: FlavorQuota) -> FlavorQuota:
        return replace(of, resources=tuple((r, limits(r, each)) for r, each in of.resources))

    def group(of: ResourceGroup) -> ResourceGroup:
        return replace(of, flavors=tuple(quota(f) if f.flavor == flavor else f for f in of.flavors))

    def changed(record: Record) -> Record:
        if isinstance(record, ClusterQueue) and record.name == name:
            return replace(record, groups=tuple(map(group, record.groups)))
        return record

    return changed
