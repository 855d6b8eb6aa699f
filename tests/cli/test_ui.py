"""The pages of `gangsched ui` and /ui: what they show, to whom, and within which bounds."""

from __future__ import annotations

import http.client
import re
import threading
import urllib.parse
import urllib.request
from contextlib import closing
from http import HTTPStatus

import pytest

from gangsched.cli import render_html_ui, ui_site
from gangsched.cli.main import main
from gangsched.cli.render_html_table import Bar, Cell, table
from gangsched.cli.ui_site import Site
from gangsched.cluster.kube.history import Line
from gangsched.core.events import Changed
from gangsched.messages import ui
from gangsched.model.records import Condition
from gangsched.runtime.http import Hosts, RefusedError, Request
from gangsched.runtime.http_server import Server
from tests import builders
from tests.cli.sites import LOCAL, PASTED, Objects, a_cluster, asked

BAD = "<img src=x onerror=alert(1)>'\"&"


def shown(text):
    """What is read on the page."""
    return " ".join(re.sub(r"<[^>]*>", " ", re.sub(r"<style.*?</style>", "", text, flags=re.DOTALL)).split())


def test_the_pages_say_what_the_commands_say():
    """Gangs with their states and reasons, nodes with what is held, evictions with the gang; each page links to all."""
    line = Line("1970-01-01T00:10:00Z", "Preempted", "Pod", "Preempted by gang default/waits", [("ml", "gone", "n1")])
    site = Site(Objects(a_cluster(), lines=[line]), LOCAL)
    for path, words in (
        ("/ui", ["1 Nominated, 1 Running", "waits", "0/2", "not now: 0 of 2 members fit", "scheduler-1 leads"]),
        ("/ui/nodes", ["r1: 1 node, 4 of 4 CPU used", "Room is held for d/waits-1 (n1)"]),
        ("/ui/queues", ["There are no ClusterQueues."]),
        ("/ui/evictions", ["6m", "ml/gone (n1)", "Preempted by gang default/waits"]),
        ("/ui/explain?name=waits&namespace=d", ["d/waits", "PodGroup", "needs 2 members to run"]),
        ("/ui/plan", ["Manifests, as they would be applied"]),
    ):
        status, text, answer = asked(site, path)
        assert status == HTTPStatus.OK, path
        for word in words:
            assert word in shown(text), (path, word)
        for link in render_html_ui.TABS:
            assert f"href='{link}'" in text
        assert re.fullmatch(
            r"default-src 'none'; style-src 'nonce-[\w-]+'; form-action 'self';"
            r" base-uri 'none'; frame-ancestors 'none'",
            answer.headers["Content-Security-Policy"],
        )
        assert not re.search(r"<script|<link|<img|\sstyle=|src=|\son\w+=", text), path
        assert text.count("<style nonce='") == text.count("<style") == 1


def test_gangs_can_be_chosen():
    """Those of one namespace, or those that wait; they come before all others, the one that waits longest first."""
    events = [*a_cluster(), Changed(builders.pod("other", "ml").cpu(1).created(900.0).obj())]
    site = Site(Objects(events), LOCAL)
    names = r"explain\?namespace=\w*&amp;name=([\w-]+)"
    assert re.findall(names, asked(site, "/ui")[1])[-1] == "runs"
    assert re.findall(names, asked(site, "/ui?namespace=ml")[1]) == ["other"]
    assert sorted(re.findall(names, asked(site, "/ui?waiting=1")[1])) == ["other", "waits"]
    assert "There is no such gang." in asked(site, "/ui?namespace=nowhere")[1]


def test_the_first_line_says_how_full_the_cluster_is():
    """How much of what pods ask for most is used and held, and how many gangs wait."""
    _, text, _ = asked(Site(Objects(a_cluster()), LOCAL), "/ui")
    (first,) = re.findall(r"<p class='sum'>(.*?)</p>", text)
    assert first == "8 of 8 CPU are used, 8 are held for gangs, 1 gang waits"
    (first,) = re.findall(r"<p class='sum'>(.*?)</p>", asked(Site(Objects(a_cluster()[:2]), LOCAL), "/ui")[1])
    assert first == "0 of 8 CPU are used, 0 are held for gangs, 0 gangs wait"
    gpus = [Changed(builders.node("n").gpu(8).obj()), Changed(builders.pod("p").gpu(3).on("n").obj())]
    (first,) = re.findall(r"<p class='sum'>(.*?)</p>", asked(Site(Objects(gpus), LOCAL), "/ui")[1])
    assert first == "3 of 8 GPUs are used, 0 are held for gangs, 0 gangs wait"


