"""Label and node selectors: building them from the wire and matching one object.

Rules: https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/ and
https://kubernetes.io/docs/concepts/scheduling-eviction/assign-pod-node/ .
"""

from __future__ import annotations

from collections.abc import Iterable

from gangsched.messages import invalid
from gangsched.model import wire
from gangsched.model.constraints import (
    DOES_NOT_EXIST,
    EXISTS,
    GT,
    IN,
    LT,
    NOT_IN,
    Labels,
    LabelSelector,
    NodeTerm,
    Requirement,
    Taint,
    Toleration,
)
from gangsched.model.errors import FieldError
from gangsched.model.quantity import integer

_LABEL_OPERATORS = (IN, NOT_IN, EXISTS, DOES_NOT_EXIST)
_NODE_OPERATORS = (*_LABEL_OPERATORS, GT, LT)
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_TOLERATION_OPERATORS = ("Equal", "Exists", "Lt", "Gt")


def requirement(raw: wire.LabelSelectorRequirement, field: str, allowed: tuple[str, ...]) -> Requirement:
    """One checked requirement. Raises :class:`FieldError`."""
    if not raw.key:
        raise FieldError(f"{field}.key", invalid.SELECTOR_WITHOUT_KEY)
    if raw.operator not in allowed:
        raise FieldError(f"{field}.operator", invalid.none_of(value=repr(raw.operator), allowed=", ".join(allowed)))
    values = tuple(raw.values or ())
    if raw.operator in (IN, NOT_IN) and not values:
        raise FieldError(f"{field}.values", invalid.operator_needs_values(operator=raw.operator))
    if raw.operator in (EXISTS, DOES_NOT_EXIST) and values:
        raise FieldError(f"{field}.values", invalid.operator_takes_no_values(operator=raw.operator))
    if raw.operator in (GT, LT) and (len(values) != 1 or integer(values[0]) is None):
        raise FieldError(f"{field}.values", invalid.operator_needs_integer(operator=raw.operator))
    return Requirement(raw.key, raw.operator, tuple(sorted(values)))


def label_selector(raw: wire.LabelSelector | None, field: str) -> LabelSelector | None:
    """A label selector, or None where the API has none (None selects nothing, an empty one everything)."""
    if raw is None:
        return None
    out = [Requirement(k, IN, (v,)) for k, v in sorted((raw.match_labels or {}).items())]
    out += [
        requirement(e, f"{field}.matchExpressions[{i}]", _LABEL_OPERATORS)
        for i, e in enumerate(raw.match_expressions or ())
    ]
    return LabelSelector(tuple(out))


def node_term(raw: wire.NodeSelectorTerm, field: str) -> NodeTerm:
    """One node selector term, checked."""
    return NodeTerm(
        tuple(
            requirement(e, f"{field}.matchExpressions[{i}]", _NODE_OPERATORS)
            for i, e in enumerate(raw.match_expressions or ())
        ),
        tuple(requirement(e, f"{field}.matchFields[{i}]", (IN, NOT_IN)) for i, e in enumerate(raw.match_fields or ())),
    )


def required_node_terms(affinity: wire.Affinity, field: str) -> tuple[NodeTerm, ...] | None:
    """The terms of which a node must match one; None where any node may do."""
    found = affinity.node_affinity.required if affinity.node_affinity is not None else None
    if found is None:
        return None
    path = f"{field}.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"
    return tuple(node_term(t, f"{path}[{i}]") for i, t in enumerate(found.node_selector_terms or ()))


def taint(raw: wire.Taint, field: str) -> Taint:
    """One taint. Raises :class:`FieldError`."""
    if raw.effect not in _EFFECTS:
        raise FieldError(f"{field}.effect", invalid.none_of(value=repr(raw.effect), allowed=", ".join(_EFFECTS)))
    return Taint(raw.key, raw.value, raw.effect)


def toleration(raw: wire.Toleration, field: str) -> Toleration:
    """One toleration. Raises :class:`FieldError`."""
    operator = raw.operator or "Equal"
    if operator not in _TOLERATION_OPERATORS:
        raise FieldError(
            f"{field}.operator", invalid.none_of(value=repr(raw.operator), allowed=", ".join(_TOLERATION_OPERATORS))
        )
    return Toleration(raw.key, operator, raw.value, raw.effect, raw.toleration_seconds)


def requirement_matches(req: Requirement, labels: Labels) -> bool:
    """Return True if one requirement holds for these labels."""
    value = labels.get(req.key)
    match req.operator:
        case "In":
            return value is not None and value in req.values
        case "NotIn":
            return value is None or value not in req.values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt" | "Lt":
            have, bound = integer(value or ""), integer(req.values[0])
            if have is None or bound is None:
                return False
            return have > bound if req.operator == GT else have < bound
    return False


def selector_matches(selector: LabelSelector | None, labels: Labels) -> bool:
    """Return True if the selector selects an object with these labels. None selects nothing."""
    return selector is not None and all(requirement_matches(r, labels) for r in selector.requirements)


def node_term_matches(term: NodeTerm, name: str, labels: Labels) -> bool:
    """Return True if one node selector term matches the node. A term without any requirement matches nothing."""
    if not term.expressions and not term.fields:
        return False
    return all(requirement_matches(r, labels) for r in term.expressions) and all(
        requirement_matches(Requirement("metadata.name", f.operator, f.values), {"metadata.name": name})
        for f in term.fields
        if f.key == "metadata.name"
    )


def any_node_term_matches(terms: Iterable[NodeTerm], name: str, labels: Labels) -> bool:
    """Terms are alternatives: one that matches is enough."""
    return any(node_term_matches(t, name, labels) for t in terms)
