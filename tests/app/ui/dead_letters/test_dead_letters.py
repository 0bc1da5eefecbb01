"""Dead letters, resending and jobs as a browser without script gets them; exports as files."""

import asyncio
import csv
import io
import json
import re
import sqlite3
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import httpx
import pytest

from app.monitoring import dead_index
from app.monitoring.dead_index import DeadIndex, DeadLetterListing
from app.ui.dead_letters import exports as dead_exports
from app.ui.framework.xlsx import CELL_CHARS_MAX, Workbook
from kitemq.model.spreadsheet_cells import guarded
from tests.app.ui.conftest import Site
from tests.app.ui.dead_letters.dead_scene import await_job, dying_group, kill, one_queue
from tests.app.ui.scenery import SCRIPT_BODY, Scenery
from tests.live import LiveServer

HTML = {"accept": "text/html"}
RISKY_ERROR = '=cmd|"/c calc"!A1, with a comma\nand a "second" line'
SHEET = "{http://schemas.openxmlformats.org/spreadsheetml/2006/main}"
DECISIONS = ("begin", "pause", "resume", "stop")
RESEND = {"to": "group", "to_group": "", "to_topic": "", "rate": "0", "name": ""}


@pytest.fixture
def browser(site: Site) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=site.base, headers=HTML, timeout=30) as client:
        yield client


@pytest.fixture(scope="module")
def graveyard(site: Site) -> Iterator[Scenery]:
    """The group "museum": 30 exhausted, 10 rejected, one odd of each kind."""
    scenery = Scenery(site.base)
    one_queue(scenery, "exhibits")
    one_queue(scenery, "loans")
    dying_group(scenery, "museum")
    exhibits = [{"body": f"vase {n}", "tag": "vase", "keys": [f"v-{n}"]} for n in range(30)]
    kill(scenery, "museum", "exhibits", exhibits, client="guard-1")
    loans = [{"body": f"loan {n}"} for n in range(10)]
    kill(scenery, "museum", "loans", loans, is_rejected=True, error="KeyError: 'lender'")
    odd: list[dict[str, Any]] = [
        {"body": SCRIPT_BODY, "tag": "odd"},
        {"body": "gAAB", "encoding": "base64", "tag": "odd", "keys": ["=1+1"]},
    ]
    kill(scenery, "museum", "exhibits", odd, error=RISKY_ERROR)
    yield scenery
    scenery.close()


def twin(browser: httpx.Client, path: str) -> dict[str, object]:
    """The JSON twin of a page."""
    answer = browser.get(path + ("&" if "?" in path else "?") + "format=json")
    assert answer.status_code == 200, answer.text
    found: dict[str, object] = answer.json()
    return found


def test_the_overview_counts_each_group(browser: httpx.Client, graveyard: Scenery) -> None:
    page = twin(browser, "/dlq?q=museum")
    (row,) = page["cut"]["rows"]  # type: ignore[index]
    dead, tally = row["dead"], row["tally"]
    count = dead["open"] + dead["dismissed"]
    assert (dead["group"], count, tally["examined"]) == ("museum", 42, 42)
    assert row["causes"] == [
        [["error_class", "ValueError"], 30],
        [["error_class", "KeyError"], 10],
        [["error_class", ""], 2],
    ]
    assert row["tally"]["reasons"] == {"attempts_exhausted": 32, "rejected": 10}
    html = browser.get("/dlq?q=museum").text
    assert 'href="/dlq/museum"' in html
    assert "No group matches" in browser.get("/dlq?q=no-such-thing").text


def test_facets_count_all_and_links_narrow(browser: httpx.Client, graveyard: Scenery) -> None:
    page = twin(browser, "/dlq/museum")
    assert (page["total"], page["examined"]) == (42, 42)
    for facet in page["facets"]:  # type: ignore[attr-defined]
        assert sum(one["count"] for one in facet["values"]) == 42, facet["name"]
    assert "Counted over all 42." in browser.get("/dlq/museum").text
    narrowed = twin(browser, "/dlq/museum?reason=rejected&topic=loans")
    assert narrowed["cut"]["total"] == 10  # type: ignore[index]
    assert narrowed["cut"]["rows"][0]["offset"].isdecimal()  # type: ignore[index]


