"""The soak in short: a server that is killed again and again keeps what it accepted."""

import asyncio
import time
from pathlib import Path

import pytest

from bench.server import Server
from bench.soak import soak
from bench.soak_ledger import Ledger

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
    kinds = {body.split()[0] for body in ledger.accepted}
    assert kinds == {"plain", "fifo", "delayed", "paid", "poison", "socket"}
    assert ledger.rolled_back
    assert not ledger.missing, sorted(ledger.missing)[:10]
    assert not ledger.came_back, ledger.came_back[:10]
    assert not ledger.wrong, ledger.wrong[:10]


def test_the_soak_notices_what_may_never_happen() -> None:
    ledger = Ledger()
    for body in ("fifo 0 1", "fifo 0 2", "plain 3", "plain 4"):
        ledger.accept(body, "0" if body.startswith("fifo") else "")
    ledger.rolled_back.add("paid 5")
    ledger.deliver(["fifo 0 2", "paid 5", f"delayed 6 {1 << 60}"], time.monotonic())
    assert len(ledger.wrong) == 3
    ledger.acknowledge("plain 3")
    ledger.deliver(["plain 3"], time.monotonic() + 1)
    assert ledger.came_back == ["plain 3"]
    assert ledger.missing == {"fifo 0 1", "fifo 0 2", "plain 4"}
    assert not ledger.is_clean


def test_a_message_group_delivered_in_order_is_nothing_wrong() -> None:
    ledger = Ledger()
    for number in (1, 2, 3):
        ledger.accept(f"fifo 0 {number}", "0")
    ledger.deliver(["fifo 0 1", "fifo 0 2"], time.monotonic())
    ledger.acknowledge("fifo 0 1")
    ledger.doubt(["fifo 0 2"])
    ledger.deliver(["fifo 0 3"], time.monotonic())
    assert ledger.wrong == []
