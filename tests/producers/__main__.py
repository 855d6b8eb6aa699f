"""`make producers`: build real controllers that make gangs, run each beside the scheduler on a real control plane, and
record what they make. ``python -m tests.producers NAME ...`` runs some of them. Takes some minutes the first time.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from dataclasses import dataclass

from tests.controlplane import binaries
from tests.producers.exclusive import exclusive_jobset_story, exclusive_lws_story
from tests.producers.jobset import jobset_story
from tests.producers.jobset_failures import failures_story
from tests.producers.kai import KAI_PACKAGE, kai_story
from tests.producers.kubeflow import mpi_story, training_story
from tests.producers.kuberay import RAY_PACKAGE, bounds_story, ray_story
from tests.producers.quota_and_groups import kueue_story, lws_story
from tests.producers.running import HERE, Story, controller, play
from tests.producers.scheduler_plugins import scheduler_plugins_story
from tests.producers.spark import spark_story
from tests.producers.trainer import trainer_story
from tests.producers.volcano import partitions_story, shapes_story, volcano_story


@dataclass(frozen=True)
class Producer:
    """A controller and what happens with it."""

    #: The folder whose go.mod pins it.
    module: str
    #: Its Go module.
    source: str
    story: Story
    #: The package of its command, in the module.
    command: str = ""


PRODUCERS = {
    "jobset": Producer("go", "sigs.k8s.io/jobset", jobset_story),
    "jobset-exclusive": Producer("go", "sigs.k8s.io/jobset", exclusive_jobset_story),
    "jobset-failures": Producer("go", "sigs.k8s.io/jobset", failures_story),
    "kai": Producer("go-kai", KAI_PACKAGE, kai_story, "/cmd/podgrouper"),
    "kuberay": Producer("go-kuberay", RAY_PACKAGE, ray_story),
    "kuberay-bounds": Producer("go-kuberay", RAY_PACKAGE, bounds_story),
    "kueue": Producer("go-kueue", "sigs.k8s.io/kueue", kueue_story, "/cmd/kueue"),
    "lws": Producer("go-lws", "sigs.k8s.io/lws", lws_story, "/cmd"),
    "lws-exclusive": Producer("go-lws", "sigs.k8s.io/lws", exclusive_lws_story, "/cmd"),
    "mpi-operator": Producer("go-mpi", "github.com/kubeflow/mpi-operator", mpi_story, "/cmd/mpi-operator"),
    "scheduler-plugins": Producer(
        "go-scheduler-plugins", "sigs.k8s.io/scheduler-plugins", scheduler_plugins_story, "/cmd/controller"
    ),
    "spark-operator": Producer("go-spark", "github.com/kubeflow/spark-operator/v2", spark_story, "/cmd/operator"),
    "trainer": Producer(
        "go-trainer", "github.com/kubeflow/trainer/v2", trainer_story, "/cmd/trainer-controller-manager"
    ),
    "training-operator": Producer(
        "go-training", "github.com/kubeflow/training-operator", training_story, "/cmd/training-operator.v1"
    ),
    "volcano": Producer("go-volcano", "volcano.sh/volcano", volcano_story, "/cmd/controller-manager"),
    "volcano-partitions": Producer("go-volcano", "volcano.sh/volcano", partitions_story, "/cmd/controller-manager"),
    "volcano-shapes": Producer("go-volcano", "volcano.sh/volcano", shapes_story, "/cmd/controller-manager"),
}


def main() -> int:
    """Build, run and record those that are named, or all; 0 on success."""
    parser = argparse.ArgumentParser(prog="python -m tests.producers", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(PRODUCERS))
    names = parser.parse_args().names or list(PRODUCERS)
    if unknown := [n for n in names if n not in PRODUCERS]:
        parser.error(f"unknown: {', '.join(unknown)}; known: {', '.join(PRODUCERS)}")
    try:
        binaries.find()
        built = {n: controller(HERE / p.module, p.source, p.command) for n in names for p in (PRODUCERS[n],)}
        for name, (binary, sources) in built.items():
            print(f"\n{name}:")
            play(PRODUCERS[name].story, binary, sources)
    except (binaries.BinariesError, subprocess.CalledProcessError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
