"""Every victim that the gang can do without comes back, whatever the search has found and however it ended.

As many as possible come back at once: half as many are asked about after a no, twice as many after a yes. So a unit
that must go costs one question and the others few. A unit of which the gang is certain to need the room (by counting,
all units at once) costs none.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np

from gangsched.core.arrays import Ints, isin
from gangsched.core.preemption.fit import Fit


class Returnable(msgspec.Struct, frozen=True, eq=False):
    """Victims that come back together. ``core`` are those of a gang without the members that it can spare, which come
    back if all of it cannot, and each of the others then; empty if there is nothing between.
    """

    slots: Ints
    core: Ints
    order: tuple[object, ...]


def reprieve(fit: Fit, units: Sequence[Returnable]) -> list[Ints]:
    """Give back to the fit, which holds a plan that works, whatever is not needed, the most harmful first (``order``);
    returns what came back.
    """
    back: list[Ints] = []
    left = sorted(units, key=lambda u: u.order)
    while True:
        before = len(left)
        left = _pass(fit, left, back)
        if (fit.monotone and fit.exact) or len(left) == before:
            break  # where fewer victims may help, those refused are asked again once something has changed
    spared: list[Returnable] = []
    for unit in left:
        if 0 < len(unit.core) < len(unit.slots) and fit.returns(unit.core):
            back.append(unit.core)
            rest = unit.slots[~isin(unit.slots, unit.core.tolist())]
            spared += [Returnable(slot, unit.core[:0], (*unit.order, n)) for n, slot in enumerate(rest[:, None])]
    _pass(fit, spared, back)
    return back


def _pass(fit: Fit, units: Sequence[Returnable], back: list[Ints]) -> list[Returnable]:
    """One pass over all units; returns those that stay away."""
    needed: list[Returnable] = []
    left = list(units)
    size = len(left)  # how many are asked about at once: half as many after a no, twice as many after a yes
    refused = 0  # the first of those left that cannot all come back
    changed = True
    while left:
        if changed:
            possible = fit.may_return([u.slots for u in left]).tolist()
            refused = refused if all(possible[:refused]) else 0
            needed += [u for u, may in zip(left, possible, strict=True) if not may]
            left = [u for u, may in zip(left, possible, strict=True) if may]
            changed = False
            continue
        size = max(1, refused // 2) if refused else min(size, len(left))
        if fit.returns(np.concatenate([u.slots for u in left[:size]])):
            back.extend(u.slots for u in left[:size])
            left, refused, size, changed = left[size:], max(0, refused - size), 2 * size, True
        elif size > 1:
            refused = size
        else:
            needed.append(left.pop(0))
            refused = 0
    return needed
