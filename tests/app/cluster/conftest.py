"""KiteMQ's own port for classic clients, in the place of a cluster."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.remoting.port import Running, opened


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
async def running(tmp_path: Path) -> AsyncIterator[Running]:
    async with opened(tmp_path / "data") as running:
        yield running