@pytest.mark.parametrize(
    ("query", "count"),
    [
        ("key=v-7", 1),
        ("key=no-such-key", 0),
        ("id=no-such-id", 0),
        ("client=guard-1", 30),
        ("tag=vase&reason=attempts_exhausted", 30),
        ("tag=(none)", 10),
        ("age=hour", 42),
        ("age=older", 0),
        ("from=2020-01-01T00:00&until=2020-01-02T00:00", 0),
        ("from=2020-01-01T00:00", 42),
    ],
)
def test_dead_letters_are_found_by_each_condition(
    browser: httpx.Client, graveyard: Scenery, query: str, count: int
) -> None:
    assert twin(browser, f"/dlq/museum?{query}")["cut"]["total"] == count  # type: ignore[index]
    assert browser.get(f"/dlq/museum?{query}").status_code == 200


def test_a_key_of_more_than_64_dead_letters_finds_them_all(
    browser: httpx.Client, site: Site
) -> None:
    scenery = Scenery(site.base)
    one_queue(scenery, "fragments")
    dying_group(scenery, "restorers")
    kill(scenery, "restorers", "fragments", [{"body": "shard", "keys": ["vase-7"]}] * 70)
    scenery.close()
    page = twin(browser, "/dlq/restorers?key=vase-7")
    assert page["cut"]["total"] == 70  # type: ignore[index]


def test_a_message_id_finds_its_dead_letter(browser: httpx.Client, graveyard: Scenery) -> None:
    letter = graveyard.get("/groups/museum/dead-letters/4")["message"]
    page = twin(browser, f"/dlq/museum?id={letter['message_id']}")
    assert [row["offset"] for row in page["cut"]["rows"]] == ["4"]  # type: ignore[index]


def test_pages_hold_each_dead_letter_once(browser: httpx.Client, graveyard: Scenery) -> None:
    seen: list[str] = []
    for number in (1, 2):
        page = twin(browser, f"/dlq/museum?size=25&page={number}")
        seen += [row["offset"] for row in page["cut"]["rows"]]  # type: ignore[index]
    assert seen == [str(offset) for offset in range(41, -1, -1)]


def test_a_condition_that_makes_no_sense_is_refused(
    browser: httpx.Client, graveyard: Scenery
) -> None:
    for path in ("/dlq/museum", "/dlq/museum/resend", "/dlq/museum/export"):
        answer = browser.get(f"{path}?from=yesterday")
        assert answer.status_code == 422
        assert "is not a time" in answer.text


def test_what_is_not_there_is_named(browser: httpx.Client, graveyard: Scenery) -> None:
    for path, word in (
        ("/dlq/nobody", "nobody"),
        ("/dlq/nobody/export?format=csv", "nobody"),
        ("/dlq/museum/999", "999"),
        ("/dlq/museum/first", "first"),
        ("/jobs/ffffffffffff", "ffffffffffff"),
    ):
        answer = browser.get(path)
        assert answer.status_code == 404, path
        assert word in answer.text


def test_one_dead_letter_tells_all_and_its_body_is_no_markup(
    browser: httpx.Client, graveyard: Scenery
) -> None:
    html = browser.get("/dlq/museum/40").text
    assert "moved to dead letters" in html
    assert "=cmd|" in html
    assert SCRIPT_BODY not in html
    assert "&lt;script&gt;" in html
    assert "delivered" in html
    assert browser.get("/dlq/museum/41/raw").content == b"\x80\x00\x01"
    assert "attachment" in browser.get("/dlq/museum/40/raw").headers["content-disposition"]


def test_the_form_for_another_message_is_filled_from_a_dead_letter(
    browser: httpx.Client, graveyard: Scenery
) -> None:
    html = browser.get("/topics/exhibits/produce?from=%25DLQ%25museum:0:3").text
    assert "This sends a new message" in html
    assert "vase 3" in html
    assert 'value="v-3"' in html
    assert "is not text" in browser.get("/topics/exhibits/produce?from=%25DLQ%25museum:0:41").text
    assert browser.get("/topics/exhibits/produce?from=nonsense").status_code == 422


