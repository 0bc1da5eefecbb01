"""A seeded life of the whole broker: producers, groups that fail and forget, crashes, full disks.

What each message and group owe each other is in `shares.py`. A death of the process must change
nothing that a verb had returned; after a loss of power what was flushed must still reach everyone.
"""

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from engine.broker import (
    AckResult,
    Broker,
    Delivery,
    GroupConfig,
    Nack,
    Receipt,
    TopicConfig,
    TopicType,
)
from engine.clock import ManualClock
from engine.config import EngineConfig
from engine.errors import Busy, Corrupt
from engine.message import Durability, Message, PutResult
from engine.topic.names import dead_letter_topic
from tests.engine.delivery.by_message import by_message
from tests.simulation import payments, turning
from tests.simulation.disk import ROOM_UNLIMITED, Crash, Disk
from tests.simulation.payments import Payments
from tests.simulation.pool import SeededPool
from tests.simulation.reminders import Reminders
from tests.simulation.shares import Sent, Share
from tests.simulation.turning import Turning

ROOT = Path("/data")
PLAIN, LATER, LINE, PAID = "orders", "reminders", "steps", payments.TOPIC
TOPICS = {
    PLAIN: TopicType.NORMAL,
    LATER: TopicType.DELAY,
    LINE: TopicType.FIFO,
    PAID: TopicType.TRANSACTION,
}
TAGS = ("", "a", "Aa", "BB")
LANES = ("red", "green", "blue")
CLIENTS = ("c1", "c2")
MIXED = "mixed"  # is ordered now and then
LEVEL_MS = (0, 1000, 5000, 10_000, 30_000, 60_000)
DRAIN_S = 3 * 3600.0
BORDERS = (2**31, 2**63 - 1, 2**63, 2**64, 10**30)


@dataclass(frozen=True)
class Group:
    """A group as the simulation uses it."""

    name: str
    topics: dict[str, str]
    retry_max: int
    ordered: bool = False

    def wants(self, sent: Sent) -> bool:
        expression = self.topics.get(sent.topic)
        return expression is not None and (expression == "*" or sent.tag in expression.split("||"))


GROUPS = (
    Group("all", {PLAIN: "*", LATER: "*", PAID: "*"}, 2),
    Group("some", {PLAIN: "a||Aa", PAID: "a"}, 3),
    Group("workers", {LINE: "*"}, 2, ordered=True),
    Group(MIXED, {LINE: "*", PLAIN: "*"}, 1),
)


def due_ms(message: Message, now_ms: int) -> int:
    """Before this a message may not be delivered."""
    return message.deliver_at_ms or now_ms + LEVEL_MS[message.delay_level]


