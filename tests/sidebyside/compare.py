"""What one scheduler answered about one pod, and in what two answers differ."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tests.controlplane.client import Object
from tests.controlplane.versions import minor_version


@dataclass
class Answer:
    """``node`` is empty when the pod cannot be scheduled; ``message`` says why not.

    ``feasible`` are the nodes that pass all filters. ``scores`` are weighted, by plug-in and feasible node, ``totals``
    their sums; kube-scheduler has none where only one node is feasible. ``bound`` is False while the pod waits for
    its volumes.
    """

    node: str
    message: str = ""
    scores: dict[str, dict[str, int]] = field(default_factory=dict)
    totals: dict[str, int] = field(default_factory=dict)
    feasible: frozenset[str] = frozenset()
    bound: bool = False


_HEAD = re.compile(r"\d+/\d+ nodes are available")
_COUNT = re.compile(r"(\d+) (.*)")


def reasons(message: str) -> tuple[str, dict[str, int]]:
    """``0/N nodes are available: ...`` taken apart: the head, and the node count of each reason; without what
    follows about preemption, or is said before.
    """
    ours = _HEAD.search(message)  # behind a sentence for people
    text = message[ours.start() if ours else 0 :].split(" preemption: ", maxsplit=1)[0].strip().removesuffix(".")
    head, _, rest = text.partition(": ")
    out: dict[str, int] = {}
    for part in rest.split(", "):
        if found := _COUNT.fullmatch(part.removesuffix(".")):
            out[found[2]] = out.get(found[2], 0) + int(found[1])
        elif part:
            out[part] = out.get(part, 0)
    return head, out


def differences(theirs: Answer, ours: Answer) -> list[str]:
    """Sentences, each about one thing in which our answer is not kube-scheduler's."""
    if bool(theirs.node) != bool(ours.node):
        said = [f"{who}: {a.node or a.message}" for who, a in (("kube-scheduler", theirs), ("ours", ours))]
        return [f"outcome: {'; '.join(said)}"]
    if not theirs.node:
        if reasons(theirs.message) != reasons(ours.message):
            return [f"reasons: kube-scheduler: {theirs.message!r}; ours: {ours.message!r}"]
        return []
    out = []
    if theirs.feasible != ours.feasible:
        theirs_only, ours_only = sorted(theirs.feasible - ours.feasible), sorted(ours.feasible - theirs.feasible)
        return [f"feasible nodes: only theirs {theirs_only}, only ours {ours_only}"]
    if theirs.totals:
        out += [
            text for plugin in sorted(set(theirs.scores) | set(ours.scores)) if (text := _scores(plugin, theirs, ours))
        ]
        best = max(theirs.totals.values())
        if theirs.totals[ours.node] != best:
            leaders = sorted(n for n, total in theirs.totals.items() if total == best)
            out.append(f"choice: ours {ours.node} has {theirs.totals[ours.node]} of {best}, which {leaders} have")
    return out


POD_LEVEL = "pod-level requests count in the score of NodeResourcesFit"
ATTACHED = "a volume that is attached to the node already is not counted a second time for the pod that wants it"
_SUMS_SINCE = 37
_UNLIKE = re.compile(r"'([^']+)': \(")
RESIZED = "of a pod that is resized in place 1.37 scores the largest of three sums, each with defaults"


def explained(pod: Object, cluster: Mapping[str, Sequence[Object]], difference: str) -> str | None:
    """Why a difference is meant to be, as docs/reference/compatibility.md says; None when nothing explains it."""
    whole = (pod["spec"].get("resources") or {}).get("requests")
    if whole and difference.startswith(("score NodeResourcesFit", "choice")):
        return POD_LEVEL
    scored = difference.startswith("score NodeResources")
    if scored and minor_version() >= _SUMS_SINCE and _resized(cluster, difference):
        return RESIZED
    claims = [(v.get("persistentVolumeClaim") or {}).get("claimName") for v in pod["spec"].get("volumes") or ()]
    mine = {
        c["spec"].get("volumeName")
        for c in cluster["PersistentVolumeClaim"]
        if c["metadata"]["namespace"] == pod["metadata"]["namespace"] and c["metadata"]["name"] in claims
    }
    attached = {a["spec"]["source"].get("persistentVolumeName") for a in cluster["VolumeAttachment"]}
    return ATTACHED if mine & attached else None


def _resized(cluster: Mapping[str, Sequence[Object]], difference: str) -> bool:
    """Whether on each node that the difference names a pod is being resized."""
    named = set(_UNLIKE.findall(difference))
    resized = {
        p["spec"].get("nodeName")
        for p in cluster.get("Pod", ())
        if any("resources" in c for c in p.get("status", {}).get("containerStatuses") or ())
    }
    return bool(named) and named <= resized


def _scores(plugin: str, theirs: Answer, ours: Answer) -> str:
    """A plug-in that has nothing to say may be left out, or give all nodes the same."""
    a = theirs.scores.get(plugin, dict.fromkeys(ours.feasible, 0))
    b = ours.scores.get(plugin, dict.fromkeys(ours.feasible, 0))
    if a == b or (len(set(a.values())) == 1 and len(set(b.values())) == 1):
        return ""
    unlike = {node: (a.get(node), b.get(node)) for node in sorted(a | b) if a.get(node) != b.get(node)}
    return f"score {plugin} (kube-scheduler, ours): {unlike}"
