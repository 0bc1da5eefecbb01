"""Replays the recorded session to KiteMQ and compares what it sends with what Apache sent.

The server's clock shows the time of each event, so that times mean the same as in the session. A
client's frame is written byte for byte, except for the places that the server chose itself and that
the client repeats: `Substitutions` exchanges those.
"""

import asyncio
import base64
from dataclasses import dataclass, field
from typing import Any

from protocol.remoting.codes import Flag
from protocol.remoting.codes import RequestCode as R
from protocol.remoting.frames import Command, decode, encode
from tests.remoting.golden.comparison import Difference, differences
from tests.remoting.golden.substitutions import KeyPair, Substitutions
from tests.remoting.port import Client, Running

LENGTH_BYTES = 4
LIMIT_S = 20.0  # for a frame, which usually takes milliseconds
CHECK_S = 1.0  # for a check, which need not come: Apache also asks about what is decided just then
BARRIER_OPAQUE = 1 << 30


@dataclass
class Exchange:
    """Two frames that take the same place, and what differs between them."""

    code: int
    version: int
    from_client: bool
    differences: list[Difference] = field(default_factory=list)


@dataclass
class _Connection:
    """A connection of the session, as it is repeated."""

    client: Client
    requests: dict[int, Command] = field(default_factory=dict)  # of the recorded client
    questions: dict[int, Command] = field(default_factory=dict)  # by the recorded number
    version: int = 0


class Replay:
    """Runs events one after the other; `exchanges` is the result."""

    def __init__(
        self, running: Running, start_ms: int, keys: tuple[KeyPair, KeyPair] | None = None
    ) -> None:
        self._running, self._start_ms = running, start_ms
        self._connections: dict[int, _Connection] = {}
        self._substitutions = Substitutions(keys)
        self._barriers = BARRIER_OPAQUE
        self.exchanges: list[Exchange] = []

    async def run(self, events: list[dict[str, Any]]) -> None:
        """Repeat all events, in their order."""
        for event in events:
            self._pass_time(event["at_ms"])
            connection = await self._connection(event["connection"])
            if event["side"] == "end":
                self._end(event["connection"], connection)
                await asyncio.sleep(0.002)
                continue
            command = decode(base64.b64decode(event["frame"])[LENGTH_BYTES:])
            if event["side"] == "client":
                await self._send(connection, base64.b64decode(event["frame"]), command)
            else:
                await self._receive(connection, command)

    def _pass_time(self, at_ms: int) -> None:
        ahead_ms = self._start_ms + at_ms - self._running.clock.now_ms()
        if ahead_ms > 0:
            self._running.advance(ahead_ms / 1000)

    async def _connection(self, number: int) -> _Connection:
        if number not in self._connections:
            self._connections[number] = _Connection(await self._running.connect())
        return self._connections[number]

    async def _send(self, connection: _Connection, frame: bytes, command: Command) -> None:
        if command.flag & Flag.RESPONSE:
            question = connection.questions.pop(command.opaque, None)
            if question is None:
                return
            command.opaque = question.opaque
            frame = encode(command)
        else:
            connection.version = command.version
            connection.requests[command.opaque] = decode(frame[LENGTH_BYTES:])
            if self._substitutions.exchange(command):
                frame = encode(command)
        connection.client.writer.write(frame)
        if command.flag & (Flag.ONE_WAY | Flag.RESPONSE):
            await self._barrier(connection)

    async def _barrier(self, connection: _Connection) -> None:
        """Wait until the server has processed what needs no answer."""
        self._barriers += 1
        barrier = Command(int(R.GET_UNIT_TOPIC_LIST), self._barriers)
        connection.client.writer.write(encode(barrier))
        await connection.client.answer(self._barriers)
        await asyncio.sleep(0.002)

    async def _receive(self, connection: _Connection, apache: Command) -> None:
        limit_s = CHECK_S if apache.code == R.CHECK_TRANSACTION_STATE else LIMIT_S
        if apache.flag & Flag.RESPONSE:
            request = connection.requests.pop(apache.opaque)
            exchange = Exchange(request.code, request.version, True)
            waiting = connection.client.answer(apache.opaque)
        else:
            request = apache
            exchange = Exchange(apache.code, connection.version, False)
            waiting = self._until_told(connection.client, apache)
        self.exchanges.append(exchange)
        try:
            async with asyncio.timeout(limit_s):
                kitemq = await waiting
        except TimeoutError:
            missing = Difference(exchange.code, "frame", "a frame", None)
            exchange.differences.append(missing)
            return
        self._substitutions.learn(request, apache, kitemq)
        if not apache.flag & Flag.RESPONSE:
            connection.questions[apache.opaque] = kitemq
        exchange.differences += differences(exchange.code, apache, kitemq)

    async def _until_told(self, client: Client, apache: Command) -> Command:
        """The server's request that is most like one of Apache."""
        while True:
            found = [each for each in client.told if each.code == apache.code]
            if found:
                best = min(found, key=lambda each: len([*differences(apache.code, apache, each)]))
                client.told.remove(best)
                return best
            client.told.append(await client.until_told(apache.code))

    def _end(self, number: int, connection: _Connection) -> None:
        connection.client.writer.close()
        for command in connection.client.told:
            extra = Difference(command.code, "frame", None, "a frame")
            self.exchanges.append(Exchange(command.code, connection.version, False, [extra]))
        del self._connections[number]
