"""What is to stand on a pod, Job, JobSet or volume, as a function of what is intended: the one author of writes.

Nothing here remembers or asks. A write contains what is desired when it is sent, for the first time or again. It is
left out if the object is known to have it, or if an equal write is in flight. It has no number yet.

Two things are no function of what is intended now. A binding cannot be taken back: once it was asked for it stands,
whatever becomes of the plan, as long as its node takes the pod. And a removal that is not wanted any more may still
have been carried out, so what was asked for is kept by its eviction until it is answered, wanted or not.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple, TypeAlias

import msgspec

from gangsched.core.actions import (
    MARK_REASON,
    AllocateClaim,
    AskRemoval,
    Bind,
    BindVolume,
    ClaimRef,
    Consumer,
    HoldNode,
    JobRef,
    Mark,
    NodeRef,
    Nominate,
    ReleaseClaim,
    ReleaseNode,
    Remove,
    ReserveClaim,
    ResumeJob,
    SelectNode,
    SuspendJob,
    Unmark,
    VolumeWrite,
    WithdrawNomination,
    reference,
)
from gangsched.core.actuation.records import EvictionOwner, Intent, Owners, written
from gangsched.core.decision import Placement
from gangsched.core.devices.binding import DeviceBinding
from gangsched.core.devices.index import DeviceIndex
from gangsched.core.devices.written import written as allocation_text
from gangsched.core.ledger.condemned import Condemned, Eviction, unit_of
from gangsched.core.ledger.ledger import Ledger
from gangsched.core.options import Options
from gangsched.core.quota.preemption import REASON_TEXT
from gangsched.core.quota.stop_policy import STOPPED
from gangsched.core.volumes.binding import ClaimBinding
from gangsched.core.world.world import World
from gangsched.messages import notes
from gangsched.model.constraints import Directives
from gangsched.model.devices import ClaimKey
from gangsched.model.records import Node, Pod
from gangsched.model.times import render_time

#: Writes that are repeated, as they are desired then.
Kept: TypeAlias = Bind | WithdrawNomination | Mark | Unmark | HoldNode | ReleaseNode | ReleaseClaim
#: The number of a write that has not been asked for yet.
_UNSENT = 0


class Marked(NamedTuple):
    """The record on a victim: its owners as data, and message and reason of its DisruptionTarget condition. Without a
    message its eviction is only announced, and it does not have that condition yet.
    """

    owners: str
    message: str = ""
    reason: str = ""


def marked(uid: str, named: Eviction | None, now: float) -> Marked | None:
    """What is to stand on the pod ``uid``, which names this eviction as its owner, or is about to; None: nothing, and
    what is there is taken back.
    """
    if named is None:
        return None
    owners = written(Owners.of([owner(named, uid)]))
    return Marked(owners) if now < named.begins else Marked(owners, _text(named, uid), named.grounds.reason)


def owner(eviction: Eviction, uid: str) -> EvictionOwner:
    """An eviction as the owner of one of its victims."""
    victim = eviction.victims.get(uid)
    why = eviction.grounds
    found = EvictionOwner(why.ident, why.cause.value, why.scheduler, why.owner, why.trigger)
    if victim is not None:
        unit, pods = victim.unit, eviction.sizes[unit_of(victim)]
        found = msgspec.structs.replace(
            found, kind=unit.kind, unit=unit.name, pods=pods, partial=victim.partial, method=victim.method
        )
    if eviction.begins:
        found = msgspec.structs.replace(found, not_before=render_time(eviction.begins))
    return found


def _text(eviction: Eviction, uid: str) -> str:
    """The message of the DisruptionTarget condition; where quota decides who may be taken, in the words of Kueue."""
    victim, on = eviction.victims.get(uid), eviction.grounds
    if victim is None or victim.reason not in REASON_TEXT:
        return on.mark
    why = notes.workload_due_to(reason=REASON_TEXT[victim.reason])
    return notes.preempting(scheduler=on.scheduler, higher=why, preemptor=on.owner, trigger=on.trigger)


# -- the writes -------------------------------------------------------------------------------------------


def nominate(place: Placement, intent: Intent) -> Nominate:
    """Nominate a member to where its plan has it."""
    return Nominate(_UNSENT, reference(place), intent.node, intent.plan, written(intent))


def withdraw(pod: Pod, why: str) -> WithdrawNomination:
    """Take back the nomination of a member."""
    return WithdrawNomination(_UNSENT, reference(pod), "Withdrawn", why)


def bind(place: Placement) -> Bind:
    """Bind a member to where its plan has it."""
    return Bind(_UNSENT, reference(place), place.node)


def bind_claim(world: World, binding: ClaimBinding) -> VolumeWrite:
    """Bind the claim of a member to the volume that is chosen for it, or ask for a new volume near its node."""
    pod, claim, target = reference(world.members[binding.pod]), binding.claim, binding.target
    if not target.volume:
        return SelectNode(_UNSENT, pod, claim.name, claim.uid, target.node)
    volume = world.snapshot.volumes.volumes[target.volume]
    taken, version = volume.claim is not None, volume.version
    return BindVolume(_UNSENT, pod, volume.name, volume.uid, version, claim.name, claim.uid, reserved=taken)


def give_devices(index: DeviceIndex, binding: DeviceBinding) -> AllocateClaim | ReserveClaim:
    """Let a claim have the devices that are chosen for it, or let further pods use those that it has."""
    claim = ClaimRef(*binding.key, binding.uid, binding.version)
    consumers = tuple(Consumer(pod.name, pod.uid) for pod in binding.consumers)
    if not binding.new:
        return ReserveClaim(_UNSENT, claim, consumers, binding.allocation)
    text = allocation_text(index.claims[binding.key].spec, binding.allocation, index.classes)
    return AllocateClaim(_UNSENT, claim, consumers, binding.allocation, text)


def release_claim(world: World, key: ClaimKey, uids: Iterable[str]) -> ReleaseClaim | None:
    """Let these pods (UIDs) no longer use a claim; None if it is gone."""
    claim = world.snapshot.devices.claims.get(key)
    if claim is None:
        return None
    names = {uid: pod.name for uid in sorted(uids) if (pod := world.pods.get(uid)) is not None}
    consumers = tuple(Consumer(names.get(uid, ""), uid) for uid in sorted(uids))
    return ReleaseClaim(_UNSENT, ClaimRef(*key, claim.uid, claim.version), consumers)


def mark(condemned: Condemned, pod: Pod, now: float) -> Mark | None:
    """Let a victim bear what is to stand on it; None if no eviction owns it."""
    wanted = marked(pod.uid, condemned.named(pod.uid), now)
    if wanted is None:
        return None
    if not wanted.message:
        return Mark(_UNSENT, reference(pod), "", owners=wanted.owners)
    return Mark(_UNSENT, reference(pod), wanted.message, wanted.reason, wanted.owners)


def mark_or_unmark(condemned: Condemned, pod: Pod, former: str, now: float) -> Mark | Unmark:
    """The same for a pod that has left for ``former`` too, a gang (``ns/name``) or a queue (its kind and its name). If
    none owns it any more it need not leave.
    """
    wanted = mark(condemned, pod, now)
    if wanted is not None:
        return wanted
    kind = former.partition(" ")[0]
    if kind in STOPPED:
        return Unmark(_UNSENT, reference(pod), notes.no_longer_drained(owner=former), STOPPED[kind])
    return Unmark(_UNSENT, reference(pod), notes.no_longer_needed(owner=former), MARK_REASON)


def remove(eviction: Eviction, pod: Pod, evict: bool) -> Remove:
    """Let a victim go, through its budgets if ``evict``; an eviction overwrites its mark, which is restored then."""
    return Remove(_UNSENT, reference(pod), evict, _text(eviction, pod.uid), eviction.grounds.reason)


def ask(pod: Pod, evict: bool) -> AskRemoval:
    """Ask whether a victim may go, before anything is written to any."""
    return AskRemoval(_UNSENT, reference(pod), evict)


def suspend(job: JobRef, version: str, scheduler: str, owner: str, plan: str) -> SuspendJob:
    """Let victims go with their Job, for this gang or queue."""
    return SuspendJob(_UNSENT, job, version, scheduler, owner, plan)


def resume(
    job: JobRef, version: str, scheduler: str, *, held: bool, templates: tuple[Directives, ...] | None
) -> ResumeJob:
    """Let a Job go on, or begin if it was created suspended (``held``), with these additions to its templates."""
    return ResumeJob(_UNSENT, job, version, scheduler, held=held, templates=templates)


def hold(held: Mapping[str, str], node: Node, last: str) -> HoldNode | ReleaseNode:
    """Let a node bear the taint that is to stand on it, as it is ``held``, or none. ``last`` is what was asked for, or
    seen, last.
    """
    value = held.get(node.name)
    return release(node, last) if value is None else HoldNode(_UNSENT, _node(node), value)


def release(node: Node, last: str) -> ReleaseNode:
    """Take the taint off a node, which was seen or asked for with this value last."""
    return ReleaseNode(_UNSENT, _node(node), last)


def _node(node: Node) -> NodeRef:
    at = node.held.place if node.held is not None else None
    taints = len(node.taints) + (at is not None)
    return NodeRef("", node.name, node.uid or node.name, node.version, taints, at)


def still_desired(world: World, ledger: Ledger, options: Options, asked: Kept) -> Kept | str:
    """Return what is desired now instead of this, which had no effect that is known.

    Return a text if nothing is desired any more: why it has come to nothing, or an empty one where it is as desired.
    """
    if isinstance(asked, HoldNode | ReleaseNode):
        node = world.snapshot.node(asked.node.name)
        if isinstance(asked, HoldNode) and asked.node.name not in ledger.held:
            return ""
        if node is None or asked.node.uid not in (node.uid, node.name):
            return ""
        return hold(ledger.held, node, asked.value)
    if isinstance(asked, ReleaseClaim):
        claim = world.snapshot.devices.claims.get((asked.claim.namespace, asked.claim.name))
        return asked if claim is not None and claim.uid == asked.claim.uid else ""
    pod = world.pods.get(asked.pod.uid)
    if pod is None:
        return ""
    match asked:
        case Bind():
            takes = world.still_takes(pod.uid, asked.node, options.plugins_of(pod.scheduler).ignores)
            return asked if takes else notes.node_refused(node=asked.node, pod=pod.key)
        case WithdrawNomination():
            return "" if pod.node else asked
        case _ if not pod.live:
            return ""
        case _:
            return mark(ledger.condemned, pod, world.now) or (asked if isinstance(asked, Unmark) else "")


def nominated_elsewhere(pods: Iterable[Pod], asked: Mapping[str, str], wanted: Mapping[str, str]) -> Iterator[Pod]:
    """Those of these pods that are nominated to a node (by UID in ``asked``, or else as their record says) to which
    they are not ``wanted`` to be: to another one, or to none.
    """
    for pod in pods:
        node = asked.get(pod.uid, pod.nominated_node if pod.on_record else None)
        if node is not None and wanted.get(pod.uid) != node:
            yield pod