def test_resend_ticked_without_a_tick_never_means_all(
    browser: httpx.Client, graveyard: Scenery
) -> None:
    for path in ("/dlq/museum/resend?scope=ticked", "/dlq/museum/export?scope=ticked"):
        assert browser.get(path).status_code == 422


def test_the_resend_form_says_what_is_wrong_at_its_fields(
    browser: httpx.Client, graveyard: Scenery
) -> None:
    wrong = {
        "to_group": RESEND | {"to_group": "no-such-group"},
        "to_topic": RESEND | {"to": "topic", "to_topic": ""},
        "rate": RESEND | {"to": "origin", "rate": "quick"},
    }
    for field, form in wrong.items():
        answer = browser.post("/dlq/museum/resend", data=form)
        assert answer.status_code == 422, field
        assert re.search(rf'name="{field}"[^>]*aria-invalid', answer.text), field


def test_a_dry_run_is_begun_paused_resumed_and_stopped_by_forms(
    browser: httpx.Client, graveyard: Scenery, site: Site
) -> None:
    before = browser.get("/dlq/museum/resend?reason=rejected").text
    assert "10 of 42 dead letters" in before
    form = RESEND | {"to_group": "museum", "rate": "0.05", "reason": "rejected"}
    made = browser.post("/dlq/museum/resend", data=form)
    assert made.status_code == 303
    path = made.headers["location"]
    page = browser.get(path).text
    assert "Dry run: 10 of 42 can be sent" in page
    assert "total matches" in page
    assert "Send 10" in page
    assert browser.post(f"{path}/pause", data={"x": ""}).status_code == 409
    assert "finished" in browser.post(f"{path}/pause", data={"x": ""}).text
    for action, word in (
        ("begin", "Running"),
        ("pause", "Paused"),
        ("resume", "Running"),
        ("stop", "Stopped"),
    ):
        answer = browser.post(f"{path}/{action}", data={"x": ""})
        assert answer.status_code == 303, answer.text
        page = browser.get(answer.headers["location"]).text
        assert word in page
        assert "total matches" in page
    assert "total does not match" not in page
    job = graveyard.get(f"/replays/{path.rpartition('/')[2]}")
    assert sum(job["totals"].values()) == 42
    with closing(sqlite3.connect(site.data / "kitemq.db")) as database:
        query = "select action from audit where object_name = ? and result = 'done'"
        done = {action for (action,) in database.execute(query, (job["id"],))}
        assert done == {f"replay.{one}" for one in DECISIONS}


def test_the_pace_of_a_job_is_changed_and_a_wrong_one_refused(
    browser: httpx.Client, graveyard: Scenery
) -> None:
    one_queue(graveyard, "pace-copies")
    form = RESEND | {"to": "topic", "to_topic": "pace-copies", "rate": "0.01", "state": "all"}
    path = browser.post("/dlq/museum/resend", data=form).headers["location"]
    browser.post(f"{path}/begin", data={"x": ""})
    wrong = browser.post(f"{path}/rate", data={"rate": "-1"})
    assert wrong.status_code == 422
    assert "must be a number" in wrong.text
    assert browser.post(f"{path}/rate", data={"rate": "0"}).status_code == 303
    job = await_job(graveyard, path.rpartition("/")[2])
    assert job["totals"] == {"sent": 42}
    assert browser.post(f"{path}/rate", data={"rate": "5"}).status_code == 409
    assert "Finished: 42 sent" in browser.get(path).text


def test_what_only_names_can_choose_is_chosen_by_name(
    browser: httpx.Client, graveyard: Scenery
) -> None:
    form = RESEND | {"to": "origin", "client": "guard-1", "key": "v-7", "state": "all"}
    path = browser.post("/dlq/museum/resend", data=form).headers["location"]
    assert "Dry run: 1 of 1 can be sent" in browser.get(path).text
    nothing = browser.post("/dlq/museum/resend", data=RESEND | {"to": "origin", "key": "none"})
    assert nothing.status_code == 422
    assert "No dead letter meets these conditions" in nothing.text


