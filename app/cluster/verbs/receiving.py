"""Receives messages of a cluster by POP, and settles them.

A receipt holds all that a broker needs, so that any process can settle what another delivered. What
`extend` changes is the broker's receipt: the new one is remembered here under the old, of the last
EXTENDED_MAX; and that of the last ACKED_MAX that were acknowledged here, which another process does
not know. A message that used up its attempts goes to the dead letters of its group, as Apache's
proxy does it: at its last nack, or when it would be delivered once more.
"""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping, Sequence
from itertools import count
from typing import NamedTuple

from app.capabilities import not_supported
from app.cluster.catalog import ClusterCatalog
from app.cluster.deliveries import (
    RECEIVE_MAX,
    RETRY_PREFIX,
    WAIT_S_MAX,
    ClusterDelivery,
    NoticeRequest,
    PopRequest,
)
from app.cluster.engine_errors import as_engine_error, engine_errors
from app.cluster.errors import ClusterError, ClusterRefused, ClusterUnreachable
from app.cluster.messages import ClusterMessage
from app.cluster.receipts import PopText, invisible_ms, pop_text, receipt_of
from app.cluster.verbs.dead_letters import ClusterDeadLetters
from app.cluster.verbs.filters import MessageFilter, message_filter
from app.cluster.verbs.part import ClusterPart, all_of, stored_message
from app.cluster.verbs.waits import Ask, ClusterWait, ClusterWaits
from engine.broker import (
    AckResult,
    Delivery,
    DeliveryColumns,
    ExtendResult,
    GroupConfig,
    Nack,
    Receipt,
    Receipts,
    paused_error,
)
from engine.errors import EngineError, Forbidden, Invalid, Paused
from engine.message import RETRY_TOPIC, StoredMessage
from protocol.remoting.codes import ResponseCode

COUNT_MAX = 1024
BYTES_MAX = 4 * 1024 * 1024  # of bodies, after which a receive asks for no more
INVISIBLE_S = (0.01, 12 * 3600.0)
RECEIPTS_MAX = 4096
EXTENDED_MAX = 100_000
ACKED_MAX = 10_000
POPS_AT_ONCE = 8
ACKS_MAX = 1024  # of one request to a broker
TOPICS_MAX = 64
RELEASE_S = 0.01
PAUSED_S = 0.5  # between looks whether a group was resumed
# RocketMQ's delay levels, in seconds, from level 1 on; a first failure waits for level 3.
LADDER_S = (1, 5, 10, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1200, 1800, 3600, 7200)
FIRST_RETRY_LEVEL = 3
DONE, STALE = AckResult.DONE, AckResult.STALE
# The broker knows no delivery there (any more).
NOT_THERE = frozenset({ResponseCode.NO_MESSAGE, ResponseCode.MESSAGE_ILLEGAL})


class PopTarget(NamedTuple):
    """One topic of a receive: whom to ask for what, and which of the answers fit."""

    pop: PopRequest
    brokers: tuple[str, ...]
    match: MessageFilter


