"""Why a gang waits, why a node does not fit, and why a pod is evicted or stays. Reasons of nodes have the words of
kube-scheduler, those of quota Kueue's.
"""

from __future__ import annotations

from gangsched.messages.text import Text

# Plans

more_than_needed = Text("at most {at_most} more than needed {where}")
at_priority = Text("at priority {priority}")

# Nodes

POD_AFFINITY = "node(s) didn't match pod affinity rules"
POD_ANTI_AFFINITY = "node(s) didn't match pod anti-affinity rules"
ANTI_AFFINITY_OF_EXISTING_PODS = "node(s) didn't satisfy existing pods anti-affinity rules"
NODE_UNSCHEDULABLE = "node(s) were unschedulable"
NODE_LEAVES_OR_UNREADABLE = "node(s) were being deleted or could not be read"
NODE_NAME = "node(s) didn't match the requested node name"
NODE_FEATURES = "node(s) didn't match Pod's required features"
TAINTS = "node(s) had untolerated taint(s)"
CONFIGURED_AFFINITY = "node(s) didn't satisfy plugin(s) [NodeAffinity]"
NODE_AFFINITY = "node(s) didn't match Pod's node affinity/selector"
ADDED_AFFINITY = "node(s) didn't match scheduler-enforced node affinity"
PORTS = "node(s) didn't have free ports for the requested pod ports"
NODE_REFUSED = "node(s) were refused"
OTHER_RESOURCES = "resources that no node offers"
nodes_refuse = Text("nodes refuse it ({texts})")
TOO_MANY_PODS = "Too many pods"
TOPOLOGY_SPREAD = "node(s) didn't match pod topology spread constraints"
missing_label = Text("{text} (missing required label)")

# Nodes and volumes

READ_WRITE_ONCE_POD = (
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod"
)
NO_DISK = "node(s) had no available disk"
VOLUME_COUNT = "node(s) exceed max volume count"
driver_missing = Text("{driver} CSI driver is not installed on the node")
VOLUME_NODE_AFFINITY = "node(s) didn't match PersistentVolume's node affinity"
NO_VOLUME_TO_BIND = "node(s) didn't find available persistent volumes to bind"
NO_STORAGE = "node(s) did not have enough free storage"
VOLUMES_MISSING = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
NO_VOLUME_ZONE = "node(s) had no available volume zone"
object_not_found = Text('{kind} "{name}" not found')
UNBOUND_IMMEDIATE_CLAIMS = "pod has unbound immediate PersistentVolumeClaims"
claim_bound_to_nothing = Text('persistentvolumeclaim "{name}" bound to non-existent persistentvolume "{volume_name}"')
claim_being_deleted = Text('persistentvolumeclaim "{name}" is being deleted')
resource_claim_being_deleted = Text('resourceclaim "{name}" is being deleted')
claim_allocated_elsewhere = Text('resourceclaim "{name}" was allocated by another client')
claim_of_template_not_made = Text("the resourceclaim {name} of pod {pod} is not made yet")
claim_without_devices = Text('resourceclaim "{name}" has no devices any more')
device_given_twice = Text('resourceclaim "{name}" has a device that resourceclaim "{other}" has too')
waits_for_devices = Text("waiting for devices of claims: {names}")
claim_reserved_too_often = Text('resourceclaim "{name}" has {most} consumers')
claim_of_another_pod = Text("PVC {where}/{name} was not created for pod {where}/{pod} (pod is not owner)")
claim_not_created_yet = Text('waiting for ephemeral volume controller to create the persistentvolumeclaim "{name}"')

# Decisions

