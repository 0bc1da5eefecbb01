"""Which transactions of a cluster are undecided, and which their brokers gave up.

A broker keeps half messages in one queue and in another the offsets of those that were decided. Its
own group of checks has an offset in both: what lies before is decided, given up, or was written
anew behind. So the undecided ones are told by two offsets and the decisions after them, and only
their records are read. A broker writes decisions down every `transactionOpBatchInterval` (3 s).

What is given up is copied to a topic of its own, where it stays, decided or not: the decisions
since it began are looked through for it.
"""

import asyncio
import re
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import NamedTuple

from app.cluster.catalog import ClusterCatalog, NamedCache
from app.cluster.engine_errors import engine_errors
from app.cluster.errors import ClusterUnreachable
from app.cluster.half_messages import CHECK_GROUP, GIVEN_UP_TOPIC, HALF_TOPIC, OP_TOPIC
from app.cluster.messages import ClusterMessage
from app.cluster.reading import READ_COUNT
from app.cluster.routes import ClusterQueue
from app.cluster.tail import QueueTail
from app.cluster.topics import QueueOffsets
from app.cluster.verbs.part import ClusterPart, all_of
from engine.message import PGROUP

PENDING_S = 1.0
GIVEN_UP_S = 5.0
HELD_MAX = 1_000  # undecided half messages of a broker
GIVEN_UP_MAX = 200  # transactions of a broker
PULLS_MAX = 256  # of decisions, in one look at a broker
SPAN_MAX = 200_000  # half messages behind the offset of the checks
OFFSETS = re.compile(rb"\d+")


class UndecidedHalves(NamedTuple):
    """What one broker has undecided, or all; `unknown` says why there may be more.

    Of one transaction that its broker has just written anew the last record counts.
    """

    records: Sequence[ClusterMessage]
    unknown: str


class BrokerDecisions:
    """The decisions of a broker that concern half messages from `first` on, and their records."""

    def __init__(self, broker: str) -> None:
        self.tail = QueueTail(ClusterQueue(OP_TOPIC, broker, 0))
        self.first = self.end = 0
        self.decisions: set[int] = set()
        self.records: dict[int, ClusterMessage] = {}
        self.is_whole = True

    def is_undecided(self, offset: int) -> bool:
        """Whether the broker still looks after the half message at an offset."""
        return offset >= self.first and offset not in self.decisions


class GivenUp:
    """A transaction that a broker gave up; decisions from `tail_offset` on were not looked at."""

    def __init__(self, record: ClusterMessage) -> None:
        self.record = record
        self.halves: set[int] = set()
        self.tail_offset = -1
        self.is_resumed = False


class BrokerGivenUp:
    """What a broker gave up and nobody has decided since, by the offset in its topic."""

    def __init__(self, broker: str) -> None:
        self.tail = QueueTail(ClusterQueue(GIVEN_UP_TOPIC, broker, 0))
        self.transactions: dict[int, GivenUp] = {}
        self.unknown = ""


