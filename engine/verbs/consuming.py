"""Pulling and receiving: messages to clients, and what becomes of them."""

from collections.abc import Callable, Mapping, Sequence

from engine.delivery.filter import parse_filter
from engine.delivery.long_polling import LongPoll
from engine.delivery.pull import PullResult
from engine.delivery.values import (
    AckResult,
    Delivery,
    DeliveryColumns,
    ExtendResult,
    Nack,
    Receipt,
    Receipts,
)
from engine.verbs.verbs import Verbs


class ConsumeVerbs(Verbs):
    """Gives messages to clients and keeps the progress of their groups."""

    # -- pulling ------------------------------------------------------------------------------

    def pull(
        self,
        topic: str,
        queue: int,
        offset: int,
        *,
        count_max: int = 32,
        bytes_max: int = 256 * 1024,
        filter: str = "*",
        group: str = "",
    ) -> PullResult:
        """Read from an offset of the caller's own keeping; see `engine.delivery.pull`."""
        return self._delivery.pulls.pull(
            topic,
            queue,
            offset,
            count_max=count_max,
            bytes_max=bytes_max,
            filter=filter,
            group=group,
        )

    def commit_offset(
        self, group: str, topic: str, queue: int, offset: int, client: str = ""
    ) -> bool:
        """Set a group's progress to any offset, also backwards; False where a reset forbids it.

        After a reset of the queue nothing counts until a client of the group has pulled there.
        `client` names whose progress it is where the group broadcasts.
        """
        return self._delivery.offsets.commit(group, topic, queue, offset, client)

    def advance_offset(
        self, group: str, topic: str, queue: int, offset: int, client: str = ""
    ) -> bool:
        """A pulling client is done with all before `offset`; False where a reset forbids it.

        Unlike `commit_offset`, what other clients were delivered from there on stays theirs.
        """
        return self._delivery.offsets.advance(group, topic, queue, offset, client)

    def committed_offset(self, group: str, topic: str, queue: int, client: str = "") -> int | None:
        """The offset before which everything is done; None where the group never consumed."""
        return self._delivery.offsets.committed(group, topic, queue, client)

    def start_offset(self, group: str, topic: str, queue: int) -> int:
        """The first offset of a pulling client without a committed one, by its group's settings."""
        return self._delivery.offsets.start(group, topic, queue)

    def is_young_queue(self, topic: str, queue: int) -> bool:
        """Whether a new group gets the whole queue by RocketMQ's rule; see `StartAt.ROCKETMQ`."""
        return self._delivery.offsets.is_young(topic, queue)

    def send_back(
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
        """A pulling client failed with a message: retry it later, or give it up."""
        self._check_running()
        self._delivery.failures.send_back(
            group,
            topic,
            queue,
            offset,
            delay_level=delay_level,
            retry_max=retry_max,
            error=error,
            client=client,
        )

    def check_filter(self, filter: str) -> None:
        """Raise Invalid for a filter that cannot be read."""
        parse_filter(filter)

    # -- receiving ----------------------------------------------------------------------------

    def receive(
        self,
        group: str,
        topics: Mapping[str, str],
        *,
        count_max: int = 1,
        invisible_s: float = 60.0,
        client: str = "",
        queue: int | None = None,
    ) -> list[Delivery]:
        """Deliver messages of `topics` (name to tag expression) to one client of a group.

        With `queue` they come from that queue of each topic alone, or from the group's retries.
        """
        self._check_running()
        return self._delivery.receives.receive(
            group,
            topics,
            count_max=count_max,
            invisible_s=invisible_s,
            client=client,
            queue=queue,
        )

    def receive_columns(
        self,
        group: str,
        topics: Mapping[str, str],
        *,
        count_max: int = 1,
        invisible_s: float = 60.0,
        client: str = "",
    ) -> DeliveryColumns | list[Delivery]:
        """As `receive`, by column where plain messages come first."""
        self._check_running()
        return self._delivery.receives.receive_columns(
            group, topics, count_max=count_max, invisible_s=invisible_s, client=client
        )

    def ack(self, group: str, receipts: Receipts) -> list[AckResult]:
        """Mark messages as done."""
        return self._delivery.inflight.ack(group, receipts)

    def nack(self, group: str, nacks: Sequence[Nack], client: str = "") -> list[AckResult]:
        """Report failures: the messages come back later, or become dead letters."""
        return self._delivery.failures.nack(group, nacks, client)

    def extend(
        self, group: str, receipts: Sequence[Receipt], invisible_s: float
    ) -> list[ExtendResult]:
        """Keep messages for longer."""
        return self._delivery.inflight.extend(group, receipts, invisible_s)

    def renew(self, group: str, receipt: Receipt, invisible_s: float) -> Receipt | None:
        """Keep a message for another time under a new receipt; None where `receipt` is stale."""
        return self._delivery.inflight.renew(group, receipt, invisible_s)

    def release(self, group: str, receipts: Receipts) -> list[AckResult]:
        """Put messages back unused, without counting an attempt."""
        return self._delivery.inflight.release(group, receipts)

    def held(self, group: str, client: str) -> list[Receipt]:
        """Messages in flight with a client of a group."""
        return self._delivery.inflight.held(group, client)

    def receipt_until(
        self, group: str, topic: str, queue: int, offset: int, until_ms: int
    ) -> Receipt:
        """The receipt of the delivery whose invisible time ends then, else one not current."""
        return self._delivery.inflight.receipt_until(group, topic, queue, offset, until_ms)

    # -- waiting ------------------------------------------------------------------------------

    def wait_to_receive(
        self,
        group: str,
        topics: Mapping[str, str],
        wake: Callable[[], None],
        client: str = "",
        queue: int | None = None,
    ) -> LongPoll:
        """Call `wake` once when a receive of these may find something; Busy beyond the bounds."""
        return self._delivery.wait_to_receive(group, topics, wake, client, queue)

    def wait_to_pull(
        self, topic: str, queue: int, offset: int, filter: str, wake: Callable[[], None]
    ) -> LongPoll:
        """Call `wake` once when a message at or past `offset` may match."""
        return self._delivery.wait_to_pull(topic, queue, offset, filter, wake)
