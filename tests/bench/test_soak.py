"""The soak in short: a server that is killed again and again keeps what it accepted."""

import asyncio
from pathlib import Path

import pytest

from bench.server import Server
from bench.soak import soak

SECONDS = 8.0
SEED = 20


@pytest.mark.crash
@pytest.mark.slow
def test_a_server_killed_again_and_again_loses_nothing_and_brings_nothing_back(
    tmp_path: Path,
) -> None:
    with Server(tmp_path / "data") as server:
        ledger = asyncio.run(soak(server, SECONDS, SEED))
    assert ledger.kills >= 1
    assert len(ledger.acknowledged_s) > 100
    assert not ledger.missing, sorted(ledger.missing)[:10]
    assert not ledger.came_back, ledger.came_back[:10]
