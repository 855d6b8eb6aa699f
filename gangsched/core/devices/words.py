"""What claims ask for, and which node comes nearest to it, in words."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from gangsched.core.devices.demand import DeviceDemand
from gangsched.core.devices.index import DeviceIndex
from gangsched.core.devices.simulated import DevicesInThought
from gangsched.messages import devices
from gangsched.messages.text import pluralize
from gangsched.model.devices import ClaimSpec, DeviceRequest

#: ``device.capacity['driver'].memory.compareTo(quantity('80Gi')) >= 0``
_CAPACITY = re.compile(
    r"device\.capacity\[[^\]]+\]\.(?P<name>\w+)\.compareTo\(quantity\(['\"](?P<value>[^'\"]+)['\"]\)\)\s*(?P<op>>=|>|==)\s*0"
)
#: ``device.attributes['driver'].model == 'a'``
_ATTRIBUTE = re.compile(r"device\.attributes\[[^\]]+\]\.(?P<name>\w+)\s*==\s*['\"]?(?P<value>[^'\"]+)['\"]?")
_OPERATORS = {">=": "≥", ">": ">", "==": "="}
#: Longer selectors are cut.
_LONGEST = 80


def asked(index: DeviceIndex, demand: DeviceDemand) -> str:
    """Return what a pod asks for by claims that have no devices; empty if there is none."""
    specs = [index.specs[number] for number in demand.own]
    specs += [index.claims[key].spec for key in demand.named if key in index.claims and index.allocation(key) is None]
    return ", ".join(text for spec in specs for text in _spec(spec))


def _spec(spec: ClaimSpec) -> Iterator[str]:
    """The requests of a claim, each with the constraints that concern it."""
    texts = [" or ".join(_request(each) for each in request.alternatives) for request in spec.requests]
    for constraint in spec.constraints:
        name = constraint.attribute.rpartition("/")[2]
        words = devices.differing(attribute=name) if constraint.distinct else devices.on_one(attribute=name)
        concerned = [n for n, r in enumerate(spec.requests) if not constraint.requests or r.name in constraint.requests]
        if len(concerned) == len(texts) > 1:
            yield f"{devices.AND.join(texts)} {words}"
            return
        for n in concerned:
            texts[n] = f"{texts[n]} {words}"
    yield from texts


def _request(request: DeviceRequest) -> str:
    count = devices.ALL if request.count is None else pluralize(request.count, "device")
    text = f"{count} {request.device_class}"
    found = ", ".join(map(_selector, request.selectors))
    return devices.with_selectors(what=text, selectors=found) if found else text


def _selector(text: str) -> str:
    """A usual comparison in short, or the expression."""
    short = " ".join(text.split())
    for pattern in (_CAPACITY, _ATTRIBUTE):
        match = pattern.fullmatch(short)
        if match is not None:
            return f"{match['name']} {_OPERATORS[match.groupdict().get('op') or '==']} {match['value']}"
    return short if len(short) <= _LONGEST else f"{short[:_LONGEST]}…"


def nearest(thought: DevicesInThought, demand: DeviceDemand, rows: Iterable[int], *, empty: bool) -> str:
    """Return the name of the node with the most devices of the request that fails, and their number; with ``empty``, if
    no pod had any. Empty text if no node has a pool.
    """
    best: tuple[int, int] | None = None
    for row in rows:
        found = thought.least(demand, row, empty=empty)
        if found is not None and (best is None or found > best[0]):
            best = found, row
    if thought.kinds.error and (best is None or not best[0]):
        return thought.kinds.error
    if best is None or best[0] <= 0:
        return devices.NO_NODE_HAS_ANY if empty else devices.NO_NODE_HAS_ANY_FREE
    name = thought.name(best[1])
    return devices.node_has(node=name, count=best[0]) if empty else devices.node_has_free(node=name, count=best[0])
