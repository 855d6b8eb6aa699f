"""The settings of the core. The configuration file (``gangsched.runtime.config``) is turned into this."""

from __future__ import annotations

import msgspec

from gangsched.core.framework.registry import PluginSet

#: A budget of milliseconds in search steps: the same everywhere, so that the same cluster gives the same plan, whatever
#: else the machine does. Measured: 8 to 10 of the dearest steps (filter and score one pod over 1,000 nodes) in a
#: millisecond, on two cores with a load of 2.
STEPS_PER_MILLISECOND = 10


#: The scheduler names of APIs whose users had that power before.
TRUSTED_BY_DEFAULT = ("volcano", "kai-scheduler")


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of the decision core.

    Of the ``guarded_names`` former owners may be alive; those of the ``leased_names`` are left alone until it is known
    who holds their Leases.
    ``search_steps`` bounds one preemption search. ``timeout_seconds`` bounds nominated-to-binding for gangs
    that set no timeout of their own. ``minimum_run_time_seconds`` is how long a victim must have run,
    ``preemption_delay_seconds`` how long a gang that does not fit waits before it evicts, where no PriorityClass says
    otherwise. Backoff doubles from ``backoff_initial_seconds`` up to ``backoff_max_seconds`` per gang; one that
    does not fit is tried again after ``flush_seconds`` even if no event has woken it, as in kube-scheduler.
    ``queue_policy`` is strict or backfill; with backfill, room is reserved for a gang that has waited
    ``starvation_seconds`` (0: never). With ``surplus_after`` members beyond the minimum of a gang are placed after the
    minimum of all others of its priority.
    With ``wait_for_leadership`` nothing is decided before a LeadershipChanged(True).
    With ``suspend_jobs`` a Job that would not survive the loss of its pods is suspended instead.
    ``bind_timeout_seconds`` bounds the time in which the volumes of a gang must be bound.
    Without ``quota`` queue objects mean nothing; ``fair_sharing`` weighs queues that borrow by their share.
    ``owner_wait_seconds`` is how long a pod waits for a Job that has not been seen yet, and a new
    Job for a Workload of Kueue, where there are some (0: nothing more will be seen). With ``events_per_gang`` the
    members of a gang have one Event for all of them where otherwise each has its own. With ``rollback`` a gang that was
    bound in part, and whose other members have no place, leaves as a whole if its controllers create it again.
    A pod that still terminates ``overdue_after_seconds`` after its grace period is not counted on to leave. A gang that
    would have to wait for more than ``max_wait_seconds`` evicts others if that is quicker.
    A decision has at most ``max_victims`` victims, and ``max_victims_per_member`` for each required member (0: any
    number). A workload that was evicted ``protect_after_evictions`` times in an hour is protected for a time from those
    that are not stronger in every order (0: never). With ``harm_by_work`` victims are compared by what is lost with
    them before their number. Evictions are announced ``notice`` seconds before, by the name of the
    victim's PriorityClass (empty: of all others). Neither an annotation nor a label of
    ``ignore_keys`` protects a pod; in ``mark_namespaces`` marks of APIs count that are not served. Owners of the kinds
    ``gang_owners`` (:data:`gangsched.model.dialects.owners.Kind`) are gangs unless they, or their namespace,
    say otherwise. Room for announced members is kept for ``announced_hold_seconds`` from the first binding, for one
    namespace at most the ``announced_share`` of each resource; with ``announced_evict`` others are evicted for it.
    ``hold_room`` says when nodes on which room is freed are held against other schedulers: always, never, or
    with auto where one of these has a part in it; for one namespace at most the ``held_share`` of all nodes.
    ``profiles`` has the scheduler names whose filters or scores are not the default ones. For the scheduler names
    ``trusted_names`` a group has the priority of the class that it names.
    With ``contain_errors`` an error of this program in the decision of a gang is that gang's.
    """

    scheduler_names: tuple[str, ...] = ("py-gang-scheduler",)
    guarded_names: tuple[str, ...] = ()
    leased_names: tuple[str, ...] = ()
    gang_mode: str = "elastic"
    pod_disruption_mode: str = "honor"
    strict_budgets: bool = False
    search_steps: int = 500 * STEPS_PER_MILLISECOND
    timeout_seconds: float = 600.0
    minimum_run_time_seconds: float = 0.0
    preemption_delay_seconds: float = 0.0
    backoff_initial_seconds: float = 1.0
    backoff_max_seconds: float = 10.0
    flush_seconds: float = 300.0
    queue_policy: str = "backfill"
    starvation_seconds: float = 600.0
    surplus_after: bool = True
    evict_daemonset_pods: bool = False
    suspend_jobs: bool = True
    wait_for_leadership: bool = False
    bind_timeout_seconds: float = 600.0
    quota: bool = True
    fair_sharing: bool = False
    owner_wait_seconds: float = 0.0
    events_per_gang: bool = False
    rollback: bool = False
    overdue_after_seconds: float = 30.0
    max_wait_seconds: float = 120.0
    harm_by_work: bool = False
    ignore_keys: tuple[str, ...] = ()
    mark_namespaces: tuple[str, ...] = ()
    notice: tuple[tuple[str, float], ...] = ()
    max_victims: int = 0
    max_victims_per_member: float = 0.0
    protect_after_evictions: int = 3
    gang_owners: tuple[str, ...] = ()
    announced_hold_seconds: float = 600.0
    announced_evict: bool = False
    announced_share: float = 0.5
    hold_room: str = "auto"
    held_share: float = 0.5
    profiles: tuple[tuple[str, PluginSet], ...] = ()
    trusted_names: tuple[str, ...] = TRUSTED_BY_DEFAULT
    contain_errors: bool = False

    @property
    def removal(self) -> str:
        """The method by which single victims leave: an eviction where budgets may not be broken."""
        return "evict" if self.strict_budgets else "delete"

    @property
    def longest_wait(self) -> float:
        """Seconds for which room is held at most for a gang that only waits for pods to leave."""
        return self.max_wait_seconds + self.overdue_after_seconds

    def plugins_of(self, scheduler: str) -> PluginSet:
        """The filters and scores for pods of this scheduler name."""
        return dict(self.profiles).get(scheduler) or PluginSet()

    def backoff(self, attempts: int) -> float:
        """Seconds after so many attempts that did not help: doubles with each."""
        doubled = self.backoff_initial_seconds * 2.0 ** min(attempts - 1, 30)
        return min(doubled, self.backoff_max_seconds)
