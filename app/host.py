"""The engine on the event loop: who drives its ticks, lends it threads and waits for it.

The loop's thread owns the broker. Verbs are called right here and return in microseconds; what has
to wait (a flush, a long poll) becomes a future that the engine's callback resolves. Nothing here
knows HTTP.
"""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue
from threading import Thread
from typing import TYPE_CHECKING, Any, TypeVar

from app.server_host import STOP_TIMEOUT_S, DiskRoom, RollSource, ServerHost
from engine.broker import Broker, LagStatistics, LongPoll, Statistics
from engine.clock import Clock
from engine.config import EngineConfig
from engine.errors import Busy

if TYPE_CHECKING:
    from engine.standby_broker import StandbyBroker

__all__ = ["EngineHost", "LongPoll", "LoopPool"]

log = logging.getLogger("kitemq.host")

T = TypeVar("T")
PoolCall = tuple[Callable[[], Any], Callable[[Any, Exception | None], None]]

POOL_THREADS = 4


class LoopPool:
    """The engine's `Pool` on a few threads; results come back on the loop's thread.

    A producer waits for a flush, so the way there and back is short: one wake-up of a
    thread, one of the loop. The futures and locks of `ThreadPoolExecutor` cost as much again.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, threads: int = POOL_THREADS) -> None:
        self._loop = loop
        self._threads_max = threads
        self._threads: list[Thread] = []
        self._calls: SimpleQueue[PoolCall | None] = SimpleQueue()  # None ends a thread
        self._under_way = 0
        self._idle = asyncio.Event()
        self._idle.set()

    def submit(
        self, work: Callable[[], T], done: Callable[[T | None, Exception | None], None]
    ) -> None:
        """Run `work` on a thread, then `done` on the loop's thread, once."""
        self._under_way += 1
        self._idle.clear()
        if len(self._threads) < min(self._under_way, self._threads_max):
            self._begin_thread()
        self._calls.put((work, done))

    async def settle(self, timeout_s: float) -> None:
        """Wait until nothing is under way; TimeoutError if it takes long."""
        async with asyncio.timeout(timeout_s):
            await self._idle.wait()

    async def close(self, timeout_s: float) -> None:
        """The same, then end the threads."""
        await self.settle(timeout_s)
        for _ in self._threads:
            self._calls.put(None)

    def _begin_thread(self) -> None:
        name = f"kitemq-engine_{len(self._threads)}"
        # A disk that never answers must not keep the process from ending.
        thread = Thread(target=self._run, name=name, daemon=True)
        try:
            thread.start()
        except RuntimeError:  # the system has no thread to give
            if not self._threads:
                self._under_way -= 1
                raise
            return  # the others do its work
        self._threads.append(thread)

    def _run(self) -> None:
        """Work through the calls, on a thread."""
        while (call := self._calls.get()) is not None:
            self._work(*call)
            del call  # its result is not held while the thread waits

    def _work(self, work: Callable[[], Any], done: Callable[[Any, Exception | None], None]) -> None:
        result, failure = None, None
        try:
            result = work()
        except Exception as error:
            failure = error
        except BaseException as error:
            failure = RuntimeError(repr(error))
        with suppress(RuntimeError):  # the loop was closed: the server stopped without waiting
            self._loop.call_soon_threadsafe(self._finish, done, result, failure)

    def _finish(
        self, done: Callable[[Any, Exception | None], None], result: Any, error: Exception | None
    ) -> None:
        try:
            done(result, error)
        finally:
            self._under_way -= 1
            if not self._under_way:
                self._idle.set()


