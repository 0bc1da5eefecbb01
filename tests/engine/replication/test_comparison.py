"""Comparing two directories names what differs, and what is only in one."""

import pytest

from engine.broker import GroupConfig
from engine.errors import NotFound
from engine.replication.comparison import DataDirectory, compare
from tests.engine.replication.pair import ROOT, Pair
from tests.simulation.disk import Disk, FakeFiles


def equal(pair: Pair) -> Pair:
    pair.send(b"1", b"2")
    pair.broker.receive("g", {"orders": "*"})
    pair.feed()
    result = pair.compare()
    assert result.is_equal, result.differences
    assert result.queues >= 2
    return pair


def test_a_byte_of_the_log_that_differs_is_named(pair: Pair) -> None:
    node = equal(pair).standby_disk.shown[ROOT / "commitlog" / f"{0:020d}"]
    assert node is not None
    node.shown[100] ^= 1
    assert pair.compare().differences == [f"commitlog/{0:020d} differs at 100"]


def test_a_segment_that_one_has_alone_is_named(pair: Pair) -> None:
    equal(pair).send(b"1" * 20_000, b"2" * 20_000)
    result = pair.compare()
    assert f"commitlog/{32 * 1024:020d} is only in the first" in result.differences


def test_progress_that_differs_is_shown_as_it_is_on_both_sides(pair: Pair) -> None:
    equal(pair).broker.create_group(GroupConfig("late"))
    [difference] = pair.compare().differences
    assert difference.startswith(
        "config: only the first has GroupSet(config=GroupConfig(name='late'"
    )


def test_a_queue_that_is_shorter_is_named(pair: Pair) -> None:
    equal(pair)
    paths = [each for each in pair.standby_disk.shown if each.parent.parent.name == "orders"]
    node = pair.standby_disk.shown[next(each for each in paths if each.name.isdigit())]
    assert node is not None
    node.shown[: len(node.shown)] = bytes(len(node.shown))
    [ending, difference] = pair.compare().differences
    assert "in the second at 0" in ending
    assert "consumequeue/orders" in difference


def test_a_directory_without_a_store_is_refused(pair: Pair) -> None:
    pair.send(b"1")
    with pytest.raises(NotFound, match="no commit log"):
        compare(
            DataDirectory(FakeFiles(pair.disk), pair.broker._config.data),
            DataDirectory(FakeFiles(Disk(pair.disk.chance)), ROOT),
        )
