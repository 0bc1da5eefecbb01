"""What every server has, whatever engine is behind it: a clock, the event loop, and waits that end
when it stops. Nothing here knows HTTP.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from functools import cached_property, partial
from typing import TYPE_CHECKING, NamedTuple, Protocol

from app.capabilities import not_supported
from app.tasks import settle
from app.turn_end import TurnEnd
from engine.broker import Broker, LagStatistics, TrafficStatistics
from engine.clock import Clock, SystemClock
from engine.config import EngineConfig
from engine.errors import Refused
from engine.message import Durability

if TYPE_CHECKING:
    from engine.standby_broker import StandbyBroker

STOP_TIMEOUT_S = 10.0


class Place(Protocol):
    """A place in something that is waited for."""

    def cancel(self) -> None:
        """Nobody waits any more."""


class RollSource(NamedTuple):
    """Where `analytics.roll` reads: its options, and secrets for its environment."""

    words: tuple[str, ...]
    environment: Mapping[str, str] = {}


class DiskRoom(NamedTuple):
    """How much of the data directory's disk is free, and why nothing is written there, if so."""

    free_bytes: int | None
    refusal: str = ""
    note: str = ""  # what that means, to end a sentence


class ServerHost(ABC):
    """Between `start` and `stop`, both called once on the loop's thread."""

    leader = ""  # of a standby
    is_loading = False  # a standby's directory, anew

    def __init__(self, config: EngineConfig, clock: Clock | None) -> None:
        self.config = config
        self.clock: Clock = clock or SystemClock()
        self.turn_end = TurnEnd()
        self._waiting: set[asyncio.Future[bool]] = set()
        self._is_draining = False

    @cached_property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The loop, kept: `asyncio.get_running_loop` of Python 3.11 makes a system call."""
        return asyncio.get_running_loop()

    @property
    def broker(self) -> Broker:
        """The embedded engine; Refused (`not_supported`) where another one is behind the server."""
        raise _refusal()

    @property
    def standby_broker(self) -> "StandbyBroker":
        """The embedded engine of a standby; Refused alike."""
        raise _refusal()

    @property
    @abstractmethod
    def lags(self) -> LagStatistics:
        """The history of lag, while the server runs."""

    @property
    @abstractmethod
    def statistics(self) -> TrafficStatistics:
        """What goes through, while the server runs."""

    @property
    @abstractmethod
    def is_ready(self) -> bool:
        """Whether requests can be answered, and the server is not on its way out."""

    @property
    def waiting_count(self) -> int:
        """Long polls that wait right now."""
        return len(self._waiting)

    @abstractmethod
    async def start(self) -> None:
        """Begin to answer."""

    def drain(self) -> None:
        """End every long poll with what it has, and let none wait any more; for the way out."""
        self._is_draining = True
        for waiting in tuple(self._waiting):
            settle(waiting, False)

    @abstractmethod
    async def stop(self, timeout_s: float = STOP_TIMEOUT_S) -> None:
        """End waits, then what was started."""

    @abstractmethod
    async def roll_source(self) -> RollSource:
        """What reports read, once it can be read up to now."""

    @abstractmethod
    async def disk_room(self) -> DiskRoom:
        """The room in the data directory as of now."""

    async def wait(self, begin: Callable[[Callable[[], None]], Place], wait_s: float) -> bool:
        """Begin something that calls back when it is over, and wait: whether it called in time.

        `begin` gets the callback; what it returns is cancelled where nobody waits any more: after
        `wait_s`, when the caller is cancelled, and while the server stops, when it may not even
        begin.
        """
        return await self.wait_until(begin, self.loop.time() + wait_s)

    async def wait_until(
        self, park: Callable[[Callable[[], None]], Place], deadline_s: float
    ) -> bool:
        """Wait until the engine wakes us (True) or the time is over or we drain (False).

        A caller that does not ask the engine again cancels its place, which passes on a wake that
        it had got; a caller that was woken and asks again must not.
        """
        loop = self.loop
        if self._is_draining or loop.time() >= deadline_s:
            return False
        woken: asyncio.Future[bool] = loop.create_future()
        parked = park(partial(settle, woken, True))
        timer = loop.call_at(deadline_s, settle, woken, False)
        self._waiting.add(woken)
        try:
            if woken.done():  # there is more to examine at once: let others run in between
                await asyncio.sleep(0)
            is_woken = await woken
        except BaseException:  # cancelled, or closed before a task awaited it
            parked.cancel()
            raise
        finally:
            timer.cancel()
            self._waiting.discard(woken)
        if not is_woken:
            parked.cancel()
        return is_woken

    # -- waiting for the embedded engine --------------------------------------------------------

    async def flushed(self, position: int) -> None:
        """Wait until the log is on disk up to `position`; raises what kept it from that."""
        flushed: asyncio.Future[None] = self.loop.create_future()
        self.broker.when_flushed(position, partial(settle, flushed, None))
        await flushed

    async def accepted(self, position: int, durability: Durability) -> Durability:
        """Wait for what `when_accepted` says; the durability, or raises what kept it from that."""
        level: asyncio.Future[Durability] = self.loop.create_future()
        self.broker.when_accepted(position, durability, partial(settle, level))
        return await level


def _refusal() -> Refused:
    return not_supported(
        "does not have this: it belongs to the embedded one",
        field="engine",
        remedy="use the tools of the engine behind this server",
    )