def names_on(path):
    """The names of gangs on the page, from above."""
    _, text, _ = asked(Site(Objects(a_cluster()), LOCAL), path)
    return re.findall(r"<td[^>]* data-l='name'><a[^>]*>(.*?)</a>", text)


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("", ["waits", "runs"]),
        ("?sort=NAME", ["runs", "waits"]),
        ("?sort=nonsense", ["waits", "runs"]),
        ("?text=RUN", ["runs"]),
        ("?text=0+of+2+members", ["waits"]),
        ("?text=nothing", []),
    ],
)
def test_gangs_are_sorted_and_filtered(query, found):
    """By a column, or by words of the name or the reason; heads lead to the same gangs in another order."""
    assert names_on(f"/ui{query}") == found
    _, text, _ = asked(Site(Objects(a_cluster()), LOCAL), "/ui?waiting=1&sort=AGE")
    assert "href='/ui?waiting=1&amp;sort=PRIORITY'" in text
    assert text.count("aria-sort") == 2  # the head, and the rule of its style
    assert "<span class='s wait'>Queued</span>" in text or "<span class='s make'>Nominated</span>" in text


def test_pages_to_look_at_are_loaded_again_until_somebody_stops_that():
    """By a header, and no script; what is written or read is not taken away."""
    site = Site(Objects(a_cluster()), LOCAL)
    for path in ("/ui", "/ui/nodes", "/ui/queues", "/ui/evictions"):
        _, text, answer = asked(site, path)
        assert answer.headers["Refresh"] == "5"
        assert f"href='{path}?pause=1'" in text
        _, text, answer = asked(site, f"{path}?pause=1")
        assert "Refresh" not in answer.headers
        assert f"href='{path}'" in text
    assert "href='/ui?waiting=1&amp;pause=1'" in asked(site, "/ui?waiting=1")[1]
    for path in ("/ui/plan", "/ui/explain?name=waits&namespace=d", "/ui/nothing"):
        assert "Refresh" not in asked(site, path)[2].headers


def test_evictions_lead_to_the_pod_and_to_the_gang():
    """And the nodes to the gangs on them."""
    note = "evicted for gang default/waits of priority 9"
    lines = (Line("1970-01-01T00:10:00Z", "Preempted", "Pod", note, [("default", "runs-1", "n1")]),)
    _, text, _ = asked(Site(Objects(a_cluster(), lines=lines), LOCAL), "/ui/evictions")
    assert "href='/ui/explain?namespace=default&amp;name=runs-1&amp;kind=Pod'" in text
    assert "href='/ui/explain?namespace=default&amp;name=waits'" in text
    _, text, _ = asked(Site(Objects(a_cluster()), LOCAL), "/ui/nodes")
    assert re.search(r"href='/ui/explain\?namespace=\w+&amp;name=waits'", text)


def test_pods_nodes_and_gangs_lead_to_each_other():
    """A pod on the page of nodes leads to its explanation, and that leads to the node and the gang."""
    site = Site(Objects(a_cluster()), LOCAL)
    _, nodes, _ = asked(site, "/ui/nodes")
    address, key = re.findall(r"<a href='([^']*)'><i [^>]*title='(d/[\w-]+) · ", nodes)[0]
    assert "&amp;kind=Pod" in address
    status, text, _ = asked(site, address.replace("&amp;", "&"))
    assert (status, key in shown(text)) == (HTTPStatus.OK, True)
    (anchor,) = re.findall(r"href='/ui/nodes#([\w-]+)'", text)
    assert f" id='{anchor}'" in nodes
    _, text, _ = asked(site, "/ui/explain?namespace=d&name=waits")
    assert text.count("href='/ui/explain?namespace=d&amp;name=waits'") == 2  # of each member
    assert "href='/ui/explain?namespace=d&amp;name=waits-1&amp;kind=Pod'" in text


