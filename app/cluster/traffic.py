"""Traffic of a cluster by what its queues' ends and its groups' offsets gained between samples.

The end of a queue counts every message that was stored there, and the offset of a group those that
it took: that POP handed out, or that a pulling client has committed. What brokers number is exact;
what they do not number (bytes, acknowledgements, retries, refusals, times) is None. What came
between two samples is spread evenly over the time between them.
"""

from collections.abc import Collection, Mapping
from typing import NoReturn

import msgspec

from app.pause import Pause
from engine.broker import Metric, OffsetMove, TrafficStatistics
from engine.clock import Clock
from engine.errors import Busy

INTERVAL_S = 10.0
RETRY_S = 2.0
STALE_MS = 60_000
MINUTE_MS = 60_000
RESETS_MAX = 10_000  # queues that a group has not read since it was reset
Place = tuple[str, int]  # topic and queue


class TrafficSample(msgspec.Struct, frozen=True):
    """Ends by topic and queue, offsets by group and place, both read at `at_ms`.

    A topic that is listed and has no ends could not be read; `offsets`, of all groups, is None
    where they could not.
    """

    at_ms: int
    topics: Collection[str]
    ends: Mapping[str, Mapping[int, int]]
    offsets: Mapping[str, Mapping[Place, int]] | None

    @property
    def is_whole(self) -> bool:
        """Whether everything could be read."""
        return self.offsets is not None and len(self.ends) == len(self.topics)


class _Gauge(msgspec.Struct):
    """The last reading of a topic or a group; its figures are since `since_ms`."""

    since_ms: int
    at_ms: int
    marks: Mapping[Place, int]


class ClusterTraffic(TrafficStatistics):
    """`TrafficStatistics` of a cluster, since the first sample."""

    counted = frozenset({Metric.MESSAGES_IN, Metric.MESSAGES_OUT})
    has_seconds = False

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock.now_ms())
        self._clock = clock
        self._at_ms = self._before_ms = 0  # of the last two samples
        self._is_whole = False
        self._late_ms = 0  # when a topic was read for the first time, and not the last to be made
        self._offsets_ms = 0  # since when they could be read each time; 0: not now
        self._topics: dict[str, _Gauge] = {}
        self._groups: dict[str, _Gauge] = {}
        # Where a group was and goes on: its broker moves it when it reads the queue next.
        self._resets: dict[tuple[str, Place], tuple[int | None, int]] = {}

    @property
    def is_begun(self) -> bool:
        """Whether there is a sample that the next one is compared with."""
        return bool(self._at_ms)

    async def enter(self, sample: TrafficSample) -> None:
        """Count what was gained since the sample before, with pauses for others."""
        at_ms, pause = sample.at_ms, Pause()
        if at_ms <= self._at_ms or not self._at_ms:  # the first, or the calendar was set back
            self._restart(at_ms)
        for name in self._topics.keys() - set(sample.topics):
            del self._topics[name]
            self._books.forget_topic(name)
        for name, ends in sample.ends.items():
            self._enter_topic(name, {(name, queue): end for queue, end in ends.items()}, at_ms)
            await pause.when_due()
        if sample.offsets is not None:
            for name in self._groups.keys() - sample.offsets.keys():
                del self._groups[name]
                self._books.forget_group(name)
            for name, offsets in sample.offsets.items():
                self._enter_group(name, offsets, at_ms)
                await pause.when_due()
        self._offsets_ms = 0 if sample.offsets is None else (self._offsets_ms or at_ms)
        self._is_whole = sample.is_whole
        self._before_ms, self._at_ms = self._at_ms, at_ms
        self._books.sweep(at_ms)

    def reset(self, group: str, moves: Collection[OffsetMove]) -> None:
        """A group goes on elsewhere: what it passes over by that was not consumed."""
        if len(self._resets) + len(moves) > RESETS_MAX:
            self._resets.clear()
        for each in moves:
            place = each.topic, each.queue
            self._resets[group, place] = each.before, each.after or 0

    # -- inside ---------------------------------------------------------------------------------

    def _restart(self, at_ms: int) -> None:
        self.since_ms = at_ms
        self._books.restart(at_ms)
        self._topics.clear()
        self._groups.clear()
        self._at_ms = self._late_ms = self._offsets_ms = 0
        self._is_whole = False

    def _enter_topic(self, name: str, ends: Mapping[Place, int], at_ms: int) -> None:
        if not ends:  # deleted since it was listed
            self._topics.pop(name, None)
            return
        last = self._topics.get(name)
        if last is None and self._is_whole:  # it was not there, and so it was empty
            last = _Gauge(self.since_ms, self._at_ms, {})
        elif last is None:
            last = _Gauge(at_ms if self._at_ms else self.since_ms, at_ms, ends)
            self._late_ms = at_ms if self._at_ms else 0
        for place, end in ends.items():
            gained = end - last.marks.get(place, 0)
            if gained > 0:
                self._books.spread_in(last.at_ms, at_ms, *place, gained)
        # A queue that the topic has no more may come back with its messages.
        self._topics[name] = _Gauge(last.since_ms, at_ms, {**last.marks, **ends})

    def _enter_group(self, name: str, offsets: Mapping[Place, int], at_ms: int) -> None:
        last = self._groups.get(name) or _Gauge(at_ms, at_ms, offsets)
        for place, offset in offsets.items():
            start = last.marks.get(place, offset)  # where it began is not known
            moved = self._resets.get((name, place))
            if moved is not None and offset != moved[0]:
                del self._resets[name, place]
                start = moved[1]
            if offset > start:
                self._books.spread_out(last.at_ms, at_ms, name, *place, offset - start)
        self._groups[name] = _Gauge(last.since_ms, at_ms, offsets)

    def _settled_ms(self, topic: str = "", group: str = "") -> int:
        """The time of the last sample; Busy where what is asked for is not in it, or it is old."""
        late_ms = max(STALE_MS, 3 * (self._at_ms - self._before_ms))
        if self._clock.now_ms() - self._at_ms > late_ms or not self._before_ms:
            self._refuse("the cluster's traffic")
        if topic:
            last = self._topics.get(topic)
            if last is None or last.at_ms < self._at_ms or not self._is_long(last.since_ms):
                self._refuse(f"the traffic of topic {topic!r}")
        elif group:
            if not self._offsets_ms or self._offsets_ms == self._at_ms:
                self._refuse(f"the traffic of group {group!r}")
        elif not self._is_whole or not self._is_long(self._late_ms or self.since_ms):
            self._refuse("the cluster's traffic")
        return self._at_ms

    def _is_long(self, since_ms: int) -> bool:
        """Whether what is known since then is all that a minute's rate is of."""
        return since_ms == self.since_ms or self._at_ms - since_ms >= MINUTE_MS

    def _refuse(self, what: str) -> NoReturn:
        raise Busy(
            f"{what} is not known: it needs two samples, {INTERVAL_S:g} s apart, of every broker "
            "that has a part of it",
            retry_after_s=RETRY_S,
            remedy="ask again later, or see whether a broker is away",
        )
