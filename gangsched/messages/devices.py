"""Why claims get no devices: what is wrong with a claim, a class or a pool."""

from __future__ import annotations

from gangsched.messages.text import Text

# Pools

INCOMPLETE = "is being updated: not all of its slices are there"
device_twice = Text("has two devices {name}")
counter_set_twice = Text("has two counter sets {name}")
no_counter = Text("has no counter {counter} in a set {counter_set}, which device {device} consumes")
BINDING_CONDITIONS = "has devices with binding conditions, which are not supported"
compatibility_groups = Text("device {device} has compatibility groups")
COUNTER_SET_TWICE_IN_SLICE = "a counter set appears twice"

# Parts of a claim that are not supported

NO_CLASS_NAMED = "request without a deviceClassName"
NO_ATTRIBUTE = "constraint without matchAttribute or distinctAttribute"
NOT_UNDERSTOOD = "it cannot be understood"
NO_EXPRESSION = "selector without cel"

# Nodes

CLAIM_ELSEWHERE = "node(s) cannot use the devices that a resource claim has"
#: Of a gang as a whole, when its nodes are known and its devices are chosen.
CHOICE_STOPPED = (
    "the devices of a node can be allocated in so many ways that the search for those of the gang was stopped"
)
SEARCH_STOPPED = "node(s) have so many ways to allocate the pod's resource claims that the search was stopped"
NO_SUCH_DEVICES = "node(s) do not have the devices of the pod's resource claims"
NO_SLICES = "no driver publishes any devices (there is no ResourceSlice)"
pool_in_trouble = Text("node(s) have a pool of devices that {why}")
DEVICES_IN_USE = "node(s) have too few free devices for the pod's resource claims"

# What a gang lacks

ALL = "all devices"
AND = " and "
with_selectors = Text("{what} with {selectors}")
on_one = Text("on one {attribute}")
differing = Text("each with another {attribute}")
node_has = Text("node {node} has {count}")
node_has_free = Text("node {node} has {count} free")
NO_NODE_HAS_ANY = "no node has any"
NO_NODE_HAS_ANY_FREE = "no node has any free"
never_has = Text("{each} for {asked}; {nearest}")
members_have = Text("{placed} of {members} fit; the next needs {asked}; {nearest}")

# Claims

no_device_class = Text("there is no DeviceClass {name}")
more_than = Text("a claim asks for more than {most} devices")
claim_not_made = Text("waiting for the claim controller to create the ResourceClaim {name}")
no_template = Text("ResourceClaimTemplate {name} not found")
no_claim = Text("ResourceClaim {name} not found")
claim_deleted = Text("ResourceClaim {name} is being deleted")
claim_of_another = Text("ResourceClaim {name} was made for another pod")
of_a_group = Text("entry {name} of resourceClaims names neither a claim nor a template, which is not supported")
reserved = Text("ResourceClaim {name} is reserved for {most} pods, and for no more")
claim_problem = Text("ResourceClaim {name}: {why}")

refused = Text("claim {claim}: {why}")
too_many = Text("claim {claim} asks for more than {most} devices")
no_class = Text("claim {claim}: there is no DeviceClass {name}")
all_of_a_pool = Text("claim {claim} asks for all devices, and the pool {pool} {why}")
excluded = Text("claim {claim} asks for all devices, and a constraint excludes {device}")
selector_failed = Text("a selector of request {request} failed on device {device}: {why}")
selector_error = Text("a selector of a request for class {name} failed on device {device}: {why}")
negative = Text("request {request}: capacity {name} is negative")