NO_ROOM_NOW = "it does not fit into the room that is free"
UNDER_STRICT_POLICY = "under strict queue policy"
FOR_RESERVED_ROOM = "for which room is reserved"
kept_for_others = Text("node(s) were kept for {names}, ahead in the queue")
EVICTING_ALL_NOT_ENOUGH = "there is too little room even without all workloads and pods that may be evicted"
NO_WORKLOADS_TO_DISPLACE = "no workloads may be preempted so that the gang gets its quota and its nodes"
NOT_ASKED_FOR = "not asked for"
PREEMPTION_POLICY_NEVER = "not eligible due to preemptionPolicy=Never."
not_yet = Text("not yet: {why}, and so the gang pauses; no pod is evicted for it until {time}")
waits_for_slow_pods = Text(
    "waits for pods that have until {time} to terminate, which is longer than preemption.maxWait: it would not fit"
    " sooner if others were evicted instead"
)
not_held_for_long = Text(
    "it fits when {pods} that terminate have left, by {time}: no room is held for it longer than preemption.maxWait"
)
held_in_vain = Text(
    "it waits for terminating pods; room that was held for it had no effect, and is held again after {time}"
)
holds_paused = Text(
    "nodes were held for gangs of namespace {namespace}, and these did not start: no pod is evicted for its gangs"
    " before {time}"
)
over_held_share = Text(
    "{nodes} {are} held for other gangs of namespace {namespace}; preemption.heldSharePerNamespace allows {most} at"
    " once"
)
priorities_differ = Text("members of {gang} differ in priority ({priorities}); the lowest counts")
REST_OF_GANG_DOES_NOT_FIT = "fits, but the rest of its gang does not"
OUTSIDE_TOPOLOGY_DOMAIN = "node(s) were outside the gang's topology domain"
bound_in_several_domains = Text("members are bound in {count} domains already: {domains}")
label_missing = Text("node(s) didn't have the label {keys}")
one_domain_needed = Text("the gang needs one domain of {keys}: {best}")
bound_outside_domains = Text("{pod} is bound to a node without the label {keys}")
bound_in_domain = Text("members are bound in {domain} already")
nearest_of_domains = Text("{count} domains, {nearest} comes nearest")
only_domain = Text("there is only {domain}")
no_node_has_label = Text("no node has the label {keys}")

# Victims

