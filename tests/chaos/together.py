"""What plans take together, of budgets and of gangs, by what their process had been told when it made them.

What was spent in the end the history shows, and not what could be known: the status of a budget is told some time after
it was computed, and others disrupt pods too. So each plan is judged as it was made. Of what it takes, and does not
announce as beyond a budget, there is enough in the status that the process had been told, beside all who left for plans
made before and whom that status does not count. Of a gang that leaves as a whole enough members stay, or none does.
What a plan takes of a budget of which no pod was evicted for it does not matter: it may have been given up. So may one
that has not evicted all that it takes of a gang: what runs on without them is seen from that.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from gangsched.cluster.sim import history as log
from gangsched.cluster.sim.controllers import selects
from gangsched.cluster.sim.history import History, ends_object, removal
from gangsched.core.actions import Action, Bind, Mark, Nominate, Remove, Unmark, WithdrawNomination
from gangsched.core.actuation.records import owners_of, read_owners
from gangsched.core.decision import PREEMPT, Decision
from gangsched.core.events import Event, Gone, Outcome, WriteDone
from gangsched.core.options import Options
from gangsched.core.preemption.blocks import mode_of
from gangsched.model.records import SINGLE, Budget, GangId, Pod
from tests.chaos.play import Played
from tests.chaos.told import AT_ONCE, Batch, Told
from tests.judge.disrupted import leaves_whole

#: The place of a plan in the order in which its process made them: the number of the batch, and that in the batch.
_Place = tuple[int, float]
_NEVER: _Place = (sys.maxsize, 0.0)


class _Status(msgspec.Struct):
    """One status of a budget: the number of the entry with which it was computed, and until when (seconds from the
    start) it was what the API server had.
    """

    computed: int
    until: float = math.inf


class _Truth(msgspec.Struct):
    """What the history has that no process is told: with which entry (its number and its time in seconds) each pod
    (UID) has begun to leave or has ended, for which plans (ids) those were ``evicted`` that were, by themselves or with
    their Job, as it stood on them, and the status of each record of a budget (by its ``id``).
    """

    left: dict[str, tuple[int, float]] = {}
    evicted: dict[str, frozenset[str]] = {}
    statuses: dict[int, _Status] = {}

    @classmethod
    def of(cls, history: History) -> _Truth:
        """The truth about this history."""
        out, last, owners = cls(), dict[str, tuple[Budget, _Status]](), dict[str, frozenset[str]]()
        for entry in history:
            if entry.kind == "Pod" and (
                ends_object(entry) or (isinstance(entry.record, Pod) and not entry.record.live)
            ):
                if entry.uid not in out.left and (removal(entry) or entry.actor == log.JOB_CONTROLLER):
                    out.evicted[entry.uid] = owners.get(entry.uid, frozenset())
                out.left.setdefault(entry.uid, (entry.number, entry.at_seconds))
            if isinstance(entry.record, Pod):
                owners[entry.uid] = frozenset(owner.plan for owner in owners_of(entry.record))
            if not isinstance(entry.record, Budget) or not entry.changed:
                continue
            budget = entry.record
            before, status = last.get(budget.key, (None, None))
            same = before is not None and (before.allowed, before.disrupted) == (budget.allowed, budget.disrupted)
            if status is None or not same:
                if status is not None:
                    status.until = entry.at_seconds
                named = status is not None and entry.actor == log.API_SERVER  # it counts one more, and computes nothing
                status = _Status(status.computed if named and status is not None else entry.number)
            last[budget.key] = budget, status
            out.statuses[id(budget)] = status
        return out

    def counted(self, budget: Budget, uid: str, now: float, lag_seconds: float) -> bool:
        """Does the status of a budget, as it is told now (seconds), count the pod as gone? So does one that did not
        change when it was computed anew, which takes ``lag_seconds``.
        """
        number, at_seconds = self.left.get(uid, (math.inf, math.inf))
        status = self.statuses[id(budget)]
        return number < status.computed or at_seconds + lag_seconds + AT_ONCE < min(status.until, now)

    def evicted_for(self, plan: _Plan) -> set[str]:
        """The pods (UIDs) that were evicted for this plan."""
        return {uid for uid, plans in self.evicted.items() if plan.ident in plans}


class _Plan(msgspec.Struct):
    """A decision, the place and the time (seconds) at which its process made it, the id of its plan, and whether that
    is ``over``: a member that it places is gone, or bound, or its nomination is taken back. Of one without nominations,
    which is a Job's and marks at once whom it takes, the end is not seen.
    """

    place: _Place
    at_seconds: float
    decision: Decision
    ident: str = ""
    over: bool = False

    @property
    def victims(self) -> set[str]:
        """The pods (UIDs) that it takes."""
        return {victim.uid for victim in self.decision.victims}

    @property
    def within(self) -> set[str]:
        """Those of which it does not say that they go beyond a budget."""
        return {victim.uid for victim in self.decision.victims if not victim.over_budget}


class _Life(msgspec.Struct):
    """One process: for which plans (ids) each pod (UID) was to leave, with the place at which it was not any more for
    that plan, and the last at which it was to stay (``stays``); and the places of all plans (by id).
    ``last`` has the last decision about each gang (``namespace/name``), ``going`` the removals (ids of writes) of pods
    (UIDs) that may take effect, or have: whoever gives them up then has come too late. Pods (UIDs) whose removal was
    ``refused`` stay by no choice.
    """

    leave_for: dict[str, dict[str, _Place]] = {}
    stays: dict[str, _Place] = {}
    places: dict[str, _Place] = {}
    plans: list[_Plan] = []
    told: Told = msgspec.field(default_factory=Told)
    last: dict[str, _Plan] = {}
    going: dict[str, int] = {}
    refused: set[str] = set()

    def hear(self, event: Event, now: float, truth: _Truth) -> None:
        """It is told this, now (seconds). What comes of a removal without an answer only the truth has."""
        self.told.hear(event, now)
        if isinstance(event, Gone) and event.kind == "Pod":  # it may have been about to be marked
            self._ends(event.uid)
            plans = [plan for plan in self.last.values() if plan.ident and not plan.over and event.uid in plan.victims]
            counting = dict.fromkeys((plan.ident for plan in plans), _NEVER)
            self.leave_for[event.uid] = {**counting, **self.leave_for.get(event.uid, {})}
        if isinstance(event, WriteDone) and event.outcome is not Outcome.OK:
            lost = event.outcome is Outcome.TRANSIENT
            if event.outcome in (Outcome.REFUSED, Outcome.BLOCKED):
                self.refused.update(uid for uid, number in self.going.items() if number == event.action_id)
            self.going = {
                uid: number
                for uid, number in self.going.items()
                if number != event.action_id or (lost and truth.left.get(uid, (0, math.inf))[1] <= now)
            }

    def take_over(self) -> None:
        """What an earlier process has left stands on the pods."""
        for pod in self.told.pods.values():
            self.leave_for[pod.uid] = dict.fromkeys((owner.plan for owner in owners_of(pod)), _NEVER)
            self.places.update(dict.fromkeys(self.leave_for[pod.uid], (-1, 0.0)))

    def decide(self, plan: _Plan) -> None:
        """It makes this decision."""
        self.last[plan.decision.gang.key] = plan
        if plan.decision.outcome == PREEMPT:
            self.plans.append(plan)

    def ask(self, action: Action, number: int) -> None:
        """It asks for this in the batch with this number. A plan whose id is new is that of the last decision about its
        gang; a drain or a rollback has none.
        """
        named: dict[str, str] = {}
        match action:
            case Nominate() if action.pod.uid in self.told.pods:
                named = {action.plan: self.told.pods[action.pod.uid].gang.key}
            case WithdrawNomination() | Bind():
                self._ends(action.pod.uid)
            case Remove():
                self.going[action.pod.uid] = action.id
            case Mark():
                named = {owner.plan: owner.name for owner in read_owners(action.owners) or ()}
        for ident in [each for each in named if each not in self.places]:
            plan = self.last.get(named[ident])
            self.places[ident] = plan.place if plan is not None else (number, math.inf)
            if plan is not None:
                plan.ident, plan.over = ident, isinstance(action, Mark)
        known = self.told.pods.get(action.pod.uid) if isinstance(action, Mark | Unmark) else None
        if known is not None and known.live and known.uid not in self.going:
            before = self.leave_for.get(known.uid, {})
            ended = {ident: min(place, (number, -1.0)) for ident, place in before.items()}
            self.leave_for[known.uid] = {**ended, **dict.fromkeys(named, _NEVER)}
            if not named and known.uid not in self.refused:
                self.stays[known.uid] = (number, -1.0)

    def _ends(self, uid: str) -> None:
        """The plan that this pod has been nominated for is over."""
        for plan in self.last.values():
            plan.over = plan.over or (bool(plan.ident) and any(uid == place.uid for place in plan.decision.placements))

    def before(self, plan: _Plan, *, late: bool = False) -> set[str]:
        """The pods (UIDs) that were to leave for plans that were made before, and were never to stay since, be it that
        they left for others in the end; also those that left for this one, which counted on that. Whose mark was taken
        back in the batch of this plan was to stay before it, or after it if that was ``late``.
        """
        out = {uid for uid, plans in self.leave_for.items() if plans.get(plan.ident) == _NEVER} - plan.victims
        for uid, plans in self.leave_for.items():
            if self.stays.get(uid, plan.place) <= plan.place:
                ends = {ident: (end[0], math.inf if late else end[1]) for ident, end in plans.items()}
                out.update(uid for ident, end in ends.items() if self.places[ident] < plan.place < end)
        return out


def taken_together(played: Played) -> list[str]:
    """Budgets of which a plan takes more than they have left, beyond what it says, and gangs of which one leaves some
    members and too few.
    """
    truth, out = _Truth.of(played.world.history), list[str]()
    for plan, before, or_before, told, known in _plans(played, truth):
        went = truth.evicted_for(plan) & plan.victims
        about = f"at {plan.at_seconds:.3f} s: {plan.decision.gang.key} takes"
        for key, budget in sorted(told.budgets.items()):
            lag_seconds = played.world.timing.controller_seconds
            pods = [p for p in known.values() if selects(budget, p) and p.name not in budget.disrupted]
            within = [p.key for p in pods if p.uid in plan.within - before]
            others = (p for p in pods if p.uid in before - (plan.victims - plan.within))
            left = [p.key for p in others if not truth.counted(budget, p.uid, plan.at_seconds, lag_seconds)]
            allowed = max(0, (budget.allowed or 0) - len(left))
            if len(within) > allowed and any(p.uid in went for p in pods):
                out.append(f"{about} {within} of {key}, which allows {allowed} beside {left}")
        for gang in sorted({known[uid].gang for uid in went & known.keys()}):
            found = [_broken(told, gang, plan.victims, b, played.scenario.options) for b in (before, or_before)]
            if all(found) and went.issuperset(u for u in plan.victims & known.keys() if known[u].gang == gang):
                out.append(f"{about} {found[0]} of {gang.key}")
    return out


def _broken(told: Told, gang: GangId, victims: set[str], before: set[str], options: Options) -> str:
    """How much of a gang is taken, if it leaves as a whole then and not all of it is."""
    spec = told.group(gang)
    mode, minimum = mode_of(spec, options), spec.min_member if spec is not None else 1
    nodes = told.nodes.keys() | {""}  # who was on a node that is gone is lost
    there = {pod.uid for pod in told.placed(gang) if pod.node in nodes} - before
    stay = there - victims
    whole = leaves_whole(mode, len(there), len(stay), minimum)
    return f"{len(there) - len(stay)} of {len(there)}" if gang.family != SINGLE and stay and whole else ""


# -- the plans of each process -------------------------------------------------------------------------------------


def _plans(played: Played, truth: _Truth) -> Iterator[tuple[_Plan, set[str], set[str], Told, Mapping[str, Pod]]]:
    """Each plan, with the pods (UIDs) that were to leave before, or may have been, and what its process had been told
    when it made it: also of pods (by UID) that were gone by then.
    """
    lives = _lives(played.batches, truth)
    process, told, known = 0, Told(), dict[str, Pod]()
    for number, batch in enumerate(played.batches):
        if batch.process != process:
            process, told, known = batch.process, Told(), {}
        for event in batch.events:
            told.hear(event, batch.at_seconds)
        known.update(told.pods)
        for plan in lives[process].plans:
            if plan.place[0] == number and plan.ident:
                yield plan, lives[process].before(plan), lives[process].before(plan, late=True), told, known
        for action in batch.actions:
            told.asked(action)


def _lives(batches: Sequence[Batch], truth: _Truth) -> dict[int, _Life]:
    out: dict[int, _Life] = {}
    for number, batch in enumerate(batches):
        fresh = batch.process not in out
        life = out.setdefault(batch.process, _Life())
        for event in batch.events:
            life.hear(event, batch.at_seconds, truth)
        if fresh:
            life.take_over()
        for place, decision in enumerate(batch.decisions):
            life.decide(_Plan((number, place), batch.at_seconds, decision))
        for action in batch.actions:
            life.ask(action, number)
    return out
