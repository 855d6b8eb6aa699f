"""From placements to volumes: which claim gets which volume, and how far the cluster is with it.

The simulation has shown that there are volumes for all members; here each open claim is given one, so that no two get
the same. Whether it came to pass is read from the objects, as kube-scheduler's checkBindings does.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

import msgspec

from gangsched.core.decision import Placement
from gangsched.core.state.snapshot import Snapshot
from gangsched.core.volumes.choice import AvailableVolumes, Choices
from gangsched.core.volumes.index import Target, VolumeIndex
from gangsched.messages import causes
from gangsched.model.records import Pod
from gangsched.model.volumes import ClaimKey, PersistentVolumeClaim


class ClaimBinding(msgspec.Struct):
    """One claim of a gang that is being bound: for the member ``pod`` (UID), from ``target``.

    ``asked`` says that it has been written already; ``shown`` that it has been observed. ``ours`` is False
    when another gang with the same claim has taken care of it.
    """

    pod: str
    claim: PersistentVolumeClaim
    target: Target
    asked: bool = False
    shown: bool = False
    ours: bool = True

    @property
    def key(self) -> ClaimKey:
        """``(namespace, name)`` of the claim."""
        return self.claim.key


class ByUid(Protocol):
    """Members of gangs by UID."""

    def __getitem__(self, uid: str, /) -> Pod: ...
    def __contains__(self, uid: str, /) -> bool: ...


def needs_binding(snapshot: Snapshot, pods: ByUid, placements: Iterable[Placement]) -> bool:
    """Return True if any of these members has a claim that is not bound yet."""
    there = (pods[p.uid] for p in placements if p.uid in pods)
    return any(snapshot.volume_choices.unbound(snapshot.class_of(p)) for p in there if p.volumes is not None)


def assign(snapshot: Snapshot, pods: ByUid, placements: Sequence[Placement]) -> list[ClaimBinding] | str:
    """A volume, or a new one, for every claim of these members that is not bound; or why there is none for some.

    Open claims are matched with volumes as a whole (augmenting paths), so that one does not take the only volume of
    another; otherwise each gets the smallest that is free.
    """
    choices = snapshot.volume_choices
    index = choices.index
    snapshot.align_rows()
    found: dict[ClaimKey, ClaimBinding] = {}
    wanting: list[tuple[PersistentVolumeClaim, int, str]] = []
    for place in placements:
        pod = pods[place.uid]
        row = snapshot.row_of.get(place.node, -1)
        for claim in choices.unbound(snapshot.class_of(pod)):
            if claim.key in found:
                continue
            target = index.target(claim)
            reserved = choices.reserved(claim) if target is None else None
            if target is not None:
                ours = claim.key not in index.assumed
                found[claim.key] = ClaimBinding(place.uid, claim, target, asked=True, ours=ours)
            elif reserved is not None and row >= 0 and choices.reach.mask(reserved.node_terms)[row]:
                ref = reserved.claim
                known = ref is not None and ref.uid == claim.uid
                found[claim.key] = ClaimBinding(place.uid, claim, Target(reserved.name, place.node), asked=known)
            else:
                wanting.append((claim, row, place.uid))
                found[claim.key] = ClaimBinding(place.uid, claim, Target("", place.node))
    matched = _matched(choices, [(c, row) for c, row, _ in wanting])
    for claim, row, _ in wanting:
        made, enough = choices.makes(claim)
        name = matched.get(claim.key, "")
        if not name and not (row >= 0 and made[row] and enough[row]):
            return causes.no_volume_for_claim(claim=claim.name)
        binding = found[claim.key]
        binding.target = Target(name, binding.target.node)
    return list(found.values())


def _matched(choices: Choices, claims: Sequence[tuple[PersistentVolumeClaim, int]]) -> dict[ClaimKey, str]:
    """Volumes for claims on the nodes at these rows. Claims for which none can be made come first.

    Each claim takes the first volume that is free, or that becomes free when others take their next best (a shortest
    augmenting path, level by level: with as many claims as volumes paths grow longer than Python's stack is deep).
    """
    options: dict[ClaimKey, list[str]] = {}
    shared: dict[tuple[int, int], tuple[AvailableVolumes, list[str]]] = {}
    for claim, row in claims:
        if row < 0 or choices.reserved(claim) is not None:
            options[claim.key] = []
            continue
        candidates = choices.candidates(claim)
        known = shared.get((id(candidates), row))
        if known is None:  # kept with the candidates, so that their id cannot become another's
            names = [name for name in candidates.names(row) if name not in choices.index.taken]
            known = shared[id(candidates), row] = candidates, names
        options[claim.key] = known[1]
    holder: dict[str, ClaimKey] = {}
    held: dict[ClaimKey, str] = {}

    def give(key: ClaimKey) -> None:
        wanted_by: dict[str, ClaimKey] = {}
        wanting = [key]
        for claim_key in wanting:
            for name in options[claim_key]:
                if name in wanted_by:
                    continue
                wanted_by[name] = claim_key
                if name in holder:
                    wanting.append(holder[name])
                    continue
                passed_on: str | None = name
                while passed_on is not None:
                    volume, taker = passed_on, wanted_by[passed_on]
                    passed_on = held.get(taker)
                    holder[volume], held[taker] = taker, volume
                return

    def urgency(each: tuple[PersistentVolumeClaim, int]) -> tuple[bool, int]:
        claim, row = each
        return (row >= 0 and bool(choices.makes(claim)[0][row]), claim.size)

    for claim, _ in sorted(claims, key=urgency):
        give(claim.key)
    return held


def progress(snapshot: Snapshot, binding: ClaimBinding) -> tuple[bool, str]:
    """Return True if the claim is bound. If it will not be, return the reason with it. The claim that is shown may be
    older than our write.
    """
    claim = snapshot.volume_choices.index.claims.get(binding.key)
    name = binding.claim.name
    if claim is None or claim.uid != binding.claim.uid:
        return False, causes.object_not_found(kind="persistentvolumeclaim", name=name)
    if claim.deleting:
        return False, causes.claim_being_deleted(name=name)
    if claim.phase == "Lost":
        return False, causes.claim_bound_to_nothing(name=name, volume_name=claim.volume_name)
    if claim.bound:
        return _reached(snapshot, binding, claim)
    index = snapshot.volume_choices.index
    if not binding.target.volume:
        if claim.selected_node == binding.target.node:
            binding.shown = True
        elif binding.shown or claim.selected_node:
            return False, causes.provisioning_failed(name=name)
        return False, _given_up(binding, index)
    return False, _promised(binding, claim, index)


def _reached(snapshot: Snapshot, binding: ClaimBinding, claim: PersistentVolumeClaim) -> tuple[bool, str]:
    """Return as :func:`progress` for a claim that is bound: whether the node can reach its volume."""
    choices = snapshot.volume_choices
    volume = choices.index.volumes.get(claim.volume_name)
    if volume is None:
        return False, ""  # it is on its way to us
    row = snapshot.row_of.get(binding.target.node, -1)
    if row < 0 or not choices.reach.mask(volume.node_terms)[row]:
        return False, causes.volume_elsewhere(volume=volume.name, node=binding.target.node)
    return True, ""


def _promised(binding: ClaimBinding, claim: PersistentVolumeClaim, index: VolumeIndex) -> str:
    """Why the volume that was chosen for a claim will not be bound to it; empty while it may."""
    volume = index.volumes.get(binding.target.volume)
    if volume is None:
        return causes.object_not_found(kind="persistentvolume", name=binding.target.volume)
    if volume.claim is None:
        return causes.claim_reference_reset(volume=volume.name) if binding.shown else _given_up(binding, index)
    if volume.claim.uid == claim.uid:
        binding.shown = True
    elif not volume.belongs_to(claim):
        return causes.volume_of_another_claim(volume=volume.name)
    return _given_up(binding, index)


def _given_up(binding: ClaimBinding, index: VolumeIndex) -> str:
    """Why a claim that the cluster has not been seen to know of is not waited for: the gang that asked has gone."""
    if binding.ours or binding.shown or binding.key in index.assumed:
        return ""
    return causes.no_volume_requested(name=binding.claim.name)
