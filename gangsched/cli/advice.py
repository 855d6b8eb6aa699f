"""What a user can do about a gang that does not fit, with the numbers, the labels and the taints in its way."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from gangsched.cli.what_if import State
from gangsched.cli.words import are
from gangsched.core.decision import Decision
from gangsched.core.events import Changed, Gone
from gangsched.core.filters.node import tolerates
from gangsched.core.quota.workloads import quantity
from gangsched.model.records import Node, Pod, Taint
from gangsched.model.selectors import any_node_term_matches
from gangsched.model.words import counted

#: Taints that the node controller puts on nodes; what they say is said otherwise.
_OF_NODES = "node.kubernetes.io/"


def gathering_advice(decision: Decision) -> str:
    """For a gang that is not complete."""
    if "does not exist" in decision.message:
        return f"create the PodGroup {decision.gang.key}; its spec.minMember says how many pods start together"
    what = "remove the scheduling gates" if "gates" in decision.message else "create the missing pods"
    return f"{what}: nothing is scheduled or evicted for the gang before it is complete"


def advice(state: State, decision: Decision) -> Iterator[str]:
    """For a gang that fits nowhere: what the first member without a node lacks."""
    namespace, _, name = decision.unplaced[0].pod.partition("/") if decision.unplaced else ("", "", "")
    pod, nodes = state.world.find(namespace, name), _nodes(state)
    if pod is None or not nodes:
        yield "nodes: there are none" if not nodes else "further nodes that its members may use"
        return
    large = [node for node in nodes if all(_has(node, resource) >= asked for resource, asked in pod.shape.requests)]
    if not large:
        yield from _too_large(pod, nodes)
        return
    chosen = [node for node in large if _selects(pod, node)]
    if not chosen:
        yield from _selected_nothing(pod, large)
        return
    usable = [node for node in chosen if not any(_refused(pod, node))]
    for text, count in Counter(text for node in chosen for text in _refused(pod, node)).items():
        yield f"on {counted(count, 'node')} that it could use otherwise: {text}"
    if usable:
        yield from _short(state, pod, usable)


def _nodes(state: State) -> list[Node]:
    found: dict[str, Node] = {}
    for event in state.events:
        if isinstance(event, Changed) and isinstance(event.record, Node):
            found[event.record.name] = event.record
        elif isinstance(event, Gone) and event.kind == "Node":
            found.pop(event.name, None)
    return list(found.values())


def _has(node: Node, resource: str) -> int:
    return dict(node.allocatable).get(resource, 0)


def _too_large(pod: Pod, nodes: Sequence[Node]) -> Iterator[str]:
    several = False
    for resource, asked in pod.shape.requests:
        largest = max(_has(node, resource) for node in nodes)
        if asked > largest:
            several = True
            yield (
                f"less {resource} in one pod, or larger nodes: {pod.key} asks for {quantity(resource, asked)}, and the"
                f" largest node has {quantity(resource, largest)}"
            )
    if not several:
        yield f"a node that has all at once: {_asked(pod)}"


def _selects(pod: Pod, node: Node) -> bool:
    shape = pod.shape
    return (
        shape.node_name in ("", node.name)
        and all(node.labels.get(key) == value for key, value in shape.node_selector)
        and (shape.node_terms is None or any_node_term_matches(shape.node_terms, node.name, node.labels))
    )


def _selected_nothing(pod: Pod, nodes: Sequence[Node]) -> Iterator[str]:
    missing = [
        f"{key}={value}" for key, value in pod.shape.node_selector if all(n.labels.get(key) != value for n in nodes)
    ]
    where = f"of {counted(len(nodes), 'node')} that {are(len(nodes))} large enough"
    if missing:
        yield f"a node with the label {' and '.join(missing)}, or another nodeSelector: none {where} has it"
    else:
        yield f"another nodeSelector, node affinity or nodeName: none {where} matches"


def _refused(pod: Pod, node: Node) -> Iterator[str]:
    if node.unschedulable:
        yield "kubectl uncordon"
    if not node.ready:
        yield "it is not ready"
    for taint in node.taints:
        mine = taint.effect in ("NoSchedule", "NoExecute") and not taint.key.startswith(_OF_NODES)
        if mine and not tolerates(pod.shape.tolerations, taint):
            yield f"a toleration for the taint {_written(taint)}"


def _written(taint: Taint) -> str:
    return f"{taint.key}{f'={taint.value}' if taint.value else ''}:{taint.effect}"


def _short(state: State, pod: Pod, nodes: Sequence[Node]) -> Iterator[str]:
    taken: dict[str, Counter[str]] = {node.name: Counter() for node in nodes}
    for other in state.world.pods.values():
        if other.bound and other.node in taken:
            taken[other.node].update(dict(other.shape.requests))
    said = False
    for resource, asked in pod.shape.requests:
        most = max(_has(node, resource) - taken[node.name][resource] for node in nodes)
        if asked > most:
            said = True
            free, wanted = quantity(resource, max(0, most)), quantity(resource, asked)
            yield f"room: {pod.key} asks for {wanted} {resource}, and at most {free} is free on one node"
    if not said:
        yield f"room for all members at once: each asks for {_asked(pod)}"


def _asked(pod: Pod) -> str:
    return ", ".join(f"{quantity(r, n)} {r}" for r, n in pod.shape.requests) or "a place"
