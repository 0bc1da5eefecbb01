"""The steps of the traces job by themselves: who gets which row, and what is put together."""

import random
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from analytics import job
from analytics.errors import Refused, StoreUnreadable
from analytics.jobs import engines, outputs
from analytics.jobs.definitions import HOUR_MS, Params
from analytics.jobs.engines import PlainEngine, SparkEngine
from analytics.jobs.pieces import FilePart
from analytics.jobs.traces import blobs, build, gather, message_ids, tables
from analytics.jobs.traces.attempts import attempted, events_of
from analytics.jobs.traces.blobs import TextCodes
from analytics.jobs.traces.finish import Finish
from analytics.jobs.traces.gather import Gather
from analytics.jobs.traces.scatter import STRETCH, Scatter, whole_stretches
from analytics.manifest import FrameManifest, hour_name
from analytics.partitions import Partitions
from analytics.schemas import MESSAGES, TRACE, arrow_schema
from engine.report_tables import TRACES_JOB

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HOUR = 480_000
HOURS = [hour_name(HOUR)]
SEED = 7
Rows = list[dict[str, Any]]


def event(number: int, **more: Any) -> dict[str, Any]:
    """A delivery, unless told otherwise."""
    row: dict[str, Any] = dict.fromkeys(arrow_schema(TRACE).names, None)
    row |= {"log_position": number, "row_number": 0, "at_ms": HOUR * HOUR_MS + number}
    row |= {"kind": "delivered", "group": "g", "topic": "t", "queue": 0, "client": "c"}
    row |= {"attempt": 1, "message_count": 1, "wait_ms": 0, "detail": "", "message_id": ""}
    return row | {"first_offset": number, "born_ms": 1, "stored_ms": 1, "sample": 10_000} | more


def record(number: int, **more: Any) -> dict[str, Any]:
    """A plain message, unless told otherwise."""
    row: dict[str, Any] = {
        field.name: "" if field.type == pa.string() else None for field in arrow_schema(MESSAGES)
    }
    row |= {"log_position": number, "topic": "t", "origin_topic": "t", "queue": 0}
    row |= {"offset": number, "role": "message", "stored_ms": HOUR * HOUR_MS + number}
    return row | {"born_ms": 1, "size_bytes": 10, "is_transaction": False} | more


def store(root: Path, messages: Rows, trace: Rows) -> FrameManifest:
    """A file of each, as the roll writes it."""
    manifest = FrameManifest()
    partitions = Partitions(root, manifest, 0)
    for name, rows in ((MESSAGES, messages), (TRACE, trace)):
        if rows:
            partitions.add(name, pa.Table.from_pylist(rows, schema=arrow_schema(name)))
    partitions.commit()
    return manifest


def written(root: Path, messages: Rows, trace: Rows) -> list[FilePart]:
    """The same as pieces, a file each."""
    manifest = store(root, messages, trace)
    paths = [path for name in (MESSAGES, TRACE) for path in manifest.paths(name)]
    return [FilePart(str(root / path), 0, 1, None) for path in paths]


def made(given: list[FilePart], tasks: int, **more: Any) -> dict[str, Rows]:
    """The tables of the hour by so many tasks, without Spark."""
    params = Params(hours=(HOUR,), at_ms=(HOUR + 1) * HOUR_MS, **more)
    scatter = Scatter({HOUR: (0, tasks)})
    sent = [row for piece in given for row in scatter.run(piece)]
    counted = [
        row
        for task in range(tasks)
        for row in Gather({HOUR: 0}, params).run(
            [each for each in sent if each["task"][0].as_py() == task]
        )
    ]
    found = blobs.tables(Finish(params).run(counted))
    return {name: table.to_pylist() for name, table in found[HOUR].items()}


def test_a_run_of_neighbours_is_cut_where_a_stretch_ends() -> None:
    runs = [(0, 3), (STRETCH - 1, 1), (STRETCH - 1, 2), (STRETCH - 5, 2 * STRETCH + 9)]
    rows = [event(at, first_offset=a, message_count=n) for at, (a, n) in enumerate(runs)]
    rows.append(event(9, first_offset=None, message_count=7))
    cut = whole_stretches(pa.Table.from_pylist(rows, schema=arrow_schema(TRACE))).to_pylist()
    assert [(row["first_offset"], row["message_count"]) for row in cut] == [
        (0, 3),
        (STRETCH - 1, 1),
        (STRETCH - 1, 1),
        (STRETCH, 1),
        (STRETCH - 5, 5),
        (STRETCH, STRETCH),
        (2 * STRETCH, STRETCH),
        (3 * STRETCH, 4),
        (None, 7),
    ]
    assert [row["at_ms"] for row in cut[4:8]] == [rows[3]["at_ms"]] * 4


