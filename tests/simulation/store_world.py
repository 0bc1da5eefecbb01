"""A seeded life of the store: sends, reads, full disks, crashes; and what must hold throughout.

The model is a list per queue of what was promised. After each restart the whole store is read and
compared: what was accepted is at its offset with its content (after a power loss: what was
flushed), what was refused is nowhere, and nothing is there that nobody sent.
"""

import random
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from engine.broker import Broker, TopicConfig
from engine.clock import ManualClock
from engine.config import EngineConfig
from engine.errors import Corrupt, DiskFull, Invalid, NotFound
from engine.inspection import inspect
from engine.message import Durability, Message, PutResult, StoredMessage
from engine.store.consume_queue import QueueEntry
from tests.engine.store.kernel.packing import name, pack
from tests.simulation.disk import ROOM_UNLIMITED, Crash, Disk
from tests.simulation.pool import SeededPool

ROOT = Path("/data")
TOPICS = ("orders", "payments", "returns")
TAGS = ("", "a", "Aa", "BB")
CHECKS_MAX = 8


@dataclass
class Kept:
    """One message as its sender knows it."""

    body: bytes
    tag: str
    keys: tuple[str, ...]
    message_id: str
    position: int
    is_flushed: bool = False
    is_lost: bool = False  # a power loss took it; its offset stays
    is_expired: bool = False
    was_expired: bool = False  # its segment came back with a crash, its keys need not


@dataclass
class Line:
    """One queue: what is promised, by offset."""

    kept: dict[int, Kept] = field(default_factory=dict)
    end: int = 0
    purged: int = 0  # everything before it

    @property
    def low(self) -> int:
        """The first offset that retention and purges left, if it can be told."""
        first = next((o for o in sorted(self.kept) if not self.kept[o].is_expired), self.end)
        return max(first, self.purged)


class Model:
    """What was promised so far."""

    def __init__(self) -> None:
        self.lines: dict[tuple[str, int], Line] = {}
        self.unsure: list[Message] = []  # their send was cut off by the crash
        self.unsettled: set[str] = set()  # topics whose deletion was cut off by the crash
        self.purging: dict[tuple[str, int], int] = {}  # a purge that was cut off by the crash
        self.ever: dict[bytes, Kept] = {}  # a power loss may bring deleted topics back

    def line(self, topic: str, queue: int) -> Line:
        return self.lines.setdefault((topic, queue), Line())

    def forget(self, topic: str) -> None:
        self.lines = {key: line for key, line in self.lines.items() if key[0] != topic}

    def back(self, found: StoredMessage) -> Kept:
        """What was known of a message that a power loss brought back."""
        kept = self.ever[found.body]
        kept.is_lost = False
        return kept

    def accept(self, sent: PutResult) -> list[Kept]:
        accepted = []
        for message, offset, position in zip(
            sent.messages, sent.offsets, sent.positions, strict=True
        ):
            line = self.line(message.topic, message.queue)
            assert offset == line.end, f"offset {offset} given, {line.end} was next"
            kept = Kept(message.body, message.tag, message.keys, message.message_id, position)
            line.kept[offset] = self.ever[kept.body] = kept
            line.end += 1
            accepted.append(kept)
        return accepted


def assert_same(kept: Kept, found: StoredMessage | None, where: str) -> None:
    assert found is not None, f"{where}: {kept.body!r} is gone"
    assert found.body == kept.body, f"{where}: {found.body!r} instead of {kept.body!r}"
    assert (found.tag, found.keys) == (kept.tag, kept.keys), where
    assert found.message_id == kept.message_id, where
    assert found.position == kept.position, where


