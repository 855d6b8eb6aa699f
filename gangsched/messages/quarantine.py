"""Messages about objects and gangs over which the scheduler has failed."""

from __future__ import annotations

from gangsched.messages.text import Text

event = Text("{why}. It is left out of scheduling until {time}, or until it is edited. Other pods are scheduled.")
WITHDRAWN = "the scheduler failed over this pod"
SPARED = "the scheduler failed over this pod, and evicts it no more"
fault = Text("{culprits}: {error}")
UNKNOWN = "an unknown object"
