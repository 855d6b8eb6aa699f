"""Rules of a ``batch/v1`` Job about failed pods and about its success, in the form of :mod:`.survival`."""

from __future__ import annotations

from gangsched.model import wire
from gangsched.model.records import FailureRule, SuccessRule
from gangsched.model.survival import parse_indexes

#: As many failed pods as an ``int32`` counts: no limit.
_NO_LIMIT = 2**31 - 1


def backoff_limit(spec: wire.JobSpec) -> int:
    """The API server's default: 6, or as good as none where each index has a limit of its own."""
    if spec.backoff_limit is not None:
        return spec.backoff_limit
    return 6 if spec.backoff_limit_per_index is None else _NO_LIMIT


def awaits_end(spec: wire.JobSpec) -> bool:
    """Return whether a pod is counted and replaced when it has ended, not when it begins to terminate."""
    return spec.pod_failure_policy is not None or spec.pod_replacement_policy == "Failed"


def failure_rules(spec: wire.JobSpec) -> tuple[FailureRule, ...]:
    """The rules of its podFailurePolicy that a pod of it may match, in their order."""
    pods = spec.template.spec
    running = {c.name for c in pods.containers or ()}
    running |= {c.name for c in pods.init_containers or () if c.restart_policy == "Always"}
    first = {c.name for c in pods.init_containers or ()} - running
    out = []
    for rule in (spec.pod_failure_policy.rules if spec.pod_failure_policy else None) or ():
        exits = rule.on_exit_codes
        if exits is None:
            conditions = tuple((c.type, c.status) for c in rule.on_pod_conditions or ())
            out.append(FailureRule(rule.action, conditions=conditions))
        elif exits.operator in ("In", "NotIn") and (
            exits.container_name is None or exits.container_name in running | first
        ):
            codes, within = tuple(exits.values or ()), exits.operator == "In"
            named = exits.container_name
            of_one = named is not None and len(running | first) > 1
            out.append(FailureRule(rule.action, codes, within, of_one, named in first))
    return tuple(out)


def success_rules(spec: wire.JobSpec) -> tuple[SuccessRule, ...]:
    """The rules of its successPolicy; one without a number and indexes is met by nothing."""
    out = []
    for rule in (spec.success_policy.rules if spec.success_policy else None) or ():
        if rule.succeeded_indexes is not None:
            indexes = parse_indexes(rule.succeeded_indexes)
            out += [SuccessRule(indexes, rule.succeeded_count)] if indexes else []
        elif rule.succeeded_count is not None:
            out.append(SuccessRule(None, rule.succeeded_count))
    return tuple(out)
