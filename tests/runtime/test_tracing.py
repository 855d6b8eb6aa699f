"""Traces: each gang is one, with a span for each thing that it waits for or that is done for it."""

from __future__ import annotations

import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from gangsched.cluster.sim.world import SimCluster, World
from gangsched.core.actions import Action, Bind, reference
from gangsched.core.decision import UNSCHEDULABLE, Decision, Fits, Placement, Unplaced, Unschedulable
from gangsched.core.events import Changed, Event, Gone, LeadershipChanged, Outcome, WriteDone
from gangsched.core.options import Options
from gangsched.core.scheduler import Scheduler
from gangsched.model.records import Pod
from gangsched.runtime import tracing
from gangsched.runtime.connecting import StartError
from gangsched.runtime.loop import run_loop
from gangsched.runtime.tracing import GangTraces, exported, provider
from tests.builders import OURS, decided, node, pod


class Traced:
    """An observer whose spans are kept."""

    def __init__(self) -> None:
        self.exporter = InMemorySpanExporter()
        self.observer = GangTraces(provider(self.exporter), (OURS,))

    def spans(self, now: float) -> dict[str, list[ReadableSpan]]:
        """The spans of all that has ended by now, by name."""
        self.observer.close(now)
        found: dict[str, list[ReadableSpan]] = {}
        for span in self.exporter.get_finished_spans():
            found.setdefault(span.name, []).append(span)
        return found


def said(span: ReadableSpan, name: str) -> object:
    """An attribute of ours."""
    return (span.attributes or {})[f"gangsched.{name}"]


def begins(span: ReadableSpan) -> int:
    """When it begins."""
    assert span.start_time is not None
    return span.start_time


def preemption() -> World:
    """A gang of two that needs the room of two weaker pods."""
    nodes: list[Event] = [Changed(node(f"n{n}").cpu(4).obj()) for n in range(2)]
    weak = [Changed(pod(f"weak-{n}").cpu(4).priority(1).on(f"n{n}").obj()) for n in range(2)]
    gang = [Changed(pod(f"g-{n}").cpu(4).priority(9).light_gang("g", 2).obj()) for n in range(2)]
    return World.of([*nodes, *weak, *gang], start=1000.0)


def test_a_gang_that_evicts_is_one_trace_in_the_order_of_its_life() -> None:
    """From its arrival to bound: it waits, is decided, nominates, marks, removes, waits, and binds."""
    traced, world = Traced(), preemption()
    run_loop(Scheduler(Options()), SimCluster(world, until_seconds=120), traced.observer)
    spans = traced.spans(world.clock.now)
    (root,) = spans["gang"]
    assert (said(root, "gang"), said(root, "end"), said(root, "required"), said(root, "pods")) == ("d/g", "bound", 2, 2)
    life = ["wait/decision", "decide", "nominate", "mark", "remove", "wait/victims", "bind"]
    firsts = [spans[name][0] for name in life]
    assert [begins(span) for span in firsts] == sorted(begins(span) for span in firsts)
    assert root.context is not None
    for span in (each for name in life for each in spans[name]):
        assert span.parent is not None
        assert span.parent.span_id == root.context.span_id
        assert begins(root) <= begins(span) <= (span.end_time or 0) <= (root.end_time or 0)
    assert (said(spans["decide"][0], "outcome"), said(spans["decide"][0], "victims")) == ("preempt", 2)
    victims = spans["wait/victims"][0]
    assert (victims.end_time or 0) - begins(victims) > 10**9  # they take their time


def decision(*pods: Pod, why: str = "") -> Decision:
    """One about a gang of these."""
    gang, places = pods[0].gang, tuple(Placement(p.namespace, p.name, p.uid, "n0") for p in pods)
    if why:
        return Unschedulable(gang, "PodGroup", (), 0, len(pods), tuple(Unplaced(p.key, ()) for p in pods), message=why)
    return Fits(gang, "PodGroup", (), 0, len(pods), placements=places)


class Played:
    """A life that is told to an observer step by step."""

    def __init__(self) -> None:
        self.traced = Traced()
        self.now = 1000.0
        self.happens()

    def happens(self, *events: Event) -> None:
        """These arrive a second later."""
        self.now += 1
        self.traced.observer.handled(events, (), 0.0, self.now)

    def decided(self, decision: Decision, *actions: Action) -> None:
        """This is decided a second later."""
        self.now += 1
        self.traced.observer.decided((decision,), actions, 0.25, self.now)

    def spans(self) -> dict[str, list[ReadableSpan]]:
        """All of them, at the end."""
        return self.traced.spans(self.now)


