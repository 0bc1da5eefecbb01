"""Topics that KiteMQ's journal does not know: nothing of theirs is deleted."""

import logging
from collections.abc import Callable
from pathlib import Path

import pytest

from engine.inspection import inspect
from engine.message import PutResult
from engine.store.consume_queue import ENTRY
from engine.store.files import OsFiles
from tests.engine.conftest import Engine
from tests.engine.handover.theirs import read_table, touch_checkpoint, write_table

Send = Callable[..., PutResult]


def lay_queue(root: Path, topic: str, queue: int = 0) -> Path:
    """A queue's folder that no journal knows, with one entry."""
    directory = root / "consumequeue" / topic / str(queue)
    directory.mkdir(parents=True)
    path = directory / f"{0:020d}"
    path.write_bytes(ENTRY.pack(0, 100, 0))
    return path


def test_the_queues_of_a_topic_that_nobody_knows_stay_after_a_crash(engine: Engine) -> None:
    engine.start()
    engine.close()
    path = lay_queue(engine.root, "unheard-of", 2)
    broker = engine.start()
    assert path.exists()
    assert broker.topic("unheard-of").read_queues == 3
    assert "unheard-of" in broker.health().warnings["rocketmq"]


def test_queues_whose_name_no_topic_can_have_are_left_alone_and_named(
    engine: Engine, caplog: pytest.LogCaptureFixture
) -> None:
    engine.start()
    engine.close()
    path = lay_queue(engine.root, "not a name")
    with caplog.at_level(logging.WARNING):
        broker = engine.start()
    assert path.exists()
    assert "consumequeue/not a name" in broker.health().warnings["rocketmq"]
    assert "consumequeue/not a name" in caplog.text


def test_the_queues_of_a_topic_that_was_deleted_here_go(engine: Engine, send: Send) -> None:
    broker = engine.broker or engine.start()
    send("x", topic="gone")
    broker.delete_topic("gone")
    engine.close()
    path = lay_queue(engine.root, "gone")
    broker = engine.start()
    assert not path.exists()
    assert "gone" not in [topic.name for topic in broker.topics()]
    assert broker.health().warnings == {}


def test_verifying_names_the_queues_of_a_topic_that_nobody_knows(
    engine: Engine, send: Send
) -> None:
    send("x")
    engine.close()
    lay_queue(engine.root, "unheard-of")
    report = inspect(OsFiles(), engine.root, patience_s=())
    assert report.notes == ["consumequeue/unheard-of: a topic that the journal does not know"]


def test_topics_that_rocketmq_made_are_taken_over_without_a_message(
    engine: Engine, send: Send
) -> None:
    send("x")
    engine.close()
    touch_checkpoint(engine.root)
    entry = {"readQueueNums": 7, "writeQueueNums": 5, "perm": 4, "attributes": {}}
    internal = {"readQueueNums": 1, "writeQueueNums": 1, "perm": 7}
    tables = {"made-there": entry, "DefaultCluster": internal, "TBW102": internal}
    write_table(engine.root, "topics.json", topicConfigTable=tables)
    broker = engine.start()
    topic = broker.topic("made-there")
    assert (topic.read_queues, topic.write_queues, topic.permission) == (7, 5, 4)
    assert {each.name for each in broker.topics()} == {"orders", "made-there"}


def test_a_table_that_kitemq_wrote_brings_no_topic_back(engine: Engine, send: Send) -> None:
    broker = engine.broker or engine.start()
    send("x", topic="gone")
    send("x")
    broker = engine.restart()
    broker.delete_topic("gone")
    engine.close()
    touch_checkpoint(engine.root)
    broker = engine.start()
    assert [each.name for each in broker.topics()] == ["orders"]


def test_a_table_that_cannot_be_read_is_named_and_passed_over(engine: Engine, send: Send) -> None:
    send("x")
    engine.close()
    touch_checkpoint(engine.root)
    (engine.root / "config" / "topics.json").write_bytes(b'{"topicConfigTable": [')
    broker = engine.start()
    assert "config/topics.json was passed over" in broker.health().warnings["rocketmq"]
    assert (engine.root / "set-aside" / "topics.json").read_bytes() == b'{"topicConfigTable": ['
    assert broker.topic_stats("orders").messages == 1


def test_topics_that_are_rocketmqs_own_stay_in_the_table(engine: Engine, send: Send) -> None:
    broker = engine.broker or engine.start()
    send("x")
    internal = {"readQueueNums": 16, "writeQueueNums": 16, "perm": 7}
    ours = {"readQueueNums": 4, "writeQueueNums": 4, "perm": 6, "order": True}
    broker.stop()
    tables = {"DefaultCluster": internal, "orders": ours}
    write_table(engine.root, "topics.json", topicConfigTable=tables)
    engine.start().stop()
    table = read_table(engine.root, "topics.json")["topicConfigTable"]
    assert table["DefaultCluster"] == internal
    assert table["orders"]["attributes"] == {"message.type": "NORMAL"}
