"""Long lists in few lines."""

from __future__ import annotations

from gangsched.messages.text import Text

members = Text("{members} → {nodes} ({names})")
first_to_last = Text("{first} … {last}")
victims = Text("{pods} of {units} in namespace {namespace}, priority {priority}: {names}")
beyond_budgets = Text("; {pods} beyond their PodDisruptionBudgets")
leaving = Text("{pods} in namespace {namespace} are leaving")
more_sums = Text("… and {count} more such lines (-v shows all)")
evicted_ago = Text("  {kind} · evicted {ago} ago")
evicted_earlier = Text("{ago} ago, {kind} {names}: {note}")
and_more = Text("… and {count} more")
#: Where something is left out.
SHOWS_ALL = "-v shows all"
JSON_HAS_ALL = "-o json has all"
