"""Random pools of devices and claims for them, as the API has them."""

from __future__ import annotations

import random
from typing import Any

DRIVER, NIC = "gpu.example.com", "nic.example.com"
LABELS = {"kubernetes.io/hostname": "n1", "zone": "a"}
NODE = {"metadata": {"name": "n1", "labels": LABELS}}
_TAINT = {"key": "example.com/ill", "value": "yes", "effect": "NoSchedule"}


class Cluster:
    """One node, its pools, classes, claims that have devices, and claims of a pod that want some.

    ``rich`` has partitions, shares and further rarely used fields in it.
    """

    def __init__(self, seed: int, *, rich: bool) -> None:
        self._rng = random.Random(seed)
        self._rich = rich
        self.slices: list[dict[str, Any]] = []
        for driver in (DRIVER, NIC):
            for number in range(self._rng.randint(1, 2)):
                self._pool(driver, f"pool-{number}")
        self.classes = [self._class(DRIVER), self._class(NIC), {"metadata": {"name": "any"}, "spec": {}}]
        self.allocated = self._allocated()
        self.claims = [self._claim(f"c{i}") for i in range(self._rng.choice([1, 1, 2, 3]))]

    @property
    def question(self) -> dict[str, Any]:
        """The whole, as the oracle reads it."""
        return {
            "node": NODE, "slices": self.slices, "classes": self.classes, "claims": self.claims,
            "allocated": self.allocated,
        }  # fmt: skip

    def _maybe(self, share: float) -> bool:
        return self._rng.random() < share

    def _pool(self, driver: str, pool: str) -> None:
        rng = self._rng
        count = rng.choice([1, 1, 1, 2])
        counters = self._rich and driver == DRIVER and self._maybe(0.4)
        generation = rng.randint(1, 3)
        said = count + counters + (self._maybe(0.06))
        made: list[dict[str, Any]] = []
        for number in range(count):
            devices = [self._device(f"d{number}{i}", driver, counters=counters) for i in range(rng.randint(1, 4))]
            made.append({"devices": devices, **self._place(devices)})
        if counters:
            sets = [
                {"name": "whole", "counters": {"slots": {"value": str(rng.randint(1, 5))}, "memory": {"value": "80Gi"}}}
            ]
            made.append({"sharedCounters": sets, rng.choice(["nodeName", "allNodes"]): True})
            if "nodeName" in made[-1]:
                made[-1]["nodeName"] = rng.choice(["n1", "n2"])
        for number, spec in enumerate(made):
            self._slice(driver, pool, number, generation, said, spec)
        if self._maybe(0.08):
            devices = [self._device("old", driver, counters=False)]
            self._slice(
                driver, pool, 9, generation + rng.choice([-1, 1]), 1, {"devices": devices, **self._place(devices)}
            )

    def _slice(self, driver: str, pool: str, number: int, generation: int, count: int, spec: dict[str, Any]) -> None:
        of = {"name": pool, "generation": generation, "resourceSliceCount": count}
        name = f"{driver}-{pool}-{number}"
        self.slices.append({"metadata": {"name": name}, "spec": {"driver": driver, "pool": of, **spec}})

    def _place(self, devices: list[dict[str, Any]]) -> dict[str, Any]:
        rng = self._rng
        if self._rich and self._maybe(0.15):
            for device in devices:
                device.update(rng.choice([{"nodeName": "n1"}, {"nodeName": "n2"}, {"allNodes": True}]))
            return {"perDeviceNodeSelection": True}
        term = {"matchExpressions": [{"key": "zone", "operator": "In", "values": [rng.choice(["a", "a", "b"])]}]}
        return rng.choice([
            {"nodeName": "n1"}, {"nodeName": "n1"}, {"nodeName": "n1"}, {"nodeName": "n2"}, {"allNodes": True},
            {"nodeSelector": {"nodeSelectorTerms": [term]}},
        ])  # fmt: skip

    def _device(self, name: str, driver: str, *, counters: bool) -> dict[str, Any]:
        rng = self._rng
        attributes: dict[str, Any] = {"model": {"string": rng.choice(["H100", "A100"])}}
        if self._maybe(0.8):
            attributes["resource.example.com/root"] = rng.choice([{"string": "r1"}, {"string": "r2"}, {"int": 1}])
        if self._maybe(0.5):
            attributes["index"] = {"int": rng.randint(0, 2)}
        device: dict[str, Any] = {"name": name, "attributes": attributes}
        if self._maybe(0.6):
            device["capacity"] = {"memory": {"value": rng.choice(["40Gi", "80Gi"])}}
        if self._maybe(0.15):
            device["taints"] = [dict(_TAINT, effect=rng.choice(["NoSchedule", "NoExecute", "None"]))]
        if counters and self._maybe(0.8):
            taken = {"slots": {"value": str(rng.randint(1, 3))}}
            if self._maybe(0.5):
                taken["memory"] = {"value": rng.choice(["20Gi", "40Gi"])}
            device["consumesCounters"] = [{"counterSet": "whole" if self._maybe(0.97) else "none", "counters": taken}]
        if self._rich and self._maybe(0.25):
            device["allowMultipleAllocations"] = True
            if "capacity" in device and self._maybe(0.6):
                device["capacity"]["memory"]["requestPolicy"] = rng.choice([
                    {"default": "10Gi", "validRange": {"min": "5Gi", "step": "5Gi", "max": "40Gi"}},
                    {"default": "10Gi", "validValues": ["10Gi", "20Gi", "40Gi"]},
                ])  # fmt: skip
        if self._rich and self._maybe(0.05):
            device["bindingConditions"] = ["example.com/attached"]
            device["bindingFailureConditions"] = ["example.com/failed"]
        return device

    def _class(self, driver: str) -> dict[str, Any]:
        selectors = [{"cel": {"expression": f"device.driver == '{driver}'"}}]
        if self._maybe(0.02):
            selectors.append({"cel": {"expression": "device.attributes['absent.example.com'].x == 1"}})
        return {"metadata": {"name": driver}, "spec": {"selectors": selectors}}

    def _allocated(self) -> list[dict[str, Any]]:
        out: list[dict[str, Any]] = []
        for each in self.slices:
            spec = each["spec"]
            for device in spec.get("devices", ()):
                if not self._maybe(0.25):
                    continue
                result: dict[str, Any] = {
                    "request": "r", "driver": spec["driver"], "pool": spec["pool"]["name"], "device": device["name"]
                }  # fmt: skip
                if device.get("allowMultipleAllocations"):
                    result["shareID"] = f"00000000-0000-0000-0000-00000000000{len(out)}"[:36]
                    if "capacity" in device:
                        result["consumedCapacity"] = {"memory": self._rng.choice(["10Gi", "20Gi", "40Gi"])}
                elif self._maybe(0.1):
                    result["adminAccess"] = True
                out.append({
                    "metadata": {"name": f"a{len(out)}", "namespace": "default"}, "spec": {},
                    "status": {"allocation": {"devices": {"results": [result]}}},
                })  # fmt: skip
        return out

    def _claim(self, name: str) -> dict[str, Any]:
        rng = self._rng
        requests = []
        for number in range(rng.choice([1, 1, 2, 2, 3])):
            request: dict[str, Any] = {"name": f"r{number}"}
            if self._maybe(0.2):
                request["firstAvailable"] = [{"name": f"s{i}", **self._asked(admin=False)} for i in range(2)]
            else:
                request["exactly"] = self._asked(admin=True)
            requests.append(request)
        devices: dict[str, Any] = {"requests": requests}
        if self._maybe(0.45):
            kind = rng.choice(["matchAttribute", "matchAttribute", "distinctAttribute"])
            attribute = rng.choice(["resource.example.com/root", "resource.example.com/root", f"{DRIVER}/model"])
            devices["constraints"] = [{kind: attribute}]
            if self._maybe(0.5):
                devices["constraints"][0]["requests"] = [rng.choice(["r0", "r1", "r1/s0", "r0/s1"])]
        return {"metadata": {"name": name, "namespace": "default"}, "spec": {"devices": devices}}

    def _asked(self, *, admin: bool) -> dict[str, Any]:
        rng = self._rng
        asked: dict[str, Any] = {"deviceClassName": rng.choice([DRIVER, DRIVER, NIC, "any"])}
        if self._maybe(0.12):
            asked["allocationMode"] = "All"
        else:
            asked.update(allocationMode="ExactCount", count=rng.choice([1, 1, 1, 2, 2, 3]))
        if self._maybe(0.3):
            expression = rng.choice([
                f"device.attributes['{DRIVER}'].?model.orValue('') == 'H100'",
                "device.attributes['resource.example.com'].?root.orValue('r9') == 'r1'",
                f"device.attributes['{DRIVER}'].?index.orValue(0) < 2",
                (
                    f"'memory' in device.capacity['{DRIVER}'] && "
                    f"device.capacity['{DRIVER}'].memory.compareTo(quantity('80Gi')) >= 0"
                ),
            ])  # fmt: skip
            asked["selectors"] = [{"cel": {"expression": expression}}]
        if self._maybe(0.15):
            asked["tolerations"] = [{"key": rng.choice(["example.com/ill", "other"]), "operator": "Exists"}]
        if admin and self._maybe(0.06):
            asked["adminAccess"] = True
        if self._rich and self._maybe(0.2):
            asked["capacity"] = {"requests": {"memory": rng.choice(["3Gi", "10Gi", "12Gi", "40Gi", "50Gi"])}}
        return asked
