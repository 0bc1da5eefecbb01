"""The whole application in the test's process: real engine, real database, a clock by hand."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from app.main import create_app
from app.settings import Settings
from engine.clock import ManualClock

URL = "http://127.0.0.1:8080"
TICKS = 8


@dataclass
class App:
    """A running application and a client of it."""

    app: FastAPI
    clock: ManualClock
    http: httpx.AsyncClient

    async def post(self, path: str, body: object, status: int = 200) -> Any:
        """POST JSON; the decoded answer, whose status is checked."""
        answer = await self.http.post(f"/api/v1{path}", json=body)
        assert answer.status_code == status, answer.text
        return answer.json() if answer.content else None

    async def get(self, path: str, status: int = 200) -> Any:
        """GET; the decoded answer, whose status is checked."""
        answer = await self.http.get(f"/api/v1{path}")
        assert answer.status_code == status, answer.text
        return answer.json()

    async def send(self, topic: str, *bodies: str, **fields: object) -> list[Any]:
        """Store messages that differ in their body only."""
        messages = [{"body": body, **fields} for body in bodies]
        sent = await self.post(f"/topics/{topic}/messages", {"messages": messages}, 201)
        return list(sent["messages"])

    async def receive(self, group: str, topic: str, **fields: object) -> list[Any]:
        """Receive at once."""
        got = await self.post(f"/groups/{group}/receive", {"topic": topic, **fields})
        return list(got["deliveries"])

    async def until_parked(self) -> None:
        """Wait until a long poll waits in the engine."""
        for _ in range(1000):
            if self.app.state.host.waiting_count:
                return
            await asyncio.sleep(0)
        raise AssertionError("nothing was parked")

    def advance(self, seconds: float) -> None:
        """Let time pass, and the engine do what became due."""
        self.clock.advance(seconds)
        for _ in range(TICKS):
            self.app.state.host.broker.tick()


Starter = Callable[..., Any]


@asynccontextmanager
async def started(data: Path, **changes: Any) -> AsyncIterator[App]:
    """The application over `data`, with settings other than the defaults."""
    clock = ManualClock()
    app = create_app(Settings(data=data, disk_free_min_bytes=0, **changes), clock=clock)
    async with app.router.lifespan_context(app):
        transport = httpx.ASGITransport(app, client=("127.0.0.1", 50_000))
        async with httpx.AsyncClient(transport=transport, base_url=URL) as http:
            yield App(app, clock, http)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
async def running(tmp_path: Path) -> AsyncIterator[App]:
    async with started(tmp_path / "data") as app:
        yield app


@pytest.fixture
def start(tmp_path: Path) -> Starter:
    """Starts an application with other settings: `async with start(...) as app`."""
    return lambda **changes: started(tmp_path / "data", **changes)
