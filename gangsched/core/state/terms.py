"""What terms of affinity, anti-affinity and spread count in a simulation, and the domains in which they count it."""

from __future__ import annotations

import numpy as np

from gangsched.core.arrays import Counts, Ints, distinct
from gangsched.core.state.podclass import PodClass
from gangsched.core.state.simulation import Simulation
from gangsched.core.state.termcounts import Carried, Selection, selection_of
from gangsched.model.records import PodShape, PodTerm


class Domains:
    """Nodes by the value of one label key: ``code[row]`` is the domain, -1 where the node has no such label."""

    def __init__(self, sim: Simulation, key: str) -> None:
        column = sim.snapshot.columns.label(key)
        self.code: Ints = column.codes.astype(np.int64)
        self.count = len(column.values)
        self.values = column.values

    @property
    def single(self) -> bool:
        """Is every node in a domain of its own?"""
        return bool((self.code >= 0).all()) and len(distinct(self.code)) == len(self.code)

    def tally(self, rows: Ints, counts: Counts) -> Counts:
        """``(count,)`` pods per domain, where ``counts[i]`` of them are at ``rows[i]``; a row may occur twice."""
        codes = self.code[rows]
        inside = codes >= 0
        return np.bincount(codes[inside], weights=counts[inside], minlength=self.count).astype(np.int64)

    def at(self, counts: Counts) -> Counts:
        """``(N,)`` each node's domain count; 0 where it is in no domain."""
        return np.asarray(np.append(counts, 0)[self.code])  # -1 indexes the 0 at the end


class DomainCounts:
    """Pods, or their weights, by domain of one label, as of now in a simulation: ``counts`` is ``(count,)``."""

    def __init__(self, sim: Simulation, key: str) -> None:
        self.domains = Domains(sim, key)
        self.counts: Counts = np.zeros(self.domains.count, dtype=np.int64)

    def add(self, row: int, amount: int) -> None:
        """So much more at this node; what is in no domain counts nowhere."""
        code = int(self.domains.code[row])
        if code >= 0:
            self.counts[code] += amount

    def add_rows(self, rows: Ints, counts: Counts, weight: int = 1) -> None:
        """So much more, times the weight, at each of these nodes."""
        self.counts += weight * self.domains.tally(rows, counts)

    def at_nodes(self) -> Counts:
        """``(N,)`` each node's domain count; 0 where it is in no domain."""
        return self.domains.at(self.counts)


def includes(sim: Simulation, selection: Selection, pod: PodClass) -> bool:
    """Does the selection include pods of this class?"""
    return sim.snapshot.terms.selects(selection, pod.namespace, pod.labels)


def against(sim: Simulation, shape: PodShape, pod: PodClass) -> list[PodTerm]:
    """The terms by which pods of this shape keep those of the class off."""
    return [term for term in shape.anti_affinity if includes(sim, selection_of(term), pod)]


def rows_of(sim: Simulation, *selections: Selection, leaving: bool) -> tuple[Ints, Counts]:
    """``(rows, counts)`` of the bound pods that all selections include, less those lifted in the simulation.

    A row may occur twice, a count may be negative: only sums over rows mean something. Pods that terminate count
    only with ``leaving``.
    """
    terms = sim.snapshot.terms
    rows, counts = terms.selected(selections).rows(sim.snapshot.node_ids, leaving)
    lifted = terms.among(sim.lifted(), selections, leaving)
    if not len(lifted):
        return rows, counts
    gone = sim.snapshot.table.row[lifted]
    return np.concatenate([rows, gone]), np.concatenate([counts, np.full(len(gone), -1, dtype=np.int64)])


def carried_rows(sim: Simulation, carried: Carried) -> tuple[Ints, Counts]:
    """``(rows, counts)`` of the bound pods that have this term of their own, less those lifted in the simulation."""
    rows, counts = carried.pods.rows(sim.snapshot.node_ids)
    lifted = sim.lifted()
    if not len(lifted):
        return rows, counts
    table = sim.snapshot.table
    shapes, times = np.unique(carried.shapes, return_counts=True)  # a pod may say the same thing twice
    place = np.searchsorted(shapes, table.shape[lifted]).clip(max=len(shapes) - 1)
    bear = shapes[place] == table.shape[lifted]
    return np.concatenate([rows, table.row[lifted[bear]]]), np.concatenate([counts, -times[place[bear]]])
