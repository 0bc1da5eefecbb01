"""Whatever dies at whatever moment: each waiting message is delivered once, not before its time."""

import random
from collections import Counter

import pytest

from engine.broker import TimerAnswer
from engine.clock import ManualClock
from engine.message import Durability, Message
from engine.schedule import timer_deliver
from engine.topic.catalog import TopicConfig
from tests.engine.long_life import live_long
from tests.simulation.boot import boot
from tests.simulation.disk import Crash, Disk

TIMERS = "rmq_sys_wheel_timer"


class Story:
    """Sends, recalls and moves messages on a disk that breaks; remembers what it was promised."""

    def __init__(self, seed, durability, default=Durability.STORED):
        """`durability` is what each send asks for, `default` the broker's, for what it moves."""
        self.chance = random.Random(seed)
        self.disk = Disk(self.chance)
        self.clock = ManualClock()
        self.durability = durability
        self.default = default
        self.due_ms = {}  # by body, of those that were sent and never touched since
        self.ids = {}  # by body, of those that the broker said it had accepted
        self.recalled = set()
        self.maybe_recalled = set()
        self.broker = None
        self.number = 0

    def start(self):
        self.broker = boot(self.disk, self.clock, durability=self.default)
        if not self.broker.topics():
            self.broker.create_topic(TopicConfig("t", read_queues=1, write_queues=1))

    def step(self):
        actions = [self.send, self.send, self.sleep, self.sleep, self.recall, self.now, self.move]
        self.chance.choice(actions)()

    def send(self):
        messages = []
        for _ in range(self.chance.randint(1, 4)):
            body, self.number = str(self.number), self.number + 1
            wait_ms, fields = self.wait()
            self.due_ms[body] = self.clock.now_ms() + wait_ms
            message_id = self.chance.choice(["", f"ID{body}"])
            messages.append(Message("t", body.encode(), message_id=message_id, **fields))
        sent = self.broker.send(messages, durability=self.durability)
        ids = {message.body.decode(): message.message_id for message in sent.messages}
        if self.durability is Durability.STORED:
            self.ids |= ids
            return
        self.broker.when_flushed(
            sent.flush_position, lambda error: None if error else self.ids.update(ids)
        )

    def wait(self):
        """How long a message waits, and the fields that say so."""
        wait_ms = self.chance.choice([1, 700, 3000, 60_000])
        return wait_ms, {"deliver_at_ms": self.clock.now_ms() + wait_ms}

    def sleep(self):
        self.clock.advance(self.chance.choice([0, 0.5, 2]))
        if self.chance.random() < 0.1:
            self.broker._timer_deliverer.move_before(self.broker._store.written)
        if self.chance.random() < 0.1:
            self.broker._store.journal.compact()
        self.settle()

    def settle(self):
        while self.broker.tick() <= 0:
            pass

    def recall(self):
        body, message_id = self.choose()
        if body is not None:
            self.maybe_recalled.add(body)
            answer = self.broker.recall(message_id)
            if answer is TimerAnswer.RECALLED:
                self.recalled.add(body)
            else:
                assert body not in self.recalled
                self.check_delivered(body, answer)

    def now(self):
        body, message_id = self.choose()
        if body is not None:
            self.due_ms.pop(body, None)
            self.check_delivered(body, self.broker.deliver_now(message_id))

    def move(self):
        body, message_id = self.choose()
        if body is not None:
            self.due_ms.pop(body, None)
            at_ms = self.clock.now_ms() + self.chance.choice([0, 300, 5000])
            answer = self.broker.reschedule(message_id, at_ms)
            if answer is not TimerAnswer.RESCHEDULED:
                self.check_delivered(body, answer)

    def choose(self):
        self.settle()  # so that nothing waits for a flush
        return self.chance.choice([*self.ids.items(), (None, None)])

    def check_delivered(self, body, answer):
        self.settle()
        if answer in (TimerAnswer.DELIVERED, TimerAnswer.ALREADY_DELIVERED):
            assert body in self.delivered()
        else:
            assert answer is TimerAnswer.RECALLED
            assert body in self.maybe_recalled

    def delivered(self):
        found, offset = Counter(), 0
        while True:
            result = self.broker.pull("t", 0, offset, count_max=160)
            for message in result.messages:
                body = message.body.decode()
                found[body] += 1
                assert message.stored_ms >= self.due_ms.get(body, 0), "too early"
            offset = result.next_offset
            if offset >= result.max_offset:
                return found

    def end(self):
        for _ in range(20):
            self.clock.advance(5)
            self.settle()
        found = self.delivered()
        assert max(found.values(), default=1) == 1, "delivered twice"
        assert self.ids.keys() <= found.keys() | self.maybe_recalled, "lost"
        assert not self.recalled & found.keys(), "delivered after it was recalled"
        assert self.broker.scheduled().count == 0
        first, end = self.broker._store.bounds(TIMERS, 0)
        assert self.broker._timer_deliverer._progress.unfinished(1, end) == []
        assert first == 0


@pytest.fixture(autouse=True)
def _short_stretch(monkeypatch):
    monkeypatch.setattr(timer_deliver, "SPAN_MIN", 10)


def crash(story, *, is_power_lost):
    if is_power_lost:
        story.disk.lose_power()
        story.recalled.clear()  # a recall is as lasting as an acknowledgement
    else:
        story.disk.kill()


def live(crash_in, durability, default, *, is_power_lost, story_type=Story):
    """Some of a life, a crash at a chosen operation, some more of it, another crash, the end."""
    story = story_type(crash_in % 11, durability, default)
    for _ in range(2):
        story.disk.crash_in = crash_in
        try:
            story.start()
            for _ in range(40):
                story.step()
        except Crash:
            pass
        crash(story, is_power_lost=is_power_lost)
    story.start()
    story.end()


@pytest.mark.parametrize("start", range(0, 400, 50))
def test_a_kill_at_any_write_delivers_each_once(start):
    for crash_in in range(start + 1, start + 51, 3):
        live(crash_in, Durability.STORED, Durability.STORED, is_power_lost=False)


@pytest.mark.parametrize("default", [Durability.STORED, Durability.FLUSHED])
@pytest.mark.parametrize("start", range(0, 400, 50))
def test_a_power_loss_at_any_write_delivers_each_flushed_one_once(start, default):
    for crash_in in range(start + 1, start + 51, 3):
        live(crash_in, Durability.FLUSHED, default, is_power_lost=True)


@pytest.mark.parametrize("seed", range(10))
def test_long_stories_with_kills_and_clean_stops_deliver_each_once(seed):
    story = Story(seed, Durability.STORED)
    live_long(story)
    story.end()
