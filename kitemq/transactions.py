"""Transactions in asyncio code: send a half message, do your own work, then commit or roll back.

The server keeps the message from everybody until it hears which. A producer that dies in between
is asked later, or another live one of its group is: `checker` answers from what was really done.
"""

import asyncio
import inspect
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Any, Self, Unpack
from urllib.parse import quote
from uuid import uuid4

import msgspec

from kitemq.calls import Json
from kitemq.connection import ServerConnection
from kitemq.errors import Busy, KiteError, Stopped, TimedOut, Unreachable
from kitemq.link import ServerLink
from kitemq.message import Message, MessageOptions, new_message
from kitemq.model.produce import NewMessageAlone
from kitemq.model.topics import Durability
from kitemq.model.transactions import Decision as Decision
from kitemq.model.transactions import TransactionState as TransactionState
from kitemq.protocol.properties import KEYS, RESERVED, TAGS, split_properties
from kitemq.protocol.transactions import COMMIT, ROLLBACK, UNKNOWN, DecideFrame
from kitemq.protocol.transactions import CheckFrame as CheckFrame

log = logging.getLogger("kitemq")

TIMEOUT_S = 10.0
RETRY_S = 0.05
CHECKS_MAX = 16  # answered at once; the others wait ...
CHECKS_WAITING_MAX = 1000  # ... up to so many: what is dropped is asked again


CODES = {Decision.COMMIT: COMMIT, Decision.ROLLBACK: ROLLBACK, Decision.UNKNOWN: UNKNOWN}


class Check(msgspec.Struct, frozen=True):
    """The server asks what became of this transaction; `number` counts from 1."""

    transaction_id: str
    group: str
    number: int
    topic: str
    body: bytes
    born_ms: int
    stored_ms: int
    property_block: bytes

    @property
    def properties(self) -> dict[str, str]:
        """The producer's own properties."""
        every = split_properties(self.property_block)
        return {name: value for name, value in every.items() if name not in RESERVED}

    @property
    def tag(self) -> str:
        return split_properties(self.property_block).get(TAGS, "")

    @property
    def keys(self) -> tuple[str, ...]:
        return tuple(split_properties(self.property_block).get(KEYS, "").split())

    @property
    def text(self) -> str:
        """The body as UTF-8; raises UnicodeDecodeError where it is none."""
        return self.body.decode()


Checker = Callable[[Check], Decision | Awaitable[Decision]]


class HalfMessageOptions(MessageOptions, total=False):
    """The keyword arguments of `begin` for those that pass them on."""

    queue: int
    transaction_id: str
    check_immunity_s: int
    durability: Durability | None


class AsyncTransaction:
    """A half message that the server has; decide it once."""

    def __init__(self, producer: "AsyncTransactionProducer", transaction_id: str) -> None:
        self._producer = producer
        self.id = transaction_id
        self.state = TransactionState.PENDING

    async def commit(self) -> TransactionState:
        """Deliver the message. Refused where it was rolled back.

        After Unreachable or TimedOut it may have been committed; the checker will be asked if not.
        """
        return await self._decide(Decision.COMMIT)

    async def rollback(self) -> TransactionState:
        """Never deliver the message. Refused where it was committed."""
        return await self._decide(Decision.ROLLBACK)

    async def _decide(self, decision: Decision) -> TransactionState:
        self.state = await self._producer.decide(self.id, decision)
        return self.state


