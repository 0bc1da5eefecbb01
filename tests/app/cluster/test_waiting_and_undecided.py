"""What waits and what is undecided before a cluster, as REST and the console show it.

KiteMQ's own port stands in the place of the broker. It writes no decisions down as Apache's do, so
those of other processes are in `tests/rocketmq/test_verbs.py`.
"""

import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from app.cluster.verbs import half_lists, waiting
from tests.app.cluster.front import HTML, Front, front_of
from tests.remoting.port import Running

pytestmark = pytest.mark.anyio
AWAY = "broker b is away"
MINUTE_MS = 60_000


@pytest.fixture
async def front(running: Running, tmp_path: Path) -> AsyncIterator[Front]:
    for name in ("reminders", "payments"):
        kind = "TRANSACTION" if name == "payments" else "DELAY"
        await running.http.post("/api/v1/topics", json={"name": name, "type": kind})
    async with front_of(running, tmp_path / "front") as front:
        yield front


async def send(front: Front, topic: str, *bodies: str, **fields: Any) -> list[str]:
    """Send messages, and give their ids."""
    messages = [{"body": body, **fields} for body in bodies]
    path = f"/api/v1/topics/{topic}/messages"
    answer = await front.http.post(path, json={"messages": messages})
    assert answer.status_code == 201, answer.text
    return [each["message_id"] for each in answer.json()["messages"]]


async def bodies(front: Front, path: str) -> list[str]:
    return [each["message"]["body"] for each in (await front.get(path))["items"]]


async def test_what_can_be_recalled_has_a_button_and_the_rest_a_reason(front: Front) -> None:
    [timed] = await send(front, "reminders", "timed", delay_ms=10 * MINUTE_MS)
    await send(front, "reminders", "level", delay_level=5)
    assert await bodies(front, "/scheduled?topic=reminders") == ["level", "timed"]
    page = await front.page("/scheduled")
    [address] = re.findall(r'href="(/scheduled/\w+)"', page)
    assert "neither delivers waiting messages early nor reschedules them" in page
    detail = await front.page(address)
    assert 'id="recall-form"' in detail
    assert "deliver-form" not in detail
    assert "reschedule-form" not in detail
    [level, _] = (await front.get("/scheduled"))["items"]
    assert "recall-form" not in await front.page(f"/scheduled/{level['message']['offset_id']}")
    record = await front.page("/messages/SCHEDULE_TOPIC_XXXX/4/0")
    assert "Waits to be delivered to topic" in record
    assert "records temporarily unavailable" not in record
    fields = {"do": "recall", "confirm": "recall"}
    headers = {"origin": "http://127.0.0.1:8080"} | HTML
    answer = await front.http.post(address, data=fields, headers=headers)
    assert answer.headers["location"] == "/scheduled?done=recalled"
    assert await bodies(front, "/scheduled") == ["level"]
    again = await front.http.post(f"/api/v1/scheduled/{timed}/recall")
    assert again.json()["result"] == "recalled"


async def test_a_recall_that_may_come_too_late_is_refused(front: Front) -> None:
    [soon] = await send(front, "reminders", "soon", delay_ms=2_000)
    answer = await front.http.post(f"/api/v1/scheduled/{soon}/recall")
    assert (answer.status_code, "due within 3 s" in answer.json()["detail"]) == (409, True)
    answer = await front.http.post("/api/v1/scheduled/none/recall")
    assert answer.status_code == 404


@pytest.mark.parametrize("after", ["1-2-3", "a-0-0-0", "-1-0-0-0", f"{'9' * 20}-0-0-0"])
async def test_a_place_that_no_page_named_is_refused(front: Front, after: str) -> None:
    refusal = await front.get(f"/scheduled?after={after}", 422)
    assert refusal["errors"][0]["field"] == "after"


