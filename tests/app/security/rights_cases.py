"""One request for each operation of the REST interface, and a server on which all of them work.

`{n}` stands for the resource: a topic and a group of that name, and what belongs to them.
"""

from dataclasses import dataclass
from typing import Any

from tests.app.conftest import App
from tests.rights import INSIDE, OUTSIDE

CLIENT = "client-1"
FIRST = {"topics": ["{n}"], "to": "earliest", "force": True}
QUEUES = {"client": CLIENT, "queues": [{"topic": "{n}", "queue": 0}]}
REPLAY = {"source": "%DLQ%{n}", "to": "topic", "to_name": "{n}", "dry_run": True}
RECEIVER = {"kind": "webhook", "url": "http://127.0.0.1:9/"}
HALF = (("topic", "{n}-half"),)
LATER_MS = 4_000_000_000_000


@dataclass(frozen=True)
class Case:
    """How an operation is asked: the path's parameters, query, body.

    `named` are the words of its rights that are not the resource's own name; `refusals` are
    statuses beside 2xx that a request gets here which was let in.
    """

    path: tuple[tuple[str, str], ...] = ()
    body: Any = None
    query: str = ""
    named: tuple[tuple[str, str], ...] = ()
    refusals: tuple[int, ...] = ()


def _at(**path: str) -> tuple[tuple[str, str], ...]:
    return tuple(path.items())


# What stands not here is asked with the names of the resource in its path, and nothing else.
CASES: dict[str, Case] = {
    "produce": Case(body={"body": "x"}),
    "request": Case(body={}, refusals=(422,)),
    "reply": Case(body={"correlation_id": "nobody-asked", "body": "x"}, refusals=(404,)),
    "get_reply": Case(_at(correlation_id="nobody-asked"), refusals=(404,)),
    "receive": Case(body={"topic": "{n}", "max": 1, "client": CLIENT}),
    "ack": Case(body={"receipts": ["{receipt}"]}),
    "nack": Case(body={"nacks": [{"receipt": "{receipt}"}]}),
    "extend": Case(body={"receipts": ["{receipt}"], "invisible_ms": 60_000}),
    "release": Case(body={"receipts": ["{receipt}"]}),
    "commit_offset": Case(body={"topic": "{n}", "queue": 0, "offset": "0"}),
    "get_offsets": Case(query="topic={n}"),
    "heartbeat": Case(body={"client": CLIENT, "topics": {"{n}": "*"}}),
    "leave": Case(query=f"client={CLIENT}"),
    "get_assignment": Case(query=f"topic={{n}}&client={CLIENT}"),
    "lock_queues": Case(body=QUEUES),
    "unlock_queues": Case(body=QUEUES),
    "find_by_key": Case(query="key=k"),
    "get_message": Case(_at(queue="0", offset="0")),
    "find_by_id": Case(_at(id="SENT{id}")),
    "get_journey": Case(_at(id="SENT{id}")),
    "search_anything": Case(query="q={n}"),
    "create_topic": Case(body={"name": "{n}-new"}, named=_at(topic="{n}-new")),
    "change_topic": Case(body={"permission": 6}),
    "purge_topic": Case(body={"all": True}),
    "import_topics": Case(body={"content": "name\n{n}"}),
    "write_note": Case(body={"text": "x", "version": "0"}, refusals=(409,)),
    "create_group": Case(body={"name": "{n}-new"}, named=_at(group="{n}-new")),
    "change_group": Case(body={"retry_max": 3}),
    "preview_reset": Case(body={"topics": ["{n}"], "to": "earliest"}),
    "reset_offsets": Case(body=FIRST),
    "preview_undo": Case(_at(id="1")),
    "undo_reset": Case(_at(id="1"), {"force": True}),
    "get_dead_letter": Case(_at(offset="0")),
    "redrive_dead_letters": Case(body={"dry_run": True}),
    "dismiss_dead_letters": Case(body={"offsets": ["0"], "note": "a test"}),
    "restore_dead_letters": Case(body={"offsets": ["0"]}),
    "create_replay": Case(body=REPLAY),
    "get_replay": Case(_at(id="{job}")),
    "list_outcomes": Case(_at(id="{job}")),
    "begin_replay": Case(_at(id="{job}")),
    "change_replay": Case(_at(id="{running}"), {"rate": 0.002}),
    "pause_replay": Case(_at(id="{running}")),
    "resume_replay": Case(_at(id="{running}")),
    "stop_replay": Case(_at(id="{stopping}")),
    "retry_replay": Case(_at(id="{running}"), {"dry_run": True}),
    "recall_message": Case(_at(message_id="WAIT{id}0")),
    "deliver_message": Case(_at(message_id="WAIT{id}1")),
    "reschedule_message": Case(_at(message_id="WAIT{id}2"), {"delay_ms": 7_200_000}),
    "poll_checks": Case(body={"group": "{n}"}),
    "ask_stack": Case(body={"client": CLIENT}, refusals=(409,)),
    "disconnect_client": Case(body={"client": "nobody"}, refusals=(404,)),
    "verify_message": Case(
        body={"client": CLIENT, "topic": "{n}", "queue": 0, "offset": "0"}, refusals=(409,)
    ),
    "get_callback": Case(refusals=(404,)),
    "set_callback": Case(body={"url": "http://127.0.0.1:9/check"}),
    "get_transaction": Case(_at(id="HALF{id}0")),
    "commit_transaction": Case(_at(id="HALF{id}0"), named=HALF),
    "roll_back_transaction": Case(_at(id="HALF{id}1"), named=HALF),
    "leave_transaction": Case(_at(id="HALF{id}2"), named=HALF),
    "resume_transaction": Case(_at(id="HALF{id}3"), named=HALF),
    "create_alert_rule": Case(body={"name": "new", "kind": "lag", "threshold": 9}),
    "get_alert_rule": Case(_at(id="1")),
    "change_alert_rule": Case(_at(id="1"), {"threshold": 8}),
    "delete_alert_rule": Case(_at(id="2")),
    "list_alert_history": Case(_at(id="1")),
    "get_alert_receiver": Case(_at(id="1")),
    "create_alert_receiver": Case(body=RECEIVER | {"name": "new"}),
    "change_alert_receiver": Case(_at(id="1"), {"group_s": 5}),
    "delete_alert_receiver": Case(_at(id="2")),
    "test_alert_receiver": Case(_at(id="1")),
    "acknowledge_alert": Case(body={"rule_id": "99"}, refusals=(404,)),
    "create_silence": Case(body={"rule_id": "1", "until_ms": LATER_MS}, refusals=(422,)),
    "end_silence": Case(_at(id="99"), refusals=(404,)),
    "test_alerts": Case(),
    "change_report_schedule": Case(_at(job="lag"), {"limit_s": 60}),
    "run_report": Case(body={"job": "nothing"}, refusals=(422,)),
    "get_report_run": Case(_at(id="999"), refusals=(404,)),
    "cancel_report_run": Case(_at(id="999"), refusals=(404,)),
    "list_report_rows": Case(_at(table="latency")),
    "get_report_totals": Case(_at(table="failures"), query="by=reason"),
    "download_report_csv": Case(_at(table="latency")),
    "download_report_parquet": Case(_at(table="nothing"), refusals=(404,)),
    "change_my_password": Case(body={"old": "not it", "new": "battery staple"}, refusals=(401,)),
    "get_user": Case(_at(name="bob")),
    "check_access": Case(query="user=bob"),
    "promote": Case(body={"force": False}),
    "hand_over": Case(body={"to": "127.0.0.1:1"}, refusals=(404,)),
    "set_read_only": Case(body={"read_only": False}),
    "set_log_level": Case(_at(name="kitemq.gate"), {"level": ""}),
    "create_user": Case(body={"name": "new", "password": "battery staple", "role": "viewer"}),
    "change_user": Case(_at(name="bob"), {"disabled": True}),
    "delete_user": Case(_at(name="bob")),
    "create_token": Case(body={"name": "more"}),
    "create_view": Case(body={"name": "mine", "path": "/topics"}),
    "delete_view": Case(_at(id="999"), refusals=(404,)),
    "revoke_token": Case(_at(id="{token}")),
    "end_session": Case(_at(id="{session}")),
}  # fmt: skip


