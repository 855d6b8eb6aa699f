"""What should not stand on a pod any more: what is wanted beside what has been asked for and what is seen. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from gangsched.model.records import Pod


def no_longer_nominated(pods: Iterable[Pod], asked: Mapping[str, str], wanted: Mapping[str, str]) -> Iterator[Pod]:
    """Those of these pods that are nominated to a node (by UID in ``asked``, or else as their record says) to which
    they are not ``wanted`` to be: to another one, or to none.
    """
    for pod in pods:
        node = asked.get(pod.uid, pod.nominated_node if pod.on_record else None)
        if node is not None and wanted.get(pod.uid) != node:
            yield pod
