"""The verbs by which endpoints, services and pages reach messages, whatever engine keeps them.

Most are declared by the method of the embedded engine that answers them: its arguments, answer and
errors are theirs. All are asynchronous, so that an engine behind a network can stand in its place:
it derives from these classes and answers each verb by a method of its own. Callers without a task
begin a verb with `app.eager.run`, which calls back in the same turn of the event loop where the
engine answers at once. `submit`, `wait_to_receive` and `wait_to_pull` call back by themselves,
since what they wait for takes longer than a turn.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import wraps
from typing import Any, Concatenate, Generic, NamedTuple, ParamSpec, TypeVar

from app.send_batcher import BatchSlice, ColumnsDone, Done, LoneSends
from engine.broker import (
    Asker,
    Broker,
    Callback,
    CallbackTable,
    Decider,
    Delivery,
    LongPoll,
    Members,
    PullResult,
    QueueLocks,
    RequestCounts,
    RequestReply,
    Transaction,
    TransactionDecision,
    TransactionSubsystem,
)
from engine.message import Durability, Message, StoredMessage
from engine.message_columns import ColumnsResult, MessageColumns
from kitemq.model.server import Capabilities

E = TypeVar("E")
E_co = TypeVar("E_co", covariant=True)
P = ParamSpec("P")
T = TypeVar("T")


class VerbSet(ABC, Generic[E_co]):
    """Verbs that an engine, or a part of it, answers."""

    @property
    @abstractmethod
    def _engine(self) -> E_co:
        """What answers the verbs that no method of a subclass does."""


def verb(
    method: Callable[Concatenate[E, P], T],
) -> Callable[Concatenate[VerbSet[E], P], Coroutine[Any, Any, T]]:
    """The verb that a method of the engine answers at once, with the same arguments."""
    name = method.__name__

    @wraps(method)
    async def answer(verbs: VerbSet[E], /, *args: P.args, **kwargs: P.kwargs) -> T:
        result: T = getattr(verbs._engine, name)(*args, **kwargs)
        return result

    return answer


def wait_verb(
    method: Callable[Concatenate[E, P], LongPoll],
) -> Callable[Concatenate[VerbSet[E], P], LongPoll]:
    """The verb by which the engine calls back later, with the same arguments as its method."""
    name = method.__name__

    @wraps(method)
    def begin(verbs: VerbSet[E], /, *args: P.args, **kwargs: P.kwargs) -> LongPoll:
        place: LongPoll = getattr(verbs._engine, name)(*args, **kwargs)
        return place

    return begin


class TransactionVerbs(VerbSet[TransactionSubsystem]):
    """Decides, checks and lists transactions."""

    @property
    @abstractmethod
    def askers(self) -> list[Asker]:
        """Who is asked to answer a check, in order: the first that returns True passes it on."""

    @abstractmethod
    async def decide(
        self,
        transaction_id: str,
        decision: TransactionDecision,
        *,
        group: str = "",
        by: Decider = Decider.PRODUCER,
    ) -> Transaction:
        """As the engine's `decide`; returns once that has its topic's durability."""

    @property
    @abstractmethod
    def callbacks(self) -> CallbackTable:
        """The callbacks of producer groups, with their secrets."""

    @abstractmethod
    async def set_callback(self, callback: Callback) -> Callback:
        """Register one, in the place of an older one; Invalid, Busy, DiskFull."""

    @abstractmethod
    async def delete_callback(self, group: str) -> None:
        """Call a group no more; GroupNotFound where it has no callback."""

    resume = verb(TransactionSubsystem.resume)
    get = verb(TransactionSubsystem.get)
    pending = verb(TransactionSubsystem.pending)
    given_up = verb(TransactionSubsystem.given_up)
    checks = verb(TransactionSubsystem.checks)
    check_settings = verb(TransactionSubsystem.check_settings)

    async def remote_producers(self) -> dict[str, int]:
        """By group the producers that are asked elsewhere than at this server's connections."""
        return {}


class LockVerbs(VerbSet[QueueLocks]):
    """Queue locks of orderly consumers."""

    lock = verb(QueueLocks.lock)
    unlock = verb(QueueLocks.unlock)
    of = verb(QueueLocks.of)


class MemberVerbs(VerbSet[Members]):
    """Signs of life of a group's members, and the queues that they are assigned."""

    heartbeat = verb(Members.heartbeat)
    seen = verb(Members.seen)
    connect = verb(Members.connect)
    leave = verb(Members.leave)
    assignment = verb(Members.assignment)


class Answered(NamedTuple):
    """A request with its reply."""

    correlation_id: str
    message_id: str
    reply: StoredMessage


