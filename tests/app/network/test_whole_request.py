"""Requests with a known head are answered as those that are parsed, whatever arrives when."""

import asyncio
import random
import socket
from collections.abc import Sequence
from typing import Any

import pytest
import uvicorn
from starlette.types import Receive, Scope, Send
from uvicorn.server import ServerState

from app.connection_settings import ConnectionSettings
from app.eager import EAGER
from app.network.connection_limits import ConnectionLimits
from app.network.connection_monitor import ConnectionMonitor
from app.network.http_connection import HttpConnection
from app.network.open_files import FileShares
from app.network.whole_request import HEADS_MAX, Answer, KnownHead, KnownHeads

LIMIT_S = 10.0
PAUSE_S = 0.02  # for a piece to arrive alone
SIZES = (0, 1, 30)


class NoHeads(KnownHeads):
    """Knows none, so that every request is parsed."""

    def find(self, data: bytes) -> None:
        return None


class CountingHeads(KnownHeads):
    def __init__(self) -> None:
        super().__init__()
        self.hits = 0

    def find(self, data: bytes) -> tuple[KnownHead, bytes] | None:
        known = super().find(data)
        self.hits += known is not None
        return known


class DirectEcho:
    """Answers as `echo` does at the turn's end; bodies of some lengths take the ordinary way."""

    def begin(self, client: tuple[str, int] | None, body: bytes, answer: Answer) -> bool:
        if not body:
            return False
        loop = asyncio.get_running_loop()
        loop.call_soon(answer, None if len(body) == 1 else direct_answer(body))
        return True


def direct_answer(body: bytes) -> bytes:
    content = b"/direct " + body + b" "
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: %d\r\n\r\n"
    return head % len(content) + content


async def echo(scope: Scope, receive: Receive, send: Send) -> None:
    """Answers with the path and the body: at once, after a wait, or before the body is there."""
    path = scope["path"]
    scope[EAGER] = (lambda scope: DirectEcho()) if path == "/direct" else None
    body = b""
    while path != "/early":
        message = await receive()
        body += message.get("body", b"")
        if not message.get("more_body"):
            break
    if path == "/waits":
        await asyncio.sleep(0.001)
    if body == b"hold":
        assert (await receive())["type"] == "http.disconnect"
    if body == b"fail":
        raise ValueError("as asked")
    content = path.encode() + b" " + body + b" " + scope["query_string"]
    headers = [(b"content-type", b"text/plain"), (b"content-length", b"%d" % len(content))]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": content})


def request(path: str, body: bytes, *headers: str) -> bytes:
    lines = [f"POST {path} HTTP/1.1", "host: here", *headers, f"content-length: {len(body)}"]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


class Conversation:
    """A client's end of one connection, and the server's."""

    def __init__(self) -> None:
        self.state = ServerState()
        self.server: HttpConnection
        self.reader: asyncio.StreamReader
        self.writer: asyncio.StreamWriter

    async def open(self, heads: KnownHeads) -> "Conversation":
        loop = asyncio.get_running_loop()
        config = uvicorn.Config(echo, http="httptools", lifespan="off", log_config=None)
        config.load()
        settings = ConnectionSettings()
        limits = ConnectionLimits(settings, FileShares(1000, 500), loop.time)
        slot = limits.take("127.0.0.1")
        assert slot is not None
        monitor = ConnectionMonitor(settings, limits)
        ours, theirs = socket.socketpair()
        _, self.server = await loop.connect_accepted_socket(
            lambda: HttpConnection(config, self.state, {}, slot=slot, monitor=monitor, heads=heads),
            ours,
        )
        self.reader, self.writer = await asyncio.open_connection(sock=theirs)
        return self

    async def send(self, piece: bytes, pause_s: float = 0.0) -> None:
        self.writer.write(piece)
        await self.writer.drain()
        if pause_s:
            await asyncio.sleep(pause_s)

    async def answer(self) -> tuple[bytes, bytes]:
        """The head and the body of the next answer."""
        async with asyncio.timeout(LIMIT_S):
            head = await self.reader.readuntil(b"\r\n\r\n")
            length = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0])
            return head, await self.reader.readexactly(length)

    async def close(self) -> None:
        self.writer.close()
        await self.writer.wait_closed()


def talk(
    heads: KnownHeads, first: bytes, pieces: Sequence[bytes], pauses: Sequence[float], count: int
) -> Any:
    """The answers of `first`, twice, and of `count` requests that are sent in these pieces."""

    async def story() -> Any:
        with_server = await Conversation().open(heads)
        for _ in range(2):
            await with_server.send(first)
            await with_server.answer()
        sending = asyncio.create_task(_send_all(with_server, pieces, pauses))
        answers = [await with_server.answer() for _ in range(count)]
        await sending
        await with_server.close()
        return answers

    return asyncio.run(story())


