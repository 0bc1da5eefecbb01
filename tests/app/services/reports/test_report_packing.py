"""Older figures, packed and put together: nothing is lost, counted twice, or half done."""

import json
import random
import zlib
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import msgspec
import pytest
from sqlalchemy import create_engine, text

from app.db import report_pack, report_packing
from app.db.database import Database
from app.db.migrate import migrate
from app.db.report_evaluated import STRETCHES_MAX, merge_rows
from app.db.report_merge import WORST_FIRST, derived_columns
from app.db.report_pack import pack_rows, unpack_rows
from app.db.report_periods import DAY, HOUR, WEEKS, begin_of, name_of, number_of
from app.db.report_rows import (
    Loaded,
    NotWhole,
    ResultFilter,
    Row,
    RunRow,
)
from app.services.reports.inputs import Inputs, Partition, Periods
from app.services.reports.keeping import Keeping
from bench.report_size import LIMIT_BYTES, measured, period_rows
from engine.histogram import BUCKET_MAX, histogram, merge, pack, unpack
from engine.report_tables import HOURS, RESULTS, RESULTS_BY_NAME
from kitemq.model.reports import Coarse
from tests.app.conftest import App
from tests.app.db.test_database import REVISIONS
from tests.app.services.reports.test_reports import a_run

pytestmark = pytest.mark.anyio
both = pytest.mark.databases

TABLES = [table.name for table in RESULTS if table.replaces == HOURS]
BEGIN = begin_of(number_of("2026-11-02T00"), WEEKS)
BEFORE = "20261122_topic_marks"  # the revision before packing
DERIVED = {name: derived_columns(RESULTS_BY_NAME[name]) for name in TABLES}
SUMS = [name for name in TABLES if RESULTS_BY_NAME[name].sums]
ALL = ResultFilter()


@pytest.fixture
def database(url: str) -> Iterator[Database]:
    with closing(Database(url)) as found:
        yield found


def write(database: Database, hours: list[int], job: str = "traces") -> None:
    """Take over the figures of some hours, one topic's and a second, smaller one's."""
    run = database.reports.begin(a_run(job=job))
    assert run is not None
    names = tuple(map(name_of, hours))
    run = RunRow(**{**vars(run), "hours": names, "state": "ok", "ended_ms": 5})
    found: dict[str, list[Row]] = {}
    for hour in hours:
        for name, rows in period_rows(hour, HOUR).items():
            if RESULTS_BY_NAME[name].job == job:
                few = [row for row in rows if row.get("group", "") <= "consumers-of-02"]
                other = [{**row, "topic": "b"} for row in few if row.get("rank", 1) <= 1]
                found.setdefault(name, []).extend([*few, *other])
    tables = [(RESULTS_BY_NAME[name], rows) for name, rows in found.items()]
    database.results.replace(Loaded(run, dict.fromkeys(names, "f"), tables))


def rows_of(database: Database, name: str, size: int = 5_000) -> list[Row]:
    """All rows, page by page."""
    found: list[Row] = []
    while True:
        after = tuple(found[-1][key] for key in RESULTS_BY_NAME[name].key) if found else ()
        page = database.results.page(name, ALL, size, after)
        found += page
        if len(page) < size:
            return found


def compact(database: Database, hours: int, before: int) -> int:
    done = 0
    for name in TABLES:
        while database.results.compact(name, hours, name_of(before)):
            done += 1
    return done


def told(rows: list[Row], table: str) -> list[str]:
    """Rows without their order, and without what only follows from the rest of them."""
    left_out = DERIVED[table]
    return sorted(
        repr(sorted(each for each in row.items() if each[0] not in left_out)) for row in rows
    )


