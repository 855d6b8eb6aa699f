"""A mixed-integer program built row by row, solved by HiGHS."""

from __future__ import annotations

from collections.abc import Mapping

import highspy
import msgspec

INFINITE = highspy.kHighsInf


class Solved(msgspec.Struct):
    """``values`` by column; ``bound`` is proven: nothing is below it. ``proven`` says that it is the optimum."""

    values: list[float]
    objective: float
    bound: float
    proven: bool


class Infeasible(Exception):  # noqa: N818
    """There is no solution."""


class TimedOut(Exception):  # noqa: N818
    """No solution was found (``status``: the time limit was reached); ``bound`` is what was proven until then."""

    def __init__(self, status: str, bound: float) -> None:
        super().__init__(f"no solution: {status} (bound {bound})")
        self.bound = bound


class Model:
    """Integer columns and linear rows; minimises. One thread, so that runs repeat."""

    def __init__(self, time_limit_seconds: float | None = None) -> None:
        self._highs = highspy.Highs()
        for name, value in (
            ("output_flag", False),
            ("threads", 1),
            ("random_seed", 0),
            ("mip_rel_gap", 0.0),
            ("mip_abs_gap", 1e-9),
            ("mip_feasibility_tolerance", 1e-9),
            ("primal_feasibility_tolerance", 1e-9),
        ):
            self._highs.setOptionValue(name, value)
        self._limit = time_limit_seconds
        self._columns = 0
        self._objective: dict[int, float] = {}
        self.column()  # HiGHS refuses to judge the rows of a model without columns

    def column(self, upper: float = 1.0, lower: float = 0.0) -> int:
        """An integer column; its number."""
        self._highs.addCol(0.0, lower, upper, 0, [], [])
        self._highs.changeColIntegrality(self._columns, highspy.HighsVarType.kInteger)
        self._columns += 1
        return self._columns - 1

    def row(
        self, terms: Mapping[int, float], lower: float = -highspy.kHighsInf, upper: float = highspy.kHighsInf
    ) -> None:
        """``lower <= sum of terms <= upper``."""
        kept = {c: v for c, v in terms.items() if v}
        self._highs.addRow(lower, upper, len(kept), list(kept), list(kept.values()))

    def minimise(self, terms: Mapping[int, float]) -> Solved:
        """The least value of an objective. Raises :class:`Infeasible` or :class:`TimedOut`."""
        for column in self._objective:
            self._highs.changeColCost(column, 0.0)
        self._objective = dict(terms)
        for column, value in terms.items():
            self._highs.changeColCost(column, value)
        if self._limit is not None:
            self._highs.setOptionValue("time_limit", self._highs.getRunTime() + self._limit)
        self._highs.run()
        status = self._highs.getModelStatus()
        info = self._highs.getInfo()
        kind = highspy.HighsModelStatus
        if status in (kind.kInfeasible, kind.kUnboundedOrInfeasible):
            raise Infeasible
        values = list(self._highs.getSolution().col_value)
        found = info.primal_solution_status == highspy.SolutionStatus.kSolutionStatusFeasible
        if status == kind.kOptimal:
            return Solved(values, info.objective_function_value, info.objective_function_value, True)
        if not found:
            raise TimedOut(f"{status}", info.mip_dual_bound)
        return Solved(values, info.objective_function_value, info.mip_dual_bound, False)


def add(terms: dict[int, float], column: int, value: float) -> None:
    """Add to a coefficient."""
    terms[column] = terms.get(column, 0.0) + value