@pytest.mark.parametrize(
    ("cut", "count"),
    [
        ({"client": "guard-1"}, 30),
        ({"error_class": "KeyError"}, 10),
        ({"error": "ValueError: no such*", "attempts": "1"}, 30),
        ({"error": "=cmd|*"}, 2),
        ({"error_class": "(none)"}, 2),
    ],
)
def test_a_job_sends_exactly_the_cut_that_the_page_shows(
    browser: httpx.Client, graveyard: Scenery, cut: dict[str, str], count: int
) -> None:
    shown: Any = twin(browser, f"/dlq/museum?{httpx.QueryParams(cut | {'state': 'all'})}")
    assert shown["cut"]["total"] == count
    form = RESEND | {"to": "origin", "state": "all"} | cut
    path = browser.post("/dlq/museum/resend", data=form).headers["location"]
    assert f"Dry run: {count} of " in browser.get(path).text


def test_one_is_resent_at_once_and_its_page_says_by_which_job(
    browser: httpx.Client, graveyard: Scenery
) -> None:
    answer = browser.post("/dlq/museum/12/resend", data={"to": "group"})
    path = answer.headers["location"]
    assert "Finished: 1 sent" in browser.get(path).text
    assert path in browser.get("/dlq/museum/12").text
    assert "resent by job" in browser.get("/dlq/museum?key=v-12&state=resent").text
    letter = graveyard.get("/groups/museum/dead-letters/12")["message"]
    copy = browser.get(f"{path}/copies/{letter['message_id']}")
    assert copy.status_code == 302
    assert copy.headers["location"].startswith("/messages/%25RETRY%25museum/")
    assert browser.get(copy.headers["location"]).status_code == 200
    assert browser.get(f"{path}/copies/no-such-id").status_code == 404


def test_dead_letters_of_a_group_that_is_gone_are_kept_and_said_so(
    browser: httpx.Client, graveyard: Scenery
) -> None:
    one_queue(graveyard, "ashes")
    dying_group(graveyard, "phoenix")
    kill(graveyard, "phoenix", "ashes", [{"body": "feather"}])
    answer = browser.delete("/api/v1/groups/phoenix")
    assert answer.status_code < 300, answer.text
    assert "group is gone" in browser.get("/dlq?q=phoenix").text
    assert "group is gone" in browser.get("/dlq/phoenix").text
    page = browser.get("/dlq/phoenix/0").text
    assert "Resend to phoenix" not in page
    assert "Resend to topic ashes" in page
    assert browser.post("/dlq/phoenix/0/resend", data={"to": "group"}).status_code == 404


# -- exports ----------------------------------------------------------------------------------


def test_csv_keeps_what_was_said_and_runs_nothing(
    browser: httpx.Client, graveyard: Scenery
) -> None:
    answer = browser.get("/dlq/museum/export?format=csv&state=all")
    assert answer.headers["content-type"] == "text/csv; charset=utf-8"
    rows = list(csv.reader(io.StringIO(answer.text, newline="")))
    assert tuple(rows[0]) == dead_exports.COLUMNS
    assert len(rows) == 43
    assert not [cell for row in rows for cell in row if cell.startswith(("=", "+", "-", "@"))]
    odd = dict(zip(rows[0], rows[1], strict=True))
    assert odd["error"] == "'" + RISKY_ERROR
    assert odd["keys"] == "'=1+1"
    assert (odd["body_encoding"], odd["body"]) == ("base64", "gAAB")


def test_ndjson_has_a_line_for_each_that_matches(browser: httpx.Client, graveyard: Scenery) -> None:
    answer = browser.get("/dlq/museum/export?format=ndjson&state=all&reason=rejected")
    letters = [json.loads(line) for line in answer.text.splitlines()]
    assert len(letters) == 10
    assert {letter["error"] for letter in letters} == {"KeyError: 'lender'"}
    assert [letter["body"] for letter in letters] == [f"loan {n}" for n in range(9, -1, -1)]
    assert letters[0]["offset"] == "39"
    every = browser.get("/dlq/museum/export?format=ndjson&state=all").text.splitlines()
    assert len(every) == 42
    ticked = browser.get("/dlq/museum/export?format=ndjson&scope=ticked&offset=3&offset=7")
    assert [json.loads(line)["offset"] for line in ticked.text.splitlines()] == ["7", "3"]


