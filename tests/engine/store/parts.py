"""A store by itself, opened, crashed and reopened by a test; and files that fail on demand."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from engine.clock import ManualClock
from engine.config import EngineConfig
from engine.events import EngineEvent, EventBus
from engine.message import Message, PutResult, StoredMessage
from engine.store.files import Files, OsFiles
from engine.store.pool import InlinePool, Pool
from engine.store.store import Store
from tests.engine.opened import let_go

T = TypeVar("T")
SEGMENT_BYTES = 64 * 1024


class HeldPool:
    """Takes jobs and runs none until it is told to."""

    def __init__(self) -> None:
        self.jobs: list[Callable[[], None]] = []

    def submit(
        self, work: Callable[[], T], done: Callable[[T | None, Exception | None], None]
    ) -> None:
        self.jobs.append(lambda: InlinePool().submit(work, done))

    def run(self) -> None:
        """Everything there is, and what follows from it."""
        while self.jobs:
            self.jobs.pop(0)()


class Bench:
    """One directory, and the store that is open on it."""

    def __init__(self, root: Path, files: Files | None = None) -> None:
        self.root = root
        self.files: Files = files or OsFiles()
        self.clock = ManualClock()
        self.events = EventBus()
        self.heard: list[EngineEvent] = []
        self.events.subscribe(self.heard.append)
        self.replayed: list[StoredMessage] = []
        self.settings: dict[str, Any] = {}
        self.pool: Pool = InlinePool()
        self.is_open = False

    def open(
        self,
        pool: Pool | None = None,
        *,
        begin_of: Callable[[str], int | None] = lambda topic: 0,
        is_wanted: Callable[[StoredMessage], bool] = lambda message: True,
        is_deleted: Callable[[str], bool] = lambda topic: False,
        **settings: Any,
    ) -> Store:
        self.settings |= settings
        known = {"segment_bytes": SEGMENT_BYTES, "disk_free_min_bytes": 0, "index_slots": 101}
        config = EngineConfig(data=self.root, **{**known, "index_items": 1000, **self.settings})
        self.pool = pool or InlinePool()
        self.store = Store(
            config, clock=self.clock, pool=self.pool, files=self.files, events=self.events
        )
        self.store.open()
        self.store.journal.load()
        self.replayed = []
        self.store.recover(
            begin_of=begin_of,
            is_wanted=is_wanted,
            on_replayed=self.replayed.append,
            is_deleted=is_deleted,
        )
        self.is_open = True
        return self.store

    def crash(self) -> Store:
        """Go on with a new store on what the page cache holds."""
        self.close()
        return self.open()

    def restart(self) -> Store:
        self.store.stop()
        return self.open()

    def close(self) -> None:
        if self.is_open:
            self.store.close()
            self.is_open = False
        let_go(self.root)

    def checkpoint(self) -> None:
        self.store.begin_checkpoint(lambda: None)

    def put(self, *bodies: bytes, topic: str = "t", queue: int = 0, **fields: Any) -> PutResult:
        return self.store.append([Message(topic, body, queue=queue, **fields) for body in bodies])

    def bodies(self, topic: str = "t", queue: int = 0) -> list[bytes | None]:
        """What can be read of a queue; None for a record that cannot."""
        return [None if found is None else found.body for found in self.messages(topic, queue)]

    def messages(self, topic: str = "t", queue: int = 0) -> Iterator[StoredMessage | None]:
        offset = self.store.bounds(topic, queue)[0]
        while entries := self.store.entries(topic, queue, offset, 100):
            yield from self.store.read_entries(entries)
            offset = entries[-1].offset + 1

    def log_bytes(self, base: int = 0) -> bytes:
        """The content of one segment, as it lies in its file."""
        return (self.root / "commitlog" / f"{base:020d}").read_bytes()

    def damage(self, position: int, data: bytes) -> None:
        """Write over the log behind the store's back."""
        base = position - position % self.store._log.segment_bytes
        with (self.root / "commitlog" / f"{base:020d}").open("r+b") as file:
            file.seek(position - base)
            file.write(data)


def record_size(bench: Bench, body_bytes: int, topic: str = "t") -> int:
    """How long a plain message's record is: 88 + body + topic + properties with id and CRC."""
    return 88 + body_bytes + 1 + len(topic) + 2 + len("UNIQ_KEY\x01") + 32 + 1 + 20
