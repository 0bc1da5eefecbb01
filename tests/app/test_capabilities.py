"""An engine that lacks a capability refuses what needs it, and says what to do instead."""

import msgspec
import pytest

from app.capabilities import EMBEDDED, LACKS
from kitemq.model.server import Capabilities
from tests.app.conftest import App

pytestmark = pytest.mark.anyio


def without(app: App, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    lacking = msgspec.structs.replace(EMBEDDED, **{name: False})
    monkeypatch.setattr(app.app.services.messaging, "capabilities", lacking)


def test_each_lack_has_a_refusal() -> None:
    assert list(LACKS) == list(Capabilities.__struct_fields__)
    assert all(lack.detail and lack.remedy for lack in LACKS.values())


async def test_the_server_says_what_its_engine_can_do(running: App) -> None:
    answer = (await running.http.get("/api/v1/system")).json()
    assert answer["capabilities"] == dict.fromkeys(LACKS, True)


@pytest.mark.parametrize(
    ("name", "method", "path", "body", "field"),
    [
        ("timer_changes", "POST", "/scheduled/A1/recall", None, "message_id"),
        ("timer_changes", "GET", "/scheduled", None, "timer_changes"),
        ("transaction_queries", "GET", "/transactions/A1", None, "id"),
        ("transaction_queries", "GET", "/transactions", None, "transaction_queries"),
        ("dead_letter_replays", "POST", "/replays", {"source": "%DLQ%g", "to": "group"}, "source"),
    ],
)
async def test_what_the_engine_cannot_do_is_refused_with_field_and_remedy(
    running: App,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    method: str,
    path: str,
    body: dict[str, str] | None,
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
