"""Texts of the pages that show a cluster."""

from __future__ import annotations

from gangsched.messages.text import Text

GANGS = "Gangs"
QUEUES = "Queues"
EVICTIONS = "Evictions"
PAGES = "pages"
SKIP = "skip to the content"
as_of = Text("as of {time}")
EXPLANATION = "Explanation"

# What is shown

served = Text("gangsched ui: {url}")
of_files = Text("Of {sources}, read anew for each page.")
leads_here = Text("{name} leads: this page is of the leader.")
stands_by = Text("This replica stands by: {leader}.")
THIS = "this process"
NOBODY_LEADS = "it knows of no leader"
cut = Text("Of {decided} only is known what is decided: that took {seconds:.0f} s, and the others were left out.")

# Gangs

NAMESPACE = "namespace"
ALL = "all"
ONLY_WAITING = "only those that wait"
TEXT = "words of a name or reason"
OF_QUOTA = "OF QUOTA"
use_of_quota = Text("{used} used, {reserved} reserved, quota {quota}")
reloads = Text("This page is loaded again every {seconds} s.")
PAUSE, PAUSED, RESUME = "stop", "This page stays as it is.", "load it again every 5 s"
POD, NODE, GANG = "POD", "NODE", "GANG"
FIND = "explain a gang, pod or owner"
NAME = "[KIND/]NAME"
more_gangs = Text("{count} more are not shown: choose a namespace, or ask gangsched get -A")
NO_GANGS = "There is no such gang."
ask_explain = Text("What would help is tried by: gangsched explain {name} -n {namespace}")

# Nodes, queues, evictions

held = Text("Held against other schedulers: {held}.")
nominated = Text("Room is held for {pods}.")
NO_QUEUES = "There are no ClusterQueues."
NO_EVICTIONS = "No eviction is on record."
NO_RECORD = "Files have no record of evictions: gangsched ui without -f shows that of a cluster."
more_evictions = Text("{count} earlier ones are not shown: gangsched history")
more_queues = Text("{count} more are not shown: gangsched queues")

# Plan

MANIFEST = "Manifests, as they would be applied. Nothing is written to the cluster."
ASK = "Plan these"
PASTED = "pasted"
NOT_SHOWN = "This cannot be shown:"
BAD_INPUT = "This was not understood:"
WARNINGS = "Warnings"
too_long = Text("{found} KiB of manifests are too many; {most} KiB are read at most")
not_reached = Text(
    "Not decided: after {seconds:.0f} s and {decided} ahead of it in the queue no more was begun. Ask gangsched plan"
    " --cluster -f."
)
others = Text("{others} that wait were decided too: those ahead in the queue keep their room.")
too_many_objects = Text("{found} objects are too many for this page; {most} are decided at most. Ask gangsched plan.")

# Refusals

BUSY = "Others are being answered; try again in a moment."
rests = Text("The leader works for this page a tenth of its time at most: try again in {seconds:.0f} s.")
host_refused = Text(
    "this page is not served under the name {host!r}: open the address that gangsched ui has printed, or add the name"
    " to http.hosts"
)
NOT_ADMITTED = "open the address that gangsched ui has printed: it has a secret, which this request lacks"
QUERY = "at most 8 fields, in UTF-8, are understood in an address"
OTHER_SITE = "forms of another site are refused: open this page and paste the manifest there"
FORM_TYPE = "only the form of this page is understood (application/x-www-form-urlencoded, UTF-8)"
NO_PAGE = "There is no such page."
record_unreadable = Text("The record of evictions cannot be read: {why}")
