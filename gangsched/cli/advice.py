"""Changes that would make a gang start: the smallest of each kind with which the decision succeeds."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import combinations, product
from typing import NamedTuple, TypeAlias

from msgspec.structs import replace

from gangsched.cli.decisions import State, can_start
from gangsched.cli.quota_advice import QuotaAdvisor
from gangsched.core.decision import Decision, Fits, FitsWhenFreed, Preempt, Unschedulable
from gangsched.core.planning.headline import amounts, why_refused, written
from gangsched.core.preemption.removal import budgets_of
from gangsched.messages import advice
from gangsched.messages.text import join_names, pluralize
from gangsched.model.constraints import PodShape, Record, Taint, Toleration
from gangsched.model.jobsets import JobSet
from gangsched.model.node_taints import is_of_removal, is_of_state
from gangsched.model.parts import anywhere
from gangsched.model.records import (
    PREEMPT_NEVER,
    SYSTEM_CRITICAL_PRIORITY,
    Budget,
    Gang,
    Job,
    Node,
    Pod,
)
from gangsched.model.times import clock_time

#: A record as it would be; None: it would not be there.
Change: TypeAlias = Callable[[Record], Record | None]
#: Nothing more is tried after so much work (:attr:`~.decisions.State.work`): large clusters take long, and an answer is
#: wanted. It does not depend on the machine, so the same advice is found everywhere.
MOST_WORK = 20_000
#: What brings back nodes that are refused for this reason.
_BACK: Mapping[str, Callable[[str], str]] = {
    "cordoned": lambda nodes: advice.uncordon(nodes=nodes),
    "not ready": lambda nodes: advice.get_ready(nodes=nodes),
}
#: So many nodes more are thought of.
_MOST_NODES = 256
_FEW = 3


class Option(NamedTuple):
    """A change, and in words. Of some kinds ``one`` is enough."""

    text: str
    change: Change
    one: bool = False


class Advisor:
    """Tries changes on one gang, the members that wait first; ``nodes`` are those that there are."""

    def __init__(self, state: State, decision: Decision, nodes: Sequence[Node]) -> None:
        self._state = state
        self._decision = decision
        self._nodes = nodes
        self._most = state.work + MOST_WORK
        membership = state.world.membership
        self._gangs = membership.group(decision.gang)[0]
        self._members = {p.uid: p for gang in self._gangs for p in membership.pods(gang)}
        self._pending = [p for gang in self._gangs for p in membership.census(gang).pending]

    def found(self) -> Iterator[str]:
        """Sentences, the first of which is the one to begin with."""
        kinds: tuple[Callable[[], Iterator[str]], ...] = (
            self._claims,
            *(partial(self._alone, kind) for kind in self._kinds_of_change()),
            self._quota,
            self._fewer,
            self._priorities,
            self._budgets,
            self._foreign_filters,
            self._waiting,
            self._more_nodes,
        )
        single = False
        for kind in kinds:
            for text in kind() if self._goes_on else ():
                single = True
                yield text
        if not single:
            yield from self._pairs()

    def _kinds_of_change(self) -> tuple[Callable[[], Iterator[Option]], ...]:
        return self._tolerations, self._nodes_back, self._selectors, self._topology, self._request

    def _alone(self, kind: Callable[[], Iterator[Option]]) -> Iterator[str]:
        """The first changes of a kind that are enough by themselves; of nodes and taints one."""
        for option in kind():
            if self._goes_on and (then := self._try(option.change)):
                yield advice.starts_then(change=option.text, then=then)
                if option.one:
                    return

    @property
    def _goes_on(self) -> bool:
        return self._state.work < self._most

    # -- trying ------------------------------------------------------------------------------------------------

    def _try(self, change: Change, more: Sequence[Record] = ()) -> str:
        """When it can start with this change, in words; empty if it cannot."""
        return how_it_starts(self._state.changed(self._decision.gang, change, more))

    def _with_pods(self, change: Callable[[Pod], Pod | None]) -> str:
        def changed(record: Record) -> Record | None:
            mine = isinstance(record, Pod) and record.uid in self._members
            return change(record) if mine and isinstance(record, Pod) else record

        return self._try(changed)

    def _of_shapes(self, fields: Callable[[PodShape], Mapping[str, object]]) -> Change:
        """A change of fields of the shapes of its members."""

        def changed(record: Record) -> Record:
            if isinstance(record, Pod) and record.uid in self._members:
                return replace(record, shape=replace(record.shape, **fields(record.shape)))
            return record

        return changed

    def with_resource(self, asked: str, other: str) -> str:
        """When it can start if its pods asked for this other resource, in words; empty if it cannot."""

        def renamed(pod: Pod) -> Pod:
            requests = tuple((other if r == asked else r, amount) for r, amount in pod.shape.requests)
            return replace(pod, shape=replace(pod.shape, requests=requests))

        return self._with_pods(renamed)

    # -- what is tried -----------------------------------------------------------------------------------------

    def _claims(self) -> Iterator[str]:
        """Claims that are named and not there."""
        missing = sorted({r for r in self._reasons() if r.startswith("persistentvolumeclaim ")})
        then = self._with_pods(lambda pod: replace(pod, volumes=None)) if missing else ""
        if then:
            names = [text.split('"')[1] for text in missing if '"' in text]
            space = self._decision.gang.namespace
            claims = join_names([f"PersistentVolumeClaim {space}/{name}" for name in names], _FEW)
            yield advice.create_claim(claims=claims, then=then)

    def _reasons(self) -> set[str]:
        return {reason for unplaced in self._decision.unplaced for reason in unplaced.reasons}

    def _tolerations(self) -> Iterator[Option]:
        """Taints of nodes that pods may be meant to use, those of one node together."""
        found = {
            tuple(sorted((t for t in node.taints if _keeps_off(t)), key=written))
            for node in self._nodes
            if any(_is_taint(pod, node) for pod in self._pending) and not any(map(is_of_removal, node.taints))
        }
        for taints in sorted(found, key=lambda each: (len(each), *map(written, each))):
            new = tuple(Toleration(key=t.key, operator="Exists", effect=t.effect) for t in taints)
            names = join_names(list(map(written, taints)), _FEW)
            change = self._of_shapes(partial(_with_tolerations, new))
            yield Option(advice.tolerate(taint=names), change, one=True)

    def _nodes_back(self) -> Iterator[Option]:
        """Nodes that are cordoned or not ready: as few kinds of them as are enough."""
        kinds: dict[str, list[str]] = {}
        for node in self._nodes:
            for kind in {why_refused(pod, node)[0] for pod in self._pending} & _BACK.keys():
                kinds.setdefault(kind, []).append(node.name)
        for some in (*([kind] for kind in sorted(kinds)), [*sorted(kinds)] if len(kinds) > 1 else []):
            away = {name for kind in some for name in kinds[kind]}
            said = " and ".join(_BACK[kind](join_names(sorted(kinds[kind]), _FEW)) for kind in some)

            def back(record: Record, away: set[str] = away) -> Record:
                mine = isinstance(record, Node) and record.name in away
                return _as_ready(record) if mine and isinstance(record, Node) else record

            if some:
                yield Option(said, back, one=True)

    def _selectors(self) -> Iterator[Option]:
        named = {f"{key}={value}" for pod in self._pending for key, value in pod.shape.node_selector}
        if named:
            free = self._of_shapes(lambda _: {"node_selector": ()})
            yield Option(advice.other_selector(selector=" and ".join(sorted(named))), free)
        if any(pod.shape.node_terms is not None or pod.shape.node_name for pod in self._pending):
            yield Option(advice.OTHER_AFFINITY, self._of_shapes(lambda _: {"node_terms": None, "node_name": ""}))

    def _topology(self) -> Iterator[Option]:
        specs = [s for gang in self._gangs if (s := self._state.world.membership.spec(gang)) is not None]
        kept_together = self._state.world.membership.kept_together
        asked = (spec.topology if spec.parts is None else kept_together(spec) for spec in specs)
        keys = sorted({key for topology in asked for key, required in topology if required})
        if not keys:
            return
        names = {(s.family, s.namespace, s.name) for s in specs}

        def free(record: Record) -> Record:
            if isinstance(record, Gang) and (record.family, record.namespace, record.name) in names:
                return replace(record, topology=(), parts=record.parts and anywhere(record.parts))
            if isinstance(record, Pod) and record.uid in self._members:
                hints = {k: v for k, v in record.hints.items() if "topology" not in k}
                return replace(record, hints=hints)
            return record

        yield Option(advice.without_topology(keys=", ".join(keys)), free)

    def _request(self) -> Iterator[Option]:
        """What the largest node has, of what no node has enough."""
        asked: dict[str, int] = {}
        for pod in self._pending:
            for resource, amount in pod.shape.requests:
                most = max((dict(node.allocatable).get(resource, 0) for node in self._nodes), default=0)
                if amount > most:
                    asked[resource] = most
        asked = {resource: most for resource, most in asked.items() if most}
        if asked:
            less = self._of_shapes(
                lambda shape: {"requests": tuple((r, min(n, asked.get(r, n))) for r, n in shape.requests)}
            )
            yield Option(advice.smaller_request(asked=amounts(sorted(asked.items()))), less)

    def _pairs(self) -> Iterator[str]:
        """Two changes of different kinds that are enough together, where none is alone."""
        kinds = [list(kind()) for kind in self._kinds_of_change()]
        for one, other in combinations(kinds, 2):
            for first, second in product(one, other):
                if not self._goes_on:
                    return
                if then := self._try(partial(_both, first.change, second.change)):
                    text = advice.both(first=first.text, second=second.text)
                    yield advice.starts_then(change=text, then=then)
                    return

    def _fewer(self) -> Iterator[str]:
        """The most members with which it can start."""
        gang = self._decision.gang
        spec = self._state.world.membership.spec(gang)
        if spec is None or len(self._gangs) > 1 or spec.roles or spec.parts is not None or spec.min_member < 2:
            return
        bound = len(self._members) - len(self._pending)
        low, high, best = bound, spec.min_member, ""
        while high - low > 1 and self._goes_on:
            middle = (low + high) // 2
            then = self._try(_of_size(spec, self._pending, middle, bound))
            low, high, best = (middle, high, then) if then else (low, middle, best)
        if best and low:
            yield advice.fewer_members(members=pluralize(low, "member"), then=best)

    def _priorities(self) -> Iterator[str]:
        levels = {pod.priority for pod in self._members.values()}
        own = self._state.world.membership.own_priority(self._decision.gang)
        if own is None and len(levels) > 1:
            then = how_it_starts(self._state.with_priority(self._gangs, self._decision.gang, max(levels)))
            if then:
                low = sorted(pod.name for pod in self._members.values() if pod.priority < max(levels))
                yield advice.same_class(pods=join_names(low, _FEW), lowest=min(levels), highest=max(levels), then=then)
                return
        yield from self._priority()

    def _priority(self) -> Iterator[str]:
        state, decision, gangs = self._state, self._decision, self._gangs
        highest = state.with_priority(gangs, decision.gang, SYSTEM_CRITICAL_PRIORITY)
        if isinstance(highest, Fits | FitsWhenFreed):
            ahead = [d.priority for d, _ in state.decisions if d.gang != decision.gang and d.placements]
            outranked = any(priority > decision.priority for priority in ahead)
            yield advice.EARLIER if outranked else advice.among_equals(priority=decision.priority)
        if not isinstance(highest, Preempt):
            return
        enough = max(v.priority for v in highest.victims) + 1
        if enough <= decision.priority:
            if state.world.membership.policy(gangs) == PREEMPT_NEVER:
                yield advice.may_preempt(then=how_it_starts(highest))
            return
        if then := how_it_starts(state.with_priority(gangs, decision.gang, enough)):
            yield advice.higher_priority(priority=enough, then=then)

    def _budgets(self) -> Iterator[str]:
        """Budgets that allow no eviction where they are absolute."""
        state = self._state
        if not state.options.strict_budgets:
            return
        found = state.changed(self._decision.gang, lambda record: None if isinstance(record, Budget) else record)
        if isinstance(found, Preempt):
            budgets, pods = budgets_of(state.world, state.scheduler.ledger.condemned), state.world.pods
            names = {budget.key for victim in found.victims for budget in budgets.matching(pods[victim.uid])}
            yield advice.more_disruptions(budgets=join_names(sorted(names), _FEW), then=how_it_starts(found))

    def _foreign_filters(self) -> Iterator[str]:
        """Filters of others, which refuse nodes for reasons of their own."""
        found, names = self._state.without_foreign_filters(self._decision.gang)
        if then := how_it_starts(found):
            yield advice.without_filters(filters=join_names(names, _FEW), then=then)

    def _waiting(self) -> Iterator[str]:
        """Yield changes that time alone brings."""
        decision, state = self._decision, self._state
        at = decision.retry_at if isinstance(decision, Unschedulable) else None
        if at is not None and (then := how_it_starts(state.at(decision.gang, at + 1))):
            yield advice.time(time=clock_time(at, state.now), then=then)
        elif then := how_it_starts(state.without_patience(decision.gang)):
            yield advice.patience(then=then)

    def _quota(self) -> Iterator[str]:
        quota = self._decision.quota
        if quota is not None:
            yield from QuotaAdvisor(self._state, self._gangs, self._try).found(quota)

    def _more_nodes(self) -> Iterator[str]:
        """As few more of the nodes that members may use as are enough, empty."""
        kinds: dict[tuple[object, ...], Node] = {}
        for node in self._nodes:
            usable = any(why_refused(pod, node)[0] in ("other", "going", *_BACK) for pod in self._pending)
            if usable:
                kinds.setdefault((node.allocatable, node.taints), node)
        large = sorted(kinds.values(), key=lambda node: (_fits_one(self._pending, node), node.name), reverse=True)
        for like in large[:1]:
            high, then = 1, ""
            while high <= _MOST_NODES and not then and self._goes_on:
                then = self._with_nodes(like, high)
                high *= 2
            if not then:
                return
            high //= 2
            low = high // 2
            while high - low > 1 and self._goes_on:
                middle = (low + high) // 2
                found = self._with_nodes(like, middle)
                low, high, then = (low, middle, found) if found else (middle, high, then)
            yield advice.more_nodes(nodes=pluralize(high, "node"), node=like.name, then=then)
        if not self._nodes:
            yield from self._first_nodes()

    def _first_nodes(self) -> Iterator[str]:
        """Nodes for a cluster that has none: one for each member, as large as the largest of them."""
        largest: dict[str, int] = {}
        for pod in self._pending:
            largest |= {r: max(amount, largest.get(r, 0)) for r, amount in pod.shape.requests}
        labels = {key: value for pod in self._pending for key, value in pod.shape.node_selector}
        count, room = self._decision.required, tuple(sorted(largest.items()))
        if then := self._with_nodes(Node("node", labels=labels, allocatable=(*room, ("pods", 1))), count):
            yield advice.first_nodes(nodes=pluralize(count, "node"), room=amounts(room), then=then)

    def _with_nodes(self, like: Node, count: int) -> str:
        more = [
            replace(
                _as_ready(like),
                name=f"{like.name}-more-{n}",
                uid=f"more-{n}",
                labels={**like.labels, "kubernetes.io/hostname": f"{like.name}-more-{n}"},
            )
            for n in range(count)
        ]
        return self._try(lambda record: record, more)


def how_it_starts(decision: Decision | None) -> str:
    """When it can start, and who is evicted for that, in words; empty if it cannot."""
    if not isinstance(decision, Fits | FitsWhenFreed | Preempt) or not decision.placements:
        return ""
    when = can_start(decision)
    if isinstance(decision, Preempt):
        return f"it {when} ({join_names([v.key for v in decision.victims], _FEW)})"
    return f"it {when}"


def _with_tolerations(new: Sequence[Toleration], shape: PodShape) -> Mapping[str, object]:
    return {"tolerations": (*shape.tolerations, *new)}


def _both(first: Change, second: Change, record: Record) -> Record | None:
    once = first(record)
    return None if once is None else second(once)


def _keeps_off(taint: Taint) -> bool:
    return taint.effect != "PreferNoSchedule" and not is_of_state(taint)


def _as_ready(node: Node) -> Node:
    """The node as it is when it is in use, without what controllers have written about its state."""
    taints = tuple(t for t in node.taints if not is_of_state(t) and not is_of_removal(t))
    return replace(node, unschedulable=False, ready=True, taints=taints)


def _is_taint(pod: Pod, node: Node) -> bool:
    return why_refused(pod, node)[0] == "taint"


def _fits_one(pods: Sequence[Pod], node: Node) -> int:
    has: Mapping[str, int] = dict(node.allocatable)
    return sum(all(has.get(resource, 0) >= amount for resource, amount in pod.shape.requests) for pod in pods)


def _of_size(spec: Gang, pending: Sequence[Pod], size: int, bound: int) -> Change:
    """The gang with so many members, of which some are bound."""
    gone = {pod.uid for pod in sorted(pending, key=lambda p: p.key)[max(0, size - bound) :]}
    space, name = spec.namespace, spec.name

    def smaller(record: Record) -> Record | None:
        match record:
            case Pod() if record.uid in gone:
                return None
            case Gang() if (record.namespace, record.name) == (space, name):
                return replace(record, min_member=min(record.min_member, size))
            case Job() if (record.namespace, record.name) == (space, name):
                completions = None if record.completions is None else min(record.completions, size)
                return replace(record, parallelism=min(record.parallelism, size), completions=completions)
            case JobSet() if (record.namespace, record.name) == (space, name):
                return None
        return record

    return smaller
