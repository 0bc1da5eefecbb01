"""Figures of each client from the engine's events and the endpoints; joins and leaves of groups.

Nothing survives a restart. The acknowledging client is known for the first message of each delivery
only: remembering all of them would slow down every message.
"""

from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from engine.events import (
    Acked,
    DeadLettered,
    EngineEvent,
    MemberJoined,
    MemberLeft,
    MessagesDelivered,
    Retried,
    Returned,
    SendRefused,
)
from kitemq.model.conversion import convert

CLIENTS_MAX = 10_000  # the longest silent are forgotten first
ADDRESSES_MAX = 10_000
TIMES_MAX = 256  # the latest processing times that a percentile is taken of
PLACES_MAX = 256  # deliveries of one queue whose acknowledgement is awaited
QUEUES_MAX = 4_000
PASSAGES_MAX = 50  # of one group
GROUPS_MAX = 2_500
BUCKET_MS = 10_000
BUCKETS = 6
ERROR_CHARS_MAX = 200
CLOCK_PERIOD_MS = 5 * 60_000
EXPIRED = ("", "its time ran out")  # why a delivery came back, by whether its time had run out

K = TypeVar("K")
V = TypeVar("V")
Queue = tuple[str, str, int]  # group, topic, queue


class Minute:
    """A count over the last minute, in steps of ten seconds, and since it began."""

    __slots__ = ("_counts", "_step", "total")

    def __init__(self) -> None:
        self._counts = [0] * (BUCKETS + 1)
        self._step = 0
        self.total = 0

    def add(self, at_ms: int, count: int) -> None:
        self._move(at_ms)
        self._counts[-1] += count
        self.total += count

    def rate(self, now_ms: int) -> float:
        """Per second, over the last minute and the step that goes on."""
        self._move(now_ms)
        seconds = (BUCKETS * BUCKET_MS + now_ms % BUCKET_MS) / 1000
        return sum(self._counts) / seconds

    def _move(self, at_ms: int) -> None:
        step = at_ms // BUCKET_MS
        gone = step - self._step
        if gone > 0:
            counts = self._counts[gone:] if gone <= BUCKETS else []
            self._counts = counts + [0] * (BUCKETS + 1 - len(counts))
            self._step = step


class ClockSkew:
    """How far a client's clock is ahead of the server's, in milliseconds; negative if behind.

    A message is born before it arrives, so each one shows a time that is too early by its way. The
    one that came fastest in this period of five minutes or the one before tells the most.
    """

    __slots__ = ("_before", "_latest", "_period")

    def __init__(self) -> None:
        self._period = 0
        self._latest: int | None = None
        self._before: int | None = None

    def add(self, skew_ms: int, at_ms: int) -> None:
        """A message that arrived at `at_ms` was born so much after that, by the client's clock."""
        self._move(at_ms)
        self._latest = skew_ms if self._latest is None else max(self._latest, skew_ms)

    def at(self, now_ms: int) -> int | None:
        """The skew; None if no message came for long."""
        self._move(now_ms)
        known = [each for each in (self._latest, self._before) if each is not None]
        return max(known, default=None)

    def _move(self, at_ms: int) -> None:
        period = at_ms // CLOCK_PERIOD_MS
        if period > self._period:
            self._before = self._latest if period == self._period + 1 else None
            self._period, self._latest = period, None


@dataclass(slots=True)
class _Client:
    handed: Minute = field(default_factory=Minute)
    failed: Minute = field(default_factory=Minute)
    sent: Minute = field(default_factory=Minute)
    handed_ms: int | None = None
    acked_ms: int | None = None
    sent_ms: int | None = None
    failed_ms: int | None = None
    error: str = ""
    times_ms: deque[int] = field(default_factory=lambda: deque(maxlen=TIMES_MAX))
    clock: ClockSkew = field(default_factory=ClockSkew)


@dataclass(frozen=True)
class ClientActivity:
    """One client's figures since it was first seen; rates are per second over the last minute.

    `sent` is None if its endpoint cannot identify senders. `processing_p99_ms` covers the latest
    `processing_samples` deliveries, at most 256, the first message of each; None without any.
    `clock_skew_ms` is how far its clock is ahead, by its messages of the last five to ten minutes;
    None without any, and for endpoints whose messages are born when an application says so.
    """

    handed: int = 0
    handed_rate: float = 0.0
    failed: int = 0
    failed_rate: float = 0.0
    sent: int = 0
    sent_rate: float = 0.0
    handed_ms: int | None = None
    acked_ms: int | None = None
    sent_ms: int | None = None
    failed_ms: int | None = None
    error: str = ""
    processing_p99_ms: int | None = None
    processing_samples: int = 0
    clock_skew_ms: int | None = None


@dataclass(frozen=True)
class Refusals:
    """Sends from one address that were turned down; `code` is the last one's."""

    count: int = 0
    code: str = ""
    at_ms: int | None = None


@dataclass(frozen=True)
class Passage:
    """A consumer joined its group or left it, and how many there were then."""

    at_ms: int
    client: str
    kind: str  # joined, left, expired
    members: int


NOTHING = ClientActivity()
NEVER_REFUSED = Refusals()


