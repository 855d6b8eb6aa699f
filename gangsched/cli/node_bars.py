"""Nodes as bars of text: who takes how much of a node, who is leaving, for whom room is held."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.cells import cell_len, set_cell_size
from rich.table import Table
from rich.text import Text

from gangsched.cli.simulation import amount, scarcest
from gangsched.cli.words import natural, quantity
from gangsched.cluster.sim.history import History, Moment
from gangsched.model.errors import one_line
from gangsched.model.quantity import render
from gangsched.model.records import GangId, Node, Pod

MAX_NODES = 16

#: Colours of gangs in the order of their appearance.
COLOURS = ("cyan", "magenta", "yellow", "green", "blue", "red")


class Glyphs:
    """The characters of a picture, or their stand-ins for an output that has only ASCII."""

    def __init__(self, encoding: str) -> None:
        fancy = encoding.lower().replace("-", "").startswith("utf")
        self.used, self.leaving, self.free = ("█", "░", "·") if fancy else ("#", "/", ".")
        self.wall, self.arrow, self.rule = ("│", "→", "─") if fancy else ("|", "->", "-")
        self.bullet = "•" if fancy else "*"


class Painter:
    """Draws nodes with the resource that is the scarcest in this history, and one colour per gang."""

    def __init__(self, history: History, glyphs: Glyphs, bar_width: int = 36, most_nodes: int = MAX_NODES) -> None:
        self.glyphs = glyphs
        self._most_nodes = most_nodes
        self._width = bar_width
        self.resource = scarcest(history)
        self._colours: dict[GangId, str] = {}
        for entry in history:
            if isinstance(entry.record, Pod) and entry.record.gang not in self._colours:
                self._colours[entry.record.gang] = COLOURS[len(self._colours) % len(COLOURS)]

    def colour(self, pod: Pod) -> str:
        """The colour of the pod's gang."""
        return self._colours.get(pod.gang, "default")

    def nodes(self, now: Moment, name_width: int = 20) -> Table:
        """One line per node."""
        grid = Table.grid(padding=(0, 1))
        grid.add_column(no_wrap=True, style="bold", max_width=name_width, overflow="ellipsis")
        grid.add_column(no_wrap=True)
        grid.add_column(no_wrap=True, overflow="ellipsis")
        names = sorted(now.nodes, key=natural)
        for name in names[: self._most_nodes]:
            node = now.nodes[name]
            pods = sorted(now.pods_on(name), key=lambda p: (p.live, p.key))
            held = sorted(
                (p for p in now.pods.values() if p.nominated_node == name and not p.node), key=lambda p: p.key
            )
            grid.add_row(_clean(name), self._bar(node, pods), self._legend(node, pods, held))
        if len(names) > self._most_nodes:
            grid.add_row(f"… {len(names) - self._most_nodes} more")
        return grid

    def _of(self, node: Node) -> tuple[str, int]:
        """The resource that is drawn of a node, and how much it has; its CPUs if it has none of the scarcest."""
        has = dict(node.allocatable)
        resource = self.resource if has.get(self.resource) else "cpu"
        return resource, has.get(resource, 0)

    def _bar(self, node: Node, pods: Sequence[Pod]) -> Text:
        resource, room = self._of(node)
        bar = Text(self.glyphs.wall, style="dim")
        left, units = self._width, 0
        for pod in pods:
            before = round(units / room * self._width) if room else 0
            units += amount(pod, resource)
            cells = min(left, max(1, round(units / room * self._width) - before)) if room else 0
            left -= cells
            fill = self.glyphs.used if pod.live else self.glyphs.leaving
            bar.append(_segment(_clean(pod.name), cells, fill), style=self.colour(pod))
        bar.append(self.glyphs.free * left, style="dim")
        bar.append(self.glyphs.wall, style="dim")
        return bar

    def _legend(self, node: Node, pods: Iterable[Pod], held: Sequence[Pod]) -> Text:
        resource, total = self._of(node)
        used = sum(amount(p, resource) for p in pods)
        text = Text(f"{render(resource, used)} of {quantity(resource, total)}", style="dim")
        if held:
            names = ", ".join(_clean(p.name) for p in held)
            text.append(f" {self.glyphs.arrow} {names}", style=self.colour(held[0]))
        return text


def _segment(name: str, cells: int, fill: str) -> str:
    """A pod's part of a bar, with its name in it when there is room for one."""
    label = f"{fill}{fill} {name} "
    if cell_len(label) + 2 > cells:
        label = f"{fill} {name} " if cell_len(name) + 4 <= cells else ""
    return label + fill * (cells - cell_len(label))


def _clean(text: str) -> str:
    """Names come from strangers: nothing of them may steer the terminal."""
    return set_cell_size(one_line(text), min(cell_len(one_line(text)), 60))