def test_bars_of_queues_show_what_is_used_reserved_and_borrowed():
    """What is beyond the quota is marked."""
    shown_as = [
        (Bar(2, 3, 4, "x"), ["class='r' style='width:75%'", "class='' style='width:50%'"]),
        (Bar(0, 0, 4, "x"), []),
        (
            Bar(5, 8, 4, "x"),
            ["class='over' style='width:100%'", "class='r' style='width:50%'", "class='' style='width:62.5%'"],
        ),
    ]
    for bar, parts in shown_as:
        text = table(("A",), [[Cell("", bar=bar)]])
        assert re.findall(r"<i (.*?)></i>", text) == parts


@pytest.mark.parametrize("bad", [BAD, "\x1b[2Jx", "\u202etxt.exe"], ids=["markup", "ESC", "RLO"])
def test_markup_esc_and_rlo_in_names_are_text_on_every_page(bad: str) -> None:
    """Names of nodes, pods, gangs, labels, namespaces, messages and what is asked for are text. None clears a terminal
    to which a page is copied (ESC), or turns the text behind it around (RLO).
    """
    condition = Condition("False", bad, f"not now: {bad}")
    events = [
        Changed(builders.node(bad).cpu(4).label(rack=bad).obj()),
        Changed(builders.gang(bad, bad).min(2).obj()),
        *(
            Changed(builders.pod(f"{bad}{n}", bad).gang(bad).cpu(4).field(scheduled_condition=condition).obj())
            for n in (1, 2)
        ),
        Changed(builders.pod(f"{bad}3", bad).cpu(1).on(bad).obj()),
    ]
    site = Site(Objects(events, lines=[Line("1970-01-01T00:10:00Z", bad, bad, bad, [(bad, bad, bad)])]), LOCAL)
    quoted = urllib.parse.urlencode({"name": bad, "namespace": bad, "kind": "PodGroup"})
    other = urllib.parse.urlencode({"name": "x" + bad.replace("/", ""), "namespace": bad})
    for path in (*render_html_ui.TABS, f"/ui/explain?{quoted}", f"/ui/explain?{other}", f"/ui?namespace={quoted}"):
        status, text, _ = asked(site, path)
        assert status in (HTTPStatus.OK, HTTPStatus.NOT_FOUND)
        assert "<img" not in text
        assert "onerror=alert(1)&gt;'" not in text
        assert not {"\x1b", "\u202e"}.intersection(text)
    text = asked(site, "/ui/plan", {"manifest": f"kind: '</textarea>{bad.replace(chr(39), '')}"})[1]
    assert text.count("</textarea>") == 1
    assert "<img" not in text


@pytest.mark.parametrize(
    ("manifest", "says"),
    [
        ("kind: [", "pasted: document 1: line 2, column 1: did not find expected node content"),
        (
            PASTED.replace("cpu: 4", "cpu: much"),
            "document 2 (Job default/new): spec.template.spec.containers[0].resources",
        ),
        ("apiVersion: v1\nkind: Pod\nmetadata: {namespace: a}", "document 1 (Pod): metadata.name"),
    ],
)
def test_bad_manifests_name_document_object_and_field(manifest, says):
    """What was pasted stays in the form, beside what is wrong with it."""
    status, text, _ = asked(Site(Objects(a_cluster()), LOCAL), "/ui/plan", {"manifest": manifest})
    assert status == HTTPStatus.UNPROCESSABLE_ENTITY
    assert says in shown(text)
    assert "</textarea>" in text


def test_a_pasted_manifest_is_planned_as_plan_does():
    """It is decided on top of what there is, in its place in the queue; nothing of it is there afterwards."""
    events = a_cluster()
    site = Site(Objects(events), LOCAL)
    status, text, _ = asked(site, "/ui/plan", {"manifest": PASTED})
    assert status == HTTPStatus.OK
    assert "default/new Job · priority 1000 PREEMPT 2 members can start after 2 pods are evicted" in shown(text)
    assert "1 other gang that wait were decided too" in shown(text)
    assert "new" not in shown(asked(site, "/ui")[1])
    assert events == a_cluster()


