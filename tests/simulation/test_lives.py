"""Seeded lives of store and broker through crashes, power losses and full disks.

A failing one says how to repeat it. `make soak` runs them for as long as you like.
"""

import logging
from collections.abc import Iterator

import pytest

from tests.simulation.soak import live

STEPS = 250
JOURNAL_STEPS = 20  # entries at run time, and as many before a start


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """Services log what a full disk does to them, at length."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize("seed", range(12))
def test_a_store_keeps_what_it_promised(seed: int) -> None:
    live("store", seed, STEPS)


@pytest.mark.parametrize("seed", range(12))
def test_a_killed_broker_loses_nothing_and_brings_nothing_back(seed: int) -> None:
    live("broker", seed, STEPS)


@pytest.mark.parametrize("seed", range(100))
def test_a_damaged_file_is_never_met_with_silence(seed: int) -> None:
    """Each life has twelve damages, and a start for each."""
    live("damage", seed, 40)


@pytest.mark.parametrize("seed", range(12))
def test_what_was_flushed_reaches_every_group_after_a_power_loss(seed: int) -> None:
    live("power", seed, STEPS)


@pytest.mark.parametrize("first", range(0, 1000, 100))
def test_any_journal_entry_in_any_state_is_applied_or_set_aside(first: int) -> None:
    for seed in range(first, first + 100):
        live("journal", seed, JOURNAL_STEPS)


@pytest.mark.parametrize("seed", [0, 28, 89, 98, 120])
def test_a_standby_equals_its_leader_and_has_what_it_confirmed_once_promoted(seed: int) -> None:
    live("standby", seed, STEPS)


@pytest.mark.parametrize("seed", range(200, 240))
def test_a_promoted_standby_has_what_it_confirmed_also_where_either_lost_power(seed: int) -> None:
    live("standby-power", seed, STEPS)
