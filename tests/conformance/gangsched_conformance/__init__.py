"""Does a filter or a score keep the promises of its protocol? Public, for tests of plug-ins.

In a test::

    from gangsched_conformance import check
    from my_package import MyFilter

    def test_my_filter_keeps_the_protocol() -> None:
        assert check(MyFilter()) == []

From a shell: ``python -m gangsched_conformance my_package:MyFilter -f pods.yaml``. The file has pods that the plug-in
has something to say about, where made-up ones are none; in a test that is
``check(MyFilter(), clusters=with_manifests("pods.yaml"))``.

The plug-in is driven over random clusters, the same for the same seeds: it is asked about pending pods, pods come and
go in a :class:`~gangsched.core.state.simulation.Simulation`, and what it then says is held against what a new state
says. :data:`CHECKS` lists what is looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from gangsched_conformance.clusters import Cluster, cluster, with_manifests
from gangsched_conformance.filters import FILTER_CHECKS, check_filter
from gangsched_conformance.findings import Finding
from gangsched_conformance.scores import SCORE_CHECKS, check_score

__all__ = ["CHECKS", "Cluster", "Finding", "check", "cluster", "with_manifests"]

#: What each check is about, by its name in a :class:`Finding`.
CHECKS: dict[str, str] = {**FILTER_CHECKS, **SCORE_CHECKS}


def check(
    plugin: object, seeds: Iterable[int] = range(40), clusters: Callable[[int], Cluster] = cluster
) -> list[Finding]:
    """Everything that is wrong with a filter or a score, at most one finding for each check and cluster.

    ``plugin`` is an instance; it is driven over ``clusters(seed)`` for each of ``seeds``. Made-up clusters of your own
    must be the same for the same seed. Raises TypeError for what is neither a filter nor a score.
    """
    if hasattr(plugin, "mask"):
        return check_filter(plugin, seeds, clusters)
    if hasattr(plugin, "values"):
        return check_score(plugin, seeds, clusters)
    raise TypeError(f"{type(plugin).__name__} is neither a filter (it has no mask) nor a score (it has no values)")
