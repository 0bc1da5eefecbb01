"""A change of the journal that is lost lets messages come again, and none be passed over."""

import random

import pytest

from engine.broker import Broker, Delivery, GroupConfig, TopicConfig
from engine.clock import ManualClock
from engine.message import Message
from engine.store.journal_frames import FRAME, read_frames
from tests.engine.delivery.by_message import by_message
from tests.simulation.boot import boot
from tests.simulation.disk import Disk


class Story:
    """A broker whose journal loses changes."""

    def __init__(self) -> None:
        self.disk, self.clock = Disk(random.Random(1)), ManualClock()
        self.broker: Broker = boot(self.disk, self.clock)
        self.broker.create_topic(TopicConfig("orders", read_queues=1, write_queues=1))
        self.broker.create_group(GroupConfig("g"))

    def send(self, *tags: str) -> None:
        for number, tag in enumerate(tags):
            self.broker.send([Message("orders", b"%d" % number, tag=tag)])

    def receive(self, expression: str = "*", count: int = 1) -> list[Delivery]:
        deliveries = self.broker.receive("g", {"orders": expression}, count_max=count)
        return by_message(self.broker, deliveries)

    def ack(self, deliveries: list[Delivery]) -> None:
        self.broker.ack("g", [each.receipt for each in deliveries])

    def restart(self, *, lost: bytes = b"") -> None:
        """Kill it, and take the first change of this kind from its disk; what was out is due."""
        self.disk.kill()
        [file] = [
            node for path, node in self.disk.shown.items() if "journal.0" in path.name and node
        ]
        if lost:
            frames = read_frames(bytes(file.shown)).payloads
            frame = next(each for each in frames if lost in each.data)
            file.shown[frame.at : frame.at + FRAME.size + len(frame.data)] = bytes(
                FRAME.size + len(frame.data)
            )
        self.clock.advance(3600.0)
        self.broker = boot(self.disk, self.clock)


def bodies(deliveries: list[Delivery]) -> list[bytes]:
    return [each.message.body for each in deliveries]


@pytest.fixture
def story() -> Story:
    return Story()


def test_a_message_comes_again_though_the_next_one_was_handed_out_after_it(story: Story) -> None:
    story.send("", "", "")
    assert bodies(story.receive()) == [b"0"]
    story.ack(story.receive())
    story.restart(lost=b"handed_out")
    assert {*bodies(story.receive(count=10))} == {b"0", b"1", b"2"}
    assert story.broker.health().damages


def test_a_message_comes_again_though_others_were_passed_over_after_it(story: Story) -> None:
    story.send("a", "b")
    assert bodies(story.receive("a")) == [b"0"]
    assert not story.receive("a")  # it is the other one that was looked at
    story.restart(lost=b"handed_out")
    assert bodies(story.receive("a")) == [b"0"]


def test_what_is_done_after_such_a_start_counts(story: Story) -> None:
    story.send("a", "b", "a")
    story.ack(story.receive("a"))
    story.restart(lost=b"handed_out")
    story.ack(story.receive("b"))  # passes over the first, which its group wants no more
    story.restart()
    assert bodies(story.receive("b", count=10)) == []
