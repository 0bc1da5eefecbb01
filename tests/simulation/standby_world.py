"""A broker's life with a standby beside it: fed in small pieces, killed as often, and promoted.

At each comparison a standby is what its leader was: its log byte for byte, all else by value. A
promoted one has what it had confirmed, as its clients knew it then. The leader before goes on for a
while, and comes back as a standby: what it alone had is in a tail.
"""

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, cast

import msgspec

from app.replication.connection import StandbyProgress
from engine.broker import Broker
from engine.errors import Busy, Conflict, Corrupt, EngineError
from engine.message import Durability, PutResult, StoredMessage
from engine.replicas import NOT_REPLICATED
from engine.replication.boots import after_boot, save_boot
from engine.replication.comparison import DataDirectory, compare
from engine.replication.cursor import LeaderCursor
from engine.replication.epochs import (
    EpochRole,
    EpochStart,
    EpochState,
    load_epochs,
    save_epochs,
)
from engine.replication.pieces import Piece, ReplicaCut
from engine.replication.standby import Standby
from engine.replication.tail import keep_behind_damage, tail_messages, tails
from engine.store.recovery import LogScan
from engine.store.store import Store
from engine.topic.names import GIVEN_UP_TOPIC, HALF_TOPIC
from tests.simulation.broker_world import BrokerWorld
from tests.simulation.confirmed import Confirmed
from tests.simulation.disk import ROOM_UNLIMITED, Crash, Disk, FakeFiles
from tests.simulation.pool import SeededPool
from tests.simulation.shares import Sent

if TYPE_CHECKING:
    from app.replication.port import StandbyPort

OTHER_ROOT = Path("/standby")
PIECE: msgspec.msgpack.Decoder[Piece] = msgspec.msgpack.Decoder(Piece)
REFUSALS_MAX = 50
OPEN = (HALF_TOPIC, GIVEN_UP_TOPIC)  # what lies there alone was not committed
SIZES = (1, 7, 100, 700, 5000, 100_000)


@dataclass(frozen=True)
class Port:
    """What a standby's progress has to know of the leader's port."""

    broker: Broker


class Link:
    """A connection: the leader's cursor, and the standby's reports, which take their time."""

    def __init__(self, broker: Broker, cursor: LeaderCursor) -> None:
        self._progress = StandbyProgress(cast("StandbyPort", Port(broker)))
        self.cursor = cursor
        self.pieces: deque[Piece] = deque()  # on their way
        self.reports = 0  # on theirs
        self.is_cut = False  # the standby makes records of a cut readable

    def send(self, size_max: int) -> None:
        """Send the next piece, if there is one."""
        piece = self.cursor.next(size_max)
        if piece is not None:
            self.pieces.append(piece)
            self._progress.note_frame(piece if isinstance(piece, ReplicaCut) else None)

    def hear(self, count_max: int) -> None:
        """Let some reports arrive."""
        for _ in range(min(count_max, self.reports)):
            self.reports -= 1
            self._progress.note_report()

    def close(self) -> None:
        self._progress.close()


