"""Random clusters of queues and Jobs."""

from __future__ import annotations

import random

JOBS = 14


def manifests(seed: int) -> tuple[str, int]:
    """Three nodes, three queues of a cohort, and Jobs of three priorities; and the cores of all queues together."""
    rng = random.Random(seed)
    out = [
        f"{{apiVersion: v1, kind: Node, metadata: {{name: n{i}}}, status: {{allocatable: {{cpu: '8', pods: '50'}}}}}}"
        for i in range(3)
    ]
    kueue = "apiVersion: kueue.x-k8s.io/v1beta2"
    out.append(f"{{{kueue}, kind: ResourceFlavor, metadata: {{name: f}}}}")
    total = 0
    for name in "abc":
        cores = rng.choice([4, 6, 8])
        total += cores
        quota = f"[{{name: f, resources: [{{name: cpu, nominalQuota: {cores}}}]}}]"
        out.append(
            f"{{{kueue}, kind: ClusterQueue, metadata: {{name: {name}}}, spec: {{cohortName: co,"
            f" namespaceSelector: {{}}, queueingStrategy: {rng.choice(['StrictFIFO', 'BestEffortFIFO'])},"
            f" preemption: {{reclaimWithinCohort: {rng.choice(['Any', 'LowerPriority'])},"
            f" withinClusterQueue: LowerPriority}},"
            f" resourceGroups: [{{coveredResources: [cpu], flavors: {quota}}}]}}}}"
        )
        out.append(f"{{{kueue}, kind: LocalQueue, metadata: {{name: q{name}}}, spec: {{clusterQueue: {name}}}}}")
    out += [
        f"{{{kueue}, kind: WorkloadPriorityClass, metadata: {{name: p{value}}}, value: {value}}}" for value in (1, 5, 9)
    ]
    for number in range(JOBS):
        size = rng.choice([1, 1, 2, 3])
        labels = f"kueue.x-k8s.io/queue-name: q{rng.choice('abc')}, kueue.x-k8s.io/priority-class: p{rng.choice('159')}"
        notes = (
            f"sim.gangsched.dev/arrive-after: {rng.randint(0, 60)}s,"
            f" sim.gangsched.dev/run-for: {rng.randint(10, 60)}s, sim.gangsched.dev/grace-used: 2s"
        )
        container = f"{{name: c, resources: {{requests: {{cpu: '{rng.randint(1, 3)}'}}}}}}"
        out.append(
            f"{{apiVersion: batch/v1, kind: Job, metadata: {{name: j{number:02d}, labels: {{{labels}}}}}, spec:"
            f" {{parallelism: {size}, completions: {size}, template: {{metadata: {{annotations: {{{notes}}}}}, spec:"
            f" {{schedulerName: py-gang-scheduler, restartPolicy: Never, containers: [{container}]}}}}}}}}"
        )
    return "\n---\n".join(out), total * 1000
