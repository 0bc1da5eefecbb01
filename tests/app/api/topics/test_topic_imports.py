"""Topics by a file: what would become of each row, doing it, and files that lists have made."""

import asyncio
import json
from typing import Any

import pytest

from app.api.framework.operation import Call
from app.api.topics.imports import _require_all
from app.security.access import PRINCIPAL, Grant, Principal, Role
from app.services import topic_files, topic_imports
from app.services.topic_files import read
from engine.errors import Invalid
from kitemq.model.topics import IMPORT_CHARS_MAX
from tests.app.conftest import App

pytestmark = [pytest.mark.anyio, pytest.mark.makers]

HEAD = "name,type,read_queues,write_queues,permission,durability,retention_ms,trace_sample"


async def imported(app: App, content: str, *, dry_run: bool = False, **more: str) -> Any:
    body = {"content": content, "dry_run": dry_run, **more}
    return await app.post("/topics/import", body)


def outcomes(found: Any) -> dict[str, str]:
    return {row["topic"]: row["outcome"] for row in found["rows"]}


async def trail(app: App) -> list[tuple[str, str]]:
    items = (await app.get("/audit?object_kind=topic"))["items"]
    return [(item["action"], item["object_name"]) for item in items]


@pytest.mark.capabilities("topic_overrides")
async def test_a_dry_run_tells_each_row_and_changes_nothing(running: App) -> None:
    await running.post("/topics", {"name": "orders", "read_queues": 8, "write_queues": 8}, 201)
    await running.post("/topics", {"name": "steady"}, 201)
    await running.post("/topics", {"name": "typed", "type": "FIFO"}, 201)
    before, entries = await running.get("/topics"), await trail(running)
    content = "\n".join(
        (
            HEAD,
            "orders,NORMAL,8,4,4,flushed,86400000,0.25",
            "fresh,DELAY,2,2,6,,,",
            "steady,NORMAL,,,,,,",
            "typed,NORMAL,,,,,,",
            "bad name!,,,,,,,",
            "many,NORMAL,9999,,,,,",
            "orders,,,,,,,",
            "%RETRY%g,RETRY,1,1,6,,,",
        )
    )
    found = await imported(running, content, dry_run=True)
    assert found["counts"] == {"refused": 5, "create": 1, "change": 1, "same": 1}
    rows = found["rows"]
    assert [row["outcome"] for row in rows] == [
        "change", "create", "same", "refused", "refused", "refused", "refused", "refused",
    ]  # fmt: skip
    assert rows[0]["changes"] == [
        {"field": "write_queues", "before": 8, "after": 4},
        {"field": "permission", "before": 6, "after": 4},
        {"field": "durability", "before": None, "after": "flushed"},
        {"field": "retention_ms", "before": None, "after": 86_400_000},
        {"field": "trace_sample", "before": None, "after": 0.25},
    ]
    assert [(row["field"], bool(row["detail"] and row["remedy"])) for row in rows[3:]] == [
        ("type", True), ("name", True), ("read_queues", True), ("name", True), ("name", True),
    ]  # fmt: skip
    assert await running.get("/topics") == before
    assert await trail(running) == entries


