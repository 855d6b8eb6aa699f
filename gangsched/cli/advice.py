"""What would make a gang start: the smallest change of each kind that the decision itself then accepts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeAlias

from msgspec.structs import replace

from gangsched.cli.decisions import State, can_start
from gangsched.core.decision import Decision, Fits, FitsWhenFreed, Preempt, Unschedulable
from gangsched.core.events import records
from gangsched.core.planning.headline import amounts, why_refused, written
from gangsched.core.preemption.removal import budgets_of
from gangsched.messages import advice
from gangsched.messages.text import and_nearest, counted, listed
from gangsched.model.constraints import Record, Toleration
from gangsched.model.jobsets import JobSet
from gangsched.model.queues import ClusterQueue, LocalQueue
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
#: So many nodes more are thought of.
_MOST_NODES = 256
_FEW = 3


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
        kinds = (
            self._claims,
            self._tolerations,
            self._nodes_back,
            self._selectors,
            self._topology,
            self._request,
            self._fewer,
            self._priorities,
            self._budgets,
            self._foreign_filters,
            self._waiting,
            self._quota,
            self._more_nodes,
        )
        for kind in kinds:
            if self._goes_on:
                yield from kind()

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

    def _with_shape(self, **shape: object) -> str:
        return self._with_pods(lambda pod: replace(pod, shape=replace(pod.shape, **shape)))

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
            claims = listed([f"PersistentVolumeClaim {space}/{name}" for name in names], _FEW)
            yield advice.create_claim(claims=claims, then=then)

    def _reasons(self) -> set[str]:
        return {reason for unplaced in self._decision.unplaced for reason in unplaced.reasons}

    def _tolerations(self) -> Iterator[str]:
        pods = self._pending
        found = {taint for node in self._nodes for taint in node.taints for p in pods if _is_taint(p, node)}
        for taint in sorted(found, key=written):
            then = self._with_pods(_tolerating(Toleration(key=taint.key, operator="Exists", effect=taint.effect)))
            if then:
                yield advice.tolerate(taint=written(taint), then=then)
                return

    def _nodes_back(self) -> Iterator[str]:
        """Nodes that are cordoned or not ready."""
        away = sorted(node.name for node in self._nodes if node.unschedulable or not node.ready)

        def back(record: Record) -> Record:
            return replace(record, unschedulable=False, ready=True) if isinstance(record, Node) else record

        if away and (then := self._try(back)):
            yield advice.nodes_back(nodes=listed(away, _FEW), then=then)

    def _selectors(self) -> Iterator[str]:
        named = {f"{key}={value}" for pod in self._pending for key, value in pod.shape.node_selector}
        if named and (then := self._with_shape(node_selector=())):
            yield advice.other_selector(selector=" and ".join(sorted(named)), then=then)
        bound_by_terms = any(pod.shape.node_terms is not None or pod.shape.node_name for pod in self._pending)
        if bound_by_terms and (then := self._with_shape(node_terms=None, node_name="")):
            yield advice.other_affinity(then=then)

    def _topology(self) -> Iterator[str]:
        specs = [s for gang in self._gangs if (s := self._state.world.membership.spec(gang)) is not None]
        keys = sorted({key for spec in specs for key, required in spec.topology if required})
        if not keys:
            return
        names = {(s.family, s.namespace, s.name) for s in specs}

        def free(record: Record) -> Record:
            if isinstance(record, Gang) and (record.family, record.namespace, record.name) in names:
                return replace(record, topology=())
            if isinstance(record, Pod) and record.uid in self._members:
                hints = {k: v for k, v in record.hints.items() if "topology" not in k}
                return replace(record, hints=hints)
            return record

        if then := self._try(free):
            yield advice.without_topology(keys=", ".join(keys), then=then)

    def _request(self) -> Iterator[str]:
        """What the largest node has, of what no node has enough."""
        asked: dict[str, int] = {}
        for pod in self._pending:
            for resource, amount in pod.shape.requests:
                most = max((dict(node.allocatable).get(resource, 0) for node in self._nodes), default=0)
                if amount > most:
                    asked[resource] = most
        asked = {resource: most for resource, most in asked.items() if most}
        if not asked:
            return

        def less(pod: Pod) -> Pod:
            requests = tuple((r, min(n, asked.get(r, n))) for r, n in pod.shape.requests)
            return replace(pod, shape=replace(pod.shape, requests=requests))

        if then := self._with_pods(less):
            yield advice.smaller_request(asked=amounts(sorted(asked.items())), then=then)

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
            yield advice.fewer_members(members=counted(low, "member"), then=best)

    def _priorities(self) -> Iterator[str]:
        levels = {pod.priority for pod in self._members.values()}
        own = self._state.world.membership.own_priority(self._decision.gang)
        if own is None and len(levels) > 1:
            then = how_it_starts(self._state.with_priority(self._gangs, self._decision.gang, max(levels)))
            if then:
                low = sorted(pod.name for pod in self._members.values() if pod.priority < max(levels))
                yield advice.same_class(pods=listed(low, _FEW), lowest=min(levels), highest=max(levels), then=then)
                return
        yield from self._priority()

    def _priority(self) -> Iterator[str]:
        state, decision, gangs = self._state, self._decision, self._gangs
        highest = state.with_priority(gangs, decision.gang, SYSTEM_CRITICAL_PRIORITY)
        if isinstance(highest, Fits | FitsWhenFreed):
            yield advice.EARLIER
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
            yield advice.more_disruptions(budgets=listed(sorted(names), _FEW), then=how_it_starts(found))

    def _foreign_filters(self) -> Iterator[str]:
        """Filters of others, which refuse nodes for reasons of their own."""
        found, names = self._state.without_foreign_filters(self._decision.gang)
        if then := how_it_starts(found):
            yield advice.without_filters(filters=listed(names, _FEW), then=then)

    def _waiting(self) -> Iterator[str]:
        """What time alone changes."""
        decision, state = self._decision, self._state
        at = decision.retry_at if isinstance(decision, Unschedulable) else None
        if at is not None and (then := how_it_starts(state.at(decision.gang, at + 1))):
            yield advice.time(time=clock_time(at, state.now), then=then)
        elif then := how_it_starts(state.without_patience(decision.gang)):
            yield advice.patience(then=then)

    def _quota(self) -> Iterator[str]:
        quota = self._decision.quota
        if quota is not None and not quota.queue:
            yield from self._local_queue()
        if quota is None or quota.flavors or not quota.queue:
            return
        if then := how_it_starts(self._state.without_quota(self._decision.gang)):
            yield advice.more_quota(queue=quota.queue, then=then)

    def _local_queue(self) -> Iterator[str]:
        """A LocalQueue of the name that is asked for, in the first of the queues that lets it start."""
        world, space = self._state.world, self._decision.gang.namespace
        name = world.managed.written_labels(self._gangs).local_queue
        found = [queue for queue in records(self._state.events, LocalQueue) if queue.namespace == space]
        if not name or any(queue.name == name for queue in found):
            return
        for queue in sorted(queue.name for queue in records(self._state.events, ClusterQueue))[:_FEW]:
            if then := self._try(lambda record: record, [LocalQueue(space, name, queue)]):
                meant = and_nearest(name, [each.name for each in found], 0.4)
                yield advice.create_local_queue(key=f"{space}/{name}", queue=queue, then=then, nearest=meant)
                return

    def _more_nodes(self) -> Iterator[str]:
        """As few more of the nodes that members may use as are enough, empty."""
        kinds: dict[tuple[object, ...], Node] = {}
        for node in self._nodes:
            usable = any(why_refused(pod, node)[0] in ("other", "cordoned") for pod in self._pending)
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
            yield advice.more_nodes(nodes=counted(high, "node"), node=like.name, then=then)
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
            yield advice.first_nodes(nodes=counted(count, "node"), room=amounts(room), then=then)

    def _with_nodes(self, like: Node, count: int) -> str:
        more = [
            replace(
                like,
                name=f"{like.name}-more-{n}",
                uid=f"more-{n}",
                unschedulable=False,
                ready=True,
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
        return f"it {when} ({listed([v.key for v in decision.victims], _FEW)})"
    return f"it {when}"


def _tolerating(new: Toleration) -> Callable[[Pod], Pod | None]:
    def tolerating(pod: Pod) -> Pod:
        return replace(pod, shape=replace(pod.shape, tolerations=(*pod.shape.tolerations, new)))

    return tolerating


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
