"""The clients of the soak: one for each endpoint and for each kind of message.

A client is a turn that is taken again and again; what a killed server took with it is no error.
Through REST go plain, ordered, delayed, transactional and poison messages, through WebSocket plain
ones, and through gRPC what Apache RocketMQ's official Python client sends, where it is installed.
That client sends again by itself when an answer is lost, so that a message may be stored twice:
of its messages only the loss is looked for.
"""

import asyncio
import importlib
import itertools
import json
import queue
import random
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from websockets.asyncio.client import connect
from websockets.exceptions import WebSocketException

from bench.client import Connection, request
from bench.server import Server
from bench.soak_ledger import Ledger

ROOT = Path(__file__).parents[1]
BATCH = 20
INVISIBLE_MS = 3_000
RETRY_S = 0.05
DELAYS_MS = (200, 3_000)
FORGETS = 0.02  # the share of deliveries that a consumer leaves to their time-out
MESSAGE_GROUPS = 4
GRPC_LIMIT_S = 30.0
GRPC_INVISIBLE_S = 10
LOST = (
    OSError,
    asyncio.IncompleteReadError,
    RuntimeError,
    ValueError,
    TimeoutError,
    WebSocketException,
)
Turn = Callable[[Connection], Awaitable[None]]
PLAIN, FIFO, DELAYED = "soak", "soak-fifo", "soak-delayed"
PAID, POISON, SOCKET, GRPC = "soak-paid", "soak-poison", "soak-socket", "soak-grpc"
TYPES = {FIFO: "FIFO", DELAYED: "DELAY", PAID: "TRANSACTION"}
TOPICS = (PLAIN, FIFO, DELAYED, PAID, POISON, SOCKET, GRPC)


def post(path: str, body: dict[str, Any]) -> bytes:
    return request("POST", f"/api/v1/{path}", json.dumps(body).encode())


async def prepare(port: int) -> None:
    """Make topics of their types, and a group whose messages soon become dead letters."""
    async with await Connection.open(port) as connection:
        for topic in TOPICS:
            await connection.ask(
                post("topics", {"name": topic, "type": TYPES.get(topic, "NORMAL")})
            )
        await connection.ask(post("groups", {"name": POISON, "retry_max": 1}))
        await connection.ask(post("groups", {"name": FIFO, "ordered": True}))


