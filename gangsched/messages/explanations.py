"""The sentences of ``explain`` about one gang or pod. Reasons are in ``causes.py``, advice in ``absent.py``."""

from __future__ import annotations

from gangsched.messages.text import Text

FINISHED = "it has finished and takes no room"
GANG_NOT_DECIDED = "its gang is not decided now"
NO_POD_TAKES_ROOM = "none of its pods takes room"
IT = "it"
some_of_its_pods = Text("{taken} of its {pods} pods")
evicted_for = Text("{what} is evicted for {kind} {gang} (priority {priority})")
all_evicted_for = Text("all of it is evicted for {kind} {gang} (priority {priority})")
drained = Text("it is evicted because {stop} is stopped (HoldAndDrain)")
drain_blocked = Text("{stop} is drained, and it is evicted as soon as it can be")
unknown = Text("there is no gang or pod {key} among {pods} pods{nearest}")
member_goes_to = Text("{pod} is a member of {kind} {gang} and goes to {node}")
member_without_node = Text("{pod} is a member of {kind} {gang} and has no node")
needs_members = Text("{members} to run (from {source}); {bound} on nodes, {pending} pending{gated}")
and_gated = Text(", {gated} held by scheduling gates")
starts_with_group = Text("the GangGroup {gangs} starts together or not at all")
ITS_OWN, OF_ITS_MEMBERS = "its own", "that of its members"
preempts = Text("it preempts with priority {priority} ({whose})")
never_preempts = Text("priority {priority}, but preemptionPolicy Never: it evicts no pod")
FITS_NOW = "there is room for them now: no pod is evicted"
FITS_WITHOUT_VICTIMS = "they do not fit now, and fit when the victims are gone"
THE_VICTIMS = "the victims are"
beyond_budgets = Text("{pods} of them beyond a PodDisruptionBudget: no choice without that was found")
HAS_ITS_MINIMUM = "it has its minimum; there is no room for further members"
REPORT_ERROR = "a version of the scheduler without this error; please report it with `gangsched snapshot`"
other_plugin = Text("a plug-in {plugin} that does not fail, or a profile without it")
ROOM_FOR_ONE_MORE = "room for one more member; no pod is evicted for members beyond the minimum"
