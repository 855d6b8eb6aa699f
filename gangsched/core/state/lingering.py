"""Pods that still terminate after the end of their grace period: what keeps each of them."""

from __future__ import annotations

from gangsched.messages import lingering
from gangsched.messages.text import join_names
from gangsched.model.records import Node, Pod

#: Names of finalizers in one sentence.
_FEW = 3


def cause(pod: Pod, node: Node | None) -> str:
    """Return what keeps a terminating pod on its ``node``, in words."""
    if pod.finalizers:
        return lingering.FINALIZERS(names=join_names(pod.finalizers, _FEW))
    if node is None:
        return lingering.NO_NODE(node=pod.node)
    return lingering.SILENT(node=node.name) if not node.ready else lingering.NOT_CONFIRMED(node=node.name)


def kept_by(pod: Pod, node: Node | None) -> str:
    """Return the name of a pod, and what keeps it."""
    return lingering.EACH(pod=pod.key, cause=cause(pod, node))


def cure(pod: Pod, node: Node | None) -> str:
    """Return who has to act so that it goes."""
    if pod.finalizers:
        return lingering.REMOVE_FINALIZERS(names=join_names(pod.finalizers, _FEW), pod=pod.key)
    if node is None or not node.ready:
        return lingering.REPAIR(node=pod.node)
    return lingering.LOOK_AT_KUBELET(node=pod.node, pod=pod.key)