class EngineHost(ServerHost):
    """Owns the `Broker` between `start` and `stop`, both called once on the loop's thread."""

    def __init__(
        self, config: EngineConfig, *, clock: Clock | None = None, leader: str = ""
    ) -> None:
        """With a `leader` it is a `StandbyBroker`, which somebody has to feed."""
        super().__init__(config, clock)
        self.leader = leader
        self._loading: asyncio.Future[None] | None = None
        self._broker: Broker | None = None
        self._pool: LoopPool | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._due_s = 0.0

    @property
    def broker(self) -> Broker:
        """The running engine; its verbs may only be called on the loop's thread."""
        assert self._broker is not None, "the engine is not started"
        return self._broker

    @property
    def lags(self) -> LagStatistics:
        """That of the engine."""
        return self.broker.statistics

    @property
    def statistics(self) -> Statistics:
        """Those of the engine."""
        return self.broker.statistics

    async def disk_room(self) -> DiskRoom:
        status = self.broker.retention.status()
        return DiskRoom(status.disk_free_bytes, status.refusal, ", sends are accepted")

    async def roll_source(self) -> RollSource:
        position = self.broker.log_end
        await self.flushed(position)
        return RollSource(("--upto", str(position)))

    @property
    def is_ready(self) -> bool:
        """Whether the engine has started and is not on its way out."""
        return self._broker is not None and not self._is_draining and not self.is_loading

    @property
    def standby_broker(self) -> "StandbyBroker":
        """The engine of a standby."""
        from engine.standby_broker import StandbyBroker

        assert isinstance(self._broker, StandbyBroker)
        return self._broker

    @property
    def next_tick_s(self) -> float:
        """When the engine ticks next, by the loop's time."""
        return self._due_s

    async def start(self) -> None:
        """Open the data directory, recover what a crash left, and begin to tick."""
        pool = LoopPool(self.loop)
        broker = self._make_broker(pool)
        try:
            broker.start()
        except BaseException:
            await pool.close(STOP_TIMEOUT_S)
            raise
        self._pool = pool
        self._broker = broker
        refusal = broker.start_refusal()
        if refusal:
            log.error(
                "%s has no room: everything can be read, and what would be written is refused "
                "until there is some (%s)",
                self.config.data,
                refusal,
            )
        self._arm(0.0)

    def _make_broker(self, pool: LoopPool) -> Broker:
        config, clock, wake = self.config, self.clock, self.poke
        if self.leader:
            from engine.standby_broker import StandbyBroker  # most servers follow nobody

            return StandbyBroker(config, leader=self.leader, clock=clock, pool=pool, on_wake=wake)
        return Broker(config, clock=clock, pool=pool, on_wake=wake)

    async def reload(self) -> None:
        """Open a standby's directory anew, on another thread; `is_loading` until that is done.

        Nobody may use the broker meanwhile. After an error call it again.
        """
        broker, pool = self.standby_broker, self._pool
        assert pool is not None
        self.is_loading = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        try:
            await pool.settle(STOP_TIMEOUT_S)
        except TimeoutError:
            raise Busy("the disk does not answer") from None
        self._loading = asyncio.ensure_future(asyncio.to_thread(broker.standby.reopen))
        await asyncio.shield(self._loading)
        broker.show()
        self.is_loading = False
        self._arm(0.0)

    async def stop(self, timeout_s: float = STOP_TIMEOUT_S) -> None:
        """End waits, let the threads finish, then stop the engine cleanly."""
        self.drain()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._loading is not None:  # not even a stop may close what a thread is opening
            await asyncio.wait([self._loading])
        broker, self._broker = self._broker, None
        pool, self._pool = self._pool, None
        if pool is not None:
            try:
                await pool.close(timeout_s)
            except TimeoutError:
                log.error("the disk did not answer within %.1f s of stopping", timeout_s)
                return  # without the clean mark: the next start checks what was written
        if broker is not None:
            broker.stop()

    def poke(self) -> None:
        """Tick soon: something was asked for that is due earlier than the engine last said."""
        self._arm(0.0)

    # -- ticks ----------------------------------------------------------------------------------

    def _arm(self, wait_s: float) -> None:
        if self.is_loading:
            return
        loop = self.loop
        when = loop.time() + wait_s
        if self._timer is not None:
            if self._due_s <= when:
                return
            self._timer.cancel()
        self._due_s = when
        self._timer = loop.call_at(when, self._tick)

    def _tick(self) -> None:
        self._timer = None
        if self._broker is not None:
            self._arm(self._broker.tick())
