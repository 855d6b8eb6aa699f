"""One form for all lines of the log, whoever writes them."""

from __future__ import annotations

import io
import json
import logging

import msgspec
import pytest

from gangsched import logs
from gangsched.cluster.kube.dryrun import describe
from gangsched.core.actions import Action, JobRef, PodRef, Remove, SetCondition, SuspendJob
from gangsched.core.decision import BIND, PREEMPT, UNSCHEDULABLE, Decision, Gap, Placement, UnitRef, Victim
from gangsched.core.events import Event, LeadershipChanged, ObjectRefused, Outcome, WriteDone
from gangsched.model.dialects import koordinator
from gangsched.model.records import GangId
from gangsched.runtime.observers import DecisionLog
from tests.builders import decided, node, pod
from tests.core.harness import Cluster


@pytest.fixture
def stream() -> io.StringIO:
    """Where the log goes."""
    return io.StringIO()


def lines(stream: io.StringIO) -> list[dict[str, object]]:
    """The JSON lines, without their times."""
    found = [json.loads(line) for line in stream.getvalue().splitlines()]
    for each in found:
        assert each.pop("time").endswith("Z")
    return found


def test_json_lines(stream: io.StringIO) -> None:
    """Our lines and those of libraries look alike, and begin with time, level and message."""
    logs.configure("json", "info", stream)
    logs.get("gangsched.part", gang="ns/gang").info("decided", outcome="bind")
    logging.getLogger("kopf.objects").error("no %s", "luck")
    assert stream.getvalue().startswith('{"time": "')
    assert lines(stream) == [
        {"level": "info", "message": "decided", "gang": "ns/gang", "outcome": "bind", "logger": "gangsched.part"},
        {"level": "error", "message": "no luck", "logger": "kopf.objects"},
    ]


def test_levels(stream: io.StringIO) -> None:
    """Lines below the level are not written; chatter of libraries is only written when all is to be seen."""
    logs.configure("json", "info", stream)
    logs.get("gangsched.part").debug("no")
    logging.getLogger("kopf.objects").warning("no")
    logs.configure("json", "debug", stream)
    logs.get("gangsched.part").debug("yes")
    logging.getLogger("kopf.objects").warning("yes")
    assert [line["message"] for line in lines(stream)] == ["yes", "yes"]


def test_a_log_that_cannot_be_written_ends_nothing(stream: io.StringIO) -> None:
    """Whoever reads the log may go away; the work goes on."""
    logs.configure("json", "info", stream)
    log = logs.get("gangsched.part")
    stream.close()
    log.info("into the void")
    assert stream.closed


def test_what_json_does_not_know_is_written_in_words(stream: io.StringIO) -> None:
    """Keys that are no strings, and what contains itself, cost nobody the line."""
    logs.configure("json", "info", stream)
    circle: list[object] = []
    circle.append(circle)
    logs.get("gangsched.part").info("odd", keys={(1, 2): 3}, circle=circle)
    [line] = lines(stream)
    assert (line["message"], line["keys"], line["circle"]) == ("odd", "{(1, 2): 3}", "[[...]]")


@pytest.mark.parametrize("style", ["json", "console"])
def test_exceptions_without_local_variables(stream: io.StringIO, style: str) -> None:
    """A traceback is logged with its message; the values of variables, which may be credentials, are not."""
    logs.configure(style, "info", stream)
    token = "secret" + "-token"
    try:
        assert token != "secret-token"
    except AssertionError as error:
        logs.get("gangsched.part").error("died", exc_info=error.with_traceback(error.__traceback__))
    text = stream.getvalue()
    assert "AssertionError" in text
    assert "locals" not in text


def test_console_is_for_people(stream: io.StringIO) -> None:
    """A stream that is no terminal gets no colours, and auto means JSON there."""
    logs.configure("console", "info", stream)
    logs.get("gangsched.part", gang="ns/gang").info("decided")
    assert "\x1b" not in stream.getvalue()
    assert "gang=ns/gang" in stream.getvalue()
    logs.configure("auto", "info", stream)
    logs.get("gangsched.part").info("next")
    assert json.loads(stream.getvalue().splitlines()[-1])["message"] == "next"


