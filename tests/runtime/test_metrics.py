"""What passes through the loop becomes the metrics that are documented."""

from __future__ import annotations

import gc
import re
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from gangsched.cluster import bystanders, kube
from gangsched.core.actions import Bind, PodRef, Remove, SetCondition
from gangsched.core.decision import (
    BIND,
    GATHERING,
    PREEMPT,
    UNSCHEDULABLE,
    Decision,
    Gap,
    Placement,
    UnitRef,
    Unplaced,
    Victim,
)
from gangsched.core.events import Changed, Gone, Outcome, Synced, WriteDone
from gangsched.core.framework.pipeline import Stopwatch
from gangsched.core.lifecycle.holding import HeldRoom
from gangsched.core.lifecycle.report import GANG_BROKEN, PREEMPTED, event
from gangsched.core.world.amounts import Amounts
from gangsched.model.constraints import PodShape
from gangsched.model.records import GangId, Pod
from gangsched.runtime import metrics, shadow_figures
from gangsched.runtime.memory import THRESHOLDS, FreezeAfterSync, PauseMeter, raise_thresholds
from gangsched.runtime.metrics import DECLARED, DecisionTime, FilterAndScoreTimes, Meters, Metrics
from tests.builders import decided

GANG = GangId("scheduling.sigs.k8s.io", "ns", "gang", "ours")


def pod(name: str = "a", **changes: object) -> Changed:
    """A pending pod of ours, or what the changes make of it."""
    fields = {"namespace": "ns", "name": name, "uid": f"uid-{name}", "shape": PodShape(), "gang": GANG}
    return Changed(Pod(**{**fields, "scheduler": "ours", **changes}))  # type: ignore[arg-type]


def decision(outcome: str, **changes: Any) -> Decision:
    """A decision about the gang."""
    return decided(outcome, GANG, **changes)


class Fed:
    """Metrics with a clock that is set by hand, and short ways to feed and read them."""

    def __init__(self) -> None:
        self.now = 0.0
        self.metrics = Metrics(["ours"], clock=lambda: self.now)

    def handled(self, *events: object, actions: tuple[object, ...] = ()) -> None:
        self.metrics.handled(events, actions, 0.002, 0.0)  # type: ignore[arg-type]

    def __getitem__(self, key: str) -> float | None:
        name, _, rest = key.partition("{")
        labels = dict(re.findall(r'(\w+)="([^"]*)"', rest))
        return self.metrics.registry.get_sample_value(name, labels)


def test_pods_wait_until_they_are_bound_or_gone() -> None:
    """Pods of ours that may be scheduled count as pending, each once, until they are bound, gone or terminating."""
    fed = Fed()
    fed.handled(pod("a"), pod("a"), pod("b"), pod("c"), pod("other", scheduler="theirs"), pod("gated", gates=("g",)))
    assert fed['gangsched_pending_pods{profile="ours"}'] == 3
    fed.handled(pod("a", node="n"), Gone("Pod", "ns", "b", "uid-b"), pod("c", deleting_since=1.0))
    assert fed['gangsched_pending_pods{profile="ours"}'] == 0


def test_a_pod_is_scheduled_when_its_binding_succeeds() -> None:
    """The attempt counts, and the pod's waiting time ends, at the answer to the binding."""
    fed = Fed()
    fed.handled(pod("a"), pod("b"))
    fed.now = 4.0
    binds = [Bind(1, PodRef("ns", "a", "uid-a"), "n"), Bind(2, PodRef("ns", "b", "uid-b"), "n")]
    fed.metrics.decided([decision(BIND)], binds, 0.01, 0.0)
    before = fed['scheduler_schedule_attempts_total{result="scheduled",profile="ours"}']
    fed.handled(WriteDone(1, Outcome.OK), WriteDone(2, Outcome.REFUSED), WriteDone(99, Outcome.OK))
    assert (before, fed['scheduler_schedule_attempts_total{result="scheduled",profile="ours"}']) == (0, 1)
    assert fed['scheduler_schedule_attempts_total{result="error",profile="ours"}'] == 1
    assert fed["scheduler_pod_scheduling_sli_duration_seconds_sum"] == 4.0
    assert fed['gangsched_pending_pods{profile="ours"}'] == 1


