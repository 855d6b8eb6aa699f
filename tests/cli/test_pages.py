"""The pages of `plan -o html` and `simulate -o html`: whole, safe, small, and readable on a phone."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest

from gangsched.cli import render_html, render_html_plan
from gangsched.cli.contracts import Planned
from gangsched.cli.decisions import State
from gangsched.cli.main import main
from gangsched.cli.simulation import simulate
from gangsched.core.events import Changed
from gangsched.core.options import Options
from tests import builders
from tests.browser import CHROMIUM, browser

#: What a page of 1,000 nodes may have.
BYTES = 300_000
VOID = frozenset(("meta", "input", "br"))


class Page(HTMLParser):
    """Tags that are open, classes, texts, and whatever would load something or run."""

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.loads, self.rows, self.texts = [], [], [], [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.loads += [name for name, _ in attrs if name in ("src", "href", "srcset") or name.startswith("on")]
        classes = (dict(attrs).get("class") or "").split()
        if "n" in classes and "x" not in classes:
            self.rows.append(classes)
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)


def whole(text):
    """The page, which is well formed, loads nothing and runs nothing."""
    page = Page(text)
    assert page.open == []
    assert page.loads == []
    assert "script" not in page.tags
    assert "url(" not in text
    assert "@import" not in text
    assert "default-src 'none'" in text
    return page


def a_site(nodes, pods=8, size=64):
    """So many nodes in racks of 32, full of pods of gangs, for a gang that needs ``size`` members on as many nodes."""
    events = []
    for n in range(nodes):
        events.append(Changed(builders.node(f"gpu-{n:04}").gpu(8).cpu(64).label(rack=f"r{n // 32}").obj()))
        for k in range(pods):
            gang = f"night-{(n * pods + k) // 24}"
            held = builders.pod(f"{gang}-{n}-{k}").gpu(8 // pods).priority(1).on(f"gpu-{n:04}").gang(gang)
            events.append(Changed(held.obj()))
    events += [Changed(builders.gang(f"night-{g}").min(1).obj()) for g in range(nodes * pods // 24 + 1)]
    events.append(Changed(builders.gang("train").min(size).obj()))
    events += [Changed(builders.pod(f"train-{n}").gang("train").gpu(8).priority(9).obj()) for n in range(size)]
    return events


def planned(events):
    """The page of what is decided on these objects."""
    state = State(events, Options(), 1000.0)
    return render_html_plan.plan_page(Planned(state.decisions, events=state.events, scheduler_names=("me",)), "of a")


@pytest.mark.parametrize("command", ["plan", "simulate"])
def test_a_page_says_what_it_shows(command, capsys):
    """A title with what it is of, what colours mean, every node by rack, choices, and the same with every name."""
    assert main([command, "-f", "examples/workload", "-o", "html"]) == 0
    text = capsys.readouterr().out
    page = whole(text)
    shown = " ".join(" ".join(page.texts).split())
    assert "of examples/workload" in text.partition("</title>")[0]
    assert len(page.rows) == 4
    assert all("c" in row for row in page.rows)
    for said in ("free", "nodes that change", "default/hp-abc-workers-def", "worker-1", "hp-js-rj-0-0-b6n2f"):
        assert said in shown, said
    assert re.findall(r"id='f(\w+)'", text)[:2] == ["a", "c"]


def test_a_plan_shows_before_and_after():
    """Who stays stands in both bars, who leaves in the first only, who comes in the second only."""
    events = [
        Changed(builders.node("n1").cpu(4).obj()),
        Changed(builders.node("n2").cpu(4).obj()),
        *(Changed(builders.pod(name).cpu(2).priority(p).on("n1").obj()) for name, p in (("stays", 50), ("goes", 1))),
        Changed(builders.pod("other").cpu(4).priority(50).on("n2").obj()),
        Changed(builders.pod("new").cpu(2).priority(9).obj()),
    ]
    text = planned(events)
    first = next(line for line in text.splitlines() if "<b>n1</b>" in line)
    before, after = first.split("</s><s>")
    assert re.findall(r"<i class='(\w) p'.*?>(\w+)</i>", before) == [("r", "stays"), ("l", "goes")]
    assert re.findall(r"<i class='(\w) p'.*?>(\w+)</i>", after) == [("r", "stays"), ("w", "new")]
    assert "<div class='n'><b>n2</b>" in text
    assert whole(text)


@pytest.mark.parametrize("nodes", [100, 1000])
def test_pages_are_small(nodes):
    """Of 1,000 nodes with 8,000 pods, a page is no larger than a mail may be, and has every rack."""
    events = a_site(nodes)
    for text in (planned(events), render_html.page(simulate(events, Options(), until_seconds=90.0), "of a")):
        whole(text)
        assert len(text.encode()) <= BYTES
        assert len(re.findall(r"<summary>r\d+: ", text)) == -(-nodes // 32)


def test_nothing_of_the_input_is_markup(tmp_path, capsys):
    """Names of nodes, pods, labels and resources are text, wherever they stand."""
    events = a_site(4, pods=2, size=4)
    bad = "<img src=x onerror=alert(1)>'\"&"
    node = builders.node(bad).gpu(8).label(rack=bad).obj()
    for text in (
        planned([*events, Changed(node), Changed(builders.pod(bad).gpu(1).priority(99).obj())]),
        render_html.page(simulate([*events, Changed(node)], Options(), until_seconds=60.0), bad),
        render_html_plan.plan_page(Planned([]), bad),
    ):
        page = whole(text)
        assert "img" not in page.tags
        assert "&lt;img src=x onerror=alert(1)&gt;" in text
        assert bad in "".join(page.texts)


@pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium on this machine")
async def test_a_browser_shows_it_on_a_phone(tmp_path):
    """At 480 pixels nothing is wider than the screen, texts are not shrunk, and a choice hides the other nodes."""
    events = a_site(40, pods=2, size=4)
    shown = (
        "[...document.querySelectorAll('.n:not(.x)')]"
        ".filter(e => e.offsetParent !== null && e.getClientRects().length).length"
    )
    async with browser(tmp_path) as tab:
        await tab.size(480, 900)
        for name, text in (
            ("plan", planned(events)),
            ("run", render_html.page(simulate(events, Options(), until_seconds=60.0), "of a")),
        ):
            file = tmp_path / f"{name}.html"
            file.write_text(text)
            await tab.open(file.as_uri())
            every = await tab.value(shown)
            await tab.value("document.getElementById('fc').click()")
            some = await tab.value(shown)
            size = await tab.value("parseFloat(getComputedStyle(document.querySelector('.n b')).fontSize)")
            assert await tab.value("document.documentElement.scrollWidth") <= await tab.value("innerWidth"), name
            assert size >= 12
            assert (every, 0 < some < every) == (40, True), name
