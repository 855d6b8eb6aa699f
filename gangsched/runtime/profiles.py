"""Profiles: the scheduler names that a process serves, each with filters, scores, weights and arguments of its own; and
what a profile comes to.

Enabling, disabling and ``multiPoint`` follow kube-scheduler
(https://kubernetes.io/docs/reference/scheduling/config/#multipoint). Settings of one extension point override
multiPoint, and settings of a plug-in override its default.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Annotated, Any, Literal

import msgspec

from gangsched.core.framework.arguments import ARGUMENTS
from gangsched.core.framework.registry import BUILT_IN, GuardedFilter, GuardedScore, Plugin, PluginSet
from gangsched.messages import invalid
from gangsched.messages.text import nearest
from gangsched.model.sections import NonEmpty, Section, doc
from gangsched.runtime import entrypoints

#: Names of other schedulers, and the Leases that they renew as they are usually installed.
FORMER_LEASES: Mapping[str, tuple[str, ...]] = {
    "volcano": ("volcano-system/volcano",),
    "kai-scheduler": ("kai-scheduler/kai-scheduler",),
    "scheduler-plugins-scheduler": ("scheduler-plugins/scheduler-plugins-scheduler",),
    "koord-scheduler": ("koordinator-system/koord-scheduler",),
    "default-scheduler": ("kube-system/kube-scheduler",),
    "yunikorn": (),
}


class PluginName(Section, frozen=True, kw_only=True):
    """A plug-in."""

    name: Annotated[NonEmpty, doc("Name of the plug-in.")]


class DisabledPlugin(Section, frozen=True, kw_only=True):
    """A plug-in that is switched off."""

    name: Annotated[NonEmpty, doc("Name of the plug-in; * stands for all that are on by default.")]


class WeightedPlugin(Section, frozen=True, kw_only=True):
    """A plug-in and the weight of its score."""

    name: Annotated[NonEmpty, doc("Name of the plug-in.")]
    weight: Annotated[float, doc("How much its score counts.", ge=0.0, le=1000.0)] = 1.0


class FilterPlugins(Section, frozen=True, kw_only=True):
    """Filters refuse nodes."""

    enabled: Annotated[tuple[PluginName, ...], doc("Filters to use beside the default ones, asked after them.")] = ()
    disabled: Annotated[tuple[DisabledPlugin, ...], doc("Filters not to use, unless they are in enabled as well.")] = ()


class ScorePlugins(Section, frozen=True, kw_only=True):
    """Scores rank the nodes that passed all filters."""

    enabled: Annotated[
        tuple[WeightedPlugin, ...], doc("Scores to use beside the default ones, or with a weight of their own.")
    ] = ()
    disabled: Annotated[
        tuple[DisabledPlugin, ...], doc("Scores that do not count, unless they are in enabled as well.")
    ] = ()


class MultiPointPlugins(Section, frozen=True, kw_only=True):
    """Plug-ins with all that they have, filter and score."""

    enabled: Annotated[
        tuple[WeightedPlugin, ...], doc("Plug-ins whose filter and score are used; those of the default are anyway.")
    ] = ()
    disabled: Annotated[
        tuple[DisabledPlugin, ...], doc("Plug-ins of which neither filter nor score is used by default.")
    ] = ()


class Plugins(Section, frozen=True, kw_only=True):
    """The extension points that can be changed."""

    multi_point: MultiPointPlugins = MultiPointPlugins()
    filter: Annotated[FilterPlugins, doc("Filters refuse nodes. Overrides multiPoint.")] = FilterPlugins()
    score: Annotated[ScorePlugins, doc("Scores rank the nodes that passed all filters. Overrides multiPoint.")] = (
        ScorePlugins()
    )


class PluginConfig(Section, frozen=True, kw_only=True):
    """Arguments of one plug-in."""

    name: Annotated[NonEmpty, doc("Name of the plug-in.")]
    args: Annotated[dict[str, Any], doc("Its arguments, for its filter and its score.")] = msgspec.field(
        default_factory=dict
    )


class Profile(Section, frozen=True, kw_only=True):
    """One scheduler name that this process serves."""

    scheduler_name: Annotated[
        str, doc("Pods whose spec.schedulerName is this one are ours.", min_length=1, max_length=253)
    ] = "py-gang-scheduler"
    former_leases: Annotated[
        tuple[NonEmpty, ...],
        doc(
            """Leases (namespace/name) of the scheduler that had this name before. While one of them is renewed its pods
            are left alone. Empty: those that are known of this name."""
        ),
    ] = ()
    trust_group_priority: Annotated[
        Literal["auto", "always", "never"],
        doc(
            """Whether a gang has the priority of its group: the priority of a PodGroup of scheduling.k8s.io, or the
            PriorityClass that a group of Volcano or KAI names. No ResourceQuota restricts it, so every user who may
            create groups then has every priority. Where it is not trusted, a group can lower the priority of its pods
            and never raise it. auto: only for the scheduler names volcano and kai-scheduler, whose users had that
            power before."""
        ),
    ] = "auto"
    plugins: Annotated[Plugins, doc("Which filters and scores are used.")] = Plugins()
    plugin_config: Annotated[tuple[PluginConfig, ...], doc("Arguments of plug-ins.")] = ()


#: Plug-ins of kube-scheduler that are parts of this scheduler which cannot be exchanged.
_PARTS = ("SchedulingGates", "PrioritySort", "DefaultPreemption", "DefaultBinder", "GangScheduling")
#: Arguments of plug-ins of kube-scheduler that are settings elsewhere here, because they are not by profile.
_ELSEWHERE = {"VolumeBinding": invalid.AND_BIND_TIMEOUT}
_BUILT_IN = {plugin.name: plugin for plugin in BUILT_IN}
_ALL = "*"


def plugin_set(profile: Profile) -> PluginSet:
    """The core's settings for a profile. Raises ValueError where :func:`plugin_problems` finds fault."""
    reader = _Reader(profile)
    found = reader.read()
    if reader.problems:
        raise ValueError("; ".join(f"{path}: {text}" for path, text in reader.problems))
    return found


