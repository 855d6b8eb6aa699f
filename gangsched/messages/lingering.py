"""Texts about pods that still terminate after the end of their grace period."""

from __future__ import annotations

from gangsched.messages.text import Text

FINALIZERS = Text("finalizer {names}")
NO_NODE = Text("node {node} is gone, and pod garbage collection has not removed it")
SILENT = Text("node {node} is not ready, so its kubelet cannot confirm it")
NOT_CONFIRMED = Text("the kubelet of {node} has not confirmed it")
REMOVE_FINALIZERS = Text("let the owner of finalizer {names} remove it from pod {pod}")
REPAIR = Text("repair node {node}, or delete it")
LOOK_AT_KUBELET = Text("look at the kubelet of {node}: pod {pod} does not stop")
OVERDUE = Text("{pod} should have stopped on {node} at {time}, {ago} ago, and has not: {cause}")
GIVES_UP = Text("; the gang gives up at {time}")
NOT_WAITED_FOR = "; no gang waits for it any more"
SHOULD_HAVE_STOPPED = Text("it should have stopped at {time}, {ago} ago, and has not: {cause}")
WAS_DUE = Text(", which was due by {time}")
EACH = Text("{pod} ({cause})")
