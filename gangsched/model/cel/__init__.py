"""The part of CEL, the Common Expression Language, that device selectors are written in.

https://github.com/google/cel-spec defines the language. The functions are those that Kubernetes gives to selectors of
DeviceClasses and ResourceClaims.
"""

from gangsched.model.cel.selector import Device, Selector, compile_selector
from gangsched.model.cel.values import EvaluationError, ExpressionError, UnsupportedExpressionError

__all__ = [
    "Device",
    "EvaluationError",
    "ExpressionError",
    "Selector",
    "UnsupportedExpressionError",
    "compile_selector",
]
