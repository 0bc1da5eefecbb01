"""One connection to a broker or name server: requests find their answers by number.

Requests are written at once, in their order; answers come in any order. At most REQUESTS_MAX are
under way, later ones wait for their turn within their own time. What the other side asks of a
client (transaction checks, replies, notices) goes to its owner, which names the code of the answer:
REQUEST_CODE_NOT_SUPPORTED for what it does not take.
"""

import asyncio
from collections.abc import Callable
from itertools import count
from typing import cast

from app.cluster.errors import ClusterNoAnswer, ClusterUnreachable
from app.tasks import settle
from protocol.remoting.codes import Flag, ResponseCode
from protocol.remoting.frames import INT_MAX, Command, FrameError, FrameReader, encode

FRAME_BYTES_MAX = 16 * 1024 * 1024  # Apache's own limit
REQUESTS_MAX = 16_384  # long polls among them
CONNECT_TIMEOUT_S = 3.0


# The code that answers a request of the other side, by its address; must return at once.
OnRequest = Callable[[str, Command], int]


def take_none(_address: str, _command: Command) -> int:
    """Takes no request."""
    return ResponseCode.REQUEST_CODE_NOT_SUPPORTED


class ClusterConnection(asyncio.Protocol):
    """A connection that `connect` made; it cannot be used again once `is_closed`."""

    def __init__(self, address: str, on_request: OnRequest = take_none) -> None:
        self.address = address
        self._on_request = on_request
        self.is_closed = False
        self._transport: asyncio.Transport | None = None
        self._reader = FrameReader(frame_bytes_max=FRAME_BYTES_MAX)
        self._numbers = count(1)
        self._waiting: dict[int, asyncio.Future[Command]] = {}
        self._slots = asyncio.Semaphore(REQUESTS_MAX)
        self._writable = asyncio.Event()
        self._writable.set()

    async def ask(self, command: Command, timeout_s: float) -> Command:
        """The answer to a request; ClusterUnreachable or, once it was sent, ClusterNoAnswer."""
        await asyncio.sleep(0)  # verbs may begin outside a task, which a timeout needs
        was_sent = False
        answer: asyncio.Future[Command] = asyncio.get_running_loop().create_future()
        number = command.opaque = next(self._numbers) & INT_MAX
        try:
            async with asyncio.timeout(timeout_s), self._slots:
                await self._writable.wait()
                if self.is_closed or self._transport is None:
                    raise ClusterUnreachable(f"the connection to {self.address} is closed")
                self._waiting[number] = answer
                self._transport.write(encode(command))
                was_sent = True
                return await answer
        except TimeoutError:
            kind = ClusterNoAnswer if was_sent else ClusterUnreachable
            raise kind(f"{self.address} did not answer within {timeout_s:g} s") from None
        finally:
            self._waiting.pop(number, None)

    def close(self) -> None:
        """Close it; requests under way get ClusterNoAnswer."""
        self._end("was closed")
        if self._transport is not None:
            self._transport.abort()

    # -- asyncio.Protocol -----------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._reader.add(data)
        try:
            for command in self._reader.frames():
                self._take(command)
        except FrameError as error:
            self._end(f"brought {error}")
            self.close()

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def connection_lost(self, error: Exception | None) -> None:
        self._end(f"was lost: {error}" if error else "was closed by the other side")

    def _take(self, command: Command) -> None:
        if command.is_answer:
            if waiting := self._waiting.get(command.opaque):
                settle(waiting, command)
            return
        code = self._on_request(self.address, command)
        if not command.is_one_way and self._transport is not None:
            self._transport.write(encode(Command(code, command.opaque, Flag.RESPONSE)))

    def _end(self, why: str) -> None:
        self.is_closed = True
        self._writable.set()  # who waits to write finds it closed
        for waiting in self._waiting.values():
            settle(waiting, None, ClusterNoAnswer(f"the connection to {self.address} {why}"))


async def connect(address: str, on_request: OnRequest = take_none) -> ClusterConnection:
    """A connection to "host:port"; ClusterUnreachable."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal():
        raise ClusterUnreachable(
            f"{address!r} is no address", remedy="as in 127.0.0.1:9876, several between semicolons"
        )
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(CONNECT_TIMEOUT_S):
            _, connection = await loop.create_connection(
                lambda: ClusterConnection(address, on_request), host.strip("[]"), int(port)
            )
    except (OSError, OverflowError, TimeoutError) as error:
        why = str(error) or f"no connection within {CONNECT_TIMEOUT_S:g} s"
        raise ClusterUnreachable(f"{address}: {why}") from None
    return connection
