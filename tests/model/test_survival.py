"""Which losses of pods a Job survives."""

from __future__ import annotations

import random
from itertools import combinations
from typing import Any

import msgspec
import pytest

from gangsched.model import wire
from gangsched.model.convert import Converter
from gangsched.model.records import Job, Pod
from gangsched.model.survival import (
    ALL_INDEXES,
    BY_INDEXES,
    BY_LIMIT,
    BY_POLICY,
    KILLED,
    STOPPED,
    allowance,
    fate,
    ignores_evictions,
    parse_indexes,
)
from tests.builders import pod

CONDITION = {"onPodConditions": [{"type": "DisruptionTarget"}]}
ENDS = (BY_POLICY, BY_POLICY, BY_POLICY)


def exits(operator: str, *values: int, container: str | None = None) -> dict[str, Any]:
    """A requirement of a rule."""
    more = {} if container is None else {"containerName": container}
    return {"onExitCodes": {"operator": operator, "values": list(values), **more}}


def job(*rules: dict[str, Any], status: dict[str, Any] | None = None, **spec: Any) -> Job:
    """A Job as the API server has it, with a main container, a sidecar and a first init container."""
    containers = {
        "containers": [{"name": "main"}],
        "initContainers": [{"name": "side", "restartPolicy": "Always"}, {"name": "first"}],
    }
    if rules:
        spec["podFailurePolicy"] = {"rules": list(rules)}
    spec = {"parallelism": 4, "completions": 4, "template": {"spec": containers}, **spec}
    raw = {"metadata": {"name": "j", "namespace": "d", "uid": "j"}, "spec": spec, "status": status or {}}
    return Converter().job(msgspec.convert(raw, wire.Job))


def indexed(*rules: dict[str, Any], limit: int = 0, **spec: Any) -> Job:
    """An Indexed Job of four with a limit of each index."""
    return job(*rules, completionMode="Indexed", backoffLimitPerIndex=limit, **spec)


def lost(*indexes: int, failures: int = 0, phase: str = "Running") -> list[Pod]:
    """Pods of these indexes."""
    made = [pod(f"p{i}").on("n").obj() for i in indexes]
    return [
        msgspec.structs.replace(p, completion_index=i, index_failures=failures, phase=phase)
        for p, i in zip(made, indexes, strict=True)
    ]


@pytest.mark.parametrize(
    ("rules", "both", "stopped", "killed"),
    [
        ([{"action": "FailJob", **exits("NotIn", 42)}, {"action": "Ignore", **CONDITION}], *ENDS),
        ([{"action": "Ignore", **CONDITION}, {"action": "FailJob", **exits("NotIn", 42)}], "", "", ""),
        ([{"action": "FailJob", **exits("In", 137)}, {"action": "Ignore", **CONDITION}], BY_POLICY, "", BY_POLICY),
        ([{"action": "Ignore", **exits("In", 137, 143)}, {"action": "FailJob", **CONDITION}], "", "", ""),
        ([{"action": "Ignore", **exits("In", 143)}, {"action": "FailJob", **CONDITION}], BY_POLICY, "", BY_POLICY),
        ([{"action": "FailJob", **exits("In", 1, 2)}], "", "", ""),
        ([{"action": "Ignore", **exits("In", 137)}, {"action": "FailJob", **exits("In", 137)}], "", "", ""),
        (
            [{"action": "Ignore", **exits("In", 137, container="main")}, {"action": "FailJob", **exits("In", 137)}],
            *(BY_POLICY, "", ""),
        ),
        ([{"action": "FailJob", **exits("NotIn", 1, container="side")}], *ENDS),
        ([{"action": "FailJob", **exits("NotIn", 1, container="first")}], "", "", ""),
        ([{"action": "FailJob", **exits("NotIn", 1, container="gone")}], "", "", ""),
        ([{"action": "FailJob", "onPodConditions": [{"type": "Ready", "status": "False"}]}], *ENDS),
        ([{"action": "FailJob", "onPodConditions": [{"type": "ConfigIssue"}]}], "", "", ""),
        ([{"action": "FailJob", "onPodConditions": [{"type": "DisruptionTarget", "status": "False"}]}], "", "", ""),
        ([{"action": "Count", **CONDITION}, {"action": "FailJob", **CONDITION}], "", "", ""),
    ],
)  # fmt: skip
def test_the_first_rule_that_the_pod_matches_counts(
    rules: list[dict[str, Any]], both: str, stopped: str, killed: str
) -> None:
    """Rules match exit codes and conditions in their order; of the codes that are possible the worse is taken."""
    made = job(*rules)
    found = [fate(made, lost(0), codes=codes).cause for codes in ((STOPPED, KILLED), (STOPPED,), (KILLED,))]
    assert found == [both, stopped, killed]


