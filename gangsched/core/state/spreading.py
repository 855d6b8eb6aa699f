"""Topology spread constraints of a pod: its own, or else the defaults over the pods that belong with it.

Rules: https://kubernetes.io/docs/concepts/scheduling-eviction/topology-spread-constraints/ (cluster-level default
constraints); which pods belong together is kube-scheduler's ``helper.DefaultSelector``.
"""

from __future__ import annotations

import msgspec

from gangsched.core.state.podclass import PodClass
from gangsched.model.records import Labels, LabelSelector, Pod, PodSelector, Requirement, SpreadConstraint
from gangsched.model.selectors import selector_matches

SERVICE = "Service"
_CONTROLLERS = ("ReplicaSet", "StatefulSet", "ReplicationController")

#: kube-scheduler's own defaults. They have no selector: it follows from the Services and the controller of the pod.
SYSTEM_CONSTRAINTS = (
    SpreadConstraint("kubernetes.io/hostname", 3, None, required=False),
    SpreadConstraint("topology.kubernetes.io/zone", 5, None, required=False),
)


class SpreadDefaults(msgspec.Struct, frozen=True):
    """``defaultingType`` and ``defaultConstraints`` of PodTopologySpreadArgs.

    ``kind`` is ``System`` (:data:`SYSTEM_CONSTRAINTS` hold and ``constraints`` is empty) or ``List`` (``constraints``
    hold, which have no selector).
    """

    kind: str = "System"
    constraints: tuple[SpreadConstraint, ...] = ()

    @property
    def rules(self) -> tuple[SpreadConstraint, ...]:
        """The constraints that hold for pods without any, still without a selector."""
        return SYSTEM_CONSTRAINTS if self.kind == "System" else self.constraints


DEFAULTS = SpreadDefaults()


def constraints_of(pod: PodClass, defaults: SpreadDefaults, *, required: bool) -> tuple[SpreadConstraint, ...]:
    """The hard (DoNotSchedule) or soft constraints that hold for pods of this class."""
    if pod.shape.spread:
        return tuple(c for c in pod.shape.spread if c.required is required)
    if pod.spread_selector is None:
        return ()
    selector = pod.spread_selector
    return tuple(msgspec.structs.replace(c, selector=selector) for c in defaults.rules if c.required is required)


class SelectorIndex:
    """Services and controllers by the pods that they select."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str, str], PodSelector] = {}
        self._services: dict[tuple[str, str, str], dict[str, LabelSelector]] = {}
        self._answers: dict[tuple[str, int, str, str], tuple[Labels, LabelSelector | None]] = {}
        self._interned: dict[LabelSelector, LabelSelector] = {}

    def set(self, pod_selector: PodSelector) -> bool:
        """Insert or replace; False when that changes nothing, as most changes of such objects do not."""
        key = (pod_selector.kind, pod_selector.namespace, pod_selector.name)
        if self._known.get(key) == pod_selector:
            return False
        self.drop(*key)
        self._known[key] = pod_selector
        if pod_selector.kind == SERVICE and (place := _filed_under(pod_selector)) is not None:
            assert pod_selector.selector is not None
            self._services.setdefault(place, {})[pod_selector.name] = pod_selector.selector
        self._forget()
        return True

    def drop(self, kind: str, namespace: str, name: str) -> bool:
        """Remove; False when it was not known."""
        old = self._known.pop((kind, namespace, name), None)
        if old is None:
            return False
        if kind == SERVICE and (place := _filed_under(old)) is not None:
            self._services[place].pop(name)
            if not self._services[place]:
                del self._services[place]
        self._forget()
        return True

    def _forget(self) -> None:
        self._answers.clear()
        self._interned.clear()

    def selector_of(self, pod: Pod) -> LabelSelector | None:
        """The labels that all Services of the pod ask for, and what its controller selects; None when that is nothing.

        Equal answers are the same object.
        """
        if not self._known:
            return None
        owner = pod.owner if pod.owner is not None and pod.owner.kind in _CONTROLLERS else None
        kind, name = (owner.kind, owner.name) if owner is not None else ("", "")
        key = (pod.namespace, id(pod.labels), kind, name)
        found = self._answers.get(key)
        if found is None:
            if len(self._answers) > 50_000:
                self._answers.clear()
            answer = self._find(pod, kind, name)
            # The labels are kept beside the answer so that their id cannot become another's.
            found = self._answers[key] = (pod.labels, self._interned.setdefault(answer, answer) if answer else None)
        return found[1]

    def _find(self, pod: Pod, kind: str, name: str) -> LabelSelector | None:
        chosen = [
            selector
            for item in pod.labels.items()
            for selector in self._services.get((pod.namespace, *item), {}).values()
            if selector_matches(selector, pod.labels)
        ]
        controller = self._known.get((kind, pod.namespace, name))
        if controller is not None and controller.selector is not None:
            chosen.append(controller.selector)
        requirements = {r for selector in chosen for r in selector.requirements}
        return LabelSelector(tuple(sorted(requirements, key=_by_key))) if requirements else None


def _by_key(requirement: Requirement) -> tuple[str, str, tuple[str, ...]]:
    return requirement.key, requirement.operator, requirement.values


def _filed_under(service: PodSelector) -> tuple[str, str, str] | None:
    """One label that every pod of the Service has; None for a Service that selects none, or asks for no label."""
    if service.selector is None or not service.selector.requirements:
        return None
    first = service.selector.requirements[0]
    return service.namespace, first.key, first.values[0]
