"""Sources of `gangsched ui` and /ui: files, a watched cluster, or the process that serves the page."""

from __future__ import annotations

import argparse
import asyncio
import threading
import time
from collections.abc import Sequence

from gangsched.cli.history import lines_in
from gangsched.cli.inputs import Followed, Input, follow_cluster, read_either, with_errors_contained
from gangsched.cluster.kube.client import ApiError, UnreachableError
from gangsched.cluster.kube.history import Line
from gangsched.messages import failures, standing, ui
from gangsched.model.errors import UserError
from gangsched.runtime import running
from gangsched.runtime.connecting import Scope
from gangsched.runtime.known import Known
from gangsched.runtime.process import Live

#: The leader is read at most so often.
_LEADER_SECONDS = 10.0


class Files:
    """Manifests, read anew for each view."""

    schedules = False

    def __init__(self, args: argparse.Namespace) -> None:
        self._args = args
        self.see()  # what cannot be read is an error of the command

    def see(self) -> Input:
        """See :class:`~gangsched.cli.ui_site.Source`."""
        return read_either(self._args)

    def lead(self, seen: Input) -> str:
        """See :class:`~gangsched.cli.ui_site.Source`."""
        return ui.of_files(sources=", ".join(self._args.sources))

    def evictions(self) -> None:
        """There is no record."""


class Cluster:
    """A cluster, watched with the rights of the user of the command, in a thread of its own."""

    schedules = False

    def __init__(self, args: argparse.Namespace) -> None:
        self._found: Followed = follow_cluster(args, args.namespace or "")
        self._namespace = args.namespace or self._found.namespace or "default"
        self._known = Known()
        self._now, self._scope = time.time(), Scope()
        self._failure: UserError | None = None
        self._running, self._asked_at = self._found.running, time.monotonic()
        batch = next(self._found.batches)  # what cannot be read is an error of the command
        self._known.record(batch.events)
        self._now, self._scope = batch.now, batch.scope
        threading.Thread(target=self._follow, name="follow", daemon=True).start()

    def _follow(self) -> None:
        try:
            for events, now, scope in self._found.batches:
                self._known.record(events)
                self._now, self._scope = now, scope
        except UserError as error:
            self._failure = error

    def see(self) -> Input:
        """See :class:`~gangsched.cli.ui_site.Source`."""
        if self._failure is not None:
            raise self._failure
        reach = self._found.reach
        if time.monotonic() >= self._asked_at + _LEADER_SECONDS:
            self._running = reach.ask(lambda client: running.find_running(client, reach.configuration))
            self._asked_at = time.monotonic()
        return Input(
            self._known.events(),
            self._found.options,
            self._now,
            self._found.namespace,
            [],
            self._running,
            reach,
            self._scope,
        )

    def lead(self, seen: Input) -> str:
        """See :class:`~gangsched.cli.ui_site.Source`."""
        runs = self._running
        return standing.reading(connection=self._found.reach.connection, leader=runs.leader, whose=runs.whose)

    def evictions(self) -> Sequence[Line]:
        """See :class:`~gangsched.cli.ui_site.Source`."""
        reach = self._found.reach
        return asyncio.run(lines_in(reach.configuration, reach.connection, self._namespace))


class Own:
    """The state of the process that serves the page. Only the record of evictions is read from the cluster."""

    schedules = True

    def __init__(self, live: Live) -> None:
        self._live = live
        self._options = with_errors_contained(live.configuration.core_options())

    def see(self) -> Input:
        """See :class:`~gangsched.cli.ui_site.Source`."""
        if not self._live.kube.health().synced:
            raise UserError(failures.NOT_SYNCED)
        return Input(self._live.known.events(), self._options, self._live.kube.now(), "", [])

    def lead(self, seen: Input) -> str:
        """See :class:`~gangsched.cli.ui_site.Source`."""
        health = self._live.kube.health()
        if health.leading:
            return ui.leads_here(name=health.lease_holder or ui.THIS)
        leader = standing.leads(name=health.lease_holder, since="") if health.lease_holder else ui.NOBODY_LEADS
        return ui.stands_by(leader=leader)

    def evictions(self) -> Sequence[Line]:
        """See :class:`~gangsched.cli.ui_site.Source`."""
        try:
            return self._live.kube.evictions()
        except (ApiError, UnreachableError, TimeoutError) as error:
            raise UserError(ui.record_unreadable(why=error)) from None
