"""Whatever dies at whatever write: what was traced before is told after, and nothing is made up."""

import random
from collections import Counter

import pytest

from engine.broker import TopicConfig
from engine.clock import ManualClock
from engine.errors import EngineError
from engine.message import Message
from tests.simulation.boot import boot
from tests.simulation.disk import Crash, Disk


class Story:
    """Sends, consumes and lets time pass on a disk that breaks."""

    def __init__(self, seed):
        self.chance = random.Random(seed)
        self.disk = Disk(self.chance)
        self.clock = ManualClock()
        self.written = set()  # ids of messages whose acknowledgement was traced for certain
        self.acked = set()
        self.taken = Counter()  # how often each was delivered
        self.fresh = set()  # acknowledged since the last time that traces were written

    def start(self):
        self.broker = boot(self.disk, self.clock)
        self.fresh = set()
        if self.broker.traces.status().kept_records == 0 and not self.broker.topics():
            self.broker.create_topic(TopicConfig("t", read_queues=1, write_queues=1))

    def step(self):
        self.broker.send([Message("t", b"x", queue=0) for _ in range(self.chance.randint(1, 3))])
        taken = self.broker.receive("g", {"t": "*"}, count_max=2, client="c")
        self.taken.update(each.message.message_id for each in taken)
        self.broker.ack("g", [each.receipt for each in taken])
        ids = {each.message.message_id for each in taken}
        self.acked |= ids
        self.fresh |= ids
        if self.chance.random() < 0.5:
            self.clock.advance(0.2)
            while self.broker.tick() <= 0:
                pass
            self.written |= self.fresh
            self.fresh = set()

    def check(self):
        """Every journey can be told, and that of what was traced to its end."""
        for message_id in self.written | self.acked:
            try:
                journey = self.broker.traces.journey(message_id)
            except EngineError as error:
                raise AssertionError(message_id) from error
            names = [stage.name for stage in journey.stages]
            assert names.count("produce") <= 1
            deliveries = [stage for stage in journey.stages if stage.name == "delivery"]
            traced = [stage for stage in deliveries if stage.source == "trace"]
            assert len(traced) <= self.taken[message_id], "nobody else's are among them"
            if message_id in self.written and journey.stages:
                assert deliveries[-1].outcome == "acked"
                assert journey.groups[0].state == "done"


def live(crash_in, *, is_power_lost):
    story = Story(crash_in % 7)
    for _ in range(2):
        story.disk.crash_in = crash_in
        try:
            story.start()
            for _ in range(25):
                story.step()
        except Crash:
            pass
        if is_power_lost:
            story.disk.lose_power()
            story.written.clear()
        else:
            story.disk.kill()
    story.start()
    story.check()
    for _ in range(5):
        story.step()
    story.check()


@pytest.mark.parametrize("start", range(0, 240, 40))
def test_a_kill_at_any_write_leaves_what_was_traced(start):
    for crash_in in range(start + 1, start + 41, 3):
        live(crash_in, is_power_lost=False)


@pytest.mark.parametrize("start", range(0, 240, 40))
def test_a_power_loss_at_any_write_makes_up_no_delivery(start):
    for crash_in in range(start + 1, start + 41, 3):
        live(crash_in, is_power_lost=True)