class ClientFigures:
    """Counts by client: `hear` takes each event of the engine; endpoints call `sent`."""

    def __init__(self, members: Callable[[str], int]) -> None:
        """`members` tells how many members a group has."""
        self._members = members
        self._clients: OrderedDict[str, _Client] = OrderedDict()
        self._places: OrderedDict[Queue, dict[int, tuple[str, int]]] = OrderedDict()
        self._refused: OrderedDict[str, Refusals] = OrderedDict()
        self._passages: OrderedDict[str, deque[Passage]] = OrderedDict()
        self._hears: dict[type[EngineEvent], Callable[..., object]] = {
            MessagesDelivered: self._delivered,
            Acked: self._acked,
            Retried: lambda event: self._failed(event, event.error or EXPIRED[event.is_expired]),
            DeadLettered: lambda event: self._failed(event, event.reason),
            Returned: lambda event: self._settled(event, event.offsets),
            SendRefused: self._send_refused,
            MemberJoined: lambda event: self._pass(event, "joined"),
            MemberLeft: lambda event: self._pass(event, "expired" if event.is_expired else "left"),
        }

    @property
    def kinds(self) -> Iterable[type[EngineEvent]]:
        """What `hear` is to be subscribed to."""
        return self._hears

    def hear(self, event: EngineEvent) -> None:
        """Take an event of the engine."""
        self._hears[type(event)](event)

    def sent(self, client: str, count: int, at_ms: int, born_ms: int = 0) -> None:
        """A client stored `count` messages, the last one born at `born_ms` by the client's clock.

        0 if that is not known.
        """
        client_figures = self._client(client)
        client_figures.sent.add(at_ms, count)
        client_figures.sent_ms = at_ms
        if born_ms:
            client_figures.clock.add(born_ms - at_ms, at_ms)

    # -- asking ----------------------------------------------------------------------------------

    def of(self, client: str, now_ms: int) -> ClientActivity:
        """A client's figures; `NOTHING` for an unknown client."""
        figures = self._clients.get(client)
        if figures is None:
            return NOTHING
        times = sorted(figures.times_ms)
        return convert(
            figures,
            ClientActivity,
            handed=figures.handed.total,
            handed_rate=figures.handed.rate(now_ms),
            failed=figures.failed.total,
            failed_rate=figures.failed.rate(now_ms),
            sent=figures.sent.total,
            sent_rate=figures.sent.rate(now_ms),
            processing_p99_ms=times[-(-len(times) * 99 // 100) - 1] if times else None,
            processing_samples=len(times),
            clock_skew_ms=figures.clock.at(now_ms),
        )

    def rates(self, client: str, now_ms: int) -> tuple[float, float, int]:
        """Deliveries and sends per second, and the failures; cheaper than `of`."""
        figures = self._clients.get(client)
        if figures is None:
            return 0.0, 0.0, 0
        return figures.handed.rate(now_ms), figures.sent.rate(now_ms), figures.failed.total

    def refused(self, address: str) -> Refusals:
        """Sends from this address that were turned down."""
        return self._refused.get(address, NEVER_REFUSED)

    def passages(self, group: str) -> Sequence[Passage]:
        """The last 50 joins and leaves of a group since the server started, newest first."""
        return tuple(reversed(self._passages.get(group, ())))

    # -- events ----------------------------------------------------------------------------------

    def _delivered(self, event: MessagesDelivered) -> None:
        if not event.client:
            return
        figures = self._client(event.client)
        figures.handed.add(event.at_ms, len(event.offsets))
        figures.handed_ms = event.at_ms
        queue = (event.group, event.topic, event.queue)
        places = self._places.get(queue)
        if places is None:
            places = _room(self._places, queue, QUEUES_MAX, {})
        places[event.offsets[0]] = (event.client, event.at_ms)
        if len(places) > PLACES_MAX:
            del places[next(iter(places))]

    def _acked(self, event: Acked) -> None:
        for client, began_ms in self._settled(event, event.offsets):
            figures = self._client(client)
            figures.acked_ms = event.at_ms
            figures.times_ms.append(max(0, event.at_ms - began_ms))

    def _failed(self, event: Retried | DeadLettered, error: str) -> None:
        self._settled(event, (event.offset,))
        if not event.client:
            return
        figures = self._client(event.client)
        figures.failed.add(event.at_ms, 1)
        figures.failed_ms = event.at_ms
        figures.error = error[:ERROR_CHARS_MAX]

    def _send_refused(self, event: SendRefused) -> None:
        if event.client:
            count = self.refused(event.client).count + 1
            refusals = Refusals(count, event.code, event.at_ms)
            self._refused.pop(event.client, None)
            _room(self._refused, event.client, ADDRESSES_MAX, refusals)

    def _pass(self, event: MemberJoined | MemberLeft, kind: str) -> None:
        passages = self._passages.get(event.group)
        if passages is None:
            passages = _room(self._passages, event.group, GROUPS_MAX, deque(maxlen=PASSAGES_MAX))
        passages.append(Passage(event.at_ms, event.client, kind, self._members(event.group)))

    def _settled(
        self, event: Acked | Returned | Retried | DeadLettered, offsets: Sequence[int]
    ) -> list[tuple[str, int]]:
        """Remove and return the remembered deliveries of these offsets."""
        places = self._places.get((event.group, event.topic, event.queue))
        if not places:
            return []
        return [places.pop(offset) for offset in offsets if offset in places]

    def _client(self, name: str) -> _Client:
        figures = self._clients.get(name)
        if figures is None:
            return _room(self._clients, name, CLIENTS_MAX, _Client())
        self._clients.move_to_end(name)
        return figures


def _room(entries: "OrderedDict[K, V]", key: K, count_max: int, value: V) -> V:
    """Keep one more; the oldest goes where there are too many."""
    if len(entries) >= count_max:
        entries.popitem(last=False)
    entries[key] = value
    return value
