"""Messages that wait in a cluster: listed, looked up, and recalled by those who have them.

Brokers deliver no waiting message early and give none another time. A recall and a new send in its
place would be two steps, between which a message may be lost or come twice; so that is refused.
"""

from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Sequence
from typing import NamedTuple, NoReturn

from app.capabilities import require
from app.cluster.catalog import ClusterCatalog
from app.cluster.engine_errors import as_engine_error, engine_errors
from app.cluster.errors import ClusterError, ClusterUnreachable
from app.cluster.messages import ClusterMessage
from app.cluster.schedules import SCHEDULE_TOPIC, TIMER_TOPIC
from app.cluster.verbs.part import ClusterPart
from app.cluster.verbs.waiting import RECALLED_KEY, ClusterWaiting, DuePlace, out_ms_of
from engine.broker import LevelWaiting, Scheduled, ScheduledPage, TimerAnswer
from engine.errors import Conflict, Invalid

PAGE_COUNT_MAX = 200
EXAMINED_MAX = 1_000  # of one page
RECALLED_MAX = 10_000  # that this process remembers
LATE_MS = 3_000  # before its time, from which a recall may come too late
FIRST = DuePlace(-1, 0, -1, -1)


class WaitingRecord(NamedTuple):
    """A record that waits, and how it is listed."""

    record: ClusterMessage
    item: Scheduled


class WaitingRecords(NamedTuple):
    """The records of one message: those that wait, and whether it was recalled or delivered."""

    waiting: list[WaitingRecord]
    is_recalled: bool
    is_over: bool


class ClusterScheduleVerbs(ClusterPart):
    """Lists what waits; `timer_recalls` says whether brokers take recalls."""

    def __init__(self, catalog: ClusterCatalog) -> None:
        super().__init__(catalog)
        self._waiting = ClusterWaiting(catalog)
        self._recalls: OrderedDict[tuple[str, str], None] = OrderedDict()  # by topic and id

    async def scheduled(
        self, *, topic: str = "", from_ms: int = 0, after: str = "", count_max: int = 50
    ) -> ScheduledPage:
        """As `Messaging.scheduled`; `unknown` says of which broker a part alone was looked at."""
        place = _place(after) if after else FIRST._replace(due_ms=from_ms - 1 if from_ms else -1)
        look = await self._waiting.look()
        rest = [each for each in look.items if each[0] > place]
        count_max = max(1, min(count_max, PAGE_COUNT_MAX))
        items: list[Scheduled] = []
        examined = 0
        for _, item in rest[:EXAMINED_MAX]:
            examined += 1
            if topic in ("", item.topic) and not self._is_recalled(item):
                items.append(item)
                if len(items) == count_max:
                    break
        has_more = examined < len(rest)
        next_place = "-".join(map(str, rest[examined - 1][0])) if has_more else None
        return ScheduledPage(items, next_place, look.total, look.unknown)

    async def scheduled_counts(self, times_ms: Sequence[int]) -> list[int]:
        """How many of those that are known are due before each of these ascending times."""
        dues = [place.due_ms for place, _ in (await self._waiting.look()).items]
        return [bisect_left(dues, each) for each in times_ms]

    async def delay_levels(self) -> list[LevelWaiting]:
        """Each delay level with how many wait in it, at the brokers that are there."""
        return (await self._waiting.look()).levels

    async def find_scheduled(self, message_id: str) -> Scheduled | None:
        """The message with this message id or offset id, while it waits; Busy."""
        records = await self._records(message_id)
        return records.waiting[0].item if records.waiting else None

    async def recall(self, message_id: str) -> TimerAnswer:
        """Have a message with an exact time dropped; Refused for another, Conflict if too late."""
        require(self._catalog.capabilities, "timer_recalls", field="message_id")
        records = await self._records(message_id)
        for record, item in records.waiting:
            if item.delay_level:
                require(self._catalog.capabilities, "timer_changes", field="message_id")
            if out_ms_of(record) - self._catalog.now_ms() < LATE_MS:
                raise Conflict(
                    f"the message is due within {LATE_MS // 1000} s, before which its broker may "
                    "not have taken the recall",
                    field="message_id",
                    remedy="let it be delivered, and have its consumer skip it",
                )
        for record, item in records.waiting:
            with engine_errors("message_id"):
                await self._client.schedules.recall(
                    record.place.broker, item.topic, out_ms_of(record), record.message_id
                )
            self._remember(item)
            self._waiting.drop(record.place, record.offset)
        if records.waiting or records.is_recalled:
            return TimerAnswer.RECALLED
        return TimerAnswer.ALREADY_DELIVERED if records.is_over else TimerAnswer.NOT_FOUND

    async def deliver_now(self, message_id: str) -> NoReturn:
        """Refused."""
        self._refuse()

    async def reschedule(self, message_id: str, deliver_at_ms: int) -> NoReturn:
        """Refused."""
        self._refuse()

    # -- inside ----------------------------------------------------------------------------------

    async def _records(self, message_id: str) -> WaitingRecords:
        """What the brokers' indexes have of a message in the topics of what waits."""
        message_id = await self._id_of(message_id)
        waiting: list[WaitingRecord] = []
        is_recalled = is_over = False
        for record in await self._indexed(message_id):
            if RECALLED_KEY in record.properties:
                is_recalled = True
                continue
            item = await self._waiting.waits(record)
            if item is None:
                is_over = True
            elif self._is_recalled(item):
                is_recalled = True
            elif not item.is_retry:
                waiting.append(WaitingRecord(record, item))
        if is_recalled:
            waiting = [each for each in waiting if each.item.delay_level]
        return WaitingRecords(waiting, is_recalled, is_over)

    async def _indexed(self, message_id: str) -> list[ClusterMessage]:
        """Its records, those that were written anew by their last; Busy while none is known."""
        records: dict[tuple[str, str, bool], ClusterMessage] = {}
        failure: ClusterUnreachable | None = None
        with engine_errors("message_id"):
            for broker in self._numbers.brokers:
                for topic in (TIMER_TOPIC, SCHEDULE_TOPIC):
                    try:
                        messages = await self._client.reads.by_key(
                            topic, message_id, is_id=True, broker=broker
                        )
                    except ClusterUnreachable as error:
                        failure = error
                        continue
                    for each in messages:
                        records[topic, broker, RECALLED_KEY in each.properties] = each
        if failure is not None and not records:
            raise as_engine_error(failure)
        return list(records.values())

    async def _id_of(self, message_id: str) -> str:
        """The message id of a record that is named by its offset id, or the same."""
        try:
            record = await self._client.reads.by_offset_id(message_id)
        except ClusterError:
            return message_id
        return record.message_id

    def _is_recalled(self, item: Scheduled) -> bool:
        return (item.topic, item.message.message_id) in self._recalls

    def _remember(self, item: Scheduled) -> None:
        self._recalls[item.topic, item.message.message_id] = None
        if len(self._recalls) > RECALLED_MAX:
            self._recalls.popitem(last=False)

    def _refuse(self) -> NoReturn:
        require(self._catalog.capabilities, "timer_changes", field="message_id")
        raise AssertionError("a cluster changes no timers")


def _place(text: str) -> DuePlace:
    """The place that a page's `next` names."""
    words = text.split("-")
    if len(words) != len(FIRST) or not all(each.isdecimal() and len(each) < 19 for each in words):
        raise Invalid(
            f"{text[:60]!r} is no place in the list", field="after", remedy="give a page's `next`"
        )
    return DuePlace(*map(int, words))
