"""Members that are kept off certain nodes, as if they had asked for that themselves."""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from gangsched.model.records import NOT_IN, NodeTerm, Pod, Requirement


def kept_off(pod: Pod, nodes: Collection[str]) -> Pod:
    """The pod with a node affinity that leaves these nodes (names) out, beside what it asks for anyway."""
    out = Requirement("metadata.name", NOT_IN, tuple(sorted(nodes)))
    asked = pod.shape.node_terms
    # Of terms one must hold, and one without any requirement never does.
    real = (NodeTerm(),) if asked is None else tuple(t for t in asked if t.expressions or t.fields)
    terms = tuple(NodeTerm(t.expressions, (*t.fields, out)) for t in real)
    return msgspec.structs.replace(pod, shape=msgspec.structs.replace(pod.shape, node_terms=terms))
