"""A group with dead letters to begin with."""

from collections.abc import Callable
from typing import Any

import pytest

from engine.broker import Broker, GroupConfig, Nack, NewReplay, ReplayJob, ReplayTo, TopicConfig
from engine.message import StoredMessage
from tests.engine.conftest import Engine

DEAD = "%DLQ%g"


class Desk:
    """Makes dead letters of the group `g`, and jobs over them."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    @property
    def broker(self) -> Broker:
        assert self.engine.broker is not None
        return self.engine.broker

    def kill(self, topic: str = "orders", error: str = "boom", level: int = -1) -> None:
        """Reject all that `g` can receive from a topic."""
        while deliveries := self.broker.receive("g", {topic: "*"}, count_max=100):
            nacks = [Nack(each.receipt, delay_level=level, error=error) for each in deliveries]
            self.broker.nack("g", nacks, "worker-1")
            self.engine.tick()

    def redrive(self, **fields: Any) -> ReplayJob:
        given = {"source": DEAD, "to": ReplayTo.GROUP, "rate": 0.0, **fields}
        return self.broker.replays.create(NewReplay(**given))

    def run(self, **fields: Any) -> ReplayJob:
        """Create a job and let it come to its end."""
        job = self.redrive(**fields)
        self.engine.tick()
        return self.broker.replays.get(job.id)

    def all(self, topic: str) -> list[StoredMessage]:
        """Every message of a topic, queue by queue."""
        found = []
        for queue in range(self.broker.topic(topic).read_queues):
            offset = 0
            while True:
                result = self.broker.pull(topic, queue, offset, count_max=160)
                found += result.messages
                offset = result.next_offset
                if offset >= result.max_offset:
                    break
        return found

    def bodies(self, topic: str) -> list[str]:
        return [message.body.decode() for message in self.all(topic)]

    def labels(self, job_id: str) -> list[str]:
        """Every message's outcome, page by page."""
        labels, after = [], -1
        while True:
            page = self.broker.replays.outcomes(job_id, after=after, count_max=7)
            labels += [row.outcome for row in page.items]
            if page.next is None:
                return labels
            after = page.next


@pytest.fixture
def desk(engine: Engine, broker: Broker) -> Desk:
    broker.create_topic(TopicConfig("orders", read_queues=1, write_queues=1))
    broker.create_group(GroupConfig("g"))
    return Desk(engine)


@pytest.fixture
def dead(desk: Desk, send: Callable[..., Any]) -> Desk:
    """Ten dead letters "0" to "9": even ones with tag `even`, from `orders`."""
    for number in range(10):
        send(
            str(number),
            tag="odd" if number % 2 else "even",
            keys=(f"k{number}",),
            properties={"amount": str(number)},
        )
    desk.kill()
    return desk
