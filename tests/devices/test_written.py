"""Allocations are written as Kubernetes' own allocator writes them."""

from __future__ import annotations

import json
import random
from typing import Any

import msgspec

from gangsched.core.devices.allocation import ClaimError, SearchStoppedError
from gangsched.core.devices.written import written
from gangsched.model import convert_devices as convert
from gangsched.model import raw_devices
from gangsched.model.devices import DeviceClass
from gangsched.model.quantity import parse
from tests.devices import oracle
from tests.devices.claims import DRIVER, Cluster
from tests.devices.questions import allocator, claims_of


def question(seed: int) -> dict[str, Any]:
    """A random question, with settings for drivers in classes and claims."""
    asked, rng = Cluster(seed, rich=True).question, random.Random(seed)

    def settings(*requests: str) -> dict[str, Any]:
        opaque = {"driver": DRIVER, "parameters": {"n": rng.randint(1, 9), "list": [1, {"a": None}]}}
        return {"opaque": opaque, **({"requests": list(requests)} if requests else {})}

    for each in asked["classes"]:
        each["spec"]["config"] = [settings() for _ in range(rng.randint(0, 2))]
    for each in asked["claims"]:
        names = [r["name"] for r in each["spec"]["devices"]["requests"]]
        names += [
            f"{r['name']}/{a['name']}" for r in each["spec"]["devices"]["requests"] for a in r.get("firstAvailable", ())
        ]
        config = [settings(*rng.sample(names, rng.randint(0, min(2, len(names))))) for _ in range(rng.randint(0, 2))]
        each["spec"]["devices"]["config"] = config
    return asked


def plain(allocation: dict[str, Any]) -> dict[str, Any]:
    """Without the random ids of shares, and with amounts that compare."""
    for each in allocation["devices"].get("results") or ():
        each.pop("shareID", None)
        amounts = each.get("consumedCapacity")
        if amounts:
            each["consumedCapacity"] = {name: parse(units) for name, units in amounts.items()}
    return allocation


def test_allocations_are_written_as_upstream_does() -> None:
    """Devices, tolerations, settings of classes and claims, and nodes, wherever both choose the same devices."""
    asked = [question(seed) for seed in range(400)]
    same = configured = 0
    for each, answer in zip(asked, oracle.ask(asked), strict=True):
        classes: dict[str, DeviceClass] = {}
        for raw in each["classes"]:
            found = convert.device_class(msgspec.convert(raw, raw_devices.RawDeviceClass))
            classes[found.name] = found
        try:
            ours = allocator(each).allocate(claims_of(each["claims"]))
        except (ClaimError, SearchStoppedError):
            continue
        theirs = answer.get("allocations")
        if not ours or not theirs:
            continue
        for claim, given, wanted in zip(claims_of(each["claims"]), ours, theirs, strict=True):
            devices = [tuple(d.device) for d in given.devices]
            if devices != [(r["driver"], r["pool"], r["device"]) for r in wanted["devices"].get("results") or ()]:
                continue
            same += 1
            configured += "config" in wanted["devices"]
            assert plain(json.loads(written(claim.spec, given, classes))) == plain(wanted)
    assert same > 100
    assert configured > 50
