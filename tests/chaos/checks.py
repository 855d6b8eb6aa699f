"""What may never happen, whatever goes wrong: sentences about a run, none if all is well.

The checks of :mod:`tests.judge.invariants` hold for undisturbed clusters too. Where others change the cluster
between a decision and its effect, a race at the API server is nobody's fault: such entries are excused, by time and
by object, never by the whole run.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterator

from gangsched.cluster.sim import SimCluster
from gangsched.cluster.sim import history as log
from gangsched.cluster.sim.history import Entry, History, ends_object
from gangsched.core.actions import Bind, WithdrawNomination
from gangsched.core.decision import BIND, PREEMPT, WAIT
from gangsched.core.events import Outcome
from gangsched.core.lifecycle.group import ROUND_PAUSE_SECONDS
from gangsched.core.scheduler import Scheduler
from gangsched.messages import notes
from gangsched.model.records import Gang, GangId, Job, Node, Pod
from gangsched.model.times import parse_time
from tests.chaos import notices, part_checks, removals, rooms, together
from tests.chaos.part_checks import RACE_SECONDS
from tests.chaos.play import UNTIL_SECONDS, Played
from tests.chaos.told import Told
from tests.cluster.sim.others import OTHER_SCHEDULER
from tests.judge import disrupted, invariants

#: Who binds pods beside the scheduler.
_OTHERS = (log.USER, OTHER_SCHEDULER)
_OF_PARTS = (part_checks.wrong_rollbacks, part_checks.untold, part_checks.left_in_a_drained_queue)


def judged_until(played: Played) -> float:
    """What was begun until then must have come to its end: everything, unless the run was ended in the middle of it. A
    victim may wait for its turn as long as its plan has time.
    """
    end = played.world.clock.elapsed_seconds
    return end - played.scenario.options.timeout_seconds if end >= UNTIL_SECONDS else math.inf


def problems(played: Played) -> list[str]:
    """All that is wrong with a finished run."""
    history = played.world.history
    out = [
        f"{check.__name__}: {text}"
        for check in (
            invariants.phases_out_of_order,
            invariants.unplanned_removals,
            invariants.unplanned_suspensions,
            invariants.bound_before_volumes,
            disrupted.drained_before_marked,
            part_checks.started_while_stopped,
            part_checks.bound_out_of_reach,
        )
        for text in check(history)
    ]
    out += [f"abandoned_marks: {t}" for t in invariants.abandoned_marks(history, judged_until(played))]
    out += [f"early_binds: {t}" for t in bound_early(history)]
    out += [f"over_allocated: {t}" for t in _without_races(history, invariants.over_allocated(history))]
    out += [f"rejected_by_kubelet: {t}" for t in _without_races(history, invariants.rejected_by_kubelet(history))]
    out += [f"partial: {t}" for t in bound_in_part(played)]
    out += [f"Job ended: {t}" for t in jobs_ended(played)]
    out += [f"drained: {t}" for t in disrupted.drained_while_open(history, RACE_SECONDS)]
    out += [f"{c.__name__}: {t}" for c in _OF_PARTS for t in c(played)]
    early = part_checks.bound_before_the_gangs_volumes(history, disturbed(history))
    out += [f"bound_before_the_gangs_volumes: {t}" for t in early]
    out += [f"rounds: {t}" for t in too_many_rounds(played)]
    out += [f"room given away: {t}" for t in rooms.given_away(played)]
    out += [f"forbidden removal: {t}" for t in removals.forbidden(played)]
    out += [f"taken together: {t}" for t in together.taken_together(played)]
    out += [f"broken: {t}" for t in disrupted.broken_gangs(history, played.scenario.options)]
    out += [f"too early: {t}" for t in notices.left_too_early(played.world)]
    out += [f"left over: {t}" for t in left_over(played)]
    out += [f"held: {t}" for t in held_nodes(played)]
    out += [f"asleep: {t}" for t in asleep(played)]
    return out


def bound_early(history: History) -> list[str]:
    """The members of a plan fit together: what explains one of their bindings explains all."""
    found = invariants.early_binds(history)
    wrong = _without_races(history, found)
    explained = {text.split(" of ", 1)[1] for text in found if text not in wrong}  # the plan comes behind its member
    return [text for text in wrong if text.split(" of ", 1)[1] not in explained]


def _without_races(history: History, texts: list[str]) -> list[str]:
    """Only what no change by others to that node explains."""
    changed: dict[str, list[float]] = defaultdict(list)
    for entry in history:
        if entry.actor == log.USER and isinstance(entry.record, Node):
            changed[entry.record.name].append(entry.at_seconds)
        elif entry.actor in _OTHERS and isinstance(entry.record, Pod) and entry.record.node:
            changed[entry.record.node].append(entry.at_seconds)
        elif entry.actor == log.USER and entry.kind == "Node":
            changed[entry.object].append(entry.at_seconds)
    out = []
    for text in texts:
        moment = float(text.split()[1])
        node = text.split(" on ", 1)[1].split(":", 1)[0]
        if not any(0 <= moment - at <= RACE_SECONDS + _kubelet_lag(text) for at in changed[node]):
            out.append(text)
    return out


def _kubelet_lag(text: str) -> float:
    return 0.0 if "of" in text.split(": ", 1)[-1] else 1.0


def disturbed(history: History) -> set[str]:
    """Gangs (``namespace/name``) whose members or group object others have changed."""
    out = set()
    for entry in history:
        if entry.actor not in (log.USER, log.POD_GC):
            continue
        record = entry.record
        if isinstance(record, Gang):
            if entry.verb != log.CREATE:
                out.add(record.key)
        elif isinstance(record, Pod):
            if entry.verb != log.CREATE or record.uid.endswith("-again"):
                out.add(record.gang.key)
        elif entry.kind == "PodGroup":
            out.add(entry.object)
        elif isinstance(record, Job) and entry.verb != log.CREATE:
            out.update(_gangs_of(history, record))
        elif entry.kind == "PersistentVolumeClaim":
            out.update(_gangs_with(history, entry.object))
        elif entry.kind == "Pod":
            out.update(e.record.gang.key for e in history if e.uid == entry.uid and isinstance(e.record, Pod))
    return out


def _gangs_of(history: History, job: Job) -> set[str]:
    """The gangs (``namespace/name``) of the pods of a Job."""
    pods = (e.record for e in history if isinstance(e.record, Pod) and e.record.owner is not None)
    return {p.gang.key for p in pods if p.owner is not None and p.owner.uid == job.uid}


def _gangs_with(history: History, claim: str) -> set[str]:
    """The gangs (``namespace/name``) of which a member has this claim (``namespace/name``)."""
    pods = [e.record for e in history if isinstance(e.record, Pod)]
    named = ((p.gang.key, f"{p.namespace}/{name}") for p in pods if p.volumes is not None for name in p.volumes.claims)
    return {gang for gang, each in named if each == claim}


def bound_in_part(played: Played) -> list[str]:
    """Gangs that lacked members still, as far as their process knew, when it had asked for all that it wanted bound for
    them: all of those are asked for together, or none. What has died in between has asked for no more, and a binding
    that is asked for again may have taken effect.
    """
    out: list[str] = []
    knows: dict[int, Told] = {}
    lacking: dict[int, list[str]] = {}  # by process, after the last batch that it was told of
    for batch in played.batches:
        told = knows.setdefault(batch.process, Told())
        out += lacking.pop(batch.process, [])
        for event in batch.events:
            told.hear(event, batch.at_seconds)
        begun: set[GangId] = set()
        for action in batch.actions:
            if isinstance(action, Bind) and told.tried.get(action.pod.uid) != action.node:
                begun.update(pod.gang for pod in (told.pods.get(action.pod.uid),) if pod is not None)
            told.asked(action)
        lacking[batch.process] = [
            f"at {batch.at_seconds:.3f} s: {gang.key} lacks {told.lacking(gang)} more"
            for gang in sorted(begun)
            if told.lacking(gang)
        ]
    return out + lacking.pop(played.processes, [])


def jobs_ended(played: Played) -> list[str]:
    """Jobs that ended because of a removal, of which no decision had warned: the pod was one too many.

    Who else takes pods from a Job, or changes it, between a decision and its effect has ended it as much. A plan may
    end one that cannot be suspended, and says so.
    """
    history = played.world.history
    warned = {(v.uid, text.split(" would fail")[0]) for d in played.decisions for v in d.victims for text in d.warnings}
    owner: dict[str, str] = {}
    lost_by: dict[str, Entry] = {}
    others_at: dict[str, float] = {}
    out = []
    for entry in history:
        record = entry.record
        if isinstance(record, Pod) and record.owner is not None:
            owner[record.uid] = record.owner.uid
        if entry.kind == "Pod" and entry.changed and entry.outcome == log.OK and entry.uid in owner:
            if entry.verb not in (log.EVENT, log.DECIDE):
                lost_by[owner[entry.uid]] = entry
        elif isinstance(record, Job) and entry.actor == log.USER:
            others_at[record.uid] = entry.at_seconds
        elif isinstance(record, Job) and "backoffLimit" in entry.detail:  # it counts the pod that was just lost
            cause = lost_by.get(record.uid)
            if cause is None or cause.actor != log.SCHEDULER:
                others_at[record.uid] = entry.at_seconds
            elif entry.verb != log.FAIL or (cause.uid, f"Job {record.key}") in warned:
                continue
            elif entry.at_seconds - others_at.get(record.uid, -math.inf) > RACE_SECONDS:
                out.append(f"{entry.object} at {entry.at_seconds:.3f} s, because {cause.object} was removed")
    return out


def too_many_rounds(played: Played) -> list[str]:
    """Gangs that evicted again before the pause was over that follows a round after which none of them was bound; each
    process begins anew, and so does a gang of which a pod is gone. Victims of another gang too would leave anyway.
    A plan is over as soon as its process gives it up, whatever is on its way then: a unit that was begun for it still
    leaves whole.
    """
    history = played.world.history
    ends = list(_given_up(played))
    gone = {e.uid for e in history if ends_object(e)}
    bound_at = {e.uid: e.at_seconds for e in history.of(log.BIND) if e.outcome == log.OK}
    out: Counter[str] = Counter()
    last: dict[str, invariants.Round] = {}
    made = invariants.rounds(history)
    marked = {uid: {each.gang for each in made if uid in each.marked} for each in made for uid in each.marked}
    for each in made:
        if not each.nominated and each.plan.startswith(notes.rest_of(plan="")):
            continue  # no gang waits for that room
        if all(len(marked[uid]) > 1 for uid in each.removed):
            if each.bound:
                last.pop(each.gang, None)  # it had room without any eviction of its own
            continue
        before, last[each.gang] = last.get(each.gang), each
        if before is None or before.bound or not gone.isdisjoint(before.nominated):
            continue
        began = history.entries[min((*each.nominated.values(), *each.marked.values()))].at_seconds
        if any(bound_at.get(uid, math.inf) < began for uid in before.nominated):
            continue  # without another eviction
        planned = max((history.entries[n].at_seconds for n in before.nominated.values()), default=math.inf)
        given_up = min((at for at, uid in ends if at >= planned and uid in before.nominated), default=math.inf)
        ended = min(history.entries[max(before.removed.values())].at_seconds, given_up)
        out[each.gang] += began - ended < ROUND_PAUSE_SECONDS
    return [f"{gang} did not pause after {n} rounds" for gang, n in out.items() if n >= played.processes]


def _given_up(played: Played) -> Iterator[tuple[float, str]]:
    """When (seconds) the plans of members (UIDs) whose nominations were taken back were given up."""
    for batch in played.batches:
        for action in batch.actions:
            if isinstance(action, WithdrawNomination):
                yield batch.at_seconds, action.pod.uid


def left_over(played: Played) -> list[str]:
    """Nominations and intents of pods that nobody is working on at the end."""
    world = played.world
    timeout = played.scenario.options.timeout_seconds
    since = {e.uid: e.at_seconds for e in world.history.of(log.NOMINATE, actor=log.SCHEDULER) if e.changed}
    return [
        f"{pod.key} is nominated to {pod.nominated_node} since {since.get(pod.uid, 0.0):.1f} s"
        for pod in world.store.pods.values()
        if pod.intent is not None
        and pod.intent.status == "True"
        and not pod.node
        and pod.scheduler in played.scenario.options.scheduler_names
        and world.clock.elapsed_seconds - since.get(pod.uid, 0.0) > timeout + 30.0
    ]


def held_nodes(played: Played) -> list[str]:
    """Nodes that bear our taint at the end without a plan on its way, and those that have lost a taint of others."""
    world = played.world
    since = {e.object: e.at_seconds for e in world.history.of(log.HOLD, actor=log.SCHEDULER) if e.changed}
    lasts = played.scenario.options.timeout_seconds + 30.0
    left = [
        f"{node.name} bears {node.held.value} since {since.get(node.name, 0.0):.1f} s"
        for node in world.store.nodes.values()
        if node.held is not None and world.clock.elapsed_seconds - since.get(node.name, 0.0) > lasts
    ]
    if "others" not in played.scenario.parts:
        return left
    # Whoever makes a node anew, or taints it, in other parts writes no taint but its own.
    writes = (e for e in world.history if e.actor == log.SCHEDULER and e.kind == "Node" and e.changed)
    before = {entry.number: entry for entry in world.history if entry.kind == "Node"}
    return left + [f"{e.object} has lost a taint at {e.at_seconds:.2f} s" for e in writes if _loses(e, before)]


def _loses(entry: Entry, before: dict[int, Entry]) -> bool:
    """Are the other taints of a node not as they were before this write?"""
    earlier = (e for n, e in sorted(before.items(), reverse=True) if n < entry.number and e.object == entry.object)
    last = next(earlier, None)
    records = (last.record if last is not None else None), entry.record
    return all(isinstance(r, Node) for r in records) and records[0].taints != records[1].taints  # type: ignore[union-attr]


def asleep(played: Played) -> list[str]:
    """Gangs that a scheduler which starts afresh would place at the end, although nothing was left to happen.

    Those that used up their rounds of evictions wait for longer on purpose. Of what others did in the last moment the
    scheduler may not have heard: the cluster lives on for a little after it has stopped.
    """
    world = played.world
    ended = world.clock.elapsed_seconds - RACE_SECONDS
    if any(e.actor != log.SCHEDULER and e.at_seconds > ended for e in world.history.entries[-50:]):
        return []
    core, cluster = Scheduler(played.scenario.options), SimCluster(world)
    now, events = cluster.poll()  # what any process is told first
    cluster.close()
    core.handle(events, now)
    for each in world.history.entries:
        # This the process that was refused knows for an hour.
        if (
            each.actor == log.SCHEDULER
            and each.verb in (log.DELETE, log.EVICT, log.ASK)
            and each.outcome == Outcome.REFUSED
        ):
            core.world.refused_removals.note(each.uid, "", "", now - (world.clock.elapsed_seconds - each.at_seconds))
    if core.has_work(now):
        core.decide(now)  # only one: later decisions rest on what this one would have changed
    return [
        f"{decision.gang.key} could {decision.outcome}"
        for decision in core.drain_decisions()
        if decision.outcome in (BIND, WAIT, PREEMPT)
        and not _busy(world.history, decision.gang, now)
        and not (decision.outcome == PREEMPT and _pauses(world.history, decision.gang, now))
    ]


def _pauses(history: History, gang: GangId, now: float) -> bool:
    """Does the gang evict no pod before a later time, as was last said on a member?"""
    mine = {e.uid for e in history if isinstance(e.record, Pod) and e.record.gang == gang}
    told = (e for e in history.of(log.CONDITION, actor=log.SCHEDULER) if e.uid in mine and e.outcome == log.OK)
    said = [str(e.detail["message"]) for e in told]
    found = re.search(r"no pod is evicted for it until (\S+Z)", said[-1]) if said else None
    return found is not None and parse_time(found[1], "") + 1.0 > now  # what is said leaves out fractions of a second


def _busy(history: History, gang: GangId, now: float) -> bool:
    """Has the scheduler done something for this gang lately, with success or without?"""
    pods = [e.record for e in history if isinstance(e.record, Pod)]
    owned = (p for p in pods if p.owner is not None and (p.namespace, p.owner.name) == (gang.namespace, gang.name))
    mine = {p.uid for p in pods if p.gang == gang} | {p.uid for p in owned}
    mine |= {e.uid for e in history if e.uid and e.kind == gang.family and e.object == gang.key}
    done = (e for e in history if e.actor == log.SCHEDULER and e.verb != log.EVENT and e.uid in mine)
    last = max((e.at_seconds for e in done), default=None)
    return last is not None and now - last < 60.0