def test_each_task_has_whatever_belongs_to_its_places(tmp_path: Path) -> None:
    chance = random.Random(SEED)
    places = [(f"t{chance.randrange(5)}", chance.randrange(3), chance.randrange(2**40))
              for _ in range(60)]  # fmt: skip
    trace = [
        event(at, topic=topic, queue=queue, first_offset=offset, kind=kind)
        for at, (topic, queue, offset) in enumerate(places * 2)
        for kind in ("delivered", "acked")
    ]
    held = [
        record(at, topic=topic, queue=queue, offset=offset)
        for at, (topic, queue, offset) in enumerate(places)
    ]
    scatter = Scatter({HOUR: (10, 4)})
    where: dict[tuple[Any, ...], set[int]] = {}
    for each in (sent for piece in written(tmp_path, held, trace) for sent in scatter.run(piece)):
        (row,) = each.to_pylist()
        for one in blobs.unpack(row["blob"]).to_pylist():
            offset = one["first_offset"] if row["name"] == "events" else one["offset"]
            where.setdefault((one["topic"], one["queue"], offset), set()).add(row["task"])
    assert set(where) == set(places)
    assert all(len(tasks) == 1 for tasks in where.values())
    assert set.union(*where.values()) == {10, 11, 12, 13}


def test_a_long_run_gives_the_same_by_one_task_and_by_many(tmp_path: Path) -> None:
    count = 2 * STRETCH
    trace = [
        event(0, first_offset=100, message_count=count),
        event(900, kind="acked", first_offset=100, message_count=count, client="", attempt=None),
    ]
    given = written(tmp_path, [], trace)
    whole, split = made(given, 1), made(given, 5)
    assert whole == split
    assert [(row["acked"], row["attempts"]) for row in whole["outcomes"]] == [(count, count)]
    assert {row["metric"]: row["n"] for row in whole["latency"]} == {
        "end_to_end": count,
        "wait": count,
        "process": count,
    }


def test_many_messages_of_few_rows_are_looked_at_in_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    count = STRETCH + 5000
    trace = [
        event(10 * at + queue, queue=queue, first_offset=3, message_count=count, kind=kind)
        for at, kind in enumerate(("delivered", "acked"))
        for queue in range(4)
    ]
    events = events_of(pa.Table.from_pylist(trace, arrow_schema(TRACE)), TextCodes())
    given = written(tmp_path, [], trace)
    whole = made(given, 1)
    monkeypatch.setattr(gather, "PART_MESSAGES", STRETCH)
    assert len(list(gather._parts(events))) == 9
    pulled = [event(0, kind="pulled", message_count=2**31), *trace[:1]]
    names = TextCodes()
    events = events_of(pa.Table.from_pylist(pulled, arrow_schema(TRACE)), names)
    assert len(list(gather._parts(attempted(events, names)))) == 2
    assert made(given, 2) == whole
    assert whole["slowest"][0]["rank"] == 1


def test_of_many_equal_keys_the_first_by_name_have_rows(tmp_path: Path) -> None:
    keys = [f"k{number:03d}" for number in range(50)]
    random.Random(SEED).shuffle(keys)
    records = [record(at, keys=key) for at, key in enumerate(keys)]
    records += [record(100, keys="k049 k049 k007"), record(101, role="retry", keys="k001")]
    rows = made(written(tmp_path, records, []), 3, values_max=4)["hot_keys"]
    assert [(row["rank"], row["value"], row["values"], row["messages"]) for row in rows] == [
        (1, "k007", 1, 2),
        (2, "k049", 1, 2),
        (3, "k000", 1, 1),
        (4, "k001", 1, 1),
        (0, "", 46, 46),
    ]


