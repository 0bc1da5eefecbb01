"""A broker whose minutes pass when the test says so."""

from pathlib import Path

import pytest

from app.monitoring.meter import Meter
from engine.broker import Broker
from engine.clock import ManualClock
from engine.config import EngineConfig
from engine.store.pool import InlinePool

START_MS = 1_700_000_000_000


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(START_MS)


@pytest.fixture
def broker(clock: ManualClock, tmp_path: Path) -> Broker:
    config = EngineConfig(data=tmp_path, disk_free_min_bytes=0, segment_bytes=8 << 20)
    broker = Broker(config, clock=clock, pool=InlinePool())
    broker.start()
    return broker


@pytest.fixture
def meter(broker: Broker, clock: ManualClock) -> Meter:
    return Meter(lambda: broker.statistics, clock.now_ms)
