"""A broker's life with a standby beside it, which is fed in small pieces and dies as often.

In the end a standby is what its leader was: its log byte for byte, all else by value; and a broker
that starts on its directory goes on where the leader stood.
"""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import msgspec

from engine.errors import Busy, Conflict, Corrupt, EngineError
from engine.replication.comparison import DataDirectory, compare
from engine.replication.cursor import LeaderCursor
from engine.replication.pieces import Piece
from engine.replication.standby import Standby
from tests.simulation.broker_world import BrokerWorld
from tests.simulation.disk import ROOM_UNLIMITED, Crash, Disk, FakeFiles
from tests.simulation.pool import SeededPool

ROOT = Path("/standby")
PIECE: msgspec.msgpack.Decoder[Piece] = msgspec.msgpack.Decoder(Piece)
REFUSALS_MAX = 50
SIZES = (1, 7, 100, 700, 5000, 100_000)


class StandbyWorld(BrokerWorld):
    """One seed, one life of two. With `power` either machine may lose it."""

    def __init__(self, seed: int, *, power: bool = False) -> None:
        self.cursor: LeaderCursor | None = None
        self.standby: Standby | None = None
        self.refusals = 0  # of what a power loss damaged in the leader's journal
        self.is_damaged = False  # the leader's log may lack what a queue of its own has
        self.copies = 0  # directories that were filled from nothing
        super().__init__(seed, power=power)
        self.make_standby()

    def start(self) -> None:
        self.cursor = None
        super().start()
        self.is_damaged |= bool(self.broker._store.damages)

    # -- the standby ----------------------------------------------------------------------------

    def make_standby(self) -> None:
        self.copies += 1
        self.standby_disk = Disk(self.chance)
        self.open_standby()

    def open_standby(self) -> None:
        """Open what its disk holds; a directory that is damaged is moved away."""
        self.cursor, self.standby = None, None
        self.standby_pool = SeededPool(self.chance)
        config = replace(self.config, data=ROOT)
        try:
            self.standby = Standby(
                config, clock=self.clock, pool=self.standby_pool, files=self.standby_disk.boot()
            )
        except Corrupt:
            assert self.power, "a standby that lost no power is whole"
            self.make_standby()

    def on_standby(self, verb: Callable[[], None]) -> None:
        """Something that the standby may die of."""
        try:
            verb()
        except Crash:
            self.restart_standby()
        except Busy as error:
            is_full = self.standby_disk.room_bytes < ROOM_UNLIMITED
            if not is_full and "snapshot not written" not in error.detail:  # when it was full
                raise AssertionError("refused with room on the disk") from error
            self.cut_connection()

    def restart_standby(self) -> None:
        while True:
            if self.power and self.chance.random() < 0.4:
                self.standby_disk.lose_power()
            else:
                self.standby_disk.kill()
            self.standby_disk.room_bytes = ROOM_UNLIMITED
            self.standby_disk.crash_in = None
            if self.chance.random() < 0.2:
                self.standby_disk.crash_in = self.chance.randrange(1, 60)
            try:
                self.open_standby()
                break
            except Crash:
                continue
        self.standby_disk.crash_in = None

    def feed(self) -> None:
        self.on_standby(lambda: self.pump(self.chance.choice((1, 3, 10, 40))))

    def pump(self, count_max: int) -> bool:
        """Give some pieces; whether there are more."""
        assert self.standby is not None
        for _ in range(count_max):
            if self.standby.is_busy:
                self.standby.show()
                self.standby_pool.run_some(2)
                continue
            try:
                piece = self.next_piece()
            except Conflict as error:
                if not self.power:
                    raise AssertionError(error.detail) from error
                self.make_standby()
                return True
            if piece is None:
                return False
            try:
                self.give(PIECE.decode(msgspec.msgpack.encode(piece)))
            except Corrupt as error:
                self.refusals += 1
                if not self.power or self.refusals > REFUSALS_MAX:
                    raise AssertionError(error.detail) from error
                self.cursor = None
                self.on_leader(self.flush)  # until then there may be no snapshot
        return True

    def next_piece(self) -> Piece | None:
        assert self.standby is not None
        if self.cursor is None:
            self.standby.begin_again()
            self.cursor = self.broker.cursor_for(self.standby.state())
            self.cursor.check()
        return self.cursor.next(self.chance.choice(SIZES))

    def give(self, piece: Piece) -> None:
        assert self.standby is not None
        self.standby.take(piece)
        if not self.standby.must_reopen:
            return
        self.cursor = None
        self.standby_pool.drain()
        try:
            self.standby.reopen()
        except EngineError:
            if self.standby_disk.room_bytes == ROOM_UNLIMITED:
                raise
            self.restart_standby()

    def cut_connection(self) -> None:
        self.cursor = None

    def upkeep(self) -> None:
        def tick() -> None:
            assert self.standby is not None
            self.standby.tick()
            self.standby_pool.run_some(self.chance.randrange(1, 5))

        self.on_standby(tick)

    def kill_standby(self) -> None:
        self.restart_standby()

    def stop_standby(self) -> None:
        def stop() -> None:
            assert self.standby is not None
            self.standby_pool.drain()
            self.standby.close()
            self.standby_disk.kill()
            self.open_standby()

        self.on_standby(stop)

    def order_standby_crash(self) -> None:
        self.standby_disk.crash_in = self.chance.randrange(1, 40)

    def fill_standby(self) -> None:
        self.standby_disk.room_bytes = self.chance.randrange(12) * 512

    def empty_standby(self) -> None:
        self.standby_disk.room_bytes = ROOM_UNLIMITED

    def compact(self) -> None:
        """The leader's journal begins anew now and then, as it does once it has grown."""
        journal = self.broker._store.journal
        has_room = self.disk.room_bytes == ROOM_UNLIMITED
        if has_room and not journal._compacting and not journal.is_behind:
            journal.compact()

    # -- both -----------------------------------------------------------------------------------

    def act(self, verb: Callable[[], None]) -> None:
        super().act(verb)
        verbs: tuple[tuple[Callable[[], None], int], ...] = (
            (self.feed, 20),
            (self.upkeep, 6),
            (self.cut_connection, 1),
            (self.order_standby_crash, 1),
            (self.kill_standby, 1),
            (self.stop_standby, 1),
            (self.fill_standby, 1),
            (self.empty_standby, 4),
            (lambda: self.on_leader(self.compact), 1),
        )
        self.chance.choices([each for each, _ in verbs], [weight for _, weight in verbs])[0]()

    def on_leader(self, verb: Callable[[], None]) -> None:
        super().act(verb)

    def drain(self) -> None:
        """What there is in the middle of everything is compared; then one of the two goes on."""
        self.compare()
        if self.chance.random() < 0.5:
            self.promote()
        super().drain()
        if self.standby is not None:
            self.compare()

    def promote(self) -> None:
        """The leader is gone for good; a broker goes on with the standby's directory."""
        assert self.standby is not None
        if self.chance.random() < 0.5:
            self.standby_pool.drain()
            self.standby.close()
        self.disk.kill()
        self.standby_disk.kill()
        self.disk, self.standby = self.standby_disk, None
        self.config = replace(self.config, data=ROOT)
        self.clock.advance(1.0)
        self.start()

    def compare(self) -> None:
        self.empty_standby()
        self.standby_disk.crash_in = None
        self.flush()  # until then the leader does not show what it was asked to flush
        while self.pump(1000):
            pass
        assert self.standby is not None
        leader, standby = self.broker._store, self.standby.parts.store
        assert standby.written == leader.written
        assert standby.journal.place == leader.journal.place
        for topic in self.broker.topics(system=True):
            for queue in range(topic.read_queues):
                bounds = leader.bounds(topic.name, queue)
                has_bounds = standby.bounds(topic.name, queue) == bounds
                assert has_bounds or self.is_damaged, (topic.name, queue)
        self.pool.drain()
        self.standby_pool.drain()
        result = compare(
            DataDirectory(FakeFiles(self.disk), self.config.data),
            DataDirectory(FakeFiles(self.standby_disk), ROOT),
        )
        differences = [
            each
            for each in result.differences
            if not (self.is_damaged and each.startswith("consumequeue/"))
        ]
        assert not differences, differences[:10]
