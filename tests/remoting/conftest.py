"""The port in the test's own process."""

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from tests.remoting.port import Client, Running, opened


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
async def running(tmp_path: Path) -> AsyncIterator[Running]:
    async with opened(tmp_path / "data") as running:
        yield running


@pytest.fixture
async def client(running: Running) -> Client:
    return await running.connect()


@pytest.fixture
def open_port(tmp_path: Path) -> Callable[..., Any]:
    """Opens a port with other settings: `async with open_port(...) as running`."""
    return lambda **changes: opened(tmp_path / "data", **changes)
