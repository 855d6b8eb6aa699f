"""Nodes before and after a plan, the racks that they are in, and how full nodes are as bars of characters."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from msgspec.structs import replace
from rich.cells import cell_len, set_cell_size
from rich.table import Table
from rich.text import Text

from gangsched.cli.answers import natural
from gangsched.core.decision import Decision
from gangsched.core.events import Changed, Event, Gone
from gangsched.messages import pictures
from gangsched.model import quantity as quantities
from gangsched.model.errors import one_line
from gangsched.model.records import GangId, Node, Pod

#: More nodes are not drawn on a terminal.
MAX_NODES = 16
#: Colours of gangs in the order of their appearance.
COLOURS = ("cyan", "magenta", "yellow", "green", "blue", "red")
#: Labels of nodes whose values are racks, the best first: what the last part of a key has in it.
_RACKS = ("rack", "block", "zone", "region")

_USED, _LEAVING, _FREE, _WALL = "█", "░", "·", "│"


class Placed(NamedTuple):
    """Nodes by name, and the pods that take room on them or are nominated to them."""

    nodes: Mapping[str, Node]
    pods: Sequence[Pod]


def before_and_after(events: Iterable[Event], decisions: Iterable[Decision]) -> tuple[Placed, Placed]:
    """The nodes as they are, with victims and other pods that leave as such, and when the decisions are carried out."""
    nodes: dict[str, Node] = {}
    pods: dict[str, Pod] = {}
    for event in events:
        match event:
            case Changed(Node() as node):
                nodes[node.name] = node
            case Changed(Pod() as pod):
                pods[pod.uid] = pod
            case Gone(kind="Node"):
                nodes.pop(event.name, None)
            case Gone(kind="Pod"):
                pods.pop(event.uid, None)
    return _placed(nodes, pods, decisions)


def _placed(nodes: Mapping[str, Node], pods: Mapping[str, Pod], decisions: Iterable[Decision]) -> tuple[Placed, Placed]:
    leaving: set[str] = set()
    coming: dict[str, str] = {}
    for decision in decisions:
        leaving.update(victim.uid for victim in decision.victims)
        leaving.update(each.uid for each in decision.awaiting)
        coming.update((place.uid, place.node) for place in decision.placements)
    bound = [pod for pod in pods.values() if pod.bound]
    first = [replace(p, deleting_since=p.deleting_since or 0.0) if p.uid in leaving else p for p in bound]
    held = [replace(pods[uid], nominated_node=node) for uid, node in coming.items() if uid in pods]
    stay = [pod for pod in bound if pod.uid not in leaving]
    new = [replace(pods[uid], node=node, nominated_node="") for uid, node in coming.items() if uid in pods]
    return Placed(nodes, [*first, *held]), Placed(nodes, [*stay, *new])


def changed(before: Placed, after: Placed) -> list[str]:
    """The names of the nodes on which something changes."""
    here = {(pod.uid, pod.node) for pod in before.pods if pod.node}
    there = {(pod.uid, pod.node) for pod in after.pods if pod.node}
    return sorted({node for _, node in here ^ there}, key=natural)


def racks(nodes: Iterable[Node]) -> list[tuple[str, list[Node]]]:
    """The nodes by rack, or by the next larger thing that their labels name; all under one name where none does."""
    found = sorted(nodes, key=lambda node: natural(node.name))
    keys = sorted({key for node in found for key in node.labels})
    named = [key for part in _RACKS for key in keys if part in key.rpartition("/")[2]]
    key = next((key for key in named if len({node.labels.get(key) for node in found}) > 1), "")
    out: dict[str, list[Node]] = {}
    for node in found:
        out.setdefault(node.labels.get(key, "") if key else "", []).append(node)
    return sorted(out.items(), key=lambda each: (not each[0], natural(each[0])))


def scarcest(drawn: Iterable[object]) -> str:
    """The resource of which pods ask for the largest share of all nodes; ``cpu`` when they ask for none. Of an object
    that comes several times the first counts.
    """
    room: dict[str, int] = {}
    asked: dict[str, int] = {}
    seen: set[tuple[str, str]] = set()
    for each in drawn:
        match each:
            case Node() if ("Node", each.name) not in seen:
                seen.add(("Node", each.name))
                _add(room, each.allocatable)
            case Pod() if ("Pod", each.uid) not in seen:
                seen.add(("Pod", each.uid))
                _add(asked, each.shape.requests)
    shares = [(asked[r] / room[r], r) for r in sorted(asked) if room.get(r)]
    return max(shares, key=lambda s: s[0])[1] if shares else "cpu"


def _add(amounts: dict[str, int], more: Iterable[tuple[str, int]]) -> None:
    for resource, units in more:
        amounts[resource] = amounts.get(resource, 0) + units


def amount(pod: Pod, resource: str) -> int:
    """Return the amount of a resource that the pod uses, in base units."""
    return dict(pod.shape.requests).get(resource, 0)


def quantity(resource: str, units: int) -> str:
    """``3 CPU``, ``16Gi memory``, ``2 nvidia.com/gpu``."""
    return f"{quantities.render(resource, units)} {'CPU' if resource == 'cpu' else resource}"


class Painter:
    """Draws nodes with the resource that is the scarcest of these objects, and one colour per gang."""

    def __init__(self, drawn: Iterable[object], bar_width: int = 36, most_nodes: int = MAX_NODES) -> None:
        self._most_nodes = most_nodes
        self._width = bar_width
        known = list(drawn)
        self.resource = scarcest(known)
        self._colours: dict[GangId, str] = {}
        for each in known:
            if isinstance(each, Pod) and each.gang not in self._colours:
                self._colours[each.gang] = COLOURS[len(self._colours) % len(COLOURS)]

    def colour(self, pod: Pod) -> str:
        """The colour of the pod's gang."""
        return self._colours.get(pod.gang, "default")

    def nodes(
        self, now: Placed, name_width: int = 20, only: Sequence[str] | None = None, width: int | None = None
    ) -> Table:
        """One line per node, of all or ``only`` these; where it is to be no wider than ``width``, the words about the
        pods are cut off.
        """
        names = sorted(now.nodes if only is None else only, key=natural)
        shown = max((len(_clean(name)) for name in names[: self._most_nodes]), default=0)
        left = None if width is None else max(1, width - min(name_width, shown) - self._width - 2 * len(_WALL) - 2)
        grid = Table.grid(padding=(0, 1))
        grid.add_column(no_wrap=True, style="bold", max_width=name_width, overflow="ellipsis")
        grid.add_column(no_wrap=True)
        grid.add_column(no_wrap=True, max_width=left, overflow="ellipsis")
        here: dict[str, list[Pod]] = {}
        there: dict[str, list[Pod]] = {}
        for pod in now.pods:
            if pod.bound:
                here.setdefault(pod.node, []).append(pod)
            elif pod.nominated_node and not pod.node:
                there.setdefault(pod.nominated_node, []).append(pod)
        for name in names[: self._most_nodes]:
            node = now.nodes[name]
            pods = sorted(here.get(name, ()), key=lambda p: (p.live, p.key))
            held = sorted(there.get(name, ()), key=lambda p: p.key)
            grid.add_row(_clean(name), self._bar(node, pods), self._legend(node, pods, held))
        if len(names) > self._most_nodes:
            grid.add_row(pictures.more_nodes(count=len(names) - self._most_nodes))
        return grid

    def drawn_resource(self, node: Node) -> tuple[str, int]:
        """Return the resource that is drawn of a node, and how much it has: its CPUs if it has none of the scarcest."""
        has = dict(node.allocatable)
        resource = self.resource if has.get(self.resource) else "cpu"
        return resource, has.get(resource, 0)

    def _bar(self, node: Node, pods: Sequence[Pod]) -> Text:
        resource, room = self.drawn_resource(node)
        bar = Text(_WALL, style="dim")
        left = self._width
        for pod, cells in _cells(pods, resource, room, self._width):
            cells = min(left, cells)
            left -= cells
            fill = _USED if pod.live else _LEAVING
            bar.append(_segment(_clean(pod.name), cells, fill), style=self.colour(pod))
        bar.append(_FREE * left, style="dim")
        bar.append(_WALL, style="dim")
        return bar

    def _legend(self, node: Node, pods: Iterable[Pod], held: Sequence[Pod]) -> Text:
        resource, total = self.drawn_resource(node)
        used = sum(amount(p, resource) for p in pods)
        text = Text(f"{quantities.render(resource, used)} of {quantity(resource, total)}", style="dim")
        if held:
            names = ", ".join(_clean(p.name) for p in held)
            text.append(f" → {names}", style=self.colour(held[0]))
        return text


def _cells(pods: Iterable[Pod], resource: str, room: int, width: int) -> Iterator[tuple[Pod, int]]:
    """How many characters of a bar each of the pods takes: one at least, where the node has something."""
    units = 0
    for pod in pods:
        before = round(units / room * width) if room else 0
        units += amount(pod, resource)
        yield pod, max(1, round(units / room * width) - before) if room else 0


def _segment(name: str, cells: int, fill: str) -> str:
    """A pod's part of a bar, with its name in it when there is room for one."""
    label = f"{fill}{fill} {name} "
    if cell_len(label) + 2 > cells:
        label = f"{fill} {name} " if cell_len(name) + 4 <= cells else ""
    return label + fill * (cells - cell_len(label))


def _clean(text: str) -> str:
    """Names come from strangers: nothing of them may steer the terminal."""
    return set_cell_size(one_line(text), min(cell_len(one_line(text)), 60))