def test_a_write_that_fails_and_another_try_are_two_spans() -> None:
    """The first has the error, and the trace ends when the second has bound the pod."""
    played, member = Played(), pod("a").obj()
    played.happens(Changed(member))
    played.decided(decision(member, why="no room"))
    played.decided(decision(member), Bind(1, reference(member), "n0"))
    played.happens(WriteDone(1, Outcome.TRANSIENT, "timeout"))
    played.decided(decision(member), Bind(2, reference(member), "n0"))
    trace = played.traced.observer.trace_of(member.gang)
    played.happens(WriteDone(2, Outcome.OK))
    spans = played.spans()
    (root,) = spans["gang"]
    assert root.context is not None
    assert trace == f"{root.context.trace_id:032x}"
    assert said(root, "end") == "bound"
    assert [[event.name for event in span.events] for span in spans["bind"]] == [["write failed"], []]
    assert len(spans["decide"]) == 3
    assert len(spans["wait/decision"]) == 2
    assert played.traced.observer.trace_of(member.gang) == ""


def test_what_is_given_up_ends_as_deleted() -> None:
    """The pods are gone before they were bound."""
    played, member = Played(), pod("a").obj()
    played.happens(Changed(member))
    played.decided(decision(member, why="no room"))
    played.happens(Gone("Pod", "d", "a", member.uid))
    (root,) = played.spans()["gang"]
    assert said(root, "end") == "deleted"


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """One tenant's pods and gangs do not fill the memory."""
    monkeypatch.setattr(tracing, "MOST", 3)
    traced = Traced()
    waiting = [pod(f"p-{n}").obj() for n in range(9)]
    traced.observer.handled([Changed(each) for each in waiting], (), 0.0, 1.0)
    assert len(traced.observer._waiting) == 3
    for each in waiting:
        members = (Unplaced(each.key, ("no",)),)
        traced.observer.decided([decided(UNSCHEDULABLE, each.gang, unplaced=members, required=1)], (), 0.0, 2.0)
    assert len(traced.observer._lives) == 3


def test_after_a_restart_the_trace_goes_on_in_another_that_says_so() -> None:
    """The first ends unfinished when leadership is lost, and so does one whose process stops; the one that the next
    process makes of what it finds has the mark of a resumed one.
    """
    played, member = Played(), pod("a").obj()
    played.happens(Changed(member))
    played.decided(decision(member), Bind(1, reference(member), "n0"))
    played.happens(LeadershipChanged(False))
    (root,) = played.spans()["gang"]
    assert (said(root, "end"), said(root, "resumed")) == ("unfinished", False)
    after = Played()
    after.traced = Traced()
    after.happens(Changed(member))
    after.decided(decision(member), Bind(1, reference(member), "n0"))
    (root,) = after.spans()["gang"]
    assert (said(root, "end"), said(root, "resumed"), said(root, "gang")) == ("unfinished", True, "d/a")


def test_a_receiver_gets_them_by_http(monkeypatch: pytest.MonkeyPatch) -> None:
    """By OTLP, at the end of the process at the latest, under the service name of the standard variable."""
    bodies: list[bytes] = []

    class Receiver(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            bodies.append(self.path.encode() + self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(200)
            self.end_headers()

        def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002 - the name is the base class's
            """No line."""

    monkeypatch.setenv("OTEL_SERVICE_NAME", "scheduler-of-team-a")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "none")
    with HTTPServer(("127.0.0.1", 0), Receiver) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        world = preemption()
        traces = GangTraces(exported(f"http://127.0.0.1:{server.server_port}/v1/traces"), (OURS,))
        run_loop(Scheduler(Options()), SimCluster(world, until_seconds=120), traces)
        traces.close(world.clock.now)
        server.shutdown()
        thread.join()
    whole = b"".join(bodies)
    assert whole.startswith(b"/v1/traces")
    assert all(each in whole for each in (b"scheduler-of-team-a", b"wait/victims", b"gangsched.end", b"bound"))


def test_off_costs_no_import_and_on_without_the_extra_is_a_clear_error() -> None:
    """Nothing of OpenTelemetry is imported by the command that runs; what is missing is named with what installs it."""
    asks = f"""
import sys, gangsched.cli.run
from gangsched.runtime.process import _traces
from gangsched.runtime.settings import Configuration, Tracing
print(_traces(Configuration()), [name for name in sys.modules if name.startswith("opentelemetry")])
sys.modules["opentelemetry"] = None
try:
    _traces(Configuration(tracing=Tracing(enabled=True)))
except {StartError.__module__}.StartError as error:
    print(*error.lines)
""".replace("import sys", f"import sys, {StartError.__module__}", 1)
    done = subprocess.run([sys.executable, "-c", asks], capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    off, on = done.stdout.splitlines()
    assert off == "None []"
    assert "tracing.enabled: opentelemetry is not installed; pip install 'py-gang-scheduler[otel]'" in on