def filled(value: Any, words: dict[str, str]) -> Any:
    """A case's value with its words in their places."""
    if isinstance(value, str):
        for word, text in words.items():
            value = value.replace(f"{{{word}}}", text)
        return value
    if isinstance(value, dict):
        return {filled(key, words): filled(child, words) for key, child in value.items()}
    if isinstance(value, list):
        return [filled(child, words) for child in value]
    return value


async def build(app: App) -> dict[str, dict[str, str]]:
    """What the requests are about, for both names; the words that only the server can tell."""
    for name in ("watched", "spare"):
        await app.post("/alerts/rules", {"name": name, "kind": "lag", "threshold": 9}, 201)
        await app.post("/alerts/receivers", RECEIVER | {"name": name}, 201)
    return {name: await _build(app, name) for name in (INSIDE, OUTSIDE)}


async def _build(app: App, name: str) -> dict[str, str]:
    id_ = name.replace("-", "")
    for end, kind in (("", "NORMAL"), ("-later", "DELAY"), ("-half", "TRANSACTION")):
        await app.post("/topics", {"name": f"{name}{end}", "type": kind}, 201)
    await app.post("/groups", {"name": name, "retry_max": 0}, 201)
    await app.post(f"/topics/{name}/messages", {"id": f"SENT{id_}", "body": "x", "queue": 0}, 201)
    await app.send(name, *"abcdef", keys=["k"], queue=0)
    dead = await app.receive(name, name, max=3, client=CLIENT)
    nacks = [{"receipt": delivery["receipt"]} for delivery in dead]
    await app.post(f"/groups/{name}/nack", {"nacks": nacks})
    held = await app.receive(name, name, max=1, client=CLIENT)
    for n in range(3):
        waiting = {"id": f"WAIT{id_}{n}", "body": "x", "delay_ms": 3_600_000}
        await app.post(f"/topics/{name}-later/messages", waiting, 201)
    for n in range(4):
        half = {"id": f"HALF{id_}{n}", "body": "x", "transaction_group": name}
        await app.post(f"/topics/{name}-half/messages", half, 201)
    await app.post(f"/groups/{name}/resets", filled(FIRST, {"n": name}), 201)
    await app.post(f"/groups/{name}/members/heartbeat", {"client": CLIENT})
    looked = await app.post("/replays", filled(REPLAY, {"n": name}), 201)
    slow = filled(REPLAY, {"n": name}) | {"dry_run": False, "rate": 0.001}
    running, stopping = [await app.post("/replays", slow, 201) for __ in range(2)]
    app.advance(1)
    jobs = {"job": looked["id"], "running": running["id"], "stopping": stopping["id"]}
    return {"n": name, "id": id_, "receipt": held[0]["receipt"], **jobs}