class StandbyWorld(BrokerWorld):
    """One seed, one life of two. With `power` either machine may lose it."""

    durabilities = (None, Durability.FLUSHED, Durability.REPLICATED)

    def __init__(self, seed: int, *, power: bool = False) -> None:
        self.link: Link | None = None
        self.standby: Standby | None = None
        self.standby_root = OTHER_ROOT
        self.refusals = 0  # of what a power loss damaged in the leader's journal
        self.is_damaged = False  # the leader's log may lack what a queue of its own has
        self.copies = 0  # directories that were filled from nothing
        self.promotions = 0
        self.planned: deque[Confirmed] = deque()  # cuts that are on their way
        self.confirmed: Confirmed | None = None  # the last one that the standby has taken
        self.open_ids: set[str] = set()  # of messages that a promotion may have lost
        self.lost: dict[bytes, Sent] = {}  # what must be in the old leader's tail
        super().__init__(seed, power=power)
        self.make_standby()

    def start(self) -> None:
        self.disconnect()
        files, root = FakeFiles(self.disk), self.config.data
        self.epochs, boot = load_epochs(root, files), f"{self.disk.boots}"
        assert self.epochs.role is EpochRole.LEADER
        if self.epochs.history.cluster:
            self.epochs = after_boot(root, self.epochs, boot, files)
        super().start()
        if not self.epochs.history.cluster:
            self.epochs = self.epochs.with_cluster()
            save_boot(root, boot, files)
            save_epochs(self.config.data, self.epochs, files)
        self.is_damaged |= bool(self.broker._store.damages)

    # -- producing ------------------------------------------------------------------------------

    def send(self) -> None:
        try:
            super().send()
        except Busy as error:
            if error.code != NOT_REPLICATED:
                raise
            assert not self.broker.replicas._in_step, "refused with a standby in step"

    def await_answer(self, accepted: list[Sent], stored: PutResult) -> None:
        if stored.durability is not Durability.REPLICATED:
            return

        def answered(level: Durability, error: Exception | None) -> None:
            for sent in accepted:
                sent.is_replicated = level is Durability.REPLICATED and error is None

        self.broker.when_accepted(stored.flush_position, stored.durability, answered)

    def adopt(self, message_id: str) -> None:
        super().adopt(message_id)
        if message_id in self.open_ids:
            for (_, each), share in self.shares.items():
                share.has_lost_power |= each == message_id

    # -- the standby ----------------------------------------------------------------------------

    def make_standby(self) -> None:
        self.copies += 1
        self.confirmed, self.lost = None, {}
        self.standby_disk = Disk(self.chance)
        self.open_standby()

    def open_standby(self) -> None:
        """Open what its disk holds; a directory that is damaged is moved away."""
        self.disconnect()
        self.standby = None
        self.standby_pool = SeededPool(self.chance)
        config = replace(self.config, data=self.standby_root)
        self.standby_files = self.standby_disk.boot()
        state, boot = self.load_standby_epochs(), f"{self.standby_disk.boots}"
        after_boot(self.standby_root, state, boot, self.standby_files)
        if state.role is not EpochRole.STANDBY:
            now_ms, files = self.clock.now_ms(), self.standby_files
            keep_behind_damage(self.standby_root, epoch=state.epoch, now_ms=now_ms, files=files)
        try:
            self.standby = Standby(
                config, clock=self.clock, pool=self.standby_pool, files=self.standby_files
            )
        except Corrupt:
            assert self.power, "a standby that lost no power is whole"
            self.make_standby()
        except EngineError as error:
            if self.standby_disk.room_bytes == ROOM_UNLIMITED:
                raise
            raise Crash from error  # it starts once there is room

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
            self.disconnect()
        except OSError:
            assert self.standby_disk.room_bytes < ROOM_UNLIMITED, "refused with room on the disk"
            self.disconnect()

    def restart_standby(self) -> None:
        while True:
            if self.power and self.chance.random() < 0.4:
                self.standby_disk.lose_power()
                self.confirmed = None
                self.lost = {body: sent for body, sent in self.lost.items() if sent.is_flushed}
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
                self.settle_cut()
                continue
            try:
                piece = self.next_piece()
            except Conflict as error:
                raise AssertionError(error.detail) from error
            if piece is None:
                return False
            try:
                self.give(PIECE.decode(msgspec.msgpack.encode(piece)))
            except Corrupt as error:
                # On a full disk the leader cannot begin its journal anew.
                self.refusals += self.disk.room_bytes == ROOM_UNLIMITED
                if not self.power or self.refusals > REFUSALS_MAX:
                    raise AssertionError(error.detail) from error
                self.disconnect()
                self.on_leader(self.flush)  # until then there may be no snapshot
        return True

    def next_piece(self) -> Piece | None:
        if self.link is None:
            self.connect()
        assert self.link is not None
        cursor = self.link.cursor
        for _ in range(self.chance.choice((1, 1, 4))):
            was_planned = cursor._target is not None
            if cursor.plan() and cursor._target is not None and not was_planned:
                end = cursor._target.log_end, cursor._target.journal
                self.planned.append(Confirmed.at(end, self))
            self.link.send(self.chance.choice(SIZES))
        return self.link.pieces.popleft() if self.link.pieces else None

    def connect(self) -> None:
        """As `app.replication` does it: by the leader's epochs, then by what is there."""
        assert self.standby is not None
        self.standby.begin_again()
        history, own = self.epochs.history, load_epochs(self.standby_root, self.standby_files)
        start = history.start_after(own.history, *self.standby.end)
        if start is not None:
            self.cut_tail(start, own.epoch)
        self.judge_tails()
        save_epochs(self.standby_root, own.follow(history, "leader"), self.standby_files)
        state = self.standby.state()
        state = msgspec.structs.replace(state, cluster=history.cluster, epoch=history.epoch)
        cursor = self.broker.cursor_for(state)
        cursor.check()
        self.link = Link(self.broker, cursor)

    def cut_tail(self, start: EpochStart, epoch: int) -> None:
        """Have a directory cut; what goes is in the tail's file, in its order."""
        assert self.standby is not None
        end, _ = self.standby.end
        bodies = [each.body for each in records_of(self.standby.parts.store, start.log_end)]
        self.confirmed = None
        self.standby.cut(start, epoch)
        self.reopen_standby()
        tail = self.standby.tail
        assert (tail is not None) == (start.log_end < end)
        if tail is not None:
            path = self.standby_root / tail.file
            assert (tail.tail.begin, tail.tail.end) == (start.log_end, end)
            assert [each.body for each in tail_messages(path, self.standby_files)] == bodies

    def judge_tails(self) -> None:
        """What the old leader alone had is in a file of its own."""
        if not self.lost:
            return
        for each in tails(self.standby_root, self.standby_files):
            for message in tail_messages(self.standby_root / each.file, self.standby_files):
                self.lost.pop(message.body, None)
        assert not self.lost, f"neither in the log nor in a tail: {sorted(self.lost)[:3]}"

    def give(self, piece: Piece) -> None:
        assert self.standby is not None
        assert self.link is not None
        self.standby.take(piece)
        if self.standby.must_reopen:
            self.reopen_standby()
            return
        self.link.is_cut = isinstance(piece, ReplicaCut)
        if self.link.is_cut:
            self.settle_cut()
        else:
            self.link.reports += 1

    def settle_cut(self) -> None:
        """A cut is reported once its records can be read."""
        assert self.standby is not None
        if self.link is None or not self.link.is_cut or self.standby.is_busy:
            return
        self.link.is_cut = False
        self.confirmed = self.planned.popleft()
        assert self.standby.end == self.confirmed.end
        self.link.reports += 1

    def reopen_standby(self) -> None:
        assert self.standby is not None
        self.disconnect()
        self.standby_pool.drain()
        try:
            self.standby.reopen()
        except EngineError as error:
            if self.standby_disk.room_bytes == ROOM_UNLIMITED:
                raise
            raise Crash from error  # as the server's next try does it

    def disconnect(self) -> None:
        """The connection is lost, and with it the pieces and reports on their way."""
        if self.link is not None:
            self.link.close()
        self.link = None
        self.planned.clear()

    def hear(self) -> None:
        """The leader gets reports of the standby's."""
        if self.link is not None:
            self.link.hear(self.chance.choice((1, 10, 1000)))

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
            (lambda: self.on_leader(self.hear), 10),
            (self.upkeep, 6),
            (self.disconnect, 1),
            (self.order_standby_crash, 1),
            (self.kill_standby, 1),
            (self.stop_standby, 1),
            (self.fill_standby, 1),
            (self.empty_standby, 4),
            (self.promote, 1),
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
        self.compare()

    def promote(self) -> None:
        """The standby leads from now on; the leader may not know, and go on for a while."""
        if self.confirmed is None or self.standby is None or self.standby.must_reopen:
            return
        self.disconnect()
        self.empty_standby()
        confirmed = self.confirmed
        try:
            self.begin_epoch()
        except Crash:
            self.restart_standby()
            if self.load_standby_epochs().epoch <= self.epochs.epoch:
                return
        # The epoch is on the disk, and before it all that was confirmed came there.
        is_exact = self.standby.end == confirmed.end
        for _ in range(self.chance.choice((0, 0, 3, 20))):
            self.on_leader(self.chance.choice((self.send, self.receive, self.ack, self.tick)))
        self.end_leader()
        self.end_standby()
        accepted = [replace(sent) for sent in self.sent.values() if self.is_kept(sent)]
        self.open_ids |= confirmed.restore(self, is_exact=is_exact)
        self.disk, self.standby_disk = self.standby_disk, self.disk
        root, self.standby_root = self.standby_root, self.config.data
        self.config = replace(self.config, data=root)
        self.standby = self.confirmed = None
        self.promotions += 1
        try:
            self.start()
        except Crash:
            self.restart()
        stored = {each.body for each in records_of(self.broker._store) if each.topic not in OPEN}
        for sent in self.sent.values():
            is_there = sent.body in stored or not self.is_kept(sent)
            assert is_there, f"{sent.body!r}: confirmed, yet lost"
            sent.is_flushed |= sent.body in stored  # a promotion brings all of it to the disk
        self.lost = {sent.body: sent for sent in accepted if sent.body not in stored}
        self.restart_standby()

    def is_kept(self, sent: Sent) -> bool:
        """Whether a message must be somewhere: no loss of power of the leader's may have it."""
        shares = [self.shares.get((group.name, sent.message_id)) for group in self.groups]
        has_lost_power = any(share is not None and share.has_lost_power for share in shares)
        return sent.is_sure and (sent.is_flushed or not has_lost_power)

    def load_standby_epochs(self) -> EpochState:
        return load_epochs(self.standby_root, self.standby_files)

    def begin_epoch(self) -> None:
        assert self.standby is not None
        self.standby.sync_work()()
        state = self.load_standby_epochs().promote(*self.standby.end)
        save_epochs(self.standby_root, state, self.standby_files)

    def end_leader(self) -> None:
        self.disk.crash_in = None
        self.disk.kill()

    def end_standby(self) -> None:
        """As the process starts anew, or as it dies."""
        assert self.standby is not None
        self.clock.advance(1.0)
        with suppress(Crash):
            if self.chance.random() < 0.5:
                self.standby_pool.drain()
                self.standby.close()
        self.standby_disk.kill()

    def compare(self) -> None:
        self.empty_standby()
        self.standby_disk.crash_in = None
        self.flush()  # until then the leader does not show what it was asked to flush
        while self.pump(1000) or not self.pool.is_idle:
            self.pool.drain()  # a snapshot may be on its way to the disk
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
            DataDirectory(FakeFiles(self.standby_disk), self.standby_root),
        )
        differences = [
            each
            for each in result.differences
            if not (self.is_damaged and each.startswith("consumequeue/"))
        ]
        assert not differences, differences[:10]


def records_of(store: Store, begin: int = 0) -> Iterator[StoredMessage]:
    """What a log has from `begin` on."""
    return LogScan(store._log, begin, store.written).records()
