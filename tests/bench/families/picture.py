"""A run as a picture: for every family how many pods leave beside the optimum, and how long the plans took."""

from __future__ import annotations

from collections.abc import Sequence

from gangsched.core.decision import PREEMPT
from tests.bench.families.judge import Finding
from tests.bench.families.others import RULES
from tests.bench.publish import svg

_MARGIN, _NAMES, _CHART, _BETWEEN = 24.0, 150.0, 330.0, 44.0
#: The first family is there, another one each so many pixels below.
_TOP, _ROW = 112.0, 20.0
_OURS, _TIME = 1, 3
_OTHERS = {"kube-scheduler": 2, "koordinator": 4}


def picture(findings: Sequence[Finding], about: str) -> str:
    """An SVG: a row for each family, a dot for each cluster. ``about`` says where and when it was measured."""
    families = list(dict.fromkeys(f.family for f in findings))
    ratios = [r for f in findings for r in _ratios(f).values()]
    times = [max(0.1, f.answer.milliseconds) for f in findings]
    left, right = _MARGIN + _NAMES, _MARGIN + _NAMES + _CHART + _BETWEEN
    bottom = _TOP + _ROW * len(families)
    more = svg.Axis(1.0, max(2.0, svg.round_up(max(ratios, default=1.0))), left, left + _CHART, logarithmic=True)
    fastest, slowest = svg.round_down(min(times)), svg.round_up(max(times))
    taken = svg.Axis(fastest, max(slowest, 10 * fastest), right, right + _CHART, logarithmic=True)
    title = "Plans on clusters with a known optimum"
    parts = [
        svg.text(_MARGIN, 32, title, "title"),
        svg.text(_MARGIN, 50, "A dot is a cluster; both axes are logarithmic.", "soft"),
        svg.legend(_MARGIN, 74, [("this scheduler", _OURS), *((f"rules of {n}", s) for n, s in _OTHERS.items())]),
        svg.text(left, _TOP - 16, "pods evicted / pods of the optimum"),
        svg.text(right, _TOP - 16, "milliseconds of CPU for a plan"),
    ]
    for axis in (more, taken):
        for tick in axis.ticks((1,)):
            x = axis.at(tick)
            parts.append(svg.line(x, _TOP - 8, x, bottom, "grid"))
            parts.append(svg.text(x, bottom + 16, svg.number(tick), "soft", "middle"))
    for n, family in enumerate(families):
        y = _TOP + _ROW * (n + 0.5)
        parts.append(svg.text(_MARGIN, y + 4, family))
        for found in (f for f in findings if f.family == family):
            parts += [_dot(more.at(r), y, _SERIES[name]) for name, r in _ratios(found).items()]
            parts.append(_dot(taken.at(max(0.1, found.answer.milliseconds)), y, _TIME))
    parts.append(svg.text(_MARGIN, bottom + 42, about, "soft"))
    return svg.document(right + _CHART + _MARGIN, bottom + 58, title, parts)


_SERIES = {**_OTHERS, "": _OURS}


def _ratios(found: Finding) -> dict[str, float]:
    """Pods that leave beside those of the optimum: by others' rules, and last, so that it is on top, ours."""
    least = max(1, found.least.pods)
    out = {name: there.victims / least for name in RULES if (there := found.others.get(name)) is not None}
    if found.answer.outcome == PREEMPT:
        out[""] = found.answer.victims / least
    return out


def _dot(x: float, y: float, series: int) -> str:
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.7" class="fill{series}" fill-opacity="0.6"/>'
