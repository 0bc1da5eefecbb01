"""Pages of the messages of a key, newest first, over the indexes of all brokers of a topic.

A broker names the newest 64 of its index up to a time, which it knows to a second: what was stored
within that second after the time may be among them. So each answer is whole behind its oldest
message, and the next is asked for up to that one's time. Where more than 64 messages with the same
hash lie in one second the index goes no further: the page that would need it is refused.
"""

from collections.abc import Mapping
from operator import attrgetter

import msgspec

from app.cluster.catalog import ClusterCatalog
from app.cluster.engine_errors import engine_errors
from app.cluster.messages import with_key
from app.cluster.reading import KEY_MAX
from app.cluster.verbs.part import ClusterPart, all_of
from app.services.search import KeyPage
from engine.broker import FOREVER_MS
from engine.errors import Invalid, Refused
from engine.message import StoredMessage

ROUNDS_MAX = 20  # answers of each broker for one page
INT_MAX = 2**63 - 1
Place = tuple[int, int, int]  # when it was stored, queue, offset
NO_PLACE: Place = (INT_MAX, 0, 0)


class KeyTerms(msgspec.Struct, frozen=True):
    """Which messages: of a topic with a key, stored from `begin_ms` to before `end_ms`."""

    topic: str
    key: str
    begin_ms: int = 0
    end_ms: int = FOREVER_MS


class _BrokerIndex(ClusterPart):
    """What one broker has named: everything that it has behind `floor_ms`, from the newest on."""

    def __init__(
        self, catalog: ClusterCatalog, broker: str, terms: KeyTerms, before: Place
    ) -> None:
        super().__init__(catalog)
        self.broker = broker
        self._terms, self._before = terms, before
        self._end_ms = min(terms.end_ms, before[0] + 1)
        self.floor_ms = INT_MAX
        self.is_stuck = False
        self.messages: dict[Place, StoredMessage] = {}

    @property
    def is_over(self) -> bool:
        return self.floor_ms < self._terms.begin_ms

    async def read_on(self) -> None:
        """Have it name older ones."""
        terms = self._terms
        with engine_errors("key"):
            settings = await self._catalog.settings(self.broker)
            answer = await self._client.reads.named(
                self.broker, terms.topic, terms.key, begin_ms=terms.begin_ms, end_ms=self._end_ms
            )
        limit = int(settings.get("maxMsgsNumBatch") or KEY_MAX)
        for each in with_key(answer, terms.topic, terms.key):
            message = self._stored(each)
            place = place_of(message)
            if place < self._before and terms.begin_ms <= each.stored_ms < terms.end_ms:
                self.messages[place] = message
        oldest_ms = min((each.stored_ms for each in answer), default=0)
        if len(answer) < min(KEY_MAX, limit):
            self.floor_ms = -1
        elif oldest_ms < self.floor_ms:
            self.floor_ms, self._end_ms = oldest_ms, oldest_ms + 1
        else:
            self.is_stuck = True


class KeyPages(ClusterPart):
    """Pages for `ClusterSearch`."""

    async def page(self, terms: KeyTerms, count_max: int, cursor: str) -> KeyPage:
        """Messages behind the cursor; Invalid, Refused where the index names no more, Busy."""
        before = _place_in(cursor) if cursor else NO_PLACE
        route = await self._catalog.route(terms.topic)
        indexes = [_BrokerIndex(self._catalog, each, terms, before) for each in route.brokers]
        behind = indexes
        messages: list[StoredMessage] = []
        floor_ms = 0
        for _ in range(ROUNDS_MAX):
            await all_of(each.read_on() for each in behind)
            floor_ms = max(each.floor_ms for each in indexes)
            messages = _named(indexes, floor_ms)
            behind = [each for each in indexes if each.floor_ms == floor_ms and not each.is_over]
            is_stuck = not behind or any(each.is_stuck for each in behind)
            if len(messages) > count_max or is_stuck:
                break
        if behind and not messages:  # at least what is named of the second that it is stuck in
            messages = _named(indexes, floor_ms - 1)
        if behind and not messages:
            raise Refused(
                f"broker {behind[0].broker} has more than {KEY_MAX} messages with the hash of key "
                f"{terms.key!r} in one second, and its index names no others",
                field="cursor",
                remedy="search the topic by content, or by a time before that second",
            )
        page = messages[:count_max]
        has_more = bool(behind) or len(messages) > len(page)
        following = _cursor_of(place_of(page[-1])) if page and has_more else ""
        return KeyPage(page, following, len(messages), bool(behind))


def _named(indexes: list[_BrokerIndex], floor_ms: int) -> list[StoredMessage]:
    """What brokers have named of the time after `floor_ms`, newest first."""
    named: Mapping[Place, StoredMessage] = {
        place: message for each in indexes for place, message in each.messages.items()
    }
    return [named[place] for place in sorted(named, reverse=True) if place[0] > floor_ms]


place_of = attrgetter("stored_ms", "queue", "offset")


def _cursor_of(place: Place) -> str:
    return "-".join(map(str, place))


def _place_in(cursor: str) -> Place:
    parts = cursor.split("-")
    if len(parts) == len(NO_PLACE) and all(each.isascii() and each.isdigit() for each in parts):
        stored_ms, queue, offset = (min(int(each[:19]), INT_MAX) for each in parts)
        return stored_ms, queue, offset
    raise Invalid(
        f"{cursor[:40]!r} is no cursor", field="cursor", remedy="send next_cursor as it came"
    )