class RequestVerbs(VerbSet[RequestReply]):
    """Requests that wait for a reply, and replies."""

    @property
    @abstractmethod
    def counts(self) -> RequestCounts:
        """How many requests wait, and how the others ended since the start."""

    @abstractmethod
    async def ask(
        self, message: Message, *, timeout_ms: int, client: str, correlation_id: str = ""
    ) -> Answered:
        """Send a request and wait for its reply.

        Raises ReplyTimeout after `timeout_ms`, Stopping when the server stops meanwhile, and what
        `RequestReply.request` raises. Cancelling it leaves a late reply to be fetched.
        """

    reply = verb(RequestReply.reply)
    find = verb(RequestReply.find)


class Messaging(VerbSet[Broker]):
    """Sends, receives, settles and reads messages. Errors are those of `engine.errors`."""

    # What the engine can do; `app.capabilities.require` refuses what it cannot.
    capabilities: Capabilities
    transactions: TransactionVerbs
    locks: LockVerbs
    members: MemberVerbs
    requests: RequestVerbs

    # -- sending --------------------------------------------------------------------------------

    @abstractmethod
    async def send(
        self, messages: Sequence[Message], durability: Durability | None = None
    ) -> BatchSlice:
        """Store messages of one topic, all or none; returns once they have their durability.

        At most 4,096 messages and 4 MiB of bodies. Where flushing fails the messages are stored
        and the caller gets the error: sending again may store them twice.
        """

    @abstractmethod
    async def send_columns(
        self, columns: MessageColumns, durability: Durability | None = None
    ) -> BatchSlice | ColumnsResult:
        """The same for messages that came as columns."""

    @abstractmethod
    def submit(
        self, messages: Sequence[Message], durability: Durability | None, done: Done
    ) -> None:
        """The same without a task: `done` is called once, with the result or the error."""

    @abstractmethod
    def submit_columns(
        self,
        columns: MessageColumns,
        durability: Durability | None,
        done: ColumnsDone,
        split: Callable[[], None] | None = None,
    ) -> None:
        """The same for messages that came as columns; `done` gets what is known of either road.

        Columns of several sends are refused by a call of `split`, which sends them by parts.
        """

    def lone_sender(
        self, columns: MessageColumns, durability: Durability | None
    ) -> LoneSends | None:
        """A shorter way for messages that come one at a time and differ from this one in little.

        None where there is none; see `engine.broker.Broker.lone_sender`.
        """

    check_message = verb(Broker.check_message)

    # -- receiving and settling -----------------------------------------------------------------

    @abstractmethod
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
        Cancelling it frees its place, and a wake it had already got goes to the next waiter.
        """

    # The same without a wait, by column where plain messages come first.
    receive_columns = verb(Broker.receive_columns)
    # Cancelling what these give takes the place back; a wake that came goes to another waiter.
    wait_to_receive = wait_verb(Broker.wait_to_receive)
    wait_to_pull = wait_verb(Broker.wait_to_pull)
    ack = verb(Broker.ack)
    nack = verb(Broker.nack)
    extend = verb(Broker.extend)
    renew = verb(Broker.renew)
    release = verb(Broker.release)
    held = verb(Broker.held)
    receipt_until = verb(Broker.receipt_until)

    # -- pulling --------------------------------------------------------------------------------

    @abstractmethod
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
        """Read a queue from `offset`; waits up to `wait_s` for a match.

        The result's `next_offset` is past everything examined, also after a wait.
        """

    check_filter = verb(Broker.check_filter)
    commit_offset = verb(Broker.commit_offset)
    advance_offset = verb(Broker.advance_offset)
    committed_offset = verb(Broker.committed_offset)
    start_offset = verb(Broker.start_offset)
    is_young_queue = verb(Broker.is_young_queue)
    send_back = verb(Broker.send_back)

    # -- reading --------------------------------------------------------------------------------

    message = verb(Broker.message)
    message_at = verb(Broker.message_at)
    message_by_offset_id = verb(Broker.message_by_offset_id)
    offset_at_time = verb(Broker.offset_at_time)
    queue_bounds = verb(Broker.queue_bounds)
    queue_content = verb(Broker.queue_content)

    def storing_order(self, message: StoredMessage) -> tuple[int, ...]:
        """Sorts messages of several queues as they were stored."""
        return (message.position,)

    # -- topics and groups, as far as messages need them -----------------------------------------

    topic = verb(Broker.topic)
    plan_topic = verb(Broker.plan_topic)
    group = verb(Broker.group)
    is_broadcast = verb(Broker.is_broadcast)

    # -- scheduled messages ---------------------------------------------------------------------

    scheduled = verb(Broker.scheduled)
    scheduled_counts = verb(Broker.scheduled_counts)
    delay_levels = verb(Broker.delay_levels)
    find_scheduled = verb(Broker.find_scheduled)
    recall = verb(Broker.recall)
    deliver_now = verb(Broker.deliver_now)
    reschedule = verb(Broker.reschedule)
