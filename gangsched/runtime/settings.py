"""Every setting of the configuration file: its name, type, range, default and meaning, in one place.

The shape is that of ``KubeSchedulerConfiguration`` (https://kubernetes.io/docs/reference/config-api/), reduced to what
this scheduler has. The description of each field is what ``gangsched config defaults``, the JSON Schema and
``docs/reference/configuration.md`` say about it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Literal

import msgspec

from gangsched.core.framework.registry import PluginSet
from gangsched.core.options import STEPS_PER_MILLISECOND, TRUSTED_BY_DEFAULT, Options
from gangsched.model.dialects.owners import Kind
from gangsched.model.sections import Duration, NonEmpty, Section
from gangsched.model.sections import doc as _doc
from gangsched.model.times import seconds_of
from gangsched.runtime.profiles import FORMER_LEASES, Profile, plugin_set

API_VERSION: Literal["gangsched.dev/v1alpha1"] = "gangsched.dev/v1alpha1"
KIND: Literal["GangSchedulerConfiguration"] = "GangSchedulerConfiguration"


class ClientConnection(Section, frozen=True, kw_only=True):
    """How the API server is reached."""

    kubeconfig: Annotated[
        str,
        _doc("Path of a kubeconfig. Empty: the service account inside a cluster, else $KUBECONFIG or ~/.kube/config."),
    ] = ""
    context: Annotated[str, _doc("Context of the kubeconfig. Empty: its current context.")] = ""
    qps: Annotated[
        float,
        _doc(
            """Requests per second. A member costs two: its binding and its Event; and one more when it was nominated
            first. Fewer are sent while the API server is slow or answers 429.""",
            gt=0.0,
            le=100_000.0,
        ),
    ] = 500.0
    burst: Annotated[int, _doc("How many requests may be sent at once after a pause.", ge=1, le=100_000)] = 1000
    request_timeout: Annotated[
        Duration,
        _doc("How long one write may take before it is given up and tried again. At most 2s, as the text below says."),
    ] = "2s"


class LeaderElection(Section, frozen=True, kw_only=True):
    """Several replicas run, one decides. The others keep their caches warm."""

    leader_elect: Annotated[
        bool, _doc("false only for a single process that nothing restarts beside it, such as one on a laptop.")
    ] = True
    resource_name: Annotated[NonEmpty, _doc("Name of the Lease. Change it in the Role of manifests/rbac.yaml too.")] = (
        "py-gang-scheduler"
    )
    resource_namespace: Annotated[
        NonEmpty,
        _doc(
            """Namespace of the Lease; created at the start where it is missing and that is allowed. Change it in the
            RoleBinding of manifests/rbac.yaml too."""
        ),
    ] = "gangsched-system"
    lease_duration: Annotated[
        Duration,
        _doc(
            "A standby takes over when the Lease was not renewed for this long. The Lease says it in whole seconds, "
            "rounded up."
        ),
    ] = "15s"
    renew_deadline: Annotated[
        Duration, _doc("A leader that could not renew for this long stops writing. Shorter than leaseDuration.")
    ] = "10s"
    retry_period: Annotated[
        Duration, _doc("Pause between attempts to take or renew the Lease. Shorter than renewDeadline.")
    ] = "2s"


class Preemption(Section, frozen=True, kw_only=True):
    """How room is made for a gang that does not fit."""

    gang_mode: Annotated[
        Literal["off", "minimal", "atomic", "elastic"],
        _doc(
            """How running gangs are evicted if their API does not say it. elastic: members beyond the gang's minimum
            are evicted one by one, then the whole gang. atomic: only the whole gang. minimal: as few pods as possible,
            even if the rest of a gang cannot work. off: pods are evicted one by one, without regard to gangs."""
        ),
    ] = "elastic"
    pod_disruption_mode: Annotated[
        Literal["honor", "gangMode"],
        _doc(
            """The meaning of disruptionMode Pod (or single) of an upstream PodGroup for its members as victims. honor:
            pods are evicted one by one, as in the API. gangMode: the setting gangMode counts."""
        ),
    ] = "honor"
    pdb: Annotated[
        Literal["preferred", "strict"],
        _doc(
            """PodDisruptionBudgets. preferred: broken only when no other choice makes the gang fit; victims are
            deleted. strict: never broken; victims are removed through the Eviction API."""
        ),
    ] = "preferred"
    harm: Annotated[
        Literal["pods", "work"],
        _doc(
            """How victims of one priority are compared, if budgets and the number of interrupted gangs are equal.
            pods: by their number, then by lost work (annotations and run time). work: by lost work, then by their
            number."""
        ),
    ] = "pods"
    ignore_keys: Annotated[
        tuple[
            Literal[
                "scheduling.koordinator.sh/disable-preemptible",
                "scheduling.koordinator.sh/eviction-cost",
                "quota.scheduling.koordinator.sh/preemptible",
                "volcano.sh/preemptable",
                "kai.scheduler/preemptibility",
                "godel.bytedance.com/can-be-preempted",
                "preemption-toleration.scheduling.x-k8s.io/toleration-seconds",
                "kueue.x-k8s.io/priority-boost",
            ],
            ...,
        ],
        _doc(
            """Annotations and labels that protect no pod. A mark does not exclude a pod from preemption, an eviction
            cost of 2147483647 is only the highest cost, a toleration below 0 is none, and a boost raises no
            priority."""
        ),
    ] = ()
    mark_namespaces: Annotated[
        tuple[NonEmpty, ...],
        _doc(
            """Namespaces in which the labels and annotations of Koordinator, Volcano, KAI and Godel exclude pods from
            preemption although the cluster does not serve their API."""
        ),
    ] = ()
    budget_milliseconds: Annotated[
        int,
        _doc(
            """How long the search for the least harmful victims of one gang may take. It is counted in search steps,
            10 for a millisecond in every command and on every machine, so that the same cluster always gives the same
            plan. A search cut short says so in the plan.""",
            ge=1,
            le=60_000,
        ),
    ] = 500
    max_rounds: Annotated[
        int,
        _doc(
            """Deprecated: it is ignored. A gang for which pods were evicted, and which is not bound after that, pauses
            before it evicts again.""",
            ge=1,
            le=100,
        ),
    ] = 3
    jobs: Annotated[
        Literal["suspend", "delete"],
        _doc(
            """If deleting the victims would make a Job fail (backoffLimit, podFailurePolicy). suspend: the Job is
            suspended as a whole and resumed when it fits again. delete: its pods are deleted, and the plan warns."""
        ),
    ] = "suspend"
    evict_daemon_set_pods: Annotated[
        bool, _doc("Whether pods of DaemonSets may be victims. Their controller starts them again in the same place.")
    ] = False
    gang_timeout: Annotated[
        Duration,
        _doc(
            """From nomination to binding: a gang that is not bound by then gives back what it holds and tries again.
            For gangs that set no timeout of their own."""
        ),
    ] = "10m"
    overdue_after: Annotated[
        Duration,
        _doc(
            """If a pod still terminates so long after the end of its grace period, its room counts as taken until it
            is gone. A gang that needs its room is decided again."""
        ),
    ] = "30s"
    max_wait: Annotated[
        Duration,
        _doc(
            """If the grace periods of terminating pods would make a gang wait longer, it evicts others instead, if it
            then fits earlier. No room is held for longer than that while it waits."""
        ),
    ] = "2m"
    hold_room: Annotated[
        Literal["auto", "always", "never"],
        _doc(
            """When nodes with freed room are held against other schedulers, by the taint gangsched.dev/held, until the
            members are bound, for at most maxWait. auto: if a victim, or a pending pod of the cluster, has a scheduler
            that is none of the profiles and binds pods. Nodes on which claims get devices are held before that: auto:
            if a pod with another scheduler has claims."""
        ),
    ] = "auto"
    held_share_per_namespace: Annotated[
        float,
        _doc(
            """The most nodes that are held at once for the gangs of one namespace, as a part of all nodes. A gang that
            would exceed it waits until the nodes of the others are given back. A gang that alone needs more is held
            when no other gang of its namespace is.""",
            ge=0.0,
            le=1.0,
        ),
    ] = 0.5
    max_victims: Annotated[
        int,
        _doc(
            """The most pods that are evicted for one gang; a GangGroup counts as one. 0: any number. A gang that would
            need more waits, and says so.""",
            ge=0,
            le=1_000_000,
        ),
    ] = 0
    max_victims_per_member: Annotated[
        float,
        _doc(
            """The same for each member that the gang needs, so that large gangs may evict more; rounded down for all of
            them together. 0: any number. Where both are set the lower number counts.""",
            ge=0.0,
            le=1_000_000.0,
        ),
    ] = 0.0
    protect_after_evictions: Annotated[
        int,
        _doc(
            """A workload that was evicted so often in an hour is protected for 30 minutes. Only workloads with a
            higher priority of their pods and of their queue may evict it. 0: never.""",
            ge=0,
            le=1_000,
        ),
    ] = 3
    notice: Annotated[
        Duration | dict[NonEmpty, Duration],
        _doc(
            """How long before an eviction the victim is notified, so that it can save its work. One duration, or
            durations by the name of the victim's PriorityClass ({batch: 30s}). Classes without a duration have 0s. 0s:
            pods are evicted at once."""
        ),
    ] = "0s"
    minimum_run_time: Annotated[
        Duration,
        _doc(
            """How long a pod must have run before it may be evicted; for a gang evicted as a whole, its newest pod
            counts. The annotation gangsched.dev/minimum-run-time of the victim's PriorityClass overrides it."""
        ),
    ] = "0s"
    delay: Annotated[
        Duration,
        _doc(
            """How long a gang that does not fit waits before it evicts, so that an autoscaler can bring nodes. The
            annotation gangsched.dev/preemption-delay of its PriorityClass overrides it."""
        ),
    ] = "0s"

    def notices(self) -> tuple[tuple[str, float], ...]:
        """Seconds of notice by the name of a PriorityClass (empty: all), where there is any."""
        given = {"": self.notice} if isinstance(self.notice, str) else self.notice
        return tuple((name, seconds) for name, text in given.items() if (seconds := seconds_of(text)))


