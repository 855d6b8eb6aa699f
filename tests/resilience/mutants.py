"""The tests tested: without one of the safeguards the test that is there for it must fail.

Each mutant is the source with a few lines replaced; the tests that it names run on that, in a process of their own.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec

from tests.bench.publish.tables import table
from tests.resilience.grafted import Done, Task

ROOT = Path(__file__).resolve().parents[2]
_LIMIT_SECONDS = 300.0
#: Most of the time of such a process is its start: what it has no use for stays away.
_UNUSED = ("cacheprovider", "unraisableexception")
_PLUGINS = (
    "--disable-plugin-autoload",
    *("-p", "pytest_asyncio.plugin"),
    *(word for name in _UNUSED for word in ("-p", f"no:{name}")),
)
#: What pytest says of a test in which the source itself has raised.
_CRASH = re.compile(rf"^{re.escape(str(ROOT / 'gangsched'))}/\S+:\d+: ", re.MULTILINE)


class Mutant(msgspec.Struct, frozen=True):
    """``changes`` are (file, old text, new text); each old text must be there exactly once. ``tests`` go to pytest;
    ``plane``: they need a real API server.
    """

    name: str
    changes: tuple[tuple[str, str, str], ...]
    tests: tuple[str, ...]
    plane: bool = False


class Verdict(msgspec.Struct):
    """``killed``: a test failed; ``by`` is the first one."""

    mutant: str
    killed: bool
    by: str
    seconds: float


class MutantError(Exception):
    """The source is not as the mutant expects it, or its tests say nothing about it."""


def changed(mutant: Mutant, root: Path = ROOT) -> dict[str, str]:
    """The files of a mutant with their new texts. Raises :class:`MutantError`."""
    texts: dict[str, str] = {}
    for file, old, new in mutant.changes:
        text = texts.get(file) or (root / file).read_text()
        if text.count(old) != 1:
            raise MutantError(f"{mutant.name}: {file} has {text.count(old)} times {old!r}, not once")
        texts[file] = text.replace(old, new)
    return texts


class Runner:
    """Runs tests on other sources, in forks of one process (:mod:`.grafted`) that lives as long as this is open."""

    def __enter__(self) -> Self:
        self._server = subprocess.Popen(
            [sys.executable, "-m", "tests.resilience.grafted"],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        if self._server.stdin is not None and self._server.stdout is not None:
            self._server.stdin.close()
            self._server.wait()
            self._server.stdout.close()

    def run(self, mutant: Mutant) -> Verdict:
        """Run the mutant's tests on its source. Raises :class:`MutantError`."""
        return self._run(mutant.name, changed(mutant), mutant.tests)

    def unchanged(self, mutants: Iterable[Mutant]) -> Verdict:
        """Run the tests of all of these on the source as it is, in the same way: none may fail."""
        chosen = list(mutants)
        files = {file for mutant in chosen for file, _, _ in mutant.changes}
        tests = dict.fromkeys(test for mutant in chosen for test in mutant.tests)
        return self._run("nothing", {file: (ROOT / file).read_text() for file in sorted(files)}, tests)

    def _run(self, name: str, texts: Mapping[str, str], tests: Iterable[str]) -> Verdict:
        began = time.monotonic()
        done = self._ask(Task(dict(texts), ("-q", "-x", "--tb=line", *_PLUGINS, *tests)))
        if done is None:
            raise MutantError(f"{name}: no answer in {_LIMIT_SECONDS:.0f} s")
        if done.code not in (0, 1):
            raise MutantError(f"{name}: pytest ended with {done.code}:\n{done.output[-2000:]}")
        if _CRASH.search(done.output):
            raise MutantError(f"{name}: a crash, which any test would have noticed:\n{done.output[-2000:]}")
        failures = [line for line in done.output.splitlines() if line.startswith("FAILED ")]
        first = failures[0].removeprefix("FAILED ").partition(" - ")[0] if failures else ""
        return Verdict(name, done.code == 1, first, time.monotonic() - began)

    def _ask(self, task: Task) -> Done | None:
        given, answers = self._server.stdin, self._server.stdout
        if given is None or answers is None:
            return None
        limit = threading.Timer(_LIMIT_SECONDS, os.killpg, (self._server.pid, signal.SIGKILL))
        limit.start()
        try:
            given.write(msgspec.json.encode(task) + b"\n")
            given.flush()
            line = answers.readline()
        finally:
            limit.cancel()
        return msgspec.json.decode(line, type=Done) if line else None


