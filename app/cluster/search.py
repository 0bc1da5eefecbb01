"""Messages of a cluster by id and by key, which its brokers find in an index of each topic.

An id that says no place, and a key without a topic, are looked for in every topic of the users,
TOPICS_MAX at most, and a key of these among the newest 64 of each broker.
"""

from app.capabilities import not_supported
from app.cluster.administration import ClusterAdministration
from app.cluster.engine_errors import engine_errors
from app.cluster.key_pages import KeyPages, KeyTerms
from app.cluster.messaging import ClusterMessaging
from app.cluster.scan import ClusterScan
from app.cluster.verbs.part import ClusterPart, all_of
from app.server_host import ServerHost
from app.services.search import BUDGET_S, KEY_COUNT_MAX, KeyPage, SearchService
from engine.broker import FOREVER_MS, LogSearch, Lookup, ScanPage, ScanQuery
from engine.errors import Invalid, NotFound
from engine.message import StoredMessage

TOPICS_MAX = 500
ID_DIGITS = 32
HEX_DIGITS = frozenset("0123456789abcdefABCDEF")


class ClusterSearch(ClusterPart, SearchService):
    """`SearchService` of a cluster; what looks into messages pulls them."""

    def __init__(
        self, host: ServerHost, messaging: ClusterMessaging, administration: ClusterAdministration
    ) -> None:
        ClusterPart.__init__(self, messaging.catalog)
        SearchService.__init__(self, host, administration)
        self._messaging = messaging
        self._records = administration.records
        self._keys = KeyPages(messaging.catalog)

    @property
    def _engine(self) -> LogSearch:
        raise not_supported(
            "looks through no topic by content", field="filter", remedy="search by id, key or time"
        )

    async def scan(
        self, query: ScanQuery, *, count_max: int, cursor: str = "", budget_s: float = BUDGET_S
    ) -> ScanPage:
        """A page of a topic's messages; ends early, with a cursor, at the time limit."""
        scan = ClusterScan(self._catalog, query, count_max, cursor)
        async with self._turn():
            return await scan.page(budget_s)

    async def record_of_id(self, text: str) -> StoredMessage | None:
        """The record that an offset id names."""
        if len(text) != ID_DIGITS or not HEX_DIGITS.issuperset(text):
            return None
        try:
            return await self._messaging.message_by_offset_id(text.upper())
        except (NotFound, Invalid):
            return None

    async def purged(self, message_id: str) -> None:
        """None: brokers do not tell what they had."""

    async def by_id(self, message_id: str) -> list[StoredMessage]:
        """Every record of a message, oldest first, at most 64."""
        record = await self.record_of_id(message_id)
        sent = [record] if record else await self._everywhere(message_id, is_id=True)
        return await self._records.all(sent) if sent else []

    async def by_key(
        self,
        topic: str,
        key: str,
        *,
        count_max: int = KEY_COUNT_MAX,
        total_max: int = 0,
        begin_ms: int = 0,
        end_ms: int = 0,
        cursor: str = "",
    ) -> KeyPage:
        """A page of a topic's messages with a key, newest first, counted as far as it goes.

        Refused where more than a broker's index names came in one second.
        """
        terms = KeyTerms(topic, key, begin_ms, end_ms or FOREVER_MS)
        async with self._turn():
            return await self._keys.page(terms, count_max, cursor)

    async def by_text(
        self,
        text: str,
        *,
        budget_s: float = BUDGET_S,
        total_max: int = 0,
        begin_ms: int = 0,
        end_ms: int = FOREVER_MS,
    ) -> Lookup:
        """Messages in any topic with this id or key, at most 64."""
        messages = await self.by_id(text)
        if not messages:
            messages = (await self._everywhere(text, begin_ms, end_ms))[::-1]
        lookup = Lookup(iter(()), lambda message: True, total_max=total_max)
        lookup.step()
        lookup.take(messages)
        return lookup

    async def _everywhere(
        self, text: str, begin_ms: int = 0, end_ms: int = FOREVER_MS, *, is_id: bool = False
    ) -> list[StoredMessage]:
        """What the indexes of all topics of users have, oldest first."""
        topics = [each.name for each in await self._administration.topics()][:TOPICS_MAX]
        async with self._turn():
            parts = await all_of(
                self._of_topic(topic, text, begin_ms, end_ms, is_id=is_id) for topic in topics
            )
        return sorted((each for part in parts for each in part), key=lambda each: each.stored_ms)

    async def _of_topic(
        self, topic: str, key: str, begin_ms: int, end_ms: int, *, is_id: bool = False
    ) -> list[StoredMessage]:
        """Newest first."""
        with engine_errors("key"):
            messages = await self._client.reads.by_key(
                topic, key, begin_ms=begin_ms, end_ms=end_ms, is_id=is_id
            )
        return [
            self._stored(each) for each in reversed(messages) if begin_ms <= each.stored_ms < end_ms
        ]