def test_an_init_container_counts_for_a_pod_that_has_not_started() -> None:
    """Evicted while it initializes, that container ends with such a code too."""
    made = job({"action": "FailJob", **exits("In", 143, container="first")})
    assert fate(made, lost(0, phase="Pending")).cause == BY_POLICY


@pytest.mark.parametrize(
    ("made", "taken", "expected"),
    [
        (job(backoffLimit=1), lost(0), ""),
        (job(backoffLimit=1), lost(0, 1), BY_LIMIT),
        (job(backoffLimit=2, status={"failed": 1, "uncountedTerminatedPods": {"failed": ["x"]}}), lost(0), BY_LIMIT),
        (job({"action": "Ignore", **CONDITION}, backoffLimit=0), lost(0, 1, 2, 3), ""),
        (indexed(limit=1, maxFailedIndexes=0), lost(0, 1, 2, 3), ""),
        (indexed(limit=1, maxFailedIndexes=0), lost(0, failures=1), BY_INDEXES),
        (indexed(limit=1, maxFailedIndexes=1, status={"failedIndexes": "2"}), lost(0, failures=1), BY_INDEXES),
        (indexed(status={"failedIndexes": "2", "completedIndexes": "0,1"}), lost(3), ALL_INDEXES),
        (indexed(status={"failedIndexes": "2", "completedIndexes": "0"}), lost(3), ""),
        (indexed({"action": "FailIndex", **CONDITION}, limit=5, maxFailedIndexes=0), lost(0), BY_INDEXES),
        (indexed({"action": "Ignore", **CONDITION}, maxFailedIndexes=0), lost(0, failures=9), ""),
        (indexed(limit=9, backoffLimit=0), lost(0), BY_LIMIT),
        (indexed(maxFailedIndexes=0), lost(7), ""),
    ],
)
def test_the_limits_of_a_job_and_of_its_indexes(made: Job, taken: list[Pod], expected: str) -> None:
    """The Job fails at once for its backoffLimit, for too many failed indexes, and when no index is left."""
    assert fate(made, taken).cause == expected


@pytest.mark.parametrize(
    ("status", "policy", "index", "doomed"),
    [
        ({}, None, 0, True),
        ({"failedIndexes": "2"}, None, 0, False),
        ({}, {"rules": [{"succeededIndexes": "0"}]}, 0, True),
        ({}, {"rules": [{"succeededIndexes": "0"}]}, 1, False),
        ({}, {"rules": [{"succeededCount": 2}]}, 0, False),
        ({"failedIndexes": "3"}, {"rules": [{"succeededCount": 2}]}, 0, True),
        ({}, {"rules": [{"succeededIndexes": "0-2", "succeededCount": 1}]}, 0, False),
        ({"completedIndexes": "1"}, {"rules": [{"succeededIndexes": "1,2"}]}, 3, False),
    ],
)
def test_a_job_that_loses_an_index_for_good_completes_by_its_success_policy_or_not(
    status: dict[str, Any], policy: dict[str, Any] | None, index: int, doomed: bool
) -> None:
    """It fails when its other indexes are done: it is at its end, unless that was so before."""
    found = fate(indexed(status=status, successPolicy=policy), lost(index))
    assert (found.cause, found.lost, found.doomed, found.ends) == ("", (index,), doomed, doomed)


