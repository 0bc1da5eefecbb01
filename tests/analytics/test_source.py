"""The data source `kitemq` against a real server: batches, streams, and sending."""

import asyncio
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pyarrow as pa
import pytest
from pyspark.sql.datasource import (
    CaseInsensitiveDict,
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
)
from pyspark.sql.datasource import Filter as Pushed
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from analytics import register
from analytics.brokers import BrokerClient, BrokerQueue, ClusterAccess
from analytics.errors import DataLost, Refused, ServerFailed
from analytics.queues import QueueView
from analytics.server import ServerClient, mark_of
from analytics.sink import BatchSink
from analytics.source import (
    BatchReader,
    KiteSource,
    OffsetSplit,
    PushingReader,
    StreamReader,
    parse,
    shared_out,
)
from app.network.connection_monitor import ConnectionMonitor
from app.remoting.port import RemotingPort
from engine.compression import COMPRESSED_FLAG
from engine.message import Message
from tests.analytics.scenery import Store, live
from tests.grpc.endpoint import listening
from tests.grpc.test_endpoint import PASSWORD
from tests.live import LiveServer
from tests.remoting.port import opened
from tests.remoting.test_rights import signed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Rows = list[dict[str, Any]]
TOPIC = "flights"
CARRIERS = ("UA", "DL", "航空")
SENT = 600
BROKERS = "brokers"  # stands for the option that has these read


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    """With `SENT` messages in the queues of `flights`; tests that change it use other topics."""
    made = LiveServer(tmp_path_factory.mktemp("source") / "data", segment_bytes=64 * 1024)
    made.start()
    made.call(lambda: _fill(made.broker))
    with brokers_of(made):
        yield made
    made.stop()


@contextmanager
def brokers_of(server: LiveServer) -> Iterator[None]:
    """Its port for classic clients, which is a cluster's name server and broker in one."""
    assert server.app is not None
    assert server.loop is not None
    services = server.app.services
    watch = ConnectionMonitor(services.settings, services.connection_limits)
    port = RemotingPort(services, [listening()], watch)
    asyncio.run_coroutine_threadsafe(port.start(), server.loop).result(10)
    ADDRESSES[server.url] = port.address
    yield
    asyncio.run_coroutine_threadsafe(port.stop(), server.loop).result(10)


ADDED = {"MSG_REGION", "TRACE_ON"}  # by the port to what it hands out, in place of a checksum
ADDED_BYTES = 19
ADDRESSES: dict[str, str] = {}  # of the brokers, by the server's URL


def _fill(broker: Any) -> None:
    for at in range(0, SENT, 20):
        broker.send([_flight(number) for number in range(at, at + 20)])


def _flight(number: int) -> Message:
    body = bytes(range(256)) if number % 7 == 0 else f'{{"flight": {number}}}'.encode()
    return Message(
        TOPIC,
        body,
        tag=CARRIERS[number % 3],
        keys=(f"k{number}", f"tail{number % 10}")[: number % 3],
        properties={"origin": "JFK"} if number % 2 else {},
        message_group="g" if number % 5 == 0 else "",
        queue=number % 4,
        born_ms=1_700_000_000_000 + number if number % 4 else 0,
    )


def options(server: LiveServer, **given: str) -> CaseInsensitiveDict:
    if given.get("path") == BROKERS:
        given = {**given, "path": "", "rocketmq": ADDRESSES[server.url]}
    return CaseInsensitiveDict({"topic": TOPIC, "server": server.url, **given})


def read(reader: BatchReader | StreamReader, parts: Any) -> Rows:
    """What tasks would read, in this process."""
    rows: Rows = []
    for part in parts:
        for batch in reader.read(part):
            rows += batch.to_pylist()
    return sorted(rows, key=lambda row: (row.get("queue", 0), row.get("offset", 0)))


def rows_of(server: LiveServer, *pushed: Pushed, **given: str) -> Rows:
    reader = PushingReader(parse(options(server, **given)))
    assert list(reader.pushFilters(list(pushed))) == list(pushed)
    rows = read(reader, reader.partitions())
    for row in rows if given.get("path") == BROKERS else ():
        if "properties" not in row:
            break
        assert dict(row["properties"]).keys() >= ADDED
        row["properties"] = [each for each in row["properties"] if each[0] not in ADDED]
        row["size_bytes"] -= ADDED_BYTES
    return rows


