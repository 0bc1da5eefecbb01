"""Whatever dies at whatever moment: a reply that was accepted is kept, and each request has one."""

import random
from collections import Counter

import pytest

from engine.broker import PendingRequest, ReplyMessage, ReplyResult
from engine.clock import ManualClock
from engine.errors import MessageNotFound
from engine.message import Durability, Message
from tests.simulation.boot import boot
from tests.simulation.disk import Crash, Disk

REPLIES = "DefaultCluster_REPLY_TOPIC"


class Story:
    """Requests and replies on a disk that breaks; remembers what it was told."""

    def __init__(self, seed: int, durability: Durability) -> None:
        self.chance = random.Random(seed)
        self.disk = Disk(self.chance)
        self.clock = ManualClock()
        self.durability = durability
        self.ids: list[str] = []
        self.kept: dict[str, bytes] = {}  # by correlation id, where the answer was not "already"
        self.handed: dict[str, bytes] = {}
        self.under_way: list[PendingRequest] = []
        self.number = 0
        self.start()

    def start(self) -> None:
        self.under_way = []
        self.broker = boot(self.disk, self.clock, durability=self.durability)

    def step(self) -> None:
        actions = (self.ask, self.ask, self.reply, self.reply, self.reply, self.sleep)
        self.chance.choice(actions)()

    def ask(self) -> None:
        self.number += 1
        correlation_id = f"id-{self.number}"
        self.ids.append(correlation_id)

        def ended() -> None:
            if request.reply is not None:
                self.handed[correlation_id] = request.reply.body

        request = self.broker.requests.request(
            Message("questions", b"q"),
            timeout_ms=self.chance.choice((500, 5000)),
            client="me",
            on_end=ended,
            correlation_id=correlation_id,
        )
        self.under_way.append(request)

    def reply(self) -> None:
        if not self.ids:
            return
        correlation_id = self.chance.choice(self.ids[-8:])
        self.number += 1
        body = b"%d" % self.number
        new = ReplyMessage(correlation_id=correlation_id, body=body)
        if self.broker.requests.reply(new).result is not ReplyResult.ALREADY:
            assert correlation_id not in self.kept, "two replies were accepted"
            self.kept[correlation_id] = body

    def sleep(self) -> None:
        self.clock.advance(self.chance.choice((0, 0.3, 2)))
        if self.chance.random() < 0.2:
            self.broker._store.journal.compact()
        while self.broker.tick() <= 0:
            pass

    def check(self, promised: dict[str, bytes]) -> None:
        """Whatever was promised is there, and nothing twice."""
        while self.broker.tick() <= 0:
            pass
        for correlation_id, body in promised.items():
            assert self.broker.requests.find(correlation_id).message.body == body
        store = self.broker._store
        stored = store.read_entries(store.entries(REPLIES, 0, 0, 1000))
        found = Counter(message.properties["CORRELATION_ID"] for message in stored if message)
        assert max(found.values(), default=1) == 1
        for correlation_id in set(self.ids) - found.keys():
            with pytest.raises(MessageNotFound):
                self.broker.requests.find(correlation_id)

    def forget_unkept(self) -> None:
        """After a power loss only what was handed over is known to be kept."""
        self.kept = dict(self.handed)
        for correlation_id in self.ids:
            if correlation_id not in self.kept:
                try:
                    found = self.broker.requests.find(correlation_id)
                except MessageNotFound:
                    continue
                self.kept[correlation_id] = found.message.body


@pytest.mark.parametrize("is_power_lost", [False, True], ids=["killed", "power lost"])
@pytest.mark.parametrize("start", range(0, 240, 40))
def test_a_crash_at_any_write_keeps_what_was_accepted_and_nothing_twice(
    start: int, is_power_lost: bool
) -> None:
    for crash_in in range(start + 1, start + 41):
        story = Story(crash_in % 7, Durability.FLUSHED if is_power_lost else Durability.STORED)
        for _ in range(2):
            story.disk.crash_in = crash_in
            try:
                for _ in range(60):
                    story.step()
            except Crash:
                pass
            (story.disk.lose_power if is_power_lost else story.disk.kill)()
            story.start()
            if is_power_lost:
                story.forget_unkept()
            else:
                adopt(story)
            story.check(story.kept)


def adopt(story: Story) -> None:
    """A reply under way when the process died may have been stored: then it is the one."""
    for correlation_id in story.ids:
        try:
            found = story.broker.requests.find(correlation_id)
        except MessageNotFound:
            continue
        story.kept.setdefault(correlation_id, found.message.body)