def any_job(chance: random.Random) -> tuple[Job, list[Pod]]:
    """A Job of up to six indexes, some of them done, and its pods."""
    size = chance.randint(1, 6)
    state = [chance.choice("rrrrcf") for _ in range(size)]
    status = {
        key: ",".join(str(i) for i in range(size) if state[i] == key[0])
        for key in ("completedIndexes", "failedIndexes")
    }
    rules = [
        {"action": a, **r} for a in ("Ignore", "Count", "FailIndex", "FailJob") for r in (CONDITION, exits("In", 137))
    ]
    spec: dict[str, Any] = {"backoffLimit": chance.choice((0, 1, 2, 9)), "completions": size}
    if chance.random() < 0.5:
        spec["maxFailedIndexes"] = chance.randint(0, size)
    if chance.random() < 0.5:
        numbers = ",".join(str(i) for i in range(size) if chance.random() < 0.6) or "0"
        spec["successPolicy"] = {"rules": [{"succeededIndexes": numbers, "succeededCount": chance.randint(1, 3)}]}
    chosen = chance.sample(rules, chance.choice((0, 0, 1, 2)))
    pods = [p for i in range(size) if state[i] == "r" for p in lost(i, failures=chance.randint(0, 1))]
    return indexed(*chosen, limit=chance.randint(0, 1), status=status, **spec), pods  # fmt: skip


@pytest.mark.parametrize(
    ("rules", "free", "most"),
    [
        ([{"succeededIndexes": "0"}], "123", 2),
        ([{"succeededIndexes": "0,1"}], "23", 1),
        ([{"succeededIndexes": "0"}, {"succeededIndexes": "3"}], "123", 2),
        ([{"succeededIndexes": "0-3"}], "0123", 0),
        ([{"succeededIndexes": "0-2", "succeededCount": 2}], "0123", 1),
    ],
)
def test_a_success_policy_spares_the_indexes_that_it_asks_for(rules: list[Any], free: str, most: int) -> None:
    """Others may fail for good, and the Job can complete all the same."""
    made = indexed(completions=4, successPolicy={"rules": rules})
    pods = [p for i in range(4) for p in lost(i)]
    found = allowance(made, [], pods)
    assert found is not None
    assert ({p.completion_index for p in pods if p.uid in found.free}, found.most) == (set(map(int, free)), most)


@pytest.mark.parametrize("seed", range(300))
def test_any_so_many_of_the_pods_that_are_free_may_go(seed: int) -> None:
    """No choice of them ends the Job; and where all pods are alike, one more would."""
    made, pods = any_job(random.Random(seed))
    leaving, rest = pods[: seed % 2], pods[seed % 2 :]
    found = allowance(made, leaving, rest)
    before = fate(made, leaving)
    free, most = ([p.uid for p in rest], len(rest)) if found is None else found
    for number in range(1, most + 1) if not before.ends else ():
        for some in combinations([p for p in rest if p.uid in free], number):
            assert not fate(made, [*leaving, *some]).ends
    if found is None:
        assert ignores_evictions(made)
    elif most < len(rest) and not made.success_rules and not before.ends:
        ending = [some for some in combinations(rest, most + 1) if fate(made, [*leaving, *some]).ends]
        assert ending


@pytest.mark.parametrize(
    ("text", "expected"),
    [("", ()), (None, ()), ("0-2,3,7", ((0, 3), (7, 7))), ("x,1,2-y,5-4", ((1, 1),)), ("3,1", ((1, 1), (3, 3)))],
)
def test_rows_of_indexes(text: str | None, expected: tuple[tuple[int, int], ...]) -> None:
    """What is no row is left out."""
    assert parse_indexes(text) == expected
