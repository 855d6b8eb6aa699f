"""Random selectors, and devices to try them on."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

from gangsched.model import cel, quantity
from gangsched.model.cel.values import Quantity, Semver

DRIVERS = ("gpu.example.com", "nic.example.com")
_VALUES: dict[str, tuple[Any, ...]] = {
    "bool": (True, False),
    "int": (-1, 0, 5, 80),
    "string": ("", "H100", "h100-80gb", "a.b.c", "ünï"),
    "version": ("1.2.3", "2.0.0-rc.1", "2.0.0"),
}
_AMOUNTS = ("0", "500m", "40Gi", "80Gi", "1")
_NAMES = ("model", "index", "ready", "version", "pcie.example.com/root")


def devices(rng: random.Random, count: int) -> list[dict[str, Any]]:
    """Devices as manifests have them, with attributes that may be missing or of another type."""
    out = []
    for _ in range(count):
        attributes = {}
        for name in _NAMES:
            if rng.random() < 0.75:
                kind = rng.choice([*_VALUES, "string"])
                attributes[name] = {kind: rng.choice(_VALUES[kind])}
        capacity = {"memory": {"value": rng.choice(_AMOUNTS)}} if rng.random() < 0.8 else {}
        out.append({"driver": rng.choice(DRIVERS), "attributes": attributes, "capacity": capacity})
    return out


def device(raw: Mapping[str, Any]) -> cel.Device:
    """The device as selectors of ours see it."""
    attributes = {}
    for name, typed in raw["attributes"].items():
        ((kind, value),) = typed.items()
        attributes[name] = Semver.parse(value) if kind == "version" else value
    capacity = {name: Quantity(quantity.parse(each["value"])) for name, each in raw["capacity"].items()}
    return cel.Device(raw["driver"], attributes, capacity)


class Expressions:
    """Makes expressions by the rules of the grammar, with types that fit more often than not."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng

    def boolean(self, depth: int) -> str:
        """An expression that is true or false, if its parts are what they seem."""
        choose = self._rng.choice
        if depth <= 0:
            return choose(
                [
                    "true",
                    "false",
                    f"{self.attribute()}",
                    "device.allowMultipleAllocations",
                    f"{self.text(0)} in {self.names()}",
                ]
            )
        return choose([
            lambda: f"{self.boolean(depth - 1)} && {self.boolean(depth - 1)}",
            lambda: f"({self.boolean(depth - 1)} || {self.boolean(depth - 1)})",
            lambda: f"!({self.boolean(depth - 1)})",
            lambda: f"({self.boolean(depth - 1)} ? {self.boolean(depth - 1)} : {self.boolean(depth - 1)})",
            lambda: f"{self.anything(depth)} {choose(['==', '!='])} {self.anything(depth)}",
            lambda: f"{self.number(depth)} {choose(['<', '<=', '>', '>=', '=='])} {self.number(depth)}",
            lambda: f"has({self.attribute(dotted=True)})",
            lambda: f"{self.text(depth)}.{choose(['startsWith', 'endsWith', 'contains'])}({self.text(0)})",
            lambda: f"{self.text(depth)}.matches({choose(REGEXES)!r})",
            lambda: f"{self.names()}.{choose(QUANTIFIERS)}(x, x {choose(['==', '!='])} {self.text(0)})",
            lambda: f"[{self.number(0)}, {self.number(0)}].{choose(['exists', 'all'])}(x, x > {self.number(0)})",
            lambda: f"cel.bind(b, {self.attributes()}, b.{choose(_NAMES[:4])} == {self.anything(0)})",
            lambda: f"{self.optional()} == {self.anything(0)}",
            lambda: f"{self.amount()}.{choose(['isGreaterThan', 'isLessThan'])}({self.amount()})",
            lambda: f"{self.amount()}.compareTo({self.amount()}) {choose(['<', '>=', '=='])} 0",
            lambda: f"{self.version()}.{choose(['isGreaterThan', 'isLessThan'])}({self.version()})",
            lambda: f"{self.anything(0)} in [{self.anything(0)}, {self.anything(0)}]",
            lambda: f"{self.text(0)} in device.{choose(['attributes', 'capacity'])}",
            lambda: f"sets.{choose(['contains', 'intersects'])}([{self.text(0)}, {self.text(0)}], [{self.text(0)}])",
            lambda: f"isQuantity({self.text(0)})",
            lambda: f"isSemver({self.text(0)})",
        ])()  # fmt: skip

    def attribute(self, *, dotted: bool = False) -> str:
        """An attribute that the device may have."""
        domain, name = self._rng.choice(DRIVERS), self._rng.choice([*_NAMES[:4], "absent"])
        if self._rng.random() < 0.15:
            domain, name = "pcie.example.com", "root"
        if dotted or self._rng.random() < 0.7:
            return f"device.attributes['{domain}'].{name}"
        return f"device.attributes['{domain}']['{name}']"

    def optional(self) -> str:
        """An attribute, or something else in its place."""
        domain, name = self._rng.choice(DRIVERS), self._rng.choice(_NAMES[:4])
        return f"device.attributes['{domain}'].?{name}.orValue({self.anything(0)})"

    def attributes(self) -> str:
        """The attributes of a domain."""
        return f"device.attributes[{self._rng.choice(DRIVERS)!r}]"

    def names(self) -> str:
        """A map of attributes or capacities."""
        return f"device.{self._rng.choice(['attributes', 'capacity'])}[{self._rng.choice(DRIVERS)!r}]"

    def anything(self, depth: int) -> str:
        """A value of any type."""
        return self._rng.choice([self.attribute, lambda: self.text(depth - 1), lambda: self.number(depth - 1)])()

    def number(self, depth: int) -> str:
        """An integer, or an attribute that may be one."""
        choose = self._rng.choice
        if depth <= 0:
            return choose(["0", "5", "80", "-1", "5.0", "2.5", self.attribute()])
        return choose([
            lambda: f"({self.number(depth - 1)} {choose('+-*/%')} {self.number(depth - 1)})",
            lambda: f"size({self.text(depth - 1)})",
            lambda: f"{self.text(depth - 1)}.size()",
            lambda: f"int({choose([self.text(0), self.number(0)])})",
            lambda: f"{self.text(depth - 1)}.indexOf({self.text(0)})",
            lambda: f"{self.text(depth - 1)}.split('.').size()",
            lambda: f"{self.version()}.{choose(['major', 'minor', 'patch'])}()",
            lambda: f"-{self.number(0)}",
        ])()  # fmt: skip

    def text(self, depth: int) -> str:
        """A string, or an attribute that may be one."""
        choose = self._rng.choice
        if depth <= 0:
            return choose(
                [
                    "''",
                    "'H100'",
                    '"80gb"',
                    "r'a.b'",
                    "'1.2.3'",
                    "'model'",
                    f"'{DRIVERS[0]}'",
                    "device.driver",
                    self.attribute(),
                ]
            )
        return choose([
            lambda: f"{self.text(depth - 1)}.{choose(['lowerAscii', 'upperAscii', 'trim'])}()",
            lambda: f"({self.text(depth - 1)} + {self.text(0)})",
            lambda: f"{self.text(depth - 1)}.substring({choose('012')})",
            lambda: f"{self.text(depth - 1)}.replace('0', {self.text(0)})",
            lambda: f"{self.text(depth - 1)}.find({choose(REGEXES)!r})",
            lambda: f"string({self.number(0)})",
            lambda: f"['a', {self.text(0)}].join('-')",
            lambda: f"{self.text(depth - 1)}.charAt({choose('01')})",
        ])()  # fmt: skip

    def amount(self) -> str:
        """A quantity."""
        written = f"quantity('{self._rng.choice([*_AMOUNTS, 'zz'])}')"
        return self._rng.choice([written, f"device.capacity[{self._rng.choice(DRIVERS)!r}].memory"])

    def version(self) -> str:
        """A version."""
        return self._rng.choice(["semver('1.2.3')", "semver('v2', true)", "semver('x')", self.attribute()])


QUANTIFIERS = ("exists", "all", "exists_one")
REGEXES = (
    "^H",
    "[0-9]+",
    "(?i)h100",
    "a.b|c$",
    "^(h|H)[0-9]{1,3}(-\\d+gb)?$",
    "x*",
    "\\bgb",
    "[^a-z.]+?",
    "(a|b)*c",
    "^$",
)