def test_what_is_sent_is_bounded(monkeypatch):
    """More than 256 KiB of manifests are not read, nor are more objects planned than a page is for."""
    site = Site(Objects(a_cluster()), LOCAL)
    status, text, _ = asked(site, "/ui/plan", {"manifest": "#" * (ui_site.MOST_TEXT + 1)})
    assert (status, "256 KiB are read at most" in text) == (HTTPStatus.REQUEST_ENTITY_TOO_LARGE, True)
    monkeypatch.setattr(ui_site, "MOST_OBJECTS", 2)
    status, text, _ = asked(site, "/ui/plan", {"manifest": PASTED})
    assert (status, "objects are too many" in text) == (HTTPStatus.UNPROCESSABLE_ENTITY, True)


def test_a_plan_that_takes_too_long_is_cut(monkeypatch):
    """After its time no further gang is decided, and the page says that it did not come to the pasted one."""
    site = Site(Objects(a_cluster(), schedules=True), LOCAL)
    monkeypatch.setattr(ui_site, "PLAN_SECONDS", 0.0)
    status, text, _ = asked(site, "/ui/plan", {"manifest": PASTED.replace("priorityClassName: high, ", "")})
    assert status == HTTPStatus.UNPROCESSABLE_ENTITY
    assert "Not decided: after 0 s and 1 gang ahead of it" in shown(text)


class Clock:
    """Each look takes so many seconds."""

    def __init__(self):
        self.now, self.step = 100.0, 1.0

    def __call__(self):
        self.now += self.step
        return self.now


def test_a_scheduler_spends_a_tenth_of_its_time_on_pages():
    """What took a second is shown for nine; work of more than ten seconds is refused until it is worked off."""
    source, clock = Objects(a_cluster(), schedules=True), Clock()
    site = Site(source, LOCAL, clock=clock)
    asked(site, "/ui")
    clock.step = 0.0
    clock.now += 7.0
    asked(site, "/ui/nodes")
    assert source.seen == 1
    clock.now += 3.0
    asked(site, "/ui/nodes")
    assert source.seen == 2
    clock.step = 6.0
    assert asked(site, "/ui/plan", {"manifest": PASTED})[0] == HTTPStatus.OK
    clock.step = 0.0
    refused = [asked(site, "/ui/nodes"), asked(site, "/ui/plan", {"manifest": PASTED})]
    assert [status for status, _, _ in refused] == [HTTPStatus.SERVICE_UNAVAILABLE] * 2
    (seconds,) = {int(found) for _, text, _ in refused for found in re.findall(r"try again in (\d+) s", text)}
    assert [answer.headers["Retry-After"] for _, _, answer in refused] == [str(seconds)] * 2
    assert ["Refresh" in answer.headers for _, _, answer in refused] == [True, False], "what was pasted is not lost"
    clock.now += seconds
    assert asked(site, "/ui/nodes")[0] == HTTPStatus.OK
    source.schedules = False
    clock.step = 100.0
    assert [asked(site, "/ui/nodes")[0] for _ in range(3)] == [HTTPStatus.OK] * 3, "elsewhere there is no other work"


def test_a_scheduler_decides_nothing_twice():
    """Its pages show what it has written on the pods; elsewhere what waits is decided, as gangsched get does."""
    events = [e for e in a_cluster() if not getattr(e.record, "nominated_node", "")]
    events += [Changed(builders.pod(f"waits-{n}").gang("waits").cpu(4).obj()) for n in (1, 2)]
    own = shown(asked(Site(Objects(events, schedules=True), LOCAL), "/ui")[1])
    assert "no scheduler has decided about it yet" in own
    assert "0/2 nodes are available" in shown(asked(Site(Objects(events), LOCAL), "/ui")[1])
    text = shown(asked(Site(Objects(a_cluster(), schedules=True), LOCAL), "/ui/explain?name=waits&namespace=d")[1])
    assert "NOT NOW 0 of 2 members fit" in text
    assert "gangsched explain waits -n d" in text


