"""The verbs by which endpoints, services and pages reach messages, whatever engine keeps them.

`EngineMessaging` answers them from the embedded engine, at once or after a wait. All are
asynchronous, so that an engine behind a network can stand in its place. Callers without a task
begin a verb with `app.eager.run`, which calls back in the same turn of the event loop where the
engine answers at once. `submit`, `wait_to_receive` and `wait_to_pull` call back by themselves,
since what they wait for takes longer than a turn.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from app.send_batcher import BatchSlice, ColumnsDone, Done
from engine.broker import (
    AckResult,
    Assignment,
    Decider,
    Delivery,
    ExtendResult,
    GroupConfig,
    LockedQueue,
    LockResult,
    LongPoll,
    Member,
    MemberConnection,
    Nack,
    PullResult,
    QueueContent,
    QueueLock,
    Receipt,
    Scheduled,
    ScheduledPage,
    Strategy,
    TimerAnswer,
    TopicConfig,
    Transaction,
    TransactionCheck,
    TransactionDecision,
    TransactionPage,
)
from engine.message import Durability, Message, StoredMessage
from engine.message_columns import ColumnsResult, MessageColumns
from kitemq.model.server import Capabilities


class TransactionVerbs(Protocol):
    """Decides, checks and lists transactions."""

    async def decide(
        self,
        transaction_id: str,
        decision: TransactionDecision,
        *,
        group: str = "",
        by: Decider = Decider.PRODUCER,
    ) -> Transaction:
        """Commit, roll back or leave undecided; returns once that has its topic's durability.

        `group` restricts it to that producer group. MessageNotFound, TopicNotFound, DiskFull;
        Conflict after the opposite decision, or for an id of several transactions.
        """

    async def resume(self, transaction_id: str, *, group: str = "") -> Transaction:
        """Check a given-up transaction again; Conflict for any other."""

    async def get(self, transaction_id: str, *, group: str = "") -> Transaction:
        """The state of a transaction; MessageNotFound, Conflict as in `decide`."""

    async def pending(
        self, *, group: str = "", after: str = "", count_max: int = 50
    ) -> TransactionPage:
        """Undecided transactions of one group or all, oldest first, at most 200."""

    async def given_up(
        self, *, group: str = "", after: str = "", count_max: int = 50
    ) -> TransactionPage:
        """Undecided transactions that are no longer checked; as `pending`."""

    async def checks(self, group: str, count_max: int = 32) -> list[TransactionCheck]:
        """Take up to 32 checks that no producer was asked; they are the caller's for an interval.

        DiskFull, and then none is taken.
        """


class LockVerbs(Protocol):
    """Queue locks of orderly consumers."""

    async def lock(self, group: str, client: str, queues: Sequence[LockedQueue]) -> LockResult:
        """Lock up to 1,024 queues for a client, or extend its locks; lists those that it has."""

    async def unlock(
        self, group: str, client: str, queues: Sequence[LockedQueue]
    ) -> list[LockedQueue]:
        """Release a client's locks; returns those that it had. GroupNotFound."""

    async def of(self, group: str) -> list[QueueLock]:
        """The locks of a group by topic and queue; GroupNotFound."""


class MemberVerbs(Protocol):
    """Signs of life of a group's members, and the queues that they are assigned."""

    async def heartbeat(
        self,
        group: str,
        client: str,
        *,
        topics: Mapping[str, str] | None = None,
        version: str = "",
        language: str = "",
        address: str = "",
    ) -> Member:
        """A pulling consumer is alive and subscribes to `topics` (name to filter).

        Creates the group where that is allowed. Invalid, GroupNotFound; Refused for one too many.
        """

    async def seen(
        self,
        group: str,
        client: str,
        *,
        topics: Mapping[str, str] | None = None,
        address: str = "",
        version: str = "",
        language: str = "",
        creates: bool = False,
    ) -> None:
        """A client that receives or settles is alive; `creates` makes its group if need be."""

    async def connect(
        self, group: str, client: str, *, topics: Mapping[str, str], address: str = ""
    ) -> MemberConnection:
        """A client subscribes on a connection: it is alive until that is closed."""

    async def leave(self, group: str, client: str) -> bool:
        """Remove a member; False if it was none. Open connections keep theirs. GroupNotFound."""

    async def assignment(
        self,
        group: str,
        topic: str,
        client: str,
        *,
        strategy: Strategy | None = None,
        broker_name: str = "kitemq",
    ) -> Assignment:
        """The queues of a topic that a pulling client gets, by the group's strategy by default."""


