"""How the members of a plan come to their nodes: nominations with their intent records, volumes, bindings, and Jobs
(and JobSets) without pods, whose suspension ends.

PreBind: the volumes of all members are bound, and nominations to other nodes taken back, before the first member is
bound. The members' room is held like that of nominated ones, so a gang of higher priority may have it; their volumes
are assumed from the decision on. Claims that
the cluster already knows about (after a restart, or when the gang had to give way) are not asked for again, only waited
for.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence

from gangsched.core.actuation import desired
from gangsched.core.actuation.actuator import Actuator, Aspect
from gangsched.core.decision import Flavors, Placement, Verdict
from gangsched.core.events import Change, Failure, Hint, Outcome
from gangsched.core.ledger.ledger import Ledger
from gangsched.core.lifecycle import report
from gangsched.core.lifecycle.claims import DeviceClaims
from gangsched.core.lifecycle.conditions import Reporter
from gangsched.core.lifecycle.expected_room import ResumedRoom
from gangsched.core.lifecycle.group import Group, Plan
from gangsched.core.options import Options
from gangsched.core.quota.assignment import in_flavors
from gangsched.core.state.jobs import Suspendable
from gangsched.core.volumes.binding import assign, progress
from gangsched.core.world.kept_room import keep_room
from gangsched.core.world.suspended import held
from gangsched.core.world.world import World
from gangsched.messages import causes
from gangsched.messages.text import join_names
from gangsched.model.constraints import NO_DIRECTIVES, Directives, PodShape
from gangsched.model.records import GangId, Job, Pod


def enough(world: World, gangs: Sequence[GangId], uids: Container[str]) -> bool:
    """Return True if as many of these pods (UIDs) wait as the gangs need."""
    needed, census = world.membership.lacking(gangs), map(world.membership.census, gangs)
    return all(sum(p.uid in uids for p in each.pending) >= n for n, each in zip(needed, census, strict=True))


class Bindings:
    """Asks ``actuator`` for what brings members to their nodes, each for the gang of a group with a plan."""

    def __init__(
        self,
        world: World,
        ledger: Ledger,
        options: Options,
        actuator: Actuator,
        reporter: Reporter,
        devices: DeviceClaims,
    ) -> None:
        self._devices = devices
        self._world = world
        self._ledger = ledger
        self._work = ledger.work
        self._options = options
        self._actuator = actuator
        self._reporter = reporter
        self.resumed = ResumedRoom(world, ledger, options)

    # -- room -----------------------------------------------------------------------------------------------

    def has_writes_in_flight(self, group: Group) -> bool:
        """Return True while writes of an earlier plan of this gang are unanswered, or one of its nominations or
        reservations of claims is left.

        Until then the gang is not decided again. A late answer, or a nomination that is cleared late, would look like
        one of the new plan. A mark may stay for a while: it names its plan.
        """
        if self._actuator.has_writes_in_flight(group.key) or self.nominated_elsewhere(group):
            return True
        return not self._devices.settled(self.unplaced(group))

    def nominated_elsewhere(self, group: Group) -> bool:
        """Return True if a member has a nomination that is to be taken back, as far as is known."""
        withdrawn = self._actuator.pods_kept(Aspect.NOMINATION)
        return bool(withdrawn) and any(pod.uid in withdrawn for pod in self.unplaced(group))

    def unplaced(self, group: Group) -> Iterator[Pod]:
        """The members that wait, those that may not be scheduled yet included."""
        for gang in group.gangs:
            census = self._world.membership.census(gang)
            yield from (*census.pending, *census.gated)

    def adopt(self, group: Group, verdict: Verdict) -> None:
        """Take over where, and in which flavors, the members run by this verdict."""
        uses = [d.quota for d in verdict.decisions if d.quota is not None]
        group.quota = next(iter(uses), None)
        for use in uses:
            self._world.managed.choose(use.by_pod, self._world.now)
        for expected, _ in verdict.announced:
            self._world.managed.forget_pod(expected.uid)  # its flavors are known as long as its room is kept

    def hold(self, group: Group, plan: Plan) -> None:
        """Hold the room for the members until the victims are gone, for the gang's time limit, which begins after the
        victims' notice.
        """
        for uid in (*plan.victims, *plan.awaited):
            self._ledger.wait_for(uid, group.key)
        seconds = self.time_of(group)
        if not plan.victims:
            plan.waits_since, seconds = self._world.now, min(seconds, self._options.longest_wait)
        self._ledger.deadlines.at(group.key, max(self._world.now, plan.eviction.begins) + seconds)
        places = [(self._world.members[place.uid], place.node) for place in plan.placements]
        keep_room(self._world, self._ledger, group.key, group.gangs, places)
        on_nodes = map(self._world.snapshot.pods_on, {node for _, node in places})
        plan.neighbours = {pod.uid for pods in on_nodes for pod in pods}

    def time_of(self, group: Group) -> float:
        """Seconds that the gang has from nomination to binding."""
        specs = [self._world.membership.spec(g) for g in group.gangs]
        times = [s.timeout_seconds for s in specs if s is not None and s.timeout_seconds]
        return min(times, default=self._options.timeout_seconds)

    # -- nominations ------------------------------------------------------------------------------------------

    def nominate(self, group: Group) -> None:
        """Nominate every placed member."""
        plan = group.plan
        if plan is None:
            return
        self._actuator.begin(group.key)
        if group.without_pods:
            return  # that it waits stands on the Job itself, and for whom its victims leave on them
        plan.nominated = dict(plan.node_of)
        for place in plan.placements:
            self._actuator.want(desired.nominate(place, plan.intent(place)), group.key)
        self._reporter.tell(group, report.UNSCHEDULABLE, group.message, report.WAITING_ON_PREEMPTION)

    def withdraw(self, group: Group) -> None:
        """Clear nominations: those of the plan, and any that an earlier plan or process has left behind. Members whose
        bindings were not sent take no room any more.
        """
        for uid, outcome, _ in self._actuator.failures(group.key):
            if outcome is Outcome.OUTDATED and uid in self._world.assumed:
                self._work.changes.append(Change(Hint.ROOM, self._world.assumed[uid]))
                self._world.forget(uid)
        self.clear(group, {}, group.message or group.problem or "plan withdrawn")

    def clear(self, group: Group, wanted: Mapping[str, str], text: str) -> None:
        """Clear the nominations of members that are not to these nodes (by UID). A mark or a removal that is on its way
        is never without a record: the last answer is waited for.
        """
        asked = group.plan.nominated if group.plan is not None else {}
        pods = (*self.unplaced(group), *self._others_now(group))
        for pod in desired.nominated_elsewhere(pods, asked, wanted):
            if pod.uid not in self._actuator.pods_kept(Aspect.NOMINATION):
                self._actuator.want(desired.withdraw(pod, text), after=group.key)

    def _others_now(self, group: Group) -> Iterator[Pod]:
        """Members of its plan that belong to another gang by now, or cannot be understood any more, and still wait."""
        nominated = group.plan.nominated if group.plan is not None else {}
        for pod in map(self._world.members.get, sorted(nominated)):
            if pod is not None and pod.live and not pod.node and pod.gang not in group.gangs:
                yield pod

    # -- volumes ----------------------------------------------------------------------------------------------

    def prebind(self, group: Group) -> None:
        """Hold the members' room, assume their volumes, and ask for those that have not been asked for yet."""
        plan = group.plan
        if plan is None:
            return
        world, index = self._world, self._world.snapshot.volumes
        self._actuator.begin(group.key)
        found = assign(world.snapshot, world.members, plan.placements)
        for place in plan.placements:
            self.resumed.use_room(world.members[place.uid], place.node)
        self._ledger.release(group.key)
        self.hold(group, plan)
        self._ledger.deadlines.at(group.key, self._world.now + self._options.bind_timeout_seconds)
        if isinstance(found, str):
            # The preconditions of the decision are gone: the phase fails before it has written anything.
            self._actuator.fail(group.key, Failure(plan.placements[0].uid, Outcome.CONFLICT, found))
            return
        plan.claims = found
        problem = self._devices.begin(plan)
        if problem:
            self._actuator.fail(group.key, Failure(plan.placements[0].uid, Outcome.CONFLICT, problem))
            return
        if found:
            group.message = causes.waits_for_volumes(names=join_names(sorted("/".join(b.key) for b in found), 5))
        elif plan.devices:
            group.message = causes.waits_for_devices(names=join_names(sorted(b.name for b in plan.devices), 5))
        else:
            group.message = causes.NOMINATED_ELSEWHERE
        for binding in found:
            if binding.ours:
                index.assume(binding.key, binding.target)
            if not binding.asked:
                self._actuator.want(desired.bind_claim(world, binding), group.key)

    def prebound(self, group: Group, plan: Plan) -> tuple[bool, str]:
        """Return True if all claims have their volumes and devices. If one will not, return the reason with it.

        What can be written for them by now is asked for.
        """
        everything, problem = self._devices.write_claims(group, plan)
        if problem:
            return False, causes.giving_devices(problem=problem)
        for binding in plan.claims:
            bound, problem = progress(self._world.snapshot, binding)
            if problem:
                return False, causes.binding_volumes(problem=problem)
            everything = everything and bound
        return everything, ""

    def forget_claims(self, plan: Plan) -> None:
        """Forget what was requested for the plan's claims, so that the records of the cluster count again."""
        for binding in plan.claims:
            if binding.ours:
                self._world.snapshot.volumes.forget(binding.key)
                self._work.changes.append(Change(Hint.VOLUMES))
        plan.claims = []

    # -- bindings ---------------------------------------------------------------------------------------------

    def bind_all(self, group: Group) -> None:
        """Bind every placed member."""
        plan = group.plan
        if plan is None:
            return
        self._actuator.begin(group.key)
        self._assume(group, plan)
        self.bind(group, plan.placements)

    def bind(self, group: Group, places: Iterable[Placement]) -> None:
        """Ask for the bindings of members that are assumed where they are placed."""
        for place in places:
            self._actuator.want(desired.bind(place), group.key)

    def _assume(self, group: Group, plan: Plan) -> None:
        """From now on the members take room on their nodes as if they were bound."""
        priority = self._world.membership.preemptor_priority(group.gangs)
        self._ledger.release(group.key)
        for place in plan.placements:
            self._world.assume(place.uid, place.node)
            self.resumed.use_room(self._world.members[place.uid], place.node)
            self._work.changes.append(Change(Hint.PODS, place.node, self._world.members[place.uid]))
        self._ledger.may_have_taken(group.key, set(plan.node_of.values()), priority)

    # -- going on -------------------------------------------------------------------------------------------------

    def let_go_on(self, group: Group) -> None:
        """End the suspension; the room of the expected members is now for the pods that will come."""
        gang = group.gangs[0]
        job = report.job_of(self._world, gang)
        self._actuator.begin(group.key)
        if group.plan is None or job is None:
            return
        self.hold(group, group.plan)
        group.message = causes.waits_for_pods_of(family=gang.family, job=job.key)
        self.resumed.begin(group.key, job)
        waits, templates = held(self._world, job), _changed_templates(self._world, group, job)
        about = report.job_reference(job)
        action = desired.resume(about, job.version, gang.scheduler, held=waits, templates=templates)
        self._actuator.want(action, group.key)


