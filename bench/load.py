"""The load generator: the same loop for every client, so that only bytes differ between brokers.

A client (`bench.clients`, `bench.peers`) says which bytes ask for something and how many answers
the bytes that came back hold. The rest is here: connections, windows, time, latencies. Everything
runs in the bench's own process, on an `asyncio.Protocol` for each connection, with requests that
were written beforehand, so that the generator costs little and nothing that differs by broker.
"""

import asyncio
import math
import sys
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol, cast

WRITE_BUFFER_BYTES = 64 * 1024 * 1024  # never pause: windows bound what is written
ANSWER_S = 60.0  # nothing here waits longer for a broker


class LoadError(RuntimeError):
    """A broker answered with an error, or not at all: the figure would be a lie."""


class Client(Protocol):
    """How one connection begins."""

    def greeting(self) -> bytes:
        """What to write first; nothing where a connection is ready as it is."""

    def is_welcome(self, data: bytes) -> bool:
        """Whether what came so far says that the connection is ready."""


class SendClient(Client, Protocol):
    """A connection that sends messages and has each request answered."""

    per_request: int

    def requests(self, count: int) -> bytes:
        """The next `count` requests, each of `per_request` messages."""

    def answers(self, data: bytes) -> int:
        """How many requests are answered by `data` and what came before; LoadError for a no."""


class Taken(NamedTuple):
    """What one read brought: messages delivered, messages settled, what to write in return."""

    delivered: int
    settled: int
    reply: bytes


class TakeClient(Client, Protocol):
    """A connection that is given messages and acknowledges them in batches."""

    def begin(self) -> bytes:
        """What asks for the first messages."""

    def take(self, data: bytes) -> Taken:
        """Understand what came and acknowledge it."""


@dataclass
class Sample:
    """What one run moved, and the latencies it saw in seconds (empty where it looked at none)."""

    messages: int
    seconds: float
    latencies_s: list[float] = field(default_factory=list)


class Link(asyncio.Protocol):
    """One connection; `opened` and `finished` resolve, or carry what went wrong."""

    def __init__(self, client: Client) -> None:
        loop = asyncio.get_running_loop()
        self._client = client
        self._greeted = b""
        self.transport: asyncio.Transport | None = None
        self.opened: asyncio.Future[None] = loop.create_future()
        self.finished: asyncio.Future[None] = loop.create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.transport.set_write_buffer_limits(WRITE_BUFFER_BYTES)
        greeting = self._client.greeting()
        if greeting:
            self.write(greeting)
        else:
            self.opened.set_result(None)

    def data_received(self, data: bytes) -> None:
        try:
            if self.opened.done():
                self.on_data(data)
                return
            self._greeted += data
            if self._client.is_welcome(self._greeted):
                self.opened.set_result(None)
        except Exception as error:
            self._fail(error)

    def connection_lost(self, exc: Exception | None) -> None:
        self._fail(exc or LoadError("the broker closed the connection"))

    def on_data(self, data: bytes) -> None:
        """What came after the greeting."""
        raise NotImplementedError

    def write(self, data: bytes) -> None:
        """Send `data`; kept in memory until the broker takes it."""
        assert self.transport is not None
        self.transport.write(data)

    def finish(self) -> None:
        if not self.finished.done():
            self.finished.set_result(None)

    def close(self) -> None:
        self.finish()
        self.finished.exception()
        if self.transport is not None:
            self.transport.close()

    def _fail(self, error: Exception) -> None:
        for future in (self.opened, self.finished):
            if not future.done():
                future.set_exception(error)
                future.exception()  # seen: whoever waits for it still gets it


class SendLink(Link):
    """Keeps `window` requests unanswered until a time or a count, then waits for the last."""

    def __init__(self, client: SendClient, window: int) -> None:
        super().__init__(client)
        self._send_client = client
        self._window = window
        self._inflight = 0
        self._left = 0
        self._until_s = 0.0
        self._written_s = 0.0
        self.requests = 0
        self.latencies_s: list[float] = []

    def begin(self, *, until_s: float = math.inf, requests: int = sys.maxsize) -> None:
        """Write the first requests; `finished` resolves once all are answered."""
        self._until_s = until_s
        self._left = requests
        self._more(self._window)

    def one(self) -> None:
        """Write one request now, whatever is unanswered."""
        self._left = 1
        self._more(1)

    def on_data(self, data: bytes) -> None:
        count = self._send_client.answers(data)
        if not count:
            return
        now_s = time.perf_counter()
        if self._window == 1:
            self.latencies_s.append(now_s - self._written_s)
        self.requests += count
        self._inflight -= count
        if self._left and now_s < self._until_s:
            self._more(count)
        elif not self._inflight:
            self.finish()

    def _more(self, count: int) -> None:
        count = min(count, self._left)
        self._left -= count
        self._inflight += count
        requests = self._send_client.requests(count)
        self._written_s = time.perf_counter()
        self.write(requests)


