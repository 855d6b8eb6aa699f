"""Run cases and collect what differs."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from tests.controlplane.client import Object
from tests.sidebyside import gangs, our_side
from tests.sidebyside.checker import violations
from tests.sidebyside.compare import Answer, differences, explained, reasons
from tests.sidebyside.generate import Case, generate
from tests.sidebyside.kube_side import KubeSide
from tests.sidebyside.profiles import DEFAULT, profile_of


@dataclass
class Tally:
    """What a run has found: differences that are ``explained`` (by why), and those that are not; where the ``checker``
    and kube-scheduler differ about which nodes are legal; and our placements, of gangs too, that it calls ``illegal``.
    """

    clusters: int = 0
    pods: int = 0
    scheduled: int = 0
    repeated: int = 0
    reasons: Counter[str] = field(default_factory=Counter)
    scored: Counter[str] = field(default_factory=Counter)
    gangs: Counter[str] = field(default_factory=Counter)
    explained: Counter[str] = field(default_factory=Counter)
    disagreements: list[str] = field(default_factory=list)
    checker: list[str] = field(default_factory=list)
    illegal: list[str] = field(default_factory=list)


#: What kube-scheduler has not seen yet is no disagreement, for its caches follow with a delay: a pod is asked
#: about again after so many seconds.
PATIENCE_SECONDS = (0.1, 0.2, 0.3, 0.4, 0.5)


async def side_by_side(
    kube: KubeSide,
    seed: int,
    count: int,
    *,
    first: int = 0,
    pods_per_cluster: int = 4,
    without: frozenset[str] = frozenset(),
    tell: Callable[[str], None] = lambda _: None,
    make: Callable[[int, int, str], Case] | None = None,
) -> Tally:
    """Compare ``count`` pods of as many random clusters as it takes: those that ``make`` makes of a number, how many
    pods there may be at most, and their schedulerName; by default those of the generator beside this.
    """

    def generated(number: int, most: int, scheduler: str) -> Case:
        return generate(seed, number, min(pods_per_cluster, most), scheduler, without)

    tally = Tally()
    number = first
    while tally.pods < count:
        case = (make or generated)(number, count - tally.pods, profile_of(number))
        await kube.load(case)
        try:
            await _one_cluster(kube, case, seed, tally, tell)
        finally:
            await kube.clear(case)
        tally.clusters += 1
        number += 1
    return tally


async def _one_cluster(kube: KubeSide, case: Case, seed: int, tally: Tally, tell: Callable[[str], None]) -> None:
    for pod, stays in zip(case.pods, case.stays, strict=True):
        theirs = await _one_pod(kube, case, pod, tally, tell)
        tally.pods += 1
        tally.scheduled += bool(theirs.node)
        if not (stays and theirs.bound):
            await kube.withdraw(pod)
    await _gang(kube, case, seed, tally, tell)


async def _gang(kube: KubeSide, case: Case, seed: int, tally: Tally, tell: Callable[[str], None]) -> None:
    pods = gangs.members(case, seed)
    listed = await our_side.read(kube.client, (pods[0]["metadata"]["namespace"], pods[0]["metadata"]["name"]))
    stored = await asyncio.gather(*(kube.client.create(pod) for pod in pods))
    for each in stored:
        listed.add(each)
    outcome, wrong = gangs.judge(listed, stored)
    tally.gangs[outcome] += 1
    if wrong:
        tally.illegal.append(f"case {case.number}, gang {outcome}: {'; '.join(wrong)}")
        tell(tally.illegal[-1])


class _Compared(NamedTuple):
    """One pod's answers and what is wrong: differences, disagreements of the checker, illegal placements."""

    theirs: Answer
    listed: our_side.Listed
    unlike: list[str]
    wrong: list[str]
    illegal: list[str]


async def _compare(kube: KubeSide, pod: Object) -> _Compared:
    name = (pod["metadata"]["namespace"], pod["metadata"]["name"])
    listed = await our_side.read(kube.client, name)
    stored, theirs = await kube.ask(pod)
    listed.add(stored)
    ours = listed.ours(pod["spec"]["schedulerName"]).answer(*name)
    return _Compared(theirs, listed, differences(theirs, ours), *_checked(listed, theirs, ours))


async def _one_pod(kube: KubeSide, case: Case, pod: Object, tally: Tally, tell: Callable[[str], None]) -> Answer:
    compared = await _compare(kube, pod)
    for seconds in PATIENCE_SECONDS:
        if not (compared.unlike or compared.wrong or compared.illegal):
            break
        tally.repeated += 1
        await kube.withdraw(pod)
        await kube.touch(case)
        await asyncio.sleep(seconds)
        compared = await _compare(kube, pod)
    theirs, listed, unlike, wrong, illegal = compared
    where = f"case {case.number} {pod['metadata']['name']}"
    if theirs.message:
        tally.reasons.update(reasons(theirs.message)[1].keys())
    tally.scored.update(plugin for plugin, nodes in theirs.scores.items() if len(set(nodes.values())) > 1)
    told = {text: explained(listed.pod(), listed.cluster(), text) for text in (*unlike, *wrong)}
    tally.explained.update(why for why in told.values() if why)
    open_ones, still = ([text for text in some if not told[text]] for some in (unlike, wrong))
    for found, kept in ((open_ones, tally.disagreements), (still, tally.checker), (illegal, tally.illegal)):
        if found:
            kept.append(f"{where}: {'; '.join(found)}")
            tell(f"{kept[-1]}\n    {json.dumps(pod['spec'])}")
    return theirs


def _checked(listed: our_side.Listed, theirs: Answer, ours: Answer) -> tuple[list[str], list[str]]:
    """What is wrong with the checker, by kube-scheduler's word, and with our placement, by the checker's."""
    cluster, pod = listed.cluster(), listed.pod()
    names = [n["metadata"]["name"] for n in cluster["Node"]]
    found = {name: violations(pod, name, cluster) for name in names}
    feasible = theirs.feasible
    wrong = [f"checker: {name} is not legal: {found[name]}" for name in sorted(feasible) if found[name]]
    if pod["spec"]["schedulerName"] == DEFAULT:  # what a profile forbids beyond the rules is not the checker's business
        wrong += [f"checker: {name} is legal" for name in names if name not in feasible and not found[name]]
    return wrong, [f"illegal: {ours.node}: {found[ours.node]}" for _ in "x" if ours.node and found[ours.node]]