def _changed_templates(world: World, group: Group, owner: Suspendable) -> tuple[Directives, ...] | None:
    """The added fields of each template, in the order of ``replicatedJobs``; None if it says so already.

    What it has of an earlier flavor goes. Templates of which no pod starts now stay as they are.
    """
    use = group.quota
    by_pod = use.by_pod if use is not None else {}
    pods = world.members
    chosen = {_template_of(pods[uid].name, owner): flavors for uid, flavors in by_pod.items() if uid in pods}
    jobs = [owner] if isinstance(owner, Job) else [each.job for each in owner.replicated]
    out = []
    for job in jobs:
        if job.template is None or (use is not None and job.name not in chosen):
            out.append(job.added)
        else:
            out.append(_added(world, job.template.shape, chosen.get(job.name, ())))
    return None if out == [job.added for job in jobs] else tuple(out)


def _template_of(member: str, owner: Suspendable) -> str:
    """Return the name of the Job, or of the Jobs of a JobSet without their index, whose template a member has."""
    return owner.name if isinstance(owner, Job) else member.rsplit("-", 2)[0]


def _added(world: World, shape: PodShape, flavors: Flavors) -> Directives:
    known = world.managed.quota.flavors
    names = dict.fromkeys(name for _, name in flavors)
    there = in_flavors(shape, [known[name] for name in names if name in known])
    if there is shape:
        return NO_DIRECTIVES
    selector = tuple(pair for pair in there.node_selector if pair not in shape.node_selector)
    return Directives(selector, tuple(dict.fromkeys(there.tolerations[len(shape.tolerations) :])))
