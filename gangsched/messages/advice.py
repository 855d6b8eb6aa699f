"""Changes that would make a gang start. Each was tried by a decision."""

from __future__ import annotations

from gangsched.messages.text import Text

create_claim = Text("create {claims}: with it {then}")
tolerate = Text("add a toleration for the taint {taint} to its pods: {then}")
nodes_back = Text("kubectl uncordon {nodes}, and see that they are ready: {then}")
other_selector = Text("take {selector} out of its node selector, or label nodes with it: {then}")
other_affinity = Text("take the required node affinity out of its pods, or make it match nodes: {then}")
without_topology = Text("ask for no single {keys}, or have a larger one: {then}")
smaller_request = Text("ask for at most {asked} in each pod: {then}")
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
more_quota = Text("more quota in {queue}, which gangsched queues shows: {then}")
more_nodes = Text("add {nodes} like {node}: {then}")
first_nodes = Text("add {nodes} with {room} for one of its members each: {then}")
decided_again = Text("wait until it is decided again: as it is now {then}")
EARLIER = "a place further ahead in the queue: gangs of higher priority take the room first"
ask_explain = Text("gangsched explain {name} -n {namespace}, with the same input, tries what would help")
to_keep = Text("to keep it: {it}")
NONE_FOUND = "none of the changes that were tried (of the gang, its priority, quota, or more nodes) makes it start"
