"""Manifests in which single values are another one: numbers, quantities, times, texts and lists at their extremes."""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import yaml

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
NUMBERS = (0, 1, -1, 2**31 - 1, 2**31, 2**53, 2**53 + 1, 2**63 - 1, -(2**63), 10**30, 1e308, 0.5)
QUANTITIES = ("0", "-1", "1m", "1e30", "9007199254740993", "9223372036854775807", "8Ei", "1n", "", "1.5.5", "Ki", "0x1")
TIMES = (
    "0001-01-01T00:00:00Z",
    "9999-12-31T23:59:59.999999999Z",
    "1969-12-31T23:59:59Z",
    "2026-02-30T00:00:00Z",
    "soon",
)
TEXTS = ("", " ", "x" * 300, "a/b/c", "\u202e", "-", "NaN", "true", "2147483648")
COPIES = (2, 40, 300)

Place = tuple[dict[str, Any] | list[Any], Any]


@cache
def documents(folder: Path) -> tuple[dict[str, Any], ...]:
    """All objects of an example."""
    files = sorted(folder.glob("*.yaml"))
    found = (each for path in files for each in yaml.safe_load_all(path.read_text()))
    return tuple(each for each in found if isinstance(each, dict))


def folders() -> list[Path]:
    """The examples that have objects of a cluster."""
    found = sorted(path for path in EXAMPLES.iterdir() if path.is_dir() and path.name != "config")
    return [path for path in found if documents(path)]


def places(node: Any) -> Iterator[Place]:
    """Every place in an object at which there is a value."""
    if isinstance(node, dict):
        for key, value in node.items():
            yield node, key
            yield from places(value)
    elif isinstance(node, list):
        for index, value in enumerate(node):
            yield node, index
            yield from places(value)


def changed(value: Any, chance: random.Random) -> Any:
    """Another value in its place, mostly of the same kind."""
    if isinstance(value, list):
        return chance.choice(([], value * chance.choice(COPIES), None))
    if isinstance(value, dict):
        return chance.choice(({}, None, value))
    if isinstance(value, bool):
        return not value
    known = NUMBERS if isinstance(value, int | float) else (*QUANTITIES, *TIMES, *TEXTS)
    return chance.choice(known if chance.random() < 0.8 else (*NUMBERS, *QUANTITIES, *TIMES, *TEXTS))


def mutated(folder: Path, seed: int) -> str:
    """An example in which one to four values are others; each seed has its own."""
    chance = random.Random(seed)
    objects = copy.deepcopy(list(documents(folder)))
    for _ in range(chance.randint(1, 4)):
        where, key = chance.choice([place for each in objects for place in places(each)])
        where[key] = changed(where[key], chance)
    return yaml.safe_dump_all(objects)
