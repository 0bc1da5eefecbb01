"""Every test here attacks a server: it is marked so, and its time limit follows ATTACK_SECONDS.

The tests of a module share that time: `SUBJECTS` of the module (1) says for how many subjects there
is as much.
"""

import resource
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.attack.attack import ATTACK_S, share
from tests.attack.target import Target

BESIDES_S = 240  # for start, warm-up, what returns after an attack, and the stop
ATTACKER_FILES = 8192


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.attack)
            item.add_marker(pytest.mark.timeout(ATTACK_S + BESIDES_S))


@pytest.fixture(autouse=True, scope="session")
def _files() -> Iterator[None]:
    """The attacker has more files than the server."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, ATTACKER_FILES)), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.fixture(autouse=True)
def _share(request: pytest.FixtureRequest) -> None:
    """Divide the time between the attacks of this module that are run."""
    together = sum(item.path == request.path for item in request.session.items)
    share.seconds = ATTACK_S * getattr(request.module, "SUBJECTS", 1) / together


@pytest.fixture
def target(tmp_path: Path) -> Iterator[Target]:
    """A server without users, under the limits."""
    server = Target(tmp_path / "data")
    server.start()
    try:
        yield server
    finally:
        server.stop()


@pytest.fixture
def closed_target(tmp_path: Path) -> Iterator[Target]:
    """A server with users, under the limits: attackers have no login."""
    server = Target(tmp_path / "data", has_users=True)
    server.start()
    try:
        yield server
    finally:
        server.stop()
