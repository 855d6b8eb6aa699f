"""Sentences of the report of shadow mode."""

from __future__ import annotations

from gangsched.messages.text import Text

RUNNING = Text("shadow of {names}: decides beside it, and writes nothing to the cluster")
HEAD = Text("Shadow of {names}, {since} to {until}: what it did, and what {own} would have done")
NOTHING_YET = "no report yet: the caches are not complete\n"
REAL, OWN = "really", "instead"
STARTED = "gangs started"
EVICTED = "pods evicted"
EVICTED_FOR = "gangs for which pods were evicted"
BROKEN = "gangs broken by that"
IN_PART = "gangs that ran in part"
WAITED = "wait: median / 90 % / longest"
WAITED_IN_SUM = "wait of all together"
WAITING = "gangs that wait now"
OF_BOTH = Text("Waits are those of the {count} that started in both.")
NO_WAITS = "No gang has started in both yet."
NEVER_HERE = Text("{count} started really and would not have started by then: {names}.")
NOT_STARTED_THERE = Text("{count} would have started and have not: {names}.")
LARGEST = "Largest differences:"
DIFFERENCE = Text("{gang}: evicted {real}, would have evicted {own}{whom}; waited {waited}, would have waited {would}")
WHOM = Text(" ({pods})")
STILL_WAITS = Text("{wait} so far")
WOULD_WAIT = "longer"
LEFT_OUT = Text("Not looked at: pods of {names} (--shadow-of).")
SLOWEST = Text("Looked every {seconds} at most; what had to wait is timed to that.")
LIMITS_HEAD = "What it cannot know:"
DIVERGES = (
    "Each gang is decided on the cluster as the other scheduler made it. After the first difference the worlds part:"
    " what would have been evicted still runs here, and its room is counted as taken."
)
AT_ONCE = "A decision counts as carried out at once; binding and removing take a little longer."
LEAVING = (
    "Victims of both are assumed to leave equally fast, as pods were seen to leave. Until one was seen, they leave at"
    " the end of their grace period."
)
CONDITION = (
    "Evictions of the other scheduler are known by the condition DisruptionTarget with the reason"
    " PreemptionByScheduler. One that deletes pods without it is counted with none."
)
FOR_WHOM = "For whom it evicted is known by the node to which a pod was nominated or bound next; the sum needs no such."
CONTROLLERS = "The pods that controllers would have created after other evictions are not known."
NO_REPORT_WITHOUT = "--report and --shadow-of are of --shadow"
NOT_TOGETHER = "--shadow decides again and again and writes nothing: it takes no --once, --dry-run or --scheduler-name"
OWN_NAME = Text("--shadow-of {name}: that is a name of this scheduler, and no other one's")
CANNOT_WRITE = Text("--report {folder}: {error}")