def decision(outcome: str, **changes: object) -> Decision:
    """A decision about ns/gang."""
    return decided(outcome, GangId("Pod", "ns", "gang", "ours"), "Pod", **changes)


def test_a_repeated_decision_is_not_repeated_in_the_log(stream: io.StringIO) -> None:
    """A gang that waits for days fills no disk; a change of outcome or reason is written."""
    logs.configure("json", "info", stream)
    log = DecisionLog()
    for message in ("no room", "no room", "no quota", "no quota"):
        log.decided([decision(UNSCHEDULABLE, message=message)], [], 0.001, 0.0)
    log.decided([decision(BIND)], [], 0.001, 0.0)
    assert [(line["gang"], line["outcome"], line.get("why")) for line in lines(stream)] == [
        ("ns/gang", "unschedulable", "no room"),
        ("ns/gang", "unschedulable", "no quota"),
        ("ns/gang", "bind", None),
    ]


def test_a_decision_that_begins_is_in_the_log(stream: io.StringIO) -> None:
    """By the name of the gang, for those that ask for all: a decision that never ends has a name then."""
    for level in ("info", "debug"):
        logs.configure("json", level, stream)
        DecisionLog().deciding("ns/g")
    (line,) = lines(stream)
    assert (line["message"], line["gang"]) == ("deciding", "ns/g")


def test_a_dry_run_tells_names(stream: io.StringIO) -> None:
    """Where nothing is written but the log, it says who would be evicted and what would be bound then, once."""
    logs.configure("json", "info", stream)
    full = decision(
        PREEMPT,
        placements=(Placement("ns", "gang", "u", "node-1"),),
        victims=(Victim("ns", "victim", "v", "node-1", UnitRef("Pod", "ns/victim"), False, 0, False),),
    )
    log = DecisionLog(in_full=True)
    for _ in range(2):
        log.decided([full], [], 0.001, 0.0)
    DecisionLog().decided([full], [], 0.001, 0.0)
    dry, evict, bind, wet = lines(stream)
    assert (evict["message"], evict["node"]) == ("would delete Pod ns/victim", "node-1")
    assert (bind["message"], bind["node"]) == ("would bind Pod ns/gang when there is room", "node-1")
    assert (dry["placements"], dry["victims"]) == ({"ns/gang": "node-1"}, ["ns/victim"])
    assert (wet.get("placements"), wet["victims"], wet["victimCount"]) == (None, ["ns/victim"], 1)


def test_each_removal_has_a_line(stream: io.StringIO) -> None:
    """With the pod, the reason and for whom; a dry run, which removes nothing, tells it in its own words."""
    logs.configure("json", "info", stream)
    victim = PodRef("ns", "victim", "v")
    job = SuspendJob(3, JobRef("ns", "nightly", "j"), "1", "me", "ns/gang", "plan-1")
    actions: list[Action] = [Remove(1, victim, True, "for ns/gang"), Remove(2, victim), job]
    DecisionLog(in_full=True).handled([], actions, 0.0, 0.0)
    DecisionLog().handled([], actions[:1], 0.0, 0.0)
    DecisionLog().decided([], actions[1:], 0.0, 0.0)
    evicted, deleted, suspended = lines(stream)
    assert (evicted["message"], evicted["pod"], evicted["why"]) == ("evicting a pod", "ns/victim", "for ns/gang")
    assert (deleted["message"], deleted["reason"]) == ("deleting a pod", "PreemptionByScheduler")
    assert (suspended["message"], suspended["job"], suspended["gang"]) == ("suspending a Job", "ns/nightly", "ns/gang")


def test_many_victims_are_named_in_part(stream: io.StringIO) -> None:
    """The first ones, and how many there are."""
    logs.configure("json", "info", stream)
    gone = tuple(Victim("ns", f"v{i}", "v", "n", UnitRef("Pod", f"ns/v{i}"), False, 0, False) for i in range(60))
    DecisionLog().decided([decision(PREEMPT, victims=gone)], [], 0.001, 0.0)
    (line,) = lines(stream)
    assert (line["victimCount"], line["victims"]) == (60, [*(f"ns/v{i}" for i in range(50)), "…"])


