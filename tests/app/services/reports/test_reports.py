"""Reports without Spark: when they run, what a run leaves behind, how figures are taken and read.

Where nothing was recorded a run ends after the roll, which is real here; Spark itself is in
`test_reports_spark.py`.
"""

import asyncio
import hashlib
import json
import os
import shutil
import sys
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from analytics.manifest import FrameManifest
from app import bounds
from app.db.database import Database
from app.db.report_rows import (
    Loaded,
    NotOurs,
    ResultFilter,
    RunFilter,
    RunRow,
)
from app.report_settings import complaint
from app.services.reports import contract, inputs, leftovers, schedule
from app.settings import Settings
from engine import report_hours
from engine.errors import Invalid
from engine.histogram import histogram
from engine.report_tables import RESULTS_BY_NAME, manifest, tables_of
from kitemq.model.reports import RunState
from kitemq.model.spreadsheet_cells import guarded
from tests.app.conftest import App, Starter
from tests.app.services.reports.report_program import program
from tests.patience import until

pytestmark = pytest.mark.anyio
both = pytest.mark.databases

HOUR, NEXT = "2026-11-21T03", "2026-11-21T04"


def a_run(**changes: Any) -> RunRow:
    known = {"job": "traces", "cause": "manual", "state": "running", "attempt": 1, "actor": "ann"}
    return RunRow(**{**known, "began_ms": 1, "owner": "host:/data#1", "lease_ms": 50} | changes)


def cell(hour: str, values: list[int], **changes: Any) -> dict[str, Any]:
    row: dict[str, Any] = dict.fromkeys(RESULTS_BY_NAME["latency"].names)
    row |= {"hour": hour, "metric": "end_to_end", "topic": "orders", "group": "g", "client": ""}
    row |= {"n": len(values), "messages": len(values), "total": sum(values), "skewed": 0}
    row |= {"least": min(values), "most": max(values), "p50": 0.0, "p95": 0.0, "p99": 0.0}
    return row | {"buckets": json.dumps(histogram(values))} | changes


async def load(app: App, rows: dict[str, list[dict[str, Any]]], hours: tuple[str, ...]) -> RunRow:
    """Have rows taken over as a run's figures."""
    database = app.app.services.database
    run = await database.run(lambda db: db.reports.begin(a_run()))
    assert run is not None
    run = RunRow(**{**vars(run), "hours": hours, "state": "ok", "ended_ms": 9, "input_at_ms": 7})
    tables = [(RESULTS_BY_NAME[name], rows[name]) for name in rows]
    loaded = Loaded(run, dict.fromkeys(hours, "f"), tables)
    await database.run(lambda db: db.results.replace(loaded))
    return run


async def over(app: App, run_id: str) -> dict[str, Any]:
    """The run once it is over."""
    until_s = time.monotonic() + 60
    while time.monotonic() < until_s:
        run: dict[str, Any] = await app.get(f"/reports/runs/{run_id}")
        if run["state"] != "running":
            return run
        await asyncio.sleep(0.05)
    raise AssertionError("the run did not end")


async def idle(app: App) -> None:
    reports = app.app.services.reports
    await asyncio.to_thread(until, lambda: not reports.job_under_way, "the run did not end", 60)


# -- what is agreed with the jobs ---------------------------------------------------------------


def a_manifest(at_ms: int, **frames: dict[str, int]) -> inputs.Inputs:
    known = {
        frame: {hour: inputs.Partition(rows=rows, last=rows * 10) for hour, rows in hours.items()}
        for frame, hours in frames.items()
    }
    return inputs.Inputs(at_ms, known)


