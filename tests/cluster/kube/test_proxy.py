"""Answers that last and answers that do not, directly, through a proxy, and through its tunnel to a server with TLS."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import math
import ssl
import time
from collections.abc import AsyncIterator, Callable, Iterable
from pathlib import Path
from typing import TypeAlias

import pytest

from gangsched.cluster.kube.connection import ConnectionConfigError, load_connection
from gangsched.cluster.kube.proxies import proxy_of
from gangsched.cluster.kube.session import Session, TooLargeError
from tests.controlplane.certificates import Certificates, create

#: The answer in pieces, sent one after another; None closes the connection, and at its end it stays open.
Script: TypeAlias = Iterable[bytes | None]
Open: TypeAlias = Callable[[Script], contextlib.AbstractAsyncContextManager[Session]]

HEAD = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nX-Word: here\r\n\r\n"
LASTING = [HEAD, b"3\r\nabc\r\n", b"2\r\n", b"de\r\n"]
REFUSED = [b"HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\n", b"no"]


#: A name in the certificate that no resolver knows: only a proxy brings us there.
FAR = "kubernetes.default"


class Server:
    """Answers every request with the script; ``seen`` has the heads of requests. As a proxy it makes a tunnel to
    ``behind``, if that is given, and otherwise answers for whatever it is asked.
    """

    def __init__(self, script: Script, behind: str | None = None) -> None:
        self.script = script
        self.behind = behind
        self.seen: list[str] = []
        self._writers: list[asyncio.StreamWriter] = []

    @contextlib.asynccontextmanager
    async def running(self, tls: ssl.SSLContext | None = None) -> AsyncIterator[str]:
        """Its address."""
        listening = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=tls)
        try:
            yield f"127.0.0.1:{listening.sockets[0].getsockname()[1]}"
        finally:
            for writer in self._writers:
                writer.transport.abort()
            listening.close()
            await asyncio.sleep(0.01)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.append(writer)
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                self.seen.append((await reader.readuntil(b"\r\n\r\n")).decode())
                if self.behind is not None:
                    await self._tunnel(reader, writer, self.behind)
                    return
                for piece in self.script:
                    if piece is None:
                        writer.close()
                        return
                    writer.write(piece)
                    await writer.drain()
                    await asyncio.sleep(0)

    async def _tunnel(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, to: str) -> None:
        host, _, port = to.rpartition(":")
        far_reader, far_writer = await asyncio.open_connection(host, int(port))
        self._writers.append(far_writer)
        writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        await asyncio.gather(_copy(reader, far_writer), _copy(far_reader, writer))


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(2**16):
        writer.write(data)
        await writer.drain()
    writer.close()


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    """Those of a server with TLS."""
    return create(tmp_path_factory.mktemp("certificates"))


def _tls(certificates: Certificates) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificates.server, certificates.server_key)
    return context


async def _pool(file: Path, server: str, proxy: str = "", authority: Path | None = None) -> Session:
    """What sends requests as a kubeconfig says it."""
    more = f", proxy-url: '{proxy}'" if proxy else ""
    more += f", certificate-authority: '{authority}'" if authority else ""
    file.write_text(  # noqa: ASYNC240
        "apiVersion: v1\nkind: Config\ncurrent-context: c\n"
        "contexts: [{name: c, context: {cluster: k, user: u}}]\n"
        f"clusters: [{{name: k, cluster: {{server: '{server}'{more}}}}}]\n"
        "users: [{name: u, user: {token: t}}]\n"
    )
    return (await load_connection(file)).session()


@pytest.fixture(params=["direct", "proxy", "tunnel", "tunnel through TLS"])
def reach(request: pytest.FixtureRequest, tmp_path: Path, certificates: Certificates) -> Open:
    """What sends requests to a server with this script: directly, through a proxy (which the server then plays), or
    with TLS through a proxy's tunnel, to which TLS leads as well.
    """

    @contextlib.asynccontextmanager
    async def open_to(script: Script) -> AsyncIterator[Session]:
        async with contextlib.AsyncExitStack() as stack:
            file, tls = tmp_path / "config", _tls(certificates)
            if request.param.startswith("tunnel"):
                secure = request.param.endswith("TLS")
                behind = await stack.enter_async_context(Server(script).running(tls))
                proxy = await stack.enter_async_context(Server([], behind).running(tls if secure else None))
                proxy = f"http{'s' * secure}://{proxy}"
                http = await _pool(file, f"https://{FAR}", proxy, certificates.ca)
            else:
                address = f"http://{await stack.enter_async_context(Server(script).running())}"
                proxied = request.param == "proxy"
                http = await _pool(file, "http://cluster.example", address) if proxied else await _pool(file, address)
            try:
                yield http
            finally:
                await http.aclose()

    return open_to


async def _follow(http: Session, silence_seconds: float = 60.0) -> tuple[int, str | None, bytes]:
    async with http.stream("/watch?a=b", {"X-Token": "t"}, silence_seconds) as answer:
        body = b"".join([chunk async for chunk in answer.chunks])
        return answer.status, answer.headers.get("x-word"), body


async def test_a_lasting_answer_to_its_end(reach: Open) -> None:
    """The body comes without the marks between its chunks, and ends where the server says so."""
    async with reach([*LASTING, b"0\r\n\r\n"]) as http:
        assert await _follow(http) == (200, "here", b"abcde")


async def test_a_lasting_answer_that_comes_at_once(reach: Open) -> None:
    """Nothing of it is missing, and nothing comes twice."""
    async with reach([b"".join([*LASTING, b"0\r\n\r\n"])]) as http:
        assert await _follow(http) == (200, "here", b"abcde")


async def test_an_answer_that_is_no_stream(reach: Open) -> None:
    """A refusal comes with its text."""
    async with reach(REFUSED) as http:
        assert await _follow(http) == (403, None, b"no")


async def test_pieces_come_as_they_arrive(reach: Open) -> None:
    """Nothing waits for the end of the answer."""
    async with reach(LASTING) as http, http.stream("/watch", {}, 60.0) as answer:
        got = b""
        async for chunk in answer.chunks:
            got += chunk
            if got == b"abcde":
                break
        assert answer.status == 200


@pytest.mark.parametrize("script", [[None], [HEAD, None], [*LASTING, None]], ids=["at once", "after head", "within"])
async def test_a_connection_that_breaks(reach: Open, script: Script) -> None:
    """It is an error, and not the end of the answer."""
    async with reach(script) as http:
        with pytest.raises(ConnectionError):
            await _follow(http)


@pytest.mark.parametrize("script", [[], [HEAD], LASTING], ids=["before head", "after head", "within"])
async def test_silence(reach: Open, script: Script) -> None:
    """Who hears nothing for too long gives up, whatever came before."""
    async with reach(script) as http:
        with pytest.raises(TimeoutError):
            await _follow(http, silence_seconds=0.05)


async def test_a_head_that_goes_on_and_on_is_silence(reach: Open) -> None:
    """Bytes that come all the time do not keep anybody waiting for an answer that does not begin."""
    async with reach(itertools.repeat(b"HTTP/1.1 100 Continue\r\n\r\n")) as http:
        async with asyncio.timeout(20.0) as test:
            with contextlib.suppress(TimeoutError):
                await _follow(http, silence_seconds=0.05)
        assert not test.expired()


@pytest.mark.parametrize(
    "script",
    [[*LASTING, b"0\r\n\r\n"], [b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", b"abcde"]],
    ids=["in chunks", "with a length"],
)
async def test_an_answer_that_is_too_large(reach: Open, script: Script) -> None:
    """It is not read to its end, and the next request gets its own answer."""
    async with reach(script) as http:
        for most in (4, 5):
            answer = http.request("GET", "/things", {}, None, time.monotonic() + 60.0, max_bytes=most)
            if most == 5:
                assert (await answer).body == b"abcde"
                continue
            with pytest.raises(TooLargeError):
                await answer


async def test_what_is_no_http(reach: Open) -> None:
    """An answer in another protocol is an error of the connection."""
    async with reach([b"SSH-2.0-OpenSSH_9.9\r\n\r\n"]) as http:
        with pytest.raises(ConnectionError):
            await _follow(http)


async def test_one_request(reach: Open) -> None:
    """Status, headers in lower case, and body, of a write and of a read."""
    async with reach([*LASTING, b"0\r\n\r\n"]) as http:
        for method, body in (("POST", b"{}"), ("GET", None)):
            answer = await http.request(method, "/things", {}, body, time.monotonic() + 60.0)
            assert (answer.status, answer.headers["x-word"], answer.body) == (200, "here", b"abcde")


async def test_a_write_after_its_fence(reach: Open) -> None:
    """It is not sent, and its caller is told that time is up."""
    async with reach(REFUSED) as http:
        with pytest.raises(TimeoutError):
            await http.request("POST", "/things", {}, b"{}", math.inf, fence=lambda: time.monotonic() - 1.0)


async def test_what_a_proxy_sees(tmp_path: Path, certificates: Certificates) -> None:
    """Of requests to a server with TLS: its address and our password there, nothing else; of others all."""
    server, proxy = Server([*LASTING, b"0\r\n\r\n"]), Server([])
    async with server.running(_tls(certificates)) as proxy.behind, proxy.running() as address:
        http = await _pool(tmp_path / "a", f"https://{FAR}:6443", f"http://us%40:p@{address}", certificates.ca)
        for _ in range(2):
            assert (await http.request("GET", "/x", {"A": "b"}, None, math.inf)).body == b"abcde"
        await http.aclose()
    [connect] = proxy.seen
    assert connect.startswith(f"CONNECT {FAR}:6443 HTTP/1.1\r\nHost: {FAR}:6443\r\n")
    assert "\r\nProxy-Authorization: Basic dXNAOnA=\r\n" in connect
    names = {line.partition(":")[0] for line in connect.split("\r\n")[1:] if line}
    assert names == {"Host", "User-Agent", "Accept", "Accept-Encoding", "Proxy-Authorization"}
    assert [each.splitlines()[:2] for each in server.seen] == [["GET /x HTTP/1.1", f"Host: {FAR}:6443"]] * 2
    plain = Server(REFUSED)
    async with plain.running() as address:
        http = await _pool(tmp_path / "b", "http://cluster.example/base", f"http://u:p@{address}")
        assert (await http.request("GET", "/x?y=z", {}, None, math.inf)).body == b"no"
        await http.aclose()
    [asked] = plain.seen
    assert asked.startswith("GET http://cluster.example/base/x?y=z HTTP/1.1\r\nHost: cluster.example\r\n")
    assert "Proxy-Authorization: Basic dTpw\r\n" in asked


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ([b"HTTP/1.1 407 Who are you\r\nContent-Length: 3\r\n\r\nno!"], "407"),
        ([None], "closed"),
        ([b"?\r\n\r\n"], "HTTP"),
    ],
    ids=["refused", "closed", "no HTTP"],
)
async def test_a_proxy_that_gives_no_tunnel(tmp_path: Path, script: Script, words: str) -> None:
    """There is no connection then, and the text says why."""
    async with Server(script).running() as address:
        http = await _pool(tmp_path / "config", f"https://{FAR}", f"http://{address}")
        with pytest.raises(ConnectionError, match=words):
            await http.request("GET", "/", {}, None, time.monotonic() + 60.0)
        await http.aclose()


async def test_a_proxy_that_says_nothing(tmp_path: Path) -> None:
    """It is not waited for longer than the request may take."""
    async with Server([]).running() as address:
        http = await _pool(tmp_path / "config", f"https://{FAR}", f"http://{address}")
        with pytest.raises(TimeoutError):
            await http.request("GET", "/", {}, None, time.monotonic() + 0.05)
        await http.aclose()


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Sets these variables, and no others that matter."""

    def set_to(**variables: str) -> None:
        for name in ("https_proxy", "http_proxy", "no_proxy"):
            for each in (name, name.upper()):
                monkeypatch.delenv(each, raising=False)
        for name, value in variables.items():
            monkeypatch.setenv(name, value)

    return set_to