class Queue(Section, frozen=True, kw_only=True):
    """When a gang that could not be placed is tried again, and what may pass it meanwhile."""

    backoff_initial: Annotated[Duration, _doc("Pause after the first failure; it doubles with each further one.")] = (
        "1s"
    )
    backoff_max: Annotated[Duration, _doc("The longest pause.")] = "10s"
    policy: Annotated[
        Literal["backfill", "strict"],
        _doc(
            """Which gangs may pass a gang that does not fit. backfill: all that fit beside its held or reserved room.
            strict: no gang behind it in the queue uses a node that one of its members could use."""
        ),
    ] = "backfill"
    starvation_after: Annotated[
        Duration,
        _doc(
            """With the policy backfill: after this wait, room is reserved for a gang where it can start first. No gang
            behind it in the queue may take that room. 0s: never."""
        ),
    ] = "10m"
    surplus: Annotated[
        Literal["after", "with"],
        _doc(
            """When members beyond the minimum of a gang are placed. after: after all waiting gangs of its priority had
            their turn for their minimum. with: together with its minimum."""
        ),
    ] = "after"


class Binding(Section, frozen=True, kw_only=True):
    """How the pods of a gang are bound."""

    on_failure: Annotated[
        Literal["retry", "rollback"],
        _doc(
            """If some members of a gang were bound and others cannot be. retry: the others wait for another node, and
            the gang shows that it is bound in part. rollback: if there is no other node, the bound members are
            deleted, and the gang is decided again as a whole. This needs controllers that create all of them again."""
        ),
    ] = "retry"