async def _send_all(
    conversation: Conversation, pieces: Sequence[bytes], pauses: Sequence[float]
) -> None:
    for piece, pause_s in zip(pieces, pauses, strict=True):
        await conversation.send(piece, pause_s)


@pytest.mark.parametrize("seed", range(40))
def test_answers_are_those_of_parsed_requests(seed: int) -> None:
    """Requests of few kinds, cut anywhere, one after another or many at once."""
    randoms = random.Random(seed)
    paths = ["/a", *randoms.choices(["/direct", "/direct", "/waits", "/early", "/a?b=1"], k=3)]
    kinds = [request(path, b"x" * randoms.choice(SIZES)) for path in paths]
    requests = randoms.choices(kinds, k=30)
    pieces: list[bytes] = []
    for each in requests:
        cut = randoms.choice([0, 0, 0, randoms.randrange(len(each))])
        parts = [each[:cut], each[cut:]] if cut else [each]
        if pieces and randoms.random() < 0.2:
            pieces[-1] += parts.pop(0)
        pieces += parts
    pauses = [randoms.choice([0.0, 0.003, 0.003, 0.003]) for _ in pieces]
    heads = CountingHeads()
    first = kinds[0]
    assert talk(heads, first, pieces, pauses, 30) == talk(NoHeads(), first, pieces, pauses, 30)
    assert heads.hits  # the short way was taken


def test_a_body_that_looks_like_a_known_request_is_a_body() -> None:
    """The rest of a body whose request was answered early is no request of its own."""
    inner = request("/a", b"inner")
    outer = request("/early", inner + b"tail")

    async def story() -> None:
        heads = CountingHeads()
        first = await Conversation().open(heads)
        await first.send(inner)
        assert (await first.answer())[1] == b"/a inner "
        hits = heads.hits
        await first.send(outer[: -len(inner) - 4], PAUSE_S)
        assert (await first.answer())[1] == b"/early  "
        await first.send(inner, PAUSE_S)
        await first.send(b"tail" + request("/a", b"own"))
        assert (await first.answer())[1] == b"/a own "
        assert heads.hits == hits
        await first.close()

    asyncio.run(story())


def test_a_stop_waits_for_the_answer() -> None:
    async def story() -> None:
        server = await Conversation().open(KnownHeads())
        for _ in range(2):
            await server.send(request("/waits", b"1"))
            await server.answer()
        await server.send(request("/waits", b"2"))
        while not server.state.tasks:
            await asyncio.sleep(0)
        server.server.shutdown()
        assert (await server.answer())[1] == b"/waits 2 "
        assert not await server.reader.read()  # closed
        await server.close()

    asyncio.run(story())


def test_a_client_that_left_ends_what_waits_for_it() -> None:
    async def story() -> None:
        heads = CountingHeads()
        server = await Conversation().open(heads)
        await server.send(request("/a", b"fine"))
        await server.answer()
        await server.send(request("/a", b"hold"), PAUSE_S)
        assert heads.hits == 1
        assert server.state.tasks
        await server.close()
        async with asyncio.timeout(LIMIT_S):
            while server.state.tasks:
                await asyncio.sleep(0.001)

    asyncio.run(story())


def test_a_request_that_fails_ends_its_connection() -> None:
    async def story() -> None:
        heads = CountingHeads()
        server = await Conversation().open(heads)
        await server.send(request("/a", b"fine"))
        await server.answer()
        await server.send(request("/a", b"fail"), PAUSE_S)
        assert heads.hits == 1
        assert not await server.reader.read()
        await server.close()

    asyncio.run(story())


def test_no_more_heads_are_kept_than_the_limit() -> None:
    heads = KnownHeads()
    for index in range(HEADS_MAX + 10):
        heads.learn(request(f"/{index}", b""), scope_of(f"/{index}"))
    assert heads.find(request("/0", b"")) is None
    assert heads.find(request(f"/{HEADS_MAX + 9}", b"")) is not None


@pytest.mark.parametrize(
    "header", ["transfer-encoding: chunked", "expect: 100-continue", "upgrade: websocket"]
)
def test_special_heads_are_always_parsed(header: str) -> None:
    heads = KnownHeads()
    data = request("/a", b"", header)
    heads.learn(data, scope_of("/a", header))
    assert heads.find(data) is None


def scope_of(path: str, *headers: str) -> Scope:
    """The scope of `request` with an empty body."""
    lines = [line.split(": ") for line in ("host: here", *headers, "content-length: 0")]
    return {
        **{"type": "http", "asgi": {}, "http_version": "1.1", "root_path": "", "method": "POST"},
        **{"path": path, "raw_path": path.encode(), "query_string": b"", EAGER: None},
        "headers": [(name.encode(), value.encode()) for name, value in lines],
    }
