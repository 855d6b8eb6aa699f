"""Profiles that both schedulers are given, in the form of a KubeSchedulerConfiguration: the default one, and others."""

from __future__ import annotations

from functools import cache
from typing import Any

import yaml

from gangsched.core.options import Options
from gangsched.runtime.config import parse

DEFAULT = "sbs-scheduler"
PACKING, SHAPED = "sbs-packing", "sbs-shaped"
GPU = "example.com/gpu"

_DISK = {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]}
_ZONE, _HOSTNAME = "topology.kubernetes.io/zone", "kubernetes.io/hostname"

PROFILES: list[dict[str, Any]] = [
    {"schedulerName": DEFAULT},
    {
        "schedulerName": PACKING,
        "plugins": {
            "multiPoint": {"disabled": [{"name": "ImageLocality"}]},
            "score": {
                "disabled": [{"name": "NodeAffinity"}, {"name": "TaintToleration"}],
                "enabled": [{"name": "NodeAffinity", "weight": 5}],
            },
        },
        "pluginConfig": [
            {
                "name": "NodeResourcesFit",
                "args": {
                    "scoringStrategy": {
                        "type": "MostAllocated",
                        "resources": [
                            {"name": "cpu", "weight": 3},
                            {"name": "memory", "weight": 1},
                            {"name": GPU, "weight": 5},
                        ],
                    },
                },
            },
            {
                "name": "NodeResourcesBalancedAllocation",
                "args": {"resources": [{"name": n, "weight": 1} for n in ("cpu", "memory", GPU)]},
            },
            {"name": "InterPodAffinity", "args": {"ignorePreferredTermsOfExistingPods": True}},
        ],
    },
    {
        "schedulerName": SHAPED,
        "pluginConfig": [
            {
                "name": "NodeResourcesFit",
                "args": {
                    "scoringStrategy": {
                        "type": "RequestedToCapacityRatio",
                        "resources": [
                            {"name": "cpu", "weight": 2},
                            {"name": "memory", "weight": 1},
                            {"name": "ephemeral-storage", "weight": 1},
                        ],
                        "requestedToCapacityRatio": {
                            "shape": [
                                {"utilization": 0, "score": 1},
                                {"utilization": 60, "score": 10},
                                {"utilization": 100, "score": 3},
                            ]
                        },
                    }
                },
            },
            {
                "name": "PodTopologySpread",
                "args": {
                    "defaultingType": "List",
                    "defaultConstraints": [
                        {"maxSkew": 1, "topologyKey": _ZONE, "whenUnsatisfiable": "DoNotSchedule"},
                        {"maxSkew": 2, "topologyKey": _HOSTNAME, "whenUnsatisfiable": "ScheduleAnyway"},
                    ],
                },
            },
            {"name": "InterPodAffinity", "args": {"hardPodAffinityWeight": 40}},
            {
                "name": "NodeAffinity",
                "args": {
                    "addedAffinity": {
                        "requiredDuringSchedulingIgnoredDuringExecution": {
                            "nodeSelectorTerms": [
                                {"matchExpressions": [{"key": "disk", "operator": "Exists"}]},
                                {"matchExpressions": [{"key": _ZONE, "operator": "Exists"}]},
                            ]
                        },
                        "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 9, "preference": _DISK}],
                    }
                },
            },
        ],
    },
]

#: Half of all cases are about the default profile.
_TURNS = (DEFAULT, PACKING, DEFAULT, SHAPED)


def profile_of(case: int) -> str:
    """The schedulerName that a case is about."""
    return _TURNS[case % len(_TURNS)]


#: What kube-scheduler does without any argument.
_RANKED_ALIKE = ({"name": "NodeResourcesFit", "args": {"scoringStrategy": {"type": "LeastAllocated"}}},)


def _ranks(profile: dict[str, Any]) -> bool:
    """Does a profile say itself how nodes are ranked by their room?"""
    return any(each["name"] == "NodeResourcesFit" for each in profile.get("pluginConfig", ()))


@cache
def options(scheduler: str) -> Options:
    """What our core is told for one schedulerName; those without a profile here have the default one of kube-scheduler.

    Ours packs pods that ask for extended resources: to be compared it is told to rank them as kube-scheduler does.
    """
    known = [p for p in PROFILES if p["schedulerName"] == scheduler] or [{"schedulerName": scheduler}]
    known = [{**p, "pluginConfig": [*p.get("pluginConfig", ()), *_RANKED_ALIKE]} if not _ranks(p) else p for p in known]
    text = {"apiVersion": "gangsched.dev/v1alpha1", "kind": "GangSchedulerConfiguration", "profiles": known}
    return parse(yaml.safe_dump(text)).core_options()