class AsyncTransactionProducer:
    """Sends transactional messages as `group`; use it with `async with`, or `start` and `stop`.

    The topic must be of type TRANSACTION, or made by its first message. `checker` gets the checks
    of the whole group, whichever producer began the transaction; it may be a plain function, which
    runs in a thread, or a coroutine function, and at most 16 run at once. Without one, another
    producer, a callback or a polling client has to answer.

    A lost connection is made again. A call that finds none, or no answer, within `timeout_s` raises
    Unreachable or TimedOut.
    """

    def __init__(
        self,
        group: str,
        server: str = "",
        *,
        checker: Checker | None = None,
        client: str = "",
        timeout_s: float = TIMEOUT_S,
        ca: str = "",
    ) -> None:
        self.group = group
        self._checker = checker
        self._timeout_s = timeout_s
        self._link = ServerLink(
            server,
            client or f"txn-{uuid4().hex[:12]}",
            on_up=self._on_up,
            on_down=lambda: None,
            ca=ca,
        )
        self._error: KiteError | None = None
        self._turns = asyncio.Semaphore(CHECKS_MAX)
        self._checks: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Connect; raises Unreachable where there is no server."""
        await self._link.start()

    async def stop(self) -> None:
        """Answer no more checks, and leave. What is undecided stays so, and is checked."""
        self._error = self._error or Stopped("the transaction producer is stopped")
        checks = list(self._checks)
        for task in checks:
            task.cancel()
        await asyncio.gather(*checks, return_exceptions=True)
        await self._link.stop()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.stop()

    # -- transactions ---------------------------------------------------------------------------

    async def begin(
        self,
        topic: str,
        body: bytes | str,
        *,
        queue: int = -1,
        transaction_id: str = "",
        check_immunity_s: int = 0,
        durability: Durability | None = None,
        **options: Unpack[MessageOptions],
    ) -> AsyncTransaction:
        """Send the half message, invisible before `commit`. `options` are those of `Message`.

        `transaction_id` (letters and digits, at most 64) is the message's id, made where none is
        given; what is sent again under it is the same transaction. `check_immunity_s` keeps the
        first check off for longer, where the work between takes long. Raises Invalid, Refused (a
        topic of another type), Busy, Unreachable, TimedOut.
        """
        name = transaction_id or f"T{uuid4().hex.upper()}"
        half = new_message(
            Message(body=body, **options),
            NewMessageAlone,
            queue=queue,
            id=name,
            born_ms=time.time_ns() // 1_000_000,
            transaction_group=self.group,
            check_immunity_s=check_immunity_s,
            durability=Durability(durability) if durability else None,
        )
        await self._call("POST", f"/topics/{quote(topic, safe='')}/messages", half)
        return AsyncTransaction(self, name)

    @asynccontextmanager
    async def transaction(
        self, topic: str, body: bytes | str, **options: Unpack[HalfMessageOptions]
    ) -> AsyncIterator[AsyncTransaction]:
        """Begin; commit at the end of the block, roll back where an exception leaves it.

        A cancelled block leaves the decision to the check, as a process that dies does. What was
        decided inside is left alone. `options` are those of `begin`.
        """
        transaction = await self.begin(topic, body, **options)
        try:
            yield transaction
        except Exception:
            if transaction.state is TransactionState.PENDING:
                await _try_rollback(transaction)
            raise
        if transaction.state is TransactionState.PENDING:
            await transaction.commit()

    async def decide(self, transaction_id: str, decision: Decision) -> TransactionState:
        """Decide any transaction of the group by its id; how it stands then."""
        path = f"/transactions/{quote(transaction_id, safe='')}/{Decision(decision).value}"
        answer = await self._call("POST", path, params={"group": self.group})
        return TransactionState(answer["state"])

    # -- inside ---------------------------------------------------------------------------------

    async def _call(
        self, method: str, path: str, json: object = None, params: Json | None = None
    ) -> Json:
        """Call over whatever connection there is; again over the next one where it was lost.

        That is safe: a half message has its id, and a decision can be said twice.
        """
        last: KiteError = Unreachable(f"no connection to {self._link.url}")
        try:
            async with asyncio.timeout(self._timeout_s):
                while True:
                    if self._error is not None:
                        raise self._error
                    connection, wait_s = self._link.connection, RETRY_S
                    if connection is not None:
                        try:
                            return await connection.call(
                                method, path, json, params=params, timeout_s=self._timeout_s
                            )
                        except TimedOut:
                            raise
                        except Busy as error:
                            last, wait_s = error, error.retry_after_s
                        except Unreachable as error:
                            last = error
                    await asyncio.sleep(wait_s)
        except TimeoutError:
            if isinstance(last, Busy):
                raise last from None
            raise TimedOut(f"{last.detail}, for {self._timeout_s:g} s") from None

    def _on_up(self, connection: ServerConnection) -> None:
        if self._checker is None:
            return

        def answered(answer: "asyncio.Future[Any]") -> None:
            if not answer.cancelled() and answer.exception() is not None:
                log.warning("no checks of %s: %s", self.group, answer.exception())

        connection.want_checks(self.group, self._on_check).add_done_callback(answered)

    def _on_check(self, frame: CheckFrame) -> None:
        if self._error is not None or len(self._checks) >= CHECKS_MAX + CHECKS_WAITING_MAX:
            return
        task = asyncio.get_running_loop().create_task(self._answer(frame))
        self._checks.add(task)
        task.add_done_callback(self._checks.discard)

    async def _answer(self, frame: CheckFrame) -> None:
        check = Check(
            transaction_id=frame.transaction_id,
            group=frame.group,
            number=frame.number,
            topic=frame.topic,
            body=frame.body,
            born_ms=frame.born_ms,
            stored_ms=frame.stored_ms,
            property_block=frame.properties,
        )
        try:
            async with self._turns:
                decision = await self._decision_of(check)
        except Exception:
            log.exception("the checker failed for transaction %s", check.transaction_id)
            return
        connection = self._link.connection
        if connection is None or decision is Decision.UNKNOWN:
            return  # it is asked again
        try:
            frame_out = DecideFrame(
                check.transaction_id, CODES[decision], self.group, is_check=True
            )
            async with asyncio.timeout(self._timeout_s):
                await connection.request(frame_out)
        except (KiteError, TimeoutError) as error:
            log.warning("transaction %s: %s", check.transaction_id, error)

    async def _decision_of(self, check: Check) -> Decision:
        assert self._checker is not None
        if inspect.iscoroutinefunction(self._checker):
            return Decision(await self._checker(check))
        answer = await asyncio.to_thread(self._checker, check)
        return Decision(await answer if inspect.isawaitable(answer) else answer)


async def _try_rollback(transaction: AsyncTransaction) -> None:
    """Roll back while another exception is on its way; where that fails, the check will."""
    try:
        await transaction.rollback()
    except KiteError as error:
        log.warning("transaction %s was not rolled back: %s", transaction.id, error)