stopped_and_drained = Text("{stop} is stopped (HoldAndDrain)")
SEVERAL_BUDGETS = "the Eviction API refuses pods under several PodDisruptionBudgets"
budget_refuses_all = Text("{names} does not allow all of its {count} pods to go")
FITS_WITHOUT_ITS_ROOM = "the gang fits without its room"
LOSS_NOT_SURVIVED = "only pods leave whose loss it survives"
EVICTING_DOES_NOT_HELP = "evicting it would not make the gang fit"
lower_priority = Text("priority {priority} is lower than {preemptor}; needed to make room for the gang")
of_unit = Text("{needed}; a member of {unit_kind} {unit}")
ONLY_MEMBERS_BEYOND_MINIMUM = "only members beyond its minimum leave"
NO_FEW_VICTIMS = "no choice of few enough victims was found"
NO_VICTIMS_WITHIN_BUDGETS = "no choice of victims within the disruption budgets was found"
SEARCH_CUT_SHORT = "the search for victims was cut short"
no_choice_of_at_most = Text(
    "no choice of at most {victims} was found, which is what {setting} allows; the smallest has {smallest}"
)
nodes_available = Text("0/{nodes} nodes are available")
and_unit_leaves = Text("; {unit_kind} {unit} leaves as a whole")
unit_leaves_whole = Text("{needed}; {unit_kind} {unit} leaves as a whole")
rest_of_unit_runs = Text("{needed}; other members of {unit_kind} {unit} keep running")
fits_only_beyond_budget = Text("the gang would fit only if more pods were evicted than {allowed}")
NO_LOWER_PRIORITY_PODS = "no lower-priority pods that may be evicted where the gang could run"
and_minimum_run_times = Text(
    "; {units} of lower priority {run} not run for the minimum time yet, the next may be evicted from {time}"
)
removal_refused = Text("its removal was refused by the API server ({why}); it is tried again after {time}")
and_refused_removals = Text("; the API server has refused to remove {pods} ({pod}: {why})")
and_kept_pods = Text("; {pods} may not be evicted because of what {names}")
can_start_now = Text("{members} can start now")
AND_ROOM_FOR_ANNOUNCED = "; room is kept for the members that it announces"
NOT_FOR_ANNOUNCED = "no pod is evicted for members that do not exist yet (announced.evict)"
FOR_ANNOUNCED = "room for the members that it announces: "
can_start_when = Text("{members} can start when {waits} {are} gone")
can_start_after = Text("{members} can start after {pods} {are} evicted")
and_beyond = Text(", {pods} of them beyond PodDisruptionBudget {budgets}")
no_victims_within = Text("no victims were found within what {allowed}")
NO_VICTIMS_BEFORE_CUT = "the search for victims was cut short before it found any that would make the gang fit"
and_gone = Text(" and {waits} {are} gone")
NO_VICTIMS_FOUND = "no victims were found that would make the gang fit"
job_would_fail_by_policy = Text("Job {job} would fail: its podFailurePolicy says so for evicted pods")
job_would_fail_by_indexes = Text(
    "Job {job} would fail: with {indexes} more have failed than its maxFailedIndexes of {most}"
)
job_would_lose_indexes = Text(
    "Job {job} would fail: {indexes} would fail for good, with a backoffLimitPerIndex of {limit}"
)
NO_FAILURE_POLICY = "it has no failurePolicy"
RULE_FAILS_JOBSET = "a rule of its failurePolicy says FailJobSet"
jobset_would_fail = Text("JobSet {jobset} would fail with its Job: {why}")
jobset_would_fail_by_restarts = Text(
    "JobSet {jobset} would fail with its Job: it has been restarted {counted} of {most} times (maxRestarts)"
)
jobset_would_restart = Text("JobSet {jobset} would be restarted as a whole, by its failurePolicy")
jobset_would_make_jobs_anew = Text("JobSet {jobset} would create {jobs} again by its failurePolicy and continue")
ONLY_LOWER_PRIORITY_POD = "the only lower-priority pod"
would_not_fit_even_if = Text("the gang would not fit even if {pods} were evicted")
job_would_fail_by_backoff_limit = Text(
    "Job {job} would fail: {count} more failed {pods_exceed} its backoffLimit of {backoff_limit}"
)
owner_would_fail = Text("{kind} {owner} {would} fail: its operator counts a running pod that is deleted as failed")
all_lower_priority_pods = Text("all {count} lower-priority pods")
job_would_end = Text("it would end if {less} of its pods were evicted, and has one that may not be")
QUOTA_SUFFICES = "there is quota enough: for room on nodes only workloads are evicted that are lower in the priority"
evicted_often = Text("it was evicted {times} in the last hour (preemption.protectAfterEvictions)")
evictable_again = Text("{why}; it may be evicted again from {time}")
of_pods_and_queue = Text("{why} of their pods and in that of their queue")
TOLERATES_PREEMPTION = "tolerates preemption by this priority for ever, as its PriorityClass says"
minimum_run_time = Text("it has not run for its minimum of {duration} yet; it may be evicted from {time}")
not_run_for_minimum = Text("has not run for its minimum of {duration} yet")
member_protected_until = Text("its member {pod} {late}; it may be evicted from {time}")
preemption_delay = Text("not yet: the gang waits {duration} for room before it evicts (preemption delay), until {time}")
delay = Text("its preemption delay is {duration}")
member = Text("its member {pod} {why}")
fits_without_protected = Text("it would fit without {pods}, which {are} never evicted")
fits_without_many_protected = Text("it would fit without pods that are never evicted, among them {pods}")
job_suspended_whole = Text("Job {job} is suspended as a whole: it would not survive the loss of pods")
jobset_suspended_whole = Text("JobSet {job} is suspended as a whole: its Jobs count deleted pods as failed")
BEING_BOUND = "it is being bound"
MEMBER_NOT_EVICTABLE = "it has a member that may not be evicted"
and_last_checkpoint = Text(", last checkpoint {duration} ago")
less_than = Text("less than 0.1 {unit}")

# Quota

