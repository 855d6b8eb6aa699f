"""Freed room is held against every scheduler: which nodes bear the taint now.

Other schedulers see neither the ledger nor nominations of pods that are not their own. Controllers create evicted pods
again at once. kube-scheduler would bind them as soon as one victim is gone, while the gang waits for all. All
schedulers see the node. So before the first pod is removed for a plan, each node with a member gets the taint
``gangsched.dev/held``, until the members are bound or the plan is over.

One question decides, for each node, at any time: does a living plan need it held? Any other taint of this kind is
removed, whatever process wrote it. A plan that only counts on pods which another one removes needs its nodes held from
the moment in which that one does. Two plans on a node share its taint, which names one of them.

A node is held for at most ``preemption.maxWait``. If a pod may take longer to terminate, the hold begins shortly before
its grace period ends, or when the first pod is gone. Only the nodes are held that
:mod:`gangsched.core.planning.held_nodes` finds, and each namespace has its share
(:mod:`gangsched.core.ledger.held_shares`).

Schedulers see nodes and pods by watches of their own, which may differ by a moment. So a taint counts when our own
watch has shown it, and is taken back a moment after the last of the members was seen bound, or the plan was over: a
plan that follows at once finds it there.

Where nodes may not be patched plans go on as if nothing had to be held, and a gang says so.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping

import msgspec

from gangsched.core.actions import HoldNode, ReleaseNode
from gangsched.core.actuation import desired
from gangsched.core.actuation.actuator import Actuator, Answer
from gangsched.core.events import Outcome
from gangsched.core.ledger.condemned import Cause, Eviction, Phase
from gangsched.core.ledger.ledger import Ledger
from gangsched.core.lifecycle import report
from gangsched.core.lifecycle.conditions import Reporter
from gangsched.core.lifecycle.group import Group, Plan
from gangsched.core.lifecycle.table import State
from gangsched.core.planning.held_nodes import ALWAYS, NEVER, contested, scarce_nodes, uses_free_room
from gangsched.core.world.world import World
from gangsched.messages import notes
from gangsched.messages.text import join_names
from gangsched.model.held import HELD, MOST_AGE_SECONDS, made_at, value_of
from gangsched.model.records import Node, Pod

#: A taint is taken back so long after it was needed last (seconds), and by a process that takes over so long after it
#: has begun: by then the gangs whose plans need it have been decided.
LINGER_SECONDS, TAKEOVER_SECONDS = 1.0, 5.0
#: Nothing is held for a plan longer than the longest grace period of the pods that it waits for, and this.
BEYOND_GRACE_SECONDS = 60.0
#: The hold for a pod that may take longer than a node may be held begins so long before its grace period ends.
HEAD_START_SECONDS = 10.0
#: Another scheduler may bind a pod that it has decided before it saw the taint: so long (seconds) after the taint was
#: seen, free room that a plan uses is looked at for the last time.
IN_FLIGHT_SECONDS = 0.5
#: An accepted write shows within this time, or it is repeated.
SHOWS_SECONDS = 2.0
#: So long nodes are not tried again that may not be patched.
REFUSED_SECONDS = 60.0
#: Phases in which pods are about to be removed, or terminate.
_FREEING = (Phase.MARKING, Phase.REMOVING, Phase.LEAVING)
#: Update a plan whose room was held before: its members are being bound.
_TAKING = (State.PREBINDING, State.BINDING, State.STARTING)


class HeldRoom(msgspec.Struct, frozen=True):
    """How many nodes bear the taint, and why no node can be held (empty: they can)."""

    nodes: int = 0
    refused: str = ""


class _Hold(msgspec.Struct):
    """The plan with this id needs its ``nodes`` held ``since`` then and ``until`` then, at most. Their time is counted
    up to ``counted``; ``over`` says that what came of it is known. All of them bear the taint since ``stood``.
    """

    plan: str
    value: str
    namespace: str
    since: float
    until: float
    nodes: frozenset[str]
    counted: float
    over: bool = False
    stood: float = math.inf


class _Asked(msgspec.Struct):
    """The taint that was asked for on a node, empty for none, and when it was acknowledged; None: not yet. ``problem``
    says why the last attempt has failed.
    """

    uid: str
    value: str
    since: float | None = None
    problem: str = ""


class Holding:
    """Holds nodes for the plans of ``groups``, by key. ``mode`` says when.

    :meth:`touch` takes what may have changed, :meth:`follow` asks ``actuator`` for what differs, and :meth:`stands` is
    what removals wait for.
    """

    def __init__(
        self,
        world: World,
        ledger: Ledger,
        mode: str,
        actuator: Actuator,
        reporter: Reporter,
        groups: Mapping[str, Group],
    ) -> None:
        self._world, self._ledger = world, ledger
        self._work = ledger.work
        self._mode = mode
        self._actuator = actuator
        self._reporter = reporter
        self._groups = groups
        self._holds: dict[str, _Hold] = {}
        self._on: dict[str, set[str]] = {}  # the keys of these, by node
        self._asked: dict[str, _Asked] = {}
        self._touched: set[str] = set()
        self._dirty: set[str] = set()
        self._heard: set[str] = set()  # of these plans a node has changed, or a write to one is answered
        self._shares = ledger.held_shares
        self._since: dict[str, float] = {}  # by node, when the taint was asked for that is on it
        self._begins_at = ledger.agenda.page()  # by key, when nodes of a plan with slow victims are to be held
        self._settled = ledger.agenda.page()  # by key, when free room may be looked at for the last time
        self._most = ledger.agenda.page()  # by node, when it has been held for as long as it may be
        self._until = ledger.agenda.page()  # by key, when a plan has had its time
        self._linger = ledger.agenda.page()  # by node, until when it stays held without a plan
        self._show_by = ledger.agenda.page()  # by node, when what was acknowledged should show
        self._try_again = ledger.agenda.page()
        self._refused = False  # for a while
        self._refused_last = ""  # why, until a node could be held again
        self._others_wait = False

    # -- plans -----------------------------------------------------------------------------------------------

    def plan_made(self, group: Group) -> None:
        """Pods are going to leave for a plan of this group: note which of its nodes are worth holding."""
        if group.plan is None or group.rolled_back:
            return
        places = group.plan.placements
        group.plan.scarce = scarce_nodes(self._world, self._ledger, group.key, places)
        group.plan.uses_free_room = uses_free_room(self._world, self._ledger, group.key, places)
        if self._mode != NEVER and not self._refused:
            self._shares.claim(_namespace(group), group.key, group.plan.scarce)

    def may_give_devices(self, group: Group, plan: Plan) -> bool:
        """Return True if claims of this plan may get devices of its nodes. If pods of other schedulers use devices too,
        the nodes are held first, and what these schedulers had decided before is known.

        The API server does not notice a device that is given out twice. kube-scheduler takes one that only one of both
        claims gives back for free.
        """
        if not plan.device_nodes:
            return True
        self._renew(group.key)
        hold = self._holds.get(group.key)
        return hold is None or self._stood(group.key, hold)

    @property
    def always(self) -> bool:
        """True if nodes are held whether other schedulers wait or not."""
        return self._mode == ALWAYS

    def is_holding(self, key: str) -> bool:
        """Return True if nodes are held for the plan of this group."""
        hold = self._holds.get(key)
        return hold is not None and bool(hold.nodes)

    def plan_over(self, group: Group, *, bound: bool) -> None:
        """The plan of this group is over; its members are ``bound``, or nodes were held without effect."""
        self._shares.claim(_namespace(group), group.key, frozenset())
        hold = self._holds.get(group.key)
        if hold is not None and bound:
            self._count(hold)
            hold.over = True
            self._shares.bound(hold.namespace)
        elif hold is not None:
            self._record_without_binding(hold)

    def _record_without_binding(self, hold: _Hold) -> None:
        """Nodes were held, and the plan has not led to a binding."""
        self._count(hold)
        if not hold.over:
            hold.over = True
            self._shares.held_in_vain(hold.namespace, self._world.now - hold.since, self._world.now)

    def _count(self, hold: _Hold) -> None:
        """Charge the namespace for its nodes up to now."""
        self._shares.add(hold.namespace, len(hold.nodes) * (self._world.now - hold.counted))
        hold.counted = self._world.now

    def drain_seconds(self) -> dict[str, float]:
        """By namespace the node-seconds that were held for it since the last call."""
        for hold in self._holds.values():
            self._count(hold)
        return self._shares.drain()

    # -- what happens --------------------------------------------------------------------------------------

    def touch(self, keys: Iterable[str]) -> None:
        """Something about the plans of these groups is different now."""
        self._touched.update(keys)

    def begin(self) -> None:
        """This process leads from now on: what an earlier one has left is taken back unless a plan needs it soon."""
        for name in self._world.held:
            self._since[name] = self._world.now
            self._linger.at(name, self._world.now + TAKEOVER_SECONDS)
        self._dirty.update(self._world.held)

    def answered(self, answer: Answer) -> None:
        """The outcome of a write to a node."""
        action = answer.action
        asked, name = self._asked.get(action.pod.name), action.pod.name
        value = action.value if isinstance(action, HoldNode) else ""
        if asked is None or asked.value != value or action.pod.uid not in (asked.uid, name):
            return
        asked.problem = answer.message
        if answer.outcome is Outcome.OK:
            asked.since = self._world.now
            self._show_by.at(name, self._world.now + SHOWS_SECONDS)
        elif answer.outcome is Outcome.GONE:
            self._forget(name)
            self._refused_last = self._refused_last if not value else ""
        elif answer.outcome is Outcome.REFUSED and value:
            del self._asked[name]
            self._refuse(answer.message, self._on.get(name, ()))
        self._dirty.add(name)
        self._heard.update(self._on.get(name, ()))

    def _refuse(self, why: str, keys: Collection[str]) -> None:
        """Nodes may not be patched: plans go on without."""
        first, self._refused, self._refused_last = not self._refused_last, True, why or notes.NO_REASON
        self._try_again.at("", self._world.now + REFUSED_SECONDS)
        told = (self._groups[key] for key in sorted(keys) if key in self._groups)
        group = next(told, None)
        if first and group is not None:
            note = notes.room_not_held(why=self._refused_last)
            self._reporter.event(report.trigger(self._world, group), report.ROOM_NOT_HELD, note)
        waiting = set(self._holds)
        self._touched |= waiting
        self._heard |= waiting

    def _tell(self) -> None:
        """Look again at the plans that may have waited for a node to be held, and those whose removals have. This takes
        the time of all their victims, so it is done once for many answers.
        """
        for key in self._heard:
            self._work.phases.add(key)
            self._work.phases.update(self._owners(key))
        self._heard.clear()

    # -- questions -----------------------------------------------------------------------------------------

    def stands(self, eviction: Eviction) -> bool:
        """Return True if every node is held that must be held before this eviction removes pods."""
        keys = [eviction.key, *self._counting_on(eviction)]
        for key in keys:
            self._renew(key)
        found = [self._stands(key, self._holds[key]) for key in keys if key in self._holds]  # each notes when
        return all(found)

    def _stands(self, key: str, hold: _Hold) -> bool:
        """Return whether the nodes of a plan are held, and what others had decided before is known where it counts."""
        if not all(map(self._is_held, hold.nodes)):
            hold.stood = math.inf
            return False
        hold.stood = min(hold.stood, self._world.now)
        plan = self._groups[key].plan if key in self._groups else None
        if plan is None or not plan.uses_free_room or plan.eviction.begun:
            return True
        return self._stood(key, hold)

    def _stood(self, key: str, hold: _Hold) -> bool:
        """Return whether the nodes of a plan have been held for long enough to show what others had decided before."""
        if not all(map(self._is_held, hold.nodes)):
            hold.stood = math.inf
            return False
        hold.stood = min(hold.stood, self._world.now)
        ready = hold.stood + IN_FLIGHT_SECONDS
        if self._world.now < ready:
            self._settled.at(key, ready)
        return self._world.now >= ready

    def waits_for(self, group: Group) -> str:
        """Why its removals have not begun, in words: nodes that are not held yet; empty if that is not so."""
        hold = self._holds.get(group.key) if group.evicts(Phase.MARKING) else None
        missing = sorted(node for node in hold.nodes if not self._is_held(node)) if hold is not None else ()
        if not missing:
            return ""
        asked = (self._asked.get(node) for node in missing)
        why = next((each.problem for each in asked if each is not None and each.problem), "")
        return notes.not_held_yet(nodes=join_names(missing, 5), why=f" ({why})" if why else "")

    def not_held_in_time(self) -> list[str]:
        """The keys of groups of which the nodes could not all be held in the time in which they may be."""
        over = self._until.due(self._world.now)
        self._touched.update(over)
        return [key for key in over if key in self._groups and self.waits_for(self._groups[key])]

    def releases(self) -> list[ReleaseNode]:
        """Return what takes the taint off every node that bears it, or is to bear it."""
        values = {name: node.held.value for name, node in self._world.held.items() if node.held} | self._ledger.held
        found = ((self._world.snapshot.node(name), value) for name, value in sorted(values.items()))
        return [desired.release(node, value) for node, value in found if node is not None]

    def status(self) -> HeldRoom:
        """How things stand, for those who ask."""
        return HeldRoom(len(self._world.held), self._refused_last)

    def _is_held(self, name: str) -> bool:
        node, asked = self._world.snapshot.node(name), self._asked.get(name)
        if node is None or _held_by_others(node):
            return True
        taken_back = asked is not None and not asked.value
        return node.held is not None and not taken_back

    def _counting_on(self, eviction: Eviction) -> list[str]:
        """The keys of other groups that wait for pods which leave by this eviction."""
        waiting = {key for uid in eviction.victims for key in self._ledger.awaited.get(uid, ())}
        return sorted(waiting - {eviction.key})

    def _owners(self, key: str) -> set[str]:
        """The keys of those who make the pods leave that a group waits for."""
        condemned = self._ledger.condemned
        records = map(condemned.records.get, self._ledger.waits(key))
        owners = {each.owner for each in records if each is not None}
        return {owner for owner in owners if owner in condemned.evictions}

    # -- nodes of plans --------------------------------------------------------------------------------------

    def _frees(self, key: str) -> bool:
        """Return True if the eviction with this key removes pods now or has begun to."""
        eviction = self._ledger.condemned.evictions.get(key)
        if eviction is None or eviction.grounds.cause is not Cause.PREEMPTION:
            return False
        return eviction.phase in _FREEING and eviction.begins <= self._world.now

    def _begins(self, group: Group, plan: Plan) -> bool:
        """Return True if only unanswered writes delay the first removal of this plan. The taint is sent together with
        the nominations, so that hardly anything waits for it.
        """
        eviction, pods = plan.eviction, self._world.pods
        if eviction.phase is not Phase.NOMINATING or eviction.begins > self._world.now:
            return self._frees(group.key)
        others = (pods.get(uid) for uid in self._ledger.waits(group.key) if uid not in plan.victims)
        return not any(pod is not None and pod.live for pod in others)

    def _needs(self, key: str) -> Plan | None:
        """The plan of this group, if its nodes are to be held now."""
        group = self._groups.get(key)
        plan = group.plan if group is not None else None
        if group is None or plan is None or group.rolled_back or self._mode == NEVER or self._refused:
            return None
        known = self._holds.get(key)
        if known is not None and known.plan == plan.ident:
            return plan if group.state in (State.EVICTING, *_TAKING) else None
        if group.state is State.PREBINDING and plan.device_nodes:
            return plan
        if group.state is not State.EVICTING or not (
            self._begins(group, plan) or any(map(self._frees, self._owners(key)))
        ):
            return None
        return plan if contested(self._world, self._mode, {*plan.victims, *self._ledger.waits(key)}) else None

    def _rest_of(self, key: str) -> frozenset[str]:
        """The nodes on which room is kept, or being taken, for the rest of a gang that is bound in part. The plan that
        was held for it is over. The room was freed for that gang, and others must not have it first.
        """
        group = self._groups.get(key)
        if group is None or group.rolled_back:
            return frozenset()
        if group.plan is not None:
            return self._holds[key].nodes.intersection(group.plan.node_of.values() if group.state in _TAKING else ())
        in_part = self._world.membership.half_bound(group.gangs)
        return frozenset(pod.node for pod in self._ledger.pods_of(key)) if in_part else frozenset()

    def _leaving(self, uids: Iterable[str]) -> Iterator[Pod]:
        """Return those of these pods that still use their room."""
        pods = map(self._world.pods.get, uids)
        return (pod for pod in pods if pod is not None and not pod.finished)

    def _span(self, key: str, plan: Plan, most: float) -> tuple[float, float]:
        """When a hold for this plan begins and ends that lasts for at most so many seconds.

        Others may take a room as soon as its pod is gone, so the hold begins before the first pod is removed. One of
        them may take longer than the hold. Then it begins when the pods are removed that terminate sooner, so that all
        rooms appear together, or when one is gone before its time.
        """
        now, awaited = self._world.now, {*plan.victims, *self._ledger.waits(key)}
        longest = max((self._world.leaves_by(pod) - now for pod in self._leaving(awaited)), default=0.0)
        begins, all_pods = now, {*plan.victims, *plan.awaited}
        if longest > most and sum(1 for _ in self._leaving(all_pods)) == len(all_pods):
            quick = (pod.grace_seconds for pod in self._leaving(plan.victims) if pod.live)
            ahead = max((seconds for seconds in quick if seconds <= most), default=0.0)
            begins = max(now, now + longest - max(ahead, min(HEAD_START_SECONDS, most / 2)))
        return begins, begins + min(now + longest - begins + BEYOND_GRACE_SECONDS, most)

    def _begin_hold(self, group: Group, plan: Plan, known: _Hold | None) -> frozenset[str]:
        """Hold the nodes of a new plan, unless it is too early; returns them. Holds of an earlier plan of the group
        count.
        """
        now, namespace = self._world.now, _namespace(group)
        begins, until = self._span(group.key, plan, self._shares.seconds_left(namespace))
        until = min(until, made_at(plan.ident) + MOST_AGE_SECONDS)
        self._holds.pop(group.key, None)
        self._until.never(group.key)
        if begins > now:
            self._begins_at.at(group.key, begins)
        nodes = plan.scarce | plan.device_nodes
        if begins > now or until <= now or self._shares.may_hold_from(namespace) > now or not nodes:
            return frozenset()
        since = now
        if known is not None and not known.over:
            since, until = known.since, min(until, known.since + self._shares.most_seconds)
        value = value_of(plan.ident, plan.eviction.grounds.scheduler)
        self._holds[group.key] = _Hold(plan.ident, value, namespace, since, until, nodes, now)
        if math.isfinite(until):
            self._until.at(group.key, until)
        return nodes

    def _renew(self, key: str) -> None:
        """Say anew which nodes are to be held for a group."""
        plan, known = self._needs(key), self._holds.get(key)
        if known is not None:
            self._count(known)
            if self._world.now >= known.until:
                self._record_without_binding(known)
        before = known.nodes if known is not None else frozenset()
        after = frozenset[str]()
        if plan is None and known is not None and (rest := self._rest_of(key)):
            known.nodes = after = rest if self._world.now < known.until else frozenset()
        elif plan is None:
            self._holds.pop(key, None)
            self._until.never(key)
            self._begins_at.never(key)
        elif known is not None and known.plan == plan.ident:
            wanted = (known.nodes | plan.device_nodes).intersection(plan.node_of.values())
            known.nodes = after = wanted if self._world.now < known.until else frozenset()
        else:
            after = self._begin_hold(self._groups[key], plan, known)
        for node in before - after:
            self._on[node].discard(key)
            if not self._on[node]:
                del self._on[node]
            if key not in self._holds:  # else its time is over, or members go elsewhere
                self._linger.at(node, self._world.now + LINGER_SECONDS)
        for node in after - before:
            self._on.setdefault(node, set()).add(key)
            self._linger.never(node)
        self._dirty |= before ^ after

    # -- taints of nodes -------------------------------------------------------------------------------------

    def write_taints(self) -> None:
        """Ask for what differs from what is to stand on nodes."""
        self._observe()
        while self._touched:
            for key in sorted(self._touched):
                self._touched.discard(key)
                self._renew(key)
                if key in self._ledger.condemned.evictions:
                    counting = self._counting_on(self._ledger.condemned.evictions[key])
                    self._touched.update(each for each in counting if self._needs(each) and each not in self._holds)
        for name in sorted(self._dirty):
            self._set(name)
        self._dirty.clear()
        self._tell()

    def _observe(self) -> None:
        """Take in what has changed by itself: nodes, pods of other schedulers, time."""
        world, ledger = self._world, self._ledger
        for name in world.held_changed:
            asked = self._asked.get(name)
            if asked is not None and asked.since is not None:
                del self._asked[name]  # what is seen counts again: another client may have changed it
            self._dirty.add(name)
            self._heard.update(self._on.get(name, ()))
        world.held_changed.clear()
        others_wait, self._others_wait = self._others_wait, world.rivals.wait()
        if self._others_wait and not others_wait:
            self._touched |= ledger.condemned.evictions.keys()
        for name in self._linger.due(world.now):
            if name in world.assumed.values():  # a member was not seen to be bound there yet
                self._linger.at(name, world.now + LINGER_SECONDS)
            self._dirty.add(name)
        self._touched.update(self._begins_at.due(world.now))
        self._heard.update(self._settled.due(world.now))
        self._dirty.update(self._most.due(world.now))
        for name in self._show_by.due(world.now):
            self._asked.pop(name, None)
            self._dirty.add(name)
            self._heard.update(self._on.get(name, ()))
        if self._try_again.due(world.now):
            self._refused = False
            self._touched |= ledger.condemned.evictions.keys()

    def _set(self, name: str) -> None:
        node = self._world.snapshot.node(name)
        asked = self._asked.get(name)
        if node is None or _held_by_others(node):
            self._forget(name)
            return
        if asked is not None and asked.uid != node.uid:
            del self._asked[name]
            asked = None
        shown = node.held.value if node.held is not None else ""
        stands = asked.value if asked is not None else shown
        wanted = self._wanted(name, stands)
        if wanted and self._world.now >= self._since.get(name, self._world.now) + self._shares.most_seconds:
            self._had_its_time(name)
            wanted = ""
        if wanted:
            self._most.at(name, self._since.setdefault(name, self._world.now) + self._shares.most_seconds)
            self._ledger.held[name] = wanted
        else:
            self._ledger.held.pop(name, None)
            if not stands:
                self._since.pop(name, None)
        if wanted != stands:
            self._ask(node, wanted, stands)

    def _ask(self, node: Node, wanted: str, stands: str) -> None:
        self._asked[node.name] = _Asked(node.uid, wanted)
        self._show_by.never(node.name)
        self._actuator.want(desired.hold(self._ledger.held, node, stands))

    def _wanted(self, name: str, stands: str) -> str:
        """Return the desired value of the taint on a node with this current value; empty for no taint."""
        values = {self._holds[key].value for key in self._on.get(name, ())}
        if stands in values or (not values and name in self._linger):
            return stands
        return min(values, default="")

    def _had_its_time(self, name: str) -> None:
        """The node has been held for as long as it may be, for whatever plans: it is given back to others."""
        self._linger.never(name)
        for key in self._on.pop(name, ()):
            hold = self._holds[key]
            self._count(hold)
            hold.nodes -= {name}

    def _forget(self, name: str) -> None:
        """The node is gone, or not ours to hold."""
        self._asked.pop(name, None)
        self._since.pop(name, None)
        self._most.never(name)
        self._ledger.held.pop(name, None)
        self._show_by.never(name)
        self._linger.never(name)


def _namespace(group: Group) -> str:
    """The namespace for whose gangs the nodes are held; of a GangGroup that of its first gang."""
    return group.gangs[0].namespace


def _held_by_others(node: Node) -> bool:
    """Return True if a node has the taint of another installation. A node cannot have two taints with one key and
    effect.
    """
    return any(taint.key == HELD for taint in node.taints)