def test_a_fingerprint_is_the_one_that_the_job_makes() -> None:
    found = a_manifest(0, messages={HOUR: 3, "2026-11-21T00": 1}, trace={"2026-11-21T02": 2})
    theirs = msgspec.json.decode(msgspec.json.encode(found), type=FrameManifest)
    known = found.fingerprints()
    assert known == {frame: theirs.fingerprints(frame) for frame in theirs.frames}
    assert known["messages"][HOUR] == "3-30"
    lines = f"messages {NEXT[:-2]}00 1-10\nmessages {HOUR} 3-30\ntrace {NEXT[:-2]}02 2-20\n"
    made = hashlib.sha256(lines.encode()).hexdigest()[:16]
    assert report_hours.fingerprint("traces", HOUR, known) == made


def due(
    job: str,
    found: inputs.Inputs,
    done: dict[str, str],
    coarse: tuple[tuple[str, int], ...] = (),
) -> inputs.Due:
    return inputs.due(job, found, done, 90, inputs.Periods(job, found, done, coarse))


def test_hours_that_are_kept_as_one_are_due_together_or_stay_as_they_are() -> None:
    at_ms = report_hours.begin_ms("2026-11-30T00")
    day = report_hours.span("2026-11-21T00", "2026-11-21T23")
    hours = dict.fromkeys(day[2:], 5)
    found = a_manifest(at_ms, lag=hours)
    done = {
        hour: report_hours.fingerprint("lag", hour, found.fingerprints())
        for hour in [*hours, "2026-11-22T00"]
    }
    coarse = ((day[0], 24),)
    assert due("lag", found, done, coarse).hours == ()
    more = a_manifest(at_ms, lag=hours | {day[9]: 6})  # a late record, weeks after
    assert due("lag", more, done, coarse).hours == tuple(day[2:])  # and 10, whose lookback it is
    assert due("lag", more, done).hours == (day[9], day[10])
    # Of an hour that is in the day's figures nothing is left to compute from.
    assert due("lag", more, done | {day[0]: "made of what is gone"}, coarse).hours == ()
    periods = inputs.Periods("lag", more, done | {day[0]: "gone"}, coarse)
    assert periods.whole([day[9], "2026-11-22T00"]) == ("2026-11-22T00",)


def test_an_hour_is_due_when_its_input_changed_and_the_newest_come_first() -> None:
    at_ms = report_hours.begin_ms(NEXT) + 1
    found = a_manifest(at_ms, lag={HOUR: 3, NEXT: 1})
    done = {
        hour: report_hours.fingerprint("lag", hour, found.fingerprints()) for hour in (HOUR, NEXT)
    }
    assert due("lag", found, {}).hours == (HOUR, NEXT)
    assert due("lag", found, done).hours == ()
    more = a_manifest(at_ms, lag={HOUR: 3, NEXT: 2})
    assert due("lag", more, done).hours == (NEXT,)
    many = a_manifest(at_ms, lag=dict.fromkeys(report_hours.span("2026-11-10T00", HOUR), 1))
    chosen = due("lag", many, {})
    assert len(chosen.hours) == inputs.HOURS_PER_RUN
    assert chosen.hours[-1] == HOUR
    assert chosen.left == len(report_hours.span("2026-11-10T00", HOUR)) - inputs.HOURS_PER_RUN


def test_an_hour_is_computed_where_all_is_there_that_it_reads() -> None:
    hours = report_hours.span("2026-11-21T00", "2026-11-21T06")
    known = dict.fromkeys(hours, 3)
    found = a_manifest(report_hours.begin_ms("2026-11-21T07"), messages=known, lag=known)
    found = msgspec.structs.replace(found, begin_ms=report_hours.begin_ms(hours[2]))
    assert due("traces", found, {}).hours == ("2026-11-21T05", "2026-11-21T06")
    assert due("lag", found, {}).hours == tuple(hours)
    assert inputs.chosen("traces", found, hours[4:6]) == (hours[5],)


