"""Texts in pictures of plans and of simulated runs."""

from __future__ import annotations

from gangsched.messages.text import Text

BEFORE = "before (░ leaves)"
BEFORE_PLAN = "before"
AFTER = "after"
NOW = "now"
HELD_TAKEN = "with what is held"
more_nodes = Text("… {count} more")
in_one_line = Text("{used} of {room} are used, {held} are held for gangs, {gangs} {wait}")
gpus = Text("{count} GPUs")
used_of = Text("{used} of {room}")
now_and_after = Text("now {now}, after {after}, of {room}")
as_they_are = Text("{nodes} more, on which nothing changes")
NOTHING_STARTS = "nothing starts, and no pod is evicted"

# Pages

PLAN = "Plan"
RUN = "Simulated run"
of_input = Text("of {sources}")
OF_CLUSTER = "the cluster"
drawn = Text("Bars show {resource}.")
LEGEND_RUNS = "runs"
LEGEND_NEW = "starts here"
LEGEND_LEAVES = "evicted for others"
LEGEND_TERMINATES = "stops (terminating)"
LEGEND_FREE = "free"
ALL = "all nodes"
ONLY_CHANGED = "nodes that change"
FILTER = "show"
NO_RACK = "other nodes"
NODES = "Nodes"
DECISIONS = "Decisions"
HAPPENED = "What happened"
SINGLE_PODS = "pods without a gang"
rack = Text("{name}: {nodes}, {used} of {room} used")
rack_changes = Text("{name}: {nodes}, {before} of {room} used, then {after}")
alike = Text("{first} … {last} ({nodes} alike)")
together = Text("{name} x {pods}")
whole_rack = Text("all {nodes} together")
more_rows = Text("… {count} more (-o json has all)")
ran = Text("{counts}; {binds} bound, {preempted} preempted; last change at {at} of {until}.")
run_times_unknown = Text(
    "run times unknown: {pods} ({workloads}); they run to the end. Declare {key} to play their ends"
)
trace_took = Text("makespan {span}; {share} of the GPUs were allocated while jobs arrived")
trace_cost = Text("{pods} of {jobs} evicted: {lost} GPU-hours lost, {done} done")
PRIORITY, JOBS, NEVER_STARTED = "PRIORITY", "JOBS", "NEVER STARTED"
MEAN_WAIT, MEDIAN, MOST_WAITS = "MEAN WAIT", "MEDIAN", "95 %"
rack_of_run = Text("{name}: {nodes}")
NO_PODS = "no pods"
