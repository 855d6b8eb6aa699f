"""Pages against those who paste bombs or plant markup: each answer is a page with the right headers, within bounds."""

from __future__ import annotations

import html
import re
from http import HTTPStatus

import pytest

from gangsched.cli.ui_site import Site
from tests.cli.sites import LOCAL, PASTED, Objects, a_cluster, asked

POD = "apiVersion: v1\nkind: Pod\nmetadata: {name: p, namespace: default}\nspec: {containers: [{name: a, image: a"
JOB = """apiVersion: batch/v1
kind: Job
metadata: {name: big, namespace: default}
spec:
  parallelism: 1000000
  completions: 1000000
  template: {spec: {schedulerName: py-gang-scheduler, restartPolicy: Never, containers: [{name: a, image: a}]}}
"""
JOBSET = """apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata: {name: big, namespace: default}
spec:
  replicatedJobs:
  - name: a
    replicas: 500000
    template: {spec: {parallelism: 1, completions: 1, template: {spec: {schedulerName: py-gang-scheduler,
      restartPolicy: Never, containers: [{name: a, image: a}]}}}}
"""
BOMBS = {
    "aliases that multiply": "a: &a [x,x,x,x,x,x,x,x,x]\n"
    + "".join(f"{b}: &{b} [{','.join([f'*{a}'] * 9)}]\n" for a, b in zip("abcdefgh", "bcdefghi", strict=True)),
    "many pods by one alias": f"apiVersion: v1\nkind: List\nitems:\n- &p {POD}}}]}}}}\n".replace(
        "\nkind: Pod", ", kind: Pod"
    )
    + "- *p\n" * 40_000,
    "depth of sequences": "[" * 100_000,
    "depth of mappings": "{a: " * 50_000,
    "a merge of itself": "a: &a\n  <<: *a\n",
    "a number of 200 KB": f"{POD}, resources: {{requests: {{cpu: {'9' * 200_000}}}}}}}]}}",
    "an exponent": f"{POD}, resources: {{requests: {{cpu: 1e999999999}}}}}}]}}",
    "a tag of python": "!!python/object/apply:os.system ['true']",
    "a Job of a million pods": JOB,
    "a JobSet of half a million Jobs": JOBSET,
    "bytes that are no text": "\x00\x1b[2J",
}


@pytest.mark.parametrize("bomb", BOMBS.values(), ids=BOMBS)
def test_a_bomb_is_refused_with_a_reason(bomb: str) -> None:
    """Nothing is planned, nothing fails, and the next page is shown."""
    site = Site(Objects(a_cluster()), LOCAL)
    status, text, _ = asked(site, "/ui/plan", {"manifest": bomb})
    assert status in (HTTPStatus.UNPROCESSABLE_ENTITY, HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
    assert re.search(r"role=['\"]?alert", text)
    assert "Traceback" not in text
    assert len(text) < 1_000_000
    assert asked(site, "/ui")[0] == HTTPStatus.OK


def test_every_page_forbids_scripts_and_what_others_load() -> None:
    """Each answer has a new nonce for its styles; no page has a script, a handler or an address of another host."""
    site = Site(Objects(a_cluster()), LOCAL)
    nonces = set()
    paths = ("", "/nodes", "/queues", "/evictions", "/plan", "/explain?name=waits&namespace=d", "/explain?name=x")
    answers = [asked(site, f"/ui{path}") for path in paths]
    for _, text, answer in [*answers, asked(site, "/ui/plan", {"manifest": PASTED})]:
        policy = answer.headers["Content-Security-Policy"]
        rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
        assert rules["default-src"] == rules["base-uri"] == rules["frame-ancestors"] == "'none'"
        assert rules["form-action"] == "'self'"
        assert set(rules) == {"default-src", "style-src", "form-action", "base-uri", "frame-ancestors"}
        (nonce,) = re.findall(r"^'nonce-([\w-]{20,})'$", rules["style-src"])
        nonces.add(nonce)
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert answer.headers["Cross-Origin-Opener-Policy"] == "same-origin"
        assert answer.headers["Cross-Origin-Resource-Policy"] == "same-origin"
        assert answer.headers["Cache-Control"] == "no-store"
        assert not re.search(r"<script|<iframe|<object|<img|\son\w+=|javascript:|https?://", text)
    assert len(nonces) == len(answers) + 1


@pytest.mark.parametrize("odd", ["<b>x</b>", "'\"><script>", "</textarea><script>", "&lt;script>"])
def test_what_is_pasted_comes_back_as_text(odd: str) -> None:
    """In the form, and in the reason why it is refused."""
    site = Site(Objects(a_cluster()), LOCAL)
    for pasted in (f"kind: {odd}", odd):
        _, text, _ = asked(site, "/ui/plan", {"manifest": pasted})
        assert not re.search(r"<b>x|<script", text)
        assert odd.rstrip() in html.unescape(text)
