"""Two ranges of figures compared: the same by REST, by the SDK and on the command line."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from app.db.report_rows import ResultFilter
from app.services.reports import comparison
from app.ui.reports.rows import hour_ms, hour_name
from engine.errors import Invalid
from kitemq import Client
from kitemq.cli import main
from tests.app.ui.reports import report_scene
from tests.live import LiveServer

HOUR_MS, DAY = report_scene.HOUR_MS, 24
FIRST, LAST = "2026-11-20T00", "2026-11-20T05"


@pytest.mark.parametrize(
    ("against", "first", "last"),
    [
        ("before", "2026-11-19T18", "2026-11-19T23"),
        ("week", "2026-11-13T00", "2026-11-13T05"),
        ("2026-10-01T07", "2026-10-01T07", "2026-10-01T12"),
    ],
)
def test_a_range_is_compared_with_one_as_long(against: str, first: str, last: str) -> None:
    criteria = ResultFilter(first=FIRST, last=LAST, equal=(("topic", "orders"),))
    other = comparison.earlier(criteria, ("group",), against)
    assert other == ResultFilter(first=first, last=last, equal=criteria.equal)


@pytest.mark.parametrize(
    ("first", "last", "by", "against", "field"),
    [
        ("", LAST, "topic", "before", "first"),
        (FIRST, "", "topic", "week", "last"),
        (LAST, FIRST, "topic", "before", "last"),
        (FIRST, LAST, "topic", "yesterday", "against"),
        (FIRST, LAST, "day", "before", "by"),
        ("soon", LAST, "topic", "before", "first"),
        (FIRST, "2026-11-20T05:00", "topic", "before", "last"),
        (FIRST, LAST, "topic", "9999-12-31T23", "against"),
        ("1000-01-01T00", "9999-12-31T23", "topic", "before", "against"),
    ],
)
def test_what_cannot_be_compared_is_refused_at_its_field(
    first: str, last: str, by: str, against: str, field: str
) -> None:
    with pytest.raises(Invalid) as refused:
        comparison.earlier(ResultFilter(first=first, last=last), (by,), against)
    assert refused.value.field == field


NOW_MS = hour_ms("2026-11-21T06")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    """Two days of figures, of which an hour of the older one is missing."""
    data: Path = tmp_path_factory.mktemp("comparison") / "data"
    running = LiveServer(data)
    running.start()
    get(running, "schedules")  # which makes the tables
    report_scene.build(data / "kitemq.db", NOW_MS, hours=2 * DAY)
    yield running
    running.stop()


@pytest.fixture(scope="module")
def days() -> dict[str, str]:
    """The newer day, as criteria of figures."""
    return {"first": hour_name(NOW_MS - (DAY - 1) * HOUR_MS), "last": hour_name(NOW_MS)}


def get(server: LiveServer, path: str, status: int = 200, **query: Any) -> Any:
    answer = httpx.get(f"{server.url}/api/v1/reports/{path}", params=query, timeout=60)
    assert answer.status_code == status, answer.text
    return answer.json()


def test_sums_say_what_they_were_before_and_whether_that_was_better(
    server: LiveServer, days: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    query = {"by": "reason", "kind": "dead", "against": "before"}
    compared = get(server, "tables/failures/totals", **query, **days)
    plain = get(server, "tables/failures/totals", by="reason", kind="dead", **days)
    assert plain["basis_before"] is None
    # One hour of the day before has no figures, so its counts are fewer for that reason.
    assert compared["basis"]["hours_done"] == DAY
    assert compared["basis_before"]["hours_done"] == DAY - 1
    for row, alone in zip(compared["rows"], plain["rows"], strict=True):
        assert {name: row[name] for name in alone} == alone
        ratio = row["messages"] / row["before"]["messages"] - 1
        assert row["change"]["messages"] == {"ratio": pytest.approx(ratio), "verdict": ""}
    few = {"first": days["last"], "last": days["last"]}
    hour = get(server, "tables/failures/totals", **query, **few)
    first = hour["rows"][0]
    assert first["change"]["messages"]["verdict"] in ("", "better", "worse")
    with Client(server.url) as client:
        found = client.reports.totals("failures", ["reason"], against="before", kind="dead", **few)
    assert found.rows == hour["rows"]
    words = ["--server", server.url, "report", "totals", "failures", "--by", "kind,reason"]
    words += ["--first", few["first"], "--last", few["last"], "--against", "before"]
    assert main(words) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    dead = [{**line} for line in lines if line.pop("kind") == "dead"]
    assert [line["change"] for line in dead] == [row["change"] for row in hour["rows"]]


def test_latencies_are_compared_by_their_percentiles(
    server: LiveServer, days: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    query = {"metric": "end_to_end", "by": "topic,group", "against": "before"}
    answer = get(server, "latency", **query, **days)
    earlier = comparison.earlier(ResultFilter(**days), (), "before")
    alone = get(
        server, "latency", metric="end_to_end", by="topic,group", first=earlier.first,
        last=earlier.last,
    )  # fmt: skip
    for now, before in zip(answer["items"], alone["items"], strict=True):
        assert now["before"] == {name: before[name] for name in now["before"]}
        for name in comparison.LATENCY_FIGURES:
            ratio = now[name] / before[name] - 1
            verdict = "" if abs(ratio) < comparison.NOTABLE else "worse" if ratio > 0 else "better"
            assert now["change"][name] == {"ratio": pytest.approx(ratio), "verdict": verdict}
        assert now["change"]["n"]["verdict"] == ""
    with Client(server.url) as client:
        found = client.reports.latency(
            by=["topic", "group"], against="before", metric="end_to_end", **days
        )
    assert [item.before for item in found.items] == [item["before"] for item in answer["items"]]
    words = ["--server", server.url, "report", "latency", "--by", "topic,group", "--table"]
    words += ["--first", days["first"], "--last", days["last"], "--against", "before"]
    assert main(words) == 0
    printed = capsys.readouterr()
    assert "P95 CHANGE" in printed.out
    assert f"compared with {earlier.first} to {earlier.last} (23 hours of figures)" in printed.err


def test_a_comparison_without_ends_or_by_time_is_refused(server: LiveServer) -> None:
    problem = get(server, "latency", 422, against="before")
    assert problem["errors"][0]["field"] == "first"
    problem = get(server, "latency", 422, first=FIRST, last=LAST, by="hour", against="before")
    assert problem["errors"][0]["field"] == "by"
