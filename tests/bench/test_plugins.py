"""The micro-benchmark measures every plug-in, and gives each of them something to do."""

from __future__ import annotations

from gangsched.core.framework.pipeline import pipeline_of
from tests.bench.plugins import measure

#: What has nothing to say in this cluster: no node is going away, no pod needs a feature or a claimed device.
IDLE = {"NodeGoing", "DynamicResources", "NodeDeclaredFeatures", "NodeAffinityNames"}
#: What refuses nothing here and is asked all the same.
PASSING = {"NodeUnschedulable", "NodeResourcesFit", "TaintToleration"}


def test_every_plug_in_has_something_to_do() -> None:
    """A filter refuses nodes, a score tells them apart, unless listed; no plug-in is forgotten."""
    rows = list(measure(nodes=20, pods=600, repeat=1, only=[]))
    pipeline = pipeline_of()
    filters = {row.plugin: row.effect for row in rows if row.kind == "filter" and not row.plugin.startswith("(")}
    scores = {row.plugin: row.effect for row in rows if row.kind == "score"}
    assert set(filters) == {rule.name for rule in pipeline.filters}
    assert set(scores) == {score.name for score, _ in pipeline.scores}
    assert {name for name, effect in filters.items() if effect is None} == IDLE
    assert {name for name, effect in filters.items() if effect == 0} == PASSING
    assert {name for name, effect in scores.items() if effect is None or effect < 2} == IDLE & set(scores)
