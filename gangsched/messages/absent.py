"""Answers about owners and groups that have no pods, about pods that are no gang, and about names nearly right."""

from __future__ import annotations

from gangsched.messages.text import Text

title = Text("{what} · no pods")
title_of_others = Text("{what}  {pods} without a node")
SUSPENDED = "it is suspended, and has no pods until it is resumed"
suspended_for = Text("{scheduler} has suspended it to make room; it is resumed when there is room for it again")
suspended_in_queue = Text("it waits in LocalQueue {queue}, suspended until it is admitted")
resume = Text("""kubectl patch {kind} {name} -n {namespace} --type merge -p '{{"spec":{{"suspend":false}}}}'""")
why_evicted = Text("for whom: gangsched why-evicted {kind}/{name} -n {namespace}")
SEE_QUEUES = "gangsched queues shows what is reserved in its queue, and by whom"
FINISHED = "it has finished"
finished = Text("it has finished: {succeeded} of {wanted} pods have succeeded")
BEING_DELETED = "it is being deleted"
EVICTED = "its pods were evicted, and its controller makes new ones in a while"
on_nodes = Text("on {where}; nothing is about to evict it")
NO_PODS = "it has no pods yet"
see_events = Text("kubectl describe {kind} {name} -n {namespace} shows what its controller says")
refused = Text("{owner} has no pods: {note}")
group_without_pods = Text("no pod names it; it waits for {members}")
label_pods = Text("give {members} of namespace {namespace} the label {label}")
create_class = Text("create the PriorityClass {name}{nearest}; the controller then tries again")
SEE_REFUSAL = "change what refuses its pods, or its template; the controller then tries again"
not_ours = Text("{pods} {are} for {scheduler}")
make_ours = Text(
    "gangsched init makes a gang of its manifest; for a pod: spec.schedulerName: {names}"
    " (--scheduler-name {scheduler} decides as if it were ours)"
)
start_by_itself = Text(
    "its pods start one by one: gangsched init refuses a {kind}; for the pods: spec.schedulerName: {names}"
    " (--scheduler-name {scheduler} decides as if they were ours)"
)
made_room = Text("{pods} made room for gang {gang} at {time}")
and_held = Text("; {nodes} {are} held for {gang} until it runs or gives up, for {most} at most (preemption.maxWait)")
protect = Text(
    "to protect it: a priority of {priority} or more, a PodDisruptionBudget with preemption.pdb: strict, or a mark that"
    " forbids evictions (preempt.md)"
)
PROTECT = (
    "to protect it: a higher priority, a PodDisruptionBudget with preemption.pdb: strict, or a mark that forbids"
    " evictions (preempt.md)"
)
of_another_kind = Text("there is no {kind} {key}; there is a {found} of that name")
no_gang = Text("{pods} {are} no gang: each starts by itself")
near_annotation = Text("it has the annotation {found}; did you mean {meant}?")
neither = Text('its annotation {key} is {found!r}: set it to "true"')
near_label = Text("the pods have the label {found}; did you mean {meant}?")
create_group = Text("create the PodGroup {gang}; its spec.minMember says how many pods start together")
other_label = Text(
    "change the label {label} of the pods to {name}, or create the PodGroup {gang}; did you mean {name}?"
)
other_namespace = Text(
    "create the PodGroup {gang}: that of namespace {namespace} counts for pods of that namespace only"
)
nothing_before = Text("{what}: nothing is scheduled or evicted for the gang before it is complete")
CREATE_PODS, REMOVE_GATES = "create the missing pods", "remove the scheduling gates"
OWNER = "nothing, if its owner was deleted: the pods are removed with it; else look whether the owner is there"
LEAVES = "nothing: it is decided when those of its pods that leave are gone"
other_namespace_needed = Text("create it in another namespace: {namespace} is being deleted, and takes no bindings")
ONE_ADMITTER = "set quota.mode: auto, or take the label of the queue from it"
QUEUE_API = "install the API of its queue, or name no queue"
LIST_ALIKE = "create all gangs of its GangGroup, and give each the same list of them"
mend = Text("correct {what}: kubectl edit shows it")
install = Text("install the CRD {api}")
say_minimum = Text("give its pods the annotation {annotation}: how many of them start together")
start_grouper = Text("start what makes its PodGroup, or give {gang} another scheduler name")
more_pods = Text("raise parallelism of {owner} to {needed}, or lower minMember to {found}")
terminating = Text("it is terminating already{until}")
evicted_for_gang = Text("it was evicted for {gang} and stops{until}")
stopping_for_it = Text("{pods} evicted for it {are} stopping: {names}{until}")
stopping = Text("{pods} that {are} leaving anyway {are} stopping: {names}{until}")
until = Text(", until {time} at the latest")
WITHOUT_CLASS = ", without a priorityClassName"
lower_of = Text("the lower of its PodGroup's {own} and its pods' {lowest}")
MIXED_IS_REFUSED = "kube-scheduler refuses a PodGroup whose pods have another priority: give both the same class"
lowest_of = Text("of {names}{without}; the others have up to {highest}")
would_wait = Text("{gang} would have to wait")
other_resource = Text("ask for {meant} instead of {found}: {then}")
no_node_has = Text("add nodes with {found}: no node has any, and devices of a DeviceClass are not supported yet")
serve_otherwise = Text(
    "add nodes with a device plug-in for {found}: devices of DeviceClass {name} are allocated dynamically, which is not"
    " supported yet"
)
