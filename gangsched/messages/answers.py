"""The first sentence of every answer: why a gang does not start, with numbers, in the same words everywhere.

Three words are used. A gang *never fits* if it would not fit into empty nodes. It does *not now* fit if others
have the room. It *waits* for something that is named.
"""

from __future__ import annotations

from gangsched.messages.text import Text

NEVER_FITS, NOT_NOW, WAITS = "never fits", "not now", "waits"
#: The words with which the first sentence begins.
WORDS = (NEVER_FITS, NOT_NOW, WAITS)
first_sentence = Text("{word}: {why}")
with_more = Text("{first}. {more}")


def taken_apart(text: str) -> tuple[str, str, str]:
    """The word, why, and the rest, of a text that these two have made; of any other text its word is empty."""
    word, colon, rest = text.partition(": ")
    if not colon or word not in WORDS:
        word, rest = "", text
    why, _, more = rest.partition(". ")
    return word, why, more


# Never

one_pod_too_large = Text("{each} for {asked}; the largest of the {nodes} has {largest}")
served_by_class = Text(
    "{each} for {asked}; DeviceClass {name} serves that by dynamic resource allocation, which is not supported yet"
)
no_node_has_all = Text("{each} for {asked}, and no node has all of that at once")
more_than_there_is = Text("{pods} pods x {each} = {asked}; {there} in the {nodes}: at most {most} of {pods}")
more_than_nodes_take = Text("the {nodes} take at most {most} of {pods}, even when they are empty")
no_node_will_do = Text("no node takes {pods}: {why}")
may_use = Text("{nodes} that it may use")
NO_NODES = "the cluster has no nodes yet"
part_too_large = Text("part {part} needs one {keys} for {members} members; the nearest ({domain}) takes {found}")
part_fits = Text("{found} of {members} members of part {part} fit in {domain}, which comes nearest")
too_few_domains = Text("the parts need more domains of {keys} than there are ({count})")
domain_too_small = Text("one {keys} is needed for {members}; the largest ({domain}) takes {most}")
quota_too_small = Text("queue {queue} can never hold it: {asked} {resource} asked, {most} at most")
no_flavor = Text("queue {queue} has no flavor for it: {why}")

# Waits

evicts_later = Text("until {time}, when it may evict others: {why}")

# Not now

members_fit = Text("{placed} of {members} fit; the next asks for {asked}, which no node has free")
NEXT_FINDS_NO_NODE = "no node that has the room takes it beside what runs there"
members_fit_beside = Text("{placed} of {members} fit; the next asks for {asked}, and {why}")
no_quota = Text("queue {queue} has not enough quota left: {missing} {resource} more needed")
no_quota_yet = Text("queue {queue} has no quota for it now")
THE_POD = "the pod asks"
EACH_POD = "each pod asks"

# Why a node is none of those that a pod may use

cordoned = Text("{nodes} {are} cordoned")
going = Text("{nodes} {are} about to be removed")
not_ready = Text("{nodes} {are} not ready")
tainted = Text("{nodes} {have} the taint {taint}, which it does not tolerate")
not_selected = Text("{nodes} {have} no label {label}")
not_matched = Text("{nodes} {do} not match its node selector or affinity")
refused = Text("{nodes}: {why}")
