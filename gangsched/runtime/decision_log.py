"""The log of decisions: one line per gang when what is decided about it changes."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

from gangsched import logs
from gangsched.core.actions import Action, Report
from gangsched.core.decision import Decision, FitsWhenFreed, Preempt
from gangsched.core.events import Event, LeadershipChanged, Outcome, WriteDone
from gangsched.core.lifecycle.report import NAME_SERVED, NAME_TAKEN, REFUSED
from gangsched.core.preemption.removal import SUSPEND
from gangsched.runtime.loop import Observer

_REMEMBERED = 10_000
#: Outcomes of writes that are part of normal life: the core deals with them.
_ORDINARY = frozenset({Outcome.OK, Outcome.GONE, Outcome.OUTDATED})


class DecisionLog(Observer):
    """Writes decisions to the log, keyed by gang; a decision that repeats the last one goes to level debug.

    ``in_full``: placements and victims by name, for a dry run, where the log is all that comes of a decision.
    """

    def __init__(self, *, in_full: bool = False) -> None:
        self._log = logs.get("gangsched.decision").bind()  # a logger that is not bound is made anew for every line
        self._in_full = in_full
        self._last: OrderedDict[str, tuple[str, str]] = OrderedDict()

    def handled(self, events: Sequence[Event], actions: Sequence[Action], seconds: float, now: float) -> None:
        """See :class:`~gangsched.runtime.loop.Observer`."""
        for event in events:
            if isinstance(event, WriteDone):
                if event.outcome not in _ORDINARY:
                    self._log.warning("a write failed", outcome=event.outcome, answer=event.message)
            elif isinstance(event, LeadershipChanged):
                self._log.info("leading" if event.leading else "not leading")
        for action in actions:
            if isinstance(action, Report) and action.reason in (NAME_TAKEN, NAME_SERVED):
                write = self._log.warning if action.reason == NAME_TAKEN else self._log.info
                write("a scheduler name", says=action.note)
            # The core tells each mistake once, whether it or the reader has found it.
            if isinstance(action, Report) and action.reason == REFUSED:
                _, kind, namespace, name, _ = action.regarding
                self._log.warning(
                    "an object cannot be understood",
                    object=f"{kind} {namespace}/{name}" if namespace else f"{kind} {name}",
                    problem=action.note,
                )

    def decided(self, decisions: Sequence[Decision], actions: Sequence[Action], seconds: float, now: float) -> None:
        """See :class:`~gangsched.runtime.loop.Observer`."""
        for decision in decisions:
            gang = decision.gang.key
            news = (decision.outcome, decision.message)
            repeated = self._last.get(gang) == news
            self._last[gang] = news
            self._last.move_to_end(gang)
            if len(self._last) > _REMEMBERED:
                self._last.popitem(last=False)
            write = self._log.debug if repeated else self._log.info
            write("decided", gang=gang, **self._details(decision, seconds))
            if self._in_full and not repeated:
                self._foretell(decision)

    def _foretell(self, decision: Decision) -> None:
        """What would follow once the nominations of a plan stand: a dry run comes no further than those."""
        for victim in decision.victims:
            verb = "suspend the owner of" if victim.method == SUSPEND else victim.method
            self._log.info(f"would {verb} Pod {victim.key}", node=victim.node, gang=decision.gang.key)
        for placement in decision.placements if isinstance(decision, Preempt | FitsWhenFreed) else ():
            self._log.info(f"would bind Pod {placement.key} when there is room", node=placement.node)

    def _details(self, decision: Decision, seconds: float) -> dict[str, Any]:
        details: dict[str, Any] = {
            "outcome": decision.outcome,
            "placed": len(decision.placements),
            "required": decision.required,
            "milliseconds": round(seconds * 1000, 1),
        }
        if decision.message:
            details["why"] = decision.message
        if isinstance(decision, Preempt):
            details["victims"] = [v.key for v in decision.victims] if self._in_full else len(decision.victims)
        if decision.awaiting:
            details["awaiting"] = [a.pod for a in decision.awaiting] if self._in_full else len(decision.awaiting)
        if self._in_full and decision.placements:
            details["placements"] = {placement.key: placement.node for placement in decision.placements}
        if decision.proof:
            details["proof"] = decision.proof
        if decision.stopped:
            details["search"] = "cut short"
        return details
