"""Half messages: admission of what a producer may still take back, and what their records hold.

A half message lies in RocketMQ's half topic as an ordinary record: the topic and queue that it is
bound for, its producer group and its transaction's id are properties, and the transaction bits of
the system flag are clear. Its queue entry holds when it is first checked instead of a tag's hash.
Source: docs/rocketmq-rules.md#transactions.
"""

from collections.abc import Callable

import msgspec

from engine.clock import Clock
from engine.errors import Busy, Invalid, Refused
from engine.host import pack_host
from engine.message import (
    CHECK_IMMUNITY,
    PGROUP,
    REAL_QID,
    REAL_TOPIC,
    TRAN_MSG,
    TRANSACTION_ID,
    Message,
    StoredMessage,
)
from engine.topic.catalog import Catalog, TopicConfig, TopicType
from engine.topic.names import (
    GIVEN_UP_TOPIC,
    HALF_TOPIC,
    OP_TOPIC,
    check_group_name,
    is_system_topic,
)

QUEUE = 0  # the half topic, the op topic and the topic of what was given up have one queue
TRANSACTION_BITS = 0xC
COMMIT_BIT = 0x8
TIMEOUT_MAX_MS = 31 * 24 * 3600 * 1000  # that a setting is taken to have been
IMMUNITY_MAX_S = 24 * 3600
MADE_ID = 1 << 63  # set in the second half of ids made here: no position in the log has it
BUSY_S = 5.0


class HalfRule:
    """Asked by intake for every message that names a transaction group, after it was routed."""

    def __init__(
        self,
        catalog: Catalog,
        *,
        store_host: str,
        clock: Clock,
        written: Callable[[], int],
        count: Callable[[], int],
        count_max: int,
    ) -> None:
        """`written` is the log's end, `count` how many transactions are undecided."""
        self._catalog = catalog
        self._written = written
        self._count = count
        self._count_max = count_max
        host = pack_host(store_host)[:4].hex().upper()
        self._id_prefix = f"{host}{clock.now_ms() // 1000 & 0xFFFFFFFF:08X}"
        self._last = (0, 0)  # the log's end, and how many ids were made while it was there

    def admit(self, message: Message, now_ms: int) -> Message:
        """The half message to store instead; any other message as it is.

        Raises Invalid for a delay, a wrong group or immunity; Refused where the topic takes no
        transactions; Busy while too many are undecided.
        """
        if not message.transaction_group:
            return message
        self._check(message)
        for name in (HALF_TOPIC, OP_TOPIC, GIVEN_UP_TOPIC):
            self._catalog.ensure_system(name)
        message_id = message.message_id or self._make_id()
        own = {
            TRAN_MSG: "true",
            PGROUP: message.transaction_group,
            TRANSACTION_ID: message_id,
            REAL_TOPIC: message.topic,
            REAL_QID: str(message.queue),
        }
        if message.check_immunity_s:
            own[CHECK_IMMUNITY] = str(message.check_immunity_s)
        return msgspec.structs.replace(
            message,
            topic=HALF_TOPIC,
            queue=QUEUE,
            message_id=message_id,
            sys_flag=message.sys_flag & ~TRANSACTION_BITS,
            properties={**message.properties, **own},
        )

    def _check(self, message: Message) -> None:
        check_group_name(message.transaction_group, field="transaction_group")
        for field in ("delay_level", "deliver_at_ms"):
            if getattr(message, field):
                raise Invalid(
                    "a transactional message cannot be delayed",
                    field=field,
                    remedy="leave the delay out, or send it without a transaction group",
                    code="invalid_delay",
                )
        if not 0 <= message.check_immunity_s <= IMMUNITY_MAX_S:
            raise Invalid(
                f"{message.check_immunity_s} s without a check, 0 to {IMMUNITY_MAX_S} are allowed",
                field="check_immunity_s",
                remedy="give the seconds that the producer needs at most, or 0",
            )
        check_transaction_topic(message.topic, self._catalog.find(message.topic))
        count = self._count()
        if count >= self._count_max:
            raise Busy(
                f"{count} transactions are undecided, {self._count_max} is the most",
                field="transaction_group",
                remedy="commit or roll back some, or raise transactions_max",
                retry_after_s=BUSY_S,
            )

    def _make_id(self) -> str:
        """An id of 32 hex digits, like those that name a position, but of none.

        The log's end is never the same after a message was stored, whatever process did it.
        """
        written, number = self._written(), 0
        if written == self._last[0]:
            number = self._last[1] + 1
        self._last = (written, number)
        return f"{self._id_prefix}{MADE_ID | written << 16 | number & 0xFFFF:016X}"


def check_transaction_topic(name: str, topic: TopicConfig | None) -> None:
    """Refused for a topic that takes no transactional messages; one that is not there yet does."""
    if is_system_topic(name):
        raise Refused(
            f"{name!r} takes no transactional messages",
            field="transaction_group",
            remedy="send to a topic of your own",
            code="wrong_message_type",
        )
    if topic is None or topic.is_automatic or topic.type is TopicType.TRANSACTION:
        return
    raise Refused(
        f"{name!r} is a {topic.type.value} topic, it takes no transactional messages",
        field="transaction_group",
        remedy="send to a topic of type TRANSACTION, or without a transaction group",
        code="wrong_message_type",
    )


class FirstCheck:
    """When half messages are first checked: the third field of the half topic's queue entries."""

    def __init__(self, timeout_s: float) -> None:
        self._timeout_ms = round(timeout_s * 1000)

    def due_ms(self, message: Message | StoredMessage, stored_ms: int) -> int:
        """As late as the message asks for, else as the setting says; ms since 1970 UTC."""
        immunity = message.properties.get(CHECK_IMMUNITY, "")
        if immunity.isdecimal() and len(immunity) < 10:
            return stored_ms + min(int(immunity), IMMUNITY_MAX_S) * 1000
        return stored_ms + self._timeout_ms

    @staticmethod
    def may_be(stored: StoredMessage, due_ms: int) -> bool:
        """Whether that may be the field, written under another setting."""
        is_set = stored.properties.get(CHECK_IMMUNITY, "").isdecimal()
        return not is_set and 0 <= due_ms - stored.stored_ms <= TIMEOUT_MAX_MS