class ClusterReceiveVerbs(ClusterPart):
    """Receives, settles, and waits for what can be received."""

    def __init__(self, catalog: ClusterCatalog, waits: ClusterWaits) -> None:
        self._catalog, self._waits = catalog, waits
        self._dead_letters = ClusterDeadLetters(catalog)
        # By group, too: receipts of two groups may be equal.
        self._extended: OrderedDict[tuple[str, Receipt], Receipt] = OrderedDict()
        self._acked: OrderedDict[tuple[str, Receipt], None] = OrderedDict()
        self._acks_singly: set[str] = set()  # brokers that take no acknowledgements together
        self._turns = count()

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
        """As `Messaging.receive`; from brokers that are away nothing comes."""
        if not 1 <= count_max <= COUNT_MAX:
            raise Invalid(
                f"{count_max} messages at once",
                field="count_max",
                remedy=f"ask for 1 to {COUNT_MAX}",
            )
        if not INVISIBLE_S[0] <= invisible_s <= INVISIBLE_S[1]:
            raise _bad_time(invisible_s)
        end_s = time.monotonic() + wait_s
        while True:
            config = await self._catalog.ensure_group(group)
            targets = await self._targets(config, topics, queue, invisible_ms(invisible_s))
            deliveries, failure = await self._take(config, targets, count_max)
            rest_s = end_s - time.monotonic()
            if deliveries or rest_s <= 0:
                if failure is not None and not deliveries:
                    raise as_engine_error(failure)
                return deliveries
            wait = self._receive_wait(group, topics, queue)
            if not await self._waits.until(*wait, rest_s, len(topics)):
                return []

    async def receive_columns(
        self,
        group: str,
        topics: Mapping[str, str],
        *,
        count_max: int = 1,
        invisible_s: float = 60.0,
        client: str = "",
    ) -> DeliveryColumns | list[Delivery]:
        """The same without a wait; a cluster delivers no columns."""
        return await self.receive(
            group, topics, count_max=count_max, invisible_s=invisible_s, client=client
        )

    def wait_to_receive(
        self,
        group: str,
        topics: Mapping[str, str],
        wake: Callable[[], None],
        client: str = "",
        queue: int | None = None,
    ) -> ClusterWait:
        """Call `wake` once when a receive of these may find something; Busy beyond the bounds."""
        wait = self._receive_wait(group, topics, queue)
        return self._waits.begin(*wait, wake, len(topics))

    # -- settling -------------------------------------------------------------------------------

    async def ack(self, group: str, receipts: Receipts) -> list[AckResult]:
        """Mark messages as done; that one was done before is known of the last ACKED_MAX."""
        await self._check_receipts(group, receipts)
        brokers: dict[str, list[tuple[int, PopText]]] = {}
        results, at = [STALE] * len(receipts), list(receipts)
        for index, receipt in enumerate(at):
            if (group, receipt) in self._acked:
                results[index] = AckResult.ALREADY
                continue
            pop = self._pop_text(group, receipt, f"receipts[{index}]")
            if pop is not None:
                brokers.setdefault(pop.broker, []).append((index, pop))
        parts = [
            (broker, of_broker[start : start + ACKS_MAX])
            for broker, of_broker in brokers.items()
            for start in range(0, len(of_broker), ACKS_MAX)
        ]
        answers = await all_of(
            self._ack_at(group, broker, [pop for _, pop in part]) for broker, part in parts
        )
        for (_, part), of_part in zip(parts, answers, strict=True):
            for (index, _), result in zip(part, of_part, strict=True):
                results[index] = result
                if result is DONE:
                    self._remember_acked(group, at[index])
        return results

    async def nack(self, group: str, nacks: Sequence[Nack], client: str = "") -> list[AckResult]:
        """Report failures: the messages come back later, or become dead letters."""
        await self._check_receipts(group, nacks)
        config = await self._catalog.group(group)
        return await all_of(
            self._nack(config, each, f"nacks[{index}].receipt", client)
            for index, each in enumerate(nacks)
        )

    async def extend(
        self, group: str, receipts: Sequence[Receipt], invisible_s: float
    ) -> list[ExtendResult]:
        """Keep messages for longer; their receipts stay current in this process."""
        await self._check_receipts(group, receipts)
        if not INVISIBLE_S[0] <= invisible_s <= INVISIBLE_S[1]:
            raise _bad_time(invisible_s)
        return await all_of(
            self._extend(group, each, invisible_s, f"receipts[{index}]")
            for index, each in enumerate(receipts)
        )

    async def renew(self, group: str, receipt: Receipt, invisible_s: float) -> Receipt | None:
        """Keep a message for another time under a new receipt; None where `receipt` is stale."""
        if not INVISIBLE_S[0] <= invisible_s <= INVISIBLE_S[1]:
            raise _bad_time(invisible_s)
        await self._check_receipts(group, [receipt])
        renewed = await self._change(group, receipt, invisible_s, "receipt")
        return renewed[0] if renewed else None

    async def release(self, group: str, receipts: Receipts) -> list[AckResult]:
        """Put messages back at once; a cluster counts the attempt all the same."""
        await self._check_receipts(group, receipts)
        changed = await all_of(
            self._change(group, each, RELEASE_S, f"receipts[{index}]")
            for index, each in enumerate(receipts)
        )
        return [DONE if each else STALE for each in changed]

    async def held(self, group: str, client: str) -> list[Receipt]:
        """Refused: brokers do not list what is with a client."""
        raise not_supported(
            "lists no messages that are with a client",
            field="client",
            remedy="look at the lag of the group",
        )

    async def receipt_until(
        self, group: str, topic: str, queue: int, offset: int, until_ms: int
    ) -> Receipt:
        """Refused: a broker's receipt holds more than the end of its invisible time."""
        raise not_supported(
            "finds no delivery by its end", field="receipt", remedy="settle it at the cluster"
        )

    # -- inside ----------------------------------------------------------------------------------

    async def _check_receipts(self, group: str, receipts: Sequence[object] | Receipts) -> None:
        """GroupNotFound, Invalid for too many."""
        await self._catalog.group(group)
        if len(receipts) > RECEIPTS_MAX:
            raise Invalid(
                f"{len(receipts)} receipts in one call, {RECEIPTS_MAX} is the most",
                field="receipts",
                remedy="split them",
            )

    async def _targets(
        self, group: GroupConfig, topics: Mapping[str, str], queue: int | None, hidden_ms: int
    ) -> list[PopTarget]:
        if not 1 <= len(topics) <= TOPICS_MAX:
            raise Invalid(
                f"{len(topics)} topics", field="topics", remedy=f"name 1 to {TOPICS_MAX} of them"
            )
        targets = []
        for topic, text in topics.items():
            match = message_filter(text, self._catalog.capabilities)
            route = await self._catalog.route(topic)
            if not any(each.perm & 4 for each in route.queue_datas):
                raise Forbidden(f"topic {topic!r} is not open for reading", field="topic")
            brokers, at = tuple(route.brokers), -1
            if queue is not None:
                place = self._numbers.place(topic, queue)
                brokers, at = (place.broker,), place.queue
            pop = PopRequest(
                group.name,
                topic,
                invisible_ms=hidden_ms,
                tags=match.expression,
                queue=at,
                is_ordered=group.ordered,
                is_sql=match.is_sql,
            )
            targets.append(PopTarget(pop, brokers, match))
        turn = next(self._turns) % len(targets)
        return targets[turn:] + targets[:turn]

    async def _take(
        self, group: GroupConfig, targets: Sequence[PopTarget], count_max: int
    ) -> tuple[list[Delivery], ClusterError | None]:
        """What there is now; with none, why a broker gave nothing."""
        deliveries: list[Delivery] = []
        failure: ClusterError | None = None
        size_bytes, is_again = 0, False
        for target in targets:
            at_once = 1  # more once an answer was full
            while at_once and len(deliveries) < count_max and size_bytes < BYTES_MAX:
                wants = _shares(count_max - len(deliveries), at_once)
                pops = await all_of(
                    self._client.deliveries.pop_some(target.brokers, target.pop, want)
                    for want in wants
                )
                popped = [each for some, _ in pops for each in some]
                size_bytes += sum(len(each.message.record.body) for each in popped)
                deliveries += await self._fitting(group, target, popped)
                repeats = False
                for _, error in pops:
                    if error is None or isinstance(error, ClusterUnreachable):
                        failure = error or failure
                    elif _is_group_missing(error):
                        await self._catalog.spread_group(group.name)
                    elif deliveries:
                        return deliveries, None  # what is delivered must reach its client
                    else:
                        refusal = await self._refusal(group.name, error)
                        if is_again or isinstance(refusal, Paused):
                            raise refusal from error
                        is_again = repeats = True  # the group may have been resumed since
                if repeats:
                    continue
                is_full = len(popped) == sum(wants)
                at_once = _pops_for(BYTES_MAX - size_bytes, popped) if is_full else 0
        return deliveries, failure

    async def _fitting(
        self, group: GroupConfig, target: PopTarget, popped: Sequence[ClusterDelivery]
    ) -> list[Delivery]:
        """The deliveries; those are settled here that do not fit or are given up."""
        deliveries, others = [], []
        for each in popped:
            delivery = self._delivery(group, target, each)
            is_over = delivery.attempt > group.retry_max + 1
            if target.match.fits(delivery.message) and not is_over:
                deliveries.append(delivery)
            else:
                others.append(self._end(group, target, each, delivery if is_over else None))
        await all_of(others)
        return deliveries

    def _delivery(
        self, group: GroupConfig, target: PopTarget, delivery: ClusterDelivery
    ) -> Delivery:
        topic = target.pop.topic
        with engine_errors():
            receipt, until_ms = receipt_of(group.name, topic, delivery.receipt, self._numbers)
        stored = _with_origin(delivery.message, receipt, topic)
        stored.offset, stored.attempt = receipt.offset, delivery.attempt
        return Delivery(stored, receipt, delivery.attempt, until_ms)

    async def _end(
        self,
        group: GroupConfig,
        target: PopTarget,
        delivery: ClusterDelivery,
        dead: Delivery | None,
    ) -> None:
        """Settle what nobody is to get; `dead` goes to the dead letters before."""
        if dead is not None:
            await self._dead_letters.bury(group, dead.message)
        with engine_errors():
            await self._client.deliveries.ack(group.name, target.pop.topic, delivery.receipt)

    async def _refusal(self, group: str, error: ClusterError) -> EngineError:
        """Why a broker delivers nothing; Paused where the group is."""
        if isinstance(error, ClusterRefused) and error.answer == ResponseCode.NO_PERMISSION:
            self._catalog.forget_group(group)
            config = await self._catalog.group(group)
            if not config.consume_enabled:
                return paused_error(config, "")
        return as_engine_error(error)

    def _receive_wait(
        self, group: str, topics: Mapping[str, str], queue: int | None
    ) -> tuple[Hashable, Ask]:
        """What a receive waits for, and how its brokers are asked."""

        async def ask() -> bool:
            try:
                config = await self._catalog.group(group)
                if not config.consume_enabled:  # brokers do not tell when it is resumed
                    self._catalog.forget_group(group)
                    await asyncio.sleep(PAUSED_S)
                    return True
                targets = await self._targets(config, topics, queue, 0)
            except EngineError:
                return True  # the receive says what is wrong
            return await self._notice(targets)

        return (group, tuple(topics.items()), queue), ask

    async def _notice(self, targets: Sequence[PopTarget]) -> bool:
        requests = [
            NoticeRequest(pop.group, pop.topic, broker, pop.queue, pop.is_ordered)
            for pop, brokers, _ in targets
            for broker in brokers
        ]
        return await self._client.deliveries.notice(requests, WAIT_S_MAX)

    async def _ack_at(self, group: str, broker: str, pops: Sequence[PopText]) -> list[AckResult]:
        """Acknowledge at one broker; together, which brokers before 5.1 do not know."""
        if len(pops) > 1 and broker not in self._acks_singly:
            acks = [(pop.topic, pop.text) for pop in pops]
            try:
                await self._client.deliveries.ack_together(group, broker, acks)
            except ClusterError as error:
                if not _is_unknown_request(error):
                    raise as_engine_error(error) from error
                self._acks_singly.add(broker)
            else:
                return [DONE] * len(pops)
        return await all_of(self._ack(group, pop) for pop in pops)

    async def _ack(self, group: str, pop: PopText) -> AckResult:
        try:
            await self._client.deliveries.ack(group, pop.topic, pop.text)
        except ClusterError as error:
            return _stale_or_raise(error)
        return DONE

    def _remember_acked(self, group: str, receipt: Receipt) -> None:
        self._extended.pop((group, receipt), None)
        self._acked[group, receipt] = None
        if len(self._acked) > ACKED_MAX:
            self._acked.popitem(last=False)

    async def _nack(self, group: GroupConfig, nack: Nack, field: str, client: str) -> AckResult:
        pop = self._pop_text(group.name, nack.receipt, field)
        if pop is None:
            return STALE
        topic, queue, offset, _ = nack.receipt
        place = self._numbers.place(topic, queue)
        with engine_errors():
            page = await self._client.reads.pull(place, offset, count_max=1)
        if not page.messages or page.messages[0].offset != offset:
            return STALE
        stored = _with_origin(page.messages[0], nack.receipt, pop.topic)
        is_rejected = (nack.delay_level or 0) < 0
        if is_rejected or stored.attempt > group.retry_max:
            await self._dead_letters.bury(
                group, stored, error=nack.error, client=client, is_rejected=is_rejected
            )
            result = await self._ack(group.name, pop)
            if result is DONE:
                self._remember_acked(group.name, nack.receipt)
            return result
        delay_s = _delay_s(nack, stored.attempt)
        is_changed = await self._change(group.name, nack.receipt, delay_s, field)
        return DONE if is_changed else STALE

    async def _extend(
        self, group: str, receipt: Receipt, invisible_s: float, field: str
    ) -> ExtendResult:
        changed = await self._change(group, receipt, invisible_s, field)
        if changed is None:
            return ExtendResult(STALE, 0)
        renewed, until_ms = changed
        self._extended[group, receipt] = renewed
        self._extended.move_to_end((group, receipt))
        if len(self._extended) > EXTENDED_MAX:
            self._extended.popitem(last=False)
        return ExtendResult(DONE, until_ms)

    async def _change(
        self, group: str, receipt: Receipt, invisible_s: float, field: str
    ) -> tuple[Receipt, int] | None:
        """The receipt in the place of another, and its end; None where that is stale."""
        pop = self._pop_text(group, receipt, field)
        if pop is None:
            return None
        try:
            text = await self._client.deliveries.change_invisible(
                group, pop.topic, pop.text, invisible_ms(invisible_s) / 1000
            )
            changed = receipt_of(group, pop.topic, text, self._numbers)
        except ClusterError as error:
            _stale_or_raise(error)
            return None
        self._extended.pop((group, receipt), None)
        return changed

    def _pop_text(self, group: str, receipt: Receipt, field: str) -> PopText | None:
        """The broker's receipt; None once its invisible time is over."""
        current = self._extended.get((group, receipt), receipt)
        now_ms = self._catalog.now_ms()
        pop = pop_text(group, current, self._numbers, now_ms, field)
        return pop if pop.until_ms > now_ms else None


