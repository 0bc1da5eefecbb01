"""Seeded lives of store and broker through crashes, power losses and full disks.

A failing one says how to repeat it. `make soak` runs them for as long as you like.
"""

import logging
from collections.abc import Iterator

import pytest

from tests.simulation.soak import live

STEPS = 250


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


@pytest.mark.parametrize("seed", range(12))
def test_what_was_flushed_reaches_every_group_after_a_power_loss(seed: int) -> None:
    live("power", seed, STEPS)
