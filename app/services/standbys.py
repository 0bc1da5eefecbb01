"""The standbys that copy this server, as the port for them knows them."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from engine.replication.epochs import JournalPlace, TakeOver

KITEMQ, ROCKETMQ = "kitemq", "rocketmq"


@dataclass(eq=False)
class StandbyLink:
    """One that is connected: its address, since when, and the position up to which it has the log.

    `kind` is "kitemq" for a standby, "rocketmq" for a slave, which gets the log alone. `ha_listen`
    is where a standby is reached once it leads, `end` where log and journal ended at the last cut
    that it has taken, None before it is in step. It is sent `order` once it has all.
    """

    address: str
    kind: str
    since_ms: int
    position: int
    ha_listen: str = ""
    end: tuple[int, JournalPlace] | None = None
    order: TakeOver | None = None

    @property
    def in_step(self) -> bool:
        """Whether it has had everything once since it connected."""
        return self.end is not None

    def lag_bytes(self, log_end: int) -> int:
        """How much of a log that goes to `log_end` it has not reported."""
        return max(0, log_end - self.position)


@dataclass
class Standbys:
    """Those connected now, in the order in which they came; for the event loop's thread."""

    links: list[StandbyLink] = field(default_factory=list)
    refusal: str = ""  # why the last one that was refused was
    wake: Callable[[], None] = lambda: None  # those who feed them look at once

    @contextmanager
    def connected(self, link: StandbyLink) -> Iterator[StandbyLink]:
        """The link is among them while the context lasts."""
        self.links.append(link)
        try:
            yield link
        finally:
            self.links.remove(link)
