"""What the tests of retention share: small segments, a disk of a stated size, things to look at."""

from pathlib import Path
from typing import Any

from engine.broker import Broker
from engine.message import Message
from engine.store.files import OsFiles
from tests.engine.conftest import Engine

SEGMENT_BYTES = 4096
HOUR_S = 3600.0


class StatedDisk(OsFiles):
    """A disk that says how large and how empty it is."""

    def __init__(self, total: int = 1000 * SEGMENT_BYTES, free: int | None = None) -> None:
        self.total = total
        self.free = total if free is None else free

    def free_bytes(self, path: Path) -> int:
        return self.free

    def total_bytes(self, path: Path) -> int:
        return self.total


def start(engine: Engine, **settings: Any) -> Broker:
    """A broker whose log files hold some ten of our messages, and queue files seven entries."""
    return engine.start(
        **{"segment_bytes": SEGMENT_BYTES, "queue_file_entries": 7, "index_items": 40, **settings}
    )


def fill(
    engine: Engine, segments: int, *, topic: str = "orders", queue: int = 0, step_s: float = 1.0
) -> list[str]:
    """Send until so many more segments have begun; the bodies sent, some ten to each."""
    broker = current(engine)
    end = broker._store.written // SEGMENT_BYTES + segments
    bodies: list[str] = []
    while broker._store.written // SEGMENT_BYTES < end:
        start_offset = broker._store.bounds(topic, queue)[1]
        body = f"{topic}-{start_offset}".ljust(200, ".")
        broker.send([Message(topic, body.encode(), queue=queue, keys=(f"{topic}{start_offset}",))])
        bodies.append(body)
        engine.tick(step_s)
    return bodies


def current(engine: Engine) -> Broker:
    assert engine.broker is not None
    return engine.broker


def bounds(broker: Broker, topic: str = "orders", queue: int = 0) -> tuple[int, int]:
    found = broker.topic_stats(topic).queues[queue]
    return found.min_offset, found.max_offset


def bodies(broker: Broker, topic: str = "orders", queue: int = 0) -> list[str]:
    """Everything that a pull from the begin gets."""
    offset, found = bounds(broker, topic, queue)[0], []
    while messages := (result := broker.pull(topic, queue, offset)).messages:
        found += [message.body.decode() for message in messages]
        offset = result.next_offset
    return found


def names(engine: Engine, *place: str) -> list[str]:
    """Files in a folder of the data directory."""
    folder = engine.root.joinpath(*place)
    return sorted(path.name for path in folder.iterdir()) if folder.exists() else []
