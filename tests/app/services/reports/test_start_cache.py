"""Spark's start-up cache is made once a report was computed, and never in a report's way."""

import asyncio
import logging
from pathlib import Path

import pytest

from app.services.reports.leftovers import mark_of, marked
from app.services.reports.start_cache import StartCache
from app.settings import Settings
from tests.app.conftest import Starter
from tests.app.services.reports.report_program import program
from tests.patience import until

pytestmark = pytest.mark.anyio


def a_cache(tmp_path: Path, master: str = "local[2]") -> StartCache:
    (tmp_path / "data" / "spark" / "runs").mkdir(parents=True)
    return StartCache(Settings(data=tmp_path / "data", report_master=master))


def lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


async def begun(path: Path, count: int = 1) -> None:
    """Wait until a program has written so many lines."""
    await asyncio.to_thread(until, lambda: len(lines(path)) >= count, "it was not started")


async def ended(cache: StartCache) -> None:
    await asyncio.to_thread(until, lambda: cache._task is None, "it did not end")


async def test_it_is_made_once_and_only_when_a_report_was_computed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = tmp_path / "said"
    program(tmp_path, monkeypatch, f'echo "$@" >> {said}')
    cache = a_cache(tmp_path)
    cache.begin()
    assert cache._task is None
    cache.take()
    for _ in range(3):
        cache.begin()
        await ended(cache)
    (words,) = lines(said)
    assert "analytics.warm_up" in words
    assert f"--folder {tmp_path}/data/spark --if-missing" in words
    assert [each.name for each in (tmp_path / "data" / "spark").iterdir()] == ["runs"]


async def test_where_java_runs_elsewhere_there_is_nothing_to_make(tmp_path: Path) -> None:
    cache = a_cache(tmp_path, "sc://spark:15002")
    cache.take()
    cache.begin()
    assert cache._task is None


async def test_a_failure_is_told_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    program(tmp_path, monkeypatch, "echo 'the start-up cache was not made: no room' >&2; exit 1")
    cache = a_cache(tmp_path)
    cache.take()
    with caplog.at_level(logging.WARNING, "kitemq.reports"):
        for _ in range(2):
            cache.begin()
            await ended(cache)
    assert [each.getMessage() for each in caplog.records] == [
        "the start-up cache was not made: no room"
    ]


async def test_what_is_dropped_leaves_nothing_and_is_begun_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said, runs = tmp_path / "said", tmp_path / "data" / "spark" / "runs"
    half = f"mkdir -p {runs}/run-$$-0-x; touch {runs}/run-$$-0-x/half.jsa; echo >> {said}"
    program(tmp_path, monkeypatch, f"{half}; setsid sleep 300 & exec sleep 300")
    cache, mark = a_cache(tmp_path), mark_of(tmp_path / "data")
    await cache.drop()  # nothing is under way
    cache.take()
    for count in (1, 2):
        cache.begin()
        await begun(said, count)
        assert marked(mark)
        await cache.drop()
        assert marked(mark) == []
        assert list(runs.iterdir()) == []


async def test_a_report_that_begins_ends_it_and_it_is_made_when_nothing_is_due(
    start: Starter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = tmp_path / "said"
    program(tmp_path, monkeypatch, f'echo "$@" >> {said}; exec sleep 300')
    async with start(report_schedules=True) as app:
        data = app.app.services.settings.data
        await asyncio.to_thread((data / "spark" / "runs").mkdir, parents=True)
        reports = app.app.services.reports
        await reports.tick()
        assert lines(said) == []
        reports._start_cache.take()
        await reports.tick()
        await begun(said)
        await app.post("/reports/runs", {"job": "traces"}, 201)
        await begun(said, 2)
        assert [line.split()[2] for line in lines(said)] == [
            "analytics.warm_up",
            "analytics.roll",
        ]
        assert len(marked(mark_of(data))) == 1
        await reports.tick()
        assert reports._start_cache._task is None
    assert marked(mark_of(data)) == []


async def test_a_report_that_begins_while_the_schedules_are_looked_at_goes_first(
    start: Starter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(tmp_path, monkeypatch, "exec sleep 300")
    async with start(report_schedules=True) as app:
        reports = app.app.services.reports
        reports._start_cache.take()
        schedules = reports.schedules

        async def slowly(*, keeps: bool = False) -> object:
            monkeypatch.setattr(reports, "schedules", schedules)
            found = await schedules(keeps=keeps)
            await app.post("/reports/runs", {"job": "traces"}, 201)
            return found

        await reports.tick()  # the database is ready
        await reports._start_cache.drop()
        monkeypatch.setattr(reports, "schedules", slowly)
        await reports.tick()
        assert reports.job_under_way == "traces"
        assert reports._start_cache._task is None
