"""A plan as one HTML page: the decisions, and every node before and after them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import groupby
from urllib.parse import quote

from msgspec.structs import replace

from gangsched.cli import page
from gangsched.cli.answers import natural
from gangsched.cli.contracts import Planned
from gangsched.cli.decisions import sentence, word
from gangsched.cli.html_text import escape
from gangsched.cli.page import Box, Row
from gangsched.cli.pictures import Painter, Placed, amount, before_and_after, changed, quantity
from gangsched.cli.render import evidence_of, in_short
from gangsched.core.decision import Decision
from gangsched.core.events import Event, records
from gangsched.messages import pictures
from gangsched.messages.text import pluralize
from gangsched.model.quantity import render
from gangsched.model.records import SINGLE, GangId, Node, Pod

#: Returns the address of a gang or a pod, by namespace, name and, for a pod, kind.
Link = Callable[..., str]
#: A pod that asks for nothing of what is drawn is as wide as this share of its node.
_SLIVER = 0.015
#: So many lines of a kind of evidence are shown of each gang.
_LINES = 6


def plan_page(plan: Planned, of: str) -> str:
    """The whole page about a plan ``of`` something."""
    return page.page(pictures.PLAN, of, plan_content(plan))


def plan_content(plan: Planned) -> page.Content:
    """Return the contents of the page."""
    decisions = [decision for decision, _ in plan.decisions]
    drawn = _Drawn(*before_and_after(plan.events, decisions), decisions)
    lead = [in_short(plan).plain, pictures.drawn(resource=drawn.painter.resource)]
    if not drawn.changes:
        lead.append(pictures.NOTHING_STARTS)
    nodes = page.fitting(drawn.nodes, boxes=drawn.boxes)
    body = f"<h2>{escape(pictures.DECISIONS)}</h2>\n{_decisions(plan)}\n<h2>{escape(pictures.NODES)}</h2>\n{nodes}"
    return page.content(lead, body, [gang.key for gang in drawn.gangs], (page.RUNS, page.NEW, page.LEAVES))


def nodes_content(events: Sequence[Event], lead: Sequence[str], link: Link | None = None) -> page.Content:
    """The nodes with the pods on them now, and when those that stop have left and room that is held is taken. ``link``
    has the address of a gang or a pod, by namespace, name and kind.
    """
    now, _ = before_and_after(events, ())
    held = (replace(p, node=p.nominated_node, nominated_node="") for p in waiting_for_room(events))
    then = Placed(now.nodes, [*(pod for pod in now.pods if pod.deleting_since is None), *held])
    drawn = _Drawn(now, then, (), heads=(pictures.NOW, pictures.HELD_TAKEN), leaves=page.TERMINATES, link=link)
    lead = [*lead, pictures.drawn(resource=drawn.painter.resource)]
    kinds = (page.RUNS, page.NEW, page.TERMINATES)
    names = [gang.key for gang in drawn.gangs]
    links = {gang.key: link(gang.namespace, gang.name) for gang in drawn.gangs} if link is not None else {}
    return page.content(lead, page.fitting(drawn.nodes, boxes=drawn.boxes), names, kinds, links)


def waiting_for_room(events: Iterable[Event]) -> list[Pod]:
    """Pods for which room is held on a node, and that are on none."""
    last = {pod.uid: pod for pod in records(events, Pod)}
    return [pod for pod in last.values() if pod.live and pod.nominated_node and not pod.node]


def summary(events: Sequence[Event], waiting: int) -> str:
    """The first line about a cluster: how much of what pods ask for most is used, and held for gangs; who waits."""
    now, _ = before_and_after(events, ())
    held = waiting_for_room(events)
    resource = Painter([*now.nodes.values(), *now.pods, *held]).resource
    room = sum(dict(node.allocatable).get(resource, 0) for node in now.nodes.values())
    if not room:
        return ""
    used = sum(amount(pod, resource) for pod in now.pods if pod.node in now.nodes)
    kept = min(sum(amount(pod, resource) for pod in held), room)
    return pictures.in_one_line(
        used=render(resource, used),
        room=pictures.gpus(count=render(resource, room)) if resource.endswith("/gpu") else quantity(resource, room),
        held=render(resource, kept),
        gangs=pluralize(waiting, "gang"),
        wait="waits" if waiting == 1 else "wait",
    )


class _Drawn:
    """The nodes of a plan as lines, ``before`` and ``after`` it; pods that are not there after look as ``leaves``."""

    def __init__(
        self,
        before: Placed,
        after: Placed,
        decisions: Sequence[Decision],
        heads: tuple[str, str] = (pictures.BEFORE_PLAN, pictures.AFTER),
        leaves: str = page.LEAVES,
        link: Link | None = None,
    ) -> None:
        self._link = link
        self._nodes = before.nodes
        self._heads, self._leaves = heads, leaves
        self._before, self._after = _by_node(before.pods), _by_node(after.pods)
        self._stays = {pod.uid for pod in before.pods if pod.node} & {pod.uid for pod in after.pods}
        self.boxes = sum(len(pods) for where in (self._before, self._after) for pods in where.values())
        self.painter = Painter([*before.nodes.values(), *before.pods, *after.pods])
        self.changes = set(changed(before, after))
        gangs = [decision.gang for decision in decisions if decision.gang.family != SINGLE and decision.placements]
        gangs += _sorted(p for p in before.pods if p.uid not in self._stays)
        gangs += _sorted([*before.pods, *after.pods])
        self.gangs = list(dict.fromkeys(gangs))
        self._number: Mapping[GangId, int] = {gang: n for n, gang in enumerate(self.gangs)}

    def nodes(self, level: int) -> str:
        """All of them by rack, with so much of each."""
        found = page.racked(self._nodes.values(), level, partial(self._row, level=level), self._title)
        before, after = map(escape, self._heads)
        head = f"<div class='n x'><b></b><s>{before}</s><s>{after}</s><em></em></div>"
        return page.nodes_html(found, 2, axis=head)

    def _title(self, name: str, nodes: Sequence[Node]) -> str:
        resource, room, before, after = self._used(nodes)
        count, has = pluralize(len(nodes), "node"), quantity(resource, room)
        used = render(resource, before)
        if before == after:
            return pictures.rack(name=name, nodes=count, used=used, room=has)
        then = render(resource, after)
        return pictures.rack_changes(name=name, nodes=count, before=used, room=has, after=then)

    def _used(self, nodes: Sequence[Node]) -> tuple[str, int, int, int]:
        """What is drawn of these nodes, how much of it they have, and how much is used before and after."""
        resources = {self.painter.drawn_resource(node)[0] for node in nodes}
        resource = self.painter.resource if self.painter.resource in resources else "cpu"
        room = sum(dict(node.allocatable).get(resource, 0) for node in nodes)
        before, after = (
            sum(amount(pod, resource) for node in nodes for pod in pods.get(node.name, ()))
            for pods in (self._before, self._after)
        )
        return resource, room, before, after

    def _row(self, nodes: Sequence[Node], level: int) -> Row:
        resource, room, before, after = self._used(nodes)
        names = [node.name for node in nodes]
        pods = [[pod for name in names for pod in where.get(name, ())] for where in (self._before, self._after)]
        bars = tuple(tuple(self._boxes(found, resource, room, level)) for found in pods)
        numbers = {self._number[pod.gang] for found in pods for pod in found if pod.gang in self._number}
        has, used, then = quantity(resource, room), render(resource, before), render(resource, after)
        note = pictures.used_of(used=used, room=has)
        if before != after:
            note = pictures.now_and_after(now=used, after=then, room=has)
        anchor = anchor_of(names[0]) if self._link is not None and level != page.RACKS else ""
        return Row(names[0], note, bars, not self.changes.isdisjoint(names), frozenset(numbers), anchor)

    def _boxes(self, pods: Iterable[Pod], resource: str, room: int, level: int) -> Iterable[Box]:
        """Pods that stay come first, so that they have the same place before and after."""

        def order(pod: Pod) -> tuple[bool, int, str]:
            return pod.uid not in self._stays, self._number.get(pod.gang, len(self._number)), pod.key

        left = 0.0
        for _, found in groupby(sorted(pods, key=order), order if level == page.EVERY_POD else lambda p: order(p)[:2]):
            same = list(found)
            first = same[0]
            width = max(sum(amount(pod, resource) for pod in same) / room if room else 0.0, _SLIVER)
            width = min(width, max(0.0, 1.0 - left))
            number = self._number.get(first.gang)
            kind = page.RUNS if first.uid in self._stays else page.NEW if first.live else self._leaves
            yield Box(left, width, kind, number, _label(same), _title(same, resource), link=self._address(same))
            left += width

    def _address(self, pods: Sequence[Pod]) -> str:
        """Return the address of the pod, or of the gang of several."""
        first = pods[0]
        if self._link is None or (len(pods) > 1 and first.gang.family == SINGLE):
            return ""
        return self._link(first.namespace, first.name, "Pod") if len(pods) == 1 else self._link(*first.gang[1:3])


def anchor_of(node: str) -> str:
    """Return the anchor of a node in the page of nodes."""
    return f"node-{quote(node, safe='')}"


def _sorted(pods: Iterable[Pod]) -> list[GangId]:
    """The gangs of these pods, by name."""
    return sorted({pod.gang for pod in pods if pod.gang.family != SINGLE}, key=lambda gang: natural(gang.key))


def _label(pods: Sequence[Pod]) -> str:
    first = pods[0]
    if len(pods) == 1 and first.gang.family == SINGLE:
        return first.name
    name = pictures.SINGLE_PODS if first.gang.family == SINGLE else first.gang.name
    return first.name if len(pods) == 1 else pictures.together(name=name, pods=len(pods))


def _title(pods: Sequence[Pod], resource: str) -> str:
    first = pods[0]
    if len(pods) > 1:
        return _label(pods)
    gang = "" if first.gang.family == SINGLE else f" · {first.gang.key}"
    return f"{first.key}{gang} · priority {first.priority} · {quantity(resource, amount(first, resource))}"


def _by_node(pods: Iterable[Pod]) -> Mapping[str, list[Pod]]:
    out: dict[str, list[Pod]] = {}
    for pod in pods:
        if pod.node:
            out.setdefault(pod.node, []).append(pod)
    return out


def _decisions(plan: Planned) -> str:
    """Each gang with the reason, what to do, and evidence; shorter where there are many."""

    def made(level: int) -> str:
        return "\n".join(_decision(plan, decision, level) for decision, _ in plan.decisions)

    text = page.fitting(made, page.TEXT_BYTES)
    if len(text.encode()) <= page.TEXT_BYTES:
        return text
    most = page.TEXT_BYTES * len(plan.decisions) // len(text.encode())
    shown = [_decision(plan, decision, page.RACKS) for decision, _ in plan.decisions[:most]]
    return "\n".join([*shown, f"<p>{escape(pictures.more_rows(count=len(plan.decisions) - most))}</p>"])


def _decision(plan: Planned, decision: Decision, level: int) -> str:
    about = f"{decision.kind} · priority {decision.priority}"
    action = plan.actions.get(decision.gang, "")
    do = f"<p><strong>do</strong> {escape(action)}</p>" if action else ""
    lines = "".join(page.terms(label, lines, _LINES) for label, lines in plan.beside(decision))
    lines += "" if level == page.RACKS else "".join(evidence_html(decision, 1 if level else _LINES))
    listed = f"<dl>{lines}</dl>" if lines else ""
    first, said = plan.head(decision) or (word(decision), sentence(decision))
    return (
        f"<section><h3>{escape(decision.gang.key)} <small>{escape(about)}</small></h3>"
        f"<p><strong>{escape(first.upper())}</strong> {escape(said)}</p>{do}{listed}</section>"
    )


def evidence_html(decision: Decision, most: int) -> Iterable[str]:
    """Return the facts behind the decision, at most so many lines of each kind."""
    for label, lines, summed in evidence_of(decision, whole=False):
        shown = summed if len(lines) > most and 0 < len(summed) < len(lines) else lines
        yield page.terms(label, [line.plain for line in shown], most)