def test_what_is_done_stays_when_its_input_is_about_to_go() -> None:
    at_ms = report_hours.begin_ms("2026-03-01T00")
    old = "2025-12-01T05"
    found = a_manifest(at_ms, lag={old: 3})
    assert due("lag", found, {old: "made before", report_hours.moved(old, 1): "too"}).hours == ()
    assert old in due("lag", found, {}).hours
    assert inputs.chosen("lag", found, [report_hours.moved(old, -1), old]) == (old,)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"columns": []}, "other columns"),
        ({"replaces": "all"}, "other columns"),
        ({"file": "../throughput.ndjson"}, "no file"),
        ({"rows": contract.ROWS_MAX + 1}, "more than"),
    ],
)
def test_a_result_that_is_not_as_agreed_is_not_taken(
    tmp_path: Path, changes: dict[str, Any], said: str
) -> None:
    tables = {}
    for table in tables_of("traces"):
        said_of = {"rows": 0, "file": f"{table.name}.ndjson", **manifest(table)}
        tables[table.name] = msgspec.convert(said_of, contract.TableDeclaration)
    good = contract.Result(1, "traces", "ok", tables=tables)
    assert len(contract.tables_of(good, tmp_path)) == len(tables)
    tables["throughput"] = msgspec.structs.replace(tables["throughput"], **changes)
    with pytest.raises(contract.BadResult, match=said):
        contract.tables_of(good, tmp_path)
    del tables["throughput"]
    with pytest.raises(contract.BadResult, match="no table throughput"):
        contract.tables_of(good, tmp_path)


@pytest.mark.parametrize("name", ["report_hourly_days", "report_daily_days", "report_keep_days"])
def test_figures_are_kept_the_longer_the_coarser(name: str) -> None:
    assert complaint(Settings()) == ""
    assert f"setting '{name}' is 0; expected" in complaint(Settings(**{name: 0}))


def test_a_report_cannot_use_fewer_than_no_processors() -> None:
    told = bounds.complaint(Settings(report_processors=-1))
    assert told == "setting 'report_processors' is -1; expected 0 or more"


