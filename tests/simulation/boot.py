"""A broker on a simulated disk, with files so small that a short story crosses every border."""

from pathlib import Path
from typing import Any

from engine.broker import Broker
from engine.clock import Clock
from engine.config import EngineConfig
from engine.store.pool import InlinePool, Pool
from tests.simulation.disk import Disk


def settings(**changes: Any) -> EngineConfig:
    """The settings of such a broker."""
    small: dict[str, Any] = {
        "data": Path("/data"),
        "segment_bytes": 32 * 1024,
        "queue_file_entries": 40,
        "index_slots": 50,
        "index_items": 200,
        "disk_free_min_bytes": 0,
        "timer_log_bytes": 4096,
    }
    return EngineConfig(**(small | changes))


def boot(disk: Disk, clock: Clock, pool: Pool | None = None, **changes: Any) -> Broker:
    """Start a broker on what the disk holds; `changes` are settings of the engine."""
    config = settings(**changes)
    broker = Broker(config, clock=clock, pool=pool or InlinePool(), files=disk.boot())
    broker.start()
    return broker
