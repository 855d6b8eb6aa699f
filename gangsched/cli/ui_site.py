"""Answers requests of `gangsched ui` and of /ui, within bounds, and never writes.

A page is of one moment. What it is made of is made for all pages at once, and used again for some time; what computes
is done for one request after another. In a process that schedules it takes a tenth of the time at most.
"""

from __future__ import annotations

import hmac
import math
import secrets
import threading
import time
from collections.abc import Callable, Sequence
from http import HTTPStatus
from typing import NamedTuple, Protocol
from urllib.parse import parse_qs, urlencode

from gangsched.cli import get, plan
from gangsched.cli import render_html_ui as render
from gangsched.cli.answers import UsageError, natural
from gangsched.cli.contracts import Planned
from gangsched.cli.decisions import State
from gangsched.cli.explain import explained
from gangsched.cli.history import Record
from gangsched.cli.inputs import Input, named
from gangsched.cli.page import Content
from gangsched.cli.queue_rows import rows as queue_rows
from gangsched.cli.render_html_plan import nodes_content, summary, waiting_for_room
from gangsched.cli.status import gangs_by_plan
from gangsched.cluster.kube.history import Line
from gangsched.cluster.manifests.objects import Source as Text
from gangsched.cluster.manifests.overlay import overlaid
from gangsched.core.events import Event, record_of, records
from gangsched.messages import pictures, standing, ui
from gangsched.messages.text import join_names, pluralize
from gangsched.model.errors import UserError, render_problem
from gangsched.model.jobsets import JobSet
from gangsched.model.records import Gang, Job, Node, Pod
from gangsched.model.times import render_time
from gangsched.runtime.guard import token_in
from gangsched.runtime.http import Answer, Hosts, RefusedError, Request

#: So much may be sent, and of it so much be manifests; so many objects are planned for.
MOST_SENT, MOST_TEXT, MOST_OBJECTS = 1024 * 1024, 256 * 1024, 20_000
#: The fields of a query or a form.
MOST_FIELDS = 8
#: The field of the address that has the secret, and the first part of the name of the cookie that has it afterwards.
TOKEN, _COOKIE = "token", "gangsched-ui"
#: So many requests are answered at once, of which all but one wait, so many seconds at most.
_AT_ONCE, _PATIENCE_SECONDS = 8, 20.0
#: No further decision is begun after so many seconds.
PLAN_SECONDS = 5.0
#: What is shown is used again for so many seconds at least, and kept for so many after the last request.
_FRESH_SECONDS, _KEPT_SECONDS = 2.0, 60.0
#: In a process that schedules, a second of work is worked off in so many, and none is begun beyond so many seconds.
_REST, _BURST_SECONDS = 9.0, 10.0
_FEW = 12
_HTML = "text/html; charset=utf-8"
_FORM = "application/x-www-form-urlencoded"
_POLICY = "default-src 'none'; style-src 'nonce-{nonce}'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
#: What is loaded again and again: no page on which a person reads or writes.
_RELOADED = {render.ROOT, *(f"{render.ROOT}/{name}" for name in ("nodes", "queues", "evictions"))}
_HEADERS = {
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "same-origin",  # with less, browsers do not say of which site a form is
    "X-Content-Type-Options": "nosniff",
}


class Source(Protocol):
    """Where what is shown comes from. ``schedules``: the process has more to do than to show it."""

    schedules: bool

    def see(self) -> Input:
        """Return the current state. Raises :class:`~gangsched.model.errors.UserError`."""

    def lead(self, seen: Input) -> str:
        """What is shown, and who leads."""

    def evictions(self) -> Sequence[Line] | None:
        """The record, the oldest first; None where there is none. Raises UserError."""


class Page(NamedTuple):
    """One page before it is written."""

    title: str
    content: Content
    status: HTTPStatus = HTTPStatus.OK
    about: str = ""


class View(NamedTuple):
    """The data behind all pages for some time: the input, the facts, the gangs, and the time it took."""

    seen: Input
    state: State
    rows: Sequence[get.Row]
    lead: Sequence[str]
    summary: str
    at: float
    seconds: float


