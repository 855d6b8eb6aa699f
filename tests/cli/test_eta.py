"""When gangs that wait will start: what is declared, what was learnt, and what is not known."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest

from gangsched.cli.contracts import Eta
from gangsched.cli.decisions import decide
from gangsched.cli.eta import etas
from gangsched.cli.main import main
from gangsched.cli.simulation import simulate, started_at
from gangsched.cluster.manifests import load
from gangsched.core.forecast import forecast
from gangsched.core.options import Options
from gangsched.model import wire
from gangsched.model.convert import Converter
from gangsched.model.preemptible import EXPECTED_RUN_TIME, stakes_of
from gangsched.model.records import Job, Pod, Stakes
from gangsched.model.times import LONGEST_SECONDS, parse_time, render_time
from tests.amounts import amount
from tests.builders import PodBuilder, gang, node, pod
from tests.cli.worlds import TWO_NODES, gang_job
from tests.core.harness import Built, event
from tests.pages import read_schema

NOW = 10_000.0
RUN_FOR = "sim.gangsched.dev/run-for"


def runs(name: str, to: str, ran: float = 0.0, **declared: float) -> PodBuilder:
    """A pod that fills a node, and has run for so many seconds."""
    return pod(name).cpu(4).on(to, NOW - ran).field(stakes=Stakes(expected_seconds=declared.get("expected")))


def waits(name: str, cpu: float = 4, **fields: Any) -> PodBuilder:
    """A pod that needs a whole node."""
    return pod(name).cpu(cpu).field(**fields)


def found(*objects: Built, **options: Any) -> dict[str, Eta]:
    """The answer for each gang, by name."""
    events = [event(each) for each in objects]
    decisions = [decision for decision, _ in decide(events, Options(**options), NOW)]
    return {gang.key: eta for gang, eta in etas(events, Options(**options), NOW, decisions).items()}


def within(eta: Eta, earliest: float, likely: float, latest: float) -> bool:
    """Are these the times, in seconds from now, but for the moment that binding takes?"""
    times = (eta.earliest, eta.likely, eta.latest)
    wanted = (earliest, likely, latest)
    return all(
        at is not None and 0 <= parse_time(at, "") - NOW - want < 1.5 for at, want in zip(times, wanted, strict=True)
    )


NODES = [node("n1").cpu(4), node("n2").cpu(4)]


def test_who_fits_starts_now() -> None:
    """Whatever else runs, and for how long."""
    eta = found(*NODES, runs("a", "n1"), waits("new"))["d/new"]
    assert within(eta, 0, 0, 0)
    assert eta.position == 1
    assert eta.would_help == []


def test_who_waits_starts_when_one_ends_whose_run_time_is_declared() -> None:
    """Within 20 % of what is declared, less what it has run already."""
    eta = found(*NODES, runs("a", "n1", ran=100, expected=1000), runs("b", "n2"), waits("new"))["d/new"]
    assert within(eta, 700, 900, 1100)
    assert eta.unknown == ["Pod d/b"]
    assert any(EXPECTED_RUN_TIME in each for each in eta.assumes)
    assert any(EXPECTED_RUN_TIME in each for each in eta.would_help)


@pytest.mark.parametrize(("priority", "rate"), [(0, "91 of 100"), (5, "61 of 100")])
def test_an_answer_carries_how_often_such_answers_were_right(priority: int, rate: str) -> None:
    """Where jobs of several priorities run or wait, later ones may pass: that is so less often."""
    eta = found(*NODES, runs("a", "n1", expected=1000.0).priority(priority), waits("new"))["d/new"]
    assert [rate in each for each in eta.assumes].count(True) == 1


def test_a_priority_that_would_bring_it_forward_is_named() -> None:
    """The first gangs that wait are told with which priority they would start sooner, and when; others are not."""
    lasting = [runs(f"r{n}", f"n{n}", expected=4000.0).priority(5) for n in (1, 2)]
    eta = found(*NODES, *lasting, waits("new"))["d/new"]
    assert within(eta, 3200, 4000, 4800)
    (hint,) = eta.would_help
    assert hint.startswith("a priority of 6: it would start about ")
    sooner = parse_time(hint.rpartition(" ")[2], "") - NOW
    assert 0 < sooner < 60  # the grace period of a pod
    top = found(*NODES, *(each.priority(-5) for each in lasting), waits("new", preemption_policy="Never"))
    assert top["d/new"].would_help == []


def test_without_any_run_time_it_is_unknown() -> None:
    """No time is made up, and the workloads are named that would have to say more."""
    eta = found(*NODES, runs("a", "n1"), runs("b", "n2"), waits("new"))["d/new"]
    assert (eta.earliest, eta.likely, eta.latest) == (None, None, None)
    assert eta.unknown == ["Pod d/a", "Pod d/b"]
    assert "unknown" in next(eta.lines())


def test_run_for_is_for_simulations_only() -> None:
    """It is what a simulation is to assume, not what is known of a cluster."""
    hinted = runs("a", "n1").hint(RUN_FOR, "5s")
    assert found(NODES[0], hinted, waits("new").hint(RUN_FOR, "5s"))["d/new"].likely is None


@pytest.mark.parametrize(
    ("expected", "times"), [(None, (500, 500, 500)), (200, (60, 100, 140)), (900, (500, 500, 500))]
)
def test_a_deadline_ends_a_pod_at_the_latest(expected: float | None, times: tuple[int, int, int]) -> None:
    """ActiveDeadlineSeconds counts from the start, and is all that is known where nothing is declared."""
    stakes = Stakes(expected_seconds=expected)
    held = runs("a", "n1", ran=100).field(deadline_seconds=600, stakes=stakes)
    assert within(found(NODES[0], held, waits("new"))["d/new"], *times)


@pytest.mark.parametrize(("ran", "likely"), [(1100, 100), (1300, None)])
def test_who_is_late_is_measured_by_the_longest_guess(ran: int, likely: int | None) -> None:
    """One that has run longer than 1.2 times what is declared says nothing any more."""
    eta = found(NODES[0], runs("a", "n1", ran=ran, expected=1000), waits("new"))["d/new"]
    assert (eta.likely is None) is (likely is None)
    assert likely is None or within(eta, likely, likely, likely)


def test_a_run_time_is_learnt_of_pods_of_the_same_owner() -> None:
    """The shortest, the middle one and the longest; a declared one has precedence."""
    past = [
        pod(f"p{seconds}").owner("Job", "train").phase("Succeeded").field(started=100.0, ended=100.0 + seconds)
        for seconds in (300, 500, 900)
    ]
    held = runs("a", "n1", ran=100).owner("Job", "train")
    eta = found(NODES[0], *past, held, waits("new"))["d/new"]
    assert within(eta, 200, 400, 800)
    assert any("same owner" in each for each in eta.assumes)
    declared = held.field(stakes=Stakes(expected_seconds=1000.0))
    assert within(found(NODES[0], *past, declared, waits("new"))["d/new"], 700, 900, 1100)


def test_when_a_pod_has_ended_is_read_off_its_conditions() -> None:
    """It is no longer ready since then; one that failed says nothing of how long others will run."""
    status = {
        "phase": "Succeeded",
        "startTime": "2026-05-04T10:00:00Z",
        "conditions": [{"type": "Ready", "status": "False", "lastTransitionTime": "2026-05-04T10:05:00Z"}],
    }

    def made(phase: str) -> Pod:
        raw = {"metadata": {"name": "a", "namespace": "d", "uid": "u"}, "spec": {"activeDeadlineSeconds": 7}}
        return Converter().pod(msgspec.convert({**raw, "status": {**status, "phase": phase}}, wire.Pod))

    assert made("Succeeded").ended - made("Succeeded").started == 300.0
    assert made("Failed").ended == made("Running").ended == 0.0
    assert made("Running").deadline_seconds == 7


def test_who_is_ahead_in_the_queue_starts_first() -> None:
    """A gang of two needs both nodes; who comes after it waits for what that runs."""
    stakes = Stakes(expected_seconds=100.0)
    first: list[Built] = [gang("g").min(2), *(waits(f"g{n}", stakes=stakes).gang("g").priority(0) for n in (1, 2))]
    running = [runs("a", "n1", expected=50), runs("b", "n2", expected=1000)]
    times = found(*NODES, *running, *first, waits("low").priority(-1), starvation_seconds=1.0)
    assert [times[name].position for name in ("d/g", "d/low")] == [1, 2]
    assert within(times["d/g"], 800, 1000, 1200)
    assert times["d/low"].likely is not None


def test_a_gang_that_evicts_starts_after_that() -> None:
    """The grace period of the victim is what it takes."""
    victim = runs("a", "n1").priority(0).field(grace_seconds=20.0)
    eta = found(NODES[0], victim, waits("new").priority(5))["d/new"]
    assert eta.likely is not None
    assert 1 < parse_time(eta.likely, "") - NOW <= 21.5


def test_a_gathering_gang_has_no_time() -> None:
    """A member is missing, and nothing says when it comes."""
    eta = found(*NODES, gang("g").min(2), waits("g1").gang("g"))["d/g"]
    assert (eta.earliest, eta.likely, eta.latest) == (None, None, None)


def test_the_nearest_run_time_counts_and_what_is_none_is_ignored() -> None:
    """The group's is its members' until one has its own."""
    group = gang("g").min(1).field(stakes=Stakes(expected_seconds=100.0))
    of_group = runs("a", "n1").gang("g").field(stakes=Stakes())
    assert within(found(NODES[0], group, of_group, waits("new"))["d/new"], 80, 100, 120)
    own = runs("a", "n1", expected=10).gang("g")
    assert within(found(NODES[0], group, own, waits("new"))["d/new"], 8, 10, 12)
    wrong, mistake = stakes_of({EXPECTED_RUN_TIME: "long"})
    assert wrong.expected_seconds is None
    assert mistake is not None


def work_queue(**fields: Any) -> Job:
    """A Job of two pods at once that take 100 s each."""
    template = pod("consumers").cpu(4).owner("Job", "consumers").obj()
    stakes = Stakes(expected_seconds=100.0)
    return Job("d", "consumers", "uid-Job-consumers", parallelism=2, template=template, stakes=stakes, **fields)


def test_a_work_queue_ends_with_its_first_pods() -> None:
    """A Job without completions gets no new pods after one has succeeded, so the others are next."""
    held = runs("consumers-0", "n1", expected=100).owner("Job", "consumers")
    waiting = waits("consumers-1").owner("Job", "consumers")
    answers = found(NODES[0], work_queue(completions=None), held, waiting, waits("last").priority(-1))
    assert within(answers["d/consumers-1"], 80, 100, 120)
    assert within(answers["d/last"], 160, 200, 240)
    assert answers["d/last"].played_until is None


def test_a_forecast_that_does_not_end_says_how_far_it_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A Job with a billion completions is played until the cluster has changed so often as the limit says."""
    monkeypatch.setattr("gangsched.cli.eta.MOST_CHANGES", 200)
    held = [runs(f"consumers-{i}", f"n{i + 1}", expected=100).owner("Job", "consumers") for i in range(2)]
    eta = found(*NODES, work_queue(completions=10**9), *held, waits("never", cpu=40))["d/never"]
    assert (eta.earliest, eta.likely, eta.latest) == (None, None, None)
    assert eta.played_until is not None
    assert 100 < parse_time(eta.played_until, "") - NOW < 10_000
    assert sum(eta.played_until in line for line in eta.lines()) == 2