class Volumes(Section, frozen=True, kw_only=True):
    """How the volumes of a gang are bound before its pods are."""

    bind_timeout: Annotated[
        Duration,
        _doc(
            """How long the claims of all members may take to be bound. After that the gang gives back its nodes and
            volumes and is decided again."""
        ),
    ] = "10m"


class Quota(Section, frozen=True, kw_only=True):
    """Queues, cohorts and flavors: objects of the group kueue.x-k8s.io."""

    mode: Annotated[
        Literal["auto", "own", "off"],
        _doc(
            """Whether quota counts. auto: wherever there are ClusterQueues, but not on a cluster on which Kueue runs:
            it admits by them itself. own: there too; Jobs and pods that Kueue admits as well are left alone. off:
            queue objects and labels mean nothing."""
        ),
    ] = "auto"
    fair_sharing: Annotated[
        bool,
        _doc(
            """Whether queues that borrow are weighed against each other by their share (fairSharing.weight), as with
            fair sharing in Kueue, instead of by the priority of their workloads."""
        ),
    ] = False


class Gangs(Section, frozen=True, kw_only=True):
    """Gangs that no group object describes."""

    owners: Annotated[
        tuple[Kind, ...],
        _doc(
            """The kinds of owners whose pods start together though they name no group: Job (all pods that it runs at
            once), JobSet (those of all its Jobs, unless it starts them in order; that of a TrainJob too),
            LeaderWorkerSet (each group), RayCluster (that of a RayJob too). The annotation gangsched.dev/gang on such
            an object or its pod template overrides this. So does the label of that name on its namespace, if it is
            "true"."""
        ),
    ] = ()


