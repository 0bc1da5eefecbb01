"""One message that fails, is retried, dies and is sent again: the story that journeys are for."""

from collections.abc import Callable
from typing import Any

from tests.app.ui.scenery import Scenery
from tests.patience import until

TOPIC, PAYER, AUDITOR, IDLE = "refunds", "payer", "auditor", "archive"
ERROR = "ConnectionError: the bank <b>refused</b> the transfer"


def take(scenery: Scenery, group: str, client: str) -> list[dict[str, Any]]:
    """What the group has next, waiting for it."""
    query = {"topic": TOPIC, "max": 1, "wait_ms": 10_000, "client": client}
    deliveries: list[dict[str, Any]] = scenery.post(f"/groups/{group}/receive", query)["deliveries"]
    assert deliveries, f"{group} got nothing"
    return deliveries


def fail(scenery: Scenery, group: str, client: str, **again: int) -> None:
    """One attempt that goes wrong."""
    (delivery,) = take(scenery, group, client)
    nack = {"receipt": delivery["receipt"], "error": ERROR, **again}
    scenery.post(f"/groups/{group}/nack", {"nacks": [nack], "client": client})


def prepare(scenery: Scenery) -> None:
    """The topic, a group that gives up after its second attempt, and one that takes nothing."""
    scenery.post("/topics", {"name": TOPIC, "read_queues": 1, "write_queues": 1})
    scenery.post("/groups", {"name": PAYER, "retry_max": 1})
    for group in (PAYER, AUDITOR, IDLE):
        scenery.post(f"/groups/{group}/receive", {"topic": TOPIC, "max": 1})


def send(scenery: Scenery, **fields: Any) -> str:
    """A message of the topic; its id."""
    (sent,) = scenery.send(
        TOPIC, [{"body": "refund 12", "tag": "urgent", "keys": ["R-12"], **fields}]
    )
    return str(sent["message_id"])


def replay(scenery: Scenery) -> str:
    """Every dead letter of the group again, to the group; the job's id, once it has finished."""
    job = scenery.post(
        "/replays", {"source": f"%DLQ%{PAYER}", "to": "group", "to_name": PAYER, "rate": 0}
    )
    path = f"/replays/{job['id']}"
    until(lambda: scenery.get(path)["state"] == "finished", "the job did not finish")
    return str(job["id"])


def tell(
    scenery: Scenery,
    hurry: Callable[[int], None] = lambda _: None,
    *,
    level: int = 1,
    **fields: Any,
) -> str:
    """The whole story, with seconds that pass in between where time can be hurried; the id."""
    message_id = send(scenery, **fields)
    hurry(3)
    fail(scenery, PAYER, "payer-1", delay_level=level)
    scenery.ack(AUDITOR, take(scenery, AUDITOR, "auditor-7"))
    hurry(11)
    fail(scenery, PAYER, "payer-2")
    hurry(65)
    replay(scenery)
    scenery.ack(PAYER, take(scenery, PAYER, "payer-3"))
    return message_id