async def test_looking_at_the_rights_of_many_rows_leaves_others_their_turns(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("app.pause.SLICE_S", 0.0)
    who = Principal("o", (Grant(Role.OPERATOR, ("administer:topic:t*",)),))
    rows = read("name\n" + "\n".join(f"t{number}" for number in range(50)))
    turns: list[int] = []

    async def other() -> None:
        while True:
            turns.append(1)
            await asyncio.sleep(0)

    running = asyncio.create_task(other())
    await _require_all(Call({PRINCIPAL: who}, None), rows)  # type: ignore[arg-type]
    running.cancel()
    assert len(turns) >= 50


async def test_an_import_creates_and_changes_and_can_be_sent_again(running: App) -> None:
    await running.post("/topics", {"name": "orders"}, 201)
    content = json.dumps(
        [
            {"name": "orders", "permission": 4},
            {"name": "fresh", "type": "FIFO", "read_queues": 2, "write_queues": 2},
            {"name": "typo", "retention": "7d"},
        ]
    )
    found = await imported(running, content)
    assert outcomes(found) == {"orders": "changed", "fresh": "created", "typo": "refused"}
    assert found["rows"][2]["field"] == "retention"
    fresh = await running.get("/topics/fresh")
    assert (fresh["type"], fresh["read_queues"], fresh["permission"]) == ("FIFO", 2, 6)
    assert (await running.get("/topics/orders"))["permission"] == 4
    assert (await trail(running))[:2] == [("topic.create", "fresh"), ("topic.change", "orders")]
    again = await imported(running, content)
    assert outcomes(again) == {"orders": "same", "fresh": "same", "typo": "refused"}


async def test_what_was_seen_in_a_dry_run_is_what_is_changed_or_nothing(running: App) -> None:
    await running.post("/topics", {"name": "orders"}, 201)
    content = "name,permission\norders,4\nfresh,4\n"
    looked = await imported(running, content, dry_run=True)
    seen = {row["topic"]: row["seen"] for row in looked["rows"]}
    assert all(seen.values())
    await running.http.patch("/api/v1/topics/orders", json={"write_queues": 2})
    await running.post("/topics", {"name": "fresh"}, 201)
    plan = [{"name": name, "permission": 4, "seen": tag} for name, tag in seen.items()]
    found = await imported(running, json.dumps(plan))
    assert outcomes(found) == {"orders": "refused", "fresh": "refused"}
    assert "changed since" in found["rows"][0]["detail"]
    assert (await running.get("/topics/orders"))["permission"] == 6


@pytest.mark.capabilities("topic_overrides")
@pytest.mark.parametrize("kind", ["csv", "ndjson"])
async def test_the_file_that_a_list_makes_brings_its_topics_back(running: App, kind: str) -> None:
    given = [
        {"name": "-danger", "type": "FIFO", "read_queues": 3, "write_queues": 2},
        {"name": "orders", "permission": 4, "durability": "flushed", "retention_ms": 0},
        {"name": "traced", "trace_sample": 0.125, "retention_ms": 3_600_000, "type": "DELAY"},
        {"name": "plain"},
    ]
    for topic in given:
        await running.post("/topics", topic, 201)
    file = await running.http.get(f"/topics?format={kind}")
    assert file.status_code == 200
    before = (await running.get("/topics"))["items"]
    assert outcomes(await imported(running, file.text)) == {t["name"]: "same" for t in given}
    for topic in given:
        await running.http.delete(f"/api/v1/topics/{topic['name']}")
    found = await imported(running, file.text)
    assert found["counts"] == {"created": 4}
    after = (await running.get("/topics"))["items"]
    assert [t | {"created_ms": 0} for t in after] == [t | {"created_ms": 0} for t in before]


async def test_a_page_of_the_api_and_the_systems_own_rows_can_be_sent_back(running: App) -> None:
    await running.post("/topics", {"name": "orders"}, 201)
    await running.send("orders", "x")
    await running.receive("g", "orders", max=1)
    page = await running.http.get("/api/v1/topics?system=true")
    found = await imported(running, page.text)
    assert outcomes(found)["orders"] == "same"
    rest = {row["outcome"] for row in found["rows"] if row["topic"] != "orders"}
    assert rest == {"refused"}
    listed = await running.http.get("/topics?format=csv&type=all")
    again = outcomes(await imported(running, listed.text, dry_run=True))
    assert again.pop("orders") == "same"
    assert set(again.values()) == {"refused"}


async def test_what_is_no_file_of_topics_is_refused_as_a_whole(
    running: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topic_files, "ROWS_MAX", 2)
    for content, said in (
        ("name\n", "holds no topic"),
        ("a,b\n1,2\n", "names no column"),
        ("name\na\nb\nc\n", "more than 2 rows"),
        ('name\n"a', "is no CSV"),
        ("name\na,b\n", "has 2 cells"),
        ('{"name": "a"}\n{"name": }\n', "line 2 is no JSON"),
        ('["a"]', "no topic"),
        ("[" * 5000, "is no JSON"),
    ):
        body = {"content": content}
        problem = await running.post("/topics/import", body, 422)
        assert said in problem["detail"], content[:20]
        assert problem["errors"][0]["field"] == "content"
    with pytest.raises(Invalid, match="characters"):
        read("x" * (IMPORT_CHARS_MAX + 1))


async def test_rows_that_the_time_does_not_reach_are_told_and_done_by_the_next_import(
    running: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topic_imports, "BUDGET_S", -1.0)
    found = await imported(running, "name\na\nb\n")
    assert found["counts"] == {"unreached": 2}
    monkeypatch.undo()
    assert (await imported(running, "name\na\nb\n"))["counts"] == {"created": 2}
