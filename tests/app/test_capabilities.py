"""An engine that lacks a capability refuses what needs it, and says what to do instead."""

import ast
import re
from collections.abc import Iterator
from html import unescape
from pathlib import Path

import msgspec
import pytest

import app
from app.api.catalog import OPERATIONS
from app.capabilities import EMBEDDED, LACKS
from app.ui.routes import CAPABILITIES
from kitemq.model.server import Capabilities
from tests.app.conftest import App

pytestmark = pytest.mark.anyio

ASKED = re.compile(r"(\.capabilities|^capabilities|^has)$")
ASKING = re.compile(r"(^|\.)(require|require_capability|lack_of)$")
ABSENT = re.compile(r"frame\.absent\(\"(\w+)\"\)")
# They change what a verb does, or are unknown figures; nothing is refused or absent.
COUNTED = {"uncounted_releases", "inflight_figures"}
HTML = {"accept": "text/html"}
SILENT = {
    ("journeys", "/"), ("dead_letter_replays", "/dlq/g"), ("dismissals", "/dlq/g"),
}  # fmt: skip


def without(app: App, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    lacking = msgspec.structs.replace(EMBEDDED, **{name: False})
    monkeypatch.setattr(app.app.services.messaging, "capabilities", lacking)


def test_each_lack_has_a_refusal() -> None:
    assert list(LACKS) == list(Capabilities.__struct_fields__)
    assert all(lack.detail and lack.remedy for lack in LACKS.values())


def names_asked() -> Iterator[str]:
    """The capabilities that endpoints, pages and services ask for."""
    yield from (operation.capability for operation in OPERATIONS if operation.capability)
    yield from CAPABILITIES.values()
    folders = [Path(app.__path__[0]) / name for name in ("api", "cluster", "services", "ui", "ws")]
    for path in (path for folder in folders for path in folder.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Attribute) and ASKED.search(ast.unparse(node.value)):
                yield node.attr
            elif isinstance(node, ast.Call) and ASKING.search(ast.unparse(node.func)):
                yield from (each.value for each in node.args[1:2] if isinstance(each, ast.Constant))
    for path in (path for folder in folders for path in folder.rglob("*.html")):
        yield from ABSENT.findall(path.read_text())


def test_each_capability_is_asked_for_by_an_endpoint_or_a_page() -> None:
    names = set(names_asked()) - {"require"} | COUNTED
    assert sorted(names ^ set(Capabilities.__struct_fields__)) == []


async def test_the_server_says_what_its_engine_can_do(running: App) -> None:
    answer = (await running.http.get("/api/v1/system")).json()
    assert answer["capabilities"] == dict.fromkeys(LACKS, True) | {"brokers": False}


@pytest.mark.parametrize(
    ("name", "method", "path", "body", "field"),
    [
        ("timer_changes", "POST", "/scheduled/A1/deliver", None, "message_id"),
        ("timer_recalls", "POST", "/scheduled/A1/recall", None, "message_id"),
        ("scheduled_list", "GET", "/scheduled", None, "scheduled_list"),
        ("trace_reports", "POST", "/reports/runs", {"job": "traces"}, "job"),
        ("trace_reports", "PATCH", "/reports/schedules/traces", {"limit_s": 60}, "job"),
        ("delay_reports", "GET", "/reports/latency?metric=lateness_timer", None, "metric"),
        ("transaction_reports", "GET", "/reports/tables/transactions", None, "table"),
        ("transaction_queries", "GET", "/transactions/A1", None, "id"),
        ("transaction_queries", "GET", "/transactions", None, "transaction_queries"),
        ("dead_letter_replays", "POST", "/replays", {"source": "%DLQ%g", "to": "group"}, "source"),
        *(
            (name, method, path, body, name)
            for name, method, path, body in (
                ("brokers", "GET", "/brokers", None),
                ("member_queues", "GET", "/groups/g/members/queues", None),
                ("dismissals", "GET", "/groups/g/dead-letters/dismissals", None),
                ("reset_history", "GET", "/groups/g/resets", None),
                ("purges", "POST", "/topics/t/purge", {"everything": True}),
                ("offset_resets", "POST", "/groups/g/resets/preview", {"topics": ["t"]}),
                ("request_replies", "POST", "/topics/t/request", {"message": {"body": "x"}}),
                ("request_replies", "GET", "/requests", None),
                ("content_search", "GET", "/topics/t/search", None),
                ("journeys", "GET", "/messages/A1/journey", None),
                ("traffic_figures", "GET", "/statistics", None),
                ("lag_history", "GET", "/groups/g/lag/history", None),
                ("log_figures", "GET", "/retention", None),
                ("message_acks", "POST", "/groups/g/receive", {"topic": "t"}),
                ("reports", "POST", "/reports/runs", {"job": "lag"}),
            )
        ),
    ],
)
async def test_what_the_engine_cannot_do_is_refused_with_field_and_remedy(
    running: App,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    method: str,
    path: str,
    body: dict[str, object] | None,
    field: str,
) -> None:
    without(running, name, monkeypatch)
    answer = await running.http.request(method, f"/api/v1{path}", json=body)
    problem = answer.json()
    assert (answer.status_code, problem["code"]) == (409, "not_supported")
    assert problem["detail"] == f"the engine behind this server {LACKS[name].detail}"
    [error] = problem["errors"]
    assert (error["field"], error["remedy"]) == (field, LACKS[name].remedy)


async def test_the_embedded_engine_refuses_none_of_them(running: App) -> None:
    for path in ("/scheduled", "/transactions"):
        assert (await running.http.get(f"/api/v1{path}")).status_code == 200


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("brokers", "/brokers"),
        ("dead_letter_replays", "/jobs"),
        ("dead_letter_replays", "/create/job"),
        ("dismissals", "/dlq/g/dismiss"),
        ("journeys", "/trace"),
        ("log_figures", "/engine"),
        ("offset_resets", "/groups/g/offsets"),
        ("purges", "/topics/t/purge"),
        ("reports", "/reports"),
        ("reset_history", "/groups/g/history"),
        ("scheduled_list", "/scheduled"),
        ("trace_reports", "/reports/latency"),
        ("delay_reports", "/reports/delayed"),
        ("transaction_reports", "/reports/transactions"),
        ("transaction_queries", "/transactions"),
    ],
)
async def test_a_page_that_the_engine_has_nothing_for_says_why(
    running: App, monkeypatch: pytest.MonkeyPatch, name: str, path: str
) -> None:
    without(running, name, monkeypatch)
    page = await running.http.get(path, headers=HTML)
    assert page.status_code == 409
    assert "Not available with this engine" in page.text
    assert f"The engine behind this server {LACKS[name].detail}." in unescape(page.text)


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("lag_history", "/groups/g"),
        ("lag_history", "/groups"),
        ("traffic_figures", "/"),
        ("traffic_figures", "/topics/t"),
        ("traffic_figures", "/groups/g/retries"),
        ("exact_timers", "/topics/t/produce"),
        ("log_figures", "/"),
        ("journeys", "/"),
        ("dead_letter_replays", "/dlq/g"),
        ("dismissals", "/dlq/g"),
        ("trace_reports", "/reports"),
        ("delay_reports", "/reports"),
        ("transaction_reports", "/reports"),
        ("sql_filters", "/tail?topic=t&filter=sql92:a+%3D+1"),
        ("content_search", "/messages?topic=t&by=search"),
    ],
)
async def test_a_part_of_a_page_that_the_engine_has_nothing_for_is_absent(
    running: App, monkeypatch: pytest.MonkeyPatch, name: str, path: str
) -> None:
    """With its reason, but for parts that are absent wherever they are empty."""
    await running.post("/topics", {"name": "t"}, 201)
    await running.post("/groups", {"name": "g"}, 201)
    without(running, name, monkeypatch)
    page = await running.http.get(path, headers=HTML)
    assert page.status_code in (200, 409)  # a form names the field
    assert (LACKS[name].detail in unescape(page.text)) == ((name, path) not in SILENT)


@pytest.mark.parametrize(
    ("capability", "name"),
    [
        ("traffic_figures", "rocketmq_broker_tps"),
        ("lag_history", "kitemq_lag_history_bytes"),
        ("trace_reports", 'kitemq_report_failures{job="traces"}'),
    ],
)
async def test_the_metrics_leave_out_what_the_engine_does_not_count(
    running: App, monkeypatch: pytest.MonkeyPatch, capability: str, name: str
) -> None:
    whole = (await running.http.get("/metrics")).text
    without(running, capability, monkeypatch)
    part = (await running.http.get("/metrics")).text
    assert (name in whole, name in part) == (True, False)
    assert "kitemq_topics " in part
