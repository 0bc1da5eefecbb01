"""A cluster's messages and what its clients traced, as rows; KiteMQ's own port is the cluster."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from analytics import cluster_roll, roll
from analytics.brokers import BrokerClient, ClusterAccess
from analytics.client_traces import ClientTraceRows
from analytics.cluster_roll import POSITION_BITS
from analytics.errors import Refused
from analytics.manifest import HOUR_MS, FrameManifest, load
from analytics.partitions import Partitions
from analytics.roll import ConfirmedEnd, Rolled
from analytics.schemas import MESSAGES, TRACE, arrow_schema
from engine.broker import GroupConfig, TopicConfig
from engine.clock import SystemClock
from engine.delivery.values import Nack
from engine.message import Message
from engine.topic.names import CLIENT_TRACE_TOPIC
from tests.analytics.test_roll import rows_in
from tests.analytics.test_source import ADDRESSES, brokers_of
from tests.analytics.test_traces import HOUR, record, store
from tests.live import LiveServer

QUEUES = 4
ORDERS = TopicConfig("orders", read_queues=QUEUES, write_queues=QUEUES)
AT_MS = HOUR * HOUR_MS


@pytest.fixture
def server(tmp_path: Path) -> Iterator[LiveServer]:
    made = LiveServer(tmp_path / "data")
    made.start()
    made.call(lambda: made.broker.create_topic(ORDERS))
    with brokers_of(made):
        yield made
    made.stop()


def send(server: LiveServer, *messages: Message) -> list[str]:
    """The ids of what was sent."""
    server.call(lambda: server.broker.send(list(messages)))
    return [each.message_id for each in messages]


def orders(*bodies: str) -> list[Message]:
    return [
        Message("orders", body.encode(), tag=body, queue=number % QUEUES)
        for number, body in enumerate(bodies)
    ]


def rolled(server: LiveServer, root: Path) -> Rolled:
    access = ClusterAccess((ADDRESSES[server.url],))
    return roll.roll(root / "none", root, ConfirmedEnd(None, SystemClock().now_ms(), access))


def trace(*contexts: tuple[str, ...]) -> bytes:
    return "".join("\x01".join(each) + "\x02" for each in contexts).encode()


def before(message_id: str, at_ms: int, *, call: str = "c1", retries: int = 0) -> tuple[str, ...]:
    return ("SubBefore", str(at_ms), "r", "billing", call, message_id, str(retries), "k")


def after(
    message_id: str, at_ms: int, *, call: str = "c1", code: int = 0, group: str = "billing"
) -> tuple[str, ...]:
    is_good = str(code == 0).lower()
    return ("SubAfter", call, message_id, "7", is_good, "k", str(code), str(at_ms), group)


# -- messages ------------------------------------------------------------------------------------


def test_each_message_is_a_row_once_however_often_a_cluster_is_read(
    server: LiveServer, tmp_path: Path
) -> None:
    root = tmp_path / "root"
    ids = send(server, *orders(*"abcdefgh"))
    first = rolled(server, root)
    assert (first.failure, first.rows[MESSAGES]) == ("", 8)
    ids += send(server, *orders(*"ijkl"))
    assert rolled(server, root).rows[MESSAGES] == 4
    assert rolled(server, root).rows[MESSAGES] == 0
    rows = rows_in(root, MESSAGES)
    assert Counter(each["message_id"] for each in rows) == Counter(ids)
    assert Counter(each["queue"] for each in rows) == dict.fromkeys(range(QUEUES), 3)
    assert {each["offset"] for each in rows} == {0, 1, 2}
    assert {each["log_position"] >> POSITION_BITS for each in rows} == {0}
    assert load(root).offsets["orders"] == {"kitemq": dict.fromkeys(range(QUEUES), 3)}


def test_a_reading_that_takes_too_long_goes_on_with_the_next_run(
    server: LiveServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "root"
    ids = send(server, *orders(*"abcdefgh"))
    with monkeypatch.context() as patch:
        patch.setattr(cluster_roll, "BUDGET_S", -1.0)
        first = rolled(server, root)
    assert "the next run goes on" in first.failure
    assert (first.at_ms, first.rows[MESSAGES]) == (0, 2)  # of the first queue
    second = rolled(server, root)
    assert (second.failure, second.rows[MESSAGES]) == ("", 6)
    assert second.at_ms > 0
    assert Counter(each["message_id"] for each in rows_in(root, MESSAGES)) == Counter(ids)


def test_a_cluster_that_is_away_leaves_the_rows_and_their_time_as_they_are(
    server: LiveServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "root"
    send(server, *orders("a"))
    at_ms = rolled(server, root).at_ms
    monkeypatch.setattr(roll, "PATIENCE_S", 0.1)
    monkeypatch.setitem(ADDRESSES, server.url, "127.0.0.1:9")
    second = rolled(server, root)
    assert "no name server answers" in second.failure
    assert (second.at_ms, second.rows[MESSAGES]) == (at_ms, 0)
    assert len(rows_in(root, MESSAGES)) == 1


def test_hours_of_which_something_was_gone_before_it_was_read_are_left_alone(
    server: LiveServer, tmp_path: Path
) -> None:
    root = tmp_path / "root"
    send(server, *orders(*"abcd"))
    now_ms = SystemClock().now_ms()
    assert rolled(server, root).failure == ""
    assert load(root).begin_ms == (now_ms // HOUR_MS - cluster_roll.BEGIN_HOURS) * HOUR_MS
    send(server, *orders(*"efgh"))
    server.call(lambda: server.broker.retention.purge("orders", everything=True))
    send(server, *orders(*"ijkl"))
    assert rolled(server, root).failure == ""
    tags = sorted(each["tag"] for each in rows_in(root, MESSAGES))
    assert tags == sorted("abcdijkl")
    assert load(root).begin_ms > now_ms


def test_a_topic_that_was_made_anew_is_read_from_its_beginning(
    server: LiveServer, tmp_path: Path
) -> None:
    root = tmp_path / "root"
    send(server, *orders(*"abcdefgh"))
    rolled(server, root)
    server.call(lambda: server.broker.delete_topic("orders"))
    server.call(lambda: server.broker.create_topic(ORDERS))
    send(server, *orders(*"ijkl"))
    assert rolled(server, root).rows[MESSAGES] == 4


def test_a_dead_letter_is_a_row_of_both_frames(server: LiveServer, tmp_path: Path) -> None:
    server.call(lambda: server.broker.create_group(GroupConfig("billing", retry_max=0)))
    send(server, *orders("a"))

    def bury() -> None:
        (delivery,) = server.broker.receive("billing", {"orders": "*"})
        server.broker.nack("billing", [Nack(delivery.receipt, error="no such account")])

    server.call(bury)
    rolled(server, tmp_path / "root")
    (letter,) = [row for row in rows_in(tmp_path / "root", MESSAGES) if row["role"] == "dead"]
    (row,) = rows_in(tmp_path / "root", TRACE)
    assert (row["kind"], row["group"], row["topic"]) == ("dead", "billing", "orders")
    assert (row["detail"], row["at_ms"]) == (letter["reason"], letter["stored_ms"])
    assert row["detail"] != ""


def test_messages_of_a_broker_without_queue_numbers_are_not_left_out_in_silence(
    server: LiveServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    send(server, *orders("a"))
    monkeypatch.setattr(BrokerClient, "_order", lambda client: ["other"])
    first = rolled(server, tmp_path / "root")
    assert "'kitemq' joined the cluster after its queues were numbered" in first.failure
    assert first.at_ms == 0


def test_while_a_broker_is_away_the_others_are_read_and_the_time_stands(
    server: LiveServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    send(server, *orders("a"))
    monkeypatch.setattr(BrokerClient, "_order", lambda client: ["kitemq", "other"])
    first = rolled(server, tmp_path / "root")
    assert (first.failure, first.at_ms, first.rows[MESSAGES]) == ("", 0, 1)
    (row,) = rows_in(tmp_path / "root", MESSAGES)
    assert row["queue"] == 0


def test_a_folder_is_of_an_engine_or_of_a_cluster(server: LiveServer, tmp_path: Path) -> None:
    send(server, *orders("a"))
    root, data = tmp_path / "root", tmp_path / "data"
    rolled(server, root)
    with pytest.raises(Refused, match="the messages of a cluster"):
        roll.roll(data, root, ConfirmedEnd(0, SystemClock().now_ms()))


# -- traces --------------------------------------------------------------------------------------


def test_what_clients_trace_has_the_place_of_its_message(
    server: LiveServer, tmp_path: Path
) -> None:
    root, now_ms = tmp_path / "root", SystemClock().now_ms()
    one, two = send(server, *orders("a", "b"))
    text = trace(before(one, now_ms), before(two, now_ms + 5, call="c2"), after(one, now_ms + 9))
    send(server, Message(CLIENT_TRACE_TOPIC, text))
    assert rolled(server, root).failure == ""
    # The end of a call comes with a later run.
    send(server, Message(CLIENT_TRACE_TOPIC, trace(after(two, now_ms + 20, call="c2", code=2))))
    assert rolled(server, root).failure == ""
    rows = sorted(rows_in(root, TRACE), key=lambda row: row["at_ms"])
    told = [(each["kind"], each["queue"], each["attempt"], each["detail"]) for each in rows]
    assert told == [
        ("delivered", 0, 1, ""), ("delivered", 1, 1, ""), ("acked", 0, 1, ""),
        ("failed", 1, 1, "EXCEPTION"),
    ]  # fmt: skip
    assert {(each["topic"], each["first_offset"], each["group"]) for each in rows} == {
        ("orders", 0, "billing")
    }
    assert {each["client"] for each in rows} == {"127.0.0.1"}
    assert load(root).counters.damaged_records == 0


def traced(root: Path, records: list[dict[str, Any]], *texts: bytes) -> list[dict[str, Any]]:
    """The rows of these traces over records that are in Parquet."""
    manifest: FrameManifest = store(root, records, [])
    into, traces = Partitions(root, manifest, 0), ClientTraceRows(root, manifest)
    rows = []
    for number, text in enumerate(texts):
        traces.take(text, number, AT_MS + 1000, "10.0.0.7")
        table = traces.table()
        if table is not None:
            into.add(TRACE, table)
            into.commit()
            rows += table.to_pylist()
    assert traces.damaged == 0
    return rows


def test_an_attempt_after_the_first_has_the_place_of_its_retry(tmp_path: Path) -> None:
    retry = {"topic": "%RETRY%billing", "role": "retry", "group": "billing", "message_id": "m"}
    records = [
        record(1, message_id="m", offset=5),
        record(2, **retry, offset=7, attempt=2),
        record(3, **retry, offset=8, attempt=3),
        record(4, **retry | {"group": "other"}, offset=9, attempt=3),
    ]
    calls = [before("m", AT_MS, call=f"c{retries}", retries=retries) for retries in range(3)]
    rows = traced(tmp_path, records, trace(*calls), trace(after("m", AT_MS + 9, call="c2")))
    assert [(each["topic"], each["first_offset"], each["attempt"]) for each in rows] == [
        ("t", 5, 1), ("%RETRY%billing", 7, 2), ("%RETRY%billing", 8, 3), ("%RETRY%billing", 8, 3),
    ]  # fmt: skip


def test_what_has_no_record_at_hand_has_a_group_and_no_place(tmp_path: Path) -> None:
    contexts = before("gone", AT_MS), after("gone", AT_MS + 5)
    rows = traced(tmp_path, [record(1, message_id="m")], trace(*contexts))
    assert [(each["kind"], each["group"], each["topic"]) for each in rows] == [
        ("delivered", "billing", ""), ("acked", "billing", ""),
    ]  # fmt: skip
    assert {each["first_offset"] for each in rows} == {None}


def test_an_end_without_its_call_has_the_place_of_the_only_record(tmp_path: Path) -> None:
    records = [record(1, message_id="m", offset=5), record(2, message_id="n", offset=6)]
    records.append(record(3, message_id="n", topic="u", origin_topic="u", offset=6))
    rows = traced(tmp_path, records, trace(after("m", AT_MS), after("n", AT_MS)))
    assert [(each["topic"], each["first_offset"]) for each in rows] == [("t", 5), ("", None)]


def test_a_time_that_cannot_be_is_not_believed(tmp_path: Path) -> None:
    manifest = store(tmp_path, [record(1, message_id="m")], [])
    traces = ClientTraceRows(tmp_path, manifest)
    text = trace(before("m", AT_MS + 9 * HOUR_MS), before("m", AT_MS - 99 * HOUR_MS), ("Odd",))
    traces.take(text, 1, AT_MS, "10.0.0.7")
    assert (traces.table(), traces.damaged) == (None, 3)


# -- room ----------------------------------------------------------------------------------------


def test_the_oldest_hours_go_where_there_are_too_many_bytes(tmp_path: Path) -> None:
    manifest = FrameManifest()
    into = Partitions(tmp_path, manifest, AT_MS)
    for hour in range(3):
        rows = [record(hour, stored_ms=AT_MS + hour * HOUR_MS)]
        into.add(MESSAGES, pa.Table.from_pylist(rows, schema=arrow_schema(MESSAGES)))
    into.commit()
    sizes = [part.size_bytes for each in manifest.frames[MESSAGES].values() for part in each.parts]
    assert into.expire(0, sum(sizes)) == 0
    assert into.expire(0, sum(sizes) - 1) == 1
    assert manifest.begin_ms == AT_MS + HOUR_MS
    assert into.expire(0, 1) == 1  # but for the last hour
    assert len(manifest.frames[MESSAGES]) == 1
