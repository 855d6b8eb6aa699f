"""Changes that would make a gang start. Each was tried by a decision."""

from __future__ import annotations

from gangsched.messages.text import Text

create_claim = Text("create {claims}: with it {then}")
tolerate = Text("add a toleration for the taint {taint} to its pods")
uncordon = Text("kubectl uncordon {nodes}")
get_ready = Text("get {nodes} ready, or wait for that")
both = Text("{first}, and {second}")
starts_then = Text("{change}: {then}")
other_selector = Text("take {selector} out of its node selector, or label nodes with it")
OTHER_AFFINITY = "take the required node affinity out of its pods, or make it match nodes"
without_topology = Text("ask for no single {keys}, or have a larger one")
smaller_request = Text("ask for at most {asked} in each pod")
fewer_members = Text("lower parallelism (or minMember) to {members}: {then}")
same_class = Text(
    "give {pods} the priority class of its other members: the gang has the lowest of its members' priorities,"
    " {lowest}, and with {highest} {then}"
)
higher_priority = Text("a priority of {priority} or more: {then}")
may_preempt = Text("a preemptionPolicy other than Never: {then}")
more_disruptions = Text("let PodDisruptionBudget {budgets} allow more disruptions: {then}")
without_filters = Text("change what plug-in {filters} refuses its pods for: without it {then}")
time = Text("wait until {time}: then {then}")
patience = Text("no minimum run times and no preemption delay: {then}")
create_local_queue = Text("create the LocalQueue {key} of ClusterQueue {queue}: {then}{nearest}")
other_local_queue = Text("name the LocalQueue {name} in the label {key}: {then}")
start_queue = Text("set stopPolicy: None in {kind} {queue}")
create_flavor = Text("create ResourceFlavor {flavors}{hint}")
without_checks = Text("take admission check {checks} out of ClusterQueue {queue}, or leave the queue to Kueue")
no_circle = Text("give ClusterQueue {queue} another cohort than {cohort}, whose parents form a circle")
select_namespace = Text("let namespaceSelector of ClusterQueue {queue} select namespace {namespace}")
create_priority_class = Text("create WorkloadPriorityClass {name}{hint}, or take the label off")
hint = Text(" ({nearest})")
more_quota = Text("raise nominalQuota of flavor {flavor} in ClusterQueue {queue} to {amounts}: {then}")
IT_IS_CONSIDERED = "its queue considers it then"
QUOTA_IS_ENOUGH = "its quota is enough then"
more_nodes = Text("add {nodes} like {node}: {then}")
first_nodes = Text("add {nodes} with {room} for one of its members each: {then}")
decided_again = Text("wait until it is decided again: as it is now {then}")
among_equals = Text("a priority above {priority}: others of the same priority are first in the queue and take the room")
EARLIER = "a place further ahead in the queue: gangs of higher priority take the room first"
ask_explain = Text("gangsched explain {name} -n {namespace}, with the same input, tries what would help")
to_keep = Text("to keep it: {it}")
NONE_FOUND = "none of the changes that were tried (of the gang, its priority, quota, or more nodes) makes it start"
