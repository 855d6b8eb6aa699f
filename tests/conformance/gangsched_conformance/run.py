"""One cluster of a check, and the check over the clusters of all seeds."""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable

from gangsched.core.framework.registry import PluginError
from gangsched_conformance.clusters import Cluster
from gangsched_conformance.findings import Finding


class Run(ABC):
    """What a plug-in says in one cluster: ``cluster`` and ``twin`` are the same, built twice.

    ``asked`` counts the pods that it had something to say about; ``pod`` is the one that it is asked about now.
    """

    def __init__(self, seed: int, clusters: Callable[[int], Cluster], pod_labels: Iterable[str]) -> None:
        self.seed = seed
        self.cluster, self.twin = clusters(seed), clusters(seed)
        self.findings: list[Finding] = []
        self.asked = 0
        self.pod = ""
        self.chance = random.Random(seed)
        for each in (self.cluster, self.twin):
            each.world.snapshot.tell_apart(pod_labels)

    def tell(self, check: str, text: str) -> None:
        """One finding per check and cluster is enough."""
        if all(finding.check != check for finding in self.findings):
            self.findings.append(Finding(check, self.seed, self.pod, text))

    @abstractmethod
    def run(self) -> None:
        """Ask the plug-in, and compare; :class:`PluginError` when it raises."""


def run_all(make: Callable[[int], Run], seeds: Iterable[int]) -> list[Finding]:
    """The findings of the runs that ``make`` makes of each seed."""
    found: list[Finding] = []
    asked = 0
    for seed in seeds:
        run = make(seed)
        try:
            run.run()
        except PluginError as error:
            run.tell("answers", str(error))
        asked += run.asked
        found += run.findings
    if not asked:
        found.append(
            Finding(
                "asked",
                -1,
                "",
                "it applied to no pod, so nothing was checked: pass manifests with -f, or, if it is built in, add what"
                " it reads to clusters.py",
            )
        )
    return found