def load(spark: "SparkSession", server: LiveServer, **given: str) -> "DataFrame":
    register(spark)
    return spark.read.format("kitemq").options(**options(server, **given)).load()


# -- batches ---------------------------------------------------------------------------------------


def test_files_rest_and_brokers_give_the_very_same_rows(server: LiveServer) -> None:
    by_file, by_rest = rows_of(server), rows_of(server, path="rest")
    assert by_file == by_rest == rows_of(server, path=BROKERS)
    assert len(by_file) == SENT
    assert [row["body"] for row in sorted(by_file, key=lambda row: row["position"])] == [
        _flight(number).body for number in range(SENT)
    ]
    row = by_file[0]
    assert (row["topic"], row["queue"], row["offset"], row["tag"]) == (TOPIC, 0, 0, "UA")
    assert row["born_at"] is not None or row["position"] == 0
    assert abs(row["stored_at"] - datetime.now(UTC)) < timedelta(hours=1)


def test_the_store_of_this_machine_is_found_and_told_from_others(
    server: LiveServer, tmp_path: Path
) -> None:
    with ServerClient(server.url) as connected:
        found = connected.store()
    assert found is not None
    assert mark_of(found)
    assert (found / "commitlog").is_dir()
    other = tmp_path / "data"
    other.mkdir()
    assert mark_of(other) == ""
    (other / "lock").touch()
    assert mark_of(other) not in ("", mark_of(found))


def test_only_chosen_columns_are_there(server: LiveServer) -> None:
    rows = rows_of(server, columns="offset, tag")
    assert set(rows[0]) == {"offset", "tag"}
    assert len(rows) == SENT
    assert set(rows_of(server, columns="tag", key="tail3")[0]) == {"tag"}


@pytest.mark.parametrize("path", ["", "rest", BROKERS])
def test_a_key_is_found_among_others(server: LiveServer, path: str) -> None:
    rows = rows_of(server, key="tail8", path=path)
    wanted = [number for number in range(SENT) if number % 3 == 2 and number % 10 == 8]
    assert sorted(row["keys"] for row in rows) == sorted(f"k{each} tail8" for each in wanted)
    assert rows_of(server, key="ail8", path=path) == []


