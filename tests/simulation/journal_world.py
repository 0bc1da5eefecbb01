"""A seeded life of the journal: any entry in any state, at run time and before a start.

At run time each is refused, and nothing has changed, or written and applied. Before a start it
lies in the journal's file: it is applied, or set aside and named, and the start never fails. After
both all that delivery relies on still holds, and a snapshot rebuilds the very same state.
"""

import random
from collections.abc import Callable
from pathlib import Path
from zlib import crc32

import msgspec

from engine.broker import (
    Broker,
    GroupConfig,
    Mode,
    Nack,
    NewReplay,
    Receipt,
    ReplayTo,
    TopicConfig,
)
from engine.broker import TopicType as Type
from engine.clock import ManualClock
from engine.container import Container
from engine.delivery.changes import HandedOut
from engine.delivery.locks import QueuesLocked
from engine.delivery.message_state import MessageState
from engine.delivery.order import OrderLanes
from engine.delivery.queue_progress import QueueProgress
from engine.errors import EngineError, Illegal
from engine.message import Message
from engine.store.journal import FRAME, Journal, JournalEntry, Reread
from engine.store.journal_entries import EntryReader, JournalFrame
from engine.store.pool import InlinePool
from tests.simulation.boot import boot, settings
from tests.simulation.changes import Changes
from tests.simulation.disk import Disk

ROOT = Path("/data")
GROUPS = ("g", "h", "b")
TOPICS = ("orders", "steps")