class StoreWorld:
    """One seed, one life."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.disk = Disk(self.chance)
        self.clock = ManualClock()
        self.model = Model()
        self.number = 0
        self.power_was_lost = False
        self.config = EngineConfig(
            data=ROOT,
            segment_bytes=self.chance.choice((4096, 8192, 16384)),
            queue_file_entries=self.chance.choice((7, 26, 100)),
            index_slots=13,
            index_items=self.chance.choice((10, 40, 200)),
            open_files_max=4,
            disk_free_min_bytes=0,
            default_queues=2,
            retention_bytes=self.chance.choice((0, 0, 20_000)),
            retention_interval_s=1.0,
        )
        self.start()

    # -- life ---------------------------------------------------------------------------------

    def start(self) -> None:
        self.files = self.disk.boot()
        self.pool = SeededPool(self.chance)
        self.broker = Broker(self.config, clock=self.clock, pool=self.pool, files=self.files)
        self.store = self.broker._store  # the books are compared below what doors may see
        self.broker.start()

    def run(self, steps: int) -> None:
        actions: tuple[tuple[Callable[[], None], int], ...] = (
            (self.send, 30),
            (self.tick, 12),
            (self.work, 20),
            (self.read, 10),
            (self.find_by_key, 5),
            (self.order_crash, 4),
            (self.kill, 2),
            (self.lose_power, 1),
            (self.stop, 2),
            (self.delete_topic, 1),
            (self.expire, 2),
            (self.purge, 2),
            (self.fill_disk, 1),
            (self.empty_disk, 3),
        )
        verbs, weights = [verb for verb, _ in actions], [weight for _, weight in actions]
        for _ in range(steps):
            verb = self.chance.choices(verbs, weights)[0]
            try:
                verb()
            except Crash:
                self.restart()
        self.kill()

    # -- actions ------------------------------------------------------------------------------

    def send(self) -> None:
        messages = [self.message() for _ in range(self.chance.choice((1, 1, 1, 2, 3, 8)))]
        durability = self.chance.choice((None, None, Durability.FLUSHED))
        try:
            if self.chance.random() < 0.4:
                sent = self.send_columns(messages, durability)
            else:
                sent = self.broker.send(messages, durability=durability)
        except (DiskFull, Invalid, Corrupt):
            return
        except Crash:
            self.model.unsure += messages
            raise
        accepted = self.model.accept(sent)
        if self.chance.random() < 0.7:
            self.store.when_flushed(sent.flush_position, lambda error: self.mark(accepted, error))

    def send_columns(self, messages: list[Message], durability: Durability | None) -> PutResult:
        """Send them to the topic of the first as a batch of columns."""
        for message in messages:
            message.topic, message.properties, message.message_id = messages[0].topic, {}, ""
        id_prefix = self.chance.choice(("", f"OWN{self.number}X"))
        columns = pack(messages, id_prefix=id_prefix)
        for message, message_id in zip(messages, columns.message_ids(len(messages)), strict=False):
            message.message_id = message_id  # so that it is known where the send is cut off
        sent = self.broker.send_columns([columns], durability=durability)
        assert sent is not None or self.store.crowding
        if sent is None:
            return self.broker.send(messages, durability=durability)
        return name(messages, columns, sent)

    def mark(self, accepted: list[Kept], error: Exception | None) -> None:
        if error is None:
            for kept in accepted:
                kept.is_flushed = True

    def message(self) -> Message:
        self.number += 1
        padding = "x" * self.chance.choice((0, 5, 90, 400, 1200))
        return Message(
            self.chance.choice(TOPICS),
            f"{self.number}:{padding}".encode(),
            tag=self.chance.choice(TAGS),
            keys=self.chance.choice(((), (), ("k1",), (f"n{self.number}", "k2"))),
            message_id=self.chance.choice(("", "", f"OWN{self.number}")),
            properties=self.chance.choice(({}, {}, {"colour": "blue"})),
        )

    def tick(self) -> None:
        # Now and then a minute passes, after which files of queues may go.
        self.clock.advance(self.chance.choice((0.0, 0.1, 0.6, 1.1, 1.1, 61.0)))
        self.broker.tick()
        self.see_what_expired()
        self.accept_failures()

    def accept_failures(self) -> None:
        """A service may only fail while the disk is full, and must then go on by itself."""
        failures = self.broker.health().failures
        assert not failures or self.disk.room_bytes < ROOM_UNLIMITED or self.was_full, failures
        self.was_full = self.was_full and bool(failures)

    was_full = False

    def work(self) -> None:
        self.pool.run_some(self.chance.randrange(1, 4))

    def read(self) -> None:
        topic, queue = self.chance.choice(list(self.model.lines) or [("orders", 0)])
        line = self.model.line(topic, queue)
        low, high = self.store.bounds(topic, queue)
        assert low <= high <= line.end, f"{topic}/{queue}: {low}..{high}, {line.end} were promised"
        start = self.chance.randrange(low, high + 1)
        self.check_entries(topic, queue, start, CHECKS_MAX)

    def check_entries(self, topic: str, queue: int, start: int, count: int) -> int:
        line = self.model.line(topic, queue)
        entries = self.store.entries(topic, queue, start, count)
        assert [entry.offset for entry in entries] == list(range(start, start + len(entries)))
        for entry, found in zip(entries, self.store.read_entries(entries), strict=True):
            kept = line.kept[entry.offset]
            where = f"{topic}/{queue}@{entry.offset}"
            if not kept.is_lost:
                assert_same(kept, found, where)
                if self.has_room:  # else a batch may be readable in part, for the time being
                    assert self.store.read_at(kept.position).offset == entry.offset, where
            else:
                assert found is None, f"{where}: {found} came back from nowhere"
        return len(entries)

    def find_by_key(self) -> None:
        lines = [(key, line) for key, line in self.model.lines.items() if line.kept]
        if not lines:
            return
        (topic, queue), line = self.chance.choice(lines)
        offset = self.chance.choice(list(line.kept))
        kept = line.kept[offset]
        if kept.is_lost or kept.was_expired or offset >= self.store.bounds(topic, queue)[1]:
            return
        own_keys = [key for key in kept.keys if key.startswith("n")]
        own_ids = [kept.message_id] if kept.message_id.startswith("OWN") else []
        for key in own_keys + own_ids:
            positions = self.store.positions_of_key(topic, key, count_max=1000)
            assert positions.count(kept.position) == 1, f"{key}: {positions}, {kept.position}"

    def delete_topic(self) -> None:
        topic = self.chance.choice(TOPICS)
        self.model.unsettled.add(topic)  # until the verb has returned
        try:
            self.broker.delete_topic(topic)
        except (NotFound, DiskFull):
            self.model.unsettled.discard(topic)
            return
        self.model.unsettled.discard(topic)
        self.model.forget(topic)
        if self.chance.random() < 0.5:
            with suppress(DiskFull):
                self.broker.create_topic(TopicConfig(topic, read_queues=2, write_queues=2))

    def expire(self) -> None:
        """Let retention take a part of the log; offsets go on as if it had not."""
        self.store.expire(self.chance.randrange(self.store.flushed + 1))
        self.see_what_expired()

    def see_what_expired(self) -> None:
        """What lies before the oldest position is gone: the broker's own retention takes it too."""
        for line in self.model.lines.values():
            for offset in [o for o, k in line.kept.items() if k.position < self.store.oldest]:
                line.kept[offset].is_expired = line.kept[offset].was_expired = True

    def purge(self) -> None:
        """Take a part of a topic away for good: all of that, or nothing."""
        topic = self.chance.choice(TOPICS)
        begins = {}
        for queue in range(2):
            low, high = self.store.bounds(topic, queue)
            begins[queue] = self.chance.randrange(low, high + 1)
        self.model.purging = {(topic, queue): offset for queue, offset in begins.items()}
        try:
            self.broker.retention.purge(topic, before_offset=begins)
        except (NotFound, DiskFull):
            self.model.purging = {}
            return
        self.settle_purge()

    def settle_purge(self) -> None:
        for (topic, queue), offset in self.model.purging.items():
            line = self.model.line(topic, queue)
            line.purged = max(line.purged, offset)
            for each in [each for each in line.kept if each < offset]:
                line.kept[each].was_expired = True
        self.model.purging = {}

    def order_crash(self) -> None:
        self.disk.crash_in = self.chance.randrange(1, 60)

    def kill(self) -> None:
        self.disk.kill()
        self.restart(is_kill=True)

    def lose_power(self) -> None:
        self.disk.lose_power()
        self.restart(is_kill=False)

    def stop(self) -> None:
        if self.disk.room_bytes < ROOM_UNLIMITED:
            return
        self.pool.drain()
        self.broker.stop()
        if self.chance.random() < 0.3:
            self.disk.lose_power()
        self.disk.kill()
        self.clock.advance(1.0)
        self.start()
        self.check_all(lost_power=False)

    def fill_disk(self) -> None:
        self.disk.room_bytes = self.chance.randrange(8) * 512
        self.was_full = True

    @property
    def has_room(self) -> bool:
        return self.disk.room_bytes == ROOM_UNLIMITED and not self.was_full

    def empty_disk(self) -> None:
        self.was_full = True
        self.disk.room_bytes = ROOM_UNLIMITED

    # -- after a crash --------------------------------------------------------------------------

    def restart(self, is_kill: bool | None = None) -> None:
        """Start again, through further crashes if some are ordered, and compare everything."""
        is_kill = self.chance.random() < 0.7 if is_kill is None else is_kill
        lost_power = not is_kill
        while True:
            self.disk.kill() if is_kill else self.disk.lose_power()
            self.disk.room_bytes = ROOM_UNLIMITED
            self.was_full = False
            self.clock.advance(1.0)
            if self.chance.random() < 0.2:
                self.disk.crash_in = self.chance.randrange(1, 60)
            try:
                self.start()
                break
            except Crash:
                is_kill = self.chance.random() < 0.7
                lost_power = lost_power or not is_kill
        self.disk.crash_in = None
        self.power_was_lost = self.power_was_lost or lost_power
        self.adopt(lost_power)
        self.check_all(lost_power)
        if not self.power_was_lost and self.store.written:
            report = inspect(self.files, ROOT, patience_s=())
            assert report.is_sound, report.faults

    def adopt(self, lost_power: bool) -> None:
        """Take over what the crash left open: unsure sends, and after a power loss what it took."""
        unsure = {message.body: message for message in self.model.unsure}
        self.model.unsure = []
        for topic in self.model.unsettled:
            if all(self.store.bounds(topic, queue) == (0, 0) for queue in range(2)):
                self.model.forget(topic)
        self.model.unsettled.clear()
        self.adopt_purge()
        names = set(self.model.lines) | {
            (topic, queue) for topic in TOPICS for queue in self.store.queues_of(topic)
        }
        for topic, queue in names:
            line = self.model.line(topic, queue)
            low, high = self.store.bounds(topic, queue)
            for kept in line.kept.values():  # what retention was about to delete may be back
                kept.is_expired = kept.position < self.store.oldest
            if lost_power:
                self.forget_lost(topic, queue, high)
                # A deletion may be lost, too: the earlier topic's offsets go on, even if all of its
                # messages have expired.
                line.end = max(line.end, low)
            for entry in self.entries(topic, queue, max(low, line.end)):
                found = self.store.read_entries([entry])[0]
                line.end = entry.offset + 1
                if found is None and lost_power:
                    line.kept[entry.offset] = Kept(b"", "", (), "", 0, is_lost=True)
                    continue
                assert found is not None, f"{topic}/{queue}@{entry.offset}: hole after a kill"
                if lost_power and found.body in self.model.ever:
                    line.kept[entry.offset] = self.model.back(found)
                    continue
                assert found.body in unsure, f"{topic}/{queue}@{entry.offset}: nobody sent {found}"
                message = unsure.pop(found.body)
                kept = Kept(
                    message.body, message.tag, message.keys, found.message_id, found.position
                )
                line.kept[entry.offset] = self.model.ever[kept.body] = kept

    def adopt_purge(self) -> None:
        """One that the crash cut off was carried out in all queues, or in none."""
        found = [(self.store.bounds(*key), at) for key, at in self.model.purging.items()]
        if all(low >= min(at, high) for (low, high), at in found):
            self.settle_purge()
        self.model.purging = {}

    def forget_lost(self, topic: str, queue: int, high: int) -> None:
        line = self.model.line(topic, queue)
        line.purged = self.store.bounds(topic, queue)[0]
        for offset in range(high, line.end):
            kept = line.kept.pop(offset)
            assert not kept.is_flushed, f"{topic}/{queue}@{offset}: flushed, yet gone"
        line.end = min(line.end, high)
        low = self.store.bounds(topic, queue)[0]
        if not line.kept and low == high:  # a topic came back without anything to read
            line.end = high
        for offset in [offset for offset in line.kept if offset < low]:
            assert line.kept[offset].was_expired or not line.kept[offset].is_flushed
            line.kept[offset].is_lost = True
        for entry in self.entries(topic, queue, low):
            if entry.offset >= line.end:
                return
            kept = line.kept[entry.offset]
            if kept.is_flushed:
                continue
            found = self.store.read_entries([entry])[0]
            if found is None:
                kept.is_lost = True
            elif found.body in self.model.ever:
                line.kept[entry.offset] = self.model.back(found)

    def entries(self, topic: str, queue: int, start: int) -> Iterator[QueueEntry]:
        while found := self.store.entries(topic, queue, start, 100):
            yield from found
            start = found[-1].offset + 1

    def check_all(self, lost_power: bool) -> None:
        for (topic, queue), line in self.model.lines.items():
            low, high = self.store.bounds(topic, queue)
            assert high == line.end, f"{topic}/{queue}: ends at {high}, not {line.end}"
            if line.kept and not self.power_was_lost:
                assert low == line.low, f"{topic}/{queue}: begins at {low}, not {line.low}"
            offset = low
            while offset < high:
                offset += self.check_entries(topic, queue, offset, 50)
