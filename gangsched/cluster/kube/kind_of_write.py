"""A kind of write: its request, and what comes of an attempt, whether it succeeds, fails or has no answer."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Generic, NamedTuple, TypeAlias, TypeVar

from gangsched.cluster.kube.bodies import Request
from gangsched.cluster.kube.client import ApiError, Client
from gangsched.cluster.kube.preconditions import Preconditions
from gangsched.core.actions import Report
from gangsched.core.events import Outcome

A = TypeVar("A")

#: Kinds that evictions rest on, and bindings: a binding by an old cache may be onto a full node.
EVICTIONS_REST_ON = ("Pod", "Node", "PodDisruptionBudget")
BINDINGS_REST_ON = ("Pod", "Node")

#: An outcome, and why in words.
Verdict: TypeAlias = tuple[Outcome, str]


class Means(NamedTuple):
    """The tools of all kinds of writes: ``client`` reads the state after failed attempts, for at most
    ``timeout_seconds`` each time; ``preconditions`` know what the watch has brought; ``report`` takes what owners are
    to know; ``now`` is the wall clock (seconds); ``controller`` and ``instance`` sign Events;
    ``served`` returns the version in which a resource is watched.
    """

    client: Client
    preconditions: Preconditions
    timeout_seconds: float
    report: Callable[[Report], None]
    now: Callable[[], float]
    controller: str = ""
    instance: str = ""
    served: Callable[[str], str] = lambda _: "v1"


class KindOfWrite(Generic[A]):
    """One kind. A repeated write meets its own result, so repeating is safe."""

    #: It is repeated for as long as a write may take, and not only for a short time.
    patient = True
    #: Kinds that were looked at for it: it is not sent while what is known of them is too old.
    rests_on: Collection[str] = ()
    #: What is gone after an attempt without an answer is gone by that attempt, or by others: it is done.
    done_when_gone = False

    def __init__(self, means: Means) -> None:
        self.means = means

    def request(self, action: A) -> Request:
        """The request for an action that rests on nothing that has to be read."""
        raise NotImplementedError

    async def prepared(self, action: A) -> tuple[Request | None, Verdict | None]:
        """The request for an action, or what comes of it without one; neither when what it rests on could not be read.
        Raises :class:`ApiError` and :class:`~gangsched.cluster.kube.client.UnreachableError`.
        """
        return self.request(action), None

    async def judge(self, action: A, request: Request | None, error: ApiError) -> tuple[Verdict | None, Request | None]:
        """The outcome that an error means; None when the action should be tried again. Then with this request, or with
        one that is made anew.
        """
        return await self.outcome(action, error), self.retry_request(action, request)

    async def outcome(self, action: A, error: ApiError) -> Verdict | None:
        """The outcome that an error means; None when the action should be tried again."""
        if error.status == 404:
            return Outcome.GONE, error.message
        if error.status in (409, 422):
            return await self.conflict(action, error)
        return None if error.transient or error.status == 401 else (Outcome.REFUSED, error.message)

    async def conflict(self, action: A, error: ApiError) -> Verdict | None:
        """Return the meaning of a 409 or a 422, which may come from another object of that name."""
        return Outcome.REFUSED, error.message

    async def unanswered(self, action: A) -> Verdict | None:
        """Return the meaning of a missing answer: usually the write is repeated."""
        return None

    def retry_request(self, action: A, request: Request | None) -> Request | None:
        """Return what is sent after an attempt that has not succeeded. None means a request that is made anew."""
        return request

    def succeeded(self, action: A, request: Request, body: bytes) -> str:
        """An attempt has been answered with ``body``; what is to be known of that."""
        return ""

    def followed_by(self, action: A) -> Request | None:
        """What is sent after an action that has succeeded, whatever comes of it."""
        return None

    # -- between the decision and the sending --------------------------------------------------------------

    def objection(self, action: A, known: int) -> str:
        """Why an action that was decided when so many events had been taken in rests on what is not so any more, in
        words; else empty.
        """
        return ""

    def leaves(self, action: A) -> None:
        """Its bytes are about to leave."""

    def failed(self, action: A) -> None:
        """It is known that it has had no effect."""
