"""What a group's status should say, and how it gets there."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from structlog.testing import capture_logs

from gangsched.cluster.kube.bodies import Request
from gangsched.cluster.kube.client import ApiError, UnreachableError
from gangsched.cluster.kube.status_fields import changed_fields
from gangsched.cluster.kube.statuses import RETRY_SECONDS, Seen, seen_object
from gangsched.core.actions import GangStatus, ObjectKey
from tests.controllers.bench import NOW, NOW_TEXT, SIGS, UPSTREAM, Api, Bench, desired


def changes(family: str, wanted: dict[str, Any], current: dict[str, Any], version: str = "v1alpha1") -> dict[str, Any]:
    """The fields that have to change."""
    return changed_fields(family, version, wanted, current, 3, NOW)


def test_a_new_group() -> None:
    """A gang that gathers has a phase and says what it waits for; zeros are not written."""
    wanted = desired("Pending", reason="GangNotReady", message="1 of 2 members")
    assert changes(SIGS, wanted, {}) == {
        "phase": "Pending",
        "conditions": [
            {
                "type": "PodGroupScheduled",
                "status": "False",
                "reason": "GangNotReady",
                "message": "1 of 2 members",
                "lastTransitionTime": NOW_TEXT,
                "observedGeneration": 3,
            }
        ],
    }


def test_what_is_right_is_not_written_again() -> None:
    """Applying the changes once leaves nothing to change."""
    wanted = desired("Scheduled", scheduled=2, running=1)
    first = changes(SIGS, wanted, {})
    assert first["scheduleStartTime"] == NOW_TEXT
    assert changes(SIGS, wanted, first) == {}


def test_the_last_eviction_is_a_condition_that_stays() -> None:
    """Upstream's groups have it as well; a process that has evicted nobody leaves it as it is."""
    wanted = {**desired("Pending"), "evicted": "Preempted 1 pod"}
    for family in (SIGS, UPSTREAM):
        (found,) = changes(family, wanted, {})["conditions"]
        assert (found["type"], found["status"], found["message"]) == (
            "gangsched.dev/PodsEvicted",
            "True",
            "Preempted 1 pod",
        )
        assert "conditions" not in changes(family, desired("Pending"), {"conditions": [found]})


def test_counts_go_back_to_zero() -> None:
    """A count that was written and is zero now is written as zero."""
    assert changes(SIGS, desired("Pending"), {"phase": "Pending", "running": 2}) == {"running": 0}


def test_start_time_is_kept() -> None:
    """The first attempt began when it began."""
    current = {"phase": "Scheduling", "scheduleStartTime": "2026-01-01T00:00:00Z"}
    assert "scheduleStartTime" not in changes(SIGS, desired("Scheduled", scheduled=2), current)


@pytest.mark.parametrize(
    ("told", "phase"),
    [
        (desired("Pending", members=1), "Pending"),
        (desired("PreScheduling"), "Scheduling"),
        (desired("Scheduling", scheduled=1), "Scheduling"),
        (desired("Scheduled", scheduled=2), "Scheduling"),
        (desired("Running", scheduled=2, running=2), "Running"),
        (desired("Failed", scheduled=2, running=1, failed=1), "Failed"),
        (desired("Finished", scheduled=2, succeeded=2), "Finished"),
    ],
)
def test_a_group_of_scheduler_plugins_has_the_phases_of_its_controller(told: dict[str, Any], phase: str) -> None:
    """Which may run beside: complete is Scheduling, until enough members run; it counts no bound members."""
    found = changes("scheduling.x-k8s.io", {**told, "minimum": 2, "occupiedBy": "ns/job"}, {})
    counted = {name: told[name] for name in ("running", "succeeded", "failed") if told[name]}
    began = {} if phase == "Pending" else {"scheduleStartTime": NOW_TEXT}
    assert found == {"phase": phase, "occupiedBy": "ns/job", **counted, **began}


