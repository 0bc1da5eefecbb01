"""The endpoint in the test's own process."""

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from tests.grpc.endpoint import Running, opened

Opener = Callable[..., Any]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
async def running(tmp_path: Path) -> AsyncIterator[Running]:
    async with opened(tmp_path / "data") as running:
        yield running


@pytest.fixture
def open_endpoint(tmp_path: Path) -> Opener:
    """Opens an endpoint with other settings: `async with open_endpoint(...) as running`."""
    return lambda **changes: opened(tmp_path / "data", **changes)
