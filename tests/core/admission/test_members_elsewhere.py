"""What a gang that waits for members says about those that are there and do not count."""

from __future__ import annotations

import msgspec
import pytest

from gangsched.model.records import Job
from tests.builders import PodBuilder, gang, node, pod
from tests.core.harness import plan


def member(index: int) -> PodBuilder:
    """A pod of the gang."""
    return pod(f"g-{index}").cpu(1).gang("g")


@pytest.mark.parametrize("runs", [False, True])
def test_a_member_that_names_another_scheduler(*, runs: bool) -> None:
    """It exists, so nobody is to look for it among those that are missing."""
    other = member(2).scheduler("default-scheduler")
    found = plan(node("n1").cpu(9), gang("g").min(3), member(0), member(1), other.on("n1") if runs else other)["d/g"]
    assert found.outcome == "gathering"
    missing = "2 of 3 members exist; 1 missing"
    assert found.message == f"{missing}; d/g-2 has schedulerName default-scheduler, so it does not count"


def test_several_of_them() -> None:
    """The first is named, and how many there are. One that leaves, or has ended, is no cause."""
    others = [member(i).scheduler("default-scheduler") for i in range(2, 5)]
    others += [member(5).scheduler("volcano").phase("Failed"), member(6).scheduler("volcano").terminating()]
    found = plan(node("n1").cpu(9), gang("g").min(5), member(0), member(1), *others)["d/g"]
    assert found.message.endswith("d/g-2 and 2 more have schedulerName default-scheduler, so they do not count")


def test_where_to_look_for_those_that_are_refused() -> None:
    """A webhook or a quota that refuses a pod leaves an Event of what makes it, and nothing that is watched."""
    made = [member(i).owner("Job", "j") for i in range(2)]
    said = "2 of 3 members exist; 1 missing"
    assert plan(node("n1").cpu(9), gang("g").min(3), member(0), member(1))["d/g"].message == said
    found = plan(node("n1").cpu(9), gang("g").min(3), *made)["d/g"].message
    assert found == f"{said}; if refused, the Events of Job d/j say by what (gangsched explain)"
    found = plan(node("n1").cpu(9), gang("g").min(3), made[0], member(1).owner("Job", "k"))["d/g"].message
    assert found == f"{said}; if refused, the Events of its owners say by what (gangsched explain)"


def test_a_group_that_counts_an_index_that_has_failed() -> None:
    """No pod comes for it any more, which the group does not know, so it is named."""
    made = [member(i).owner("Job", "j") for i in (1, 2)]
    whole = Job("d", "j", "uid-Job-j", parallelism=3, completions=3, indexed=True, failed_indexes=((0, 0),))
    found = plan(node("n1").cpu(9), gang("g").min(3), whole, *made)["d/g"]
    assert found.message.endswith("; index 0 of Job d/j has failed for good")
    found = plan(node("n1").cpu(9), gang("g").min(2), whole, *made)["d/g"]
    assert (found.outcome, len(found.placements)) == ("bind", 2)


@pytest.mark.parametrize(
    ("fields", "wanted"),
    [
        ({}, 4),
        ({"failed_indexes": ((0, 0),)}, 3),
        ({"failed_indexes": ((0, 0),), "succeeded": 1}, 2),
        ({"parallelism": 2, "failed_indexes": ((0, 0),)}, 2),
        ({"failed_indexes": ((0, 2),), "succeeded": 1}, 0),
        ({"failed_indexes": ((0, 2),), "succeeded": 2}, 0),
    ],
)
def test_indexes_that_have_failed_are_not_waited_for(fields: dict[str, int], wanted: int) -> None:
    """The controller of Jobs makes no pod for an index that has succeeded, or has failed for good."""
    whole = Job("d", "j", "u", parallelism=4, completions=4)
    assert msgspec.structs.replace(whole, **fields).wanted == wanted


def test_members_that_run_while_the_gang_is_not_whole() -> None:
    """They hold room without doing anything, and stay: ``plan`` says so as ``run`` does, once."""
    running = [member(i).on("n1") for i in range(2)]
    found = plan(node("n1").cpu(3), gang("g").min(3), *running, pod("other").cpu(1).on("n1"), member(9))["d/g"]
    assert found.outcome == "unschedulable"
    said = ". The gang is bound in part: 2 bound, 1 more needed, which come before any weaker work"
    assert found.message.endswith(said)
    assert found.message.count("bound in part") == 1