def test_which_proxy(environment: Callable[..., None]) -> None:
    """That of the kubeconfig, else that of the environment, which is not for servers on this machine."""
    cluster, given = "https://cluster.example:6443", "http://given.example"
    environment()
    assert proxy_of(cluster, None) is None
    environment(https_proxy="proxy.example:3128")
    found = [proxy_of(*each) for each in ((cluster, given), (cluster, None))]
    assert found == [given, "http://proxy.example:3128"]
    for server in ("https://127.0.0.1:6443", "http://cluster.example"):
        assert proxy_of(server, None) is None


@pytest.mark.parametrize(
    ("excluded", "expected"),
    [
        ("", True),
        ("cluster.example", False),
        ("other.example, .example", False),
        ("*.example", False),
        ("luster.example", True),
        ("cluster.example:6443", False),
        ("cluster.example:443", True),
        ("10.0.0.0/8", True),
        ("*", False),
    ],
)
def test_servers_without_the_proxy(environment: Callable[..., None], excluded: str, expected: bool) -> None:
    """NO_PROXY lists names, domains and ports."""
    environment(HTTPS_PROXY="http://proxy.example", NO_PROXY=excluded)
    assert (proxy_of("https://Cluster.example:6443", None) is not None) == expected


@pytest.mark.parametrize(
    ("excluded", "expected"), [("10.96.0.0/12", False), ("10.96.0.1", False), ("10.0.0.1,cluster.example", True)]
)
def test_addresses_without_the_proxy(environment: Callable[..., None], excluded: str, expected: bool) -> None:
    """NO_PROXY lists addresses and blocks of them, among which that of the API server is for its pods."""
    environment(HTTPS_PROXY="http://proxy.example", NO_PROXY=excluded)
    assert (proxy_of("https://10.96.0.1:443", None) is not None) == expected


async def test_a_proxy_of_another_kind(tmp_path: Path) -> None:
    """It is refused at the start, with the file's name."""
    with pytest.raises(ConnectionConfigError, match=r"config.*socks5://"):
        await _pool(tmp_path / "config", "https://cluster.example", "socks5://proxy.example")
