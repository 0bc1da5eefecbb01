"""A transaction's story on its page: prepared, checked, answered, decided, delivered."""

from typing import Any

import pytest

from tests.app.conftest import App

pytestmark = pytest.mark.anyio


async def begin(app: App) -> str:
    await app.post("/topics", {"name": "transfers", "type": "TRANSACTION"}, 201)
    (sent,) = await app.send("transfers", "a", transaction_group="bank")
    message_id: str = sent["message_id"]
    return message_id


async def story(app: App, transaction_id: str) -> Any:
    answer = await app.http.get(f"/transactions/{transaction_id}?format=json")
    assert answer.status_code == 200, answer.text
    return answer.json()["story"]


def texts(told: Any) -> list[str]:
    return [line["text"] for line in told["lines"]]


async def test_checks_without_an_answer_giving_up_and_the_operators_decision_are_told_in_order(
    running: App,
) -> None:
    begun_ms = running.clock.now_ms()
    name = await begin(running)
    for _ in range(17):
        running.advance(30)
    path = f"/transactions/{name}"
    fields = {"do": "decide", "decision": "commit", "confirm": "operator"}
    answer = await running.http.post(path, data=fields)
    assert answer.status_code == 303, answer.text
    told = await story(running, name)
    lines = texts(told)
    checks = [text for text in lines if text.startswith("Check ")]
    assert len(checks) == 15
    assert checks[0] == "Check 1: no producer of bank connected"
    assert lines.index("Half message stored; the checks begin") < lines.index(checks[0])
    given_up = lines.index("Transaction given up")
    assert lines.index(checks[-1]) < given_up
    (by_hand,) = (text for text in lines if text.startswith("Committed by operator "))
    assert given_up < lines.index(by_hand)
    assert "Transaction committed by operator" not in lines
    assert lines[-1].startswith("Stored in transfers, queue ")
    times = [line["at_ms"] for line in told["lines"]]
    assert times == sorted(times)
    assert abs(times[0] - begun_ms) < 1000


async def test_a_check_names_the_decision_that_it_brought(running: App) -> None:
    name = await begin(running)
    answers = iter([False, True])
    running.app.services.transactions.producers.enter("bank", lambda _check: next(answers, True))
    running.advance(30)
    running.advance(30)
    query = "?by=check"
    await running.post(f"/transactions/{name}/commit{query}", {})
    told = await story(running, name)
    first, second = (line for line in told["lines"] if line["text"].startswith("Check "))
    assert first["answer"] == ""
    assert second["answer"] == "Transaction committed by check"


async def test_the_message_is_followed_to_its_groups(running: App) -> None:
    name = await begin(running)
    await running.post(f"/transactions/{name}/commit", {})
    (delivery,) = await running.receive("readers", "transfers")
    await running.post("/groups/readers/ack", {"receipts": [delivery["receipt"]]})
    told = await story(running, name)
    (group,) = told["groups"]
    assert (group["group"], group["text"]) == ("readers", "done")
    page = await running.http.get(f"/transactions/{name}", headers={"accept": "text/html"})
    assert 'href="/groups/readers"' in page.text
