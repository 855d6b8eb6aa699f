"""The pages of `gangsched ui` in a headless Chromium, on a phone and on a desk."""

from __future__ import annotations

import json

import pytest

from tests.browser import CHROMIUM, browser
from tests.cli.on_a_cluster import page_of
from tests.cli.worlds import HIGH, TWO_NODES, gang_job

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium on this machine")

LONG = "a-gang-with-a-name-as-long-as-names-may-be-" + "x" * 20
BIG = gang_job(LONG, 0, 60, pods=5)
PASTED = gang_job("pasted", 0, 60).replace("spec: {schedulerName", "spec: {priorityClassName: high, schedulerName")


async def test_a_browser_shows_the_pages(tmp_path):
    """At 480 and 1,200 pixels nothing is wider than the window; the keyboard reaches every link, first the one that
    skips them; a manifest is pasted and planned; and the policy of the pages refuses nothing of their own.
    """
    file = tmp_path / "cluster.yaml"
    file.write_text(TWO_NODES + gang_job("waits", 0, 60, cpu=3) + BIG)
    async with page_of("-f", str(file)) as (url, secret), browser(tmp_path) as tab:
        await tab.open(f"{url}?token={secret}")
        for width in (480, 1200):
            await tab.size(width, 900)
            for path in ("", "/nodes", "/queues", "/evictions", "/plan", f"/explain?name={LONG}"):
                await tab.open(url + path)
                wide = await tab.value("document.documentElement.scrollWidth")
                assert wide <= await tab.value("innerWidth"), (width, path)
                smallest = (
                    "Math.min(...[...document.querySelectorAll('main *')].filter(e => e.offsetParent)"
                    ".map(e => parseFloat(getComputedStyle(e).fontSize)))"
                )
                assert await tab.value(smallest) >= 11
                assert await tab.value("getComputedStyle(document.querySelector('nav ul')).display") == "flex"
        await tab.open(url)
        reached = [await tab.tab() for _ in range(24)]
        assert reached[:6] == ["skip to the content", "Gangs", "Nodes", "Queues", "Evictions", "Plan"]
        assert {"waiting", "show", "Explanation", "waits", LONG} <= set(reached)
        await tab.open(f"{url}/plan")
        await tab.value(f"document.getElementById('manifest').value = {json.dumps(HIGH + PASTED)}")
        await tab.follow("document.querySelector('form.plan button').click()")
        text = " ".join((await tab.value("document.body.innerText")).split())
        assert "BIND 2 members can start now" in text
        shown = "[...document.querySelectorAll('.n:not(.x)')].filter(e => e.offsetParent).length"
        assert await tab.value(shown) == 2
        assert await tab.value("document.querySelector('.n i').getBoundingClientRect().width") > 100
        assert tab.complaints == []