def test_a_simulated_job_makes_no_pod_anew_that_succeeded() -> None:
    """Without completions it wants no more pods after that, whatever happens to its other pods."""
    held = runs("consumers-0", "n1").hint(RUN_FOR, "10s").owner("Job", "consumers")
    lost = runs("consumers-1", "n2").hint(RUN_FOR, "60s").owner("Job", "consumers").priority(-1)
    stronger = [waits(f"vip-{i}").hint("sim.gangsched.dev/arrive-after", "20s") for i in range(2)]
    objects: list[Built] = [*NODES, work_queue(completions=None), held, lost, *stronger]
    simulation = simulate([event(each) for each in objects], Options(), until_seconds=3_600.0)
    made = [entry.object for entry in simulation.history.with_verbs("create") if entry.object.startswith("d/consumers")]
    assert made == []
    assert [*simulation.history.with_verbs("delete", actor="scheduler")]
    assert simulation.quiet


@pytest.mark.parametrize("seed", range(amount(12, 4)))
def test_declared_run_times_that_are_right_give_the_time_that_comes(seed: int) -> None:
    """In random clusters of single pods and gangs, with run times as declared, the likely time is the very time."""
    rng = random.Random(seed)
    nodes = [node(f"n{i}").cpu(4) for i in range(rng.randint(1, 4))]
    objects: list[Built] = [*nodes]
    exact: list[Built] = [*nodes]

    def add(made: PodBuilder, seconds: float) -> None:
        objects.append(made.field(stakes=Stakes(expected_seconds=seconds)))
        exact.append(made.hint(RUN_FOR, f"{seconds}s"))

    for i in range(len(nodes)):
        add(pod(f"r{i}").cpu(rng.choice([2, 4])).on(f"n{i}", NOW), rng.randint(50, 500))
    for i in range(rng.randint(2, 6)):
        size = rng.randint(1, len(nodes))
        if size > 1:
            objects.append(gang(f"w{i}").min(size))
            exact.append(gang(f"w{i}").min(size))
        for m in range(size):
            made = pod(f"w{i}-{m}").cpu(rng.choice([2, 4]))
            add(made.gang(f"w{i}") if size > 1 else made, rng.randint(50, 500))
    answers = found(*objects)
    events = [event(each) for each in exact]
    decisions = {d.gang: d.required for d, _ in decide(events, Options(), NOW)}
    played = started_at(simulate(events, Options(), until_seconds=20_000.0, start=NOW), decisions)
    assert played
    for each in decisions:
        likely = answers[each.key].likely
        assert (likely is None) is (each not in played), each
        # The simulation looks at those that wait every five minutes as well, which may change whose turn it is.
        assert likely is None or likely == render_time(played[each]), each


