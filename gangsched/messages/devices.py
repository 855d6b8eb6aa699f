"""Why claims get no devices: what is wrong with a claim, a class or a pool."""

from __future__ import annotations

from gangsched.messages.text import Text

# Pools

INCOMPLETE = "is being updated: not all of its slices are there"
device_twice = Text("has two devices {name}")
counter_set_twice = Text("has two counter sets {name}")
no_counter = Text("has no counter {counter} in a set {counter_set}, which device {device} consumes")
compatibility_groups = Text("device {device} has compatibility groups")
COUNTER_SET_TWICE_IN_SLICE = "a counter set appears twice"

# Parts of a claim that are not supported

NO_CLASS_NAMED = "request without a deviceClassName"
NO_ATTRIBUTE = "constraint without matchAttribute or distinctAttribute"
NOT_UNDERSTOOD = "it cannot be understood"
NO_EXPRESSION = "selector without cel"

# Claims

refused = Text("claim {claim}: {why}")
too_many = Text("claim {claim} asks for more than {most} devices")
no_class = Text("claim {claim}: there is no DeviceClass {name}")
all_of_a_pool = Text("claim {claim} asks for all devices, and the pool {pool} {why}")
excluded = Text("claim {claim} asks for all devices, and a constraint excludes {device}")
selector_failed = Text("a selector of request {request} failed on device {device}: {why}")
negative = Text("request {request}: capacity {name} is negative")