class ClusterHalfLists(ClusterPart):
    """Looks at undecided transactions."""

    def __init__(self, catalog: ClusterCatalog) -> None:
        super().__init__(catalog)
        self._decisions: dict[str, BrokerDecisions] = {}
        self._given_up: dict[str, BrokerGivenUp] = {}
        self._turns: dict[str, asyncio.Lock] = {}
        self._pending_looks = NamedCache(self._look_at_pending, PENDING_S)
        self._given_up_looks = NamedCache(self._look_at_given_up, GIVEN_UP_S)

    async def pending(self) -> UndecidedHalves:
        """Undecided half messages, oldest first; Busy if no broker answers."""
        return await self._all(self._pending_looks)

    async def given_up(self) -> UndecidedHalves:
        """Records of transactions that brokers gave up and nobody has decided since."""
        return await self._all(self._given_up_looks)

    async def is_undecided(self, broker: str, offset: int) -> bool:
        """Whether a broker still looks after the half message at an offset, by a new look."""
        with engine_errors():
            async with self._turn(broker):
                return (await self._read_decisions(broker)).is_undecided(offset)

    async def find_given_up(self, broker: str, transaction_id: str) -> ClusterMessage | None:
        """The record of a transaction that a broker gave up and nobody has decided since."""
        self._given_up_looks.forget(broker)
        with engine_errors():
            records = (await self._given_up_looks.get(broker)).records
        same = [each for each in records if each.message_id == transaction_id]
        return same[-1] if same else None

    def forget(self, broker: str) -> None:
        """Look again for what was changed."""
        self._pending_looks.forget(broker)
        self._given_up_looks.forget(broker)

    # -- inside ----------------------------------------------------------------------------------

    async def _all(self, looks: NamedCache[str, UndecidedHalves]) -> UndecidedHalves:
        """What all brokers that are there have."""
        with engine_errors():
            answers = await self._ask_brokers(looks.get)
            present = [each for each in answers if isinstance(each, UndecidedHalves)]
            away = [each for each in answers if isinstance(each, ClusterUnreachable)]
            if away and not present:
                raise away[0]
        reasons = [each.unknown for each in present if each.unknown]
        reasons += [each.detail for each in away]
        records = [record for each in present for record in each.records]
        return UndecidedHalves(records, "; ".join(reasons)[:500])

    def _turn(self, broker: str) -> asyncio.Lock:
        return self._turns.setdefault(broker, asyncio.Lock())

    async def _bounds(self, topic: str, broker: str) -> QueueOffsets:
        """The ends of the queue of a topic on a broker; of none where it was never used."""
        place = ClusterQueue(topic, broker, 0)
        return (await self._client.topics.queues_on(broker, topic)).get(place, QueueOffsets())

    async def _look_at_pending(self, broker: str) -> UndecidedHalves:
        async with self._turn(broker):
            known = await self._read_decisions(broker)
            span = range(known.first, min(known.end, known.first + SPAN_MAX))
            undecided = (each for each in span if each not in known.decisions)
            offsets = list(islice(undecided, HELD_MAX))
            has_more = known.end > span.stop or next(undecided, None) is not None
            await self._read_records(known, offsets)
            if not known.is_whole:  # then it is not told which are undecided
                return UndecidedHalves((), f"broker {broker} has more decisions than were read")
            more = (
                f"of broker {broker} the first {len(offsets):,} undecided half messages were read"
            )
            last = {_identity(each): each for each in known.records.values()}
            return UndecidedHalves(list(last.values()), more if has_more else "")

    async def _read_decisions(self, broker: str) -> BrokerDecisions:
        """What is decided by now; called in the broker's turn.

        The offset of decisions is asked for first: those behind it concern all half messages behind
        the other one, also where the broker moves both on meanwhile.
        """
        known = self._decisions.setdefault(broker, BrokerDecisions(broker))
        groups, half = self._client.groups, ClusterQueue(HALF_TOPIC, broker, 0)
        op_first = await groups.committed(CHECK_GROUP, known.tail.place) or 0
        first = await groups.committed(CHECK_GROUP, half) or 0
        halves = await self._bounds(HALF_TOPIC, broker)
        ops = await self._bounds(OP_TOPIC, broker)
        known.first, known.end = max(first, halves.min_offset), halves.max_offset
        known.tail.skip_to(max(op_first, ops.min_offset))
        for record in await known.tail.read(
            self._client.reads, ops.max_offset, pulls_max=PULLS_MAX, count_max=1 << 30
        ):
            known.decisions.update(_offsets_in(record))
        known.decisions = {each for each in known.decisions if each >= known.first}
        known.is_whole = known.tail.next_offset >= ops.max_offset
        return known

    async def _read_records(self, known: BrokerDecisions, offsets: Sequence[int]) -> None:
        """Have the half messages at these offsets, and no others."""
        records = {each: known.records[each] for each in offsets if each in known.records}
        place, next_offset = ClusterQueue(HALF_TOPIC, known.tail.place.broker, 0), -1
        for offset in offsets:
            if offset in records or offset < next_offset:
                continue
            page = await self._client.reads.pull(
                place, offset, count_max=READ_COUNT, is_from_master=True
            )
            records |= {each.offset: each for each in page.messages}
            next_offset = page.next_offset
        known.records = {each: records[each] for each in offsets if each in records}

    async def _look_at_given_up(self, broker: str) -> UndecidedHalves:
        async with self._turn(broker):
            known = self._given_up.setdefault(broker, BrokerGivenUp(broker))
            bounds = await self._bounds(GIVEN_UP_TOPIC, broker)
            known.tail.skip_to(bounds.min_offset)
            known.transactions = {
                offset: each
                for offset, each in known.transactions.items()
                if offset >= bounds.min_offset
            }
            room = GIVEN_UP_MAX - len(known.transactions)
            for record in await known.tail.read(
                self._client.reads, bounds.max_offset, pulls_max=PULLS_MAX, count_max=room
            ):
                known.transactions[record.offset] = GivenUp(record)
            known.unknown = ""
            if known.tail.next_offset < bounds.max_offset:
                known.unknown = f"broker {broker} gave up more transactions than were read"
            await all_of(map(self._read_halves, known.transactions.values()))
            await self._settle(known)
            records = [each.record for each in known.transactions.values() if not each.is_resumed]
            last = {_identity(each): each for each in records}
            return UndecidedHalves(list(last.values()), known.unknown)

    async def _read_halves(self, given_up: GivenUp) -> None:
        """Learn where the half messages of a transaction lie, and whether checks were resumed."""
        record, reads = given_up.record, self._client.reads
        broker = record.place.broker
        halves = await reads.by_key(HALF_TOPIC, record.message_id, is_id=True, broker=broker)
        given_up.halves = {each.offset for each in halves}
        given_up.is_resumed = any(each.stored_ms > record.stored_ms for each in halves)
        if given_up.tail_offset < 0:
            began_ms = min((each.stored_ms for each in halves), default=record.born_ms)
            place = ClusterQueue(OP_TOPIC, broker, 0)
            given_up.tail_offset = await reads.offset_at(place, began_ms)

    async def _settle(self, known: BrokerGivenUp) -> None:
        """Look through decisions for transactions that were given up."""
        if not known.transactions:
            return
        broker = known.tail.place.broker
        end = (await self._bounds(OP_TOPIC, broker)).max_offset
        first = min(each.tail_offset for each in known.transactions.values())
        tail = QueueTail(ClusterQueue(OP_TOPIC, broker, 0), max(0, first))
        decisions: set[int] = set()
        for record in await tail.read(
            self._client.reads, end, pulls_max=PULLS_MAX, count_max=1 << 30
        ):
            decisions.update(_offsets_in(record))
        if tail.next_offset < end:
            known.unknown = f"broker {broker} has more decisions than were read"
        for offset, each in list(known.transactions.items()):
            each.tail_offset = max(each.tail_offset, tail.next_offset)
            if each.halves & decisions:
                del known.transactions[offset]


def _identity(record: ClusterMessage) -> tuple[str, str]:
    return record.message_id, record.properties.get(PGROUP, "")


def _offsets_in(record: ClusterMessage) -> Iterable[int]:
    """The offsets of half messages that a record of decisions names."""
    return map(int, OFFSETS.findall(record.body))
