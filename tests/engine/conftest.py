"""A real broker on a temporary directory, with a clock that the test moves by hand."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from engine import message_checks
from engine.broker import Broker
from engine.clock import ManualClock
from engine.config import EngineConfig
from engine.message import PROPERTIES_BYTES_MAX, Message, PutResult
from engine.store.files import Files
from engine.store.pool import InlinePool
from tests.engine.opened import let_go

SEGMENT_BYTES = 8 * 1024 * 1024


class Engine:
    """Starts brokers on one directory; `crash` is what a killed process leaves behind."""

    def __init__(self, root: Path, clock: ManualClock) -> None:
        self.root = root
        self.clock = clock
        self.broker: Broker | None = None

    def start(self, files: Files | None = None, **settings: Any) -> Broker:
        settings = {"segment_bytes": SEGMENT_BYTES, "disk_free_min_bytes": 0, **settings}
        config = EngineConfig(data=self.root, **settings)
        self.broker = Broker(config, clock=self.clock, pool=InlinePool(), files=files)
        self.broker.start()
        return self.broker

    def crash(self, **settings: Any) -> Broker:
        """Go on with a new broker on what is in the page cache; nothing is flushed or stopped."""
        self.close()
        return self.start(**settings)

    def restart(self, **settings: Any) -> Broker:
        """Stop cleanly, then go on with a new broker."""
        assert self.broker is not None
        self.broker.stop()
        return self.start(**settings)

    def tick(self, seconds: float = 0.0) -> None:
        """Let time pass, then do all that is due."""
        assert self.broker is not None
        self.clock.advance(seconds)
        while self.broker.tick() <= 0:
            pass

    def close(self) -> None:
        if self.broker is not None:
            self.broker._store.close()
            self.broker = None
        let_go(self.root)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def engine(tmp_path: Path, clock: ManualClock) -> Iterator[Engine]:
    engine = Engine(tmp_path / "data", clock)
    yield engine
    engine.close()


@pytest.fixture
def broker(engine: Engine) -> Broker:
    return engine.start()


@pytest.fixture
def no_room_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Producers may fill a record's properties, as in the store of another broker."""
    monkeypatch.setattr(message_checks, "SENT_PROPERTIES_BYTES_MAX", PROPERTIES_BYTES_MAX)


@pytest.fixture
def send(engine: Engine, broker: Broker) -> Callable[..., PutResult]:
    """Send bodies to one queue of `orders`, so that they have an order."""

    def send(*bodies: str, topic: str = "orders", queue: int = 0, **fields: Any) -> PutResult:
        assert engine.broker is not None
        return engine.broker.send(
            [Message(topic, body.encode(), queue=queue, **fields) for body in bodies]
        )

    return send
