"""Why a gang is not complete, in words: what it lacks before it can be decided, and what keeps further members."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Iterator

from gangsched.core.state.census import Census
from gangsched.core.state.membership import ONLY_WAITING, Membership
from gangsched.messages import causes
from gangsched.model.dialects import minimum_key, needs_object, role_of
from gangsched.model.records import SINGLE, Gang, GangId


def problem(membership: Membership, gangs: Iterable[GangId]) -> str:
    """Why these gangs cannot be decided together yet, in words; empty when they can."""
    listed = list(gangs)
    out = [membership.group(listed[0])[1]] if listed else []
    for gang in listed:
        text = missing(membership, gang, membership.census(gang))
        if text:
            out.append(text if len(listed) == 1 else f"{gang.key}: {text}")
    return "; ".join(text for text in out if text)


def missing(membership: Membership, gang: GangId, census: Census) -> str:
    """Why the gang cannot be decided yet, in words; empty when it can."""
    spec = membership.spec(gang)
    if spec is None:
        if gang.family == SINGLE:
            return causes.not_grouped(by=next(pod.ungrouped for pod in membership.pods(gang)))
        if any(needs_object(p) for p in membership.pods(gang)):
            return causes.group_missing(gang=gang.key)
        return causes.no_minimum(gang=gang.key, annotation=minimum_key(gang.family))
    if spec.mistake is not None:
        is_object = (gang.family, gang.namespace, gang.name) in membership.objects
        said = causes.group_refused(gang=gang.key) if is_object else causes.GROUP_INVALID
        return f"{said}: {spec.mistake}"
    if spec.unowned:
        return spec.unowned
    present = len(census.pending) + membership.counts_towards_minimum(gang, spec, census)
    lacking = spec.min_member - present
    if lacking <= 0:
        return _without_roles(membership, gang, spec, census)
    if not census.gated:
        bound = causes.and_bound(count=len(census.bound)) if census.bound else ""
        text = causes.members_missing(present=present, min_member=spec.min_member, bound=bound, lacking=lacking)
        return "; ".join((text, *(list(_elsewhere(membership, gang)) or _refused(membership, gang))))
    unowned = [p.unowned for p in census.gated if p.unowned]
    if unowned and gang.family == SINGLE:
        return unowned[0]
    if unowned:
        text = causes.members_without_owner(
            present=present, min_member=spec.min_member, count=len(unowned), why=min(unowned)
        )
        return text if len(census.gated) >= lacking else f"{text}, {lacking - len(census.gated)} missing"
    gates = ", ".join(sorted({gate for p in census.gated for gate in p.gates}))
    if gang.family == SINGLE:
        return causes.waits_for_gates(gates=gates)
    text = causes.members_gated(present=present, min_member=spec.min_member, count=len(census.gated))
    text += f" ({gates})"
    return text if len(census.gated) >= lacking else f"{text}, {lacking - len(census.gated)} missing"


def _elsewhere(membership: Membership, gang: GangId) -> Iterator[str]:
    """Yield the pods of the group that are no members because another scheduler places them, in words."""
    for scheduler in sorted(membership.of_scheduler) if gang.family != SINGLE else ():
        other = gang._replace(scheduler=scheduler)
        found = [pod for pod in membership.pods(other) if pod.live] if other != gang else []
        if len(found) == 1:
            yield causes.names_scheduler(pod=found[0].key, scheduler=scheduler)
        elif found:
            yield causes.name_scheduler(pod=found[0].key, more=len(found) - 1, scheduler=scheduler)


def _refused(membership: Membership, gang: GangId) -> list[str]:
    """Where it is written that pods are refused when they are created: in Events, which are not watched."""
    owners = {(p.owner.kind, p.owner.name) for p in membership.pods(gang) if p.owner is not None}
    named = [f"{kind} {gang.namespace}/{name}" for kind, name in owners]
    return [causes.see_events(owner=named[0] if len(named) == 1 else "its owners")] if named else []


def _without_roles(membership: Membership, gang: GangId, spec: Gang, census: Census) -> str:
    """Return the role with too few members, in words; empty for none."""
    lacking = membership.short_of(gang, spec)
    ready = Counter(role_of(pod, spec) for pod in census.pending) if lacking else Counter()
    for role, short in lacking.items():
        if ready[role] < short:
            return causes.role_missing(short=short - ready[role], role=role)
    return ""


def without(membership: Membership, gang: GangId, uids: Container[str]) -> str:
    """Why further members of a gang may not start when those of these pods leave that are bound; empty when it is
    whole all the same. Alone they would be less than the gang needs, and gone tomorrow like the others.
    """
    spec, census = membership.spec(gang), membership.census(gang)
    if spec is None or spec.match_policy == ONLY_WAITING:
        return ""
    leaving = sum(pod.uid in uids for pod in census.bound)
    if not leaving or membership.counts_towards_minimum(gang, spec, census) - leaving >= spec.min_member:
        return ""
    return causes.members_leave(leaving=leaving, count=len(census.bound))
