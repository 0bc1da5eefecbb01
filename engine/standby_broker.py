"""A broker over a standby: it answers what a leader's would, and changes nothing of its own.

The leader is one of KiteMQ, or an Apache RocketMQ master.

What parts derive at a start (delays and transactions that wait, what is in flight) is not there:
a start makes it. Messages, topics, groups and their offsets are what they were at the last cut.
"""

from collections.abc import Callable

from engine.broker import Broker
from engine.clock import Clock
from engine.config import ROCKETMQ_SCHEME, EngineConfig
from engine.errors import OnStandby
from engine.replication.rocketmq_standby import RocketmqStandby
from engine.replication.standby import Standby
from engine.store.files import Files
from engine.store.pool import Pool


class StandbyBroker(Broker):
    """As a `Broker`; `standby` takes the leader's pieces between `start` and `stop`."""

    standby: Standby

    def __init__(
        self,
        config: EngineConfig,
        *,
        leader: str,
        clock: Clock,
        pool: Pool,
        files: Files | None = None,
        on_wake: Callable[[], None] = lambda: None,
    ) -> None:
        """`leader` is the address that those are told who want to change something."""
        super().__init__(config, clock=clock, pool=pool, files=files, on_wake=on_wake)
        self._leader, self._pool, self._on_wake = leader, pool, on_wake

    def start(self) -> None:
        """Open the directory; Busy and Corrupt as a broker's start."""
        follows_rocketmq = self._leader.startswith(ROCKETMQ_SCHEME)
        self.standby = (RocketmqStandby if follows_rocketmq else Standby)(
            self._config,
            clock=self._clock,
            pool=self._pool,
            files=self._files,
            on_wake=self._on_wake,
            check_running=self._check_running,
        )
        self.show()

    def show(self) -> None:
        """Answer from what the standby has opened last; those who listen go on to."""
        events = self.events
        self._use(self.standby.parts)
        self.events, self._runner = events, self.standby.runner
        self._is_running = True

    def tick(self) -> float:
        """Do the store's upkeep; seconds until the next call is useful, at most 5."""
        return self.standby.tick()

    def stop(self) -> None:
        """Bring everything to the disk and let go."""
        self._is_running = False
        self.standby.close()

    def _check_running(self) -> None:
        raise OnStandby(self._leader)