def test_rows_are_bounded(monkeypatch):
    """A table ends after so many rows and says how many there are more."""
    monkeypatch.setattr(render_html_ui, "MOST_ROWS", 3)
    events = [Changed(builders.pod(f"p{n}").cpu(1).obj()) for n in range(10)]
    text = asked(Site(Objects(events), LOCAL), "/ui")[1]
    assert text.count("<tr>") == 4
    assert "7 more are not shown" in shown(text)


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, HTTPStatus.OK),
        ({"Host": "127.0.0.1:1", "Origin": "http://127.0.0.1:1", "Sec-Fetch-Site": "same-origin"}, HTTPStatus.OK),
        ({"Host": "[::1]:1"}, HTTPStatus.OK),
        ({"Host": "evil.example:1"}, HTTPStatus.MISDIRECTED_REQUEST),
        ({"Host": ""}, HTTPStatus.MISDIRECTED_REQUEST),
        ({"Origin": "http://evil.example"}, HTTPStatus.FORBIDDEN),
        ({"Origin": "http://localhost:2"}, HTTPStatus.FORBIDDEN),
        ({"Origin": "null"}, HTTPStatus.FORBIDDEN),
        ({"Sec-Fetch-Site": "cross-site"}, HTTPStatus.FORBIDDEN),
        ({"Origin": "http://localhost:1", "Sec-Fetch-Site": "same-site"}, HTTPStatus.FORBIDDEN),
        ({"Content-Type": "text/plain"}, HTTPStatus.UNSUPPORTED_MEDIA_TYPE),
    ],
)
def test_other_sites_get_nothing(headers, status):
    """A name that has come to mean this address is refused, and so is a form of another site."""
    assert asked(Site(Objects(a_cluster()), LOCAL), "/ui/plan", {"manifest": PASTED}, **headers)[0] == status


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("gangsched.gangsched-system.svc", HTTPStatus.OK),
        ("gangsched.gangsched-system.svc.cluster.local:10259", HTTPStatus.OK),
        ("gangsched", HTTPStatus.OK),
        ("10.1.2.3:10259", HTTPStatus.OK),
        ("[fd00::1]:10259", HTTPStatus.OK),
        ("127.0.0.1:10259", HTTPStatus.OK),
        ("LOCALHOST.:10259", HTTPStatus.OK),
        ("Gangs.example.com", HTTPStatus.OK),
        ("gangs.example.com.evil.example", HTTPStatus.MISDIRECTED_REQUEST),
        ("evil.example:10259", HTTPStatus.MISDIRECTED_REQUEST),
        ("10.1.2.3.nip.io", HTTPStatus.MISDIRECTED_REQUEST),
        ("", HTTPStatus.MISDIRECTED_REQUEST),
    ],
)
def test_on_all_addresses_only_own_names_are_served(host, status):
    """Names that nobody can register, addresses, and those of http.hosts. Forms of other sites are refused anyway."""
    site = Site(Objects(a_cluster()), Hosts(None, ["gangs.example.com"]))
    assert asked(site, "/ui", Host=host)[0] == status
    posted = asked(site, "/ui/plan", {"manifest": PASTED}, Host="gangsched.svc", Origin="https://evil.example")
    assert posted[0] == HTTPStatus.FORBIDDEN


def test_the_address_of_the_command_has_a_secret():
    """Its first use gives a cookie and an address without it. Without both, nothing is read, not even a form."""
    site = Site(Objects(a_cluster()), LOCAL, secret="s3cret")
    for path, headers in (
        ("/ui", {}),
        ("/ui?token=guess", {}),
        ("/ui", {"Cookie": "gangsched-ui-1=guess"}),
        ("/ui", {"Cookie": "gangsched-ui-2=s3cret"}),
        ("/ui", {"Authorization": "Bearer guess"}),
    ):
        status, text, _ = asked(site, path, **headers)
        assert (status, text.strip()) == (HTTPStatus.FORBIDDEN, ui.NOT_ADMITTED), path
    assert asked(site, "/ui/plan", {"manifest": PASTED})[0] == HTTPStatus.FORBIDDEN
    status, _, found = asked(site, "/ui?token=s3cret")
    assert (status, found.headers["Location"]) == (HTTPStatus.SEE_OTHER, "/ui")
    cookie, *rules = found.headers["Set-Cookie"].split("; ")
    assert {"HttpOnly", "SameSite=Lax"} <= set(rules)
    assert asked(site, "/ui", Cookie=f"other=1; {cookie}")[0] == HTTPStatus.OK
    assert asked(site, "/ui/plan", {"manifest": PASTED}, Cookie=cookie)[0] == HTTPStatus.OK
    assert asked(site, "/ui", Authorization="Bearer s3cret")[0] == HTTPStatus.OK


