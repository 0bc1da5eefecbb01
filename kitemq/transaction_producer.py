"""Transactions in synchronous code: the same as `kitemq.transactions`, for threads."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self, Unpack

from kitemq.background import Background
from kitemq.errors import KiteError, Stopped
from kitemq.transactions import (
    TIMEOUT_S,
    AsyncTransaction,
    AsyncTransactionProducer,
    Check,
    Decision,
    HalfMessageOptions,
    TransactionState,
    log,
)


class Transaction:
    """A half message that the server has; decide it once."""

    def __init__(self, background: Background, inner: AsyncTransaction) -> None:
        self._background = background
        self._inner = inner

    @property
    def id(self) -> str:
        """The transaction's id, which is the message's."""
        return self._inner.id

    @property
    def state(self) -> TransactionState:
        """The state at the last check or decision."""
        return self._inner.state

    def commit(self) -> TransactionState:
        """Deliver the message. Refused where it was rolled back; as `AsyncTransaction.commit`."""
        return self._background.call(self._inner.commit())

    def rollback(self) -> TransactionState:
        """Never deliver the message. Refused where it was committed."""
        return self._background.call(self._inner.rollback())


class TransactionProducer:
    """Sends transactional messages as `group`; thread-safe, use it with `with`, or start and stop.

    As `AsyncTransactionProducer`, whose parameters it takes; `checker` runs in a thread.
    """

    def __init__(
        self,
        group: str,
        server: str = "",
        *,
        checker: Callable[[Check], Decision] | None = None,
        client: str = "",
        timeout_s: float = TIMEOUT_S,
        ca: str = "",
    ) -> None:
        self._group_and_server = (group, server)
        self._options: dict[str, Any] = {
            "checker": checker,
            "client": client,
            "timeout_s": timeout_s,
            "ca": ca,
        }
        self._background: Background | None = None
        self._producer: AsyncTransactionProducer | None = None

    def start(self) -> None:
        """Connect; raises Unreachable where there is no server."""
        background = Background("kitemq-transactions")
        producer = AsyncTransactionProducer(*self._group_and_server, **self._options)
        try:
            background.call(producer.start())
        except BaseException:
            background.close()
            raise
        self._background, self._producer = background, producer

    def stop(self) -> None:
        """Answer no more checks, and leave. What is undecided stays so, and is checked."""
        if self._background is not None and self._producer is not None:
            self._background.call(self._producer.stop())
            self._background.close()
            self._background = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def begin(
        self, topic: str, body: bytes | str, **options: Unpack[HalfMessageOptions]
    ) -> Transaction:
        """Send the half message; options and errors are those of `AsyncTransactionProducer`."""
        background, producer = self._running()
        return Transaction(background, background.call(producer.begin(topic, body, **options)))

    @contextmanager
    def transaction(
        self, topic: str, body: bytes | str, **options: Unpack[HalfMessageOptions]
    ) -> Iterator[Transaction]:
        """Begin; commit at the end of the block, roll back where an exception leaves it.

        What was decided inside is left alone. A block that is left by Ctrl-C or `sys.exit` leaves
        the decision to the check.
        """
        transaction = self.begin(topic, body, **options)
        try:
            yield transaction
        except Exception:
            if transaction.state is TransactionState.PENDING:
                _try_rollback(transaction)
            raise
        if transaction.state is TransactionState.PENDING:
            transaction.commit()

    def decide(self, transaction_id: str, decision: Decision) -> TransactionState:
        """Decide any transaction of the group by its id; how it stands then."""
        background, producer = self._running()
        return background.call(producer.decide(transaction_id, decision))

    def _running(self) -> tuple[Background, AsyncTransactionProducer]:
        if self._background is None or self._producer is None:
            raise Stopped("the transaction producer is not started", remedy="use it with `with`")
        return self._background, self._producer


def _try_rollback(transaction: Transaction) -> None:
    """Roll back while another exception is on its way; where that fails, the check will."""
    try:
        transaction.rollback()
    except KiteError as error:
        log.warning("transaction %s was not rolled back: %s", transaction.id, error)
