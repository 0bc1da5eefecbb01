"""The verbs by which endpoints, services and pages reach messages, whatever engine keeps them.

`EngineMessaging` answers them from the embedded engine, at once or after a wait. All are
asynchronous, so that an engine behind a network can stand in its place.

ADR 29 names the callers that still use the engine itself.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

from app.send_batcher import BatchSlice, Done
from engine.broker import (
    AckResult,
    Delivery,
    ExtendResult,
    Nack,
    PullResult,
    QueueContent,
    Receipt,
    Scheduled,
    ScheduledPage,
    TimerAnswer,
)
from engine.message import Durability, Message, StoredMessage


class Messaging(Protocol):
    """Sends, receives, settles and reads messages. Errors are those of `engine.errors`."""

    # -- sending --------------------------------------------------------------------------------

    async def send(
        self, messages: Sequence[Message], durability: Durability | None = None
    ) -> BatchSlice:
        """Store messages of one topic, all or none; returns once they have their durability.

        At most 4,096 messages and 4 MiB of bodies. Where flushing fails the messages are stored
        and the caller gets the error: sending again may store them twice.
        """
        ...

    def submit(
        self, messages: Sequence[Message], durability: Durability | None, done: Done
    ) -> None:
        """The same without a task: `done` is called once, with the result or the error."""
        ...

    # -- receiving and settling -----------------------------------------------------------------

    async def receive(
        self,
        group: str,
        topics: Mapping[str, str],
        *,
        count_max: int = 1,
        invisible_s: float = 60.0,
        wait_s: float = 0.0,
        client: str = "",
    ) -> list[Delivery]:
        """Deliver messages of `topics` (name to filter); waits up to `wait_s` for the first."""
        ...

    async def ack(self, group: str, receipts: Sequence[Receipt]) -> list[AckResult]:
        """Mark messages as done; one result for each receipt, in order."""
        ...

    async def nack(self, group: str, nacks: Sequence[Nack], client: str = "") -> list[AckResult]:
        """Report failures: the messages are delivered again later, or become dead letters."""
        ...

    async def extend(
        self, group: str, receipts: Sequence[Receipt], invisible_s: float
    ) -> list[ExtendResult]:
        """Keep messages invisible for longer."""
        ...

    async def renew(self, group: str, receipt: Receipt, invisible_s: float) -> Receipt | None:
        """Keep a message under a new receipt; None where `receipt` is stale."""
        ...

    async def release(self, group: str, receipts: Sequence[Receipt]) -> list[AckResult]:
        """Put messages back without counting an attempt."""
        ...

    async def held(self, group: str, client: str) -> list[Receipt]:
        """Receipts of the messages that are in flight at a client of a group."""
        ...

    async def receipt_until(
        self, group: str, topic: str, queue: int, offset: int, until_ms: int
    ) -> Receipt:
        """The receipt of the delivery whose invisible time ends then, else one not current."""
        ...

    # -- pulling --------------------------------------------------------------------------------

    async def pull(
        self,
        topic: str,
        queue: int,
        offset: int,
        *,
        count_max: int = 32,
        bytes_max: int = 256 * 1024,
        filter: str = "*",
        group: str = "",
        wait_s: float = 0.0,
    ) -> PullResult:
        """Read a queue from `offset`; waits up to `wait_s` for a match."""
        ...

    async def commit_offset(
        self, group: str, topic: str, queue: int, offset: int, client: str = ""
    ) -> bool:
        """Set a group's progress to any offset; False where a reset forbids it."""
        ...

    async def advance_offset(
        self, group: str, topic: str, queue: int, offset: int, client: str = ""
    ) -> bool:
        """All before `offset` is done; deliveries to other clients stay theirs."""
        ...

    async def committed_offset(
        self, group: str, topic: str, queue: int, client: str = ""
    ) -> int | None:
        """The offset before which everything is done; None where the group never consumed."""
        ...

    async def start_offset(self, group: str, topic: str, queue: int) -> int:
        """Where a pulling client begins without a committed offset."""
        ...

    async def send_back(
        self,
        group: str,
        topic: str,
        queue: int,
        offset: int,
        *,
        delay_level: int = 0,
        retry_max: int | None = None,
        error: str = "",
        client: str = "",
    ) -> None:
        """A pulling client failed with a message: deliver it again later, or give it up."""
        ...

    # -- reading --------------------------------------------------------------------------------

    async def message(self, topic: str, queue: int, offset: int) -> StoredMessage:
        """The message at an offset of a queue; MessageNotFound."""
        ...

    async def message_at(self, position: int) -> StoredMessage:
        """The record at a position of the log; MessageNotFound."""
        ...

    async def message_by_offset_id(self, offset_id: str) -> StoredMessage:
        """The record that an offset id names; MessageNotFound."""
        ...

    async def offset_at_time(self, topic: str, queue: int, at_ms: int) -> int:
        """The first offset of a queue stored at or after `at_ms`, else its end."""
        ...

    async def queue_bounds(self, topic: str, queue: int) -> tuple[int, int]:
        """The first offset that a queue keeps, and the next one to be stored."""
        ...

    async def queue_content(self, topic: str, queue: int, *, count_max: int) -> QueueContent:
        """The age of a queue's oldest message and the size of its newest `count_max`."""
        ...

    # -- scheduled messages ---------------------------------------------------------------------

    async def scheduled(
        self, *, topic: str = "", from_ms: int = 0, after: str = "", count_max: int = 50
    ) -> ScheduledPage:
        """Messages that wait for their time of delivery, the next one first."""
        ...

    async def find_scheduled(self, message_id: str) -> Scheduled | None:
        """The message with this message id or offset id, while it waits for its time."""
        ...

    async def recall(self, message_id: str) -> TimerAnswer:
        """Prevent the delivery of a scheduled message."""
        ...

    async def deliver_now(self, message_id: str) -> TimerAnswer:
        """Deliver a scheduled message at once."""
        ...

    async def reschedule(self, message_id: str, deliver_at_ms: int) -> TimerAnswer:
        """Give a scheduled message another time; Invalid for one over a year ahead."""
        ...
