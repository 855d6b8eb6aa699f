"""The configuration file: what is accepted, and what people are told about the rest."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import msgspec
import pytest
import yaml

from gangsched.cli import main as cli
from gangsched.core.framework.arguments import NodeResourcesFitArgs, ScoringStrategy
from gangsched.core.framework.registry import PluginSet
from gangsched.core.options import STEPS_PER_MILLISECOND, Options
from gangsched.model.times import seconds_of
from gangsched.runtime import config
from gangsched.runtime.config import defaults_text
from gangsched.runtime.settings import Configuration
from tests.settings import settings

ROOT = Path(__file__).resolve().parents[2]
HEAD = "apiVersion: gangsched.dev/v1alpha1\nkind: GangSchedulerConfiguration\n"

REFUSED = {
    # what: (text below the head, the message)
    "unknown key, other case": (
        "preemption:\n  gangmode: elastic",
        "f.yaml:4: preemption.gangmode: unknown key; did you mean gangMode?",
    ),
    "unknown key, misspelt": (
        "lederElection: {}",
        "f.yaml:3: lederElection: unknown key; did you mean leaderElection?",
    ),
    "unknown key, nothing near": (
        "http: {zzz: 1}",
        "f.yaml:3: http.zzz: unknown key; known are authorize, bindAddress, hosts, port, tlsCertFile, tlsKeyFile",
    ),
    "half a certificate": (
        "http: {tlsCertFile: a}",
        "f.yaml:3: http.tlsKeyFile: certificate and key come together: give both, or neither",
    ),
    "tokens in the open": (
        "http: {authorize: true, bindAddress: 0.0.0.0}",
        "f.yaml:3: http.authorize: a bearer token is a secret: give tlsCertFile and tlsKeyFile, or a bindAddress",
    ),
    "a password in an address": (
        'tracing: {endpoint: "https://me:secret@collector:4318/v1/traces"}',
        "f.yaml:3: tracing.endpoint: the configuration is published, so that no user, password or query may be",
    ),
    "a key in an address": (
        'tracing: {endpoint: "https://collector:4318/v1/traces?api-key=secret"}',
        "f.yaml:3: tracing.endpoint: the configuration is published, so that no user, password or query may be",
    ),
    "unknown key in a list": (
        "profiles:\n- schedulerName: a\n  plugin: {}",
        "f.yaml:5: profiles[0].plugin: unknown key; did you mean plugins?",
    ),
    "key given twice": (
        "queue:\n  backoffMax: 1s\n  backoffMax: 2s",
        "f.yaml:5: the key 'backoffMax' is given twice in one mapping",
    ),
    "not one of the words": (
        "preemption: {gangMode: all}",
        'f.yaml:3: preemption.gangMode: must be one of atomic, elastic, minimal, off, not "all"',
    ),
    "boolean for a word": (
        "preemption: {gangMode: false}",
        "f.yaml:3: preemption.gangMode: must be one of atomic, elastic, minimal, off, not false",
    ),
    "below the range": (
        "preemption: {maxRounds: 0}",
        "f.yaml:3: preemption.maxRounds: 0 is not between 1 and 100",
    ),
    "zero rate": ("clientConnection: {qps: 0}", "f.yaml:3: clientConnection.qps: 0 is not above 0 and at most 100000"),
    "fraction for a whole number": (
        "clientConnection: {burst: 1.5}",
        "f.yaml:3: clientConnection.burst: must be a whole number, not 1.5",
    ),
    "boolean for a number": ("http: {port: true}", "f.yaml:3: http.port: must be a whole number, not true"),
    "number for a duration": (
        "queue: {backoffMax: 10}",
        "f.yaml:3: queue.backoffMax: must be a duration such as 15s or 1m30s, not 10",
    ),
    "words for a boolean": (
        "leaderElection: {leaderElect: yes}",
        'f.yaml:3: leaderElection.leaderElect: must be true or false, not "yes"',
    ),
    "number for text": (
        "clientConnection: {context: 7}",
        "f.yaml:3: clientConnection.context: must be text, not 7",
    ),
    "list for a section": ("http: []", "f.yaml:3: http: must be a mapping, not a list"),
    "section left empty": ("http:", "f.yaml:3: http: must be a mapping, not empty"),
    "no profile": ("profiles: []", "f.yaml:3: profiles: must have at least 1 item"),
    "profile without name": (
        'profiles: [{schedulerName: ""}]',
        "f.yaml:3: profiles[0].schedulerName: must not be empty",
    ),
    "same name twice": (
        "profiles:\n- schedulerName: a\n- schedulerName: a",
        "f.yaml:5: profiles[1].schedulerName: a is the name of profiles[0] too",
    ),
    "score listed twice": (
        "profiles:\n- plugins: {score: {enabled: [{name: NodeAffinity}, {name: NodeAffinity}]}}",
        "f.yaml:4: profiles[0].plugins.score.enabled[1].name: NodeAffinity is listed twice",
    ),
    "score without a name": (
        "profiles:\n- plugins: {score: {enabled: [{weight: 2}]}}",
        "f.yaml:4: profiles[0].plugins.score.enabled[0].name: missing",
    ),
    "lease shorter than the deadline": (
        "leaderElection: {leaseDuration: 10s}",
        "f.yaml:3: leaderElection.leaseDuration: 10s is not longer than renewDeadline",
    ),
    "deadline no longer than the pause": (
        "leaderElection: {retryPeriod: 9s}",
        "f.yaml:3: leaderElection.renewDeadline: 10s is not longer than 1.2 times retryPeriod",
    ),
    "write longer than a new leader waits": (
        "clientConnection: {requestTimeout: 3s}",
        "f.yaml:3: clientConnection.requestTimeout: 3s is not between 1ms and 2s",
    ),
    "write that outlives the lease": (
        "leaderElection: {leaseDuration: 11s}",
        "f.yaml:1: clientConnection.requestTimeout: 2s does not fit between renewDeadline and leaseDuration",
    ),
    "backoff that shrinks": (
        "queue: {backoffInitial: 1m}",
        "f.yaml:3: queue.backoffMax: 10s is shorter than backoffInitial",
    ),
    "no time for a gang": (
        "preemption: {gangTimeout: 0s}",
        "f.yaml:3: preemption.gangTimeout: must be longer than zero",
    ),
    "no YAML": (
        "http: [",
        "f.yaml:4: is not YAML: did not find expected node content",
    ),
    "two documents": (
        "---\nhttp: {}",
        "f.yaml:4: there is another document; one was expected",
    ),
    "alias to itself": ("http: &a {port: *a}", "f.yaml:3: the alias *a stands inside of what it names"),
    "tag": ("http: !!python/object:os.system {}", "f.yaml:3: the tag !!python/object:os.system is not allowed"),
}


@pytest.mark.parametrize(("text", "message"), REFUSED.values(), ids=REFUSED.keys())
def test_refused(text: str, message: str) -> None:
    """Each mistake is refused with file, line, path and what would be right."""
    with pytest.raises(config.ConfigurationError) as caught:
        config.parse(HEAD + text, "f.yaml")
    (problem,) = caught.value.problems
    assert problem.startswith(message)


@pytest.mark.parametrize(
    ("text", "problems"),
    [
        ("", ["f.yaml:1: must be a mapping that starts with apiVersion and kind"]),
        (
            "kind: Pod",
            [
                "f.yaml:1: apiVersion: missing; must be gangsched.dev/v1alpha1",
                'f.yaml:1: kind: must be GangSchedulerConfiguration, not "Pod"',
            ],
        ),
        (
            HEAD + "http: {port: -1, prot: 1}\nqueue: {x: 1, backoffMax: 1}",
            [
                "f.yaml:3: http.port: -1 is not between 0 and 65535",
                "f.yaml:3: http.prot: unknown key; did you mean port?",
                "f.yaml:4: queue.backoffMax: must be a duration such as 15s or 1m30s, not 1",
                (
                    "f.yaml:4: queue.x: unknown key; known are backoffInitial, backoffMax, policy, "
                    "starvationAfter, surplus"
                ),
            ],
        ),
        (
            HEAD + "preemption: {gangmode: off}\nleaderElection: {leaseDuration: 5s}",
            [
                "f.yaml:3: preemption.gangmode: unknown key; did you mean gangMode?",
                "f.yaml:4: leaderElection.leaseDuration: 5s is not longer than renewDeadline",
            ],
        ),
    ],
    ids=["empty", "something else", "several mistakes", "mistakes of both sorts"],
)
def test_all_problems_are_told_at_once(text: str, problems: list[str]) -> None:
    """A file with several mistakes needs one round of repair, not several."""
    with pytest.raises(config.ConfigurationError) as caught:
        config.parse(text, "f.yaml")
    assert caught.value.problems == problems


def test_deep_nesting_is_an_error_of_the_file() -> None:
    """A file that nests too deeply for the parser is refused like any other bad file."""
    with pytest.raises(config.ConfigurationError, match=r"^f\.yaml:3: is nested too deeply"):
        config.parse(HEAD + "http: " + "[" * 5000, "f.yaml")


def test_many_aliases_are_an_error_of_the_file() -> None:
    """Aliases that multiply are refused before they fill the memory."""
    bomb = "a0: &a0 [x, x]\n" + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 9))
    with pytest.raises(config.ConfigurationError, match="aliases expand to more than 10000 values"):
        config.parse(HEAD + bomb, "f.yaml")


def test_defaults_are_what_no_file_means() -> None:
    """The printed defaults are accepted and change nothing; profiles are spelt out in them."""
    printed = config.parse(defaults_text())
    assert msgspec.structs.replace(printed, profiles=Configuration().profiles) == Configuration()
    assert printed.core_options() == Configuration().core_options() == Options(trusted_names=())


def test_example_is_accepted() -> None:
    """The annotated example of the repository is accepted."""
    assert config.load(ROOT / "examples" / "config" / "scheduler-configuration.yaml") == Configuration()


def test_installed_configuration_is_accepted() -> None:
    """The file in the ConfigMap of manifests/ is accepted."""
    config_map = yaml.safe_load((ROOT / "manifests" / "configmap.yaml").read_text())
    assert config.parse(config_map["data"]["config.yaml"]).leader_election.leader_elect is True


def test_settings_reach_the_core() -> None:
    """Every setting of the core comes from its key."""
    text = (
        HEAD
        + """
