"""What is said of a gang that quota alone refuses. Where nobody may be displaced for it, nothing is simulated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gangsched.core.decision import UNSCHEDULABLE, Decision, Reason, Unplaced, Verdict
from gangsched.core.quota.gate import Gate
from gangsched.core.state.membership import Census
from gangsched.core.state.world import World
from gangsched.model.records import GangId


def without_quota(
    world: World, gangs: Sequence[GangId], gate: Gate, why_not: str = "", stopped: bool = False
) -> Verdict:
    """Say to every pending member what quota the flavors of ``gate`` lack, and why nobody is displaced for it.

    ``stopped`` says that the search for victims was cut short.
    """
    membership, short = world.membership, gate.assignment.message
    census = {gang: membership.census(gang) for gang in gangs}
    message = f"{short}. preemption: {why_not}" if why_not else short
    group = tuple(gang.key for gang in gangs) if len(gangs) > 1 else ()
    priority, warnings = membership.preemptor_priority(gangs), priority_warnings(census)
    reasons, quota = (Reason(short, 0),), gate.use(())
    decisions = []
    for gang in gangs:
        spec = membership.spec(gang)
        decisions.append(
            Decision(
                gang=gang,
                kind=spec.kind if spec is not None else "PodGroup",
                group=group,
                priority=priority,
                required=membership.required(gang, census[gang]),
                outcome=UNSCHEDULABLE,
                unplaced=tuple(Unplaced(pod.key, (short,)) for pod in census[gang].pending),
                warnings=warnings,
                reasons=reasons,
                message=message,
                stopped=stopped,
                quota=quota,
            )
        )
    return Verdict(UNSCHEDULABLE, tuple(decisions), message=message, short_of_quota=True)


def priority_warnings(census: Mapping[GangId, Census]) -> tuple[str, ...]:
    """The gangs whose members differ in priority, a sentence each."""
    out = []
    for gang, members in census.items():
        found = {p.priority for p in (*members.pending, *members.bound)}
        if len(found) > 1:
            listed = ", ".join(map(str, sorted(found)))
            out.append(f"members of {gang.key} differ in priority ({listed}); the lowest counts")
    return tuple(out)