def render(verdicts: list[Verdict]) -> str:
    """The table."""
    rows = [(v.mutant, "yes" if v.killed else "NO", v.by, f"{v.seconds:.0f}") for v in verdicts]
    return table(("without", "noticed", "by", "s"), rows)


_BUDGETS = "gangsched/core/preemption/harm.py"
_CONDEMNED = "gangsched/core/ledger/condemned.py"
_ACTUATOR = "gangsched/core/actuation/actuator.py"
_EVICTING = "gangsched/core/lifecycle/evicting.py"
_EXECUTOR = "gangsched/core/lifecycle/executor.py"
_ADAPTER = "gangsched/cluster/kube/adapter.py"
_BODIES = "gangsched/cluster/kube/bodies.py"
_CLOCK = "gangsched/cluster/kube/clock.py"
_LEASE = "gangsched/cluster/kube/lease.py"
_SESSION = "gangsched/cluster/kube/session.py"
_WRITER = "gangsched/cluster/kube/writer.py"
_GANGS = "gangsched/core/lifecycle/gangs.py"
_OBSTACLES = "gangsched/core/world/obstacles.py"
_HEALING = "gangsched/core/lifecycle/expected_room.py"
_POD_WRITES = "gangsched/cluster/kube/pod_writes.py"
_PHASES = "gangsched/core/lifecycle/phases.py"
_BINDING = "gangsched/core/lifecycle/binding.py"
_REVIEW = "gangsched/core/lifecycle/review.py"
_BROKEN = "gangsched/core/lifecycle/broken.py"
_RECOVERY = "gangsched/core/lifecycle/recovery.py"
_KEPT_ROOM = "gangsched/core/world/kept_room.py"
_CONTEXT = "gangsched/core/planning/context.py"
_CYCLE = "gangsched/core/planning/cycle.py"
_ELIGIBLE = "gangsched/core/preemption/eligible.py"
_MEMBERSHIP = "gangsched/core/state/membership.py"

_OF_ONE_MOMENT = "tests/core/eviction/test_plans_of_one_moment.py"
_REMOVED_FIRST = "                    self._gangs.remove(group)\n            case"
_ALL_MARKED = "if not all(eviction.stands(pod.uid) for pod in eviction.to_go(self._world.pods)):"
_NO_FENCE = "self._settings.timeout_seconds"
_NAMES_UID = "tests/cluster/kube/test_fence.py::test_every_write_to_a_pod_names_the_uid_that_it_means"
_LOWEST = "tests/core/preemption/test_lowest_priority.py::test_who_is_not_below_the_weakest_member_stays"
_HIGHEST = "live=max((p.priority for p in live), default=None)"
_SPARED = "tests/core/eviction/test_changes_midway.py::test_a_victim_that_may_no_longer_be_evicted_is_spared"

