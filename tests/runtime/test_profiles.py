"""Profiles: which filters and scores a scheduler name has, with which weights and arguments, and what is refused."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import jsonschema
import pytest
import yaml

from gangsched.core.framework import registry
from gangsched.core.framework.registry import Plugin, PluginSet
from gangsched.core.plugins.node import ImageLocality
from gangsched.core.plugins.topology_spread import SpreadDefaults
from gangsched.model.constraints import NodeTerm, Requirement, SpreadConstraint
from gangsched.runtime import config, profiles
from gangsched.runtime.profiles import PluginConfig, Profile
from gangsched.runtime.settings import Configuration
from tests.runtime.plugin_packages import installed

HEAD = "apiVersion: gangsched.dev/v1alpha1\nkind: GangSchedulerConfiguration\n"

SOURCE = """
import msgspec
import numpy as np
from gangsched.core.plugins.base import NodeFilter

class Arguments(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    most_pods: int = 3

class Few(NodeFilter):
    name = "FewPods"
    text = "node(s) had too many pods"
    Arguments = Arguments
    def __init__(self, arguments):
        if arguments.most_pods < 0:
            raise ValueError("mostPods is negative")
        self.most = arguments.most_pods
    def applies(self, pod, sim):
        return True
    def prepare(self, pod, sim):
        return np.ones(sim.snapshot.size, dtype=bool)

class FewScore:
    name = "FewPods"
    local = True
    def applies(self, pod, sim):
        return True
    def prepare(self, pod, sim, feasible):
        return sim.snapshot.size
    def values(self, state):
        return np.zeros(state)
    def value(self, state, row):
        return 0.0

class Misnamed(Few):
    name = "Other"

class Labelled(FewScore):
    name = "Labelled"
    pod_labels = "team"
    Arguments = None

class Hinting(Few):
    name = "Hinting"
    hints = "NODE_ADDED"

class Quitting(Few):
    name = "Quitting"
    def __init__(self, args):
        raise SystemExit("no license")

class Half:
    name = "Half"
    sees_pods = True
    def applies(self, pod, sim):
        return True

something = 5
"""


@pytest.fixture(autouse=True)
def packages(tmp_path: Path) -> Iterator[None]:
    """A package with a plug-in of both kinds, and with several that are no good."""
    filters = {
        "FewPods": "made_up_plugins:Few",
        "Wrong": "made_up_plugins:Misnamed",
        "Hinting": "made_up_plugins:Hinting",
        "Half": "made_up_plugins:Half",
        "Number": "made_up_plugins:something",
        "Gone": "made_up_plugins_gone:Few",
        "Quitting": "made_up_plugins:Quitting",
        "QuittingEarly": "made_up_plugins_quitting:Few",
        "NodePorts": "made_up_plugins:Few",
    }
    scores = {"FewPods": "made_up_plugins:FewScore", "Labelled": "made_up_plugins:Labelled"}
    points = {"gangsched.filters": filters, "gangsched.scores": scores}
    with installed(tmp_path / "site", "made_up_plugins", SOURCE, points):
        (tmp_path / "site" / "made_up_plugins_quitting.py").write_text("raise SystemExit(3)")
        yield


def read(profile: str) -> PluginSet:
    """The plug-ins of the only profile, given as YAML in flow style."""
    return config.parse(f"{HEAD}profiles: [{{schedulerName: s, {profile}}}]").core_options().plugins_of("s")


def refused(profile: str) -> list[str]:
    """What people are told of a profile."""
    with pytest.raises(config.ConfigurationError) as caught:
        config.parse(f"{HEAD}profiles:\n- schedulerName: s\n  {profile}\n", "f.yaml")
    return caught.value.problems


DEFAULT = PluginSet()


def without(names: tuple[str, ...], *gone: str) -> tuple[str, ...]:
    """The names less some."""
    return tuple(name for name in names if name not in gone)


# ------------------------------------------------------------------------------------------------------- what is used


def test_weights_are_those_of_kube_scheduler() -> None:
    """The default scores have upstream's weights."""
    assert dict(DEFAULT.scores) == {
        "TaintToleration": 3,
        "NodeAffinity": 2,
        "PodTopologySpread": 2,
        "InterPodAffinity": 2,
        "NodeResourcesFit": 1,
        "NodeResourcesBalancedAllocation": 1,
        "ImageLocality": 1,
        "DynamicResources": 2,
    }


def test_a_built_in_score_may_be_off_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    """A plug-in without ``default`` is in no profile until one enables it."""
    extra = Plugin("Extra", score=lambda _: ImageLocality(), default=False)
    monkeypatch.setattr(profiles, "BUILT_IN", (*registry.BUILT_IN, extra))
    for known in (profiles._BUILT_IN, registry._BY_NAME):
        monkeypatch.setitem(known, "Extra", extra)
    assert read("plugins: {}") == DEFAULT
    assert dict(read("plugins: {score: {enabled: [{name: Extra, weight: 2}]}}").scores)["Extra"] == 2.0


def test_multipoint_switches_filter_and_score_off() -> None:
    """What is disabled at multiPoint has neither."""
    found = read("plugins: {multiPoint: {disabled: [{name: InterPodAffinity}]}}")
    assert found.filters == without(DEFAULT.filters, "InterPodAffinity")
    assert "InterPodAffinity" not in dict(found.scores)


def test_one_extension_point_leaves_the_other_alone() -> None:
    """A filter that is off keeps its score, and the other way round."""
    found = read("plugins: {filter: {disabled: [{name: TaintToleration}]}, score: {disabled: [{name: NodeAffinity}]}}")
    assert found.filters == without(DEFAULT.filters, "TaintToleration")
    assert dict(found.scores) == {k: v for k, v in DEFAULT.scores if k != "NodeAffinity"}


def test_a_weight_of_one_point_goes_over_multipoint() -> None:
    """score.enabled says more than multiPoint.enabled, which says more than the default."""
    text = "plugins: {multiPoint: {enabled: [{name: NodeAffinity, weight: 7}, {name: ImageLocality, weight: 8}]}, "
    found = dict(read(text + "score: {enabled: [{name: NodeAffinity, weight: 9}]}}").scores)
    assert (found["NodeAffinity"], found["ImageLocality"], found["TaintToleration"]) == (9.0, 8.0, 3.0)


def test_a_star_leaves_what_is_enabled_beside_it() -> None:
    """Scores: only those by name. Filters: those by name, and those that nothing can replace."""
    text = "plugins: {score: {disabled: [{name: '*'}], enabled: [{name: NodeAffinity}]}, "
    found = read(text + "filter: {disabled: [{name: '*'}], enabled: [{name: NodePorts}]}}")
    assert found.scores == (("NodeAffinity", 1.0),)
    assert set(found.filters) == {"NodePorts", "NodeGoing", "NodeResourcesFit", "VolumeBinding", "DynamicResources"}


def test_a_star_at_multipoint_is_for_both() -> None:
    """MultiPoint with a star and nothing else leaves no score at all."""
    found = read("plugins: {multiPoint: {disabled: [{name: '*'}]}}")
    assert found.scores == ()
    assert "NodeResourcesFit" in found.filters
    assert "TaintToleration" not in found.filters


def test_what_cannot_be_switched_off_may_be_moved() -> None:
    """Disabling at multiPoint and enabling as a filter is kube-scheduler's way to drop a score alone."""
    text = (
        "plugins: {multiPoint: {disabled: [{name: NodeResourcesFit}]}, filter: {enabled: [{name: NodeResourcesFit}]}}"
    )
    found = read(text)
    assert "NodeResourcesFit" in found.filters
    assert "NodeResourcesFit" not in dict(found.scores)


def test_plugins_of_others_come_last() -> None:
    """A plug-in of an installed package is used with filter and score, at the end, once it is enabled by name."""
    found = read("plugins: {multiPoint: {enabled: [{name: FewPods, weight: 4}]}}")
    assert found.filters == (*DEFAULT.filters, "FewPods")
    assert dict(found.scores)["FewPods"] == 4.0
    assert [p.name for p in found.foreign] == ["FewPods"]


def test_one_kind_of_a_plugin_alone() -> None:
    """filter.enabled takes the filter without the score."""
    found = read("plugins: {filter: {enabled: [{name: FewPods}]}}")
    assert "FewPods" in found.filters
    assert "FewPods" not in dict(found.scores)


def test_plugins_of_others_get_their_arguments() -> None:
    """Args are read into the struct of the plug-in; without any it gets its defaults."""
    found = read(
        "plugins: {filter: {enabled: [{name: FewPods}]}}, pluginConfig: [{name: FewPods, args: {mostPods: 9}}]"
    )
    assert found.arguments_of("FewPods").most_pods == 9
    assert read("plugins: {filter: {enabled: [{name: FewPods}]}}").arguments_of("FewPods").most_pods == 3


def test_equal_profiles_are_equal() -> None:
    """Two profiles with the same plug-ins of others can share everything that is made from them."""
    text = "plugins: {filter: {enabled: [{name: FewPods}]}}"
    assert read(text) == read(text)


def test_names_of_others_never_replace_built_in_ones() -> None:
    """An entry point with the name of a built-in plug-in is not looked at."""
    assert read("plugins: {filter: {enabled: [{name: NodePorts}]}}").foreign == ()


# ---------------------------------------------------------------------------------------------------------- arguments

CONFIGURED = {
    "fit": (
        """{name: NodeResourcesFit, args: {ignoredResources: [example.com/a], ignoredResourceGroups: [example.org],
        scoringStrategy: {type: RequestedToCapacityRatio, resources: [{name: nvidia.com/gpu, weight: 5}, {name: cpu}],
        requestedToCapacityRatio: {shape: [{utilization: 0, score: 0}, {utilization: 100, score: 10}]}}}}""",
        {
            "ignored_resources": ("example.com/a",),
            "ignored_resource_groups": ("example.org",),
            "weights": (("nvidia.com/gpu", 5), ("cpu", 1)),
            "shape": ((0, 0), (100, 10)),
        },
    ),
    "balance": (
        "{name: NodeResourcesBalancedAllocation, args: {resources: [{name: cpu}, {name: nvidia.com/gpu, weight: 1}]}}",
        {"names": ("cpu", "nvidia.com/gpu")},
    ),
    "node affinity": (
        """{name: NodeAffinity, args: {addedAffinity: {requiredDuringSchedulingIgnoredDuringExecution:
        {nodeSelectorTerms: [{matchExpressions: [{key: pool, operator: In, values: [batch]}]}]},
        preferredDuringSchedulingIgnoredDuringExecution:
        [{weight: 3, preference: {matchExpressions: [{key: spot, operator: Exists}]}}]}}}""",
        {
            "required": (NodeTerm((Requirement("pool", "In", ("batch",)),)),),
            "preferred": ((3, NodeTerm((Requirement("spot", "Exists"),))),),
        },
    ),
    "pod affinity": (
        "{name: InterPodAffinity, args: {hardPodAffinityWeight: 0, ignorePreferredTermsOfExistingPods: true}}",
        {"hard_pod_affinity_weight": 0, "ignore_preferred_terms_of_existing_pods": True},
    ),
    "spread": (
        """{name: PodTopologySpread, args: {defaultingType: List, defaultConstraints: [{maxSkew: 2, topologyKey: rack,
        whenUnsatisfiable: DoNotSchedule, minDomains: 3, nodeTaintsPolicy: Honor}]}}""",
        {"defaults": SpreadDefaults("List", (SpreadConstraint("rack", 2, None, True, 3, honor_taints=True),))},
    ),
}


@pytest.mark.parametrize(("text", "expected"), CONFIGURED.values(), ids=CONFIGURED.keys())
def test_arguments_reach_the_core(text: str, expected: dict[str, object]) -> None:
    """The arguments of each plug-in mean what they mean to kube-scheduler, and are valid under the JSON Schema."""
    found = read(f"pluginConfig: [{text}]")
    [(_, given)] = found.arguments
    assert {name: getattr(given, name) for name in expected} == expected
    written = yaml.safe_load(f"{HEAD}profiles: [{{pluginConfig: [{text}]}}]")
    jsonschema.validate(written, config.schema(), cls=jsonschema.Draft202012Validator)


def test_the_schema_knows_the_arguments() -> None:
    """A wrong argument of a built-in plug-in is found by editors that know the schema."""
    written = yaml.safe_load(f"{HEAD}profiles: [{{pluginConfig: [{{name: InterPodAffinity, args: {{hard: 1}}}}]}}]")
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(written, config.schema(), cls=jsonschema.Draft202012Validator)


# ----------------------------------------------------------------------------------------------------- what is refused

FIT = "pluginConfig: [{name: NodeResourcesFit, args: %s}]"
AT = "f.yaml:5: profiles[0]."
BELOW = "f.yaml:6: profiles[0]."
REFUSED = {
    "unknown name": (
        "plugins: {filter: {enabled: [{name: nodeports}]}}",
        AT + "plugins.filter.enabled[0].name: unknown plug-in nodeports; did you mean NodePorts?",
    ),
    "unknown name, near to one of others": (
        "plugins: {score: {enabled: [{name: FewPod}]}}",
        AT + "plugins.score.enabled[0].name: unknown plug-in FewPod; did you mean FewPods?",
    ),
    "unknown name, disabled": (
        "plugins: {multiPoint: {disabled: [{name: ImageLocalty}]}}",
        AT + "plugins.multiPoint.disabled[0].name: unknown plug-in ImageLocalty; did you mean ImageLocality?",
    ),
    "part of the scheduler": (
        "plugins: {multiPoint: {disabled: [{name: DefaultPreemption}]}}",
        AT + "plugins.multiPoint.disabled[0].name: DefaultPreemption is a part of this scheduler and no plug-in of it",
    ),
    "no filter": (
        "plugins: {filter: {enabled: [{name: ImageLocality}]}}",
        AT + "plugins.filter.enabled[0].name: ImageLocality has no filter, only a score",
    ),
    "no score": (
        "plugins: {score: {enabled: [{name: NodePorts}]}}",
        AT + "plugins.score.enabled[0].name: NodePorts has no score, only a filter",
    ),
    "indispensable": (
        "plugins: {multiPoint: {disabled: [{name: NodeResourcesFit}]}}",
        AT + "plugins.multiPoint.disabled[0].name: NodeResourcesFit cannot be switched off: plans for gangs and for"
        " preemption count free resources; its score is switched off in plugins.score.disabled",
    ),
    "indispensable as a filter": (
        "plugins: {filter: {disabled: [{name: NodeGoing}]}}",
        AT + "plugins.filter.disabled[0].name: NodeGoing cannot be switched off: a pod that is bound to a node that is"
        " being deleted is lost",
    ),
    "weight of a filter": (
        "plugins: {filter: {enabled: [{name: NodePorts, weight: 2}]}}",
        AT + "plugins.filter.enabled[0].weight: unknown key; known are name",
    ),
    "extension point of kube-scheduler": (
        "plugins: {preFilter: {}}",
        AT + "plugins.preFilter: unknown key; did you mean filter?",
    ),
    "misnamed": (
        "plugins: {filter: {enabled: [{name: Wrong}]}}",
        AT + "plugins.filter.enabled[0].name: plug-in Wrong cannot be used: made_up_plugins:Misnamed is named 'Other',"
        " its entry point 'Wrong'",
    ),
    "methods missing": (
        "plugins: {filter: {enabled: [{name: Half}]}}",
        AT + "plugins.filter.enabled[0].name: plug-in Half cannot be used: made_up_plugins:Half has no method prepare,"
        " mask, failures, apply",
    ),
    "no class": (
        "plugins: {filter: {enabled: [{name: Number}]}}",
        AT + "plugins.filter.enabled[0].name: plug-in Number cannot be used: made_up_plugins:something is no class",
    ),
    "cannot be imported": (
        "plugins: {filter: {enabled: [{name: Gone}]}}",
        AT + "plugins.filter.enabled[0].name: plug-in Gone cannot be used: made_up_plugins_gone:Few cannot be imported:"
        " ModuleNotFoundError: No module named 'made_up_plugins_gone'",
    ),
    "ends the process when imported": (
        "plugins: {filter: {enabled: [{name: QuittingEarly}]}}",
        AT + "plugins.filter.enabled[0].name: plug-in QuittingEarly cannot be used: made_up_plugins_quitting:Few cannot"
        " be imported: SystemExit: 3",
    ),
    "ends the process when made": (
        "plugins: {filter: {enabled: [{name: Quitting}]}}",
        AT + "plugins: plug-in Quitting cannot be made: SystemExit: no license",
    ),
    "cannot be made": (
        "plugins: {filter: {enabled: [{name: FewPods}]}}\n  pluginConfig: [{name: FewPods, args: {mostPods: -1}}]",
        BELOW + "pluginConfig[0].args: plug-in FewPods cannot be made: ValueError: mostPods is negative",
    ),
    "hints of a wrong type": (
        "plugins: {filter: {enabled: [{name: Hinting}]}}",
        AT + "plugins: plug-in Hinting cannot be made: TypeError: hints of plug-in Hinting must be a Hint,"
        " not 'NODE_ADDED'",
    ),
    "labels of a wrong type": (
        "plugins: {score: {enabled: [{name: Labelled}]}}",
        AT + "plugins: plug-in Labelled cannot be made: TypeError: pod_labels of plug-in Labelled must be a tuple of"
        " label keys, not 'team'",
    ),
    "arguments of a plug-in that is off": (
        "pluginConfig: [{name: FewPods, args: {mostPods: 1}}]",
        AT + "pluginConfig[0].name: FewPods has arguments but is not enabled",
    ),
    "unknown argument of others": (
        "plugins: {filter: {enabled: [{name: FewPods}]}}\n  pluginConfig: [{name: FewPods, args: {mostpods: 1}}]",
        BELOW + "pluginConfig[0].args.mostpods: unknown key; did you mean mostPods?",
    ),
    "wrong argument of others": (
        "plugins: {filter: {enabled: [{name: FewPods}]}}\n  pluginConfig: [{name: FewPods, args: {mostPods: a}}]",
        BELOW + "pluginConfig[0].args.mostPods: Expected int, got str",
    ),
    "unknown argument": (FIT % "{strategy: 1}", AT + "pluginConfig[0].args.strategy: unknown key; did you mean"),
    "wrong argument": (
        FIT % "{scoringStrategy: {type: Least}}",
        AT + "pluginConfig[0].args.scoringStrategy.type: must be one of LeastAllocated, MostAllocated,"
        ' PackExtendedResources, RequestedToCapacityRatio, not "Least"',
    ),
    "arguments of one that takes none": (
        "pluginConfig: [{name: NodePorts, args: {a: 1}}]",
        AT + "pluginConfig[0].args: NodePorts takes no arguments",
    ),
    "argument that is a setting": (
        "pluginConfig: [{name: VolumeBinding, args: {bindTimeoutSeconds: 60}}]",
        AT + "pluginConfig[0].args: VolumeBinding takes no arguments; the timeout is volumes.bindTimeout",
    ),
    "configured twice": (
        "pluginConfig: [{name: NodeAffinity}, {name: NodeAffinity}]",
        AT + "pluginConfig[1].name: NodeAffinity is configured twice",
    ),
    "native resource ignored": (
        FIT % "{ignoredResources: [cpu]}",
        AT
        + "pluginConfig[0].args.ignoredResources[0]: cpu is always looked at; only extended resources can be ignored",
    ),
    "group with a slash": (
        FIT % "{ignoredResourceGroups: [example.com/a]}",
        AT + "pluginConfig[0].args.ignoredResourceGroups[0]: example.com/a is no group: it contains a /",
    ),
    "resource twice": (
        FIT % "{scoringStrategy: {resources: [{name: cpu}, {name: cpu}]}}",
        AT + "pluginConfig[0].args.scoringStrategy.resources[1].name: cpu is listed twice",
    ),
    "no shape": (
        FIT % "{scoringStrategy: {type: RequestedToCapacityRatio}}",
        AT
        + "pluginConfig[0].args.scoringStrategy.requestedToCapacityRatio: type RequestedToCapacityRatio needs a shape"
        " of at least one point",
    ),
    "shape that goes back": (
        FIT % "{scoringStrategy: {type: RequestedToCapacityRatio, requestedToCapacityRatio: {shape:"
        " [{utilization: 9, score: 1}, {utilization: 9, score: 2}]}}}",
        AT + "pluginConfig[0].args.scoringStrategy.requestedToCapacityRatio.shape[1].utilization: must be larger than"
        " that of the point before",
    ),
    "shape for another type": (
        FIT % "{scoringStrategy: {requestedToCapacityRatio: {shape: [{utilization: 9, score: 1}]}}}",
        AT + "pluginConfig[0].args.scoringStrategy.requestedToCapacityRatio: is for type RequestedToCapacityRatio, not"
        " PackExtendedResources",
    ),
    "balance with weights": (
        "pluginConfig: [{name: NodeResourcesBalancedAllocation, args: {resources: [{name: cpu, weight: 2}]}}]",
        AT + "pluginConfig[0].args.resources[0].weight: must be 1, not 2",
    ),
    "no term": (
        (
            "pluginConfig: [{name: NodeAffinity, args: {addedAffinity: {requiredDuringSchedulingIgnoredDuringExecution:"
            " {nodeSelectorTerms: []}}}}]"
        ),
        AT + "pluginConfig[0].args.addedAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms: must"
        " have at least 1 item",
    ),
    "term without a value": (
        (
            "pluginConfig: [{name: NodeAffinity, args: {addedAffinity: {requiredDuringSchedulingIgnoredDuringExecution:"
            " {nodeSelectorTerms: [{matchExpressions: [{key: a, operator: In}]}]}}}}]"
        ),
        AT + "pluginConfig[0].args.addedAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0]"
        ".matchExpressions[0].values: operator In needs at least one value",
    ),
    "constraints without List": (
        (
            "pluginConfig: [{name: PodTopologySpread, args: {defaultConstraints: [{maxSkew: 1, topologyKey: a,"
            " whenUnsatisfiable: ScheduleAnyway}]}}]"
        ),
        AT + "pluginConfig[0].args.defaultingType: must be List when there are defaultConstraints",
    ),
}


@pytest.mark.parametrize(("text", "message"), REFUSED.values(), ids=REFUSED.keys())
def test_refused(text: str, message: str) -> None:
    """Each mistake is refused with file, line, path and what would be right."""
    (problem,) = refused(text)
    assert problem.startswith(message)


# --------------------------------------------------------------------------------------------------- scheduler names


def test_names_of_the_command_line_keep_their_profiles() -> None:
    """--scheduler-name picks profiles; a name that is none gets the plug-ins of the first one."""
    text = "profiles: [{schedulerName: a, plugins: {score: {disabled: [{name: '*'}]}}}, {schedulerName: b}]"
    options = config.parse(HEAD + text).serving(["c", "b"]).core_options()
    assert options.scheduler_names == ("c", "b")
    assert (options.plugins_of("c").scores, options.plugins_of("b")) == ((), DEFAULT)


def test_the_name_of_kube_scheduler_is_legal() -> None:
    """A profile may be called default-scheduler: the process then stands in for kube-scheduler."""
    options = config.parse(f"{HEAD}profiles: [{{schedulerName: default-scheduler}}, {{}}]").core_options()
    assert options.scheduler_names == ("default-scheduler", "py-gang-scheduler")


def test_bad_profiles_made_in_code_are_errors() -> None:
    """Whoever builds a configuration without the reader gets the same words."""
    profile = Profile(plugin_config=(PluginConfig(name="NodePort"),))
    with pytest.raises(ValueError, match="did you mean NodePorts"):
        Configuration(profiles=(profile,)).core_options()
