"""One server for all tests that do not end it, and a process for each language's clients."""

import itertools
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from tests.clients.official import LANGUAGES, NODE_CLIENT, PYTHON, Official
from tests.grpc.door import Served, served

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


def require(language: str) -> None:
    """Skip where a client is missing."""
    if language == "python" and not PYTHON.exists():
        pytest.skip(f"RocketMQ's Python client {MISSING}")
    if language == "node" and not (shutil.which("node") and NODE_CLIENT.exists()):
        pytest.skip(f"RocketMQ's Node.js client {MISSING}")


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
def processes(server: Served, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Starter]:
    """The process of a language, of which there is one as long as nobody ended it."""
    home = tmp_path_factory.mktemp("home")
    running: dict[str, Official] = {}

    def process(language: str) -> Official:
        if language not in running:
            require(language)
            running[language] = Official(language, server.address, home)
        return running[language]

    try:
        yield process
    finally:
        for each in running.values():
            each.close()


@pytest.fixture(params=LANGUAGES)
def official(request: pytest.FixtureRequest, processes: Starter) -> Iterator[Official]:
    """The clients of one language, then of the other; those of a test end with it."""
    found = processes(request.param)
    yield found
    found.leave()


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A name that no other test uses, for topics and groups."""
    return f"{next(NUMBERS)}-{request.node.originalname.removeprefix('test_')[:40]}"


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Starter]:
    """A process of its own: `start(language, address, **options)`."""
    running: list[Official] = []

    def process(language: str, address: str, **options: object) -> Official:
        require(language)
        running.append(Official(language, address, tmp_path, **options))
        return running[-1]

    try:
        yield process
    finally:
        for each in running:
            each.close()