flavor_affinity = Text("flavor {flavor} doesn't match node affinity")
unused_quota_insufficient = Text("insufficient unused quota for {resource} in flavor {flavor}, {missing} more needed")
flavor_taint = Text("untolerated taint {taint}={value}:{effect} in flavor {flavor}")
quota_insufficient = Text(
    "insufficient quota for {resource} in flavor {flavor}, previously considered podsets requests ({before}) +"
    " current podset request ({requested}) > maximum capacity ({most})"
)
no_flavors_for_pod_set = Text("couldn't assign flavors to pod set {pod_set}: {names}")
resource_not_in_queue = Text("resource {resource} unavailable in ClusterQueue")
two_admitters = Text(
    "the label {queue_label} has two admitters: Kueue ({mark}) and {scheduler} (quota.mode: own), which neither"
    " starts nor counts it. Set quota.mode: auto, or keep Kueue from it (managedJobsNamespaceSelector,"
    " integrations.frameworks), or remove the label"
)
ahead_in_queue = Text("{names} is ahead in ClusterQueue {queue} (StrictFIFO)")
preempted_in_queue = Text(
    "Preempted to accommodate a workload (UID: {uid}, JobUID: {owner_uid}) due to {reason}; preemptor path:"
    " {preemptor_path}; preemptee path: {preemptee_path}"
)
NAMESPACE_NOT_SELECTED = "workload namespace doesn't match ClusterQueue selector"
not_found = Text("{kind} {name} not found")
queue_inactive = Text("ClusterQueue {queue} is inactive: {why}")
queue_stopped = Text("its stopPolicy is {stop}")
not_understood = Text("{kind} {name} cannot be understood")
check_not_run = Text("admission checks are not run by this scheduler ({checks})")
COHORTS_IN_A_CIRCLE = "its cohorts form a circle"
local_queue_missing = Text("LocalQueue {local_queue} doesn't exist")
local_queue_stopped = Text("LocalQueue {local_queue} is stopped")
CAN_ADMIT = "Can admit new workloads"
CAN_SUBMIT = "Can submit new workloads to localQueue"
LOCAL_QUEUE_STOPPED = "LocalQueue is stopped"
CANNOT_SUBMIT = "Can't submit new workloads to clusterQueue"
cannot_admit = Text("Can't admit new workloads: {inactive}")
queue_is_stopped = Text("The {kind} is stopped")
IN_CLUSTER_QUEUE = "prioritization in the ClusterQueue"
IN_COHORT = "reclamation within the cohort"
IN_COHORT_WHILE_BORROWING = "reclamation within the cohort while borrowing"
FAIR_SHARING = "Fair Sharing within the cohort"

# Gangs

members_gated = Text("{present} of {min_member} members may be scheduled; {count} held by scheduling gates")
members_leave = Text("{leaving} of its {count} bound members are being evicted")
owner_leaves = Text("the pods of {name} that run are being evicted, and it is suspended for that")
namespace_being_deleted = Text("namespace {namespace} is being deleted: no pod can be bound there")
group_being_deleted = Text("PodGroup {gang} is being deleted")
queue_api_missing = Text(
    "the label {label} names the queue {queue}, and the cluster does not serve the API of queues ({api}): install it,"
    " remove the label, or set quota.mode: off"
)
group_queue_api_missing = Text(
    "PodGroup {gang} names the queue {queue}, and the cluster does not serve the API of its queues ({api}): install it,"
    " name no queue, or set quota.mode: off"
)

owner_gone = Text("its {kind} {owner} is gone, or is not known yet")
owner_replaced = Text("its {kind} {owner} is gone; the one of that name is another")
owner_being_deleted = Text("its {kind} {owner} is being deleted")
owner_ended = Text("its {kind} {owner} has ended")
owner_refused = Text("its {kind} {owner} is invalid: {why}")
owner_api_missing = Text("its {kind} {owner} is of an API that the cluster does not serve ({api})")
members_without_owner = Text("{present} of {min_member} members may be scheduled; of {count}, {why}")
no_minimum = Text("no member of gang {gang} says how many members it needs (annotation {annotation})")
GROUP_INVALID = "is refused"
events_unreadable = Text("its Events cannot be read: {error}")
cannot_create = Text("{owner}: {note} ({reason}, {times}{ago})")
members_missing = Text("{present} of {min_member} members exist{bound}; {lacking} missing")
see_events = Text("if refused, the Events of {owner} say by what (gangsched explain)")
indexes_failed = Text("index {indexes} of Job {job} has failed for good")
waits_for_gates = Text("waiting for scheduling gates: [{gates}]")
gang_group_without_itself = Text("the GangGroup of {spec} does not list {spec} itself")
group_missing = Text("PodGroup {gang} does not exist")
group_api_missing = Text(
    "PodGroup {gang} does not exist, and the cluster does not serve its API ({api}): install the CRD"
)
not_grouped = Text("the pod is in no PodGroup yet; {by} would put it into one")
group_refused = Text("PodGroup {gang} was refused")
scheduling_gate = Text("scheduling gate {gate}")
and_bound = Text(", {count} of them bound")
names_scheduler = Text("{pod} has schedulerName {scheduler}, so it does not count")
name_scheduler = Text("{pod} and {more} more have schedulerName {scheduler}, so they do not count")
part_lacks = Text(
    "part {part} needs one domain of {keys}: {domain} comes nearest, with room for {found} of {members} members"
)
parts_lack = Text("the parts do not fit together in the domains of {keys} ({count})")
of_part = Text("part {part}: {problem}")
role_missing = Text("{short} of the members with the role {role} missing")
group_above_missing = Text("{kind} {group}, in which its group is, does not exist yet")
groups_too_deep = Text("its group is in more than {most} levels of groups, or in a circle")
groups_missing = Text("{kind} {group} has {there} of the {least} groups that it needs")
differs_from_root = Text("is not that of the root {root}")
WHOLE_BELOW_SINGLE = "is `all` below a root that is `single`, which is not supported"
gang_of_group_missing = Text("gang {key} of the GangGroup does not exist yet")
gang_group_differs = Text("gang {key} does not list the same GangGroup")
FORMER_OWNER_UNKNOWN = "it is not known yet whether its former owner is alive"
bound_by_another = Text("another scheduler has bound pod {pod} to {node}")

