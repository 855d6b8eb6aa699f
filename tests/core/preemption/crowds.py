"""Tiny crowded clusters and gangs of two or three whose members keep every kind of rule."""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import combinations

import numpy as np

from gangsched.core.preemption.candidates import Prices, Tariff
from gangsched.core.preemption.node_prices import MAY, Offer
from gangsched.core.preemption.places import Placing
from gangsched.model.constraints import PodTerm, SpreadConstraint
from tests.builders import PodBuilder, gang, node, pod, selects
from tests.core.harness import Built
from tests.core.preemption.asked import Asked

ZONE, HOSTNAME = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
Dress = Callable[[PodBuilder, int], PodBuilder]


def self_term(key: str, **labels: str) -> PodTerm:
    """A term that selects members, or pods with these labels."""
    return PodTerm(key, selects(**(labels or {"job": "g"})), ("d",))


RULES: dict[str, Dress] = {
    "alike": lambda m, _: m,
    "two kinds": lambda m, n: m.cpu(1) if n else m,
    "three kinds": lambda m, n: m.cpu(4 - n),
    "kinds of two zones": lambda m, n: m.selector(**{ZONE: f"z{n % 2}"}),
    "one per node": lambda m, _: m.shape(anti_affinity=(self_term(HOSTNAME),)),
    "one per zone": lambda m, _: m.shape(anti_affinity=(self_term(ZONE),)),
    "one zone": lambda m, _: m.shape(affinity=(self_term(ZONE),)),
    "even over zones": lambda m, _: m.shape(spread=(SpreadConstraint(ZONE, 1, selects(job="g"), required=True),)),
    "away from x on a node": lambda m, _: m.shape(anti_affinity=(self_term(HOSTNAME, app="x"),)),
    "away from x in a zone": lambda m, _: m.shape(anti_affinity=(self_term(ZONE, app="x"),)),
    "near x": lambda m, _: m.shape(affinity=(self_term(ZONE, app="x"),)),
    "a port of the node": lambda m, _: m.port(80),
    "a port, and two kinds": lambda m, n: m.port(80 + n % 2).cpu(2 + n % 2),
}


def crowd(seed: int, rule: str) -> list[Built]:
    """Eight pods on four nodes in two zones, and a gang of two or three. Pods that members want near them stay."""
    chance, dress, stay = random.Random(seed), RULES[rule], 9 if rule.startswith("near") else 0
    out: list[Built] = []
    for row in range(4):
        name, used = f"n{row}", 0
        for number in range(2):
            size, app = chance.randint(1, 3), chance.choice("xyy")
            used += size
            made = pod(f"v{row}{number}").cpu(size).priority(chance.choice((1, 1, 2, 3))).label(app=app)
            made = made.priority(stay) if stay and app == "x" else made
            out.append((made.port(80) if chance.random() < 0.3 else made).on(name))
        out.append(node(name).cpu(used + chance.randint(0, 2)).label(**{ZONE: f"z{row % 2}"}))
    count = chance.randint(2, 3)
    size = chance.randint(2, 4)
    out += [dress(pod(f"g{n}").cpu(size).priority(9).label(job="g").gang("g"), n) for n in range(count)]
    return [*out, gang("g").min(count)]


def tariff(made: Asked) -> Prices:
    """``(V,)`` the price of each pod."""
    return Tariff(made.candidates, made.candidates.single).pods


def found_and_least(made: Asked) -> tuple[Placing | None, complex | None]:
    """The places found, and the least price of any set of pods without which the gang fits."""
    candidates = made.candidates
    price = tariff(made)
    found = made.places().best(Offer(np.full(candidates.size, MAY), price))
    fit, best = made.fit(), None
    for size in range(candidates.size + 1):
        for some in combinations(range(candidates.size), size):
            paid = complex(price[list(some)].sum())
            if best is None or (paid.real, paid.imag) < (best.real, best.imag):
                fit.remove(candidates.slot[list(some)])
                best = paid if fit.fits() else best
                fit.give_back(candidates.slot[list(some)])
    return found, best
