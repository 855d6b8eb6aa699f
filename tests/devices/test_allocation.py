"""Claims get devices exactly where Kubernetes' own allocator gives them some."""

from __future__ import annotations

from typing import Any

import pytest

from gangsched.core.devices.allocation import ClaimError, SearchStoppedError, in_use
from gangsched.messages.devices import INCOMPLETE
from gangsched.model import devices
from gangsched.model.devices import Allocation
from tests.devices import oracle
from tests.devices.claims import DRIVER, NODE, Cluster
from tests.devices.questions import allocator, claims_of, slices_of


def allocate(question: dict[str, Any]) -> list[Allocation] | str | None:
    """The allocations, None, or what is wrong."""
    try:
        return allocator(question).allocate(claims_of(question["claims"]))
    except ClaimError as error:
        return str(error)
    except SearchStoppedError:
        return "stopped"


def check(question: dict[str, Any], found: list[Allocation]) -> None:
    """No device is given out twice, and each claim has as many as it asks for."""
    used = in_use(claims_of(question["allocated"]))
    shared = {
        devices.DeviceId(each.driver, each.pool, device.name)
        for each in slices_of(question)
        for device in each.devices
        if device.shared
    }
    for claim, allocation in zip(claims_of(question["claims"]), found, strict=True):
        for request in claim.spec.requests:
            names = {f"{request.name}/{a.name}": a for a in request.alternatives} if request.prioritized else {}
            names = names or {request.name: request.alternatives[0]}
            counts = {name: sum(d.request == name for d in allocation.devices) for name in names}
            assert sum(count > 0 for count in counts.values()) == 1
            assert all(names[name].count in {None, count} for name, count in counts.items() if count)
        for each in allocation.devices:
            if not each.admin and each.device not in shared:
                assert each.device not in used.devices
                used.devices.add(each.device)


@pytest.mark.controlplane
@pytest.mark.parametrize(("first", "rich"), [(0, False), (0, True), (10_000, True)])
def test_claims_fit_where_kubernetes_finds_that_they_fit(first: int, rich: bool) -> None:
    """An allocation exists exactly if upstream's allocator finds one; what it fails on by an error gets none here.

    Upstream fails on an error of a selector that it meets, and the order in which it meets devices may differ.
    """
    asked = [Cluster(seed, rich=rich).question for seed in range(first, first + 1_000)]
    wrong = []
    fit = 0
    for seed, (question, answer) in enumerate(zip(asked, oracle.ask(asked), strict=True), first):
        found = allocate(question)
        if isinstance(found, list):
            check(question, found)
        right = isinstance(found, list) if answer["allocations"] else not isinstance(found, list)
        fit += bool(answer["allocations"])
        if not right or found == "stopped":
            wrong.append((seed, answer.get("error"), found))
    assert fit > 150
    assert len(wrong) <= 1, wrong


def ask(*claims: dict[str, Any], **of: Any) -> dict[str, Any]:
    """A question about one pool of devices d0, d1 … on n1, whose attributes are given."""
    made = [
        {"name": f"d{i}", "attributes": {k: {"string": v} for k, v in each.items()}}
        for i, each in enumerate(of.get("devices", ()))
    ]
    pool = {"name": "p", "generation": 1, "resourceSliceCount": of.get("slices", 1)}
    spec = {"driver": DRIVER, "pool": pool, "nodeName": "n1", "devices": made}
    classes = [{"metadata": {"name": "gpu"}, "spec": {"selectors": of.get("selectors", [])}}]
    named = [{"metadata": {"name": f"c{i}"}, "spec": {"devices": each}} for i, each in enumerate(claims)]
    return {
        "node": NODE, "slices": [{"metadata": {"name": "s"}, "spec": spec}], "classes": classes, "claims": named,
        "allocated": [],
    }  # fmt: skip


def exactly(count: int = 1, **fields: Any) -> dict[str, Any]:
    """A request for devices of the class."""
    return {"name": fields.pop("name", "r"), "exactly": {"deviceClassName": "gpu", "count": count, **fields}}


def names(found: list[Allocation] | str | None) -> list[list[str]]:
    """The devices of each claim."""
    assert isinstance(found, list), found
    return [[each.device.name for each in allocation.devices] for allocation in found]


def test_the_first_choice_is_given_up_for_another() -> None:
    """A claim of one device leaves the pair of one root to the claim that needs both on one root."""
    pair = {"requests": [exactly(2)], "constraints": [{"matchAttribute": f"{DRIVER}/root"}]}
    question = ask({"requests": [exactly()]}, pair, devices=[{"root": "a"}, {"root": "a"}, {"root": "b"}])
    assert names(allocate(question)) == [["d2"], ["d0", "d1"]]
    alone = ask({"requests": [exactly()]}, pair, devices=[{"root": "a"}, {"root": "b"}, {"root": "c"}])
    assert allocate(alone) is None


def test_identical_devices_are_tried_once() -> None:
    """A claim that cannot be met among many identical devices is refused in few steps."""
    pair = {"requests": [exactly(12)], "constraints": [{"distinctAttribute": f"{DRIVER}/root"}]}
    assert allocate(ask(pair, devices=[{"root": "a"}] * 24)) is None
    assert allocate(ask({"requests": [exactly(25)]}, devices=[{"root": "a"}] * 24)) is None


def test_a_pool_that_is_incomplete_gives_nothing() -> None:
    """A slice is missing: its devices are not given out, and a request for all devices says why."""
    asked = {"requests": [exactly()]}
    assert names(allocate(ask(asked, devices=[{}]))) == [["d0"]]
    assert allocate(ask(asked, devices=[{}], slices=2)) is None
    everything = allocate(ask({"requests": [exactly(allocationMode="All")]}, devices=[{}], slices=2))
    assert isinstance(everything, str)
    assert INCOMPLETE in everything


def test_faults_name_what_is_wrong() -> None:
    """A missing class, a failing selector and a part that is not supported are named."""
    missing = allocate(ask({"requests": [{"name": "r", "exactly": {"deviceClassName": "gpus"}}]}, devices=[{}]))
    failing = allocate(ask({"requests": [exactly()]}, devices=[{}], selectors=[{"cel": {"expression": "device.x"}}]))
    odd = allocate(ask({"requests": [exactly(allocationMode="Some")]}, devices=[{}]))
    assert missing == "claim c0: there is no DeviceClass gpus"
    assert failing == f"a selector of request r failed on device {DRIVER}/p/d0: undefined field 'x'"
    assert isinstance(odd, str)
    assert "Some is not supported" in odd


def test_older_versions_of_the_api_are_read() -> None:
    """v1beta1 has the fields of a request beside its name, and those of a device in `basic`."""
    question = ask({"requests": [{"name": "r", "deviceClassName": "gpu", "count": 1}]}, devices=[{"model": "H100"}])
    device = question["slices"][0]["spec"]["devices"][0]
    device["basic"] = {"attributes": device.pop("attributes")}
    question["classes"][0]["spec"]["selectors"] = [
        {"cel": {"expression": f"device.attributes['{DRIVER}'].model == 'H100'"}}
    ]
    assert names(allocate(question)) == [["d0"]]