class BrokerWorld:
    """One seed, one life. With `power` the machine may go down too, not only the process."""

    durabilities: tuple[Durability | None, ...] = (None, Durability.FLUSHED)

    def __init__(self, seed: int, *, power: bool = False) -> None:
        self.chance = random.Random(seed)
        self.power = power
        self.disk = Disk(self.chance)
        self.clock = ManualClock()
        self.sent: dict[str, Sent] = {}
        self.shares: dict[tuple[str, str], Share] = {}
        self.unsure: dict[str, Sent] = {}
        self.cut_off = dict.fromkeys((group.name for group in GROUPS), 0)
        self.number = 0
        self.doing: Callable[[], None] = lambda: None  # what a crash now leaves open
        self.groups = GROUPS
        self.reminders, self.payments, self.turning = Reminders(self), Payments(self), Turning(self)
        # In every other life, so that in the rest every delivery is strictly checked.
        self.turns = self.chance.random() < 0.5
        self.config = EngineConfig(
            timer_log_bytes=4096,
            data=ROOT,
            segment_bytes=self.chance.choice((8192, 16384, 65536)),
            queue_file_entries=self.chance.choice((26, 100, 1000)),
            index_slots=13,
            index_items=self.chance.choice((40, 200)),
            open_files_max=8,
            disk_free_min_bytes=0,
            default_queues=2,
            inflight_max=self.chance.choice((5, 20, 1000)),
            transaction_check_max=self.chance.choice((1, 3, 15)),
        )
        self.start()
        for name, kind in TOPICS.items():
            self.broker.create_topic(TopicConfig(name, type=kind, read_queues=2, write_queues=2))
        for group in GROUPS:
            self.broker.create_group(
                GroupConfig(group.name, retry_max=group.retry_max, ordered=group.ordered)
            )
        self.flush()

    # -- life ---------------------------------------------------------------------------------

    def start(self) -> None:
        self.pool = SeededPool(self.chance)
        files = self.disk.boot()
        self.broker = Broker(self.config, clock=self.clock, pool=self.pool, files=files)
        self.broker.start()

    def flush(self) -> None:
        """Everything so far is on the disk."""
        self.clock.advance(6.0)
        self.broker.tick()
        self.pool.drain()

    def run(self, steps: int) -> None:
        """Live for some steps, then let everything come to its end and count."""
        actions: tuple[tuple[Callable[[], None], int], ...] = (
            (self.send, 14),
            (self.receive, 25),
            (self.ack, 20),
            (self.nack, 8),
            (self.extend, 3),
            (self.release, 3),
            (self.forge, 4),
            (self.turn_order, 1),
            (self.tick, 20),
            (self.work, 8),
            (self.check_held, 3),
            (self.order_crash, 3),
            (self.kill, 1),
            (self.stop, 1),
            (self.fill_disk, 1),
            (self.empty_disk, 3),
            *self.reminders.actions(),
            *self.payments.actions(),
            *(self.turning.actions() if self.turns else ()),
        )
        verbs, weights = [verb for verb, _ in actions], [weight for _, weight in actions]
        for _ in range(steps):
            self.act(self.chance.choices(verbs, weights)[0])
        self.disk.crash_in = None
        self.empty_disk()
        self.drain()
        self.count()

    def act(self, verb: Callable[[], None]) -> None:
        self.doing = lambda: None
        try:
            verb()
        except Crash:
            self.doing()
            self.restart()
        except (Busy, Corrupt):
            assert self.disk.room_bytes < ROOM_UNLIMITED, "refused with room on the disk"
            self.doing()

    # -- producing ------------------------------------------------------------------------------

    def send(self) -> None:
        messages = [self.message() for _ in range(self.chance.choice((1, 1, 2, 5)))]
        durability = self.chance.choice(self.durabilities)
        now_ms = self.clock.now_ms()
        # Taken down first: a message that has to wait is given another topic on the way.
        accepted = [Sent.of(each, due_ms(each, now_ms)) for each in messages]
        try:
            stored = self.broker.send(messages, durability=durability)
        except Crash:
            self.unsure |= {sent.message_id: sent for sent in accepted}
            raise
        for sent in accepted:
            self.enter(sent)

        def flushed(error: Exception | None) -> None:
            for sent in accepted:
                sent.is_flushed = error is None

        self.broker.when_flushed(stored.flush_position, flushed)
        self.await_answer(accepted, stored)

    def await_answer(self, accepted: list[Sent], stored: PutResult) -> None:
        """What else is said of messages that were stored."""

    def message(self) -> Message:
        self.number += 1
        topic = self.chance.choice((PLAIN, PLAIN, LATER, LINE))
        level = self.chance.choice((0, 1, 2, 3, 4)) if topic == LATER else 0
        wait_ms = self.chance.choice((1, 1500, 30_000, 100_000, 900_000))
        return Message(
            topic,
            f"{self.number}:{'x' * self.chance.choice((0, 40, 300))}".encode(),
            tag=self.chance.choice(TAGS),
            message_id=f"M{self.number}",
            message_group=self.chance.choice(LANES) if topic == LINE else "",
            delay_level=level,
            deliver_at_ms=self.clock.now_ms() + wait_ms if topic == LATER and not level else 0,
        )

    def enter(self, sent: Sent) -> None:
        self.sent[sent.message_id] = sent
        for group in GROUPS:
            if group.wants(sent):
                self.shares[group.name, sent.message_id] = Share(sent, group.retry_max)

    # -- consuming ------------------------------------------------------------------------------

    def receive(self) -> None:
        group = self.chance.choice(GROUPS)
        topics = dict(self.chance.sample(list(group.topics.items()), len(group.topics)))
        if self.chance.random() < 0.3:
            topics = dict([next(iter(topics.items()))])
        client = self.chance.choice(CLIENTS)
        shares = [share for (name, _), share in self.shares.items() if name == group.name]

        def cut_off() -> None:
            self.cut_off[group.name] += 1
            for share in shares:
                share.maybe_handed_out(self.clock.now_ms())

        self.doing = cut_off
        verb = self.chance.choice((self.broker.receive, self.broker.receive_columns))
        deliveries = verb(
            group.name,
            topics,
            count_max=self.chance.choice((1, 1, 3, 10)),
            invisible_s=self.chance.choice((5.0, 30.0, 60.0)),
            client=client,
        )
        for delivery in by_message(self.broker, deliveries):
            self.deliver(group, delivery, client)

    def deliver(self, group: Group, delivery: Delivery, client: str) -> None:
        message_id = delivery.message.message_id
        if message_id not in self.sent:
            self.adopt(message_id)
        share = self.shares.get((group.name, message_id))
        assert share is not None, f"{message_id} is not for {group.name}"
        was_recalled = share.sent.is_recalled and not share.has_lost_power
        assert not was_recalled, f"{message_id} came although it was recalled"
        is_sure = not share.has_lost_power and not share.is_turned
        if group.ordered and share.sent.topic == LINE and is_sure:
            self.check_lane(group, share)
            assert delivery.receipt.topic == LINE, (
                "what an ordered group failed with left its place"
            )
        share.deliver(delivery, client, self.clock.now_ms())

    def adopt(self, message_id: str) -> None:
        """A message whose send was cut off turns out to be stored."""
        assert message_id in self.unsure, f"nobody sent {message_id}"
        sent = self.unsure.pop(message_id)
        sent.is_sure, sent.due_ms = False, 0
        self.enter(sent)
        for group in GROUPS:  # earlier receives that were cut off may have handed it out
            if group.wants(sent):
                share = self.shares[group.name, message_id]
                share.attempts = (1, 1 + self.cut_off[group.name])
                share.may_be_dead = self.cut_off[group.name] > group.retry_max
                if group.name in self.turning.groups and sent.topic == turning.PLAIN:
                    share.turn(comes=False)

    def check_lane(self, group: Group, share: Share) -> None:
        for earlier in self.lane(group, share.sent):
            was_lost = earlier.has_lost_power and not earlier.sent.is_flushed
            assert was_lost or earlier.may_be_over(self.clock.now_ms()), (
                f"{share.sent.body!r} came before {earlier.sent.body!r} of {share.sent.lane}"
            )

    def lane(self, group: Group, sent: Sent) -> Iterator[Share]:
        """Shares of earlier messages of the same message group; both were surely stored."""
        for other in self.sent.values():
            is_before = other.number < sent.number and other.lane == sent.lane
            if is_before and other.topic == sent.topic and other.is_sure and sent.is_sure:
                yield self.shares[group.name, other.message_id]

    def ack(self) -> None:
        for group, shares in self.some_held():
            receipts = [self.receipt(share) for share in shares]
            self.doing = lambda shares=shares: [share.unsure(done=True) for share in shares]
            results = self.broker.ack(group, receipts)
            for share, result in zip(shares, results, strict=True):
                if self.is_taken(share, result):
                    share.done()

    def nack(self) -> None:
        for group, shares in self.some_held():
            level = self.chance.choice((-1, 0, 1, 2, None))
            receipts = [self.receipt(share) for share in shares]
            nacks = [Nack(receipt, delay_level=level, error="no\0no") for receipt in receipts]
            dead = level == -1
            self.doing = lambda shares=shares, dead=dead: [
                share.unsure(dead=dead) for share in shares
            ]
            results = self.broker.nack(group, nacks, "c")
            now_ms = self.clock.now_ms()
            for share, result in zip(shares, results, strict=True):
                if self.is_taken(share, result):
                    assert share.held is not None
                    wait = share.held.attempt + 2 if level is None else max(0, level)
                    share.failed(now_ms + LEVEL_MS[min(wait, 5)], is_rejected=dead)

    def extend(self) -> None:
        for group, shares in self.some_held():
            self.doing = lambda shares=shares: [share.unsure() for share in shares]
            answers = self.broker.extend(group, [self.receipt(share) for share in shares], 20.0)
            for share, answer in zip(shares, answers, strict=True):
                if self.is_taken(share, answer.result):
                    assert share.held is not None
                    share.held.deadline_ms = answer.until_ms

    def release(self) -> None:
        for group, shares in self.some_held():
            self.doing = lambda shares=shares: [share.unsure() for share in shares]
            results = self.broker.release(group, [self.receipt(share) for share in shares])
            for share, result in zip(shares, results, strict=True):
                if self.is_taken(share, result):
                    share.put_back()

    def turn_order(self) -> None:
        """Messages that wait for earlier ones wait no longer, or have to from now on."""
        self.broker.change_group(MIXED, ordered=not self.broker.group(MIXED).ordered)

    def forge(self) -> None:
        """Somebody sends receipts that nobody was given: none is taken, and nothing changes."""
        group = self.chance.choice(GROUPS)
        forged = [self.forged() for _ in range(self.chance.choice((1, 5, 20)))]
        held = {
            share.held.receipt
            for (name, _), share in self.shares.items()
            if name == group.name and share.held is not None
        }
        forged = [receipt for receipt in forged if receipt not in held]
        verb = self.chance.randrange(5)
        if verb == 0:
            results = self.broker.ack(group.name, forged)
        elif verb == 1:
            results = self.broker.release(group.name, forged)
        elif verb == 2:
            results = [each.result for each in self.broker.extend(group.name, forged, 30)]
        elif verb == 3:
            level = self.chance.choice((None, -1, 2))
            results = self.broker.nack(
                group.name, [Nack(each, delay_level=level) for each in forged]
            )
        else:
            assert all(self.broker.renew(group.name, each, 30) is None for each in forged)
            results = []
        for receipt, result in zip(forged, results, strict=verb < 4):
            assert result is not AckResult.DONE, f"{receipt} of {group.name} is taken"

    def forged(self) -> Receipt:
        """Any serial at any place: also one of another group, and none at all."""
        held = [share.held.receipt for share in self.shares.values() if share.held is not None]
        if held and self.chance.random() < 0.5:
            receipt = self.chance.choice(held)
            near = (0, 1, -1, receipt.serial, receipt.serial - 1, receipt.serial + 1)
            return receipt._replace(serial=self.chance.choice(near))
        topics = (*TOPICS, "%RETRY%all", "%RETRY%workers", "nowhere", "")
        return Receipt(
            self.chance.choice(topics),
            self.chance.choice((0, 0, 1, -1, *BORDERS)),
            self.chance.choice((0, 1, 2, 3, self.chance.randrange(60), -1, *BORDERS)),
            self.chance.choice((0, 0, 0, 1, -1, *BORDERS)),
        )

    def is_taken(self, share: Share, result: AckResult) -> bool:
        """Whether a verb took a receipt; it must, before its deadline."""
        if result is AckResult.DONE:
            return True
        assert share.held is not None
        is_late = self.clock.now_ms() >= share.held.deadline_ms
        assert is_late, f"{share.sent.body!r}: {result} before its deadline"
        return False

    def receipt(self, share: Share) -> Receipt:
        assert share.held is not None
        return share.held.receipt

    def some_held(self) -> Iterator[tuple[str, list[Share]]]:
        """A few shares of one group that are in somebody's hands."""
        group = self.chance.choice(GROUPS)
        held = [
            share
            for (name, _), share in self.shares.items()
            if name == group.name and share.held is not None
        ]
        if held:
            count = min(len(held), self.chance.choice((1, 2, 6)))
            yield group.name, self.chance.sample(held, count)

    def check_held(self) -> None:
        """The broker knows what each client has in hand."""
        now_ms = self.clock.now_ms()
        for group in GROUPS:
            for client in CLIENTS:
                theirs = set(self.broker.held(group.name, client))
                for (name, _), share in self.shares.items():
                    held = share.held
                    if name == group.name and held is not None and held.client == client:
                        assert held.receipt in theirs or now_ms >= held.deadline_ms, held

    # -- time and trouble -----------------------------------------------------------------------

    def tick(self) -> None:
        self.clock.advance(self.chance.choice((0.0, 0.2, 1.0, 7.0, 40.0)))
        self.broker.tick()

    def work(self) -> None:
        self.pool.run_some(self.chance.randrange(1, 5))

    def order_crash(self) -> None:
        self.disk.crash_in = self.chance.randrange(1, 40)

    def kill(self) -> None:
        raise Crash

    def stop(self) -> None:
        if self.disk.room_bytes == ROOM_UNLIMITED:
            self.pool.drain()
            self.broker.stop()
            self.disk.kill()
            self.clock.advance(1.0)
            self.start()

    def fill_disk(self) -> None:
        self.disk.room_bytes = self.chance.randrange(12) * 512

    def empty_disk(self) -> None:
        self.disk.room_bytes = ROOM_UNLIMITED

    def restart(self) -> None:
        """Start again, through further crashes if some are ordered."""
        while True:
            if self.power and self.chance.random() < 0.4:
                self.disk.lose_power()
                self.payments.lose_power()
                for share in self.shares.values():
                    share.lose_power()
            else:
                self.disk.kill()
            self.empty_disk()
            self.clock.advance(1.0)
            if self.chance.random() < 0.2:
                self.disk.crash_in = self.chance.randrange(1, 60)
            try:
                self.start()
                break
            except Crash:
                continue
        self.disk.crash_in = None

    # -- the end --------------------------------------------------------------------------------

    def drain(self) -> None:
        """Receive and acknowledge until nothing comes any more, however long that takes."""
        quiet = 0
        while quiet < 6:
            self.clock.advance(DRAIN_S if quiet else 100.0)
            for _ in range(20):
                self.broker.tick()
            self.pool.drain()
            quiet = 0 if self.consume_all() else quiet + 1

    def consume_all(self) -> bool:
        found = False
        for group in GROUPS:
            while deliveries := self.consume(group):
                found = True
                for delivery in deliveries:
                    self.deliver(group, delivery, "drain")
                receipts = [delivery.receipt for delivery in deliveries]
                assert set(self.broker.ack(group.name, receipts)) == {AckResult.DONE}
                for delivery in deliveries:
                    self.shares[group.name, delivery.message.message_id].done()
        return found

    def consume(self, group: Group) -> list[Delivery]:
        for _ in range(5):  # an empty answer may mean that nothing of the examined part matched
            found = self.broker.receive(group.name, group.topics, count_max=100, client="drain")
            if found:
                return found
        return []

    def count(self) -> None:
        """Every message came to exactly one end with every group, and each lies in the log once."""
        self.settle_recalls()
        self.payments.count()
        self.turning.count()
        for group in GROUPS:
            dead = self.bodies(dead_letter_topic(group.name), 1)
            for (name, _), share in self.shares.items():
                if name == group.name:
                    self.count_share(share, dead.count(share.sent.body))
        for topic in TOPICS:
            bodies = self.bodies(topic, 2)
            for sent in self.sent.values():
                if sent.topic == topic and sent.is_sure and not self.power:
                    count = bodies.count(sent.body)
                    if sent.may_be_purged:
                        assert count <= 1, f"{sent.body!r}: {count}"
                        continue
                    assert count == (not sent.is_recalled), f"{sent.body!r}: {count}"

    def settle_recalls(self) -> None:
        """A recall that was cut off took effect for all groups or for none."""
        bodies = self.bodies(LATER, 2)
        for sent in self.sent.values():
            if sent.may_be_recalled and sent.body not in bodies:
                sent.is_recalled = True

    def count_share(self, share: Share, dead: int) -> None:
        what = f"{share.sent.body!r} after attempts {share.delivered}, {dead} dead letters"
        if share.sent.is_recalled and (share.has_lost_power or not share.delivered):
            return
        if share.has_lost_power:
            was_seen = share.is_done or share.may_be_done or dead > 0
            assert was_seen or not share.sent.is_flushed, f"{what}: flushed, yet lost"
            return
        if share.is_turned:
            assert not share.awaits, f"{what}: turned back, and never came"
            return
        assert dead <= 1, what
        if share.is_done:
            assert not dead, f"{what}: acknowledged, too"
        elif share.is_dead:
            assert dead == 1, f"{what}: the dead letter is missing"
        elif dead:
            last = share.held.attempt if share.held else share.attempts[1] - 1
            assert share.may_be_dead or last > share.retry_max, f"{what}: too early"
        else:
            assert share.may_be_done, f"{what}: lost"

    def has_topic(self, name: str) -> bool:
        return name in {config.name for config in self.broker.topics(system=True)}

    def bodies(self, topic: str, queues: int) -> list[bytes]:
        if not self.has_topic(topic):
            return []
        found: list[bytes] = []
        for queue in range(queues):
            offset = 0
            while True:
                result = self.broker.pull(topic, queue, offset, count_max=100)
                if result.next_offset <= offset:
                    break
                found += [message.body for message in result.messages]
                offset = result.next_offset
        return found
