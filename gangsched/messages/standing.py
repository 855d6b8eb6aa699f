"""Sentences of commands about the scheduler of a cluster: its leader and its configuration."""

from __future__ import annotations

from gangsched.messages.text import Text

no_leader = Text("NO SCHEDULER IS LEADING since {since}{former}")
of_former = Text(" ({name} led before)")
no_leader_ever = Text("NO SCHEDULER IS LEADING: there is no Lease {lease}")
leads = Text("{name} leads{since}")
leads_since = Text(" since {since}")
leader_unknown = Text("it is not known whether a scheduler leads: {why}")
lease_forbidden = Text("you may not get Lease {lease}")
not_published = Text("there is no ConfigMap {name}")
status_forbidden = Text("you may not get ConfigMap {name}")
as_published = Text("configuration of {name}")
as_given = Text("configuration of {file}")
built_in_defaults = Text("BUILT-IN DEFAULTS, since what the scheduler runs with is not known ({why})")
settings_not_known = Text("settings of the scheduler that this version does not know are left out: {names}")
reading = Text("{connection}: {leader}; {whose}")

# The screen of `gangsched status`

version = Text("{version}, for pods of {names}")
ALL_SETTINGS = "all of it"
LACKS_NOTHING = "none of those that it needs"
LACKS_UNKNOWN = "not known: the API server does not say all that is allowed"
RUNS_OUTSIDE = "none seen: it runs outside of the cluster, or its pods are not to be seen"
replicas = Text("{ready} of {count} ready: {names}")
decided_last = Text("{outcome} for {gang}, {age} ago")
NO_DECISION = "none yet"
NO_GANG = "no gang is known"
oldest_wait = Text("{gang} waits for {age}")
limits = Text("{qps:g} requests a second, {burst} at once")
writes = Text("{waiting} on their way, {failed} failed since it leads")
foreign = Text("{name}: {pods}")
NO_FOREIGN = "no pod names another scheduler"
held = Text("{node} for {gang}")
stale_holds = Text("{nodes}: no gang waits for them; `gangsched release --yes` gives them back")
cache = Text("{resource} {age}")
caches = Text("last heard of, {written} ago: {ages}")
UNKNOWN = "not known"
ONLY_IT_KNOWS = "the scheduler alone knows of pauses, of room that it holds, and of what it has begun"
NO_HOLD = "no room is held on any node"
left_out = Text("{what} until {until}: {why}")
gang = Text("gang {name}")
PROCESS_ENDED = "an earlier process ended while it was being decided"
