"""A store on a temporary directory, and one on a disk that can be full, broken or torn."""

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.engine.store.parts import Bench
from tests.simulation.disk import Disk


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    bench = Bench(tmp_path / "data")
    yield bench
    bench.close()


@pytest.fixture
def disk() -> Disk:
    return Disk(random.Random(1))


@pytest.fixture
def weak(disk: Disk) -> Bench:
    """A bench on the simulated disk."""
    return Bench(Path("/data"), disk.boot())