def test_what_would_be_written_does_not_overwrite_the_message(stream: io.StringIO) -> None:
    """The text of a condition has a field of its own beside what would be done."""
    said, details = describe(SetCondition(PodRef("ns", "a", "u"), "Unschedulable", "not now: full"))
    assert said == "set PodScheduled=False on Pod ns/a"
    assert (details["says"], "message" in details) == ("not now: full", False)


def test_how_good_a_plan_is(stream: io.StringIO) -> None:
    """What is proven of a choice of victims is in its line; nothing where nothing is."""
    logs.configure("json", "info", stream)
    log = DecisionLog()
    for number, made in enumerate(
        (decision(PREEMPT, optimal=True), decision(PREEMPT, optimal=False, gap=Gap("pods", 0, 3)), decision(PREEMPT))
    ):
        log.decided([msgspec.structs.replace(made, message=f"{number}")], [], 0.001, 0.0)
    assert [line.get("proof") for line in lines(stream)] == [
        "optimal",
        "at most 3 pods more than needed at priority 0",
        None,
    ]


def test_trouble_is_told(stream: io.StringIO) -> None:
    """Failed writes and changes of leadership are in the log; what worked is not."""
    logs.configure("json", "info", stream)
    events: list[Event] = [
        WriteDone(1, Outcome.OK),
        WriteDone(2, Outcome.GONE),
        WriteDone(3, Outcome.REFUSED, "no"),
        WriteDone(4, Outcome.OUTDATED, "somebody was quicker"),
        LeadershipChanged(False),
    ]
    DecisionLog().handled(events, [], 0.0, 0.0)
    assert [line["message"] for line in lines(stream)] == ["a write failed", "not leading"]


def test_each_mistake_is_one_line(stream: io.StringIO) -> None:
    """One that the reader has found, and one in what members say about their gang, however often they are shown."""
    logs.configure("json", "info", stream)
    refused = ObjectRefused("Node", "", "n1", "uid-n1", "spec.x", "is wrong")
    members = [pod(f"m{n}").light_gang("g", 2).hint(koordinator.MODE, "strict") for n in (1, 2)]
    cluster, log = Cluster(node("n1"), refused, *members), DecisionLog()
    for _ in range(3):
        cluster.show(refused, *members)
        log.handled([refused], cluster.run(), 0.0, 0.0)
    told = [(line["message"], line["object"], line["problem"]) for line in lines(stream)]
    assert [each[:2] for each in told] == [("an object cannot be understood", what) for what in ("Node n1", "Pod d/m1")]
    assert [str(each[2]).partition(":")[0] for each in told] == ["spec.x", f"metadata.annotations[{koordinator.MODE}]"]


@pytest.mark.parametrize("style", ["json", "console"])
def test_what_could_hide_a_line_is_written_out(style: str) -> None:
    """Names and messages are others' to choose: neither controls nor marks that turn text reach the terminal."""
    stream = io.StringIO()
    logs.configure(style, "info", stream)
    logs.get("t").info("seen", gang="a\u202eb\x9b31mc\x1b[2Jd", lines="one\ntwo")
    written = stream.getvalue()
    assert not set(written) & {"\u202e", "\x9b", "\x1b"}
    assert "u202e" in written
    assert "x9b" in written


def test_a_request_that_is_repeated_is_a_warning() -> None:
    """The library calls each attempt that fails an error; only the last one is."""
    stream = io.StringIO()
    logs.configure("json", "info", stream)
    kopf = logging.getLogger("kopf._cogs.clients.watching")
    kopf.error("Request attempt #1/9 failed; will retry: get /apis -> refused")
    kopf.error("Request attempt #9/9 failed; escalating: get /apis -> refused")
    assert [json.loads(line)["level"] for line in stream.getvalue().splitlines()] == ["warning", "error"]