class Clients:
    """All clients of one server; `run` goes on until the ledger says that it is over."""

    def __init__(self, server: Server, ledger: Ledger, seed: int) -> None:
        self._server = server
        self._port = server.port
        self._ledger = ledger
        self._chance = random.Random(seed)
        self._numbers = itertools.count()

    def all(self) -> list[Awaitable[None]]:
        """Each of them, to be run at once."""
        senders: list[Turn] = [self._plain, self._plain, self._delayed, self._paid, self._poison]
        senders += [self._fifo(number) for number in range(MESSAGE_GROUPS)]
        readers = (PLAIN, PLAIN, PLAIN, FIFO, DELAYED, PAID)
        return [
            *(self._over_connections(turn, self._is_sending) for turn in senders),
            *(
                self._over_connections(self._consuming(topic), self._ledger.is_draining)
                for topic in readers
            ),
            self._over_connections(self._refuse, self._ledger.is_draining),
            self._over_connections(self._count_dead, self._ledger.is_draining),
            self._socket_sender(),
            self._socket_reader(),
        ]

    def _is_sending(self) -> bool:
        return self._ledger.is_sending

    async def _over_connections(self, turn: Turn, goes_on: Callable[[], bool]) -> None:
        """Take turns on a connection; open a new one when the server took the last with it."""
        while goes_on():
            try:
                async with await Connection.open(self._port) as connection:
                    while goes_on():
                        await turn(connection)
            except LOST:
                await asyncio.sleep(RETRY_S)

    # -- REST: senders ---------------------------------------------------------------------------

    async def _plain(self, connection: Connection) -> None:
        bodies = [f"plain {next(self._numbers)}" for _ in range(BATCH)]
        document = {"messages": [{"body": body} for body in bodies]}
        await connection.ask(post(f"topics/{PLAIN}/messages", document))
        self._ledger.accepted.update(bodies)
        await asyncio.sleep(0.02)

    async def _delayed(self, connection: Connection) -> None:
        due_ms = time.time_ns() // 1_000_000 + self._chance.randrange(*DELAYS_MS)
        body = f"delayed {next(self._numbers)} {due_ms}"
        await connection.ask(
            post(f"topics/{DELAYED}/messages", {"body": body, "deliver_at_ms": due_ms})
        )
        self._ledger.accept(body)
        await asyncio.sleep(0.02)

    async def _poison(self, connection: Connection) -> None:
        body = f"poison {next(self._numbers)}"
        await connection.ask(post(f"topics/{POISON}/messages", {"body": body}))
        self._ledger.accept(body)
        await asyncio.sleep(0.1)

    def _fifo(self, number: int) -> Turn:
        """A sender of one message group: its next message follows the answer to the last."""

        async def turn(connection: Connection) -> None:
            body = f"fifo {number} {next(self._numbers)}"
            document = {"body": body, "message_group": str(number)}
            await connection.ask(post(f"topics/{FIFO}/messages", document))
            self._ledger.accept(body, str(number))
            await asyncio.sleep(0.05)

        return turn

    async def _paid(self, connection: Connection) -> None:
        """A half message, then a decision, asked for until the server says that it has it."""
        number = next(self._numbers)
        body, name = f"paid {number}", f"SOAK{number}"
        half = {"body": body, "id": name, "transaction_group": "soak-payers"}
        await connection.ask(post(f"topics/{PAID}/messages", half))
        is_kept = self._chance.random() < 0.7
        decide = post(f"transactions/{name}/{'commit' if is_kept else 'rollback'}", {})
        while True:
            try:
                async with await Connection.open(self._port) as other:
                    await other.ask(decide)
                break
            except LOST:
                if not self._ledger.is_sending:
                    return  # decided or not: nobody heard
                await asyncio.sleep(RETRY_S)
        if is_kept:
            self._ledger.accept(body)
        else:
            self._ledger.rolled_back.add(body)
        await asyncio.sleep(0.05)

    # -- REST: readers ---------------------------------------------------------------------------

    def _consuming(self, topic: str) -> Turn:
        """Receive and acknowledge; now and then forget what was received, so that it returns."""

        async def turn(connection: Connection) -> None:
            deliveries = await self._receive(connection, topic)
            if deliveries and self._chance.random() > FORGETS:
                await self._acknowledge(connection, topic, deliveries)

        return turn

    async def _receive(self, connection: Connection, topic: str) -> list[dict[str, Any]]:
        document = {"topic": topic, "max": 64, "invisible_ms": INVISIBLE_MS, "wait_ms": 500}
        asked_s = time.monotonic()
        answer = json.loads(await connection.ask(post(f"groups/{topic}/receive", document)))
        deliveries: list[dict[str, Any]] = answer["deliveries"]
        self._ledger.deliver([item["body"] for item in deliveries], asked_s)
        return deliveries

    async def _acknowledge(
        self, connection: Connection, topic: str, deliveries: list[dict[str, Any]]
    ) -> None:
        bodies = {item["receipt"]: item["body"] for item in deliveries}
        try:
            answer = await connection.ask(post(f"groups/{topic}/ack", {"receipts": list(bodies)}))
        except LOST:
            self._ledger.doubt(list(bodies.values()))
            raise
        self._note(list(bodies.values()), json.loads(answer)["results"])

    async def _refuse(self, connection: Connection) -> None:
        """Fail every message of a topic, until it is a dead letter."""
        deliveries = await self._receive(connection, POISON)
        nacks = [{"receipt": item["receipt"], "delay_ms": 100} for item in deliveries]
        if nacks:
            await connection.ask(post(f"groups/{POISON}/nack", {"nacks": nacks}))

    async def _count_dead(self, connection: Connection) -> None:
        """Look through all dead letters, when nothing is sent any more."""
        path = f"/api/v1/groups/{POISON}/dead-letters?limit=100"
        cursor = ""
        while not self._ledger.is_sending:
            after = f"&after={cursor}" if cursor else ""
            page = json.loads(await connection.ask(request("GET", path + after, b"")))
            self._ledger.bury([item["message"]["body"] for item in page["items"]])
            cursor = page.get("next_cursor") or ""
            if not cursor:
                break
        await asyncio.sleep(0.5)

    def _note(self, bodies: list[str], results: list[Any]) -> None:
        """The results stand in the order of the receipts."""
        for body, item in zip(bodies, results, strict=True):
            if (item if isinstance(item, str) else item["result"]) == "done":
                self._ledger.acknowledge(body)

    # -- WebSocket -------------------------------------------------------------------------------

    async def _socket_sender(self) -> None:
        while self._ledger.is_sending:
            try:
                async with connect(f"ws://127.0.0.1:{self._port}/ws/v1", proxy=None) as socket:
                    while self._ledger.is_sending:
                        await self._socket_send(socket)
            except LOST:
                await asyncio.sleep(RETRY_S)

    async def _socket_send(self, socket: Any) -> None:
        bodies = [f"socket {next(self._numbers)}" for _ in range(BATCH)]
        messages = [{"body": body} for body in bodies]
        await socket.send(
            json.dumps({"op": "send", "id": 1, "topic": SOCKET, "messages": messages})
        )
        if json.loads(await socket.recv())["op"] == "sent":
            self._ledger.accepted.update(bodies)
        await asyncio.sleep(0.05)

    async def _socket_reader(self) -> None:
        while self._ledger.is_draining():
            try:
                async with connect(f"ws://127.0.0.1:{self._port}/ws/v1", proxy=None) as socket:
                    await self._socket_take(socket)
            except LOST:
                await asyncio.sleep(RETRY_S)

    async def _socket_take(self, socket: Any) -> None:
        """Take what is pushed and acknowledge it, one delivery at a time."""
        waiting: dict[int, dict[str, str]] = {}  # by request: bodies by receipt
        numbers = itertools.count(2)
        subscribe = {"op": "subscribe", "id": 1, "group": SOCKET, "topics": {SOCKET: "*"}}
        asked_s = time.monotonic()
        await socket.send(json.dumps(subscribe | {"credit": 4096, "invisible_ms": INVISIBLE_MS}))
        try:
            while self._ledger.is_draining():
                try:
                    frame = json.loads(await asyncio.wait_for(socket.recv(), 1.0))
                except TimeoutError:
                    continue
                if frame["op"] == "result":
                    bodies = waiting.pop(frame["id"])
                    self._note(list(bodies.values()), frame["results"])
                elif frame["op"] == "deliver":
                    bodies = {item["receipt"]: item["body"] for item in frame["messages"]}
                    self._ledger.deliver(list(bodies.values()), asked_s)
                    number = next(numbers)
                    waiting[number] = bodies
                    ack = {"op": "ack", "id": number, "group": SOCKET, "receipts": list(bodies)}
                    more = {"op": "credit", "subscription": 1, "count": len(bodies)}
                    await socket.send(json.dumps(ack))
                    await socket.send(json.dumps({"id": 0} | more))
        finally:
            for bodies in waiting.values():
                self._ledger.doubt(list(bodies.values()))