def test_of_equally_many_reasons_the_first_by_name_have_rows(tmp_path: Path) -> None:
    told = [("failed", "b"), ("failed", "c"), ("failed", "c"), ("failed", "a"), ("dead", "z")]
    trace = [event(at, kind=kind, detail=text) for at, (kind, text) in enumerate(told)]
    trace += [event(9, kind="acked", detail="no reason")]
    trace += [event(10 + at, kind="failed", detail="d", sample=2500) for at in range(2)]
    given = written(tmp_path, [], trace)
    names = ("kind", "rank", "reason", "reasons", "messages", "counted")
    rows = made(given, 3, reasons_max=3)["failures"]
    assert sorted(
        (tuple(row[n] for n in names) for row in rows), key=lambda row: (row[0], row[1] or 9)
    ) == [
        ("dead", 1, "z", 1, 1, 1),
        ("failed", 1, "d", 1, 8, 2),
        ("failed", 2, "c", 1, 2, 2),
        ("failed", 3, "a", 1, 1, 1),
        ("failed", 0, "", 1, 1, 1),
    ]
    rows = made(given, 3, reasons_max=0)["failures"]
    assert sorted(tuple(row[n] for n in names) for row in rows) == [
        ("dead", 0, "", 1, 1, 1),
        ("failed", 0, "", 4, 12, 6),
    ]


def test_what_a_row_does_not_tell_is_not_made_up(tmp_path: Path) -> None:
    trace = [event(0, sample=0, attempt=None)]
    trace += [event(1, sample=None, attempt=None, kind="acked", first_offset=0)]
    tables = made(written(tmp_path, [record(0), record(1, role="later")], trace), 2)
    assert {row["kind"]: row["messages"] for row in tables["throughput"]} == {
        "message": 1,
        "delivered": 1,
        "acked": 1,
    }
    assert [row["attempt"] for row in tables["slowest"]] == [None]


