"""Selectors of devices: expressions over one variable, ``device``, that are true or false."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any

from gangsched.model.cel.compiler import DEVICE, Frame, Run, compile_tree
from gangsched.model.cel.functions import BOOL
from gangsched.model.cel.syntax import parse
from gangsched.model.cel.values import (
    DYN,
    CostExceededError,
    Domains,
    EvaluationError,
    ExpressionError,
    Quantity,
    type_of,
)


@dataclass(frozen=True)
class Device:
    """The variables of a selector for a device. Names are ``domain/id``, or ``id`` for those of the driver's own
    domain.

    ``attributes`` are of type bool, int, str or :class:`~gangsched.model.cel.values.Semver`.
    """

    driver: str
    attributes: Mapping[str, Any] = field(default_factory=dict)
    capacity: Mapping[str, Quantity] = field(default_factory=dict)
    allow_multiple_allocations: bool = False

    @cached_property
    def variables(self) -> dict[str, Any]:
        """The fields of the variable ``device``."""
        return {
            "driver": self.driver,
            "allowMultipleAllocations": self.allow_multiple_allocations,
            "attributes": self._by_domain(self.attributes),
            "capacity": self._by_domain(self.capacity),
        }

    def _by_domain(self, named: Mapping[str, Any]) -> Domains:
        out = Domains()
        for name, value in named.items():
            domain, slash, ident = name.partition("/")
            out.setdefault(domain if slash else self.driver, {})[ident if slash else name] = value
        return out


@dataclass(frozen=True)
class Selector:
    """A compiled selector."""

    expression: str
    run: Run

    def matches(self, device: Device) -> bool:
        """Return whether the device is selected. Raises :class:`EvaluationError`, which fails the pod that asks."""
        try:
            found = self.run(Frame(device=device.variables))
        except CostExceededError as error:
            raise EvaluationError(str(error)) from None
        except RecursionError:
            raise EvaluationError("nested too deep") from None
        if type(found) is not bool:
            raise EvaluationError(f"the result is {type_of(found)}, not bool")
        return found


@lru_cache(maxsize=4096)
def compile_selector(expression: str) -> Selector:
    """Return the selector. Raises :class:`ExpressionError` for one that is invalid or not supported."""
    code = compile_tree(parse(expression), {"device": DEVICE})
    if code.kind not in {BOOL, DYN}:
        raise ExpressionError(f"must evaluate to bool or the unknown type, not {code.kind}")
    return Selector(expression, code.run)