MUTANTS = (
    Mutant(
        "removal without UID precondition",
        ((_BODIES, 'preconditions = {"uid": pod.uid}', "preconditions: dict[str, str] = {}"),),
        (_NAMES_UID,),
    ),
    Mutant(
        "removal of any version",
        ((_BODIES, 'preconditions["resourceVersion"] = version', "pass"),),
        ("tests/cluster/kube/test_fence.py::test_a_removal_names_the_version_that_bears_its_mark",),
    ),
    Mutant(
        "removal although its mark was taken back",
        ((_POD_WRITES, 'c.type == "DisruptionTarget" and c.status == "True"', 'c.type == "DisruptionTarget"'),),
        ("tests/cluster/kube/test_marked_removals.py::test_what_a_pod_says_of_its_mark",),
    ),
    Mutant(
        "status patch without UID",
        ((_BODIES, '{"metadata": {"uid": pod.uid}, "status": status}', '{"status": status}'),),
        (_NAMES_UID,),
    ),
    Mutant(
        "binding without UID",
        (
            (
                _BODIES,
                'pod.namespace, "name": pod.name, "uid": pod.uid}\n    body',
                'pod.namespace, "name": pod.name}\n    body',
            ),
        ),
        (_NAMES_UID,),
    ),
    Mutant(
        "phases: removal before the marks",
        (
            (_PHASES, "                    self._evictions.mark(eviction)\n            case", _REMOVED_FIRST),
            (_EVICTING, _ALL_MARKED, "if False:"),
        ),
        ("tests/core/recovery/test_restart.py::test_a_gang_that_is_marked_in_part_is_not_evicted_in_part",),
    ),
    Mutant(
        "phases: no wait for the answers",
        ((_PHASES, "not self._actuator.settled(key)", "False"),),
        ("tests/core/recovery/test_restart.py::test_the_rest_of_a_list_is_removed",),
    ),
    Mutant(
        "no fence: writes begin when the lease may have passed",
        ((_WRITER, "return self._fence() - time.monotonic() < MIN_ATTEMPT_SECONDS", "return self._fence() is None"),),
        ("tests/cluster/kube/test_fence.py::test_nothing_is_written_behind_the_fence",),
    ),
    Mutant(
        "no fence: writes may last longer than the lease",
        ((_WRITER, "min(self._settings.timeout_seconds, self._fence() - now)", _NO_FENCE),),
        ("tests/cluster/kube/test_fence.py::test_a_write_ends_before_the_fence",),
    ),
    Mutant(
        "no fence: a body is sent however late it is",
        ((_SESSION, "if left <= 0:", "if left is None:"),),
        ("tests/cluster/kube/test_session.py::test_nothing_is_sent_behind_the_fence",),
    ),
    Mutant(
        "a binding leaves although another's has become known",
        ((_WRITER, "        if self._objection(item):\n", "        if not self:\n"),),
        (
            "tests/cluster/kube/test_foreign.py::test_a_binding_that_is_overtaken_while_it_gets_its_connection_is_not_sent",
        ),
    ),
    Mutant(
        "binding elsewhere while the nomination stands",
        ((_PHASES, "clear(group, nodes, ", "clear(group, plan.nominated, "),),
        ("tests/core/recovery/test_faults.py::test_a_member_is_not_bound_elsewhere_while_its_nomination_stands",),
    ),
    Mutant(
        "nominations withdrawn while removals are on their way",
        ((_ACTUATOR, "if after and self.has_writes_in_flight(after):", "if False:"),),
        ("tests/core/recovery/test_faults.py::test_nominations_stand_while_marks_and_removals_are_on_their_way",),
    ),
    Mutant(
        "nominated room is not held",
        (
            (
                _CONTEXT,
                "taken_room(self.world, self.ledger, self.priority, self._turn, {*self._mine, *self._later})",
                "[]",
            ),
        ),
        ("tests/core/lifecycle/test_from_pods_to_bindings.py::test_held_room_is_for_its_gang",),
    ),
    Mutant(
        "pods that are overdue are counted on",
        ((_CONTEXT, "overdue = self.world.sightings.overdue", "overdue = set[str]()"),),
        ("tests/core/preemption/test_awaited_terminations.py::test_a_pod_that_should_be_gone_holds_its_room",),
    ),
    Mutant(
        "a gang waits however long it takes",
        ((_CYCLE, "if slow <= limit:", "if slow:"),),
        ("tests/core/preemption/test_awaited_terminations.py::test_a_gang_that_would_wait_too_long_evicts_others",),
    ),
    Mutant(
        "a gang that waits is deaf",
        ((_EXECUTOR, "self._nominated.record_changes(changes)", "pass"),),
        ("tests/core/eviction/test_waiting_gangs_look_again.py::test_nodes_that_appear_are_used",),
    ),
    Mutant(
        "nominations of other schedulers hold nothing",
        ((_KEPT_ROOM, "for pod in world.foreign_nominations.above(priority):", "for pod in []:"),),
        ("tests/core/queue/test_foreign_nominations.py::test_only_strictly_higher_priority_counts",),
    ),
    Mutant(
        "a stronger gang that may not evict breaks weaker plans",
        ((_CONTEXT, " and self.world.membership.policy(self.gangs) != PREEMPT_NEVER\n", "\n"),),
        (f"{_OF_ONE_MOMENT}::test_a_stronger_gang_that_may_not_evict_leaves_a_weaker_plan_alone",),
    ),
    Mutant(
        "a stronger gang that pauses breaks weaker plans",
        ((_CONTEXT, "may_evict = not paused and ", "may_evict = "),),
        (
            "tests/core/eviction/test_plans_of_one_moment.py::test_a_stronger_gang_that_pauses_leaves_a_weaker_plan_alone",
        ),
    ),
    Mutant(
        "plans do not know of each other's victims",
        ((_CONDEMNED, "return [uid for uid in standing if", "return [uid for uid in () if"),),
        ("tests/core/eviction/test_plans_of_one_moment.py::test_what_is_left_of_an_evicted_gang_is_for_the_next",),
    ),
    Mutant(
        "budgets are not charged for what plans under way remove",
        ((_BUDGETS, "self.allowed[key] = max(0, self.allowed[key] - 1)", "pass"),),
        ("tests/core/eviction/test_plans_of_one_moment.py::test_ten_preemptors_take_one_replica",),
    ),
    Mutant(
        "a budget that is shown again with the status that it had counts who has left",
        ((_CONDEMNED, "anew = status != (before.allowed, before.disrupted) and named", "anew = named"),),
        (f"{_OF_ONE_MOMENT}::test_a_budget_is_charged_from_the_decision_until_its_status_counts_the_pod",),
    ),
    Mutant(
        "no plan counts on what another removes",
        ((_CONDEMNED, "return owner != key and plan is not None and", "return owner == key and plan is not None and"),),
        ("tests/judge/test_disrupted.py::test_plans_of_one_moment_violate_nothing_together",),
    ),
    Mutant(
        "a weaker plan keeps the pods that a stronger gang needs",
        (
            (
                _EXECUTOR,
                "        while self._takes_over(group, verdict):\n            verdict = self.phases.decided(",
                "        while False:\n            verdict = self.phases.decided(",
            ),
        ),
        (f"{_OF_ONE_MOMENT}::test_a_stronger_gang_owns_the_victims_of_the_plan_whose_room_it_takes",),
    ),
    Mutant(
        "what is left of a gang runs on",
        ((_BROKEN, "self._finish(gang, removed, pods)", "pass"),),
        ("tests/core/eviction/test_broken_gangs.py::test_what_is_left_of_a_gang_is_finished",),
    ),
    Mutant(
        "a process that takes over forgets a gang of which it finds a part",
        ((_EXECUTOR, "self.gangs.broken.note(gang, removed)", "pass"),),
        ("tests/core/eviction/test_broken_gangs.py::test_a_process_that_takes_over_finishes_it_too",),
    ),
    Mutant(
        "a plan does not wait for what it depends on",
        ((_PHASES, "self._evictions.depends(plan)", "False"),),
        (
            "tests/core/eviction/test_plans_of_one_moment.py::test_a_plan_removes_nothing_before_what_it_depends_on_leaves",
        ),
    ),
    Mutant(
        "a plan goes on that has counted on a pod which stays",
        (
            (
                _EXECUTOR,
                "if any(uid in ledger.waits(key) and uid not in group.plan.victims for uid in staying):",
                "if False:",
            ),
        ),
        (
            "tests/core/eviction/test_plans_of_one_moment.py::test_a_plan_is_made_anew_when_what_it_depends_on_is_spared",
        ),
    ),
    Mutant(
        "the room of members that were lost is not held",
        (
            (
                _HEALING,
                "        keep_room(world, self._ledger, key, gangs, [(r.pod, r.node) for r in rooms])\n",
                "",
            ),
        ),
        ("tests/core/recovery/test_healing.py::test_a_successor_that_comes_later_gets_the_room",),
    ),
    Mutant(
        "who may not leave any more is removed",
        (
            (
                _REVIEW,
                "if not all(may_leave(world, pod, group.gangs, unprotected) for pod in standing):",
                "if False:",
            ),
        ),
        (_SPARED,),
    ),
    Mutant(
        "a budget that was tightened since is not looked at",
        (
            (
                _REVIEW,
                "return any(count - budgets.allowed[key] > said[key] for",
                "return any(False for",
            ),
        ),
        (
            "tests/core/eviction/test_reviews.py::test_a_budget_that_is_tightened_before_anybody_leaves_changes_the_choice",
        ),
    ),
    Mutant(
        "who has a mark of an earlier process is removed without another look",
        (
            (
                _PHASES,
                "if self._reviewed(group, plan) is Review.KEEP:\n            self._go_on(",
                "if plan:\n            self._go_on(",
            ),
        ),
        ("tests/core/recovery/test_restart.py::test_a_victim_that_may_no_longer_be_evicted_is_spared",),
    ),
    Mutant(
        "after a restart a list on record is not finished but made anew",
        (
            (
                _RECOVERY,
                "        plan = Plan(placements, group.eviction(intent.plan, victims))\n",
                "        return None\n",
            ),
        ),
        ("tests/core/recovery/test_restart.py::test_complete_marks_are_followed",),
    ),
    Mutant(
        "marks of other schedulers are taken for ours",
        (
            (
                _RECOVERY,
                "for owner in owners_of(pod) if owner.scheduler in world.membership.ours",
                "for owner in owners_of(pod)",
            ),
        ),
        ("tests/core/recovery/test_restart.py::test_marks_of_other_schedulers_are_left_alone",),
    ),
    Mutant(
        "a gang preempts with the highest priority of its members",
        ((_MEMBERSHIP, "live=min((p.priority for p in live), default=None)", _HIGHEST),),
        (_LOWEST,),
    ),
    Mutant(
        "a GangGroup preempts with the highest priority of its gangs",
        ((_MEMBERSHIP, "return min(out or others, default=0)", "return max(out or others, default=0)"),),
        (_LOWEST,),
    ),
    Mutant(
        "victims of the same priority",
        (
            (
                _ELIGIBLE,
                "lower = table.priority[slots] < self.priority",
                "lower = table.priority[slots] <= self.priority",
            ),
        ),
        ("tests/core/preemption/test_units.py::test_single_pods",),
    ),
    Mutant(
        "time jumps with the system's clock",
        ((_CLOCK, "self._monotonic = monotonic\n        self._lock", "self._monotonic = wall\n        self._lock"),),
        ("tests/cluster/kube/test_inbox.py::test_the_clock_passes_over_a_jump_of_the_systems",),
    ),
    Mutant(
        "time in which the process was stopped counts",
        ((_CLOCK, "min(max(0.0, at - self._asked_at), MOST_SECONDS)", "max(0.0, at - self._asked_at)"),),
        ("tests/cluster/kube/test_inbox.py::test_time_in_which_the_process_was_stopped_is_left_out",),
    ),
    Mutant(
        "a member is bound before the volumes of all are",
        ((_BINDING, "everything = everything and bound", "everything = everything or bound"),),
        ("tests/core/volumes/test_bound_before_pods.py::test_no_member_is_bound_before_the_last_claim_is",),
    ),
    Mutant(
        "who takes over an expired lease does not wait for the last writes",
        ((_LEASE, "self._opens_at = self._clock() + self._wait_seconds(standing)", "pass"),),
        ("tests/cluster/kube/test_lease.py::test_only_a_vanished_holder_is_waited_for",),
    ),
    Mutant(
        "a lease that somebody deletes is anybody's at once",
        ((_LEASE, "standing = self._watcher.absent(self._clock())", 'standing = "free"'),),
        ("tests/cluster/kube/test_lease.py::test_a_deleted_lease_is_not_free_for_who_has_seen_its_holder",),
    ),
    Mutant(
        "members join a gang that is being evicted",
        ((_OBSTACLES, 'text = "" if leave else _leaving(world, condemned, gangs)', 'text = ""'),),
        ("tests/core/eviction/test_evicted_gangs_wait.py::test_a_gang_that_leaves_is_not_healed",),
    ),
    Mutant(
        "pods of a Job that is being suspended are bound",
        ((_OBSTACLES, "if suspended is not None:", "if False:"),),
        ("tests/core/eviction/test_evicted_gangs_wait.py::test_no_pod_of_a_job_that_is_being_suspended_is_bound",),
    ),
    Mutant(
        "members that have left their gang stay nominated",
        ((_BINDING, "(*self.unplaced(group), *self._others_now(group))", "self.unplaced(group)"),),
        ("tests/core/recovery/test_faults.py::test_who_has_left_its_gang_is_not_bound_while_nominated",),
    ),
    Mutant(
        "the lease is released although a write was cancelled",
        ((_ADAPTER, "if self._elector is not None and all_answered:", "if self._elector is not None:"),),
        ("tests/cluster/kube/test_election.py::test_lease_is_kept_while_a_write_may_be_on_its_way",),
        plane=True,
    ),
    Mutant(
        "what was decided in an earlier term is written",
        ((_ADAPTER, "if term == self._term:", "if term <= self._term:"),),
        ("tests/cluster/kube/test_election.py::test_what_was_decided_in_an_earlier_term_is_not_written",),
        plane=True,
    ),
)