def test_conditions_of_others_are_kept() -> None:
    """The list is replaced as a whole, with what others have put there."""
    theirs = {"type": "Theirs", "status": "True"}
    old = {
        "type": "PodGroupScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": "old",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    wanted = desired("Scheduling", reason="Unschedulable", message="new")
    (ours,) = [c for c in changes(SIGS, wanted, {"conditions": [old, theirs]})["conditions"] if c != theirs]
    assert ours["message"] == "new"
    assert ours["lastTransitionTime"] == "2026-01-01T00:00:00Z"
    started = changes(SIGS, desired("Running", running=2), {"conditions": [old, theirs]})["conditions"]
    assert started[0] == theirs
    assert (started[1]["status"], started[1]["lastTransitionTime"]) == ("True", NOW_TEXT)


@pytest.mark.parametrize(
    ("family", "version", "name"),
    [
        (SIGS, "v1alpha1", "PodGroupScheduled"),
        (UPSTREAM, "v1alpha2", "PodGroupScheduled"),
        (UPSTREAM, "v1alpha3", "PodGroupInitiallyScheduled"),
        (UPSTREAM, "v1beta1", "PodGroupInitiallyScheduled"),
    ],
)
def test_name_of_the_condition(family: str, version: str, name: str) -> None:
    """Upstream renamed the condition when its API became beta."""
    (condition,) = changes(family, desired("Scheduled", scheduled=2), {}, version)["conditions"]
    assert condition["type"] == name


def test_upstream_groups_have_a_condition_and_nothing_else() -> None:
    """No phase, no counts; nothing while the gang gathers; and True is never taken back."""
    assert changes(UPSTREAM, desired("Pending", reason="GangNotReady", message="m"), {}, "v1beta1") == {}
    unschedulable = desired("PreScheduling", reason="Unschedulable", message="no room")
    assert list(changes(UPSTREAM, unschedulable, {}, "v1beta1")) == ["conditions"]
    scheduled = changes(UPSTREAM, desired("Scheduled", scheduled=2), {}, "v1beta1")
    assert scheduled["conditions"][0]["status"] == "True"
    assert changes(UPSTREAM, unschedulable, scheduled, "v1beta1") == {}


def test_a_group_of_kai_has_its_condition_while_it_does_not_fit() -> None:
    """It has the only node pool, and goes when the gang is scheduled; those of other pools and its counts stay."""
    kai = "scheduling.run.ai"
    theirs = {"type": "UnschedulableOnNodePool", "nodePool": "a100", "status": "True"}
    wanted = desired("Scheduling", reason="Unschedulable", message="no room")
    first = changes(kai, wanted, {"schedulingConditions": [theirs], "resourcesStatus": {}})
    assert first == {
        "phase": "Scheduling",
        "schedulingConditions": [
            theirs,
            {
                "type": "UnschedulableOnNodePool",
                "nodePool": "default",
                "status": "True",
                "reason": "Unschedulable",
                "message": "no room",
                "reasons": [{"reason": "Unschedulable", "message": "no room"}],
                "lastTransitionTime": NOW_TEXT,
            },
        ],
    }
    assert changes(kai, wanted, first) == {}
    after = changes(kai, desired("Running", running=2), first)
    assert after == {"phase": "Running", "running": 2, "schedulingConditions": [theirs]}


def test_long_messages_are_cut() -> None:
    """A message that the API would refuse for its length is shortened, visibly."""
    wanted = desired("Scheduling", reason="Unschedulable", message="x" * 5000)
    message = changes(SIGS, wanted, {})["conditions"][0]["message"]
    assert len(message) == 1024
    assert message.endswith("…")


async def test_a_patch_names_what_it_means() -> None:
    """UID and resourceVersion of the object go with every patch."""
    bench = Bench(Api())
    bench.see()
    bench.want("Scheduled", scheduled=2)
    (patch,) = await bench.settle()
    assert patch["metadata"] == {"uid": "uid", "resourceVersion": "1"}
    assert patch["status"]["phase"] == "Scheduled"


async def test_many_changes_are_one_write() -> None:
    """What changes within one period is written together, as it is at the end."""
    bench = Bench(Api())
    bench.see()
    for scheduled in range(1, 6):
        bench.want("Scheduling", scheduled=scheduled)
    (patch,) = await bench.settle()
    assert patch["status"]["scheduled"] == 5


class SlowApi(Api):
    """An API whose answers wait until it is told to give one."""

    def __init__(self) -> None:
        super().__init__()
        self.answers = asyncio.Semaphore(0)

    async def attempt(self, request: Request) -> bytes:
        answer = await super().attempt(request)
        await self.answers.acquire()
        return answer


async def test_what_changes_during_a_write_is_written_together_after_it() -> None:
    """However often a status changes while it is being written: one more write, of the newest; its echo causes none."""
    api = SlowApi()
    bench = Bench(api)
    bench.see()
    bench.want("Scheduling", scheduled=1)
    async with bench.running() as written:
        await api.patched.wait()
        for scheduled in range(2, 9):
            bench.want("Scheduling", scheduled=scheduled)
            bench.see({})  # a watch that is late still shows it as it was before
        for _ in range(9):
            api.answers.release()
        await written()
        bench.see()  # the watch brings what has been written
    assert [patch["status"].get("scheduled") for patch in await bench.settle()] == [1, 8]


async def test_what_others_write_before_the_answer_comes_is_restored() -> None:
    """The answer to a write is older than what the watch has shown since."""
    api = SlowApi()
    bench = Bench(api)
    bench.see()
    bench.want("Scheduled", scheduled=2)
    async with bench.running() as written:
        await api.patched.wait()
        api.version += 1
        bench.see({"phase": "Failed"})
        for _ in range(9):
            api.answers.release()
        await written()
    assert [patch["status"].get("phase") for patch in api.patches] == ["Scheduled", "Scheduled"]


async def test_nothing_is_written_without_object_or_wish() -> None:
    """A status without an object waits for the object, and an object without a status is left alone."""
    bench = Bench(Api())
    bench.want("Scheduled")
    assert await bench.settle() == []
    bench.see(uid="another")
    assert await bench.settle() == []
    bench.see()
    assert len(await bench.settle()) == 1
    alone = Bench(Api())
    alone.see()
    assert await alone.settle() == []


@pytest.mark.parametrize("seen_first", [True, False])
async def test_the_end_of_an_object_is_not_that_of_its_successor(seen_first: bool) -> None:
    """That the old one is gone may be heard after the new one of its name has been seen, or is wanted."""
    bench = Bench(Api())
    bench.see(uid="old")
    bench.want("Scheduled", uid="new")
    if seen_first:
        bench.see(uid="new")
    bench.statuses.lost(bench.key, "old")
    if not seen_first:
        bench.see(uid="new")
    (patch,) = await bench.settle()
    assert patch["metadata"]["uid"] == "new"
    bench.statuses.lost(bench.key, "new")
    bench.see(uid="new")
    assert await bench.settle() == []


async def test_lost_status_is_restored_unless_another_leads() -> None:
    """An overwritten status comes back while this process leads, and stays as it is when another one does."""
    bench = Bench(Api())
    bench.see()
    bench.want("Scheduled", scheduled=2)
    await bench.settle()
    bench.see({"phase": "Failed"})
    assert len(await bench.settle()) == 1
    bench.statuses.set_leading(leading=False)
    bench.want("Running", running=2)
    bench.see({"phase": "Failed"})
    assert await bench.settle() == []
    bench.statuses.set_leading(leading=True)
    bench.want("Running", running=2)
    assert len(await bench.settle()) == 1


async def test_whoever_overwrites_it_again_and_again_is_answered_later_and_later() -> None:
    """Two writers that count differently do not take turns at full speed."""
    bench = Bench(Api())
    bench.see()
    bench.want("Scheduled", scheduled=2)
    await bench.settle()
    pauses = []
    for _ in RETRY_SECONDS:
        bench.pauses.clear()
        bench.see({"phase": "Pending"})
        assert len(await bench.settle()) == 1
        pauses.append(max(bench.pauses))
    assert pauses == list(RETRY_SECONDS)


@asynccontextmanager
async def overwritten() -> AsyncIterator[tuple[Bench, Callable[[], Awaitable[int]]]]:
    """A status that another client overwrites so often that it is not restored yet."""
    bench = Bench(Api())
    bench.rests = True
    bench.want("Scheduled", scheduled=2)
    async with bench.running() as written:
        for patches in (1, 1, 1, 0):
            bench.see({"phase": "Pending"})
            assert await written() == patches
        yield bench, written


async def test_news_are_written_where_the_old_status_is_not_restored_yet() -> None:
    """Only what was overwritten waits; what the gang has become meanwhile is written at once."""
    async with overwritten() as (bench, written):
        bench.want("Running", running=2)
        assert await written() == 1


async def test_news_that_cannot_be_written_wait_for_a_pause_of_their_own() -> None:
    """Not for the end of the longer one after which the old status would have been restored."""
    async with overwritten() as (bench, written):
        bench.api.fails = [ApiError(503, "", "busy")]
        bench.want("Running", running=2)
        assert await written() == 2


@pytest.mark.parametrize(("calm", "pause"), [(0.0, 60.0), (119.0, 60.0), (121.0, 1.0)])
async def test_a_status_that_was_left_alone_for_long_is_restored_as_the_first_time(calm: float, pause: float) -> None:
    """The longest pause and as long again without an overwriting end the row of longer and longer pauses."""
    bench = Bench(Api())
    bench.see()
    bench.want("Scheduled", scheduled=2)
    await bench.settle()
    for _ in RETRY_SECONDS:
        bench.see({"phase": "Pending"})
        assert len(await bench.settle()) == 1
    bench.now += calm
    bench.pauses.clear()
    bench.see({"phase": "Pending"})
    assert len(await bench.settle()) == 1
    assert max(bench.pauses) == pause


async def test_fields_that_the_api_drops_are_sent_once() -> None:
    """A CRD that prunes a field is asked once; afterwards only the others are compared."""
    bench = Bench(Api(drops=("conditions",)))
    bench.see()
    bench.want("Scheduled", scheduled=2)
    assert len(await bench.settle()) == 1
    bench.see()
    assert await bench.settle() == []
    bench.want("Scheduled", scheduled=1)
    (patch,) = await bench.settle()
    assert patch["status"] == {"scheduled": 1}


@pytest.mark.parametrize(
    ("error", "patches"),
    [
        (ApiError(503, "", "later"), 2),
        (UnreachableError("no answer"), 2),
        (ApiError(409, "Conflict", "changed"), 1),
        (ApiError(404, "NotFound", "gone"), 1),
    ],
    ids=["overload", "no answer", "conflict", "gone"],
)
async def test_failures(error: Exception, patches: int) -> None:
    """What may work later is tried again; a conflict waits for the news that is on its way; what is gone is dropped."""
    bench = Bench(Api(fails=[error]))
    bench.see()
    bench.want("Scheduled", scheduled=2)
    assert len(await bench.settle()) == patches


@pytest.mark.parametrize("status", [{"conditions": 5}, {"conditions": ["a", None]}, {"phase": []}])
def test_a_status_of_any_shape_is_mended(status: dict[str, Any]) -> None:
    """In an API without a schema a user can write anything there."""
    found = changes(SIGS, desired("Scheduled", scheduled=2), status)
    assert found["phase"] == "Scheduled"
    assert [each["type"] for each in found["conditions"]] == ["PodGroupScheduled"]


@pytest.mark.parametrize("status", [None, 5, [1], "x"])
def test_an_object_of_any_status_is_seen(status: Any) -> None:
    """What is no object says nothing."""
    assert seen_object({"metadata": {"uid": "u"}, "status": status}) == Seen("u", "", 0, {})


@pytest.mark.parametrize("error", [ValueError("no JSON"), RecursionError("too deep"), TypeError("odd")])
async def test_trouble_with_one_object_is_its_own(error: Exception) -> None:
    """All others are written, it is tried again later and later, and each reason is told once."""
    bench = Bench(Api(fails=[error, error]))
    for name in ("gang", "other"):
        bench.statuses.saw(ObjectKey(SIGS, "ns", name), Seen("uid", "1", 1, {}))
        bench.statuses.want(GangStatus(SIGS, "ns", name, "uid", desired("Scheduled", scheduled=2)))
    with capture_logs() as log:
        assert len(await bench.settle()) == 4
    assert bench.pauses.count(RETRY_SECONDS[0]) >= 2
    assert [each["event"] for each in log] == ["a status could not be written for an unforeseen reason"]


async def test_an_answer_that_is_another_object_teaches_nothing() -> None:
    """The patch is sent again, and no field is taken for one that the API does not keep."""
    api = Api()
    bench, right = Bench(api), api.object
    bench.see()
    bench.want("Scheduled", scheduled=2)
    api.object = dict  # type: ignore[method-assign]
    first, *_ = await bench.settle()
    api.object = right  # type: ignore[method-assign]
    bench.see({})
    (again,) = await bench.settle()
    assert again["status"] == first["status"]
