"""What a dry run says for each kind of action."""

from __future__ import annotations

import typing

import pytest

from gangsched.cluster.kube.dryrun import describe
from gangsched.core import actions as do
from gangsched.core.lifecycle.report import pod_reference
from gangsched.model.devices import AllocatedDevice, Allocation, DeviceId

POD = do.PodRef("ns", "m", "u")
CLAIM, CONSUMERS = do.ClaimRef("ns", "c", "u", "3"), (do.Consumer("m", "u"),)
DEVICES = Allocation((AllocatedDevice("r", DeviceId("gpu.example.com", "n1", "gpu-0")),))
NODE = do.NodeRef("", "n1", "u", "3")
JOB = do.JobRef("ns", "train", "u")
VICTIM = "py-gang-scheduler: preempting to accommodate higher priority pods"

LINES: list[tuple[do.Action, str]] = [
    (do.Bind(1, POD, "n1"), "bind Pod ns/m node=n1"),
    (do.Nominate(1, POD, "n1", "a-1", "plan a-1: ..."), "nominate Pod ns/m node=n1 plan=a-1"),
    (do.WithdrawNomination(1, POD, "Withdrawn", "late"), "withdraw the nomination of Pod ns/m says=late"),
    (do.Mark(1, POD, VICTIM), f"mark Pod ns/m says={VICTIM}"),
    (do.Unmark(1, POD, "no longer needed"), "unmark Pod ns/m says=no longer needed"),
    (do.Remove(1, POD), "delete Pod ns/m"),
    (do.Remove(1, POD, evict=True), "evict Pod ns/m"),
    (do.AskRemoval(1, POD), "ask for the removal of Pod ns/m"),
    (do.SuspendJob(1, JOB, "3", "ours", "ns/g", "a-1"), "suspend Job ns/train preemptor=ns/g plan=a-1"),
    (do.ResumeJob(1, JOB, "3", "ours"), "resume Job ns/train"),
    (do.BindVolume(1, POD, "pv", "u", "3", "data", "u"), "bind PersistentVolume pv claim=data pod=ns/m"),
    (
        do.SelectNode(1, POD, "data", "u", "n1"),
        "ask for a volume for PersistentVolumeClaim ns/data node=n1 pod=ns/m",
    ),
    (
        do.AllocateClaim(1, CLAIM, CONSUMERS, DEVICES, "{}"),
        "allocate ResourceClaim ns/c consumers=m allocation=gpu.example.com/n1/gpu-0",
    ),
    (do.ReserveClaim(1, CLAIM, CONSUMERS, DEVICES), "reserve ResourceClaim ns/c consumers=m"),
    (do.ReleaseClaim(1, CLAIM, CONSUMERS), "release ResourceClaim ns/c consumers=m"),
    (do.HoldNode(1, NODE, "a-1.ours"), "hold Node n1 value=a-1.ours"),
    (do.ReleaseNode(1, NODE, "a-1.ours"), "no longer hold Node n1"),
    (do.SetCondition(POD, "Unschedulable", "no"), "set PodScheduled=False on Pod ns/m reason=Unschedulable says=no"),
    (
        do.Report(pod_reference(POD), "Normal", "Scheduled", "Binding", "to n1"),
        "write an Event on Pod ns/m reason=Scheduled note=to n1",
    ),
    (do.SetGroupStatus(do.GroupRef("ns", "v", "u", "f", "v1"), {}), "update the status of group ns/v"),
    (do.GangStatus("f", "ns", "g", "u", {}), "update the status of group ns/g"),
]


@pytest.mark.parametrize(("action", "line"), LINES, ids=[line for _, line in LINES])
def test_a_line_reads_like_a_sentence(action: do.Action, line: str) -> None:
    """Verb, object, details; no part of it is a Python repr."""
    what, details = describe(action)
    assert " ".join([what, *(f"{name}={value}" for name, value in details.items())]) == line


def test_every_action_has_a_line() -> None:
    """No kind of action is forgotten."""
    assert {type(action) for action, _ in LINES} == set(typing.get_args(do.Action))