profiles:
  - schedulerName: a
    plugins: {score: {enabled: [{name: NodeAffinity, weight: 5}], disabled: [{name: TaintToleration}]}}
    pluginConfig: [{name: NodeResourcesFit, args: {scoringStrategy: {type: MostAllocated}}}]
  - schedulerName: b
preemption:
  gangMode: off
  podDisruptionMode: gangMode
  pdb: strict
  budgetMilliseconds: 20
  maxRounds: 7
  evictDaemonSetPods: true
  gangTimeout: 1m30s
  minimumRunTime: 10m
  delay: 45s
queue: {backoffInitial: 500ms, backoffMax: 1h}
events: {members: perGang}
"""
    )
    found = config.parse(text).core_options()
    assert found == Options(
        scheduler_names=("a", "b"),
        trusted_names=(),
        gang_mode="off",
        pod_disruption_mode="gangMode",
        strict_budgets=True,
        search_steps=20 * STEPS_PER_MILLISECOND,
        timeout_seconds=90.0,
        minimum_run_time_seconds=600.0,
        preemption_delay_seconds=45.0,
        backoff_initial_seconds=0.5,
        backoff_max_seconds=3600.0,
        evict_daemonset_pods=True,
        events_per_gang=True,
        profiles=(("a", found.plugins_of("a")),),
    )
    assert found.plugins_of("b") == PluginSet()
    weights = dict(found.plugins_of("a").scores)
    assert (weights["NodeAffinity"], weights["NodeResourcesFit"], "TaintToleration" in weights) == (5.0, 1.0, False)
    most = NodeResourcesFitArgs(scoring_strategy=ScoringStrategy(type="MostAllocated"))
    assert found.plugins_of("a").arguments == (("NodeResourcesFit", most),)


@pytest.mark.parametrize(
    ("text", "seconds"), [("15s", 15.0), ("1m30s", 90.0), ("500ms", 0.5), ("2h", 7200.0), ("1.5s", 1.5)]
)
def test_durations(text: str, seconds: float) -> None:
    """Durations mean what they mean to Kubernetes."""
    assert seconds_of(text) == seconds


def test_schema_accepts_what_the_scheduler_accepts() -> None:
    """The published JSON Schema is one, and the defaults are valid under it."""
    schema = config.schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(yaml.safe_load(defaults_text()), schema, cls=jsonschema.Draft202012Validator)


@pytest.mark.parametrize(
    "text",
    ["preemption: {gangmode: elastic}", "http: {port: -1}", "queue: {backoffMax: 10}", "profiles: []", "http: []"],
)
def test_schema_refuses_what_the_scheduler_refuses(text: str) -> None:
    """Mistakes of one value are found by editors that know the schema."""
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(yaml.safe_load(HEAD + text), config.schema(), cls=jsonschema.Draft202012Validator)


def test_schema_wants_the_head() -> None:
    """A file without apiVersion and kind is not valid under the schema."""
    with pytest.raises(jsonschema.ValidationError, match="apiVersion"):
        jsonschema.validate({}, config.schema(), cls=jsonschema.Draft202012Validator)


def test_every_setting_says_what_it_means() -> None:
    """No setting is without a description."""
    assert [setting.path for setting in settings() if not setting.meaning.endswith(".")] == []


def test_validate_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`config validate` ends with 0 for a good file, and with 2 and one line per problem for a bad one."""
    good, bad = tmp_path / "good.yaml", tmp_path / "bad.yaml"
    good.write_text(HEAD)
    bad.write_text(HEAD + "http: {prot: 1}\nqueue: {x: 1}")
    assert cli.main(["config", "validate", str(good)]) == 0
    assert cli.main(["config", "validate", str(bad)]) == 2
    assert cli.main(["config", "validate", str(tmp_path / "missing.yaml")]) == 2
    said = capsys.readouterr()
    first, name, filters, scores = said.out.splitlines()
    assert (first, name) == (f"{good}: ok", "py-gang-scheduler:")
    assert filters.startswith("  filters: NodeUnschedulable, NodeGoing, ")
    assert scores.startswith("  scores: TaintToleration 3, NodeAffinity 2, ")
    known = "backoffInitial, backoffMax, policy, starvationAfter, surplus"
    assert said.err.splitlines() == [
        f"gangsched: {bad}:3: http.prot: unknown key; did you mean port?",
        f"gangsched: {bad}:4: queue.x: unknown key; known are {known}",
        f"gangsched: {tmp_path / 'missing.yaml'}: cannot be read: No such file or directory",
    ]


def test_defaults_and_schema_commands(capsys: pytest.CaptureFixture[str]) -> None:
    """Both print to standard output what the library says."""
    assert cli.main(["config", "defaults"]) == 0
    assert config.parse(capsys.readouterr().out).core_options() == Options(trusted_names=())
    assert cli.main(["config", "schema"]) == 0
    assert json.loads(capsys.readouterr().out) == config.schema()