@both
def test_a_packed_hour_says_what_it_said_before(database: Database) -> None:
    for job in ("traces", "lag"):
        write(database, [BEGIN, BEGIN + 1, BEGIN + 2], job)
    before = {name: rows_of(database, name) for name in TABLES}
    assert compact(database, HOUR, BEGIN + 2) == 2 * len([n for n in TABLES if before[n]])
    for name, rows in before.items():
        old = name_of(BEGIN + 1)
        left = [row for row in rows if name != "slowest" or row["rank"] <= 3 or row["hour"] > old]
        assert told(rows_of(database, name), name) == told(left, name)
        # A packed hour among rows, a page at a time, is in order and whole.
        assert told(rows_of(database, name, 7), name) == told(rows_of(database, name), name)
        keys = [row["hour"] for row in rows_of(database, name, 7)]
        assert keys == sorted(keys)


@both
@pytest.mark.parametrize("period", [HOUR, DAY])
def test_what_was_unknown_stays_so_however_it_is_kept(database: Database, period: int) -> None:
    """As of a cluster, which does not tell how many of the acknowledgements were traced."""
    unknown = dict.fromkeys(("expired", "returned", "dead", "dead_rate", "success_rate"))
    hours = range(BEGIN, BEGIN + DAY)
    run = database.reports.begin(a_run())
    assert run is not None
    run = RunRow(**{**vars(run), "hours": tuple(map(name_of, hours)), "state": "ok", "ended_ms": 5})
    rows = [row | unknown for hour in hours for row in period_rows(hour, HOUR)["outcomes"]]
    tables = [(RESULTS_BY_NAME["outcomes"], rows)]
    database.results.replace(Loaded(run, dict.fromkeys(run.hours, "f"), tables))
    while database.results.compact("outcomes", period, name_of(BEGIN + DAY)):
        pass
    kept = rows_of(database, "outcomes")
    assert sum(row["acked"] for row in kept) == sum(row["acked"] for row in rows)
    assert {tuple(row[name] for name in unknown) for row in kept} == {(None,) * len(unknown)}
    assert {row["retry_rate"] for row in kept} != {None}


@both
def test_a_day_is_exactly_its_hours_together(database: Database) -> None:
    hours = [BEGIN + n for n in (0, 1, 5, 23, 24)]
    for job in ("traces", "lag"):
        write(database, hours, job)
    sums = {name: database.results.totals(name, ["topic"], ALL, 99) for name in SUMS}
    cells: dict[tuple[str, ...], list[bytes]] = {}
    key = ("metric", "topic", "group", "client")
    for row in rows_of(database, "latency"):
        if row["hour"] < name_of(BEGIN + DAY):
            cells.setdefault(tuple(row[name] for name in key), []).append(row["buckets"])
    compact(database, HOUR, BEGIN + 2)  # some hours are packed already, others are rows
    compact(database, DAY, BEGIN + 30)
    assert database.results.coarse("traces") == [Coarse(DAY, name_of(BEGIN + DAY))]
    for name in SUMS:
        assert database.results.totals(name, ["topic"], ALL, 99) == sums[name], name
    days = [row for row in rows_of(database, "latency") if row.get("hours") == DAY]
    assert {tuple(row[name] for name in key) for row in days} == cells.keys()
    for row in days:
        merge_rows = merge(map(unpack, cells[tuple(row[name] for name in key)]))
        assert unpack(row["buckets"]) == merge_rows
        assert row["n"] == sum(merge_rows.values())
    slowest = [row for row in rows_of(database, "slowest") if row.get("hours") == DAY]
    assert {row["rank"] for row in slowest if row["topic"] != "b"} == {1, 2, 3}
    assert database.results.values("latency", "group", ALL, 9) == [
        "", "consumers-of-00", "consumers-of-01", "consumers-of-02",
    ]  # fmt: skip
    (lag,) = [
        row
        for row in rows_of(database, "lag_hours")
        if (row.get("hours"), row["topic"], row["group"]) == (DAY, "b", "consumers-of-01")
    ]
    assert lag["evaluations"] == 4 * 12
    assert json.loads(lag["state_ms"])["OK"] == 4 * 28_000_000
    assert sum(end - begin for begin, end in json.loads(lag["evaluated"])) == 4 * 3_600_000
    compact(database, WEEKS, BEGIN + WEEKS)
    for name in SUMS:
        assert database.results.totals(name, ["topic"], ALL, 99) == sums[name], name
    clients = {row["client"] for row in rows_of(database, "latency")}
    assert clients == {"", "*"}
    assert database.results.expire(name_of(BEGIN + WEEKS)) >= len(SUMS)
    assert rows_of(database, "latency") == []