def _shares(count: int, at_once: int) -> list[int]:
    """How many messages each of at most so many requests asks for."""
    full, rest = divmod(count, RECEIVE_MAX)
    return ([RECEIVE_MAX] * full + ([rest] if rest else []))[:at_once]


def _pops_for(room_bytes: int, popped: Sequence[ClusterDelivery]) -> int:
    """How many full answers with messages like these fit, at least one and at most POPS_AT_ONCE."""
    answer_bytes = RECEIVE_MAX * sum(len(each.message.record.body) for each in popped) / len(popped)
    return min(POPS_AT_ONCE, max(1, round(room_bytes / max(answer_bytes, 1))))


def _is_group_missing(error: ClusterError) -> bool:
    """Whether a broker does not know the group, as it was away when that was made."""
    missing = ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
    return isinstance(error, ClusterRefused) and error.answer == missing


def _is_unknown_request(error: ClusterError) -> bool:
    unknown = ResponseCode.REQUEST_CODE_NOT_SUPPORTED
    return isinstance(error, ClusterRefused) and error.answer == unknown


def _with_origin(message: ClusterMessage, receipt: Receipt, topic: str) -> StoredMessage:
    """A delivered message where it lies; of a retry it is noted which topic it was sent to."""
    is_noted = RETRY_TOPIC in message.properties or not receipt.topic.startswith(RETRY_PREFIX)
    more = b"" if is_noted else f"{RETRY_TOPIC}\x01{topic}\x02".encode()
    return stored_message(message, receipt.queue, topic=receipt.topic, more=more)


def _stale_or_raise(error: ClusterError) -> AckResult:
    if isinstance(error, ClusterRefused) and error.answer in NOT_THERE:
        return STALE
    raise as_engine_error(error) from error


def _delay_s(nack: Nack, attempt: int) -> float:
    """How long a failed message waits: as it was said, else RocketMQ's ladder."""
    if nack.delay_s is not None:
        return min(max(nack.delay_s, RELEASE_S), float(LADDER_S[-1]))
    level = nack.delay_level or attempt + FIRST_RETRY_LEVEL - 1
    return float(LADDER_S[min(level, len(LADDER_S)) - 1])


def _bad_time(invisible_s: float) -> Invalid:
    return Invalid(
        f"an invisible time of {invisible_s:g} s",
        field="invisible_s",
        remedy=f"choose {INVISIBLE_S[0]:g} s to {INVISIBLE_S[1] / 3600:g} h",
    )