MANIFESTS = """
apiVersion: v1
kind: Node
metadata: {name: n1}
status: {allocatable: {cpu: "4", memory: 16Gi, pods: "50"}}
---
apiVersion: v1
kind: Pod
metadata: {name: a, namespace: d, annotations: {gangsched.dev/expected-run-time: 1h}}
spec: {nodeName: n1, containers: [{name: c, image: x, resources: {requests: {cpu: "4"}}}]}
status: {phase: Running, startTime: "2026-05-04T10:00:00Z"}
---
apiVersion: v1
kind: Pod
metadata: {name: new, namespace: d}
spec: {schedulerName: py-gang-scheduler, containers: [{name: c, image: x, resources: {requests: {cpu: "4"}}}]}
"""


@pytest.mark.parametrize("command", [["plan"], ["explain", "d/new"]])
def test_it_is_said_where_it_is_asked_for(
    command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """In the JSON of the contract, the same for the same moment, and for people; without --eta nothing of it is."""
    (tmp_path / "all.yaml").write_text(MANIFESTS)
    asked = [*command, "-f", str(tmp_path), "--now", "2026-05-04T10:30:00Z"]
    main([*asked, "-o", "json"])
    assert "eta" not in json.loads(capsys.readouterr().out)["decisions"][0]
    answers = []
    for _ in range(2):
        assert main([*asked, "--eta", "-o", "json"]) == 0
        answer = json.loads(capsys.readouterr().out)
        jsonschema.validate(answer, read_schema("plan-v1"))
        answers.append(answer["decisions"][0]["eta"])
    assert answers[0] == answers[1]
    assert [answers[0][key] for key in ("earliest", "likely", "latest")] == [
        f"2026-05-04T{time}Z" for time in ("10:48:00", "11:00:00", "11:12:00")
    ]
    main([*asked, "--eta"])
    assert "about 2026-05-04T11:00:00Z (between 2026-05-04T10:48:00Z and" in " ".join(capsys.readouterr().out.split())


QUEUE = """
---
{apiVersion: v1, kind: Namespace, metadata: {name: d}}
---
{apiVersion: kueue.x-k8s.io/v1beta2, kind: ResourceFlavor, metadata: {name: f}}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: q}
spec:
  namespaceSelector: {}
  resourceGroups: [{coveredResources: [cpu], flavors: [{name: f, resources: [{name: cpu, nominalQuota: 4}]}]}]
---
{apiVersion: kueue.x-k8s.io/v1beta2, kind: LocalQueue, metadata: {name: q, namespace: d}, spec: {clusterQueue: q}}
---
apiVersion: batch/v1
kind: Job
metadata:
  name: first
  namespace: d
  labels: {kueue.x-k8s.io/queue-name: q}
  annotations: {gangsched.dev/expected-run-time: 10m}
spec:
  suspend: true
  parallelism: 2
  completions: 2
  template:
    spec:
      schedulerName: py-gang-scheduler
      restartPolicy: Never
      priorityClassName: system-cluster-critical
      containers: [{name: c, image: x, resources: {requests: {cpu: "2"}}}]
"""


def test_a_suspended_job_starts_when_there_is_room_and_others_after_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its pods do not exist yet: how long they will run is declared on the Job."""
    kept = MANIFESTS.replace("nodeName: n1,", "nodeName: n1, priorityClassName: system-node-critical,")
    (tmp_path / "all.yaml").write_text(kept + QUEUE)
    assert main(["plan", "--eta", "-f", str(tmp_path), "--now", "2026-05-04T10:30:00Z", "-o", "json"]) == 0
    found = {d["gang"]: d["eta"] for d in json.loads(capsys.readouterr().out)["decisions"]}
    assert found["d/first"]["likely"] == "2026-05-04T11:00:00Z"
    assert found["d/new"]["likely"].startswith("2026-05-04T11:10:0")
    assert [found[name]["position"] for name in ("d/first", "d/new")] == [1, 2]


@pytest.mark.parametrize("seed", range(amount(5, 3)))
def test_with_run_times_that_hold_and_nothing_to_come_the_likely_start_is_the_real_one(
    tmp_path: Path, seed: int
) -> None:
    """Asked after the last Job has come, whatever order their names have."""
    chance = random.Random(seed)
    jobs = [
        gang_job(f"j{chance.random()}", n, run, chance.randint(1, 2), cpu)
        for n, run, cpu in ((n, chance.randint(100, 900), chance.choice((1, 2, 4))) for n in range(12))
    ]
    (tmp_path / "all.yaml").write_text(TWO_NODES + "".join(jobs))
    events = load([str(tmp_path)]).events
    patient = msgspec.structs.replace(Options(), flush_seconds=LONGEST_SECONDS)
    real = simulate(events, patient, until_seconds=LONGEST_SECONDS)
    now = 20.0
    there = simulate(events, patient, until_seconds=now).world.store.listing()
    waiting = [decision for decision in forecast(there, patient, now) if not decision.placements]
    said = etas(there, patient, now, waiting)
    happened = started_at(real, {decision.gang: decision.required for decision in waiting}, since_seconds=now)
    assert len(waiting) > 3
    for waiter, eta in said.items():
        assert eta.likely is not None
        assert abs(parse_time(eta.likely, "") - happened[waiter]) <= 3


@pytest.mark.parametrize("grace", [9_223_372_036, 10**15, 2**63 - 1])
def test_a_victim_that_may_take_centuries_to_leave_is_no_endless_forecast(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], grace: int
) -> None:
    """The API server takes such grace periods; nothing is held for a wait of that length, which does not begin again
    50,000 times.
    """
    low = {"name": "low", "namespace": "d", "uid": "low"}
    spec = {"containers": [{"name": "c", "resources": {"requests": {"cpu": "4"}}}], "priority": 1, "nodeName": "n1"}
    objects = [
        {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}, "status": {"allocatable": {"cpu": "4"}}},
        {"apiVersion": "v1", "kind": "Pod", "metadata": low, "spec": spec | {"terminationGracePeriodSeconds": grace}},
        *(
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": name, "namespace": "d", "uid": name},
                "spec": {
                    "schedulerName": "py-gang-scheduler",
                    "priority": 9,
                    "containers": [{"name": "c", "resources": {"requests": {"cpu": "2"}}}],
                },
            }
            for name in ("a", "b")
        ),
    ]
    (tmp_path / "in.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
    assert main(["plan", "-f", str(tmp_path / "in.json"), "--eta", "-o", "json"]) == 0
    first, second = json.loads(capsys.readouterr().out)["decisions"]
    assert (first["outcome"], second["outcome"]) == ("preempt", "unschedulable")
    assert first["eta"]["latest"] is None