class Messaging(Protocol):
    """Sends, receives, settles and reads messages. Errors are those of `engine.errors`."""

    @property
    def capabilities(self) -> Capabilities:
        """What the engine can do; `app.capabilities.require` refuses what it cannot."""

    @property
    def transactions(self) -> TransactionVerbs: ...

    @property
    def locks(self) -> LockVerbs: ...

    @property
    def members(self) -> MemberVerbs: ...

    # -- sending --------------------------------------------------------------------------------

    async def send(
        self, messages: Sequence[Message], durability: Durability | None = None
    ) -> BatchSlice:
        """Store messages of one topic, all or none; returns once they have their durability.

        At most 4,096 messages and 4 MiB of bodies. Where flushing fails the messages are stored
        and the caller gets the error: sending again may store them twice.
        """

    async def send_columns(
        self, columns: MessageColumns, durability: Durability | None = None
    ) -> BatchSlice | ColumnsResult:
        """The same for messages that came as columns."""
        ...

    def submit(
        self, messages: Sequence[Message], durability: Durability | None, done: Done
    ) -> None:
        """The same without a task: `done` is called once, with the result or the error."""

    def submit_columns(
        self, columns: MessageColumns, durability: Durability | None, done: ColumnsDone
    ) -> None:
        """The same for messages that came as columns; `done` gets what is known of either road."""
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
        queue: int | None = None,
    ) -> list[Delivery]:
        """Deliver messages of `topics` (name to filter); waits up to `wait_s` for the first.

        With `queue` they come from that queue of each topic alone, or from the group's retries.
        """

    def wait_to_receive(
        self,
        group: str,
        topics: Mapping[str, str],
        wake: Callable[[], None],
        client: str = "",
        queue: int | None = None,
    ) -> LongPoll:
        """Call `wake` once when `receive` may find something; raises what `receive` would, or Busy.

        Cancelling the result gives up the place; a wake that came already goes to another waiter.
        """

    async def ack(self, group: str, receipts: Sequence[Receipt]) -> list[AckResult]:
        """Mark messages as done; one result for each receipt, in order."""

    async def nack(self, group: str, nacks: Sequence[Nack], client: str = "") -> list[AckResult]:
        """Report failures: the messages are delivered again later, or become dead letters."""

    async def extend(
        self, group: str, receipts: Sequence[Receipt], invisible_s: float
    ) -> list[ExtendResult]:
        """Keep messages invisible for longer."""

    async def renew(self, group: str, receipt: Receipt, invisible_s: float) -> Receipt | None:
        """Keep a message under a new receipt; None where `receipt` is stale."""

    async def release(self, group: str, receipts: Sequence[Receipt]) -> list[AckResult]:
        """Put messages back without counting an attempt."""

    async def held(self, group: str, client: str) -> list[Receipt]:
        """Receipts of the messages that are in flight at a client of a group."""

    async def receipt_until(
        self, group: str, topic: str, queue: int, offset: int, until_ms: int
    ) -> Receipt:
        """The receipt of the delivery whose invisible time ends then, else one not current."""

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

    def wait_to_pull(
        self, topic: str, queue: int, offset: int, filter: str, wake: Callable[[], None]
    ) -> LongPoll:
        """Call `wake` once when a message at or past `offset` may match; Busy."""

    async def check_filter(self, filter: str) -> None:
        """Raise Invalid for a filter that cannot be parsed."""

    async def commit_offset(
        self, group: str, topic: str, queue: int, offset: int, client: str = ""
    ) -> bool:
        """Set a group's progress to any offset; False where a reset forbids it."""

    async def advance_offset(
        self, group: str, topic: str, queue: int, offset: int, client: str = ""
    ) -> bool:
        """All before `offset` is done; deliveries to other clients stay theirs."""

    async def committed_offset(
        self, group: str, topic: str, queue: int, client: str = ""
    ) -> int | None:
        """The offset before which everything is done; None where the group never consumed."""

    async def start_offset(self, group: str, topic: str, queue: int) -> int:
        """Where a pulling client begins without a committed offset."""

    async def is_young_queue(self, topic: str, queue: int) -> bool:
        """Whether RocketMQ starts a new group at the queue's beginning, see `StartAt.ROCKETMQ`."""

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

    # -- reading --------------------------------------------------------------------------------

    async def message(self, topic: str, queue: int, offset: int) -> StoredMessage:
        """The message at an offset of a queue; MessageNotFound."""

    async def message_at(self, position: int) -> StoredMessage:
        """The record at a position of the log; MessageNotFound."""

    async def message_by_offset_id(self, offset_id: str) -> StoredMessage:
        """The record that an offset id names; MessageNotFound."""

    async def offset_at_time(self, topic: str, queue: int, at_ms: int) -> int:
        """The first offset of a queue stored at or after `at_ms`, else its end."""

    async def queue_bounds(self, topic: str, queue: int) -> tuple[int, int]:
        """The first offset that a queue keeps, and the next one to be stored."""

    async def queue_content(self, topic: str, queue: int, *, count_max: int) -> QueueContent:
        """The age of a queue's oldest message and the size of its newest `count_max`."""

    # -- topics and groups, as far as messages need them -----------------------------------------

    async def topic(self, name: str) -> TopicConfig:
        """The settings of a topic; TopicNotFound."""

    async def plan_topic(self, name: str) -> TopicConfig:
        """A topic as the next message to it would find it, which may create it; TopicNotFound."""

    async def group(self, name: str) -> GroupConfig:
        """The settings of a consumer group; GroupNotFound."""

    async def is_broadcast(self, group: str) -> bool:
        """Whether each client of a group has offsets of its own; False for an unknown group."""

    # -- scheduled messages ---------------------------------------------------------------------

    async def scheduled(
        self, *, topic: str = "", from_ms: int = 0, after: str = "", count_max: int = 50
    ) -> ScheduledPage:
        """Messages that wait for their time of delivery, the next one first."""

    async def find_scheduled(self, message_id: str) -> Scheduled | None:
        """The message with this message id or offset id, while it waits for its time."""

    async def recall(self, message_id: str) -> TimerAnswer:
        """Prevent the delivery of a scheduled message."""

    async def deliver_now(self, message_id: str) -> TimerAnswer:
        """Deliver a scheduled message at once."""

    async def reschedule(self, message_id: str, deliver_at_ms: int) -> TimerAnswer:
        """Give a scheduled message another time; Invalid for one over a year ahead."""