class Announced(Section, frozen=True, kw_only=True):
    """Room for members that a gang announces before they exist (minResources, task groups)."""

    hold_seconds: Annotated[
        int,
        _doc(
            """How long it is kept from the binding of the first member. Members that come later go where there is
            room.""",
            ge=0,
            le=86_400,
        ),
    ] = 600
    evict: Annotated[
        bool,
        _doc(
            """Whether others are evicted for members that do not exist yet. Without it pods are evicted only for those
            that do, and the gang starts when there is free room for the rest. What is charged to a queue for them may
            be taken back by its rules in any case."""
        ),
    ] = False
    share_per_namespace: Annotated[
        float,
        _doc(
            """The most that is kept for members that the gangs of one namespace announce, of what all nodes have of
            each resource together. Members beyond it go where there is room when they come.""",
            ge=0.0,
            le=1.0,
        ),
    ] = 0.5


class Http(Section, frozen=True, kw_only=True):
    """The server of /healthz, /readyz, /metrics, /configz and /ui."""

    bind_address: Annotated[
        str, _doc("Address to listen on. Empty: every address inside a cluster, 127.0.0.1 elsewhere.")
    ] = ""
    port: Annotated[
        int,
        _doc(
            """Port to listen on; 0 switches the server off. Where the default is taken outside a cluster (by
            kube-scheduler), any free port is used and logged. A dry run and --once listen nowhere.""",
            ge=0,
            le=65535,
        ),
    ] = 10259
    tls_cert_file: Annotated[
        str,
        _doc(
            """File with the certificate of the port and those that lead to its authority (PEM), read anew when it
            changes. Empty: plain HTTP."""
        ),
    ] = ""
    tls_key_file: Annotated[str, _doc("File with the key of that certificate, PEM, without a passphrase.")] = ""
    authorize: Annotated[
        bool,
        _doc(
            """Whether /metrics, /configz, /shadow and /ui need a bearer token. Its account must have the right to get
            that nonResourceURL, which the API server checks (TokenReview, SubjectAccessReview). Probes stay open.
            Needs tlsCertFile, since a token is a secret, unless bindAddress is a loopback address."""
        ),
    ] = False
    ui: Annotated[
        Literal["auto", "always", "never"],
        _doc(
            """Whether /ui is served. auto: if authorize is on, and on a loopback address. always: to every client that
            reaches the port."""
        ),
    ] = "auto"
    hosts: Annotated[
        tuple[str, ...],
        _doc(
            """Further names by which browsers may call /ui, such as that of an Ingress. Where the port is on all
            addresses, any IP address, localhost, names without a dot, *.svc and *.cluster.local are served too."""
        ),
    ] = ()