def test_decisions_count_gangs_and_what_they_cost() -> None:
    """A GangGroup is one search with one set of victims, and a decision about each of its gangs."""
    fed = Fed()
    victim = Victim("ns", "v", "u", "n", UnitRef("Pod", "ns/v"), False, 0, False)
    both = decision(PREEMPT, victims=(victim, victim), stopped=True)
    fed.metrics.decided([both, both], [], 0.3, 0.0)
    fed.metrics.decided([decision(UNSCHEDULABLE, unplaced=(Unplaced("ns/a", ("no",)),))], [], 0.1, 0.0)
    fed.metrics.decided([decision(GATHERING, unplaced=(Unplaced("ns/a", ("no",)),))], [], 0.1, 0.0)
    assert fed['scheduler_podgroup_schedule_attempts_total{result="waiting_on_preemption",profile="ours"}'] == 2
    assert fed['scheduler_podgroup_schedule_attempts_total{result="unschedulable",profile="ours"}'] == 1
    assert fed["scheduler_preemption_attempts_total"] == 1
    assert fed["scheduler_preemption_victims_sum"] == 2
    assert fed["gangsched_searches_stopped_total"] == 1
    assert fed['scheduler_schedule_attempts_total{result="unschedulable",profile="ours"}'] == 1
    assert fed['gangsched_plan_seconds_count{outcome="preempt"}'] == 1
    assert fed["scheduler_podgroup_scheduling_algorithm_duration_seconds_count"] == 2


def test_gangs_that_are_broken_are_counted() -> None:
    """Each is when it is told so; other Events are not about that."""
    fed = Fed()
    about = ("scheduling.k8s.io/v1alpha1", "PodGroup", "ns", "g", "u")
    told = [event(about, reason, "note") for reason in (GANG_BROKEN, PREEMPTED, GANG_BROKEN)]
    fed.metrics.decided([decision(BIND)], told, 0.1, 0.0)
    assert fed["gangsched_gangs_broken_total"] == 2


def test_how_good_plans_are() -> None:
    """Proven ones are counted, the others fall into buckets by what is not proven; others have no plan to prove."""
    fed = Fed()
    fed.metrics.decided([decision(PREEMPT, optimal=True)] * 2, [], 0.1, 0.0)
    for gap in (Gap("pods", 0, 3), Gap("pods", 9, 40), Gap("pdb", 0, 1)):
        fed.metrics.decided([decision(PREEMPT, optimal=False, gap=gap)], [], 0.1, 0.0)
    fed.metrics.decided([decision(PREEMPT)], [], 0.1, 0.0)
    fed.metrics.decided([decision(BIND)], [], 0.1, 0.0)
    assert fed["gangsched_plans_optimal_total"] == 1
    assert fed["scheduler_preemption_attempts_total"] == 5
    assert fed['gangsched_plan_gap_sum{component="pods"}'] == 43
    assert fed['gangsched_plan_gap_bucket{component="pods",le="4.0"}'] == 1
    assert fed['gangsched_plan_gap_count{component="pdb"}'] == 1


def test_waiting_ends_with_the_decision() -> None:
    """The time in the queue is that of the first placed pod, once for each gang."""
    fed = Fed()
    fed.handled(pod("a"), pod("b"))
    fed.now = 4.0
    places = (Placement("ns", "a", "uid-a", "n"), Placement("ns", "b", "uid-b", "n"))
    fed.metrics.decided([decision(BIND, placements=places)], [], 0.01, 0.0)
    assert (fed["gangsched_queue_seconds_sum"], fed["gangsched_queue_seconds_count"]) == (4.0, 1)


def test_a_plugin_that_fails_is_an_error() -> None:
    """A decision that failed over a plug-in counts by its name, and not as a gang that does not fit."""
    fed = Fed()
    failed = decision(UNSCHEDULABLE, unplaced=(Unplaced("ns/a", ("no",)),), failed_plugin="Odd")
    fed.metrics.decided([failed], [], 0.1, 0.0)
    assert fed['gangsched_plugin_errors_total{plugin="Odd",profile="ours"}'] == 1
    assert fed['scheduler_schedule_attempts_total{result="error",profile="ours"}'] == 1
    assert fed['scheduler_podgroup_schedule_attempts_total{result="error",profile="ours"}'] == 1
    assert fed['scheduler_schedule_attempts_total{result="unschedulable",profile="ours"}'] == 0


def test_batches_and_queues() -> None:
    """Each batch is one observation however many events it holds, and queues are levels."""
    fed = Fed()
    fed.handled(Synced(), pod(), actions=(SetCondition(PodRef("ns", "a", "u"), "r", "m"),))
    fed.handled()
    fed.metrics.queued({"active": 2, "backoff": 0})
    fed.metrics.queued({"active": 1, "backoff": 3})
    assert (fed["gangsched_events_total"], fed["gangsched_ingest_seconds_count"]) == (2, 2)
    assert (fed['gangsched_queued_gangs{queue="active"}'], fed['gangsched_queued_gangs{queue="backoff"}']) == (1, 3)


