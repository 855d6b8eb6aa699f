"""How many members of each class a set of nodes can hold together, exactly, for small gangs.

A *state* says how many members of each class have a place; it is a number in mixed radix, so a set of states is the
bits of one integer. Sets are downward closed: whoever can hold five can hold four. Adding a node shifts the set by
each of the node's largest loads and closes it again: a few operations on integers per node, where searching for an
arrangement would try placements one by one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

Vector = tuple[int, ...]


class Lattice:
    """States of ``most[k]`` members of each class k; ``needs`` are ``(classes, number)``: of these classes together so
    many must have a place.
    """

    def __init__(self, most: Sequence[int], needs: Sequence[tuple[Sequence[int], int]]) -> None:
        self.most = tuple(most)
        self.strides: list[int] = []
        self.size = 1
        for number in self.most:
            self.strides.append(self.size)
            self.size *= number + 1
        self._all = (1 << self.size) - 1
        self._up_to = [[self._digit(k, t) for t in range(number + 1)] for k, number in enumerate(self.most)]
        self._fitting: dict[int, int] = {}
        self._short = self._shortfalls(needs)
        self.work = 0

    def _digit(self, k: int, top: int) -> int:
        """The states with at most ``top`` members of class k."""
        stride = self.strides[k]
        block = stride * (self.most[k] + 1)
        return ((1 << stride * (top + 1)) - 1) * (self._all // ((1 << block) - 1))

    def _shortfalls(self, needs: Sequence[tuple[Sequence[int], int]]) -> list[int]:
        """By number: the states in which at most so many members lack a place."""
        states = np.arange(self.size)
        missing = np.zeros(self.size, dtype=np.int64)
        for classes, number in needs:
            have = sum((states // self.strides[k]) % (self.most[k] + 1) for k in classes)
            missing += np.maximum(0, number - have)
        return [
            int.from_bytes(np.packbits(missing <= n, bitorder="little").tobytes(), "little")
            for n in range(int(missing.max()) + 1)
        ]

    def code(self, vector: Vector) -> int:
        """The state with so many members of each class."""
        return sum(n * s for n, s in zip(vector, self.strides, strict=True))

    def vector(self, code: int) -> Vector:
        """So many members of each class are in this state."""
        return tuple((code // s) % (n + 1) for n, s in zip(self.most, self.strides, strict=True))

    def _fits_on(self, code: int) -> int:
        """The states to which ``code`` can be added."""
        found = self._fitting.get(code)
        if found is None:
            found = self._all
            for k, count in enumerate(self.vector(code)):
                found &= self._up_to[k][self.most[k] - count]
            self._fitting[code] = found
        return found

    def limited(self, states: int, most: Iterable[tuple[int, int]]) -> int:
        """Those of the states with at most so many members of these classes."""
        for k, number in most:
            states &= self._up_to[k][min(number, self.most[k])]
        return states

    def closed(self, states: int) -> int:
        """The states, and all that hold no more of any class."""
        for k, number in enumerate(self.most):
            step = 1
            left = number
            while left > 0:
                shift = min(step, left)
                states |= (states & ~self._up_to[k][shift - 1]) >> shift * self.strides[k]
                left -= shift
                step *= 2
        return states

    def added(self, states: int, loads: Sequence[int]) -> int:
        """What is possible with one more node, which can hold each of these loads."""
        self.work += len(loads) + len(self.most)
        out = 0
        for load in loads:
            out |= (states & self._fits_on(load)) << load
        return self.closed(out) if loads else states

    def top(self, states: int) -> tuple[int, ...]:
        """The largest states of a closed set: those that no other one includes."""
        below = 0
        for k in range(len(self.most)):
            below |= (states & ~self._up_to[k][0]) >> self.strides[k]
        out = []
        rest = states & ~below
        while rest:
            lowest = rest & -rest
            out.append(lowest.bit_length() - 1)
            rest ^= lowest
        return tuple(out)

    def shortfall(self, states: int) -> int:
        """The least number of members without a place in any of these states."""
        return next(n for n, mask in enumerate(self._short) if states & mask)

    def goal(self, states: int) -> int:
        """One of the states in which no member lacks a place, the smallest number; -1 when there is none."""
        hit = states & self._short[0]
        return (hit & -hit).bit_length() - 1

    def traced(self, nodes: Sequence[Sequence[int]], target: int) -> list[int] | None:
        """A state for each node, adding up to ``target``, such that a node can hold it; None when there is none."""
        reach = [1]
        for loads in nodes:
            reach.append(self.added(reach[-1], loads))
        if not reach[-1] >> target & 1:
            return None
        out = []
        for number in range(len(nodes) - 1, -1, -1):
            here = 0
            if not reach[number] >> target & 1:
                wanted = self.vector(target)
                for load in nodes[number]:
                    held = tuple(map(min, wanted, self.vector(load)))
                    if reach[number] >> (target - self.code(held)) & 1:
                        here = self.code(held)
                        break
            out.append(here)
            target -= here
        return out[::-1]