def cells_of(content: bytes) -> list[list[str]]:
    """The texts of a workbook's rows."""
    with zipfile.ZipFile(io.BytesIO(content)) as book:
        assert book.testzip() is None
        for name in book.namelist():
            ElementTree.fromstring(book.read(name))
        assert "xl/workbook.xml" in book.namelist()
        sheet = ElementTree.fromstring(book.read("xl/worksheets/sheet1.xml"))
    return [
        ["".join(cell.itertext()) for cell in row.iter(f"{SHEET}c")]
        for row in sheet.iter(f"{SHEET}row")
    ]


def test_a_workbook_opens_and_has_a_row_for_each(browser: httpx.Client, graveyard: Scenery) -> None:
    answer = browser.get("/dlq/museum/export?format=xlsx&state=all")
    assert (answer.headers["x-result-rows"], answer.headers["x-result-truncated"]) == ("42", "no")
    rows = cells_of(answer.content)
    assert tuple(rows[0]) == (*dead_exports.COLUMNS, "cut")
    assert len(rows) == 43
    assert rows[1][dead_exports.COLUMNS.index("error")] == "'" + RISKY_ERROR


def test_a_workbook_that_is_cut_says_so(
    browser: httpx.Client, graveyard: Scenery, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dead_exports, "XLSX_ROWS_MAX", 7)
    answer = browser.get("/dlq/museum/export?format=xlsx&state=all")
    assert answer.headers["x-result-truncated"] == "rows over 7"
    rows = cells_of(answer.content)
    assert len(rows) == 9
    assert rows[-1][0].startswith("Cut here")


def test_texts_that_xml_cannot_hold_do_not_break_a_workbook() -> None:
    odd = "a\x00b\x0bc<&>\r\n_x0041_ \ud800 " + "x" * CELL_CHARS_MAX
    with tempfile.TemporaryFile() as file:
        with Workbook(file) as book:
            book.add([[odd, 7]])
        file.seek(0)
        ((text, number),) = cells_of(file.read())
    assert text.startswith("a\ufffdb\ufffdc<&>_x000D_\n_x005F_x0041_ \ufffd xxx")
    assert number == "7"


@pytest.mark.parametrize("cell", ["=1", "+1", "-1", "@x", "\tx", "\rx"])
def test_cells_that_would_run_are_made_texts(cell: str) -> None:
    assert guarded(cell) == "'" + cell
    assert guarded("a" + cell) == "a" + cell
    assert guarded(-1) == -1


def test_an_unknown_format_is_refused(browser: httpx.Client, graveyard: Scenery) -> None:
    assert browser.get("/dlq/museum/export?format=pdf").status_code == 422


# -- counting ---------------------------------------------------------------------------------


def test_counting_that_takes_long_goes_on_where_it_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with LiveServer(tmp_path / "data") as live:
        scenery = Scenery(live.url)
        one_queue(scenery, "slow")
        dying_group(scenery, "sloth")
        kill(scenery, "sloth", "slow", [{"body": str(n)} for n in range(20)])
        assert live.app is not None
        services = live.app.services
        index = DeadIndex(services.administration)

        def known(budget_s: float) -> DeadLetterListing:
            assert live.loop is not None
            asked = index.listing("sloth", budget_s)
            return asyncio.run_coroutine_threadsafe(asked, live.loop).result(30)

        none = known(-1)
        assert (none.examined, none.total, none.is_whole) == (0, 20, False)
        whole = known(10)
        assert (whole.examined, whole.is_whole, whole.unreadable) == (20, True, 0)
        assert [row.offset for row in whole.rows] == list(range(20))
        kill(scenery, "sloth", "slow", [{"body": "one more"}])
        assert [row.offset for row in known(10).rows] == list(range(21))
        monkeypatch.setattr(dead_index, "COUNTED_MAX", 8)
        fewer = known(10)
        assert (fewer.examined, fewer.total) == (8, 21)
        assert [row.offset for row in fewer.rows] == list(range(13, 21))
        scenery.close()
