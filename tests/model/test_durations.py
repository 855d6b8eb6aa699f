"""Durations of annotations, and what PriorityClasses, pods and groups say about patience."""

from __future__ import annotations

import pytest

from gangsched.model import wire
from gangsched.model.convert import Converter
from gangsched.model.dialects import coscheduling, koordinator, objects, upstream
from gangsched.model.errors import FieldError
from gangsched.model.times import LONGEST_SECONDS, parse_duration, render_duration, render_micro_time, render_time


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("0", 0.0), ("0s", 0.0), ("30s", 30.0), ("1h30m", 5400.0), (" 90s ", 90.0), ("1.5m", 90.0), ("250ms", 0.25)],
)
def test_durations_are_read(text: str, seconds: float) -> None:
    """Numbers with units, as Go writes them."""
    assert parse_duration(text, "f") == seconds


@pytest.mark.parametrize("text", ["", "5", "-5s", "5 s", "5d", "s", "1h 5m", "1e3s", "9999999h", "1s" * 40])
def test_other_texts_are_refused(text: str) -> None:
    """No unit, another unit, a sign, or longer than anybody waits: the field is named."""
    with pytest.raises(FieldError) as caught:
        parse_duration(text, "metadata.annotations[x]")
    assert caught.value.field == "metadata.annotations[x]"


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.0, "0s"), (45.0, "45s"), (600.0, "10m"), (5400.0, "1h30m"), (0.25, "0.25s")]
)
def test_durations_are_written(seconds: float, text: str) -> None:
    """What is written can be read again."""
    assert render_duration(seconds) == text
    assert parse_duration(text, "f") == seconds


def converted(**annotations: str) -> tuple[float | None, float | None]:
    """Minimum run time and preemption delay of a PriorityClass with these annotations of ours."""
    notes = {f"gangsched.dev/{k.replace('_', '-')}": v for k, v in annotations.items()}
    raw = wire.PriorityClass(metadata=wire.ObjectMeta(name="c", annotations=notes))
    made = Converter().priority_class(raw)
    return made.minimum_run_time_seconds, made.preemption_delay_seconds


def test_annotations_of_a_class() -> None:
    """Both are read; what is not there is left to the configuration, which is not the same as zero."""
    assert converted() == (None, None)
    assert converted(minimum_run_time="10m") == (600.0, None)
    assert converted(preemption_delay="0s") == (None, 0.0)


@pytest.mark.parametrize("key", ["minimum-run-time", "preemption-delay"])
def test_a_bad_annotation_is_named(key: str) -> None:
    """Which annotation cannot be read, and how it is written right."""
    with pytest.raises(FieldError) as caught:
        converted(**{key.replace("-", "_"): "soon"})
    assert caught.value.field == f"metadata.annotations[gangsched.dev/{key}]"
    assert "'soon' is not a duration such as 30s" in caught.value.message


def test_a_pod_knows_its_class() -> None:
    """As its spec names it."""
    raw = wire.Pod(metadata=wire.ObjectMeta(name="p", namespace="d"), spec=wire.PodSpec(priority_class_name="gold"))
    assert Converter().pod(raw).priority_class == "gold"


@pytest.mark.parametrize(("raw", "seconds"), [("5m", 300.0), ("0s", 0.0), ("soon", None), ("", None)])
def test_the_delay_of_kai(raw: str, seconds: float | None) -> None:
    """On group objects of every API; what is no duration counts as not said, as in KAI, and is told."""
    notes = {objects.PREEMPTION_DELAY: raw}
    meta = wire.ObjectMeta(name="g", namespace="d", annotations=notes)
    sigs = koordinator.PodGroup(metadata=meta)
    made = [read.gang_from_object(sigs) for read in (koordinator, coscheduling)]
    made.append(upstream.gang_from_object(wire.UpstreamPodGroup(metadata=meta)))
    assert [gang.preemption_delay_seconds for gang in made] == [seconds] * 3
    wrong = raw == "soon"
    assert [gang.remark is not None for gang in made] == [wrong] * 3
    pods = Converter().pod(wire.Pod(metadata=meta, spec=wire.PodSpec()))
    assert (pods.remark is not None, pods.mistake) == (wrong, None)
    assert pods.remark == made[0].remark


def test_a_schedule_timeout_below_zero_counts_as_not_said() -> None:
    """It is told which field that is; zero is the API's way to say nothing."""
    specs = [koordinator.PodGroupSpec(schedule_timeout_seconds=seconds) for seconds in (-1, 0)]
    made = [koordinator.gang_from_object(koordinator.PodGroup(spec=spec)) for spec in specs]
    assert [gang.timeout_seconds for gang in made] == [None, None]
    assert made[1].remark is None
    assert made[0].remark is not None
    assert made[0].remark.field == "spec.scheduleTimeoutSeconds"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0, "1970-01-01T00:00:00"),
        (1e15, "9999-12-31T23:59:59"),
        (2.0**63, "9999-12-31T23:59:59"),
        (float("inf"), "9999-12-31T23:59:59"),
        (-1e15, "0001-01-01T00:00:00"),
        (float("-inf"), "0001-01-01T00:00:00"),
    ],
)
def test_every_moment_can_be_written(seconds: float, text: str) -> None:
    """A moment outside the calendar is written as its first or its last second, and can be read again."""
    assert render_time(seconds) == f"{text}Z"
    assert render_micro_time(seconds) == f"{text}.000000Z"


@pytest.mark.parametrize(
    ("written", "read"), [(0, 0.0), (60, 60.0), (-5, 0.0), (10**15, LONGEST_SECONDS), (2**63 - 1, LONGEST_SECONDS)]
)
def test_grace_periods_end_after_a_year_at_the_latest(written: int, read: float) -> None:
    """The API server takes any 64-bit number as a grace period; sums with the greatest leave the calendar."""
    of_spec = wire.Pod(wire.ObjectMeta(name="p", uid="p"), wire.PodSpec(termination_grace_period_seconds=written))
    of_deletion = wire.Pod(wire.ObjectMeta(name="p", uid="p", deletion_grace_period_seconds=written), wire.PodSpec())
    assert Converter().pod(of_spec).grace_seconds == read
    assert Converter().pod(of_deletion).grace_seconds == read
