"""``gangsched status`` shows whether the scheduler of a cluster is healthy. It reads, and changes nothing."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from gangsched.cli import answers, get, left_out
from gangsched.cli.answers import Contract, age_of, print_lines
from gangsched.cli.decisions import State
from gangsched.cli.inputs import add_cluster_arguments, read_cluster
from gangsched.core.actuation.records import read_intent, read_owners
from gangsched.core.events import records
from gangsched.messages import standing
from gangsched.messages.text import join_names, pluralize
from gangsched.model.errors import FieldError, Problem
from gangsched.model.records import Node, Pod
from gangsched.model.times import parse_time, render_time
from gangsched.runtime.running import Running

#: The label of the scheduler's own pods.
_OURS = ("app.kubernetes.io/name", "gangsched")
_FEW = 4


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    add_cluster_arguments(parser, "")
    parser.add_argument(
        "-n", "--namespace", metavar="NS", help="only the gangs of this namespace, and nodes that are held for them"
    )
    parser.add_argument("--config", metavar="FILE", help="a GangSchedulerConfiguration (default: the leader's)")
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table", help="default: table")
    parser.epilog = (
        "Exit code: 0 if a scheduler leads, has all rights that it needs and caches that are up to date, 1 if not, 2 "
        "if the cluster cannot be read."
    )


def run(args: argparse.Namespace) -> int:
    """Print it; 1 when no scheduler leads, it lacks rights, or what it knows is too old."""
    found = CONTRACT.answer(args, _read)
    if found is None:
        return answers.BAD_INPUT
    return answers.OK if found.healthy else answers.FAILED


class Oldest(NamedTuple):
    """The gang that waits longest, by kind and ``namespace/name``, and for how many seconds."""

    kind: str
    gang: str
    seconds: float


class Held(NamedTuple):
    """A node that bears the taint of this plan, and the gang that waits for it; of a stale one it is empty."""

    node: str
    plan: str
    gang: str


class Found(NamedTuple):
    """The running scheduler, and its work. ``replicas`` are the scheduler's pods by name, and whether each is ready;
    ``gangs`` are counted by state, pods without a node by the scheduler of others that they name. ``partial``: only
    one namespace could be read.
    """

    running: Running
    replicas: Sequence[tuple[str, bool]]
    gangs: Counter[str]
    oldest: Oldest | None
    foreign: Counter[str]
    held: Sequence[Held]
    partial: bool = False

    @property
    def healthy(self) -> bool:
        """Whether one leads that may do all that it has to, by what is new enough."""
        status = self.running.status
        return bool(self.running.holder) and not status.lacks and not status.stale

    def fields(self) -> dict[str, Any]:
        """The fields of the contract."""
        running, status = self.running, self.running.status
        return {
            "healthy": self.healthy,
            "leader": {
                "lease": running.lease,
                "holder": running.holder or None,
                "since": _time(running.since) if running.holder else None,
                "noneSince": _time(running.ended),
                "unknown": running.unknown or None,
                "version": status.version or None,
                "schedulerNames": list(status.names),
            },
            "configuration": running.published.configuration if running.published is not None else None,
            "lacks": None if status.lacks is None else list(status.lacks),
            "replicas": [{"pod": name, "ready": ready} for name, ready in self.replicas],
            "lastDecision": status.last_decision,
            "gangs": dict(sorted(self.gangs.items())),
            "oldestWait": self.oldest._asdict() if self.oldest is not None else None,
            "caches": {"ages": dict(sorted(status.cache_ages.items())), "stale": status.stale or None},
            "quarantined": [left_out.fields_of(each) for each in status.quarantined],
            "writes": {"waiting": status.writes_waiting, "failed": status.writes_failed},
            "foreignSchedulers": dict(self.foreign.most_common()),
            "held": [{"node": each.node, "plan": each.plan, "gang": each.gang or None} for each in self.held],
        }

    def lines(self) -> Iterator[tuple[str, str]]:
        """Each fact and its name, for people."""
        running, status = self.running, self.running.status
        settings = running.configuration
        yield "leader", running.leader
        if running.published is not None:
            yield "version", standing.version(version=status.version, names=join_names(status.names, _FEW))
        yield "configuration", running.whose
        yield "lacks rights", _lacks(running)
        yield "replicas", self._replicas()
        yield "caches", _caches(running)
        yield "last decision", _last(running)
        yield "gangs", get.in_short(self.gangs)
        if self.oldest is not None:
            gang = f"{self.oldest.kind} {self.oldest.gang}"
            yield "oldest wait", standing.oldest_wait(gang=gang, age=age_of(self.oldest.seconds))
        yield "writes", standing.writes(waiting=status.writes_waiting, failed=status.writes_failed)
        wanted = settings.client_connection
        yield "rate limit", standing.limits(qps=wanted.qps, burst=wanted.burst)
        foreign = (
            standing.foreign(name=n, pods=pluralize(c, "pending pod")) for n, c in self.foreign.most_common(_FEW)
        )
        yield "others", ", ".join(foreign) or standing.NO_FOREIGN
        for each in status.quarantined:
            yield "left out", left_out.line_of(each)
        held = [standing.held(node=each.node, gang=each.gang) for each in self.held if each.gang]
        yield "holds", join_names(held, _FEW) if held else standing.NO_HOLD
        if stale := [each.node for each in self.held if not each.gang]:
            yield "stale holds", standing.stale_holds(nodes=join_names(stale, _FEW))

    def _replicas(self) -> str:
        if not self.replicas:
            return standing.UNKNOWN if self.partial else standing.RUNS_OUTSIDE
        names = join_names([name for name, _ in self.replicas], _FEW)
        return standing.replicas(ready=sum(r for _, r in self.replicas), count=len(self.replicas), names=names)


def _lacks(running: Running) -> str:
    lacks = running.status.lacks
    if lacks is None:
        return standing.LACKS_UNKNOWN if running.published is not None else running.unpublished
    return join_names(lacks, 99) or standing.LACKS_NOTHING


def _caches(running: Running) -> str:
    status = running.status
    if status.stale:
        return status.stale
    ages = [standing.cache(resource=name, age=age_of(age)) for name, age in sorted(status.cache_ages.items())]
    return (
        standing.caches(ages=join_names(ages, 99), written=_ago(running, status.written)) if ages else standing.UNKNOWN
    )


def _last(running: Running) -> str:
    last = running.status.last_decision
    if not last:
        return standing.NO_DECISION
    age = _ago(running, str(last.get("time", "")))
    return standing.decided_last(outcome=last.get("outcome"), gang=last.get("gang"), age=age)


def _ago(running: Running, moment: str) -> str:
    try:
        return age_of(running.now - parse_time(moment, "time")) if moment else "?"
    except FieldError:
        return "?"


def _time(seconds: float | None) -> str | None:
    return render_time(seconds) if seconds is not None else None


def _show(found: Found, _: str) -> None:
    print_lines([(label, answers.clean(text)) for label, text in found.lines()])


CONTRACT: Contract[Found] = Contract("gangsched.dev/status/v1", {"healthy": False}, Found.fields, _show)


def _read(args: argparse.Namespace) -> tuple[Found, list[Problem]]:
    only: str | None = args.namespace
    read = read_cluster(args, only)
    assert read.running is not None
    pods = list(records(read.events, Pod))
    state = State(read.events, read.options, read.now, decides=False)
    rows = [row for row in get.rows(state.scheduler, {}, read.now) if only in (None, row.namespace)]
    waiting = [row for row in rows if row.state in get.WAITS and row.created and row.pending]
    oldest = min(waiting, key=lambda row: row.created, default=None)
    space = read.running.lease.partition("/")[0]
    mine = [p for p in pods if p.namespace == space and p.labels.get(_OURS[0]) == _OURS[1] and p.live]
    ours = read.options.scheduler_names
    pending = (p for p in pods if p.live and not p.node and only in (None, p.namespace))
    others = (p.scheduler for p in pending if p.scheduler not in ours)
    gangs = gangs_by_plan(pods, {f"{row.namespace}/{row.name}" for row in waiting})
    held = [
        Held(n.name, n.held.value, gangs.get(n.held.value.partition(".")[0], ""))
        for n in records(read.events, Node)
        if n.held is not None
    ]
    found = Found(
        read.running,
        sorted((p.name, p.phase == "Running") for p in mine),
        Counter(row.state for row in rows),
        None if oldest is None else _oldest(oldest, read.now),
        Counter(others),
        sorted(each for each in held if only is None or each.gang.startswith(f"{only}/")),
        read.partial,
    )
    return found, state.faults


def gangs_by_plan(pods: Iterable[Pod], waiting: Collection[str] = ()) -> dict[str, str]:
    """Return the names of gangs by the ids of their plans, as the records on members and victims have them. A plan
    counts while members are nominated by it, or its victims leave for a gang that is ``waiting``.
    """
    out: dict[str, str] = {}
    for pod in pods:
        said = pod.intent
        intent = read_intent(said.message) if said is not None and said.status == "True" and not pod.finished else None
        if intent is not None:
            out[intent.plan] = pod.gang.key
        owners = read_owners(pod.evicted_for.message) if pod.evicted_for is not None else None
        for owner in owners or ():
            if owner.name in waiting:
                out.setdefault(owner.plan, owner.name)
    return out


def _oldest(row: get.Row, now: float) -> Oldest:
    return Oldest(row.kind, f"{row.namespace}/{row.name}", round(max(0.0, now - row.created)))