def test_every_measurement_is_a_metric() -> None:
    """What the adapter, the loop and shadow mode measure and what is declared as a metric are the same names."""
    told = set[str]()
    files = (metrics.__file__, shadow_figures.__file__, bystanders.__file__)
    for file in (*Path(kube.__file__).parent.glob("*.py"), *map(Path, files)):
        told.update(re.findall(r'(?:observe|self\._?note|            self)\(\s*"([a-z_]+)"', file.read_text()))
    assert told == {name.removeprefix("gangsched_") for name in DECLARED}


def test_measurements_arrive() -> None:
    """Durations, counts and levels, with and without labels."""
    registry = CollectorRegistry()
    observe = Meters(registry)
    observe("write_seconds", 0.2, {"kind": "Bind", "outcome": "ok"})
    observe("watch_events", 5, {"resource": "pods"})
    observe("leader", 1, {})
    value = registry.get_sample_value
    assert value("gangsched_write_seconds_sum", {"kind": "Bind", "outcome": "ok"}) == 0.2
    assert value("gangsched_watch_events_total", {"resource": "pods"}) == 5
    assert value("gangsched_leader") == 1


def test_collections_are_counted() -> None:
    """A full collection while the meter is installed shows up, one afterwards does not."""
    meter = PauseMeter()
    gc.disable()  # so that none starts by itself
    meter.install()
    try:
        gc.collect()
    finally:
        meter.remove()
        gc.enable()
    gc.collect()
    assert meter.collections[2] == 1
    assert 0 < meter.longest_seconds <= sum(meter.seconds)
    assert {family.name for family in meter.collect()} == {
        "gangsched_gc_collections",
        "gangsched_gc_pause_seconds",
        "gangsched_gc_longest_pause_seconds",
    }


def test_a_scrape_reads_the_stopwatch() -> None:
    """The core's stopwatch gets the clock of the process, and what it has counted are the values of a scrape."""
    stopwatch = Stopwatch()
    times = FilterAndScoreTimes(stopwatch, clock=lambda: 7.0)
    stopwatch.filter_seconds, stopwatch.score_seconds = 1.5, 0.5
    values = {sample.name: sample.value for family in times.collect() for sample in family.samples}
    assert values == {"gangsched_filter_seconds_total": 1.5, "gangsched_score_seconds_total": 0.5}
    assert stopwatch.clock() == 7.0


def test_the_gang_that_is_being_decided_is_a_gauge() -> None:
    """With its seconds, while a decision is under way; without a series in between."""
    under_way: list[tuple[str, float] | None] = [("ns/g", 12.5), None]
    times = DecisionTime(lambda: under_way.pop(0))
    shown = [[(s.name, s.labels, s.value) for f in times.collect() for s in f.samples] for _ in range(2)]
    assert shown == [[("gangsched_deciding_seconds", {"gang": "ns/g"}, 12.5)], []]


def test_memory_is_frozen_once_after_the_first_sync() -> None:
    """The caches leave the collector's sight when they are complete, and only then."""
    policy = FreezeAfterSync()
    gc.unfreeze()  # what the import of commands has frozen
    try:
        policy.handled([], [], 0.0, 0.0)
        assert gc.get_freeze_count() == 0
        policy.handled([Synced()], [], 0.0, 0.0)
        frozen = gc.get_freeze_count()
        later: list[list[int]] = [[] for _ in range(1000)]  # would be frozen as well; other threads may free a few
        policy.handled([Synced()], [], 0.0, 0.0)
        assert frozen > 0
        assert gc.get_freeze_count() < frozen + len(later) // 2
    finally:
        gc.unfreeze()
        gc.collect()
        gc.freeze()  # the session's own


def test_thresholds_are_raised_and_put_back() -> None:
    """A process collects rarely from its start, and leaves the interpreter as it was."""
    before = gc.get_threshold()
    restore = raise_thresholds()
    assert gc.get_threshold() == THRESHOLDS
    restore()
    assert gc.get_threshold() == before


def test_requests_are_counted_under_the_name_of_client_go_too() -> None:
    """By code and method; without an answer the code is <error>, as client-go writes it."""
    registry = CollectorRegistry()
    observe = Meters(registry)
    observe("api_request_seconds", 0.1, {"verb": "PATCH", "code": "200"})
    observe("api_request_seconds", 0.1, {"verb": "PATCH", "code": "0"})
    value = registry.get_sample_value
    assert value("rest_client_requests_total", {"code": "200", "method": "PATCH"}) == 1
    assert value("rest_client_requests_total", {"code": "<error>", "method": "PATCH"}) == 1


