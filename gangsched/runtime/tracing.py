"""Traces of the lives of gangs, by OpenTelemetry: one for each gang, from its arrival to the binding of its minimum.

Spans come only from what the loop shows its observers: events, decisions and actions. Their times are those of the
loop's clock. This module is imported where tracing is on; the packages of the extra ``otel`` are needed here only.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter
from opentelemetry.trace import Span, Status, StatusCode, Tracer

from gangsched import __version__
from gangsched.core.actions import (
    Action,
    AllocateClaim,
    Bind,
    BindVolume,
    Mark,
    Nominate,
    Remove,
    ReserveClaim,
    SelectNode,
    SuspendJob,
    WithdrawNomination,
    Write,
)
from gangsched.core.decision import Decision, Gathering
from gangsched.core.events import Changed, Event, Gone, LeadershipChanged, Outcome, WriteDone
from gangsched.model.records import GangId, Pod
from gangsched.runtime.loop import Observer

#: The span of each kind of write, in the order of a preemption.
_PHASES: dict[type[Any], str] = {
    Nominate: "nominate",
    Mark: "mark",
    Remove: "remove",
    SuspendJob: "remove",
    BindVolume: "bind volumes",
    SelectNode: "bind volumes",
    AllocateClaim: "allocate devices",
    ReserveClaim: "allocate devices",
    Bind: "bind",
}
GATHERING, QUEUED, VICTIMS = "wait/members", "wait/decision", "wait/victims"
#: How a trace ends.
BOUND, DELETED, UNFINISHED = "bound", "deleted", "unfinished"
_PREFIX = "gangsched."
#: Of more gangs at once none is traced: what waits for weeks must not fill the memory.
MOST = 20_000


def exported(endpoint: str) -> TracerProvider:
    """Return the exporter of spans by OTLP over HTTP: to ``endpoint``, or to the address in the variables
    ``OTEL_EXPORTER_OTLP_…``.
    """
    return provider(OTLPSpanExporter(endpoint or None))


def provider(exporter: SpanExporter) -> TracerProvider:
    """Passes spans to an exporter. ``OTEL_SERVICE_NAME`` and ``OTEL_RESOURCE_ATTRIBUTES`` win over our names."""
    ours = Resource({"service.name": "py-gang-scheduler", "service.version": __version__})
    made = TracerProvider(resource=ours.merge(Resource.create()) if _named() else Resource.create().merge(ours))
    made.add_span_processor(BatchSpanProcessor(exporter))
    return made


def _named() -> bool:
    name = str(Resource.create().attributes.get("service.name", ""))
    return bool(name) and not name.startswith("unknown_service")


class _Phase(NamedTuple):
    span: Span
    unanswered: set[int]


class _Life:
    """One gang that is traced."""

    def __init__(self, root: Span, gang: GangId) -> None:
        self.root = root
        self.gang = gang
        self.pods: set[str] = set()
        self.bound: set[str] = set()
        self.wait: Span | None = None
        self.phases: dict[str, _Phase] = {}
        self.known: set[str] = set()  # members and victims that are found by it
        self.evicts = False
        self.required: int | None = None


class GangTraces(Observer):
    """Follows gangs whose pods have one of these scheduler names, while this process leads."""

    def __init__(self, provider: TracerProvider, scheduler_names: Sequence[str]) -> None:
        self._provider = provider
        self._tracer: Tracer = provider.get_tracer("gangsched", __version__)
        self._names = frozenset(scheduler_names)
        self._lives: dict[GangId, _Life] = {}
        self._of_pod: dict[str, _Life] = {}  # members that wait, and victims on their way
        self._of_write: dict[int, tuple[_Life, str, str]] = {}
        self._waiting: dict[str, tuple[Pod, float]] = {}  # pods that no decision has been about, by namespace/name
        self._began: float | None = None

    def trace_of(self, gang: GangId) -> str:
        """The id of the trace of a gang, as hexadecimal digits; empty where there is none."""
        life = self._lives.get(gang)
        return f"{life.root.get_span_context().trace_id:032x}" if life is not None else ""

    # -- input from the loop -------------------------------------------------------------------------------

    def handled(self, events: Sequence[Event], actions: Sequence[Action], seconds: float, now: float) -> None:
        """See :class:`~gangsched.runtime.loop.Observer`."""
        self._began = now if self._began is None else self._began
        for event in events:
            match event:
                case Changed(Pod() as pod) if pod.scheduler in self._names:
                    if pod.node or not pod.live:
                        self._waiting.pop(pod.key, None)
                    elif pod.uid not in self._of_pod and not pod.gates and len(self._waiting) < MOST:
                        self._waiting.setdefault(pod.key, (pod, now))
                case Gone("Pod", namespace, name, uid):
                    self._waiting.pop(f"{namespace}/{name}", None)
                    self._pod_deleted(uid, now)
                case WriteDone(action_id, outcome, message):
                    self._answered(action_id, outcome, message, now)
                case LeadershipChanged(False):
                    self._end_all(now)
        self._asked(actions, now)

    def decided(self, decisions: Sequence[Decision], actions: Sequence[Action], seconds: float, now: float) -> None:
        """See :class:`~gangsched.runtime.loop.Observer`."""
        for decision in decisions:
            self._decided(decision, seconds, now)
        self._asked(actions, now)

    def close(self, now: float) -> None:
        """End what is under way, and send all that is left."""
        self._end_all(now)
        self._provider.shutdown()

    # -- one gang ------------------------------------------------------------------------------------------

    def _decided(self, decision: Decision, seconds: float, now: float) -> None:
        life = self._lives.get(decision.gang)
        keys = [*(place.key for place in decision.placements), *(each.pod for each in decision.unplaced)]
        members = [self._waiting.pop(key) for key in keys if key in self._waiting]
        if life is None:
            if not decision.required or len(self._lives) >= MOST:
                return  # it runs: further members are not traced
            life = self._begun(decision, members, now)
        for uid in {*(place.uid for place in decision.placements), *(pod.uid for pod, _ in members)}:
            life.pods.add(uid)
            life.known.add(uid)
            self._of_pod[uid] = life
        self._waits_no_more(life, now)
        attributes: dict[str, Any] = {
            "outcome": decision.outcome,
            "placed": len(decision.placements),
            "victims": len(decision.victims),
        }
        if decision.message:
            attributes["why"] = decision.said
        span = self._span(life, "decide", now, attributes)
        span.end(_ns(now + seconds))
        if decision.placements:
            life.required = decision.required
        else:
            life.wait = self._span(life, GATHERING if isinstance(decision, Gathering) else QUEUED, now + seconds)
        life.evicts = bool(decision.victims)
        for victim in decision.victims:
            self._of_pod.setdefault(victim.uid, life)
            life.known.add(victim.uid)

    def _begun(self, decision: Decision, members: Sequence[tuple[Pod, float]], now: float) -> _Life:
        """The trace of a gang begins when the first of its pods was seen."""
        gang = decision.gang
        since = min((seen for _, seen in members), default=now)
        resumed = any(pod.nominated_node or pod.on_record for pod, _ in members)
        first = self._began is not None and since <= self._began
        attributes = {
            "gang": gang.key,
            "kind": decision.kind,
            "scheduler": gang.scheduler,
            "priority": decision.priority,
            "required": decision.required,
            "pods": len(members),
            # It may have a trace of an earlier process, under the same name and pods, which ended unfinished.
            "resumed": resumed or first,
        }
        if members:
            attributes["pod.uid"] = min(pod.uid for pod, _ in members)
        root = self._tracer.start_span("gang", start_time=_ns(since), attributes=_named_attributes(attributes))
        life = self._lives[gang] = _Life(root, gang)
        life.wait = self._span(life, QUEUED, since)
        return life

    def _span(self, life: _Life, name: str, at: float, attributes: dict[str, Any] | None = None) -> Span:
        within = trace.set_span_in_context(life.root)
        return self._tracer.start_span(
            name, context=within, start_time=_ns(at), attributes=_named_attributes(attributes or {})
        )

    @staticmethod
    def _waits_no_more(life: _Life, now: float) -> None:
        if life.wait is not None:
            life.wait.end(_ns(now))
            life.wait = None

    def _asked(self, actions: Sequence[Action], now: float) -> None:
        for action in actions:
            if not isinstance(action, Write):
                continue
            name = _PHASES.get(type(action), "")
            life = self._life_of(action) if name or isinstance(action, WithdrawNomination) else None
            if life is None:
                continue
            if not name:
                life.root.add_event("nomination withdrawn", timestamp=_ns(now))
                life.wait = life.wait or self._span(life, QUEUED, now)
                continue
            self._waits_no_more(life, now)
            phase = life.phases.get(name)
            if phase is None:
                phase = life.phases[name] = _Phase(self._span(life, name, now), set())
            phase.unanswered.add(action.id)
            self._of_write[action.id] = life, name, action.pod.uid

    def _life_of(self, action: Write) -> _Life | None:
        if isinstance(action, SuspendJob):
            return next((life for life in self._lives.values() if life.gang.key == action.preemptor), None)
        uid = action.consumers[0].uid if isinstance(action, AllocateClaim | ReserveClaim) else action.pod.uid
        return self._of_pod.get(uid)

    def _answered(self, number: int, outcome: Outcome, message: str, now: float) -> None:
        if number not in self._of_write:
            return
        life, name, uid = self._of_write.pop(number)
        if name not in life.phases:
            return
        span, unanswered = life.phases[name]
        unanswered.discard(number)
        if outcome not in (Outcome.OK, Outcome.GONE):
            span.add_event("write failed", _named_attributes({"outcome": str(outcome), "answer": message}), _ns(now))
            span.set_status(Status(StatusCode.ERROR, str(outcome)))
        elif name == "bind":
            life.bound.add(uid)
        if unanswered:
            return
        span.end(_ns(now))
        del life.phases[name]
        if life.wait is None and name == ("remove" if life.evicts else "nominate"):
            life.wait = self._span(life, VICTIMS, now)
        if name == "bind" and life.required is not None and len(life.bound) >= life.required:
            self._end(life, BOUND, now)

    def _pod_deleted(self, uid: str, now: float) -> None:
        self._waiting.pop(uid, None)
        life = self._of_pod.pop(uid, None)
        if life is None or uid not in life.pods:
            return
        life.pods.discard(uid)
        if not life.pods:
            self._end(life, DELETED, now)

    def _end_all(self, now: float) -> None:
        for life in list(self._lives.values()):
            self._end(life, UNFINISHED, now)
        self._waiting.clear()
        self._of_write.clear()

    def _end(self, life: _Life, how: str, now: float) -> None:
        self._waits_no_more(life, now)
        for span, _ in life.phases.values():
            span.end(_ns(now))
        life.phases.clear()
        life.root.set_attribute(f"{_PREFIX}end", how)
        if how == BOUND:
            life.root.set_status(Status(StatusCode.OK))
        life.root.end(_ns(now))
        del self._lives[life.gang]
        for uid in life.known:
            if self._of_pod.get(uid) is life:
                del self._of_pod[uid]


def _named_attributes(attributes: dict[str, Any]) -> dict[str, Any]:
    return {f"{_PREFIX}{name}": value for name, value in attributes.items()}


def _ns(seconds: float) -> int:
    return int(seconds * 1e9)