def plugin_problems(profile: Profile) -> list[tuple[str, str]]:
    """``(path below the profile, text)``: all that is wrong with it. Imports the plug-ins of others that it enables."""
    reader = _Reader(profile)
    reader.read()
    return reader.problems


class _Reader:
    """Reads one profile; collects what is wrong with it."""

    def __init__(self, profile: Profile) -> None:
        self.profile = profile
        self.problems: list[tuple[str, str]] = []
        self._foreign: dict[str, entrypoints.Foreign] = {}

    @cached_property
    def _installed(self) -> list[str]:
        """Names of the plug-ins of others; looking through all installed packages takes a while."""
        return entrypoints.installed()

    def read(self) -> PluginSet:
        plugins = self.profile.plugins
        for point, section in (
            ("multiPoint", plugins.multi_point),
            ("filter", plugins.filter),
            ("score", plugins.score),
        ):
            self._check_enabled(f"plugins.{point}.enabled", [plugin.name for plugin in section.enabled])
            self._check_disabled(point, [plugin.name for plugin in section.disabled])
        multi = _merged(plugins.multi_point)
        filters = _expanded(multi, plugins.filter, [n for n in multi if self._has(n, "filters")])
        missing = [p.name for p in BUILT_IN if p.indispensable and p.name not in filters]
        names = [name for name in (*filters, *missing) if self._has(name, "filters")]
        scores = _expanded(multi, plugins.score, [n for n in multi if self._has(n, "score")])
        weights = [(name, weight) for name, weight in scores.items() if self._has(name, "score")]
        used = {*names, *(name for name, _ in weights)}
        return self._made(
            PluginSet(
                filters=tuple(names),
                scores=tuple(weights),
                arguments=tuple(self._arguments(used)),
                foreign=tuple(f.plugin for name, f in sorted(self._foreign.items()) if name in used),
            )
        )

    # -- names ---------------------------------------------------------------------------------------------

    def _known(self, name: str) -> Plugin | None:
        found = self._foreign.get(name)
        return found.plugin if found is not None else _BUILT_IN.get(name)

    def _has(self, name: str, what: str) -> bool:
        plugin = self._known(name)
        return plugin is not None and getattr(plugin, what) is not None

    def _check_enabled(self, path: str, names: Sequence[str]) -> None:
        for index, name in enumerate(names):
            at = f"{path}[{index}].name"
            if name in names[:index]:
                self.problems.append((at, invalid.listed_twice(name=name)))
                continue
            if name not in _BUILT_IN and name not in self._foreign:
                self._load(at, name)
            plugin = self._known(name)
            if plugin is None:
                continue
            if ".filter." in path and plugin.filters is None:
                self.problems.append((at, invalid.only_a_score(name=name)))
            if ".score." in path and plugin.score is None:
                self.problems.append((at, invalid.only_a_filter(name=name)))

    def _load(self, path: str, name: str) -> None:
        """Import a plug-in of others."""
        try:
            found = entrypoints.load(name)
        except entrypoints.LoadError as error:
            self.problems.append((path, invalid.plugin_unusable(name=name, error=error)))
            return
        if found is None:
            self.problems.append((path, self._unknown(name)))
        else:
            self._foreign[name] = found

    def _unknown(self, name: str) -> str:
        if name in _PARTS:
            return invalid.no_plugin(name=name)
        return invalid.unknown_plugin(name=name, hint=nearest(name, [*_BUILT_IN, *self._installed]))

    def _check_disabled(self, point: str, names: Sequence[str]) -> None:
        plugins = self.profile.plugins
        kept = {plugin.name for plugin in plugins.filter.enabled}
        if point == "multiPoint":
            kept.update(plugin.name for plugin in plugins.multi_point.enabled)
        for index, name in enumerate(names):
            path = f"plugins.{point}.disabled[{index}].name"
            plugin = self._known(name)
            if name != _ALL and plugin is None and name not in self._installed:
                self.problems.append((path, self._unknown(name)))
            elif plugin is not None and plugin.indispensable and point != "score" and name not in kept:
                instead = invalid.AND_SCORE_DISABLED if plugin.score is not None else ""
                self.problems.append(
                    (path, invalid.indispensable(name=name, indispensable=plugin.indispensable, instead=instead))
                )

    # -- arguments -----------------------------------------------------------------------------------------

    def _arguments(self, used: set[str]) -> Iterator[tuple[str, Any]]:
        """The arguments that are not the default, in the order of the names."""
        given: dict[str, Any] = {}
        for index, config in enumerate(self.profile.plugin_config):
            path = f"pluginConfig[{index}]"
            if config.name in given:
                self.problems.append((f"{path}.name", invalid.configured_twice(plugin=config.name)))
            elif config.name in _BUILT_IN:
                given[config.name] = self._built_in(config, path)
            elif config.name in self._foreign:
                given[config.name] = self._of_others(config, path)
            elif config.name in self._installed:
                self.problems.append((f"{path}.name", invalid.not_enabled(plugin=config.name)))
            else:
                self.problems.append((f"{path}.name", self._unknown(config.name)))
        for name in sorted(self._foreign):
            if name not in given and self._foreign[name].arguments is not None:
                given[name] = self._of_others(PluginConfig(name=name), "pluginConfig")
        for name, value in sorted(given.items()):
            if name in used and value is not None and value != self._default(name):
                yield name, value

    def _default(self, name: str) -> Any:
        plugin = self._known(name)
        return plugin.arguments if plugin is not None else None

    def _built_in(self, config: PluginConfig, path: str) -> Any:
        kind = ARGUMENTS.get(config.name)
        if kind is None:
            if config.args:
                hint = _ELSEWHERE.get(config.name, "")
                self.problems.append((f"{path}.args", invalid.takes_no_arguments(plugin=config.name) + hint))
            return None
        try:
            arguments = msgspec.convert(config.args, kind)
        except msgspec.ValidationError as error:
            self.problems.append(_converted(error, path))
            return None
        found = list(arguments.problems())
        self.problems += [(f"{path}.args.{below}", text) for below, text in found]
        return None if found else arguments

    def _of_others(self, config: PluginConfig, path: str) -> Any:
        kind = self._foreign[config.name].arguments
        if kind is None:
            if config.args:
                self.problems.append((f"{path}.args", invalid.takes_no_arguments(plugin=config.name)))
            return None
        fields = {field.encode_name for field in msgspec.structs.fields(kind)}
        strange = [key for key in config.args if key not in fields]
        if strange:
            self.problems += [
                (f"{path}.args.{k}", invalid.unknown_key(hint=nearest(k, sorted(fields)))) for k in strange
            ]
            return None
        try:
            return msgspec.convert(config.args, kind)
        except msgspec.ValidationError as error:
            self.problems.append(_converted(error, path))
        return None

    def _made(self, found: PluginSet) -> PluginSet:
        """The same; plug-ins of others that cannot be made, or have attributes of a wrong type, are problems."""
        if self.problems:
            return found
        for plugin in found.foreign:
            try:
                if plugin.filters is not None and plugin.name in found.filters:
                    for rule in plugin.filters(found.arguments_of(plugin.name)):
                        GuardedFilter(rule)
                if plugin.score is not None and plugin.name in dict(found.scores):
                    GuardedScore(plugin.score(found.arguments_of(plugin.name)))
            except (Exception, SystemExit) as error:  # noqa: BLE001 - constructors of others may raise anything
                text = invalid.plugin_cannot_be_made(plugin=plugin.name, kind=type(error).__name__, error=error)
                self.problems.append((self._where(plugin.name), text))
        return found

    def _where(self, name: str) -> str:
        """The place that says what the plug-in is made with, or that it is used."""
        for index, config in enumerate(self.profile.plugin_config):
            if config.name == name:
                return f"pluginConfig[{index}].args"
        return "plugins"


