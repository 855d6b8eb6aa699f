"""The published JSON Schemas, against themselves and against what the commands print."""

from __future__ import annotations

import copy
import json
from pathlib import Path

import jsonschema
import msgspec
import pytest

from gangsched.cli import contracts, plan
from gangsched.cli.main import main
from gangsched.cluster.sim import history, writes
from gangsched.core.decision import Gap, UnitRef, Victim
from gangsched.core.events import Outcome
from gangsched.model.records import GangId
from tests.builders import decided
from tests.pages import SCHEMAS, read_schema

EXAMPLES = Path(__file__).parents[2] / "examples"
NAMES = sorted(p.name.removesuffix(".schema.json") for p in SCHEMAS.glob("*.schema.json"))


def printed(command, *args, capsys):
    """What a command prints as JSON."""
    main([command, "-o", "json", *args])
    return json.loads(capsys.readouterr().out)


def objects(schema):
    """All parts of a schema that describe objects with known properties."""
    if isinstance(schema, dict):
        if schema.get("type") == "object" and "properties" in schema:
            yield schema
        for part in schema.values():
            yield from objects(part)
    if isinstance(schema, list):
        for part in schema:
            yield from objects(part)


@pytest.mark.parametrize("name", NAMES)
def test_schemas_are_valid_and_strict(name):
    """Each is a JSON Schema, and each of its objects lists all properties it may have."""
    schema = read_schema(name)
    jsonschema.Draft202012Validator.check_schema(schema)
    described = list(objects(schema))
    assert described
    assert all(part["additionalProperties"] is False for part in described)


@pytest.mark.parametrize("command", ["plan", "simulate", "queues", "get"])
@pytest.mark.parametrize("example", ["koordinator", "workload", "quota-gpu"])
def test_outputs_on_the_examples_are_valid(command, example, capsys):
    """What is printed is what is published."""
    answer = printed(command, "-f", str(EXAMPLES / example), capsys=capsys)
    jsonschema.validate(answer, read_schema(f"{command}-v1"))


@pytest.mark.parametrize(
    ("outcome", "optimal", "gap", "printed_gap", "valid"),
    [
        ("preempt", None, None, None, True),
        ("preempt", True, None, None, True),
        ("preempt", False, Gap("gangs", 7, 3), {"component": "gangs", "priority": 7, "atMost": 3}, True),
        ("preempt", False, Gap("pdb", 0, 1), {"component": "pdb", "priority": 0, "atMost": 1}, True),
        ("preempt", False, None, None, False),
        ("preempt", True, Gap("pods", 0, 1), {"component": "pods", "priority": 0, "atMost": 1}, False),
        ("preempt", None, Gap("pods", 0, 1), {"component": "pods", "priority": 0, "atMost": 1}, False),
        ("preempt", False, Gap("pods", 0, 0), {"component": "pods", "priority": 0, "atMost": 0}, False),
        ("preempt", False, Gap("work", 0, 1), {"component": "work", "priority": 0, "atMost": 1}, False),
        ("bind", True, None, None, False),
        ("bind", None, None, None, True),
    ],
)
def test_the_proof_of_a_plan(outcome, optimal, gap, printed_gap, valid):
    """A gap is there exactly when a plan with victims is not optimal, and names a part of harm."""
    victim = Victim("ns", "v", "u", "n", UnitRef("Pod", "ns/v"), False, 0, False)
    victims = (victim,) if outcome == "preempt" else ()
    gang = GangId("scheduling.sigs.k8s.io", "ns", "g", "me")
    found = contracts.Decision.of(decided("preempt", gang, victims=victims, optimal=optimal, gap=gap), 1.0)
    entry = msgspec.to_builtins(found)
    answer = plan.CONTRACT.document({"decisions": [entry | {"outcome": outcome}]})
    assert (answer["decisions"][0]["optimal"], answer["decisions"][0]["gap"]) == (optimal, printed_gap)
    assert jsonschema.Draft202012Validator(read_schema("plan-v1")).is_valid(answer) == valid


@pytest.mark.parametrize("command", ["plan", "simulate", "queues", "get"])
def test_outputs_on_bad_input_are_valid(command, capsys):
    """The error has its place in the contract as well."""
    answer = printed(command, "-f", "/no/such/file", capsys=capsys)
    assert answer["error"]["file"] == "/no/such/file"
    jsonschema.validate(answer, read_schema(f"{command}-v1"))


def test_every_write_of_a_simulation_is_in_its_schema():
    """What the scheduler can do to a simulated cluster, and how that can come out, is published."""
    event = read_schema("simulate-v1")["$defs"]["event"]["properties"]
    verbs = {verb for verb, _ in writes._TOLD.values()} | {history.EVICT, history.STATUS}
    assert verbs <= set(event["verb"]["enum"])
    assert set(event["outcome"]["enum"]) == {*Outcome} - {Outcome.OK}


def test_a_simulation_that_holds_nodes_is_valid(tmp_path, capsys):
    """Nodes that are held and given back are in what is printed, and that is what is published."""
    config = tmp_path / "config.yaml"
    config.write_text(
        "apiVersion: gangsched.dev/v1alpha1\nkind: GangSchedulerConfiguration\npreemption: {holdRoom: always}\n"
    )
    answer = printed("simulate", "--config", str(config), "-f", str(EXAMPLES / "workload"), capsys=capsys)
    assert {"hold", "release"} <= {event["verb"] for event in answer["events"]}
    jsonschema.validate(answer, read_schema("simulate-v1"))


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ((), {}),
        (("surprise",), 1),
        (("decisions", 0, "surprise"), 1),
        (("decisions", 0, "outcome"), "maybe"),
        (("decisions", 0, "outcome"), "unschedulable"),
        (("decisions", 0, "victims"), []),
        (("decisions", 0, "victims", 0, "method"), "shoot"),
        (("decisions", 0, "gang"), "no-namespace"),
        (("decisions", 0, "required"), -1),
        (("error",), {"file": "f", "document": 1, "object": None, "field": None, "message": "m"}),
    ],
)
def test_a_wrong_plan_is_refused_by_its_schema(path, value, capsys):
    """The schema is no rubber stamp: outcome, victims, placements and error must fit each other."""
    answer = copy.deepcopy(printed("plan", "-f", str(EXAMPLES / "koordinator"), capsys=capsys))
    holder = answer
    for step in path[:-1]:
        holder = holder[step]
    if path:
        holder[path[-1]] = value
    else:
        answer = value
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(answer, read_schema("plan-v1"))


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("queues", 0, "pending"), 1),
        (("queues", 1, "surprise"), 1),
        (("queues", 1, "admitted"), -1),
        (("queues", 1, "kind"), "LocalQueue"),
        (("queues", 1, "usage", 0, "used"), 5),
        (("error",), {"file": "f", "document": 1, "object": None, "field": None, "message": "m"}),
    ],
)
def test_wrong_queues_are_refused_by_their_schema(path, value, capsys):
    """A cohort has no workloads of its own, amounts are quantities, and with an error there are no queues."""
    answer = printed("queues", "-f", str(EXAMPLES / "quota-gpu"), capsys=capsys)
    jsonschema.validate(answer, read_schema("queues-v1"))
    holder = answer
    for step in path[:-1]:
        holder = holder[step]
    holder[path[-1]] = value
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(answer, read_schema("queues-v1"))
