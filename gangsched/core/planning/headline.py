"""The first sentence about a gang that does not start: never, not now, or until when it waits, with numbers.

It is what all commands begin with. It says nothing that changes from one moment to
the next while the answer stays: how many members fit, and not how much is free where.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from gangsched.core.arrays import Bools, Floats
from gangsched.core.decision import Headline, Reason
from gangsched.core.devices import words
from gangsched.core.planning.context import SchedulingContext
from gangsched.core.planning.parts import Lack, Parts
from gangsched.core.planning.topology import Level
from gangsched.core.plugins.node import tolerates
from gangsched.core.quota.assignment import QuotaAssignment
from gangsched.core.quota.flavors import Mode
from gangsched.core.quota.workloads import quantity
from gangsched.core.state.podtable import PodClass
from gangsched.core.state.simulation import Simulation
from gangsched.messages import answers, causes, devices
from gangsched.messages.text import are, pluralize
from gangsched.model.constraints import Taint
from gangsched.model.node_taints import CORDONED, is_of_removal, is_of_state
from gangsched.model.records import Node, Pod
from gangsched.model.selectors import any_node_term_matches

#: So many kinds of reasons of nodes are named.
_FEW = 3


class _Asked(NamedTuple):
    """Pods of one class: how many there are, where they may be, and how many of them an empty node takes. ``room`` is
    the same of all nodes, whether the pods may be there or not.
    """

    pod: Pod
    pods: int
    usable: Bools
    slots: Floats
    room: Floats


def headline(context: SchedulingContext, first: Pod | None, placed: int, reasons: Sequence[Reason]) -> Headline | None:
    """Why the gang does not start: ``placed`` members had their places, and ``reasons`` say why no node takes the
    ``first`` that had none.
    """
    about_pod = [reason.text for reason in reasons if not reason.nodes]
    if about_pod:
        return Headline(answers.WAITS, "; ".join(about_pod))
    if first is None:
        return None
    if not context.world.snapshot.size:
        return Headline(answers.WAITS, answers.NO_NODES)
    anywhere, context.domain = context.domain, None
    try:
        if context.parts is not None:
            never = _parts_never(context, context.parts)
        else:
            never = _never(context, context.simulation())
    finally:
        context.domain = anywhere
    why = _parts_not_now(context) if context.parts is not None else ""
    return never or Headline(answers.NOT_NOW, why or _not_now(context, first, placed, reasons))


def _parts_never(context: SchedulingContext, parts: Parts) -> Headline | None:
    """Why the parts would not fit if the nodes were empty; nothing if they might."""
    tried = parts.assignment
    context.assign(None)
    try:
        found = _never_now(context, list(_classes(context, context.simulation())), context.required)
        everything = context.world.snapshot.table.occupied()
        if found is not None or not context.assign_nearest(everything):
            return found
        lack, (keys, count) = context.lack(everything), parts.levels
        if lack is None:
            return Headline(answers.NEVER_FITS, answers.too_few_domains(keys=keys, count=count))
        return Headline(answers.NEVER_FITS, _too_large_part(lack))
    finally:
        context.assign(tried)


def _parts_not_now(context: SchedulingContext) -> str:
    """The part that does not fit now; empty if each part by itself does."""
    lack = context.lack()
    if lack is None:
        return ""
    return answers.part_fits(found=lack.found, members=lack.members, part=lack.part, domain=lack.domain)


def _too_large_part(lack: Lack) -> str:
    return answers.part_too_large(
        part=lack.part, keys=lack.keys, members=lack.members, domain=lack.domain, found=lack.found
    )


def out_of_quota(gate: QuotaAssignment) -> Headline:
    """The first sentence for a gang without quota: whether its queue could ever hold it."""
    queue, refusing = gate.workload.queue, [each for each in gate.assignment.pod_sets if each.problems]
    found = refusing[-1].shortages if refusing else ()
    if gate.mode == Mode.NO_FIT and found and all(each.lasts for each in found):
        least = max(found, key=lambda each: (each.most - each.asked, each.resource))
        asked, most = quantity(least.resource, least.asked), quantity(least.resource, least.most)
        why = answers.quota_too_small(queue=queue, asked=asked, resource=least.resource, most=most)
        return Headline(answers.NEVER_FITS, why)
    if gate.mode == Mode.NO_FIT and refusing and not found:
        return Headline(answers.NEVER_FITS, answers.no_flavor(queue=queue, why=refusing[-1].problems[0]))
    lacking = [each for each in found if not each.lasts]
    if not lacking:
        return Headline(answers.NOT_NOW, answers.no_quota_yet(queue=queue))
    least = min(lacking, key=lambda each: (each.asked - each.left, each.resource))
    missing = quantity(least.resource, least.asked - least.left)
    return Headline(answers.NOT_NOW, answers.no_quota(queue=queue, missing=missing, resource=least.resource))


def _never(context: SchedulingContext, sim: Simulation) -> Headline | None:
    """Why the gang would not fit if the nodes were empty; nothing if it might."""
    needed = context.required
    asked = list(_classes(context, sim))
    found = _never_now(context, asked, needed)
    if found is None:
        return _no_domain(context, sim, needed)
    away = _away(context, asked, needed) if found.word == answers.NEVER_FITS else ""
    return Headline(answers.NOT_NOW, f"{found.why}; {away}") if away else found


def _away(context: SchedulingContext, asked: Sequence[_Asked], needed: int) -> str:
    """Return the nodes, in words, that are cordoned or not ready and would hold the gang with the others; empty if none
    would.
    """
    nodes, found, most = context.world.snapshot.nodes, Counter[tuple[str, str]](), 0
    for each in asked:
        away = {
            row: why_refused(each.pod, nodes[row]) for row in np.flatnonzero(~each.usable & (each.room > 0)).tolist()
        }
        back = [row for row, why in away.items() if why in _AWAY]
        slots = each.slots.sum() + each.room[back].sum()
        if not slots:
            return ""
        most += int(min(each.pods, slots))
        found |= Counter(away[row] for row in back)
    return "; ".join(_refusal(key, count) for key, count in sorted(found.items())) if most >= needed else ""


def _never_now(context: SchedulingContext, asked: Sequence[_Asked], needed: int) -> Headline | None:
    """Why the nodes that may be used now would not hold the gang if they were empty; nothing if they might."""
    for each in asked:
        if not each.usable.any():
            text, lasts = _no_node(each.pod, context)
            return Headline(answers.NEVER_FITS, text) if lasts else Headline(answers.NOT_NOW, text)
    for each in asked:
        if not each.slots.any():
            return Headline(answers.NEVER_FITS, _too_large(context, each, needed))
        lacking = _no_devices(context, each, needed)
        if lacking:
            return Headline(answers.NEVER_FITS, lacking)
    most = int(sum(min(each.pods, each.slots.sum()) for each in asked))
    if len(asked) == 1 and most < needed:
        return Headline(answers.NEVER_FITS, _too_many(context, asked[0], needed))
    if most < needed:
        nodes = pluralize(int(np.logical_or.reduce([each.usable for each in asked]).sum()), "node")
        why = answers.more_than_nodes_take(nodes=_may_use(nodes), most=most, pods=pluralize(needed, "pod"))
        return Headline(answers.NEVER_FITS, why)
    return None


def _no_devices(context: SchedulingContext, asked: _Asked, needed: int) -> str:
    """Which devices no node has that may be used and is large enough; empty if one has them, or may have them once its
    pools are complete.
    """
    sim = context.simulation()
    demand = sim.class_of(asked.pod).devices
    if demand is None or demand.problem or sim.devices.troubles():
        return ""
    what = words.asked(sim.snapshot.devices, demand)
    if not what or (sim.devices.hopes(demand)[1] & (asked.slots > 0)).any():
        return ""
    each = answers.THE_POD if needed == 1 else answers.EACH_POD
    nearest = words.nearest(sim.devices, demand, np.flatnonzero(asked.slots > 0).tolist(), empty=True)
    return devices.never_has(each=each, asked=what, nearest=nearest)


def _classes(context: SchedulingContext, sim: Simulation) -> Iterator[_Asked]:
    """The members by what they ask for."""
    snapshot, pipeline = context.world.snapshot, context.placer.pipeline
    found: dict[int, tuple[PodClass, list[Pod]]] = {}
    for want in context.wants:
        for pod in want.members:
            pod_class = snapshot.class_of(pod)
            found.setdefault(pod_class.ident, (pod_class, []))[1].append(pod)
    for pod_class, pods in found.values():
        index, amounts = snapshot.vector(pod_class.shape)
        usable = pipeline.static_mask(pod_class, sim)
        here = np.floor((snapshot.allocatable[index] / amounts[:, None]).min(axis=0))
        room = np.maximum(here, 0.0)
        yield _Asked(min(pods, key=lambda p: p.key), len(pods), usable, np.where(usable, room, 0.0), room)


def _no_domain(context: SchedulingContext, sim: Simulation, needed: int) -> Headline | None:
    """Why no domain of those that are required would hold the gang if its nodes were empty."""
    level: Level = context.topology.levels[-1]
    if not level.keys or context.topology.problem or level.only is not None:
        return None
    capacity = context.demand(sim).capacity(level, context.world.snapshot.allocatable)
    best = int(np.argmax(capacity.members))
    if capacity.enough.any() or not needed:
        return None
    domain = ", ".join(level.names[best])
    why = answers.domain_too_small(
        keys=", ".join(level.keys),
        members=pluralize(needed, "member"),
        domain=domain,
        most=int(capacity.members[best]),
    )
    return Headline(answers.NEVER_FITS, why)


def _may_use(nodes: str) -> str:
    return answers.may_use(nodes=nodes)


def _too_large(context: SchedulingContext, asked: _Asked, needed: int) -> str:
    snapshot = context.world.snapshot
    nodes = _may_use(pluralize(int(asked.usable.sum()), "node"))
    each = answers.THE_POD if needed == 1 else answers.EACH_POD
    for resource, amount in asked.pod.shape.requests:
        row = snapshot.resource_row.get(resource)
        largest = int(snapshot.allocatable[row][asked.usable].max()) if row is not None else 0
        served_by = context.world.snapshot.devices.serving_class(resource) if amount and not largest else ""
        if served_by:
            return answers.served_by_class(each=each, asked=_amount(resource, amount), name=served_by)
        if amount > largest:
            return answers.one_pod_too_large(
                each=each, asked=_amount(resource, amount), nodes=nodes, largest=quantity(resource, largest)
            )
    return answers.no_node_has_all(each=each, asked=asked_by(asked.pod))


def _too_many(context: SchedulingContext, asked: _Asked, needed: int) -> str:
    """By the resource of which there is least for so many pods."""
    snapshot = context.world.snapshot
    count, most = pluralize(int(asked.usable.sum()), "node"), int(asked.slots.sum())
    found = []
    for resource, amount in asked.pod.shape.requests:
        row = snapshot.resource_row.get(resource)
        there = snapshot.allocatable[row][asked.usable] if row is not None and amount else None
        if there is not None:
            found.append((int(np.floor(there / amount).sum()), resource, amount, int(there.sum())))
    fewest = min(found, default=None)
    if fewest is None or fewest[2] * needed <= fewest[3]:
        return answers.more_than_nodes_take(nodes=_may_use(count), most=most, pods=pluralize(needed, "pod"))
    _, resource, amount, there = fewest
    return answers.more_than_there_is(
        pods=needed,
        each=_amount(resource, amount),
        asked=quantity(resource, amount * needed),
        nodes=_may_use(count),
        there=quantity(resource, there),
        most=most,
    )


def _amount(resource: str, amount: int) -> str:
    return f"{quantity(resource, amount)} {resource}"


def amounts(of: Sequence[tuple[str, int]]) -> str:
    """Amounts that are requested or exist, such as ``2 cpu, 1Gi memory``."""
    return ", ".join(_amount(resource, amount) for resource, amount in of) or "a place"


def asked_by(pod: Pod) -> str:
    """The requests of a pod."""
    return amounts(pod.shape.requests)


def _not_now(context: SchedulingContext, first: Pod, placed: int, reasons: Sequence[Reason]) -> str:
    members = pluralize(max(context.required, placed + 1), "member")
    lacking = _too_few_devices(context, first, reasons)
    if lacking:
        what, nearest = lacking
        return devices.members_have(placed=placed, members=members, asked=what, nearest=nearest)
    short = {reason.text for reason in reasons if reason.text.startswith("Insufficient ")}
    scarce = [(r, n) for r, n in first.shape.requests if f"Insufficient {r}" in short]
    if scarce and len(short) == len(reasons):
        asked = ", ".join(_amount(resource, amount) for resource, amount in scarce)
        return answers.members_fit(placed=placed, members=members, asked=asked)
    why = answers.NEXT_FINDS_NO_NODE
    if not scarce and reasons:
        why = causes.nodes_refuse(texts=", ".join(sorted(reason.sentence for reason in reasons)))
    return answers.members_fit_beside(placed=placed, members=members, asked=asked_by(first), why=why)


def _too_few_devices(context: SchedulingContext, first: Pod, reasons: Sequence[Reason]) -> tuple[str, str] | None:
    """Which devices the pod lacks, and the node with the most of them, if nodes refuse it for that; else None."""
    if first.devices is None or not any(r.text in (devices.DEVICES_IN_USE, devices.NO_SUCH_DEVICES) for r in reasons):
        return None
    sim = context.simulation()
    pod_class = sim.class_of(first)
    context.placer.extras([pod for want in context.wants for pod in want.members], sim, {})
    what = words.asked(sim.snapshot.devices, pod_class.devices) if pod_class.devices is not None else ""
    if not what or pod_class.devices is None:
        return None
    rows = np.flatnonzero(context.placer.pipeline.static_mask(pod_class, sim)).tolist()
    return what, words.nearest(sim.devices, pod_class.devices, rows, empty=False)


# -- why no node may be used ------------------------------------------------------------------------------------


def _no_node(pod: Pod, context: SchedulingContext) -> tuple[str, bool]:
    """Why every node refuses a pod, the commonest reasons first. The second says whether it is so until nodes or the
    pod are changed: a node that is cordoned or not ready comes back.
    """
    nodes = context.world.snapshot.nodes
    found = Counter(why_refused(pod, node) for node in nodes)
    lasts = not any(key in (*_AWAY, _OTHER) for key in found)
    texts = [_refusal(key, count) for key, count in sorted(found.items(), key=lambda item: (-item[1], item[0]))]
    one = "the pod" if context.required == 1 else "the pods"
    return answers.no_node_will_do(pods=one, why="; ".join(texts[:_FEW])), lasts


_CORDONED, _NOT_READY, _GOING, _OTHER = ("cordoned", ""), ("not ready", ""), ("going", ""), ("other", "")
#: Of nodes that come back.
_AWAY = (_CORDONED, _NOT_READY)


def why_refused(pod: Pod, node: Node) -> tuple[str, str]:
    """The first of the reasons for which a node is none of those that a pod may use, by kind and name."""
    shape = pod.shape
    for key, value in (*shape.node_selector, *shape.within):
        if node.labels.get(key) != value:
            return "label", f"{key}={value}"
    if shape.node_name not in ("", node.name):
        return "selector", ""
    if shape.node_terms is not None and not any_node_term_matches(shape.node_terms, node.name, node.labels):
        return "selector", ""
    hard = [t for t in node.taints if t.effect != "PreferNoSchedule" and not tolerates(shape.tolerations, t)]
    for taint in hard:
        if not is_of_state(taint) and not is_of_removal(taint):
            return "taint", written(taint)
    if any(map(is_of_removal, hard)):
        return _GOING
    if node.unschedulable or any(taint.key == CORDONED for taint in hard):
        return _CORDONED
    return _NOT_READY if not node.ready or hard else _OTHER


def written(taint: Taint) -> str:
    """As kubectl has it: ``key=value:NoSchedule``."""
    return f"{taint.key}{f'={taint.value}' if taint.value else ''}:{taint.effect}"


def _refusal(key: tuple[str, str], count: int) -> str:
    nodes, have = pluralize(count, "node"), "has" if count == 1 else "have"
    match key:
        case ("label", label):
            return answers.not_selected(nodes=nodes, have=have, label=label)
        case ("taint", taint):
            return answers.tainted(nodes=nodes, have=have, taint=taint)
        case ("selector", _):
            return answers.not_matched(nodes=nodes, do="does" if count == 1 else "do")
        case ("cordoned", _):
            return answers.cordoned(nodes=nodes, are=are(count))
        case ("going", _):
            return answers.going(nodes=nodes, are=are(count))
        case ("not ready", _):
            return answers.not_ready(nodes=nodes, are=are(count))
    return answers.refused(nodes=nodes, why=causes.NODE_REFUSED)