def _converted(error: msgspec.ValidationError, path: str) -> tuple[str, str]:
    """``(path, text)`` of an error of the decoder."""
    text, _, below = str(error).partition(" - at `$")
    return f"{path}.args{below.rstrip('`')}", text.replace("`", "")


def _merged(given: MultiPointPlugins) -> dict[str, float]:
    """The plug-ins of multiPoint with their weights: the default ones, less those disabled, then those enabled."""
    off = {plugin.name for plugin in given.disabled}
    enabled = {plugin.name: plugin.weight for plugin in given.enabled}
    found: dict[str, float] = {}
    if _ALL not in off:
        for plugin in BUILT_IN:
            if plugin.default and plugin.name not in off:
                found[plugin.name] = enabled.get(plugin.name, plugin.weight)
    return {**found, **{name: weight for name, weight in enabled.items() if name not in found}}


def _expanded(
    multi: dict[str, float], given: FilterPlugins | ScorePlugins, candidates: Iterable[str]
) -> dict[str, float]:
    """Return the plug-ins of one extension point with their weights, in this order: those of multiPoint that are
    enabled here again, the others of multiPoint, the others that are enabled here.
    """
    off = {plugin.name for plugin in given.disabled}
    own = {plugin.name: getattr(plugin, "weight", 1.0) for plugin in given.enabled}
    if _ALL in off:
        return own
    inherited = [name for name in candidates if name in own or name not in off]
    again = {name: weight for name, weight in own.items() if name in inherited}
    rest = {name: multi[name] for name in inherited if name not in own}
    return {**again, **rest, **{name: weight for name, weight in own.items() if name not in inherited}}
