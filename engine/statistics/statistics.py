"""Statistics: how much went through, how fast, how long it took, and lag over weeks.

A public part of the broker. Counters live in memory and begin anew with the process; the history
of lag is kept on disk.
"""

from collections.abc import Callable

import msgspec

from engine.clock import Clock
from engine.config import EngineConfig
from engine.service import Service
from engine.statistics.counting import EventCounter
from engine.statistics.end_to_end import BornMsOf, EndToEnd
from engine.statistics.lag_sampler import LagSampler, LagSources
from engine.statistics.lag_statistics import LagStatistics
from engine.statistics.latency_histogram import Spread, Timing
from engine.statistics.traffic_statistics import TrafficStatistics
from engine.statistics.values import BrokerMetrics, GroupMetrics, PutLatency
from engine.store.damage import DamageLog
from engine.store.files import Files
from engine.store.pool import Pool

SENDS_PER_STEP = 200  # about a millisecond
STEP_S, IDLE_STEP_S = 0.1, 1.0  # often while there are sends: a second of them at once takes long
SENDS_MAX = 100_000  # sends whose time waits to be entered; more are not counted in
FLUSHING_MAX = 10_000

Flushed = Callable[[Exception | None], None]


class Statistics(TrafficStatistics, LagStatistics, Service):
    """Built with the broker; `subscribe` its `hear`, `load` it at the start, `close` it at the end.

    Verbs return at once, but for those of lag, whose answers come by callback.
    """

    name = "statistics"

    def __init__(
        self,
        config: EngineConfig,
        *,
        clock: Clock,
        pool: Pool,
        files: Files,
        damage_log: DamageLog,
        lags: LagSources,
        has_room: Callable[[], bool],
        born_ms_of: BornMsOf,
    ) -> None:
        Service.__init__(self)
        LagStatistics.__init__(self, config, pool=pool, files=files, damage_log=damage_log)
        self._clock = clock
        now_ms = clock.now_ms()
        TrafficStatistics.__init__(self, now_ms)
        self._end_to_end = EndToEnd(born_ms_of)
        self._counting = EventCounter(self._books, now_ms, self._end_to_end.note)
        self.hear, self.kinds = self._counting.hear, self._counting.kinds
        self._sends: list[tuple[float, int, int]] = []
        self._turn = 0
        self._is_open = True
        self._flushing: dict[int, float] = {}
        self._stored, self._flushed, self._sizes = Timing(), Timing(), Timing()
        self.sampler = LagSampler(
            self,
            clock,
            lags=lags,
            active_ms=self._counting.activity.active_ms,
            has_room=has_room,
        )

    # -- life --------------------------------------------------------------------------------------

    def services(self) -> list[Service]:
        return [self, self.sampler]

    def close(self) -> None:
        """Let go of the files; nothing is timed or sampled any more."""
        self._is_open = False
        super().close()

    def tick(self) -> float:
        """Enter a bounded part of what was counted."""
        now_ms = self._clock.now_ms()
        more = self._counting.settle(now_ms)
        wait_s = STEP_S if self._sends else IDLE_STEP_S
        self._settle_sends(now_ms, SENDS_PER_STEP)
        more |= self._end_to_end.settle()
        if more or self._sends:
            return 0.0
        self._books.sweep(now_ms)
        return wait_s

    def forget_topic(self, topic: str) -> None:
        """A topic was deleted: its figures go."""
        self._counting.settle_all(self._clock.now_ms())
        self._counting.activity.forget_topic(topic)
        self._books.forget_topic(topic)

    def forget_group(self, group: str) -> None:
        """A group was deleted: its figures go; its history of lag stays until it is too old."""
        self._counting.settle_all(self._clock.now_ms())
        self._counting.activity.forget_group(group)
        self._books.forget_group(group)

    # -- what the broker tells ---------------------------------------------------------------------

    def sent(
        self, count: int, body_bytes: Callable[[int], int], began_s: float, flush_position: int
    ) -> None:
        """A send that began at `began_s` is stored; a `flush_position` above 0 is waited for.

        `body_bytes` tells the size of one of its `count` bodies.
        """
        if not self._is_open:
            return
        took_s = self._clock.monotonic_s() - began_s
        if len(self._sends) < SENDS_MAX:
            self._turn += 1
            size_bytes = body_bytes(self._turn % count)  # one for all of them
            self._sends.append((took_s, size_bytes, count))
        if flush_position and len(self._flushing) < FLUSHING_MAX:
            self._flushing[flush_position] = began_s

    def timed(self, position: int, done: Flushed) -> Flushed:
        """`done` for a flush up to `position`, which also takes the time of the send it is for."""
        began_s = self._flushing.pop(position, None)
        if began_s is None:
            return done

        def flushed(error: Exception | None) -> None:
            if error is None:
                took_s = self._clock.monotonic_s() - began_s
                self._flushed.add(self._clock.now_ms(), round(took_s * 1e6))
            done(error)

        return flushed

    # -- verbs -------------------------------------------------------------------------------------

    def broker(self) -> BrokerMetrics:
        """All topics and groups together, with times and sizes of sends."""
        counting, now_ms = self._counting, self._clock.now_ms()
        return msgspec.structs.replace(
            super().broker(),
            refused_by_code=dict(counting.refused_by_code),
            released=counting.released,
            corrupt=counting.corrupt,
            put_latency=self.put_latency(),
            message_size=self._sizes.recent(now_ms),
            message_size_ever=self._sizes.ever(),
        )

    def group(self, name: str) -> GroupMetrics:
        """The same with the reasons of its dead letters."""
        reasons = self._counting.dead_by_reason
        return msgspec.structs.replace(
            super().group(name),
            dead_by_reason={
                reason: count for (group, reason), count in reasons.items() if group == name
            },
        )

    def put_latency(self) -> PutLatency:
        """Latencies of sends."""
        now_ms = self._clock.now_ms()
        self._settle_sends(now_ms, SENDS_MAX)
        return PutLatency(self._stored.latency(now_ms), self._flushed.latency(now_ms))

    def end_to_end(self) -> Spread:
        """Microseconds from a message's making to its acknowledgement, over the last minutes.

        Estimated from one message of each acknowledgement, at most 200 a second; those of the last
        second may be missing.
        """
        return self._end_to_end.recent(self._clock.now_ms())

    def dead_letters(self) -> dict[tuple[str, str], int]:
        """Messages given up since the start, by group and reason."""
        return self._counting.dead_by_reason

    # -- inside ------------------------------------------------------------------------------------

    def _settled_ms(self, topic: str = "", group: str = "") -> int:
        now_ms = self._clock.now_ms()
        self._counting.settle_all(now_ms)
        return now_ms

    def _settle_sends(self, now_ms: int, count_max: int) -> None:
        part, self._sends = self._sends[:count_max], self._sends[count_max:]
        for took_s, size_bytes, count in part:
            self._stored.add(now_ms, round(took_s * 1e6))
            self._sizes.add(now_ms, size_bytes, count)