def test_the_order_in_which_blobs_come_changes_nothing(tmp_path: Path) -> None:
    parts = [pa.table({"n": [n]}) for n in range(6)]
    rows = [blobs.row(0, HOUR, "a", n // 3, part) for n, part in enumerate(parts)]
    found = {
        str(blobs.tables(random.Random(seed).sample(rows, 6))[HOUR]["a"]["n"].to_pylist())
        for seed in range(9)
    }
    assert len(found) == 1


def test_what_is_sent_does_not_grow_with_the_tasks(tmp_path: Path) -> None:
    records = [
        record(at, offset=at * STRETCH, keys=f"order-{at * 7919}", message_group=f"g{at * 104729}")
        for at in range(20_000)
    ]
    (piece,) = written(tmp_path, records, [])

    def sent_bytes(tasks: int) -> int:
        sent = Scatter({HOUR: (0, tasks)}).run(piece)
        return sum(len(each["blob"][0].as_py()) for each in sent)

    assert sent_bytes(8) < 1.5 * sent_bytes(1)


@pytest.mark.parametrize("fault", ["missing", "cut", "zeros", "of another form"])
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, fault: str) -> None:
    (piece,) = written(tmp_path, [], [event(at) for at in range(50)])
    path = Path(piece.path)
    whole = path.read_bytes()
    if fault == "missing":
        path.unlink()
    elif fault == "of another form":
        pq.write_table(pa.table({"log_position": [1]}), path)
    else:
        path.write_bytes(whole[:-9] if fault == "cut" else bytes(1000) + whole[1000:])
    with pytest.raises(StoreUnreadable, match=f"^{re.escape(piece.path)} cannot be read .*bring"):
        made([piece], 1)


def test_rows_of_other_kinds_and_of_hours_nobody_asked_for_are_left_out(tmp_path: Path) -> None:
    later = (HOUR + 1) * HOUR_MS
    trace = [event(0, kind="recalled"), event(1, kind="acked", at_ms=later), event(2)]
    tables = made(written(tmp_path, [record(0, stored_ms=later)], trace), 2)
    assert [(row["kind"], row["messages"]) for row in tables["throughput"]] == [("delivered", 1)]


def test_one_number_stands_for_each_different_row_however_large_the_numbers() -> None:
    chance = np.random.default_rng(SEED)
    wide = chance.choice(np.array([-1, 0, 2**62, 2**61, -(2**62), 17]), 400)
    few, other = chance.integers(0, 5, 400), chance.integers(-3, 3, 400)
    left, right = blobs.keys((few, other, wide), (few[:9], other[:9], wide[:9]))
    rows = list(zip(few.tolist(), other.tolist(), wide.tolist(), strict=True))
    by_key: dict[int, set[Any]] = {}
    for key, row in zip(left.tolist(), rows, strict=True):
        by_key.setdefault(key, set()).add(row)
    assert all(len(found) == 1 for found in by_key.values())
    assert len(by_key) == len(set(rows))
    assert right.tolist() == left[:9].tolist()


def test_of_equal_keys_the_last_by_order_matches() -> None:
    wanted, known = np.array([5, 6, 7, 5]), np.array([7, 5, 5])
    assert blobs.matches(wanted, known, np.array([1, 9, 8])).tolist() == [1, -1, 0, 1]
    assert blobs.matches(wanted, known[:0], known[:0]).tolist() == [-1] * 4


@pytest.mark.spark
@pytest.mark.timeout(300)
def test_files_of_an_object_store_are_read_by_spark(
    spark: "SparkSession", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    manifest = store(tmp_path, [record(at) for at in range(9)], [event(at) for at in range(20)])
    wanted = [(name, list(manifest.partitions(name))) for name in (MESSAGES, TRACE)]

    def read(root: str) -> list[FilePart]:
        found = SparkEngine(spark).pieces(root, manifest, wanted)
        if found.named:
            return [piece for task in found.named for piece in task]
        return [FilePart(**row.asDict()) for row in found.rows.collect()]

    by_path = read(f"file://{tmp_path}")
    # The only kind of URL that Spark reads here without a jar is one of this machine.
    monkeypatch.setattr(engines, "is_local_path", lambda root: False)
    whole = read(f"file://{tmp_path}")
    assert [each.content is None for each in by_path] == [True, True]
    assert [each.content is None for each in whole] == [False, False]
    assert made(whole, 2) == made(by_path, 2) != {}


@pytest.mark.spark
@pytest.mark.timeout(300)
def test_a_run_says_which_file_its_workers_cannot_read(
    spark: "SparkSession", tmp_path: Path
) -> None:
    manifest = store(tmp_path, [], [event(0)])
    (path,) = manifest.paths(TRACE)
    (tmp_path / path).write_bytes(b"PAR1, but nothing else")
    read = SparkEngine(spark).pieces(str(tmp_path), manifest, [(TRACE, HOURS)])
    with pytest.raises(StoreUnreadable) as raised, job._readable():
        build.build(read, {}, Params(hours=(HOUR,))).collect()
    assert str(raised.value).startswith(f"{tmp_path / path} cannot be read (")
    assert "\n" not in str(raised.value)
    assert job.exit_code(raised.value) == job.EXIT_REFUSED


def test_of_records_at_one_place_the_last_one_is_named(tmp_path: Path) -> None:
    now = HOUR * HOUR_MS
    records = [
        record(0, offset=5, stored_ms=now + 1, message_id="z-before"),
        record(1, offset=5, stored_ms=now + 2, message_id="a-after"),
        record(2, offset=6, stored_ms=now - 3 * HOUR_MS, message_id="old"),
        record(3, offset=7, stored_ms=now - 3 * HOUR_MS - 1, message_id="too old"),
        record(4, offset=8, stored_ms=now + HOUR_MS, message_id="later"),
    ]
    manifest = store(tmp_path, records, [])
    wanted = [(MESSAGES, list(manifest.partitions(MESSAGES)))]
    slowest: Rows = [
        {"hour": HOURS[0], "stored_topic": "t", "queue": 0, "offset": offset}
        for offset in range(5, 10)
    ]
    message_ids.fill_in(slowest, PlainEngine().pieces(str(tmp_path), manifest, wanted))
    assert [row["message_id"] for row in slowest] == ["a-after", "old", "", "", ""]


def test_more_rows_than_a_run_may_have_are_refused_before_they_are_taken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(outputs, "ROWS_MAX", 5)
    three = pa.table({"topic": ["a", "b", "c"]})
    rows = [blobs.row(0, HOUR + at, "hot_keys", 0, three) for at in range(2)]
    assert len(tables.collect(pa.Table.from_batches(rows[:1]), TRACES_JOB)[0]) == 8
    with pytest.raises(Refused, match=r"^hot_keys would have more than 5 rows: run fewer"):
        tables.collect(pa.Table.from_batches(rows), TRACES_JOB)


def test_a_piece_is_its_share_of_a_files_rows(tmp_path: Path) -> None:
    manifest = FrameManifest()
    partitions = Partitions(tmp_path, manifest, 0)
    for begin in range(0, 50, 10):  # a row group each
        rows = [event(begin + at) for at in range(10)]
        partitions.add(TRACE, pa.Table.from_pylist(rows, schema=arrow_schema(TRACE)))
    partitions.commit()
    (path,) = manifest.paths(TRACE)
    parts = [FilePart(str(tmp_path / path), part, 3, None) for part in range(3)]
    read = [each.read(("log_position",))["log_position"].to_pylist() for each in parts]
    assert [len(each) for each in read] == [10, 20, 20]
    assert [one for each in read for one in each] == list(range(50))
