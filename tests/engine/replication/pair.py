"""A leader and its standby, each on a simulated disk."""

import random
from dataclasses import replace
from pathlib import Path

from engine.broker import Broker
from engine.clock import ManualClock
from engine.message import Message
from engine.replication.comparison import DataDirectory, StoreComparison, compare
from engine.replication.cursor import LeaderCursor
from engine.replication.pieces import Piece
from engine.replication.standby import Standby
from engine.store.pool import InlinePool
from tests.simulation.boot import boot, settings
from tests.simulation.disk import Disk, FakeFiles

ROOT = Path("/standby")


class Pair:
    """`feed` gives the standby what it lacks, in pieces of `size` bytes."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.root = ROOT  # of the standby
        self.disk, self.standby_disk = Disk(random.Random(1)), Disk(random.Random(2))
        self.broker: Broker = boot(self.disk, self.clock)
        self.standby = self.open_standby()

    def open_standby(self) -> Standby:
        config = replace(settings(), data=self.root)
        files = self.standby_disk.boot()
        return Standby(config, clock=self.clock, pool=InlinePool(), files=files)

    def send(self, *bodies: bytes, topic: str = "orders") -> None:
        for body in bodies:
            self.broker.send([Message(topic, body)])

    def cursor(self) -> LeaderCursor:
        self.standby.begin_again()
        cursor = self.broker.cursor_for(self.standby.state())
        cursor.check()
        return cursor

    def pieces(self, size: int = 4096) -> list[Piece]:
        """All that the standby lacks now."""
        cursor, pieces = self.cursor(), list[Piece]()
        while (piece := cursor.next(size)) is not None:
            pieces.append(piece)
        return pieces

    def feed(self, size: int = 4096) -> None:
        for piece in self.pieces(size):
            self.take(piece)
            if self.standby.must_reopen:
                self.standby.reopen()
                self.feed(size)
                return

    def take(self, piece: Piece) -> None:
        self.standby.take(piece)
        while self.standby.is_busy:
            self.standby.show()

    def restart_leader(self) -> None:
        self.disk.kill()
        self.clock.advance(1.0)
        self.broker = boot(self.disk, self.clock)

    def compact_leader(self) -> None:
        """Its journal begins anew with a snapshot, and what the one before made needless goes."""
        self.broker._store.journal.compact()

    def bodies(self, topic: str = "orders") -> set[bytes]:
        """What can be read of the standby."""
        store, bodies = self.standby.parts.store, set[bytes]()
        for queue in range(8):
            found = store.read_entries(store.entries(topic, queue, 0, 1000))
            bodies |= {message.body for message in found if message is not None}
        return bodies

    def compare(self) -> StoreComparison:
        leader = DataDirectory(FakeFiles(self.disk), settings().data)
        return compare(leader, DataDirectory(FakeFiles(self.standby_disk), ROOT))
