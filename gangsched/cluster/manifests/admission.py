"""What the API server's priority admission does to an object before it is stored.

Rules: https://kubernetes.io/docs/concepts/scheduling-eviction/pod-priority-preemption/ .
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

from gangsched.messages import invalid
from gangsched.messages.text import and_nearest
from gangsched.model import wire
from gangsched.model.errors import FieldError, Place, Problem
from gangsched.model.records import PREEMPT_LOWER, PREEMPT_NEVER

#: PriorityClasses that every cluster has.
BUILT_IN = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
#: The API server refuses more than this for other classes.
MAX_USER_PRIORITY = 1_000_000_000

Prioritised: TypeAlias = wire.PodSpec | wire.UpstreamPodGroupSpec


class PriorityAdmission:
    """Resolves ``priorityClassName`` into a priority and a preemption policy."""

    def __init__(
        self,
        found: Iterable[tuple[Place, wire.PriorityClass]],
        warnings: list[Problem],
        known: Sequence[wire.PriorityClass] = (),
    ) -> None:
        """Take in all classes of the input, beside those that are ``known`` already.

        Raises :class:`~gangsched.model.errors.InputError` for one the API server would refuse.
        """
        self._classes = {name: wire.PriorityClass(value=value) for name, value in BUILT_IN.items()}
        self._classes |= {each.metadata.name: each for each in known}
        self._default = next((each for each in known if each.global_default), None)
        for place, each in found:
            with place.named():
                _check(each)
            self._classes[each.metadata.name] = each
            if each.global_default:
                if self._default is not None:
                    text = invalid.SEVERAL_DEFAULTS
                    warnings.append(place.warning("globalDefault", text))
                if self._default is None or each.value < self._default.value:
                    self._default = each

    def pod(self, meta: wire.ObjectMeta, spec: wire.PodSpec, path: str = "spec") -> None:
        """Set priority and preemption policy of a pod, or of the template at ``path``. Raises :class:`FieldError`."""
        if meta.uid and spec.priority is not None:
            return  # it comes from an API server, which has resolved it with the classes of that time
        if spec.priority_class_name or self._default is not None:
            self._resolve(spec, path)
            return
        if spec.priority not in (None, 0):
            text = invalid.priority_without_class(spec.priority, "pod")
            raise FieldError(f"{path}.priority", text)
        spec.priority = 0

    def group(self, meta: wire.ObjectMeta, spec: wire.UpstreamPodGroupSpec) -> None:
        """Set the priority of a PodGroup that names a class (or takes the default one).

        Without either it stays without a priority of its own, as on a cluster that does not serve the field,
        and its members' priorities count. Raises :class:`FieldError`.
        """
        if meta.uid and spec.priority is not None:
            return
        if spec.priority_class_name or self._default is not None:
            self._resolve(spec, "spec")
        elif spec.priority not in (None, 0):
            text = invalid.priority_without_class(spec.priority, "group")
            raise FieldError("spec.priority", text)

    def _resolve(self, spec: Prioritised, path: str) -> None:
        name = spec.priority_class_name
        found = self._classes.get(name) if name else self._default
        if found is None:
            hint = and_nearest(name, self._classes, 0.7)
            raise FieldError(f"{path}.priorityClassName", invalid.no_priority_class(name, hint))
        name = name or found.metadata.name
        if spec.priority not in (None, found.value):
            text = invalid.priority_not_of_class(spec.priority, found.value, name)
            raise FieldError(f"{path}.priority", text)
        policy = found.preemption_policy or PREEMPT_LOWER
        if spec.preemption_policy not in (None, policy):
            text = invalid.policy_not_of_class(spec.preemption_policy, policy, name)
            raise FieldError(f"{path}.preemptionPolicy", text)
        spec.priority, spec.preemption_policy, spec.priority_class_name = found.value, policy, name


def _check(each: wire.PriorityClass) -> None:
    if each.preemption_policy not in (None, PREEMPT_LOWER, PREEMPT_NEVER):
        text = invalid.neither(repr(each.preemption_policy), PREEMPT_LOWER, PREEMPT_NEVER)
        raise FieldError("preemptionPolicy", text)
    if each.metadata.name not in BUILT_IN and each.value > MAX_USER_PRIORITY:
        text = invalid.priority_too_high(each.value, MAX_USER_PRIORITY)
        raise FieldError("value", text)
    if each.value < -(2**31) or each.value >= 2**31:
        raise FieldError("value", invalid.not_32_bits(each.value))
