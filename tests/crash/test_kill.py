"""A server killed again and again under load: what clients were told still holds."""

import random
import time

import pytest

from tests.crash.load import GROUP, LINE, PLAIN, Load
from tests.crash.process import ServerProcess

pytestmark = [pytest.mark.crash, pytest.mark.timeout(170)]

KILLS = 8
UP_S = (0.05, 1.0)
DRAIN_S = 60.0
ACCEPTED_MIN = 10 * KILLS + 1


def test_kills_at_random_moments_lose_nothing_and_bring_nothing_back(server: ServerProcess) -> None:
    seed = time.time_ns() % 1_000_000
    chance = random.Random(seed)
    server.start()
    with server.client() as client:
        client.topics.create(PLAIN)
        client.topics.create(LINE, type="FIFO")
        client.groups.create(GROUP, retry_max=1000, ordered=True)
    load = Load(server, seed)
    load.start()
    faults = ""
    for _ in range(KILLS):
        time.sleep(chance.uniform(*UP_S))  # the moment of death is what this is about
        server.kill()
        server.start()
        faults = faults or server.verify()
    load.finish(DRAIN_S, accepted_min=ACCEPTED_MIN)
    book = load.book
    said = f"seed {seed}, {len(book.accepted)} accepted, {len(book.done_s)} acknowledged"
    assert not load.errors, said
    assert faults == "", said
    assert not book.missing, f"{said}: {len(book.missing)} lost, {sorted(book.missing)[:5]}"
    assert not book.came_back, f"{said}: {book.came_back[:5]} after their acknowledgement"
    assert not book.out_of_order, f"{said}: {book.out_of_order[:5]}"
    assert len(book.accepted) >= ACCEPTED_MIN, f"{said}: too few to prove anything"