def test_victims_count_when_their_removal_is_accepted() -> None:
    """By namespace and priority, once for each pod; a refused removal does not count."""
    fed = Fed()
    went, stayed = (Victim("prod", n, f"uid-{n}", "n1", UnitRef("Pod", f"prod/{n}"), False, 7, False) for n in "xy")
    fed.metrics.decided([decision(PREEMPT, victims=(went, stayed))], (), 0.01, 0.0)
    removals = tuple(Remove(n, PodRef("prod", v.name, v.uid)) for n, v in enumerate((went, stayed)))
    fed.handled(actions=removals)
    fed.handled(WriteDone(0, Outcome.OK), WriteDone(1, Outcome.REFUSED))
    assert fed['gangsched_victims_total{victim_namespace="prod",priority="7"}'] == 1


def test_counters_begin_with_0() -> None:
    """A series that begins with its first event has not increased for Prometheus: a scrape has to see 0 before."""
    fed = Fed()
    for series in (
        'scheduler_schedule_attempts_total{profile="ours",result="error"}',
        'scheduler_podgroup_schedule_attempts_total{profile="ours",result="scheduled"}',
        'gangsched_reports_dropped_total{reason="overload"}',
        'gangsched_core_rebuilt_total{where="decision"}',
        'gangsched_plugin_errors_total{plugin="py-gang-scheduler",profile="ours"}',
    ):
        assert fed[series] == 0
    victims = 'gangsched_victims_total{priority="7",victim_namespace="ns"}'
    assert fed[victims] is None
    fed.handled(pod("runs", node="n1", priority=7, scheduler="another"))
    assert fed[victims] == 0


def test_series_of_victims_that_are_foreseen_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Namespaces are of users, and pods of the cluster itself are no victims."""
    monkeypatch.setattr(metrics, "_VICTIMS_FORESEEN", 3)
    fed = Fed()
    fed.handled(pod("system", node="n1", priority=2_000_001_000))
    fed.handled(*(pod(str(n), node="n1", priority=n) for n in range(9)))
    assert generate_latest(fed.metrics.registry).count(b"gangsched_victims_total{") == 3


def test_no_label_is_of_a_users_choice_but_the_namespace() -> None:
    """Names of pods and gangs would make a series each; the one of the gang that is being decided is the exception."""
    of_users = {"namespace", "victim_namespace"}
    known = {"result", "profile", "queue", "code", "method", "version", "outcome", "component", "plugin", "reason"}
    known |= {"priority", "verb", "kind", "resource", "state", "lane", "by", "where", "observer"}
    assert {label for each in DECLARED.values() for label in each.labels} <= known | of_users


def test_devices_are_levels_by_state() -> None:
    """Used, held and free of each resource."""
    fed = Fed()
    fed.metrics.devices({"nvidia.com/gpu": Amounts(12, 4, 0)})
    found = {
        state: fed[f'gangsched_device_amount{{resource="nvidia.com/gpu",state="{state}"}}'] for state in Amounts._fields
    }
    assert found == {"used": 12, "held": 4, "free": 0}


def test_what_waits_is_counted_by_queue_and_reason_and_the_oldest_has_an_age() -> None:
    """A reason that nobody has any longer is 0; the age is that of the pod that was seen first of those that wait."""
    fed = Fed()
    fed.metrics.waiting({"active": 2, "gated": 1}, {"Queued": 2})
    fed.metrics.waiting({"active": 0, "gated": 1}, {"Gathering": 1})
    assert fed['scheduler_pending_pods{queue="gated"}'] == 1
    assert fed['gangsched_gangs_waiting{reason="Queued"}'] == 0
    assert fed['gangsched_gangs_waiting{reason="Gathering"}'] == 1
    assert fed.metrics.oldest_wait_seconds() == 0
    fed.handled(pod("a"))
    fed.now = 5.0
    fed.handled(pod("b"))
    assert fed.metrics.oldest_wait_seconds() == 5
    fed.handled(pod("a", node="n1"))
    assert fed.metrics.oldest_wait_seconds() == 0


def test_node_seconds_add_up_by_namespace() -> None:
    """Each reading has what has come since the last one."""
    fed = Fed()
    fed.metrics.held_room(HeldRoom(2), {"ml": 40.0})
    fed.metrics.held_room(HeldRoom(0), {"ml": 2.5, "web": 1.0})
    assert fed["gangsched_held_nodes"] == 0
    assert fed['gangsched_held_node_seconds_total{namespace="ml"}'] == 42.5
    assert fed['gangsched_held_node_seconds_total{namespace="web"}'] == 1.0
