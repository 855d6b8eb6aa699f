"""What the pages of tests show, and how they are asked for."""

from __future__ import annotations

import urllib.parse

from gangsched.cli.inputs import Input
from gangsched.core.events import Changed
from gangsched.core.options import Options
from gangsched.model.errors import UserError
from gangsched.model.records import Condition
from gangsched.runtime.http import Hosts, RefusedError, Request
from tests import builders
from tests.cli.worlds import HIGH, gang_job

LOCAL = Hosts("127.0.0.1")
PASTED = (
    f"{HIGH}{gang_job('new', 0, 60).replace('spec: {schedulerName', 'spec: {priorityClassName: high, schedulerName')}"
)


class Objects:
    """These objects, and these lines of the record."""

    def __init__(self, events, *, schedules=False, lines=()):
        self.events, self.schedules, self.lines, self.seen = events, schedules, lines, 0
        self.problem = None

    def see(self):
        self.seen += 1
        if self.problem:
            raise UserError(self.problem)
        return Input(list(self.events), Options(), 1000.0, "", [])

    def lead(self, seen):
        return "scheduler-1 leads"

    def evictions(self):
        return self.lines


def a_cluster():
    """Two nodes that are full, of which one is held, and a gang that waits for them."""
    waits = Condition("False", "Unschedulable", "not now: 0 of 2 members fit")
    return [
        *(Changed(builders.node(f"n{n}").cpu(4).label(rack=f"r{n}").obj()) for n in (1, 2)),
        Changed(builders.gang("runs").min(2).obj()),
        *(Changed(builders.pod(f"runs-{n}").gang("runs").cpu(4).on(f"n{n}").obj()) for n in (1, 2)),
        Changed(builders.gang("waits").min(2).obj()),
        *(
            Changed(
                builders.pod(f"waits-{n}").gang("waits").cpu(4).field(scheduled_condition=waits).nominated("n1").obj()
            )
            for n in (1, 2)
        ),
    ]


def asked(site, path, fields=None, **headers):
    """The status and the text of a page; ``fields`` are sent as its form sends them."""
    body = urllib.parse.urlencode(fields or {}).encode()
    headers = {
        "Host": "localhost:1",
        **({"Content-Type": "application/x-www-form-urlencoded"} if fields else {}),
        **headers,
    }
    path, _, query = path.partition("?")
    request = Request("post" if fields else "get", path, query, headers, lambda most: body[: most + 1])
    try:
        found = site.answer(request)
    except RefusedError as refused:
        found = refused.answer
    return found.status, found.body.decode(), found
