"""A gang whose claims are bound before its pods, played in simulated time."""

from __future__ import annotations

from pathlib import Path

from gangsched.cluster.manifests import load
from gangsched.cluster.sim import SimCluster, World
from gangsched.cluster.sim.arrival import arrivals
from gangsched.cluster.sim.clock import Timing
from gangsched.cluster.sim.faults import SeededFaults
from gangsched.cluster.sim.history import Entry
from gangsched.core.options import Options
from gangsched.core.scheduler import Scheduler
from gangsched.runtime.loop import run_loop

STORY = """
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Node, metadata: {name: n1, labels: {kubernetes.io/hostname: n1}},
   status: {allocatable: {cpu: "4"}}}
- {apiVersion: v1, kind: Node, metadata: {name: n2, labels: {kubernetes.io/hostname: n2}},
   status: {allocatable: {cpu: "4"}}}
- {apiVersion: storage.k8s.io/v1, kind: StorageClass, metadata: {name: local},
   provisioner: kubernetes.io/no-provisioner, volumeBindingMode: WaitForFirstConsumer}
- apiVersion: storage.k8s.io/v1
  kind: StorageClass
  metadata: {name: made, annotations: {storageclass.kubernetes.io/is-default-class: "true"}}
  provisioner: csi.example.com
  volumeBindingMode: WaitForFirstConsumer
- apiVersion: v1
  kind: PersistentVolume
  metadata: {name: disk-of-n2}
  spec:
    capacity: {storage: 10Gi}
    accessModes: [ReadWriteOnce]
    storageClassName: local
    nodeAffinity:
      required:
        nodeSelectorTerms:
        - matchExpressions: [{key: kubernetes.io/hostname, operator: In, values: [n2]}]
- apiVersion: v1
  kind: PersistentVolumeClaim
  metadata: {name: data}
  spec: {storageClassName: local, accessModes: [ReadWriteOnce], resources: {requests: {storage: 5Gi}}}
- apiVersion: v1
  kind: PersistentVolumeClaim
  metadata: {name: logs}
  spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
- apiVersion: scheduling.sigs.k8s.io/v1alpha1
  kind: PodGroup
  metadata: {name: g}
  spec: {minMember: 2}
- apiVersion: v1
  kind: Pod
  metadata: {name: m1, labels: {pod-group.scheduling.sigs.k8s.io: g}}
  spec: &member
    schedulerName: py-gang-scheduler
    priorityClassName: high
    containers: [{name: c, resources: {requests: {cpu: "3"}}}]
    volumes: [{name: d, persistentVolumeClaim: {claimName: data}}]
- apiVersion: v1
  kind: Pod
  metadata: {name: m2, labels: {pod-group.scheduling.sigs.k8s.io: g}}
  spec:
    <<: *member
    volumes:
    - {name: l, persistentVolumeClaim: {claimName: logs}}
    - name: scratch
      ephemeral:
        volumeClaimTemplate: {spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}
- {apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: high}, value: 10}
"""


def world(path: Path, seed: int | None = None, timing: Timing | None = None) -> World:
    """The cluster of the story; with a seed, writes fail now and then, before or after they took effect."""
    faults = SeededFaults(seed, before=0.15, after=0.1, watch_delay_seconds=0.5) if seed is not None else None
    return World(arrivals(load([str(path)]).events), timing=timing, faults=faults)


def live(there: World, die_at: int | None = None, *, lose_writes: bool = False) -> None:
    """One process of the scheduler, until nothing more happens, or it dies at an entry of the history."""
    cluster = SimCluster(there, until_seconds=900.0)

    def watch(entry: Entry) -> None:
        if entry.number == die_at:
            cluster.close(lose_writes=lose_writes)

    there.history.subscribe(watch)
    run_loop(Scheduler(Options(backoff_max_seconds=2.0)), cluster)
    cluster.close()


def outcome(there: World) -> tuple[dict[str, str], dict[str, str]]:
    """Where the pods are, and which volume each claim has."""
    pods = {p.name: p.node for p in there.store.pods.values()}
    return pods, {c.name: c.volume_name for c in there.store.claims()}


EXPECTED = (
    {"m1": "n2", "m2": "n1"},
    {"data": "disk-of-n2", "logs": "pvc-default-logs", "m2-scratch": "pvc-default-m2-scratch"},
)