async def test_a_cluster_is_told_that_its_workers_see_the_folder(
    start: Starter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = tmp_path / "said.json"
    script = f'case "$*" in *analytics.job*) cp "$5" {said}; exit 2;; esac'
    program(tmp_path, monkeypatch, f'{script}; exec {sys.executable} "$@"')
    root = tmp_path / "shared"
    given = {"report_root": f"file://{root}", "report_master": "spark://cluster:7077"}
    async with start(report_root_is_shared=True, **given) as app:
        await app.send("orders", "x")
        run = await over(app, (await app.post("/reports/runs", {"job": "traces"}, 201))["id"])
    assert run["state"] == "failed"
    request = json.loads(said.read_text())
    assert (request["root"], request["is_shared"]) == (str(root), True)
    assert (root / "manifest.json").exists()  # the server wrote there
    wrong = Settings(report_root="s3a://bucket/figures")
    assert "mount the store" in complaint(wrong)


# -- schedules ----------------------------------------------------------------------------------


@pytest.mark.parametrize("cron", ["", "* * * *", "61 * * * *", "* * * * * *", "0 0 31 2 *", "x"])
def test_a_schedule_that_cannot_be_names_its_field(cron: str) -> None:
    with pytest.raises(Invalid) as refused:
        schedule.next_ms(cron, 0)
    assert refused.value.field == "cron"


@both
async def test_a_schedule_runs_when_it_is_due_and_makes_up_for_missed_times_by_one_run(
    start: Starter,
) -> None:
    async with start(report_schedules=True) as app:
        reports = app.app.services.reports
        await reports.tick()
        assert reports.job_under_way == ""
        app.advance(4 * 3600)  # dozens of times are missed
        for _ in range(6):
            await reports.tick()
            await idle(app)
        runs = (await app.get("/reports/runs"))["items"]
        assert sorted((run["job"], run["cause"], run["state"]) for run in runs) == [
            ("lag", "schedule", "skipped"),
            ("traces", "schedule", "skipped"),
        ]
        assert not list((app.app.services.settings.data / "spark" / "reports").glob("*"))
        now_ms = app.clock.now_ms()
        schedules = (await app.get("/reports/schedules"))["items"]
        assert all(now_ms < each["next_ms"] <= now_ms + 600_000 for each in schedules)


async def test_of_servers_that_share_a_database_the_one_of_the_last_run_goes_first(
    start: Starter,
) -> None:
    async with start(report_schedules=True) as app:
        reports, database = app.app.services.reports, app.app.services.database
        await reports.tick()
        for job in ("lag", "traces"):
            run = await database.run(lambda db, job=job: db.reports.begin(a_run(job=job)))
            assert run is not None
            over = RunRow(**{**vars(run), "state": "ok", "ended_ms": 9})
            await database.run(lambda db, over=over: db.reports.finish(over))
        schedules = (await app.get("/reports/schedules"))["items"]
        due_ms = min(each["next_ms"] for each in schedules)
        app.advance((due_ms - app.clock.now_ms()) / 1000 + 19)
        await reports.tick()
        assert reports.job_under_way == ""
        app.advance(1)
        await reports.tick()
        assert reports.job_under_way != ""
        await idle(app)


@both
async def test_a_changed_schedule_counts_at_once_and_a_disabled_one_does_not_run(
    start: Starter,
) -> None:
    async with start(report_schedules=True) as app:
        changes = {"cron": "0  4 * * *", "limit_s": 60, "enabled": True}
        answer = await app.http.patch("/api/v1/reports/schedules/lag", json=changes)
        assert answer.status_code == 200
        assert (answer.json()["cron"], answer.json()["limit_s"]) == ("0 4 * * *", 60)
        await app.http.patch("/api/v1/reports/schedules/traces", json={"enabled": False})
        app.advance(2 * 24 * 3600)
        for _ in range(4):
            await app.app.services.reports.tick()
            await idle(app)
        runs = (await app.get("/reports/runs"))["items"]
        assert [run["job"] for run in runs] == ["lag"]
        wrong = await app.http.patch("/api/v1/reports/schedules/lag", json={"limit_s": 1})
        assert (wrong.status_code, wrong.json()["errors"][0]["field"]) == (422, "limit_s")
        trail = (await app.get("/audit?object_kind=report_schedule"))["items"]
        assert len(trail) == 2


async def test_what_may_pass_is_tried_twice_more_and_then_left_to_the_next_time(
    start: Starter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(tmp_path, monkeypatch, "echo 'no room left' >&2; exit 1")
    async with start(report_schedules=True) as app:
        reports = app.app.services.reports
        for job in ("traces", "lag"):
            changes = {"cron": "0 0 1 1 *", "enabled": job == "lag"}
            await app.http.patch(f"/api/v1/reports/schedules/{job}", json=changes)
        app.advance(400 * 24 * 3600)
        for seconds in (0, 10, 21, 60, 61, 3600):
            app.clock.advance(seconds)
            await reports.tick()
            await idle(app)
        runs = (await app.get("/reports/runs"))["items"]
        assert [(run["cause"], run["attempt"], run["state"]) for run in runs] == [
            ("retry", 3, "failed"),
            ("retry", 2, "failed"),
            ("schedule", 1, "failed"),
        ]
        assert "no room left" in runs[0]["error"]
        assert reports.figures["lag"].failures == 3
        rule = {"name": "reports", "kind": "report_failed", "threshold": 2, "for_s": 0}
        await app.post("/alerts/rules", rule, 201)
        await app.app.services.alerts.evaluate()
        firing = [each for each in (await app.get("/alerts"))["items"] if each["state"] == "firing"]
        assert [each["subjects"][0]["subject"] for each in firing] == ["lag"]


# -- runs ---------------------------------------------------------------------------------------


@both
def test_of_all_runs_one_is_under_way_and_a_lease_that_ran_out_is_taken_over(url: str) -> None:
    database = Database(url)
    try:
        reports = database.reports
        first = reports.begin(a_run())
        assert first is not None
        assert reports.begin(a_run(job="lag")) is None
        assert reports.renew(first.id, first.owner, 100)
        assert not reports.renew(first.id, "host:/data#2", 100)
        assert reports.take_over("other:/data#", 99) == []
        (lost,) = reports.take_over("other:/data#", 101)
        assert (lost.id, lost.state) == (first.id, RunState.LOST)
        assert not reports.renew(first.id, first.owner, 200)
        second = reports.begin(a_run())
        assert second is not None
        assert [run.id for run in reports.take_over("host:/data#", 0)] == [second.id]
        assert [run.state for run in reports.runs(RunFilter(), 9)] == ["lost", "lost"]
    finally:
        database.close()


@both
def test_figures_are_replaced_by_hours_all_or_nothing(url: str) -> None:
    database = Database(url)
    table = RESULTS_BY_NAME["throughput"]

    def row(hour: str, messages: Any) -> dict[str, Any]:
        known = {"hour": hour, "kind": "message", "topic": "t", "group": "", "counted": 1}
        return known | {"messages": messages, "bytes": None}

    def take(run: RunRow, *rows: dict[str, Any]) -> None:
        done = RunRow(**{**vars(run), "state": "ok", "ended_ms": 5, "hours": (NEXT,)})
        database.results.replace(Loaded(done, {NEXT: "f"}, [(table, rows)]))

    def begun() -> RunRow:
        run = database.reports.begin(a_run())
        assert run is not None
        return run

    try:
        run = begun()
        whole = RunRow(**{**vars(run), "state": "ok", "ended_ms": 4, "hours": (HOUR, NEXT)})
        rows = [row(HOUR, 1), row(NEXT, 2)]
        database.results.replace(Loaded(whole, {HOUR: "a", NEXT: "b"}, [(table, rows)]))
        take(begun(), row(NEXT, 3))
        kept = [(each["hour"], each["messages"]) for each in page(database)]
        assert kept == [(HOUR, 1), (NEXT, 3)]
        assert database.reports.done("traces") == {HOUR: "a", NEXT: "f"}
        broken = begun()
        with pytest.raises(Exception, match=r"(?i)unique|duplicate"):
            take(broken, row(NEXT, 4), row(NEXT, 5))
        assert [each["messages"] for each in page(database)] == [1, 3]
        database.reports.take_over("host", 99)
        with pytest.raises(NotOurs):
            take(broken, row(NEXT, 6))
        assert [each["messages"] for each in page(database)] == [1, 3]
        assert database.results.expire(NEXT) == 1
    finally:
        database.close()


def page(database: Database) -> list[dict[str, Any]]:
    return database.results.page("throughput", ResultFilter(), 10)


async def test_a_run_can_be_cancelled_and_leaves_nothing(
    running: App, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(tmp_path, monkeypatch, "exec sleep 300")
    begun = await running.post("/reports/runs", {"job": "traces"}, 201)
    refused = await running.post("/reports/runs", {"job": "lag"}, 409)
    assert refused["code"] == "report_running"
    assert (await running.get("/reports"))["running"]["id"] == begun["id"]
    ended = await running.post(f"/reports/runs/{begun['id']}/cancel", {})
    assert (ended["state"], ended["error_class"]) == ("cancelled", "Cancelled")
    again = await running.post(f"/reports/runs/{begun['id']}/cancel", {}, 409)
    assert again["code"] == "report_not_running"
    data = running.app.services.settings.data
    assert leftovers.marked(leftovers.mark_of(data)) == []
    assert list((data / "spark" / "reports").glob("*")) == []


async def test_a_run_begins_while_the_files_of_the_last_are_still_being_removed(
    running: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    remove = shutil.rmtree

    def slowly(*given: Any, **named: Any) -> None:
        time.sleep(1)
        remove(*given, **named)

    monkeypatch.setattr(shutil, "rmtree", slowly)
    first = await running.post("/reports/runs", {"job": "lag"}, 201)
    assert (await over(running, first["id"]))["state"] == "skipped"
    assert running.app.services.reports.job_under_way == "lag"  # its files are
    refused = await running.post(f"/reports/runs/{first['id']}/cancel", {}, 409)
    assert refused["code"] == "report_not_running"
    second = await running.post("/reports/runs", {"job": "lag"}, 201)
    assert (await over(running, second["id"]))["state"] == "skipped"


async def test_a_server_that_stops_takes_its_run_with_it_and_the_next_sweeps_what_is_left(
    start: Starter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(tmp_path, monkeypatch, "exec sleep 300")
    async with start() as app:
        begun = await app.post("/reports/runs", {"job": "traces"}, 201)
        data = app.app.services.settings.data
    mark = leftovers.mark_of(data)
    assert leftovers.marked(mark) == []
    orphan = await asyncio.create_subprocess_exec(
        "sleep", "300", env=os.environ | {leftovers.MARK: mark}
    )
    (data / "spark" / "reports" / "run-77").mkdir(parents=True)
    (data / "spark" / "runs" / "run-999999999-1-x").mkdir(parents=True)
    async with start() as app:
        assert await asyncio.wait_for(orphan.wait(), 30) == -9
        run = await app.get(f"/reports/runs/{begun['id']}")
        assert (run["state"], run["error"]) == ("cancelled", "the server stopped")
        until_s = time.monotonic() + 30
        while list((data / "spark").glob("*/run-*")) and time.monotonic() < until_s:
            await asyncio.sleep(0.05)
        assert list((data / "spark").glob("*/run-*")) == []


async def test_a_full_disk_fails_the_run_and_says_so(
    running: App, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await running.send("orders", *("x" * 50 for _ in range(20)))
    # No file may become larger than one block: Parquet cannot be written.
    program(tmp_path, monkeypatch, f'ulimit -f 1; trap "" XFSZ; exec {sys.executable} "$@"')
    run = await over(running, (await running.post("/reports/runs", {"job": "traces"}, 201))["id"])
    assert run["state"] == "failed", run
    monkeypatch.undo()
    assert (await running.get("/reports/tables/throughput"))["rows"] == []


async def test_without_spark_the_server_runs_and_says_what_to_install(
    running: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.services.reports.reports.find_spec", lambda name: None)
    assert "kitemq-server[analytics]" in (await running.get("/reports"))["remedy"]
    refused = await running.post("/reports/runs", {"job": "traces"}, 409)
    assert refused["code"] == "analytics_missing"
    answer = await running.http.get("/api/v1/reports/tables/latency/parquet")
    assert (answer.status_code, answer.json()["code"]) == (409, "analytics_missing")


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"job": "x"}, "job"),
        ({"job": "lag", "first": "2020-01-01T05"}, "last"),
        ({"job": "lag", "first": "2999-01-01T00", "last": "2999-01-01T00"}, "first"),
        ({"job": "lag", "first": "2020-01-01T05", "last": "2020-01-01T04"}, "last"),
        ({"job": "lag", "first": "2010-01-01T00", "last": "2020-01-01T00"}, "last"),
    ],
)
async def test_a_run_that_cannot_be_names_its_field(
    running: App, body: dict[str, str], field: str
) -> None:
    refused = await running.post("/reports/runs", body, 422)
    assert refused["errors"][0]["field"] == field


# -- figures ------------------------------------------------------------------------------------


@both
async def test_percentiles_of_several_hours_come_from_their_values_together(running: App) -> None:
    # The average of both 99th percentiles would be about 5,000.
    cells = [cell(HOUR, [10] * 990), cell(NEXT, [10_000] * 10)]
    await load(running, {"latency": cells}, (HOUR, NEXT))
    found = await running.get("/reports/latency?metric=end_to_end&within_ms=50&buckets=true")
    (one,) = found["items"]
    assert (one["n"], one["least"], one["most"]) == (1000, 10, 10_000)
    assert one["p99"] == pytest.approx(10, rel=0.025)
    assert one["within"] == pytest.approx(0.99)
    assert sum(one["buckets"].values()) == 1000
    assert found["basis"]["hours_done"] == 2
    by_hour = (await running.get("/reports/latency?by=hour,topic"))["items"]
    assert [each["by"] for each in by_hour] == [
        {"hour": HOUR, "topic": "orders"},
        {"hour": NEXT, "topic": "orders"},
    ]
    assert by_hour[1]["p50"] == pytest.approx(10_000, rel=0.025)
    only = await running.get(f"/reports/latency?first={NEXT}&last={NEXT}")
    assert [each["n"] for each in only["items"]] == [10]


@both
async def test_rows_come_in_pages_and_sums_by_day(running: App) -> None:
    known = {"kind": "dead", "topic": "orders", "group": "g", "reasons": 1}
    rows = [
        {**known, "hour": hour, "rank": rank, "reason": f"r{rank}", "messages": rank, "counted": 1}
        for hour in (HOUR, NEXT)
        for rank in (1, 2)
    ]
    await load(running, {"failures": rows}, (HOUR, NEXT))
    first = await running.get("/reports/tables/failures?limit=3")
    rest = await running.get(f"/reports/tables/failures?limit=3&cursor={first['next_cursor']}")
    assert first["rows"] + rest["rows"] == rows
    assert rest["next_cursor"] is None
    made_up = json.dumps(["later", "dead", "orders", "g", 1]).encode().hex()
    refused = await running.get(f"/reports/tables/failures?cursor={made_up}", 422)
    assert refused["errors"][0]["field"] == "cursor"
    sums = await running.get("/reports/tables/failures/totals?by=day,reason&kind=dead")
    day = {"day": HOUR[:10]}
    assert sums["rows"] == [
        {**day, "reason": "r1", "messages": 2, "counted": 2},
        {**day, "reason": "r2", "messages": 4, "counted": 2},
    ]
    for query, field in (
        ("by=rows", "by"),
        ("queue=x", "queue"),
        ("first=yesterday", "first"),
        ("metric=end_to_end", "metric"),
    ):
        refused = await running.get(f"/reports/tables/failures/totals?{query}", 422)
        assert refused["errors"][0]["field"] == field


async def test_a_file_has_every_row_and_no_formula(running: App) -> None:
    known = {"topic": "orders", "kind": "key", "values": 1, "bytes": 9, "hour": HOUR}
    rows = [{**known, "rank": n, "value": f"=k{n}", "messages": n} for n in range(1, 4)]
    await load(running, {"hot_keys": rows}, (HOUR,))
    answer = await running.http.get("/api/v1/reports/tables/hot_keys/csv")
    lines = answer.text.split("\r\n")
    assert lines[0] == ",".join([*RESULTS_BY_NAME["hot_keys"].names, "hours"])
    assert lines[1] == f"{HOUR},orders,key,1,'=k1,1,1,9,1"
    assert len(lines) == 5
    parquet = await running.http.get("/api/v1/reports/tables/hot_keys/parquet")
    assert (parquet.status_code, parquet.content[:4]) == (200, b"PAR1")
    import pyarrow as pa
    import pyarrow.parquet as pq

    assert pq.read_table(pa.BufferReader(parquet.content)).to_pylist() == [
        {**{name: row[name] for name in RESULTS_BY_NAME["hot_keys"].names}, "hours": 1}
        for row in rows
    ]
    assert [guarded(each) for each in (None, -5, "-5", "@x", "a")] == [None, -5, "'-5", "'@x", "a"]
