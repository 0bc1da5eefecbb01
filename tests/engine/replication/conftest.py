import pytest

from tests.engine.replication.pair import Pair


@pytest.fixture
def pair() -> Pair:
    return Pair()