class Logging(Section, frozen=True, kw_only=True):
    """What is written to standard error."""

    format: Annotated[
        Literal["auto", "json", "console"],
        _doc("json: one object per line. console: for human readers. auto: console on a terminal, json elsewhere."),
    ] = "auto"
    level: Annotated[Literal["debug", "info", "warning", "error"], _doc("The least severe level that is written.")] = (
        "info"
    )


class Tracing(Section, frozen=True, kw_only=True):
    """Traces of the lives of gangs, by OpenTelemetry."""

    enabled: Annotated[
        bool,
        _doc(
            """Whether a trace is made of each gang, from its arrival to its binding, and sent by OTLP over HTTP. Needs
            the extra otel: pip install py-gang-scheduler[otel]."""
        ),
    ] = False
    endpoint: Annotated[
        str,
        _doc(
            """URL that takes traces, such as http://collector:4318/v1/traces. Empty: as OTEL_EXPORTER_OTLP_ENDPOINT and
            the other standard variables have it, which are honoured in any case. It is published: secrets belong into
            those variables, such as OTEL_EXPORTER_OTLP_HEADERS."""
        ),
    ] = ""


class Events(Section, frozen=True, kw_only=True):
    """What is written as Events."""

    members: Annotated[
        Literal["perPod", "perGang"],
        _doc(
            """On which objects Events report bindings and reasons to wait. perPod: on each member. perGang: once for
            all of them, on the group object, or on the first member if there is none. Victims always have an Event
            each."""
        ),
    ] = "perPod"


class GroupStatus(Section, frozen=True, kw_only=True):
    """The status of groups, queues and Jobs."""

    enabled: Annotated[
        bool,
        _doc(
            """Whether the status of objects is written: phase, counts and conditions of PodGroups, usage and counts of
            queues (never of Kueue's own), and conditions of Jobs with a queue. These writes come after all others."""
        ),
    ] = True


def _trusted(profile: Profile) -> str:
    """The scheduler name of a profile that trusts the priority of groups; empty for others."""
    name, said = profile.scheduler_name, profile.trust_group_priority
    return name if said == "always" or (said == "auto" and name in TRUSTED_BY_DEFAULT) else ""


