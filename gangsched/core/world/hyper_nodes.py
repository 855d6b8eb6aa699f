"""HyperNodes as labels of nodes: in which domain of each tier a node is."""

from __future__ import annotations

import re
from collections.abc import Iterable

import msgspec

from gangsched.model.records import TIER, TIER_NAME, HyperMember, HyperNode, Labels, Node
from gangsched.model.selectors import selector_matches

#: Domains are not followed through more levels than this: they may be in each other by mistake.
_DEEPEST = 16


class HyperNodes:
    """The tree of domains. Whoever changes it has the nodes :meth:`labelled` anew, if ``changed``."""

    def __init__(self) -> None:
        self.changed = False
        self._domains: dict[str, HyperNode] = {}
        # By the kind of their members (HyperNodes or nodes): domains by a member's name, and those to be asked.
        self._by_name: dict[bool, dict[str, list[HyperNode]]] = {}
        self._others: dict[bool, list[tuple[HyperMember, HyperNode]]] = {}

    def __bool__(self) -> bool:
        return bool(self._domains)

    def put(self, name: str, domain: HyperNode | None) -> None:
        """A domain is this from now on, or is no more."""
        if self._domains.get(name) == domain:
            return
        self._domains.pop(name, None)
        if domain is not None:
            self._domains[name] = domain
        self.changed = True
        self._by_name.clear()

    def labelled(self, node: Node) -> Node:
        """The node with the domain that it is in of each tier, the first by name; a tier in which it has none of its
        own is that below it.
        """
        if not self._by_name:
            self._index()
        own = {key: value for key, value in node.labels.items() if not key.startswith((TIER, TIER_NAME))}
        found: dict[int, HyperNode] = {}
        inside = self._with_member(False, node.name, own)
        for _ in range(_DEEPEST):
            for each in inside:
                found.setdefault(each.tier, each)
            above = {d.name: d for each in inside for d in self._with_member(True, each.name, {})}
            inside = [above[name] for name in sorted(above)]
        tiers = dict[str, str]()
        for tier in range(max((d.tier for d in self._domains.values()), default=0) + 1 if found else 0):
            below = tiers.get(f"{TIER}{tier - 1}", "")
            tiers[f"{TIER}{tier}"] = found[tier].name if tier in found else below
        tiers |= {TIER_NAME + each.tier_name: each.name for each in found.values() if each.tier_name}
        now: Labels = {**own, **{key: name for key, name in tiers.items() if name}}
        return node if now == node.labels else msgspec.structs.replace(node, labels=now)

    def _index(self) -> None:
        self._by_name, self._others = {False: {}, True: {}}, {False: [], True: []}
        for _, domain in sorted(self._domains.items()):
            for each in domain.members:
                if each.name:
                    self._by_name[each.hyper].setdefault(each.name, []).append(domain)
                else:
                    self._others[each.hyper].append((each, domain))

    def _with_member(self, hyper: bool, name: str, labels: Labels) -> Iterable[HyperNode]:
        """The domains that have a member of this name and these labels, by name."""
        found = {domain.name: domain for domain in self._by_name[hyper].get(name, ())}
        for member, domain in self._others[hyper]:
            if (member.pattern and re.fullmatch(member.pattern, name)) or selector_matches(member.selector, labels):
                found[domain.name] = domain
        return [found[key] for key in sorted(found)]
