"""What the REST endpoint refuses of its input, and that it says what to do."""

from typing import Any

import pytest

from tests.app.conftest import App

pytestmark = pytest.mark.anyio

MESSAGES = "/api/v1/topics/orders/messages"


async def refused(app: App, content: Any, status: int, path: str = MESSAGES) -> Any:
    answer = await app.http.post(path, json=content)
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    problem = answer.json()
    assert problem["status"] == status
    return problem


GOOD = {"body": "good"}


@pytest.mark.parametrize(
    ("bad", "field"),
    [
        ({"body": "x", "tag": 7}, "messages[1].tag"),
        ({"body": "x", "tag": "a|b"}, "messages[1].tag"),
        ({"body": "x", "tga": "a"}, "messages[1].tga"),
        ({"tag": "a"}, "messages[1].body"),
        ({"body": ""}, "messages[1].body"),
        ({"body": "!", "encoding": "base64"}, "messages[1].body"),
        ({"body": "x", "encoding": "utf-16"}, "messages[1].encoding"),
        ({"body": "x", "keys": ["a b"]}, "messages[1].keys"),
        ({"body": "x", "properties": {"KEYS": "a"}}, "messages[1].properties.KEYS"),
        ({"body": "x", "properties": {"a": " "}}, "messages[1].properties.a"),
        ({"body": "x", "properties": {"a": "\x01"}}, "messages[1].properties.a"),
        ({"body": "x", "properties": {"a": "\x02"}}, "messages[1].properties.a"),
        ({"body": "x", "queue": 99}, "messages[1].queue"),
        ({"body": "x", "delay_level": 19}, "messages[1].delay_level"),
        ({"body": "x", "delay_ms": 500, "delay_level": 1}, "messages[1].delay_ms"),
        ({"body": "x", "deliver_at_ms": 1 << 52}, "messages[1].deliver_at_ms"),
        ({"body": "x", "id": "not an id"}, "messages[1].id"),
        ({"body": "x", "born_ms": -1}, "messages[1].born_ms"),
    ],
)
async def test_a_bad_message_is_named_and_nothing_of_its_request_is_stored(
    running: App, bad: dict[str, Any], field: str
) -> None:
    await running.post("/topics", {"name": "orders"}, 201)
    problem = await refused(running, {"messages": [GOOD, bad]}, 422)
    [error] = problem["errors"]
    assert error["field"] == field
    assert error["remedy"]
    assert (await running.get("/topics/orders"))["messages"] == 0


async def test_a_single_message_is_refused_by_its_own_field(running: App) -> None:
    problem = await refused(running, {"body": "x", "tag": "a|b"}, 422)
    assert problem["errors"][0]["field"] == "tag"


@pytest.mark.parametrize(
    ("content", "field"),
    [
        ({}, "body"),
        ({"messages": []}, "messages"),
        ({"messages": [GOOD], "body": "x"}, "body"),
        ({"messages": [GOOD], "durability": "maybe"}, "durability"),
    ],
)
async def test_a_request_without_one_clear_meaning_is_refused(
    running: App, content: Any, field: str
) -> None:
    problem = await refused(running, content, 422)
    assert problem["errors"][0]["field"] == field


async def test_what_is_no_json_is_a_400(running: App) -> None:
    headers = {"Content-Type": "application/json"}
    for content in (b"{", b"\xff", b"[1", b'{"body": "\\ud800"}', b"[" * 100_000):
        answer = await running.http.post(MESSAGES, content=content, headers=headers)
        assert answer.status_code in (400, 422), content[:20]
        assert answer.json()["code"] in ("malformed_json", "invalid")


async def test_a_body_that_is_not_json_where_it_must_be_is_a_415(running: App) -> None:
    answer = await running.http.post("/api/v1/topics", content=b"name=a")
    assert answer.status_code == 415
    assert answer.json()["code"] == "unsupported_media_type"


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("/api/v1/topics/none", "topic_not_found"),
        ("/api/v1/topics/none/messages", "topic_not_found"),
        ("/api/v1/groups/none", "group_not_found"),
        ("/api/v1/groups/none/lag", "group_not_found"),
        ("/api/v1/messages/" + "0" * 32, "message_not_found"),
        ("/api/v1/nothing", "no_such_page"),
    ],
)
async def test_what_does_not_exist_is_a_404_with_its_code(
    running: App, path: str, code: str
) -> None:
    answer = await running.http.get(path)
    assert answer.status_code == 404, answer.text
    assert answer.json()["code"] == code


async def test_a_taken_name_is_a_409(running: App) -> None:
    for path in ("/topics", "/groups"):
        await running.post(path, {"name": "a"}, 201)
        problem = await refused(running, {"name": "a"}, 409, f"/api/v1{path}")
        assert problem["code"] == "conflict"


async def test_a_wrong_method_says_which_are_right(running: App) -> None:
    answer = await running.http.put("/api/v1/topics/a")
    assert answer.status_code == 405
    assert "GET" in answer.headers["allow"]
    assert answer.json()["code"] == "method_not_allowed"


@pytest.mark.parametrize(
    ("query", "field"),
    [("limit=0", "limit"), ("limit=201", "limit"), ("limit=x", "limit"), ("size=3", "size")],
)
async def test_a_query_that_does_not_fit_is_named(running: App, query: str, field: str) -> None:
    answer = await running.http.get(f"/api/v1/topics?{query}")
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["field"] == field


async def test_a_receipt_that_is_none_is_named(running: App) -> None:
    path = "/api/v1/groups/billing/ack"
    problem = await refused(running, {"receipts": ["orders:0:0:1", "nonsense"]}, 422, path)
    assert problem["errors"][0]["field"] == "receipts[1]"