class Configuration(Section, frozen=True, kw_only=True):
    """Every setting with its default. An unknown key is an error: see `gangsched config validate`."""

    api_version: Annotated[Literal["gangsched.dev/v1alpha1"], _doc("Version of this format.")] = API_VERSION
    kind: Annotated[Literal["GangSchedulerConfiguration"], _doc("Always GangSchedulerConfiguration.")] = KIND
    profiles: Annotated[
        tuple[Profile, ...],
        _doc(
            """The scheduler names that this process serves, each with plug-ins of its own. All profiles share one view
            of the cluster: room that one holds for a gang is not given away by another.""",
            min_length=1,
            max_length=64,
        ),
    ] = (Profile(),)
    client_connection: ClientConnection = ClientConnection()
    leader_election: LeaderElection = LeaderElection()
    preemption: Preemption = Preemption()
    queue: Queue = Queue()
    binding: Binding = Binding()
    volumes: Volumes = Volumes()
    quota: Quota = Quota()
    gangs: Gangs = Gangs()
    announced: Announced = Announced()
    http: Http = Http()
    logging: Logging = Logging()
    tracing: Tracing = Tracing()
    events: Events = Events()
    group_status: GroupStatus = GroupStatus()

    def core_options(self) -> Options:
        """The settings of the decision core. The time budget becomes search steps at a fixed rate.

        Raises ValueError for profiles that :func:`gangsched.runtime.config.check` finds fault with.
        """
        chosen = [(profile.scheduler_name, plugin_set(profile)) for profile in self.profiles]
        return Options(
            scheduler_names=tuple(profile.scheduler_name for profile in self.profiles),
            gang_mode=self.preemption.gang_mode,
            pod_disruption_mode=self.preemption.pod_disruption_mode,
            strict_budgets=self.preemption.pdb == "strict",
            ignore_keys=self.preemption.ignore_keys,
            mark_namespaces=self.preemption.mark_namespaces,
            harm_by_work=self.preemption.harm == "work",
            notice=self.preemption.notices(),
            search_steps=self.preemption.budget_milliseconds * STEPS_PER_MILLISECOND,
            suspend_jobs=self.preemption.jobs == "suspend",
            timeout_seconds=seconds_of(self.preemption.gang_timeout),
            overdue_after_seconds=seconds_of(self.preemption.overdue_after),
            max_wait_seconds=seconds_of(self.preemption.max_wait),
            hold_room=self.preemption.hold_room,
            held_share=self.preemption.held_share_per_namespace,
            max_victims=self.preemption.max_victims,
            max_victims_per_member=self.preemption.max_victims_per_member,
            protect_after_evictions=self.preemption.protect_after_evictions,
            minimum_run_time_seconds=seconds_of(self.preemption.minimum_run_time),
            preemption_delay_seconds=seconds_of(self.preemption.delay),
            backoff_initial_seconds=seconds_of(self.queue.backoff_initial),
            backoff_max_seconds=seconds_of(self.queue.backoff_max),
            queue_policy=self.queue.policy,
            starvation_seconds=seconds_of(self.queue.starvation_after),
            surplus_after=self.queue.surplus == "after",
            bind_timeout_seconds=seconds_of(self.volumes.bind_timeout),
            rollback=self.binding.on_failure == "rollback",
            quota=self.quota.mode != "off",
            fair_sharing=self.quota.fair_sharing,
            gang_owners=self.gangs.owners,
            announced_hold_seconds=float(self.announced.hold_seconds),
            announced_evict=self.announced.evict,
            announced_share=self.announced.share_per_namespace,
            events_per_gang=self.events.members == "perGang",
            evict_daemonset_pods=self.preemption.evict_daemon_set_pods,
            profiles=tuple((name, plugins) for name, plugins in chosen if plugins != PluginSet()),
            trusted_names=tuple(filter(None, map(_trusted, self.profiles))),
        )

    def former_leases(self) -> dict[str, tuple[str, ...]]:
        """The Leases by which is known whether the former owner of a scheduler name is alive, by name; of some names
        there are none. With the same Lease as ours, the former owner is a candidate in our election.
        """
        election = self.leader_election
        own = f"{election.resource_namespace}/{election.resource_name}" if election.leader_elect else ""
        names = ((p.scheduler_name, p.former_leases or FORMER_LEASES.get(p.scheduler_name)) for p in self.profiles)
        return {name: leases for name, leases in names if leases is not None and own not in leases}

    def serving(self, names: Iterable[str]) -> Configuration:
        """The same for these scheduler names: those that are no profiles get the plug-ins of the first one."""
        known = {profile.scheduler_name: profile for profile in self.profiles}
        first = self.profiles[0]
        profiles = (known.get(n) or msgspec.structs.replace(first, scheduler_name=n) for n in dict.fromkeys(names))
        return msgspec.structs.replace(self, profiles=tuple(profiles))