class GrpcClients:
    """The official client, in a process of its own; `is_there` says whether it is installed."""

    def __init__(self, server: Server, ledger: Ledger, home: Path) -> None:
        driver: Any = importlib.import_module("tests.clients.official")
        self._ledger = ledger
        self._lost = (driver.ClientError, queue.Empty, OSError)
        self._official = driver.Official("python", f"127.0.0.1:{server.grpc_port}", home)
        self._decode = driver.body_of

    @staticmethod
    def is_there() -> bool:
        """Whether `tools/ensure_clients.sh` has installed it."""
        return (ROOT / "tests" / "clients" / ".venv" / ".installed").exists()

    async def run(self) -> None:
        """Send and take until the ledger says that it is over."""
        try:
            await asyncio.gather(self._send(), self._take())
        finally:
            await asyncio.to_thread(self._official.close)

    async def _send(self) -> None:
        producer = await self._made(lambda: self._official.producer(GRPC))
        for number in itertools.count():
            if producer is None or not self._ledger.is_sending:
                return
            body = f"grpc {number}"
            try:
                await asyncio.to_thread(producer.sending(GRPC, body), GRPC_LIMIT_S)
            except self._lost:
                await asyncio.sleep(RETRY_S)
            else:
                self._ledger.accept(body)
            await asyncio.sleep(0.02)

    async def _take(self) -> None:
        consumer = await self._made(lambda: self._official.simple(GRPC, {GRPC: "*"}))
        while consumer is not None and self._ledger.is_draining():
            try:
                for item in await asyncio.to_thread(consumer.receive, 16, GRPC_INVISIBLE_S):
                    await self._acknowledge(consumer, item)
            except self._lost:
                await asyncio.sleep(RETRY_S)

    async def _acknowledge(self, consumer: Any, item: dict[str, Any]) -> None:
        body = self._decode(item)
        try:
            await asyncio.to_thread(consumer.ack, item)
        except self._lost:
            self._ledger.doubt([body])
            raise
        self._ledger.acknowledge(body)

    async def _made(self, make: Callable[[], Any]) -> Any:
        """The client, tried until the server is there for long enough to make it."""
        while self._ledger.is_sending:
            try:
                return await asyncio.to_thread(make)
            except self._lost:
                await asyncio.sleep(1.0)
        return None