@both
def test_an_hour_of_a_day_that_is_one_is_computed_anew_with_all_of_it_or_not_at_all(
    database: Database,
) -> None:
    hours = [BEGIN, BEGIN + 3, BEGIN + 4]
    write(database, hours)
    as_hours = {name: told(rows_of(database, name), name) for name in TABLES}
    compact(database, DAY, BEGIN + DAY)
    as_day = {name: told(rows_of(database, name), name) for name in TABLES}
    with pytest.raises(NotWhole, match="compute all hours"):
        write(database, hours[:2])
    assert {name: told(rows_of(database, name), name) for name in TABLES} == as_day
    database.reports.take_over("host", 99)  # the run that was refused
    write(database, hours)
    assert {name: told(rows_of(database, name), name) for name in TABLES} == as_hours
    assert database.results.coarse("traces") == []
    compact(database, DAY, BEGIN + DAY)
    assert {name: told(rows_of(database, name), name) for name in TABLES} == as_day
    compact(database, HOUR, BEGIN + DAY)  # a day is not taken apart
    assert {name: told(rows_of(database, name), name) for name in TABLES} == as_day


@both
def test_where_one_table_has_four_weeks_already_all_hours_of_these_are_computed(
    database: Database,
) -> None:
    hours = [BEGIN, BEGIN + 3, BEGIN + 30]
    write(database, hours)
    compact(database, DAY, BEGIN + WEEKS)
    assert database.results.compact("latency", WEEKS, name_of(BEGIN + WEEKS))
    coarse = database.results.coarse_periods("traces")
    assert coarse == [(name_of(BEGIN), DAY), (name_of(BEGIN + 24), DAY), (name_of(BEGIN), WEEKS)]
    known = tuple(map(name_of, hours))
    there = {hour: Partition(rows=1) for hour in known}
    periods = Periods("traces", Inputs(0, {"trace": there}), dict.fromkeys(known, "f"), coarse)
    for hour in known:
        assert periods.whole([hour]) == known
    write(database, hours)
    assert database.results.coarse("traces") == []


