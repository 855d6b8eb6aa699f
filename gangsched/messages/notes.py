"""Notes of Events, messages of conditions, and why plans and writes were given up."""

from __future__ import annotations

from gangsched.messages.text import Text

# Workloads with a queue

WORKLOAD_ADMITTED = "The workload is admitted"
quota_reserved_after = Text("{condition}, wait time since queued was {waited}s")
admitted_after = Text("Admitted by ClusterQueue {queue}, wait time since reservation was {waited}s")
drained_workload = Text("{message}: {stop} is drained; it is admitted again when the queue is open and has room")
and_pending_preemption = Text(". Pending the preemption of {count} workload(s)")
quota_reserved = Text("Quota reserved in ClusterQueue {queue}")
evicted_for_quota = Text("{message}; preemptor: {gang} (priority {priority}, plan {plan})")
drain_blocked = Text("{stop} is drained, and this stays for now: {why}")
NO_RESERVATION = "The workload has no reservation"

# Gangs that wait, and plans that end

bound_in_part = Text("{message}. The gang is bound in part: {bound} bound, {needed} more needed, {tried}")
BEFORE_WEAKER_WORK = "which come before any weaker work"
ON_OTHER_NODES = "which are tried on other nodes, before any weaker work"
room_taken = Text("the room that was freed is taken{by}: {why}")
room_not_held = Text(
    "The nodes on which room is freed cannot be held against other schedulers, which may take it: {why}"
    " (RBAC: patch nodes; preemption.holdRoom)"
)
NO_REASON = "the API server has refused it"
too_little_time = Text("not done within {seconds:.0f} s")
not_held_yet = Text("not held against other schedulers yet: {nodes}{why}")
NO_ROOM_ANY_MORE = "the gang does not fit any more"
and_bound_are_removed = Text("{text}; those that are bound are removed")
still_terminating = Text("{message}; still terminating: {names}")
QUEUE_STOPPED = "its queue is stopped"
finishing_plan = Text("finishing plan {plan} of an earlier process")
pods_left_to_owner = Text("{text}: pods with schedulerName {name} are left to it")
drain_of = Text("drain of {workload}")
rest_of = Text("rest of {plan}")
VICTIM_STAYS = "a pod that was to leave stays"
VICTIM_TAKEN = "another eviction has taken over a pod that was to leave"
timed_out = Text("timed out while {stage}: {waits_for}")
superseded = Text("superseded by plan {plan}")
timed_out_while_terminating = Text("timed out while {stage}: overdue, and still terminating: {names}")
OTHER_NODE = "another node is taken instead"
MARKED_EARLIER = "it was marked by an earlier process of this scheduler"

# Events, and marks on victims

HIGHER_PRIORITY = "higher priority pods"
pods_assigned = Text("Successfully assigned {pods} to {nodes} node(s): {names}")
preempted_by = Text(
    "Preempted by gang {preemptor} (priority {priority}, pod {trigger}) on node {node} ({reason}): {why}"
)
eviction_announced = Text(
    "It will be evicted for gang {preemptor}, not before {when}: until then it can save its work (preemption.notice)"
)
WEIGHED_AGAIN = "a victim has ended or saved its work while it had notice: others may be the better choice"
announced_until = Text("{message}; they have notice until {when}")
finished = Text(
    "Preempted on node {node}: {kind} {name} leaves as a whole, and pods of it were evicted for gang {preemptor}"
)
left_broken = Text(
    "Left in part: others of it, or of its GangGroup, have left for gang {preemptor} (plan {plan}), and these stay:"
    " {staying} ({why})"
)
MARK_TAKEN_BACK = "its mark was taken back by another client"
job_suspended = Text(
    "Suspended to make room for gang {preemptor} (priority {priority}, {trigger}; plan {plan});"
    " it goes on when it fits again"
)
job_resumed = Text("There is room for its {pods} again: its suspension has ended")
preempted_pods = Text("Preempted {pods} for gang {preemptor} (plan {plan}): {names}")
rolled_back = Text("Removed from {node}: gang {gang} is bound in part only; {kind} {owner} creates it again: {why}")
preempting = Text("{scheduler}: preempting to accommodate {higher}, preemptor: {preemptor}, triggerpod: {trigger}")
rolling_back = Text("{scheduler}: rolling back a gang that is bound in part: {gang}, triggerpod: {trigger}")
draining = Text("{scheduler}: draining {stop}, which is stopped: {workload} leaves")
drained_pod = Text("{message}: {stop} is drained, and {workload} leaves; on node {node}")
assigned = Text("Successfully assigned {pod} to {node}")
name_served = Text("pods with schedulerName {name} are scheduled from now on")
no_longer_needed = Text("no longer needed for {owner}")
workload_due_to = Text("a workload due to {reason}")
no_longer_drained = Text("{owner} is no longer drained")
pods_did_not_come = Text(
    "No pod of the {kind} has come since it was resumed: the room that was kept for them is given back. Suspended"
    " again, it is not resumed before {time}"
)
announced_room_released = Text(
    "Members that were announced have not come within {seconds}s of the first one's start: the room that was kept for"
    " them is given back ({kept})"
)
MINIMUM_BOUND = "the members that the gang needs are bound"

# The status of a group object

STATUS_HELD_BACK = (
    "the scheduler has overwritten its own status of this object several times within a second; further changes of it"
    " are written once a second. This is a fault of the scheduler: please report it"
)

# Rounds that came to nothing

node_lost = Text("{node} {how} at {time} while its pods left")
NODE_DELETED, NODE_CORDONED, NODE_NOT_READY = "was deleted", "was cordoned", "became not ready"
replanned = Text("{lost}; {message}")
because = Text(": {why}")
ONE_ROUND = "a round of evictions has"
rounds = Text("{rounds} rounds of evictions in a row have")
rounds_without_binding = Text("{many} not led to its binding{taken}")
TAKEN = ", for others took the room"
BINDING_REFUSED = "a binding was refused"
NOMINATION_REFUSED = "the nomination of a member was refused"
node_refused = Text("{node} no longer takes {pod}")

# Writes that were not sent, or refused

FLAVOR_NOT_WRITTEN = "the API server does not let its pod template be changed, which says nothing of the flavor"
owner_finished = Text("{kind} {owner} has finished")
owner_suspended = Text("{kind} {owner} has been suspended by another client")
owner_without_queue = Text("{kind} {owner} has no queue any more")
bound_since = Text("{namespace}/{name} has been bound to {node} since this was decided")
lease_held = Text("Lease {lease} is held by {holder}")
lease_unreadable = Text("Lease {lease} cannot be read: {error}")
MARK_GONE = "its mark does not stand any more"
victim_rewritten = Text(
    "Written {times} times while it was to be removed, and its mark (DisruptionTarget) stands all the same: it is"
    " removed whatever else is written to it"
)
MARK_UNKNOWN = "nothing is known of its mark"
ANOTHER_NODE = "another node of this name"
NO_ANSWER = "no answer to the eviction"
stale = Text(
    "nothing has been heard of {resource} for {seconds} s: after {most} s no pod is bound or evicted by what was known"
)
not_shown = Text(
    "a binding was accepted {seconds} s ago, and the watch of pods does not show it: no pod is bound or evicted now"
)
NOT_LEADER = "not the leader (any more)"
NOT_WANTED = "it is not wanted any more"
CANCELLED = "the write was cancelled"
PRECONDITION_UNREADABLE = "what it rests on could not be read"
