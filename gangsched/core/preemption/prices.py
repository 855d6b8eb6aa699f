"""What an eviction costs as one number that is compared in the order of :func:`~.harm.harm`.

A complex number is compared by numpy lexicographically, the real part first. So it holds the components of harm from
the top as digits of a mixed radix, as many as are exact in the real part and then in the imaginary part, and the work
lost as a fraction below them. Adding prices adds the components as long as no digit overflows: each has room for all
candidates of its kind.
"""

from __future__ import annotations

import math

import msgspec
import numpy as np
import numpy.typing as npt

from gangsched.core.arrays import Bools, distinct
from gangsched.core.preemption.candidates import Candidates
from gangsched.core.preemption.harm import Harm, components

Prices = npt.NDArray[np.complex128]
#: What cannot be had; finite, so that differences stay numbers.
NEVER = 1e300 + 0j
#: Bits of a part that are exact in float64, and those of the imaginary part that are left to the work lost.
_BITS, _WORK_BITS = 52, 22
#: All that could be lost at one priority is divided into so many steps, where that counts before the number of pods.
_LOST = 2**18


def rank(price: complex) -> tuple[float, float]:
    """To sort single prices by; Python compares no complex numbers."""
    return price.real, price.imag


class Digit(msgspec.Struct, frozen=True):
    """One ``component`` of harm (``pdb``, ``gangs``, ``pods``, or ``work`` in their place) at ``level``, and the
    ``weight`` of one more of it.
    """

    component: str
    level: int
    weight: complex


class Tariff:
    """The prices of these candidates: of a pod by itself (``pods``, ``(V,)``), of a pod beyond its budget in addition
    (``beyond``), of interrupting each unit (``units``, without its pods; ``whole`` with them).
    """

    def __init__(self, candidates: Candidates, usable: Bools) -> None:
        c, levels = candidates, distinct(np.concatenate([candidates.levels, candidates.unit_level]))
        of_pod = np.searchsorted(levels, c.levels)[c.level_of]
        of_unit = np.searchsorted(levels, c.unit_level)
        pods = np.bincount(of_pod[usable], minlength=len(levels))
        np.add.at(pods, of_unit, c.unit_size)
        gangs = np.zeros(len(levels), dtype=np.int64)
        np.add.at(gangs, of_unit, c.unit_gangs)
        limits = any(g.budget for g in c.limited)
        sizes: list[tuple[str, int, int]] = [("pdb", 0, len(c) + 1)] if limits else []
        for level, gang_count, pod_count in reversed([*zip(*(a.tolist() for a in (levels, gangs, pods)), strict=True)]):
            sizes += [("gangs", level, gang_count + 1)] if gang_count else []
            sizes += [("pods", level, pod_count + 1)] if pod_count else []
        lost, single = c.unit_size.astype(np.float64), np.ones(len(c))
        counted, work = "pods", c.work / (1.0 + float(c.work.sum()))
        if c.by_work:  # what is lost with pods, in whole parts of all that could be lost, stands for their number
            total = np.bincount(of_pod, weights=c.work, minlength=len(levels))
            single = np.rint(c.work / np.where(total > 0, total, 1.0)[of_pod] * _LOST) + 1.0
            lost = np.array([single[u.pods].sum() for u in c.units_of], dtype=np.float64)
            counted, work = "work", np.full(len(c), 1.0 / (1.0 + len(c)))
            most = _LOST + 2 * len(c) + int(c.unit_size.sum())
            sizes = [(counted, level, most) if kind == "pods" else (kind, level, size) for kind, level, size in sizes]
        self.digits = _digits(sizes)
        weight = {(d.component, d.level): d.weight for d in self.digits}
        self.beyond = weight.get(("pdb", 0), 0j)
        by_pod, by_gang = (
            np.array([weight.get((kind, level), 0j) for level in levels.tolist()], dtype=np.complex128)
            for kind in (counted, "gangs")
        )
        self.pods: Prices = by_pod[of_pod] * single + 1j * work
        self.units: Prices = by_gang[of_unit] * c.unit_gangs
        self.whole: Prices = self.units + by_pod[of_unit] * lost
        if not c.by_work:
            inside = c.leaves_whole
            self.whole += 1j * np.bincount(c.unit[inside], weights=work[inside], minlength=len(c.units_of))

    def read(self, price: complex) -> tuple[tuple[Digit, int], ...]:
        """The components of a price, from the top."""
        real, imaginary = price.real, price.imag
        out = []
        for digit in self.digits:
            if digit.weight.real:
                count = math.floor(real / digit.weight.real + 1e-9)
                real -= count * digit.weight.real
            elif digit.weight.imag:
                count = math.floor(imaginary / digit.weight.imag + 1e-9)
                imaginary -= count * digit.weight.imag
            else:
                count = 0
            out.append((digit, count))
        return tuple(out)

    def price(self, harm: Harm) -> complex:
        """The price of a harm, without work."""
        count = components(harm.beyond_budget, harm.levels)
        return sum((d.weight * count.get((d.component, d.level), 0) for d in self.digits), 0j)

    def harm(self, price: complex) -> Harm | None:
        """The harm of a price without work and names; None if some component has no digit in it."""
        if any(not digit.weight or digit.component == "work" for digit in self.digits):
            return None
        beyond = 0
        levels: dict[int, list[int]] = {}
        for digit, count in self.read(price):
            if digit.component == "pdb":
                beyond = count
            elif count:
                levels.setdefault(digit.level, [0, 0])[digit.component == "pods"] += count
        counts = ((level, gangs, pods) for level, (gangs, pods) in sorted(levels.items(), reverse=True))
        return Harm(beyond, (), tuple(counts), 0, 0.0, ())


def _digits(sizes: list[tuple[str, int, int]]) -> list[Digit]:
    """Digits with room for ``sizes``; those for which there are no bits left weigh nothing."""
    bits = [max(1, math.ceil(math.log2(size))) for _, _, size in sizes]
    out: list[Digit] = []
    used, imaginary = 0, False
    places: list[tuple[bool, int]] = []
    for need in bits:
        if not imaginary and used + need > _BITS:
            used, imaginary = 0, True
        used += need
        places.append((imaginary, used))
    total = {False: sum(b for b, (i, _) in zip(bits, places, strict=True) if not i), True: _BITS - _WORK_BITS}
    for (component, level, _), (imaginary, end) in zip(sizes, places, strict=True):
        exponent = total[imaginary] - end
        weight = 0j
        if exponent >= 0:
            weight = complex(0.0, 2.0**exponent) if imaginary else complex(2.0**exponent, 0.0)
        out.append(Digit(component, level, weight))
    return out