@pytest.mark.parametrize(("fields", "status"), [(8, HTTPStatus.OK), (9, HTTPStatus.BAD_REQUEST)])
def test_fields_of_an_address_are_counted(fields, status):
    """One too many is an answer, not a connection that ends."""
    query = "&".join(f"f{n}=1" for n in range(fields))
    assert asked(Site(Objects(a_cluster()), LOCAL), f"/ui?{query}")[0] == status
    assert asked(Site(Objects(a_cluster()), LOCAL), "/ui?name=%ff")[0] == HTTPStatus.BAD_REQUEST


def test_a_body_is_read_only_by_those_whose_turn_it_is(monkeypatch):
    """Of requests that are too many, nothing is read."""
    monkeypatch.setattr(ui_site, "_AT_ONCE", 0)
    headers = {"Host": "localhost", "Content-Type": "application/x-www-form-urlencoded"}

    def body(most: int) -> bytes:
        raise AssertionError(most)

    with pytest.raises(RefusedError, match=ui.BUSY):
        Site(Objects(a_cluster()), LOCAL).answer(Request("post", "/ui/plan", "", headers, body))


def test_what_cannot_be_read_is_a_page():
    """It says why; unknown paths and names are 404."""
    source = Objects(a_cluster())
    site = Site(source, LOCAL)
    assert asked(site, "/ui/explain?name=nothing")[0] == HTTPStatus.NOT_FOUND
    assert "there is no gang or pod default/nothing" in shown(asked(site, "/ui/explain?name=nothing")[1])
    assert asked(site, "/ui/explain?name=a/b/c")[0] == HTTPStatus.NOT_FOUND
    assert asked(site, "/ui/nothing")[0] == HTTPStatus.NOT_FOUND
    source.problem = "the caches are not complete"
    status, text, _ = asked(Site(source, LOCAL), "/ui")
    assert (status, "the caches are not complete" in text) == (HTTPStatus.SERVICE_UNAVAILABLE, True)


def test_not_all_wait_at_once(monkeypatch):
    """While one is answered so many wait; others are told to come again."""
    monkeypatch.setattr(ui_site, "_AT_ONCE", 1)
    source, over, begun = Objects(a_cluster()), threading.Event(), threading.Event()
    see = source.see

    def slow():
        begun.set()
        over.wait(60)
        return see()

    monkeypatch.setattr(source, "see", slow)
    site = Site(source, LOCAL)
    first = threading.Thread(target=asked, args=(site, "/ui"))
    first.start()
    assert begun.wait(60)
    status, text, _ = asked(site, "/ui")
    over.set()
    first.join()
    assert (status, text.strip()) == (HTTPStatus.SERVICE_UNAVAILABLE, ui.BUSY)


def test_a_port_serves_it(tmp_path):
    """By HTTP: / leads to /ui, what is too long is not read, HEAD has no body."""
    server = Server("127.0.0.1", 0, Site(Objects(a_cluster()), LOCAL).answer)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    url = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        with urllib.request.urlopen(f"{url}/") as answer:
            assert (answer.url, answer.status) == (f"{url}/ui", 200)
        with urllib.request.urlopen(urllib.request.Request(f"{url}/ui", method="HEAD")) as answer:
            assert (answer.read(), answer.headers["X-Content-Type-Options"]) == (b"", "nosniff")
        with closing(http.client.HTTPConnection("127.0.0.1", server.server_address[1])) as connection:
            connection.putrequest("POST", "/ui/plan")
            connection.putheader("Content-Type", "application/x-www-form-urlencoded")
            connection.putheader("Content-Length", str(ui_site.MOST_SENT + 1))
            connection.endheaders()
            with connection.getresponse() as answer:
                assert (answer.status, answer.read()) == (413, b"more than 1024 KiB were sent\n")
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def test_a_command_that_cannot_serve_says_why(tmp_path, capsys):
    """Files that are not there, and a port that is taken, are errors of one line."""
    assert main(["ui", "-f", str(tmp_path / "none.yaml")]) == 2
    assert "none.yaml" in capsys.readouterr().err
    server = Server("127.0.0.1", 0, Site(Objects([]), LOCAL).answer)
    port = server.server_address[1]
    try:
        assert main(["ui", "-f", "examples/workload", "--port", str(port)]) == 2
    finally:
        server.server_close()
    assert f"cannot listen on 127.0.0.1:{port}" in capsys.readouterr().err
