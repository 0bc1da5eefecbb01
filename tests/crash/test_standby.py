"""A leader and its standby, either killed again and again under load: in the end they are equal."""

import random
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.process import free_port
from tests.crash.load import GROUP, LINE, PLAIN, Load
from tests.crash.process import ServerProcess
from tests.patience import until

pytestmark = [pytest.mark.crash, pytest.mark.timeout(300)]

KILLS = 8
UP_S = (0.05, 1.0)
DRAIN_S = 60.0
EQUAL_S = 60.0


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[tuple[ServerProcess, ServerProcess]]:
    port = f"127.0.0.1:{free_port()}"
    secret = {"ha_secret": "what both of them know"}
    leader = ServerProcess(tmp_path / "leader", ha_listen=port, **secret)
    standby = ServerProcess(tmp_path / "standby", follow=port, **secret)
    try:
        yield leader, standby
    finally:
        leader.kill()
        standby.kill()


def differences(leader: ServerProcess, standby: ServerProcess) -> str:
    """What `kitemq store verify --against` says of the two; "" where they are equal."""
    command = [sys.executable, "-m", "kitemq", "store", "verify", str(leader.data), "--against"]
    done = subprocess.run(
        [*command, str(standby.data)], capture_output=True, text=True, check=False, timeout=60
    )
    return "" if done.returncode == 0 else done.stderr + done.stdout


def test_a_standby_is_equal_to_its_leader_whichever_of_them_dies(
    pair: tuple[ServerProcess, ServerProcess],
) -> None:
    seed = time.time_ns() % 1_000_000
    chance = random.Random(seed)
    leader, standby = pair
    leader.start()
    standby.start()
    with leader.client() as client:
        client.topics.create(PLAIN)
        client.topics.create(LINE, type="FIFO")
        client.groups.create(GROUP, retry_max=1000, ordered=True)
    load = Load(leader, seed)
    load.start()
    for _ in range(KILLS):
        time.sleep(chance.uniform(*UP_S))  # the moment of death is what this is about
        victim = chance.choice(pair)
        victim.kill()
        victim.start()
    load.finish(DRAIN_S, accepted_min=1)
    said = f"seed {seed}, {len(load.book.accepted)} accepted"
    assert not load.errors, said
    until(lambda: not differences(leader, standby), f"{said}: they never became equal", EQUAL_S)
    with leader.client() as client:
        count = client.topics.get(PLAIN).messages or 0
    leader.kill()
    standby.kill()
    assert differences(leader, standby) == "", said
    promote = [sys.executable, "-m", "kitemq", "promote", "--data", str(standby.data)]
    subprocess.run(promote, capture_output=True, check=True, timeout=60)
    standby_alone = ServerProcess(standby.data)
    try:
        standby_alone.start()  # as a leader: nothing that was accepted is missing
        with standby_alone.client() as client:
            assert client.topics.get(PLAIN).messages == count > 0, said
        assert standby_alone.verify() == "", said
    finally:
        standby_alone.kill()