class Site:
    """Answers requests, from any thread, that name one of these ``hosts`` and, if there is one, the ``secret``."""

    def __init__(
        self, source: Source, hosts: Hosts, *, secret: str = "", clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._source = source
        self._hosts = hosts
        self._secret = secret
        self._clock = clock
        self._slots = threading.BoundedSemaphore(_AT_ONCE)
        self._turn = threading.Lock()
        self._view: View | None = None
        self._forgets = threading.Timer(0.0, lambda: None)
        self._spent, self._spent_at = 0.0, clock()

    def answer(self, request: Request) -> Answer:
        """A page, or why there is none. Raises :class:`~gangsched.runtime.http.RefusedError`."""
        try:
            return self._answer(request)
        except RefusedError as refused:
            if not refused.after or request.verb == "post":  # what was pasted would be lost
                raise
            found = refused.answer
            return found._replace(headers={**found.headers, "Refresh": str(refused.after)})

    def _answer(self, request: Request) -> Answer:
        self._check(request)
        fields = {} if request.verb == "post" else _fields_of(request.query, ui.QUERY)
        if self._secret and (answer := self._admit(request, fields.pop(TOKEN, ""))) is not None:
            return answer
        if request.path in ("", "/"):
            return Answer(HTTPStatus.SEE_OTHER, _HTML, b"", {"Location": render.ROOT})
        page = self._pages().get(request.path.rstrip("/") or render.ROOT)
        if page is None:
            raise RefusedError(HTTPStatus.NOT_FOUND, ui.NO_PAGE)
        if request.verb == "post" and request.path != f"{render.ROOT}/plan":
            raise RefusedError(HTTPStatus.METHOD_NOT_ALLOWED, ui.NO_PAGE)
        if not self._slots.acquire(blocking=False):
            raise RefusedError(HTTPStatus.SERVICE_UNAVAILABLE, ui.BUSY, render.RELOAD_SECONDS)
        try:
            if request.verb == "post":  # nothing is held up by a client that is slow to send
                fields = self._sent(request)
            if not self._turn.acquire(timeout=_PATIENCE_SECONDS):
                raise RefusedError(HTTPStatus.SERVICE_UNAVAILABLE, ui.BUSY, render.RELOAD_SECONDS)
            try:
                return self._made(request.path, page, fields)
            finally:
                self._turn.release()
        finally:
            self._slots.release()

    def _made(self, path: str, page: Callable[[dict[str, str]], Page], fields: dict[str, str]) -> Answer:
        began = self._begin()
        try:
            made = page(fields)
        except UserError as error:
            status = HTTPStatus.NOT_FOUND if isinstance(error, UsageError) else HTTPStatus.SERVICE_UNAVAILABLE
            content = Content(render.alert(ui.NOT_SHOWN, error.lines))
            made = Page(render.TABS.get(path, ui.EXPLANATION), content, status)
        finally:
            self._spent += self._clock() - began
        view, nonce = self._view, secrets.token_urlsafe(16)
        at = ui.as_of(time=render_time(view.seen.now)) if view is not None and view.seen.now else ""
        of = " ".join(filter(None, (made.about, at)))
        headers = {**_HEADERS, "Content-Security-Policy": _POLICY.format(nonce=nonce)}
        live = ""
        if path in _RELOADED and made.status is HTTPStatus.OK:
            paused = fields.pop("pause", "") == "1"
            headers |= {} if paused else {"Refresh": str(render.RELOAD_SECONDS)}
            other = urlencode(fields if paused else {**fields, "pause": "1"})
            live = render.live(f"{path}?{other}" if other else path, paused=paused)
        body = render.whole(path, made.title, of, made.content, nonce, live=live).encode()
        return Answer(made.status, _HTML, body, headers)

    def _begin(self) -> float:
        """The time at which work begins, if it may: not all of a process that schedules is for pages."""
        now = self._clock()
        self._spent = max(0.0, self._spent - (now - self._spent_at) / _REST)
        self._spent_at = now
        if self._source.schedules and self._spent > _BURST_SECONDS:
            seconds = math.ceil((self._spent - _BURST_SECONDS) * _REST)
            raise RefusedError(HTTPStatus.SERVICE_UNAVAILABLE, ui.rests(seconds=seconds), seconds)
        return now

    # -- clients -------------------------------------------------------------------------------------------

    def _check(self, request: Request) -> None:
        """Pages of other sites get nothing: not under a name that has come to mean this address, and not by a form."""
        host = request.headers.get("Host", "")
        if not self._hosts.serves(host):
            raise RefusedError(HTTPStatus.MISDIRECTED_REQUEST, ui.host_refused(host=host[:100]))
        if request.verb != "post":
            return
        origin, fetched = request.headers.get("Origin"), request.headers.get("Sec-Fetch-Site")
        ours = origin.partition("://")[2] == host if origin is not None else fetched in (None, "same-origin")
        if not ours or fetched not in (None, "same-origin"):
            raise RefusedError(HTTPStatus.FORBIDDEN, ui.OTHER_SITE)

    def _admit(self, request: Request, token: str) -> Answer | None:
        """Return None for who knows the secret. Its address is opened once: a cookie has the secret from then on."""
        own = f"{_COOKIE}-{request.headers.get('Host', '').rpartition(':')[2]}"  # cookies are those of all ports
        cookies = dict(each.strip().partition("=")[::2] for each in request.headers.get("Cookie", "").split(";"))
        for given in (cookies.get(own, ""), token_in(request.headers.get("Authorization", ""), passwords=True)):
            if hmac.compare_digest(given.encode(), self._secret.encode()):
                return None
        if not hmac.compare_digest(token.encode(), self._secret.encode()):
            raise RefusedError(HTTPStatus.FORBIDDEN, ui.NOT_ADMITTED)
        cookie = f"{own}={self._secret}; Path=/; HttpOnly; SameSite=Lax"
        return Answer(HTTPStatus.SEE_OTHER, _HTML, b"", {**_HEADERS, "Location": render.ROOT, "Set-Cookie": cookie})

    def _sent(self, request: Request) -> dict[str, str]:
        if request.headers.get("Content-Type", "").partition(";")[0].strip().lower() != _FORM:
            raise RefusedError(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, ui.FORM_TYPE)
        try:
            text = request.body(MOST_SENT).decode("ascii")
        except UnicodeDecodeError:
            raise RefusedError(HTTPStatus.BAD_REQUEST, ui.FORM_TYPE) from None
        return _fields_of(text, ui.FORM_TYPE)

    # -- what is shown -------------------------------------------------------------------------------------

    def _pages(self) -> dict[str, Callable[[dict[str, str]], Page]]:
        return {
            render.ROOT: self._gangs,
            render.EXPLAIN: self._explain,
            f"{render.ROOT}/nodes": self._nodes,
            f"{render.ROOT}/queues": self._queues,
            f"{render.ROOT}/evictions": self._evictions,
            f"{render.ROOT}/plan": self._plan,
        }

    def _current_view(self) -> View:
        """Return the state of now, or of a short time ago."""
        view, began = self._view, self._clock()
        rest = _REST * view.seconds if view is not None and self._source.schedules else 0.0
        if view is not None and began < view.at + max(_FRESH_SECONDS, rest):
            return view
        seen = self._source.see()
        decides = not seen.partial and not self._source.schedules
        state = State(seen.events, seen.options, seen.now, decides=decides, leads=seen.leads, seconds=PLAN_SECONDS)
        decisions = {decision.gang: decision for decision, _ in state.decisions}
        lead = [self._source.lead(seen), *([seen.scope.notice] if seen.scope is not None and seen.partial else [])]
        if decides and state.partial:
            lead.append(ui.cut(decided=pluralize(len(decisions), "gang"), seconds=PLAN_SECONDS))
        found = list(get.rows(state.scheduler, decisions, seen.now, as_said=seen.partial or seen.leads))
        summed = summary(seen.events, sum(row.state in get.WAITS for row in found))
        ended = self._clock()
        view = self._view = View(seen, state, found, lead, summed, ended, ended - began)
        self._forgets.cancel()
        self._forgets = threading.Timer(_KEPT_SECONDS, self._forget)
        self._forgets.daemon = True
        self._forgets.start()
        return view

    def _forget(self) -> None:
        self._view = None

    def _gangs(self, fields: dict[str, str]) -> Page:
        view = self._current_view()
        waiting = bool(fields.get("waiting"))
        chosen = render.Choice(fields.get("namespace", ""), waiting, fields.get("text", ""), fields.get("sort", ""))
        return Page(ui.GANGS, render.gangs(view.rows, view.seen.now, view.summary, view.lead, chosen))

    def _explain(self, fields: dict[str, str]) -> Page:
        view = self._current_view()
        space, kind, name = named(fields.get("name", ""), fields.get("namespace") or None)
        space = space or view.seen.namespace or "default"
        found = explained(view.state, view.seen.reach, space, name, fields.get("kind", "") or kind)
        more = ui.ask_explain(name=name, namespace=space) if view.state.partial else ""
        title, about = render.title_of(found)
        return Page(title, render.explained(found, more, _pods_named(view, space, name)), about=about)

    def _nodes(self, _: dict[str, str]) -> Page:
        view = self._current_view()
        events, lead = view.state.drawn(), list(view.lead)
        gangs, nodes = gangs_by_plan(records(events, Pod)), records(events, Node)
        values = [(node.name, node.held.value) for node in nodes if node.held is not None]
        held = [standing.held(node=n, gang=gangs.get(plan.partition(".")[0], plan)) for n, plan in values]
        if held:
            lead.append(ui.held(held=join_names(held, _FEW)))
        if pods := waiting_for_room(events):
            lead.append(ui.nominated(pods=join_names([f"{p.key} ({p.nominated_node})" for p in pods], _FEW)))
        return Page(pictures.NODES, nodes_content(events, lead, render.link))

    def _queues(self, _: dict[str, str]) -> Page:
        view = self._current_view()
        managed = view.state.world.managed
        managed.update_holdings()
        return Page(ui.QUEUES, render.queues(list(queue_rows(managed.quota, managed.tally)), view.lead))

    def _evictions(self, _: dict[str, str]) -> Page:
        view = self._current_view()
        lines = self._source.evictions()
        if lines is None:
            return Page(ui.EVICTIONS, Content(render.alert(ui.NO_EVICTIONS, [ui.NO_RECORD])))
        return Page(ui.EVICTIONS, render.evictions(Record(lines, view.seen.now), view.lead))

    # -- a plan --------------------------------------------------------------------------------------------

    def _plan(self, fields: dict[str, str]) -> Page:
        text = fields.get("manifest", "").replace("\r\n", "\n")
        view = self._current_view()
        if not text:
            return Page(pictures.PLAN, render.plan_form("", view.lead))
        if (size := len(text.encode())) > MOST_TEXT:
            problem = ui.too_long(found=size // 1024, most=MOST_TEXT // 1024)
            return Page(pictures.PLAN, render.plan_form("", view.lead, [problem]), HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
        try:
            return self._planned(view.seen, text)
        except UserError as error:
            return Page(pictures.PLAN, render.plan_form(text, view.lead, error.lines), HTTPStatus.UNPROCESSABLE_ENTITY)

    def _planned(self, seen: Input, text: str) -> Page:
        """Return the decisions as if these manifests were applied."""
        if seen.partial and seen.scope is not None:
            raise UsageError(seen.scope.notice)
        above = plan.load_above(seen, [Text(ui.PASTED, text)])
        if len(above.events) > MOST_OBJECTS:
            raise UsageError(ui.too_many_objects(found=len(above.events), most=MOST_OBJECTS))
        state = State(overlaid(seen.events, above.events), seen.options, seen.now, seconds=PLAN_SECONDS)
        own = _named_in(above.events, state)
        mine = [each for each in state.decisions if (each[0].gang.namespace, each[0].gang.name) in own]
        others = len(state.decisions) - len(mine)
        if state.partial and not mine:
            raise UsageError(ui.not_reached(seconds=PLAN_SECONDS, decided=pluralize(others, "gang")))
        names = state.options.scheduler_names
        actions = {} if self._source.schedules or state.partial else plan.actions_for(state)
        found = Planned(
            mine or state.decisions,
            state.drained,
            names,
            plan.others_waiting(above.events, state.options),
            actions=actions,
            events=state.drawn(),
        )
        more = [ui.others(others=pluralize(others, "other gang"))] if mine and others else []
        return Page(pictures.PLAN, render.planned(found, text, [render_problem(each) for each in above.warnings], more))


def _fields_of(text: str, problem: str) -> dict[str, str]:
    """Return the fields of a query or a form. Raises :class:`RefusedError` with this ``problem`` if it has too many."""
    try:
        found = parse_qs(text, max_num_fields=MOST_FIELDS, errors="strict")
    except ValueError:
        raise RefusedError(HTTPStatus.BAD_REQUEST, problem) from None
    return {name: values[0] for name, values in found.items()}


def _named_in(events: Sequence[Event], state: State) -> set[tuple[str, str]]:
    """Namespace and name of the gangs that these objects are, or are members of."""
    found = set()
    for record in map(record_of, events):
        if isinstance(record, Pod):
            gang = state.world.pods.get(record.uid, record).gang
            found.add((gang.namespace, gang.name))
        elif isinstance(record, Gang | Job | JobSet):
            found.add((record.namespace, record.name))
    return found


def _pods_named(view: View, namespace: str, name: str) -> list[Pod]:
    """Return the pod of this name, or the pods of the gang or owner of this name, by name."""
    pods = view.state.world.pods.values()
    of_it = [
        pod
        for pod in pods
        if pod.namespace == namespace
        and (name in (pod.name, pod.gang.name) or (pod.owner is not None and pod.owner.name == name))
    ]
    return sorted(of_it, key=lambda pod: natural(pod.name))