@both
async def test_what_would_be_too_large_to_unpack_stays_in_rows(
    running: App, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    database = running.app.services.database
    await database.run(lambda db: write(db, [BEGIN]))
    before = await database.run(lambda db: rows_of(db, "hot_keys"))
    monkeypatch.setattr(report_pack, "BYTES_MAX", 2_000)
    keeping = Keeping(database, running.app.services.settings)
    assert await keeping.look((BEGIN + 9) * 3_600_000) > 0  # the other tables
    assert "hot_keys would be larger than 2,000 bytes" in caplog.text
    assert await database.run(lambda db: rows_of(db, "hot_keys")) == before
    assert await database.run(lambda db: db.results.packed_count("hot_keys", ALL)) == 0


@both
async def test_who_reads_pages_is_told_where_hours_were_put_together_meanwhile(
    running: App,
) -> None:
    database = running.app.services.database
    await database.run(lambda db: write(db, [BEGIN, BEGIN + 1, BEGIN + 30]))
    ask = "/reports/tables/throughput?limit="
    rows = (await running.get(f"{ask}999"))["rows"]
    size = [row["hour"] for row in rows].index(name_of(BEGIN + 1)) + 2  # two rows into that hour
    cursor = (await running.get(f"{ask}{size}"))["next_cursor"]
    await database.run(lambda db: compact(db, HOUR, BEGIN + 2))  # each hour keeps its place
    assert (await running.get(f"{ask}999&cursor={cursor}"))["rows"] == rows[size:]
    await database.run(lambda db: compact(db, DAY, BEGIN + DAY))
    problem = await running.get(f"{ask}999&cursor={cursor}", 503)
    assert "put together" in problem["detail"]
    (begin,) = {row["hour"] for row in (await running.get(f"{ask}9"))["rows"]}
    assert begin == name_of(BEGIN)


@both
def test_what_going_back_to_a_release_without_packing_drops_is_computed_again(url: str) -> None:
    with closing(Database(url)) as database:
        for job in ("traces", "lag"):
            write(database, [BEGIN, BEGIN + 1, BEGIN + 2], job)
        while database.results.compact("latency", HOUR, name_of(BEGIN + 2)):
            pass
    engine = create_engine(url)
    try:
        migrate(engine, f"-{len(REVISIONS) - 1 - REVISIONS.index(BEFORE)}")
        with engine.begin() as connection:
            statement = "SELECT job, hour FROM report_partitions ORDER BY job, hour"
            left = [tuple(row) for row in connection.execute(text(statement))]
    finally:
        engine.dispose()
    kept = [("lag", name_of(BEGIN + n)) for n in range(3)]  # nothing of it was packed
    assert left == [*kept, ("traces", name_of(BEGIN + 2))]


@both
def test_putting_together_that_ends_half_way_leaves_everything_as_it_was(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(database, [BEGIN, BEGIN + 1])
    before = told(rows_of(database, "latency"), "latency")
    packs = iter([pack_rows])

    def ends(*given: Any) -> bytes:
        return next(packs)(*given)  # the second topic finds nothing left

    monkeypatch.setattr(report_packing, "pack_rows", ends)
    with pytest.raises(StopIteration):
        database.results.compact("latency", DAY, name_of(BEGIN + DAY))
    monkeypatch.undo()
    assert told(rows_of(database, "latency"), "latency") == before
    assert database.results.compact("latency", DAY, name_of(BEGIN + DAY))
    assert not database.results.compact("latency", DAY, name_of(BEGIN + DAY))


@both
async def test_the_answers_of_a_range_do_not_depend_on_how_its_hours_are_kept(
    running: App,
) -> None:
    database = running.app.services.database
    hours = [BEGIN + n for n in (0, 5, 24, 48)]
    await database.run(lambda db: write(db, hours))
    ask = "/reports/latency?metric=wait&by=topic,group&buckets=true"
    before = (await running.get(ask))["items"]
    settings = running.app.services.settings
    keeping = Keeping(database, settings)
    now_ms = (BEGIN + 49 + settings.report_hourly_days * DAY) * 3_600_000
    assert await keeping.look(now_ms) > 0
    assert await keeping.look(now_ms) == 0
    found = await running.get(ask)
    assert found["items"] == before
    assert found["basis"]["coarse"] == [{"hours": DAY, "before": name_of(BEGIN + 48)}]
    assert found["basis"]["hours_done"] == len(hours)
    rows = (await running.get("/reports/tables/latency?metric=broker&topic=b"))["rows"]
    assert [(row["hour"], row.get("hours", 1)) for row in rows] == [
        (name_of(BEGIN), DAY),
        (name_of(BEGIN + 24), DAY),
        (name_of(BEGIN + 48), HOUR),
    ]
    assert sum(rows[0]["buckets"].values()) == rows[0]["n"]
    only = f"first={name_of(BEGIN + 1)}&last={name_of(BEGIN + 30)}"
    days = (await running.get(f"/reports/tables/throughput?{only}"))["rows"]
    assert {row["hour"] for row in days} == {name_of(BEGIN + 24)}  # named by their first hour
    csv = await running.http.get("/api/v1/reports/tables/outcomes/csv?topic=b")
    lines = csv.text.split("\r\n")
    assert lines[0].endswith(",hours")
    assert {line.rpartition(",")[2] for line in lines[1:-1]} == {"24", "1"}


@both
def test_the_histograms_of_a_database_of_before_are_packed_and_unpacked_again(url: str) -> None:
    engine = create_engine(url)
    kept = histogram([random.Random(n).randrange(90_000) for n in range(500)])
    columns = '(hour, metric, topic, "group", client, n, buckets)'
    try:
        migrate(engine, BEFORE)
        with engine.begin() as connection:
            for n in range(3):
                values = {"hour": name_of(BEGIN + n), "text": json.dumps(kept)}
                statement = f"INSERT INTO report_latency {columns} VALUES "  # noqa: S608
                statement += "(:hour, 'wait', 't', 'g', '', 500, :text)"
                connection.execute(text(statement), values)
        migrate(engine, "head")
        with closing(Database(url)) as database:
            rows = database.results.page("latency", ALL, 9)
            assert [unpack(row["buckets"]) for row in rows] == [kept] * 3
        migrate(engine, f"-{len(REVISIONS) - 1 - REVISIONS.index(BEFORE)}")
        with engine.begin() as connection:
            found = connection.execute(text("SELECT buckets FROM report_latency")).scalars().all()
        assert [{int(b): n for b, n in json.loads(each).items()} for each in found] == [kept] * 3
    finally:
        engine.dispose()


def test_a_histogram_is_packed_and_unpacked_and_nothing_else_is() -> None:
    chance = random.Random(4)
    for _ in range(300):
        amount = chance.randrange(60)
        made = {chance.randrange(600): chance.randrange(10**9) for _ in range(amount)}
        assert unpack(pack(made)) == made
    for wrong in (b"\x01", b"\x00\x05\x02", b"\xff" * 12, pack({BUCKET_MAX + 1: 1}), b"\0\1\1"):
        with pytest.raises(ValueError, match="packed histogram"):
            unpack(wrong)
    with pytest.raises(ValueError, match="negative"):
        pack({3: -1})


def test_a_block_that_is_damaged_is_told_and_not_taken() -> None:
    table = RESULTS_BY_NAME["throughput"]
    rows = period_rows(BEGIN, HOUR)["throughput"]
    data = pack_rows(table, rows, BEGIN)
    assert unpack_rows(table, data, BEGIN, HOUR, "warehouse.orders") == rows
    for wrong in (data[:-9], b"x" + data, pack_rows(RESULTS_BY_NAME["outcomes"], [], BEGIN)):
        with pytest.raises(ValueError, match="block of"):
            unpack_rows(table, wrong, BEGIN, HOUR, "t")


def test_a_block_from_before_what_was_evaluated_was_kept_can_still_be_read() -> None:
    table = RESULTS_BY_NAME["lag_hours"]
    rows = period_rows(BEGIN, HOUR)["lag_hours"]
    form, columns = msgspec.msgpack.decode(zlib.decompress(pack_rows(table, rows, BEGIN)))
    older = zlib.compress(msgspec.msgpack.encode([form, columns[:-1]]))
    found = unpack_rows(table, older, BEGIN, HOUR, "warehouse.orders")
    assert found == [row | {"evaluated": ""} for row in rows]


def test_stretches_are_put_together_and_the_shortest_left_out_beyond_their_number() -> None:
    one = {"evaluated": "[[0, 10], [20, 30]]"}
    assert merge_rows([one, {"evaluated": "[[30, 40], [5, 12]]"}]) == "[[0, 12], [20, 40]]"
    many = [[n * 10, n * 10 + (1 if n % 2 else 5)] for n in range(2 * STRETCHES_MAX)]
    kept = json.loads(merge_rows([{"evaluated": json.dumps(many)}]))
    assert kept == [pair for pair in many if pair[1] - pair[0] == 5]


def test_the_order_of_states_is_that_of_the_lag_report() -> None:
    rules = pytest.importorskip("analytics.jobs.lag_rules")
    assert rules.WORST_FIRST == WORST_FIRST


@both
def test_ten_years_of_a_hundred_topics_with_twenty_groups_stay_under_a_gigabyte(url: str) -> None:
    needs = measured(url)
    assert len(needs) == 5
    assert all(need.pair_bytes > 0 for need in needs)
    assert sum(need.bytes for need in needs) < LIMIT_BYTES, needs