class TakeLink(Link):
    """Takes and acknowledges until `total` messages are settled by all links that share a sum."""

    def __init__(self, client: TakeClient, total: int, on_taken: Callable[[int], None]) -> None:
        super().__init__(client)
        self._take_client = client
        self._total = total
        self._on_taken = on_taken
        self.settled = 0

    def begin(self) -> None:
        self.write(self._take_client.begin())

    def on_data(self, data: bytes) -> None:
        taken = self._take_client.take(data)
        if taken.reply:
            self.write(taken.reply)
        if taken.delivered:
            self._on_taken(taken.delivered)
        self.settled += taken.settled
        if self.settled >= self._total:
            self.finish()


async def connect(link: Link, port: int) -> None:
    """Open the connection and wait until the broker welcomes it."""
    await asyncio.get_running_loop().create_connection(lambda: link, "127.0.0.1", port)
    await within(link.opened)


async def within(future: "asyncio.Future[None]") -> None:
    """Wait for `future`; LoadError after `ANSWER_S`."""
    try:
        async with asyncio.timeout(ANSWER_S):
            await future
    except TimeoutError:
        raise LoadError(f"no answer within {ANSWER_S:g} s") from None


async def send_for(port: int, clients: Sequence[SendClient], window: int, seconds: float) -> Sample:
    """Send over one connection per client, each with `window` requests unanswered."""
    links = [SendLink(client, window) for client in clients]
    try:
        for link in links:
            await connect(link, port)
        began_s = time.perf_counter()
        for link in links:
            link.begin(until_s=began_s + seconds)
        for link in links:
            await within(link.finished)
        took_s = time.perf_counter() - began_s
    finally:
        for link in links:
            link.close()
    pairs = zip(links, clients, strict=True)
    messages = sum(link.requests * client.per_request for link, client in pairs)
    return Sample(messages, took_s, [one for link in links for one in link.latencies_s])


async def send_count(port: int, client: SendClient, window: int, messages: int) -> int:
    """Send at least `messages` as fast as the window allows; how many they were."""
    link = SendLink(client, window)
    try:
        await connect(link, port)
        link.begin(requests=-(-messages // client.per_request))
        await within(link.finished)
    finally:
        link.close()
    return link.requests * client.per_request


async def take_all(port: int, client: TakeClient, messages: int) -> Sample:
    """Take and acknowledge `messages` that are waiting."""
    link = TakeLink(client, messages, lambda _count: None)
    try:
        await connect(link, port)
        began_s = time.perf_counter()
        link.begin()
        await within(link.finished)
        return Sample(messages, time.perf_counter() - began_s)
    finally:
        link.close()


async def through(
    port: int, send_client: SendClient, take_client: TakeClient, *, rate: int, seconds: float
) -> Sample:
    """Send `rate` messages per second; latency is from writing one to having read it.

    Messages are paired in order of arrival; where two overtake each other within one read both
    get the latency that the other had, which changes no quantile.
    """
    written_s: deque[float] = deque()
    latencies_s: list[float] = []

    def on_taken(count: int) -> None:
        now_s = time.perf_counter()
        latencies_s.extend(now_s - written_s.popleft() for _ in range(count))

    total = round(rate * seconds)
    taker = TakeLink(take_client, total, on_taken)
    sender = SendLink(send_client, 1)
    try:
        await connect(taker, port)
        await connect(sender, port)
        taker.begin()
        began_s = time.perf_counter()
        for number in range(total):
            wait_s = began_s + number / rate - time.perf_counter()
            if wait_s > 0:
                await asyncio.sleep(wait_s)
            written_s.append(time.perf_counter())
            sender.one()
        await within(taker.finished)
        return Sample(total, time.perf_counter() - began_s, latencies_s)
    finally:
        taker.close()
        sender.close()