class JournalWorld:
    """One seed, one short life."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.disk = Disk(self.chance)
        self.clock = ManualClock()
        self.broker = boot(self.disk, self.clock)
        self.receipts: list[tuple[str, Receipt]] = []
        self.refusals: list[EngineError] = []  # of what it does after entries by chance

    def run(self, steps: int) -> None:
        """Live, take `steps` entries by chance, die, take as many more, and start."""
        self.build()
        for _ in range(self.chance.randrange(20)):
            self.live()
        for _ in range(steps):
            self.take_entry()
        check_snapshot(self.broker, self.clock)
        self.live_on()
        self.restart([])
        self.restart([self.payload() for _ in range(steps)])
        check_snapshot(self.broker, self.clock)
        self.live_on()
        self.restart([])
        assert not self.broker.health().damages, "what was set aside came back"

    # -- a state ---------------------------------------------------------------------------------

    def build(self) -> None:
        for name, kind in (("orders", Type.NORMAL), ("steps", Type.FIFO)):
            config = TopicConfig(name, type=kind, read_queues=1, write_queues=1)
            self.broker.create_topic(config)
        self.broker.create_group(GroupConfig("g", retry_max=1, ordered=True))
        self.broker.create_group(GroupConfig("h"))
        self.broker.create_group(GroupConfig("b", mode=Mode.BROADCAST, ordered=True))

    def live(self) -> None:
        """Something that a client does."""
        actions: tuple[Callable[[], object], ...] = (
            self.send,
            self.send,
            self.receive,
            self.receive,
            self.settle,
            self.settle,
            self.pass_time,
            self.redrive,
            self.turn_order,
        )
        self.chance.choice(actions)()

    def live_on(self) -> None:
        """Whatever was done to it, it goes on; only refusals are allowed."""
        for _ in range(10):
            try:
                self.live()
            except Illegal:
                raise
            except EngineError as error:
                self.refusals.append(error)
            check_progress(self.broker)
        self.clock.advance(3 * 3600)
        for _ in range(5):
            self.broker.tick()
        check_progress(self.broker)

    def send(self) -> None:
        topic = self.chance.choice(TOPICS)
        lane = self.chance.choice(("red", "blue")) if topic == "steps" else ""
        self.broker.send([Message(topic, b"x", message_group=lane, queue=0)])

    def receive(self) -> None:
        group = self.chance.choice(GROUPS)
        for delivery in self.broker.receive(
            group, {self.chance.choice(TOPICS): "*"}, count_max=3, client="c1", invisible_s=20
        ):
            self.receipts.append((group, delivery.receipt))

    def turn_order(self) -> None:
        groups = self.broker.groups()
        if not groups:
            return  # a change of the journal has deleted them all
        group = self.chance.choice(groups)
        self.broker.change_group(group.name, ordered=not group.ordered)

    def settle(self) -> None:
        if not self.receipts:
            return
        group, receipt = self.chance.choice(self.receipts)
        verb = self.chance.randrange(5)
        if verb == 0:
            self.broker.ack(group, [receipt])
        elif verb == 1:
            self.broker.release(group, [receipt])
        elif verb == 2:
            self.broker.extend(group, [receipt], 60)
        else:
            level = self.chance.choice((None, -1))
            self.broker.nack(group, [Nack(receipt, delay_level=level)])

    def pass_time(self) -> None:
        self.clock.advance(self.chance.choice((1, 30)))
        self.broker.tick()

    def redrive(self) -> None:
        new = NewReplay(source="orders", to=ReplayTo.TOPIC, to_name="orders", rate=1.0)
        self.broker.replays.create(new)

    # -- entries ---------------------------------------------------------------------------------

    @property
    def journal(self) -> Journal:
        return self.broker._store.journal

    def kind(self) -> type[JournalEntry]:
        if self.chance.random() < 0.02:
            return Reread
        progress_store = next(part for part in self.journal._parts if HandedOut in part.entry_types)
        chosen = (
            progress_store
            if self.chance.random() < 0.5
            else self.chance.choice(self.journal._parts)
        )
        return self.chance.choice(chosen.entry_types)

    def changes(self) -> Changes:
        return Changes(
            self.chance, self.clock.now_ms(), self.broker._delivery.progress_store.every()
        )

    def take_entry(self) -> None:
        """Refused, and nothing has changed; or written and applied."""
        kind = self.kind()
        entry = self.changes().entry(kind)
        before = (self.journal._size, self.journal._snapshot_bytes())
        try:
            self.journal.append(entry)
        except Illegal:
            assert before == (self.journal._size, self.journal._snapshot_bytes()), entry
            return
        for part in self.journal._parts:
            if kind in part.entry_types:
                part.apply(entry)
        EntryReader([kind]).read(self.journal._encode(entry))
        check_progress(self.broker)

    def payload(self) -> bytes:
        return self.changes().payload(self.kind())

    def restart(self, payloads: list[bytes]) -> None:
        """Die, find these behind what was written, and start."""
        self.disk.kill()
        files = self.disk.boot()
        names = [name for name in files.names(ROOT / "config") if "journal" in name]
        file = files.open(ROOT / "config" / names[-1])
        frames = [FRAME.pack(len(each), crc32(each)) + each for each in payloads]
        file.pwrite(b"".join(frames), file.size())
        self.disk.kill()
        self.clock.advance(1)
        self.broker = boot(self.disk, self.clock)
        assert self.broker.health().is_ready, self.broker.health().failures
        for damage in self.broker.health().damages:
            assert damage.copy, damage
            assert damage.detail, damage
        check_progress(self.broker)
        self.broker.tick()
        self.clock.advance(2)
        self.broker.tick()


# -- what always holds ---------------------------------------------------------------------------


def check_progress(broker: Broker) -> None:
    """All progress is as `progress.py` promises."""
    for progress in broker._delivery.progress_store.every():
        _check_queue(progress)


def _check_queue(progress: QueueProgress) -> None:
    slots = progress.slots
    assert all(0 <= offset < progress.cursor for offset in slots), "a slot past the cursor"
    shared: dict[int, int] = {}
    for slot in slots.values():
        shared[id(slot)] = shared.get(id(slot), 0) + 1
        assert slot.phase in (MessageState.READY, MessageState.INFLIGHT, MessageState.WAITING)
        assert (slot.serial > 0) == (slot.phase is MessageState.INFLIGHT)
    for slot in slots.values():
        assert slot.open == shared[id(slot)], "a slot is shared by others than it says"
    waiting = [offset for bucket in progress.ready.values() for offset in bucket]
    assert len(waiting) == len(set(waiting))
    assert all(slots[offset].phase is MessageState.READY for offset in waiting), (
        "what waits is not ready"
    )
    if isinstance(progress.lanes, OrderLanes):
        for lane in progress.lanes._waiting.values():
            assert lane == sorted(set(lane))
            assert set(lane) <= set(slots), "a lane waits for a message that is done"
    else:
        ready = [offset for offset, slot in slots.items() if slot.phase is MessageState.READY]
        assert sorted(ready) == sorted(waiting), "a message that is ready waits nowhere"


def check_snapshot(broker: Broker, clock: ManualClock) -> None:
    """Another broker that reads the snapshot has the same state, and nothing is set aside."""
    entries = [entry for part in broker._store.journal._parts for entry in part.snapshot()]
    disk = Disk(random.Random(0))
    other = Container(
        settings(), clock=clock, pool=InlinePool(), files=disk.boot(), check_running=lambda: None
    )
    journal = other.store.journal
    frames = [JournalFrame("snapshot", 0, journal._encode(entry)) for entry in entries]
    assert journal._apply(frames) == len(frames), other.store.damages
    again = [entry for part in journal._parts for entry in part.snapshot()]
    lost = set(map(_text, entries)) ^ set(map(_text, again))
    assert not lost, f"a snapshot rebuilds another state: {lost}"


def _text(entry: JournalEntry) -> str:
    """An entry to be compared; leases go by the steady clock, and are rounded."""
    if isinstance(entry, QueuesLocked):
        entry = msgspec.structs.replace(entry, until_ms=0)
    return repr(entry)
