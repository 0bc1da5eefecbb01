"""One server for all tests that do not end it, and a process for each language's clients."""

import itertools
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from tests.clients.official import DRIVERS, OLDER_JAVA, Official, Way, clients, ways
from tests.grpc.endpoint import Served, served

MISSING = "is not installed; `make test` does that"
# Undecided transactions are asked about after seconds instead of a minute, and given up by nobody.
SOON = (
    "--transaction-timeout-s=2",
    "--transaction-check-interval-s=1",
    "--transaction-check-max=1000",
    "--disk-free-min-bytes=0",
)

NUMBERS = itertools.count(1)
Starter = Callable[..., Official]
Processes = Callable[[Way], Official]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Each test for every client that has what the test needs, by TLS too where one server serves.

    Those that lack something are left out, not skipped: in CI a skipped test has failed.
    """
    needs = {word for mark in metafunc.definition.iter_markers("needs") for word in mark.args}
    if "official" in metafunc.fixturenames:
        metafunc.parametrize("official", ways(needs), ids=str, indirect=True)
    if "client" in metafunc.fixturenames:
        metafunc.parametrize("client", clients(needs))


def require(client: str) -> None:
    """Skip where a client is missing, or the program that runs it."""
    driver = (DRIVERS | OLDER_JAVA)[client]
    is_there = all(part.exists() for part in driver.parts)
    if not (is_there and shutil.which(driver.command[0])):
        pytest.skip(f"RocketMQ's client {client} {driver.version} {MISSING}")


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("server") / "data", SOON) as found:
        yield found


@pytest.fixture(scope="session")
def api(server: Served) -> Iterator[httpx.Client]:
    """The server's REST API."""
    with httpx.Client(base_url=f"{server.url}/api/v1", timeout=30) as client:
        yield client


@pytest.fixture(scope="session")
def processes(server: Served, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Processes]:
    """The process of a client, of which there is one as long as nobody ended it."""
    home = tmp_path_factory.mktemp("home")
    running: dict[Way, Official] = {}

    def process(way: Way) -> Official:
        if way not in running:
            require(way.client)
            options = {"tls": True, "roots": server.data / "grpc_tls.crt"} if way.tls else {}
            running[way] = Official(way.client, server.address, home, **options)
        return running[way]

    try:
        yield process
    finally:
        for each in running.values():
            each.close()


@pytest.fixture
def official(request: pytest.FixtureRequest, processes: Processes) -> Iterator[Official]:
    """The clients of one language, then of the next; those of a test end with it."""
    found = processes(request.param)
    yield found
    found.leave()


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A name that no other test uses, for topics and groups."""
    return f"{next(NUMBERS)}-{request.node.originalname.removeprefix('test_')[:40]}"


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Starter]:
    """A process of its own: `start(client, address, **options)`."""
    running: list[Official] = []

    def process(client: str, address: str, **options: object) -> Official:
        require(client)
        running.append(Official(client, address, tmp_path, **options))
        return running[-1]

    try:
        yield process
    finally:
        for each in running:
            each.close()
