"""The decision for a gang that needs quota: quota and nodes together.

The flavors of the gang's queue are tried in the order in which its quota rules have them: in each the members must fit
both into what is left of the quota and on nodes of the flavor. If they do so in none, victims are looked for, in the
same order of flavors (and before the next flavor is tried, where the queue's rules stop at one in which somebody would
have to leave): those whom the quota rules let go, and pods without a queue of lower priority. Nobody has to go unless
the gang then has its quota and its nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

import msgspec

from gangsched.core.decision import BIND, UNSCHEDULABLE, WAIT, Awaited, Verdict
from gangsched.core.planning.attempt import Attempt
from gangsched.core.planning.refusal import without_quota
from gangsched.core.preemption.budgets import Budgets
from gangsched.core.preemption.demand import demands_of
from gangsched.core.preemption.fit import fit_for
from gangsched.core.preemption.search import Choice, work_lost
from gangsched.core.preemption.units import Units
from gangsched.core.preemption.workloads import WorkloadsOnNodes, add_workload, is_overdue
from gangsched.core.quota.flavors import Assignment, Chosen, Mode
from gangsched.core.quota.gate import Gate
from gangsched.core.quota.managed import Claim
from gangsched.core.quota.victims import holders_of
from gangsched.core.state.simulation import Simulation
from gangsched.core.state.snapshot import Bools
from gangsched.core.state.world import World
from gangsched.model.records import GangId

#: Flavors that are tried one after another for one gang.
_MAX_FLAVORS = 64


class QueuedAttempt(Attempt):
    """An attempt in certain flavors: quota says who may leave, and in which order."""

    gate: Gate

    def search(self) -> tuple[Units, Choice | None]:
        """See :meth:`Attempt.search`. What is chosen is noted in the gate."""
        self._reasons: dict[frozenset[int], dict[str, str]] = {}
        units, choice = super().search()
        if choice is not None:
            self.gate.gone = dict(self._reasons.get(choice.taken, {}))
            self.gate.awaited = tuple(self._leaving_anyway(self.gate.gone))
        return units, choice

    def _units(self, usable: Bools, budgets: Budgets) -> Units:
        units = self._others_units(usable, budgets)
        if self.topology.constrained:  # domains are ranked by everything that may leave in them
            managed = self.gate.managed
            with managed.for_one(self.gate.managed.promised()):
                eligible = managed.quota.eligible(self.gate.workload, self.gate.assignment)
            for uid, reason in eligible.items():
                if not is_overdue(managed, uid, self.world.sightings.overdue):
                    add_workload(units, managed.gangs_of(uid), reason)
        return units

    def _others_units(self, usable: Bools, budgets: Budgets) -> Units:
        """Pods without a queue that may be taken."""
        return self._units_beside(self.world.managed.holding(), usable, budgets)

    def _search(self, budgets: Budgets, max_steps: int) -> tuple[Units, Choice | None, int]:
        base = self.simulation()
        self.lift_terminating(base)
        units = self._others_units(self._usable(base), budgets)
        if not self.gate.assignment.mode.needs_preemption and budgets:
            found = self._in_order(units, base, budgets, max_steps, within_budgets=True)
            if found[1] is not None:
                return found
            base = self.simulation()
            self.lift_terminating(base)
        return self._in_order(units, base, budgets, max_steps, within_budgets=False)

    def _in_order(
        self, units: Units, base: Simulation, budgets: Budgets, max_steps: int, *, within_budgets: bool
    ) -> tuple[Units, Choice | None, int]:
        managed, cluster = self.gate.managed, self.cluster()
        demand = demands_of(base, self.placer.pipeline, self.wants)[0]
        nodes = WorkloadsOnNodes(
            units,
            fit_for(base, self.placer, self.wants, demand),
            budgets,
            max_steps,
            self.watchdog,
            managed,
            self.world.sightings.overdue,
            work_lost(units.snapshot, cluster, self.now),
            within_budgets=within_budgets,
        )
        with managed.for_one(managed.promised()):
            victims = managed.quota.victims(self.gate.workload, self.gate.assignment, nodes)
        if victims is None:
            units.cut_short = nodes.stopped
            self.left_out |= nodes.stopped
            return units, None, nodes.steps
        taken = frozenset(slot for each in victims for slot in each.target.slots)
        harm = nodes.harm(victims, cluster, self.now)
        choice = Choice(taken, harm, nodes.steps, nodes.stopped, nodes.fit.rows())
        if self.options.strict_budgets and choice.harm.beyond_budget:
            units.over_budgets = budgets.exceeded(map(units.pod, choice.taken))
            return units, None, nodes.steps
        self._reasons[taken] = {h.admission.workload.uid: reason for h, reason in holders_of(victims)}
        return units, choice, nodes.steps

    def _leaving_anyway(self, uids: Mapping[str, str]) -> Iterator[Awaited]:
        for uid in sorted(uids):
            for pod in self.gate.managed.pods_of(uid):
                if pod.node and (pod.deleting_since is not None or pod.uid in self.world.ledger.condemned):
                    yield Awaited(pod.key, pod.node, pod.uid)

    def victims_leave_anyway(self, choice: Choice) -> Verdict | None:
        """A choice of nobody who is not leaving already: the members wait for these."""
        found = self.fit(self.terminating()) if not choice.taken else None
        return self.placed(WAIT, *found) if found is not None else None


class Joint:
    """One decision. ``attempt`` begins an attempt with a gate; ``one_of_many`` decides to bind now who has quota by a
    gate and wants nothing special of nodes. ``may_not_preempt`` says why victims are not looked for, and when they may
    be, from the attempt that would; empty if they may.
    """

    def __init__(
        self,
        world: World,
        gangs: Sequence[GangId],
        claim: Claim,
        now: float,
        attempt: Callable[[Gate], QueuedAttempt],
        one_of_many: Callable[[Gate], Verdict | None],
        may_not_preempt: Callable[[Attempt], tuple[str, float | None]],
    ) -> None:
        self._world = world
        self._gangs = gangs
        self._managed = world.managed
        self._claim = claim
        self._now = now
        self._attempt = attempt
        self._one_of_many = one_of_many
        self._may_not_preempt = may_not_preempt
        #: Attempts in flavors in which the gang could run if somebody left, those first that have been searched.
        self._options: list[QueuedAttempt] = []
        self._searched = 0
        self._units: Units | None = None

    def decide(self) -> Verdict:
        """Decide the gang. Its claim has no problem."""
        out_of_reach: list[Gate] = []
        specs = map(self._world.membership.spec, self._gangs)
        anywhere = not any(spec.topology for spec in specs if spec is not None)
        for gate in self._gates():
            mode = gate.assignment.mode
            if mode in (Mode.NO_FIT, Mode.NO_CANDIDATES) and anywhere:
                out_of_reach.append(gate)
                continue
            found = self._one_of_many(gate) if mode == Mode.FIT else None
            if found is not None:
                return found
            job = self._attempt(gate)
            if job.topology.problem:
                return job.unschedulable("", None)
            if mode in (Mode.NO_FIT, Mode.NO_CANDIDATES):
                out_of_reach.append(gate)
                continue
            self._options.append(job)
            found = self._without_evictions(job) if mode == Mode.FIT else self._evict()
            if found is not None:
                return found
        if not self._options:
            refused = without_quota(self._world, self._gangs, out_of_reach[0])
            return msgspec.structs.replace(refused, nodes_unseen=True)
        return self._evict() or self._refuse()

    def attempts(self, modes: Collection[Mode]) -> Iterator[QueuedAttempt]:
        """The beginnings of a decision in flavors in which there is as much quota as one of these modes says."""
        return (self._attempt(gate) for gate in self._gates() if gate.assignment.mode in modes)

    def _gates(self) -> Iterator[Gate]:
        """Flavors in the order in which they are tried: as the rules of the queue walk through them, and then, where it
        is nodes that the gang lacks, those in whose place the rules have chosen others.
        """
        quota, workload = self._managed.quota, self._claim.workload
        resume: Mapping[tuple[str, str], int] = {}
        passed: frozenset[Chosen] = frozenset()
        seen: list[Assignment] = []
        for _ in range(_MAX_FLAVORS):
            with self._managed.for_one(self._managed.promised()):
                assignment = quota.assign(workload, resume, passed)
            if passed and assignment.mode == Mode.NO_FIT:
                return
            yield Gate(self._managed, self._claim, assignment, self._now)
            seen.append(assignment)
            if assignment.resume and assignment.resume != resume:
                resume = assignment.resume
                continue
            others = frozenset(c for each in seen for c in quota.alternatives(workload, each))
            if others <= passed or not any(map(self._has_its_quota, seen)):
                return
            passed, resume = others, {}

    def _has_its_quota(self, assignment: Assignment) -> bool:
        """Is there quota in these flavors, or would there be after evictions, whatever the nodes are like?"""
        if assignment.mode in (Mode.FIT, Mode.NO_FIT, Mode.NO_CANDIDATES):
            return assignment.mode == Mode.FIT
        with self._managed.for_one(self._managed.promised()):
            return bool(self._managed.quota.victims(self._claim.workload, assignment))

    @staticmethod
    def _without_evictions(job: QueuedAttempt) -> Verdict | None:
        found = job.without_evictions(BIND)
        return job.without_evictions(WAIT) if found is None and job.required else found

    def _evict(self) -> Verdict | None:
        """Look for victims in the flavors in which nobody has yet. It is the queue's wish when that is done before the
        flavors that follow have been looked at: its rules say where the walk through them stops.
        """
        jobs, self._searched = self._options[self._searched :], len(self._options)
        for job in jobs:
            if not job.required:
                return None
            if self._may_not_preempt(job)[0]:
                # Whoever waits for victims here is not to hear that without them there is room in a later flavor.
                short = job.gate.assignment.mode.needs_preemption
                return self._refuse() if short and job.gate.waited_for else None
            tried, choice = job.search()
            found = None
            if choice is not None:
                found = job.preempt(tried, choice) if choice.taken else job.victims_leave_anyway(choice)
            if found is not None and found.outcome != UNSCHEDULABLE:
                return found
            self._units = self._units or tried
        return None

    def _refuse(self) -> Verdict:
        """Say why not, of the first flavor in which victims might have helped."""
        first, units = self._options[0], self._units
        if not first.required:
            return first.behind(first.unschedulable("", None))
        why_not, retry_at = self._may_not_preempt(first)
        if not why_not:
            retry_at = units.eligible_at if units is not None else None
            why_not = self._no_plan(first)
        if first.gate.assignment.mode.needs_preemption:
            found = without_quota(self._world, self._gangs, first.gate, why_not, first.left_out)
        else:
            found = first.behind(first.unschedulable(why_not, units))
        return msgspec.structs.replace(found, retry_at=retry_at)

    def _no_plan(self, job: QueuedAttempt) -> str:
        if job.gate.assignment.mode.needs_preemption:
            return "no workloads may be displaced so that the gang has both its quota and its nodes"
        return "the gang would not fit on nodes even if all workloads and pods were evicted that may be for it"