@pytest.mark.parametrize("path", ["", "rest", BROKERS])
def test_options_narrow_the_reading_exactly(server: LiveServer, path: str) -> None:
    everything = rows_of(server)
    found = rows_of(server, queues="1, 3", tag="DL", path=path)
    assert found == [row for row in everything if row["queue"] in (1, 3) and row["tag"] == "DL"]
    times = sorted({row["stored_at"] for row in everything})
    begin, end = times[len(times) // 3], times[2 * len(times) // 3]
    stored_ms = str(int(end.timestamp() * 1000))
    given = {"from": begin.isoformat(), "to": stored_ms, "path": path}
    assert rows_of(server, **given) == [
        row for row in everything if begin <= row["stored_at"] < end
    ]


@pytest.mark.parametrize("path", ["", "rest", BROKERS])
@pytest.mark.parametrize(
    ("pushed", "holds"),
    [
        (EqualTo(("queue",), 2), lambda row: row["queue"] == 2),
        (In(("queue",), (1, 3)), lambda row: row["queue"] in (1, 3)),
        (EqualTo(("tag",), "航空"), lambda row: row["tag"] == "航空"),
        (EqualTo(("offset",), 17), lambda row: row["offset"] == 17),
        (GreaterThan(("offset",), 140), lambda row: row["offset"] > 140),
        (LessThanOrEqual(("offset",), 3), lambda row: row["offset"] <= 3),
    ],
)
def test_a_pushed_filter_leaves_out_nothing_that_matches(
    server: LiveServer, pushed: Pushed, holds: Any, path: str
) -> None:
    everything, found = rows_of(server), rows_of(server, pushed, path=path)
    assert [row for row in found if holds(row)] == [row for row in everything if holds(row)]
    is_read_anyway = path == "rest" and isinstance(pushed, EqualTo) and pushed.value == "航空"
    assert (len(found) < SENT) is not is_read_anyway


def test_a_time_range_leaves_the_rest_of_the_log_unread(tmp_path: Path) -> None:
    store = Store(tmp_path / "data")
    begin = datetime.fromtimestamp(store.clock.now_ms() / 1000, UTC)
    for hour in range(12):
        store.broker.send([Message(TOPIC, str(hour).encode(), queue=0)])
        store.tick(3600)
    given = CaseInsensitiveDict({"topic": TOPIC, "path": str(store.root)})
    reader = PushingReader(parse(given))
    pushed: list[Pushed] = [GreaterThanOrEqual(("stored_at",), begin + timedelta(hours=3))]
    pushed.append(LessThan(("stored_at",), begin + timedelta(hours=5)))
    list(reader.pushFilters(pushed))
    rows = read(reader, [OffsetSplit(0, 0, 12, str(store.root))])
    assert [row["body"] for row in rows] == [b"3", b"4", b"5"]
    for hour in range(13):
        at_ms = int((begin + timedelta(hours=hour)).timestamp() * 1000)
        found = QueueView(store.root, TOPIC, 0).first_since(at_ms, 0, 12)
        assert found == store.broker._store.offset_at_time(TOPIC, 0, at_ms) == hour
    store.close()


def test_every_queue_of_a_lived_store_is_read_as_the_engine_reads_it(tmp_path: Path) -> None:
    store = Store(tmp_path / "data")
    live(store, seed=3, hours=1)
    known = store.broker._store
    assert len(known.queue_keys()) > 12
    for topic, queue in known.queue_keys():
        least, end = known.bounds(topic, queue)
        wanted = known.read_entries(known.entries(topic, queue, least, end - least))
        given = CaseInsensitiveDict({"topic": topic, "path": str(store.root)})
        rows = read(BatchReader(parse(given)), [OffsetSplit(queue, least, end, str(store.root))])
        assert [(row["offset"], row["body"], row["message_id"]) for row in rows] == [
            (each.offset, each.body, each.message_id) for each in wanted if each is not None
        ]
    store.close()


def test_files_that_retention_deletes_meanwhile_are_told(tmp_path: Path) -> None:
    store = Store(tmp_path / "data")
    for _ in range(40):
        store.broker.send([Message(TOPIC, bytes(20_000), queue=0)])
    sorted((store.root / "commitlog").iterdir())[0].unlink()
    given = CaseInsensitiveDict({"topic": TOPIC, "path": str(store.root)})
    part = [OffsetSplit(0, 0, 40, str(store.root))]
    with pytest.raises(DataLost, match="of queue 0 of 'flights', from offset 0 on, are gone"):
        read(BatchReader(parse(given)), part)
    rows = read(BatchReader(parse(CaseInsensitiveDict({**given, "failOnDataLoss": "false"}))), part)
    assert 0 < len(rows) < 40
    assert rows[-1]["offset"] == 39
    store.close()


def test_what_is_wrong_is_named(server: LiveServer, tmp_path: Path) -> None:
    for given, message in (
        ({"columns": "offset,size"}, "no column 'size'"),
        ({"maxOffsetsPerTrigger": "many"}, "no count"),
        ({"failOnDataLoss": "perhaps"}, "neither true nor false"),
        ({"queues": "0,one"}, "names no queues"),
        ({"from": "yesterday"}, "'yesterday' is no time"),
        ({"rocketmq": "localhost"}, "'localhost' is no name server"),
        ({"rocketmq": "a:1", "path": "/data"}, "brokers are read, and no files"),
        ({"rocketmq": "a:1", "accessKey": "me"}, "need each other"),
    ):
        with pytest.raises(Refused, match=message):
            parse(options(server, **given))
    with pytest.raises(Refused, match="no topic is named"):
        KiteSource(CaseInsensitiveDict({})).reader(_schema())
    with pytest.raises(Refused, match="404"):
        BatchReader(parse(options(server, topic="nothing"))).partitions()
    with pytest.raises(Refused, match="no topic 'nothing'"):
        BatchReader(parse(options(server, topic="nothing", path=BROKERS))).partitions()
    with pytest.raises(Refused, match="names no offsets"):
        StreamReader(parse(options(server, startingOffsets="soon"))).initialOffset()
    nobody = ServerClient("http://127.0.0.1:9", patience_s=0.1)
    with nobody, pytest.raises(ServerFailed, match="does not answer"):
        nobody.ends(TOPIC)
    no_cluster = BrokerClient(ClusterAccess(("127.0.0.1:9",)), patience_s=0.1)
    with no_cluster, pytest.raises(ServerFailed, match="no name server answers"):
        no_cluster.ends(TOPIC, lambda queue: True)


# -- brokers ---------------------------------------------------------------------------------------


def test_of_a_cluster_a_task_reads_a_whole_queue_of_its_broker(
    server: LiveServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("analytics.source.PARTITION_OFFSETS", 10)
    monkeypatch.setattr("analytics.brokers.CHUNK_BYTES", 1000)
    parts = BatchReader(parse(options(server, path=BROKERS, queues="0,1,3"))).partitions()
    [(name, queue)] = {(each.place.broker, each.place.queue) for each in parts[2:]}  # type: ignore[attr-defined]
    assert (name, queue) == ("kitemq", 3)
    assert [(each.queue, each.start, each.end) for each in parts] == [  # type: ignore[attr-defined]
        (number, 0, SENT // 4) for number in (0, 1, 3)
    ]
    # Also where an answer has more than is to be read, and less.
    place = BrokerQueue("kitemq", 3)
    part = OffsetSplit(3, 5, 148, place=place)
    rows = read(BatchReader(parse(options(server, path=BROKERS))), [part])
    assert [row["offset"] for row in rows] == list(range(5, 148))


def test_a_compressed_body_is_read_as_its_producer_wrote_it(server: LiveServer) -> None:
    body = b"a body that is worth it " * 100
    message = Message("packed", zlib.compress(body), queue=0, sys_flag=COMPRESSED_FLAG)
    server.call(lambda: server.broker.send([message, Message("packed", b"plain", queue=0)]))
    for path in ("", "rest", BROKERS):
        rows = rows_of(server, topic="packed", columns="body", path=path)
        assert [row["body"] for row in rows] == [body, b"plain"]


def test_what_a_cluster_has_no_more_is_told(server: LiveServer) -> None:
    server.call(lambda: server.broker.send([Message("purged", b"x", queue=0)] * 50))
    server.call(lambda: server.broker.retention.purge("purged", everything=True))
    server.call(lambda: server.broker.send([Message("purged", b"y", queue=0)] * 5))
    part = OffsetSplit(0, 0, 55, place=BrokerQueue("kitemq", 0))
    given = options(server, topic="purged", path=BROKERS)
    with pytest.raises(DataLost, match="50 messages of queue 0 of 'purged', from offset 0 on"):
        read(BatchReader(parse(given)), [part])
    given["failOnDataLoss"] = "false"
    rows = read(BatchReader(parse(given)), [part])
    assert [row["offset"] for row in rows] == list(range(50, 55))


def test_keys_never_show(monkeypatch: pytest.MonkeyPatch) -> None:
    given = CaseInsensitiveDict({"topic": "t", "rocketmq": "127.0.0.1:9", "token": "t0ken"})
    monkeypatch.setenv("ROCKETMQ_ACCESS_KEY", "acc3ss")
    monkeypatch.setenv("ROCKETMQ_SECRET_KEY", "s3cret")
    known = parse(given)
    assert known.cluster is not None
    assert (known.cluster.access_key, known.cluster.secret_key) == ("acc3ss", "s3cret")
    for each in ("acc3ss", "s3cret", "t0ken"):
        assert each not in f"{known!r} {known.cluster!r}"
    named = parse(CaseInsensitiveDict({**given, "accessKey": "other", "secretKey": "secret"}))
    assert named.cluster == ClusterAccess(("127.0.0.1:9",), "other", "secret")


@pytest.mark.anyio
async def test_a_cluster_that_asks_for_a_key_is_read_with_one(tmp_path: Path) -> None:
    async with opened(tmp_path / "data", admin_password=PASSWORD) as running:
        client = await signed(running, "admin")
        assert client.keys is not None
        await client.send("locked", b"x")
        given = {"topic": "locked", "rocketmq": running.port.address, "columns": "body"}

        def bodies(**keys: str) -> list[bytes]:
            reader = BatchReader(parse(CaseInsensitiveDict({**given, **keys})))
            return [row["body"] for row in read(reader, reader.partitions())]

        good, secret = client.keys
        assert await asyncio.to_thread(bodies, accessKey=good, secretKey=secret) == [b"x"]
        for keys in ({}, {"accessKey": good, "secretKey": "wrong"}):
            with pytest.raises(Refused) as refusal:
                await asyncio.to_thread(bodies, **keys)
            assert refusal.value.field == "accessKey"
            assert secret not in str(refusal.value)


@pytest.mark.spark
def test_spark_reads_a_cluster_and_shows_no_key_in_its_plans(
    spark: "SparkSession", server: LiveServer, capfd: pytest.CaptureFixture[str]
) -> None:
    frame = load(spark, server, path=BROKERS, accessKey="acc3ss", secretKey="s3cret")
    assert frame.rdd.getNumPartitions() == 4
    assert {
        row.tag: row["count"] for row in frame.groupBy("tag").count().collect()
    } == dict.fromkeys(CARRIERS, SENT // 3)
    frame.explain(extended=True)
    shown = capfd.readouterr()
    assert "kitemq" in shown.out
    for each in ("acc3ss", "s3cret"):
        assert each not in shown.out + shown.err


def _schema() -> Any:
    from pyspark.sql.types import StructType

    return StructType().add("body", "string")


@pytest.mark.spark
def test_the_readme_line_works(spark: "SparkSession", server: LiveServer) -> None:
    frame = load(spark, server)
    assert frame.count() == SENT
    assert frame.schema.simpleString().startswith("struct<topic:string,queue:int,offset:bigint")
    counts = frame.filter("tag = '航空' AND queue IN (0, 1)").groupBy("tag", "queue").count()
    wanted = [number for number in range(SENT) if number % 3 == 2 and number % 4 < 2]
    assert sum(row["count"] for row in counts.collect()) == len(wanted)
    # The same frame again: what one query left out is there for the next.
    assert frame.count() == SENT
    once = load(spark, server, pushFilters="true").filter("tag = '航空' AND queue IN (0, 1)")
    assert once.count() == len(wanted)
    same = load(spark, server, tag="航空", queues="0, 1", columns="queue,tag")
    assert same.count() == len(wanted)
    assert frame.select("properties", "body", "stored_at").toArrow().num_rows == SENT


# -- streams ---------------------------------------------------------------------------------------


def test_a_limit_is_shared_out_and_always_gets_on() -> None:
    start, end = {"0": 0, "1": 10, "2": 5}, {"0": 1000, "1": 12, "2": 5}
    latest = shared_out(start, end, 100)
    assert sum(latest[queue] - start[queue] for queue in start) == 100
    for limit in (1, 2, 3, 7):
        place, steps = dict(start), 0
        while place != end:
            further = shared_out(place, end, limit)
            read_now = sum(further[queue] - place[queue] for queue in place)
            assert 0 < read_now <= limit
            place, steps = further, steps + 1
        assert steps >= 1002 // limit
    assert shared_out(start, end, 5000) == end


@pytest.mark.parametrize("path", ["", BROKERS])
def test_a_stream_begins_where_it_is_told(server: LiveServer, path: str) -> None:
    per_queue = SENT // 4
    for starting, wanted in (
        ("earliest", {str(queue): 0 for queue in range(4)}),
        ("latest", {str(queue): per_queue for queue in range(4)}),
        ('{"1": 7}', {"0": 0, "1": 7, "2": 0, "3": 0}),
    ):
        reader = StreamReader(parse(options(server, startingOffsets=starting, path=path)))
        assert reader.initialOffset() == wanted
    reader = StreamReader(parse(options(server, maxOffsetsPerTrigger="10", path=path)))
    start = reader.initialOffset()
    assert reader.getDefaultReadLimit() == ReadMaxRows(10)
    end = reader.latestOffset(start, ReadMaxRows(10))
    assert len(read(reader, reader.partitions(start, end))) == 10
    end = reader.latestOffset(start, ReadAllAvailable())
    assert len(read(reader, reader.partitions(start, end))) == SENT
    assert list(reader.partitions(end, end)) == []


def test_offsets_that_are_gone_end_the_query_or_are_left_out(
    server: LiveServer, caplog: pytest.LogCaptureFixture
) -> None:
    start = {"0": 100, "1": 0}
    end = {"0": 10_000, "1": 0}  # a topic that was deleted and made again is shorter
    with pytest.raises(DataLost, match=r"9850 messages of queue 0 .* are gone: retention"):
        StreamReader(parse(options(server))).partitions(start, end)
    reader = StreamReader(parse(options(server, failOnDataLoss="false")))
    rows = read(reader, reader.partitions(start, end))
    assert [row["offset"] for row in rows] == list(range(100, SENT // 4))
    assert "9850 messages" in caplog.text


@pytest.mark.spark
def test_a_stream_that_is_started_again_reads_every_message_once(
    spark: "SparkSession", server: LiveServer, tmp_path: Path
) -> None:
    given = options(server, topic="streamed", maxOffsetsPerTrigger="40", columns="queue,offset")
    given["topic"] = "streamed"
    _send(server, "streamed", range(100))

    def run() -> list[int]:
        register(spark)
        frame = spark.readStream.format("kitemq").options(**given).load()
        query = (
            frame.writeStream.format("parquet")
            .option("path", str(tmp_path / "out"))
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(100)
        return [each.numInputRows for each in query.recentProgress if each.numInputRows]

    assert run() == [40, 40, 20]
    # As a kill between a batch and its commit leaves it: the last batch is done over.
    commits = sorted(
        (tmp_path / "checkpoint" / "commits").glob("[0-9]*"), key=lambda p: int(p.name)
    )
    commits[-1].unlink()
    (commits[-1].parent / f".{commits[-1].name}.crc").unlink(missing_ok=True)
    _send(server, "streamed", range(100, 130))
    run()
    rows = spark.read.parquet(str(tmp_path / "out")).collect()
    with ServerClient(server.url) as connected:
        wanted = [
            (queue, offset)
            for queue, ends in connected.ends("streamed").items()
            for offset in range(ends.least, ends.end)
        ]
    assert len(wanted) == 130
    assert sorted((row.queue, row.offset) for row in rows) == sorted(wanted)


def _send(server: LiveServer, topic: str, numbers: range) -> None:
    messages = [{"body": f"message {number}"} for number in numbers]
    answer = httpx.post(f"{server.url}/api/v1/topics/{topic}/messages", json={"messages": messages})
    assert answer.status_code == 201, answer.text


# -- sending ---------------------------------------------------------------------------------------


@pytest.mark.spark
def test_rows_become_messages(spark: "SparkSession", server: LiveServer) -> None:
    at = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    table = pa.table(
        {
            "topic": ["sent-a", "sent-b", "sent-a"],
            "body": ["one", "二", "three"],
            "tag": ["x", None, "y"],
            "keys": ["k1 k2", None, ""],
            "properties": pa.array(
                [[("origin", "JFK")], None, []], pa.map_(pa.string(), pa.string())
            ),
            "event_at": pa.array([at, None, None], pa.timestamp("us", tz="UTC")),
        }
    )
    register(spark)
    frame = spark.createDataFrame(table)
    frame.write.format("kitemq").option("server", server.url).mode("append").save()
    rows = rows_of(server, topic="sent-a")
    first, second = sorted(rows, key=lambda row: bytes(row["body"]))  # tasks send side by side
    assert (first["body"], first["tag"], first["keys"]) == (b"one", "x", "k1 k2")
    assert dict(first["properties"])["origin"] == "JFK"
    assert dict(first["properties"])["KITE_EVENT_MS"] == str(int(at.timestamp() * 1000))
    assert (second["body"], second["tag"]) == (b"three", "y")
    (other,) = rows_of(server, topic="sent-b")
    assert other["body"].decode() == "二"
    assert len({row["message_id"] for row in (first, second, other)}) == 3


@pytest.mark.spark
def test_a_stream_of_rows_is_sent_under_ids_that_a_repeat_repeats(
    spark: "SparkSession", server: LiveServer, tmp_path: Path
) -> None:
    register(spark)
    _send(server, "to-copy", range(10))
    checkpoint = tmp_path / "checkpoint"

    def run() -> None:
        frame = spark.readStream.format("kitemq").options(**options(server, topic="to-copy")).load()
        sending = frame.select("body").writeStream.format("kitemq")
        sending = sending.options(**options(server, topic="copied"))
        sending = sending.option("checkpointLocation", str(checkpoint))
        assert sending.trigger(availableNow=True).start().awaitTermination(100)

    run()
    for path in (checkpoint / "commits").iterdir():
        path.unlink()  # as if killed before it could say that the batch was done
    run()
    rows = rows_of(server, topic="copied")
    assert len(rows) == 20
    assert len({row["message_id"] for row in rows}) == 10
    assert len({row["body"] for row in rows}) == 10


def test_rows_that_are_no_messages_are_refused(server: LiveServer) -> None:
    from pyspark.sql.types import StructType

    body = StructType().add("body", "string")
    for schema, given, overwrite, message in (
        (StructType().add("text", "string"), {}, False, "no column `body`"),
        (body.add("offset", "long"), {}, False, "a message has no offset"),
        (StructType().add("body", "string"), {"topic": ""}, False, "no topic is named"),
        (StructType().add("body", "string"), {}, True, "cannot be overwritten"),
    ):
        with pytest.raises(Refused, match=message):
            BatchSink(parse(options(server, **given)), schema, overwrite)
