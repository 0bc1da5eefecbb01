"""The standbys that copy this server, as the port for them knows them."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

KITEMQ, ROCKETMQ = "kitemq", "rocketmq"


@dataclass(eq=False)
class StandbyLink:
    """One that is connected: its address, since when, and the position up to which it has the log.

    `kind` is "kitemq" for a standby, "rocketmq" for a slave, which gets the log alone.
    """

    address: str
    kind: str
    since_ms: int
    position: int

    def lag_bytes(self, log_end: int) -> int:
        """How much of a log that goes to `log_end` it has not reported."""
        return max(0, log_end - self.position)


@dataclass
class Standbys:
    """Those connected now, in the order in which they came; for the event loop's thread."""

    links: list[StandbyLink] = field(default_factory=list)
    refusal: str = ""  # why the last one that was refused was

    @contextmanager
    def connected(self, link: StandbyLink) -> Iterator[StandbyLink]:
        """The link is among them while the context lasts."""
        self.links.append(link)
        try:
            yield link
        finally:
            self.links.remove(link)
