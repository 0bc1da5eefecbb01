"""The whole application in the test's process: real engine, real database, a clock by hand."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from app.main import Application, create_app
from app.services import ttl_cache
from app.settings import Settings
from engine.clock import ManualClock
from tests import stand_in
from tests.app.security.oidc.strange_provider import CLIENT, SECRET, StrangeProvider
from tests.makers import CLUSTER, EMBEDDED
from tests.postgres import Cluster, running_postgres

URL = "http://127.0.0.1:8080"
TICKS = 8
LIMIT_S = 30.0
PROVIDER_ROLES = ("kite-viewers=viewer", "kite-ops=operator", "cn=admins,dc=example=admin")


@dataclass
class App:
    """A running application and a client of it."""

    app: Application
    clock: ManualClock
    http: httpx.AsyncClient
    broker: Any  # that has the messages: of the embedded engine, or in the cluster's place

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
        async with asyncio.timeout(LIMIT_S):
            while not self.app.services.host.waiting_count:
                await asyncio.sleep(0.001)

    def advance(self, seconds: float) -> None:
        """Let time pass, and the engine do what became due."""
        self.clock.advance(seconds)
        for _ in range(TICKS):
            self.broker.tick()


Starter = Callable[..., Any]
Enter = Callable[..., AbstractAsyncContextManager[App]]


@asynccontextmanager
async def started(data: Path, maker_name: str = EMBEDDED, **changes: Any) -> AsyncIterator[App]:
    """The application over `data`, with settings other than the defaults."""
    clock = ManualClock()
    changes = {"report_schedules": False} | changes  # what is to run is told to
    async with AsyncExitStack() as stack:
        broker: Any = None
        application_of: Callable[..., Application] = create_app
        if maker_name == CLUSTER:
            place = stand_in.place_of(data)
            changes, engine_changes = stand_in.apart(changes)
            running = await stack.enter_async_context(
                stand_in.opened(place, clock=clock, **engine_changes)
            )
            broker, changes["rocketmq"] = running.broker, running.port.address
            application_of = stand_in.application_of
        settings = Settings(data=data, disk_free_min_bytes=0, **changes)
        app = application_of(settings, clock=clock)
        await stack.enter_async_context(app.router.lifespan_context(app))
        transport = httpx.ASGITransport(app, client=("127.0.0.1", 50_000))
        http = await stack.enter_async_context(httpx.AsyncClient(transport=transport, base_url=URL))
        if maker_name == CLUSTER:
            stand_in.check(app)
        embedded = None if settings.rocketmq else app.services.host.broker
        yield App(app, clock, http, broker or embedded)


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A page waits for its marks as long as a busy machine takes to read them."""
    monkeypatch.setattr(ttl_cache, "WAIT_S", 60.0)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session")
def postgres() -> Iterator[Cluster]:
    """A PostgreSQL that all tests share, each with a database of its own."""
    yield from running_postgres()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """What is marked `databases` runs over SQLite and once more over PostgreSQL."""
    if "database_url" not in metafunc.fixturenames:
        return
    if metafunc.definition.get_closest_marker("databases") is not None:
        metafunc.parametrize("database_url", ["sqlite", "postgresql"], indirect=True)


@pytest.fixture
def database_url(request: pytest.FixtureRequest) -> Iterator[str]:
    """The setting of that name: empty for SQLite in the data directory, else an empty database."""
    if getattr(request, "param", "sqlite") == "sqlite":
        yield ""
        return
    cluster: Cluster = request.getfixturevalue("postgres")
    with cluster.database() as url:
        yield url


@pytest.fixture
def url(database_url: str, tmp_path: Path) -> str:
    """The SQLAlchemy URL of an empty database, where no application is asked for."""
    return database_url or f"sqlite:///{tmp_path / 'kitemq.db'}"


@pytest.fixture
async def running(tmp_path: Path, database_url: str, maker_name: str) -> AsyncIterator[App]:
    async with started(tmp_path / "data", maker_name, database_url=database_url) as app:
        yield app


@pytest.fixture
def start(tmp_path: Path, database_url: str, maker_name: str) -> Starter:
    """Starts an application with other settings: `async with start(...) as app`."""
    kept = {"database_url": database_url}
    return lambda **changes: started(tmp_path / "data", maker_name, **kept | changes)


@pytest.fixture
def provider() -> Iterator[StrangeProvider]:
    """An OpenID Connect provider that tells whatever it is told to."""
    with StrangeProvider() as provider:
        yield provider


@pytest.fixture
def enter(start: Starter, provider: StrangeProvider) -> Enter:
    """Starts a server that knows the provider."""

    def entered(**changes: Any) -> AbstractAsyncContextManager[App]:
        settings = {
            "oidc_issuer": provider.issuer,
            "oidc_client_id": CLIENT,
            "oidc_client_secret": SECRET,
            "oidc_roles": PROVIDER_ROLES,
            **changes,
        }
        return start(**settings)

    return entered


@pytest.fixture
async def served(enter: Enter) -> AsyncIterator[App]:
    """Such a server, with nothing else changed."""
    async with enter() as app:
        yield app