# Volumes before the binding

no_volume_requested = Text('no volume was requested for persistentvolumeclaim "{name}" any more')
no_volume_for_claim = Text('there is no volume for persistentvolumeclaim "{claim}" any more')
volume_elsewhere = Text('pv "{volume}" node affinity doesn\'t match node "{node}"')
claim_reference_reset = Text('ClaimRef got reset for pv "{volume}"')
volume_of_another_claim = Text('pv "{volume}" was bound to another claim')
provisioning_failed = Text('provisioning failed for PVC "{name}"')

# Waiting

waits_for_volumes = Text("waiting for volumes of {names}")
NOMINATED_ELSEWHERE = "waiting until nominations to other nodes are taken back"
giving_devices = Text("giving devices: {problem}")
binding_volumes = Text("binding volumes: {problem}")
waits_for_pods_of = Text("waiting for the pods of {family} {job}")

# Pods that are never evicted, and Jobs that cannot wait

STATIC_POD = "static pods cannot be evicted"
DAEMON_SET_POD = "DaemonSet pods are re-created in place"
EVICTION_COST_NEVER = "its annotation scheduling.koordinator.sh/eviction-cost says never"
NOT_PREEMPTIBLE = "a label or an annotation excludes it from preemption"
too_large_to_wait = Text("{pods} pods are more than the {most} with which a {kind} may wait for its start")

# When a gang that waits will start

NOTHING_NEW = "no new pods arrive, and no node is lost"
FORECAST_OF_ONE_PRIORITY = "measured on a trace with jobs of one priority: 91 of 100 starts were within such times"
FORECAST_OF_SEVERAL = (
    "measured on a trace with jobs of two priorities: 61 of 100 starts were within such times, since jobs that come"
    " later may pass"
)
run_times_hold = Text("run times are within 20% of what {key} says")
RUN_LIKE_BEFORE = "pods run as long as those of the same owner that have succeeded"
RUN_UNTIL_DEADLINE = "a pod with activeDeadlineSeconds of which nothing else is known runs until then"
UNKNOWN_GO_ON = "pods of unknown run time go on; if one ends, the gang may start sooner"
declared = Text("{key} on the workloads whose run time is unknown: more would be known")
starts = Text("about {likely} (between {earliest} and {latest})")
START_UNKNOWN = "unknown: nothing that is known to end makes room for it"
not_before = Text("not before {time}, as far as the forecast goes")
forecast_ended = Text(
    "the forecast ends at {time}: by then so much has changed in the cluster that it reached its limit"
)
LATEST_UNKNOWN = "an unknown time"
in_queue = Text("it is number {position} in the queue")
if_so = Text("if {assumption}")
run_time_unknown = Text("their run time is unknown: {workloads}")
priority_of = Text("a priority of {priority}: it would start about {time}")
would_help = Text("what would help: {what}")
