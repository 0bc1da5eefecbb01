"""A live server for each story of the SDK."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.live import LiveServer


@pytest.fixture
def server(tmp_path: Path, maker_name: str) -> Iterator[LiveServer]:
    with LiveServer(tmp_path / "data", maker_name) as live:
        yield live


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"
