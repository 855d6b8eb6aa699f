"""Profiles: the scheduler names that a process serves, each with filters, scores, weights and arguments of its own.

What a profile comes to is worked out in :mod:`gangsched.runtime.pluginsets`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import msgspec

from gangsched.model.sections import NonEmpty, Section, doc

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

    multi_point: Annotated[MultiPointPlugins, doc("Plug-ins with all that they have, filter and score.")] = (
        MultiPointPlugins()
    )
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
    plugins: Annotated[Plugins, doc("Which filters and scores are used.")] = Plugins()
    plugin_config: Annotated[tuple[PluginConfig, ...], doc("Arguments of plug-ins.")] = ()