async def test_a_list_says_of_which_level_a_part_is_listed(
    front: Front, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiting, "HELD_MAX", 2)
    monkeypatch.setattr("app.cluster.tail.READ_COUNT", 2)
    await send(front, "reminders", "1", "2", "3", "4", delay_level=5)
    answer = await front.get("/scheduled")
    assert [each["message"]["body"] for each in answer["items"]] == ["1", "2"]
    assert (answer["next"], answer["total"]) == (None, None)
    assert "4 messages in delay level 5, of which the next 2 are listed" in answer["unknown"]
    page = await front.page("/scheduled")
    assert "of which the next 2 are listed" in page
    assert "2 shown of ≥ 4" in re.sub(r"\s+", " ", page)


async def test_a_list_says_that_older_timers_were_not_read(
    front: Front, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiting, "BACK_MAX", 3)
    await send(front, "reminders", "1", "2", "3", "4", "5", delay_ms=MINUTE_MS)
    answer = await front.get("/scheduled")
    assert [each["message"]["body"] for each in answer["items"]] == ["3", "4", "5"]
    assert answer["unknown"].endswith("the last 3 were read")


async def test_what_was_delivered_is_listed_no_more(running: Running, front: Front) -> None:
    await send(front, "reminders", "timed", delay_ms=MINUTE_MS)
    await send(front, "reminders", "level", delay_level=4)
    assert await bodies(front, "/scheduled") == ["level", "timed"]
    running.advance(31)
    front.messaging._waiting._until_s = 0.0
    assert await bodies(front, "/scheduled") == ["timed"]
    running.advance(31)
    front.messaging._waiting._until_s = 0.0
    assert await bodies(front, "/scheduled") == []


async def test_undecided_transactions_are_listed_and_decided_by_hand(front: Front) -> None:
    ids = await send(front, "payments", "a", "b", transaction_group="tellers")
    await send(front, "payments", "c", transaction_group="others")
    assert await bodies(front, "/transactions?group=tellers") == ["a", "b"]
    first = await front.get("/transactions?limit=2")
    rest = await front.get(f"/transactions?after={first['next']}")
    listed = [each["message"]["body"] for each in (*first["items"], *rest["items"])]
    assert sorted(listed) == ["a", "b", "c"]
    assert (first["total"], rest["next"]) == (3, None)
    assert (await front.get(f"/transactions/{ids[0]}"))["state"] == "pending"
    page = await front.page("/transactions")
    assert re.search(r"From all 3 undecided", page)
    [address] = re.findall(rf'href="(/transactions/\w+)"\s+title="{ids[0]}"', page)
    assert "Manual decision" in await front.page(address)
    fields = {"do": "decide", "decision": "rollback", "confirm": "operator"}
    headers = {"origin": "http://127.0.0.1:8080"} | HTML
    answer = await front.http.post(address, data=fields, headers=headers)
    assert answer.headers["location"].endswith("?done=rolled_back")
    assert await bodies(front, "/transactions?group=tellers") == ["b"]
    assert (await front.get(f"/transactions/{ids[0]}"))["state"] == "rolled_back"
    assert (await front.get("/transactions?given_up=true"))["total"] == 0
    resumed = await front.http.post(f"/api/v1/transactions/{ids[1]}/resume")
    assert resumed.status_code == 409
    await front.get("/transactions?after=x", 422)


async def test_a_list_says_that_there_are_more_undecided_transactions(
    front: Front, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(half_lists, "HELD_MAX", 2)
    await send(front, "payments", "a", "b", "c", transaction_group="tellers")
    answer = await front.get("/transactions")
    assert (len(answer["items"]), answer["total"]) == (2, None)
    assert answer["unknown"].endswith("the first 2 undecided half messages were read")


async def test_lists_have_what_the_brokers_that_are_there_have(front: Front) -> None:
    await send(front, "reminders", "level", delay_level=5)
    await send(front, "payments", "a", transaction_group="tellers")
    front.number(*front.messaging.catalog.numbers.brokers, "b")
    for path in ("/scheduled", "/transactions"):
        answer = await front.get(path)
        assert (len(answer["items"]), answer["total"], answer["unknown"]) == (1, None, AWAY)
        page = await front.page(path)
        assert f"Some figures are unknown: {AWAY}." in page
    front.number("b")
    front.messaging._waiting._until_s = 0.0
    for path in ("/scheduled", "/transactions"):
        assert (await front.get(path, 503))["detail"] == AWAY
