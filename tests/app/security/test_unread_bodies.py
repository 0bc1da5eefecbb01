"""Without the right `read_messages` nobody sees a byte of what a message says, at any endpoint.

Every operation of the REST interface, every page of the console and its JSON, and every stream is
asked, so that a new one cannot be forgotten. Body, key and property of each message hold a marker.
"""

import json
import re
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from app.api.catalog import OPERATIONS
from app.security.access import Grant, Principal, Role
from app.services.tail import Tail
from app.ui.framework.zones import UTC_ZONE
from app.ui.messages.tail import _event
from app.ui.routes import router
from tests.app.conftest import App, started
from tests.app.security.rights_cases import CASES, Case, filled
from tests.app.security.rights_site import cheap_hashes, client_of, log_in
from tests.rights import ADMIN, INSIDE, PASSWORD, SENDER, VIEWER, WATCHER, Person

pytestmark = pytest.mark.anyio

# In the body, in a key, in a property, in a message group: none of these may come out.
MARKS = ("BODYMARK", "KEYMARK", "PROPERTYMARK")
PRODUCER = Person("producer", "admin", (), "operator", ("produce:topic:*",), True, "ann")
OF_ANOTHER = Person("another", "operator", ("*:*:*",), "operator", ("*:*:payments",), True, "otto")
UNREAD = (WATCHER, SENDER, PRODUCER, OF_ANOTHER)
# A stream ends when its reader goes, which this client cannot: tried apart.
ENDLESS = {"/tail/stream"}
# Pages of messages, which are asked in every way; the others as they are and as JSON.
OF_MESSAGES = ("/messages", "/tail", "/trace", "/search", "/palette", "/dlq/{group}/export", "/m/",
               "/topics/{topic}/messages", "/topics/{topic}/produce", "/dlq/{group}/{offset}",
               "/scheduled", "/transactions", "/jobs/{id}")  # fmt: skip
NAME = INSIDE
GROUP = "billing"


@pytest.fixture(autouse=True)
def _hashes_are_cheap(monkeypatch: pytest.MonkeyPatch) -> None:
    cheap_hashes(monkeypatch)


def marked(id: str, **fields: object) -> dict[str, object]:
    properties = {"own": "PROPERTYMARK"}
    body = f'{{"id": "{id}", "a": "BODYMARK"}}'  # no two the same, so that comparing shows it
    return {"id": id, "body": body, "keys": ["KEYMARK"], "tag": "t"} | {
        "properties": properties,
        **fields,
    }


async def build(app: App) -> dict[str, str]:
    """A message in every place in which one can be; the words that only the server can tell."""
    for end, kind in (("", "NORMAL"), ("-later", "DELAY"), ("-half", "TRANSACTION")):
        await app.post("/topics", {"name": f"{NAME}{end}", "type": kind}, 201)
    await app.post("/groups", {"name": GROUP, "retry_max": 0}, 201)
    await app.post("/groups", {"name": "again", "retry_max": 5}, 201)
    many = [marked(f"SENT{n}", queue=0) for n in range(4)]
    await app.post(f"/topics/{NAME}/messages", {"messages": many}, 201)
    for group in (GROUP, "again"):
        got = await app.receive(group, NAME, max=2, client="client-1")
        nacks = [{"receipt": each["receipt"], "error": "no stock"} for each in got]
        await app.post(f"/groups/{group}/nack", {"nacks": nacks})
    await app.post(f"/topics/{NAME}-later/messages", marked("WAIT0", delay_ms=3_600_000), 201)
    half = marked("HALF0", transaction_group=GROUP)
    await app.post(f"/topics/{NAME}-half/messages", half, 201)
    moved = {"topics": [NAME], "to": "earliest", "force": True}
    await app.post(f"/groups/{GROUP}/resets", moved, 201)
    await app.post(f"/groups/{GROUP}/members/heartbeat", {"client": "client-1"})
    replay = {"source": f"%DLQ%{GROUP}", "to": "topic", "to_name": NAME, "dry_run": True}
    job = await app.post("/replays", replay, 201)
    await app.http.post(
        f"/api/v1/topics/{NAME}/request", json={"message": {"body": "ask"}, "timeout_ms": 1}
    )
    app.advance(1)
    return {"n": NAME, "id": "", "job": job["id"], "running": job["id"], "stopping": job["id"]}


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[tuple[App, dict[str, str]]]:
    async with started(tmp_path / "data") as app:
        words = await build(app)
        for user in (ADMIN, VIEWER, WATCHER, SENDER):
            new = {"name": user.name, "password": PASSWORD, "role": user.role}
            await app.post("/users", new | {"patterns": list(user.patterns)}, 201)
            if user is ADMIN:
                await log_in(app.http, user.name)
        new = {"name": "otto", "password": PASSWORD, "role": "operator", "patterns": ["*:*:*"]}
        await app.post("/users", new, 201)
        yield app, words


def reads(words: dict[str, str]) -> list[str]:
    """Every GET there is, with the messages in its path and with what narrows a list down."""
    found = []
    for item in OPERATIONS:
        if item.method != "GET":
            continue
        case = CASES.get(item.name, Case())
        for group in (GROUP, "again"):
            path = {word: filled(text, words | {"n": NAME}) for word, text in case.path}
            path = filled(item.path, path | {"group": group, "topic": NAME})
            path = path.replace("SENT", "SENT0").replace("HALF0", "HALF0")
            query = filled(case.query, words).replace("key=k", "key=KEYMARK")
            found.append(f"{path}?{query}" if query else path)
    ids = {
        "/jobs": [words["job"]],
        "/scheduled": ["WAIT0"],
        "/transactions": ["HALF0"],
        "/m/": ["SENT0", "SENT1", "WAIT0", "HALF0"],
        "/trace": ["SENT0", "WAIT0", "HALF0"],
        "/groups": ["1"],
        "/clients": ["client-1"],
        "/alerts": ["1"],
    }
    topics = [NAME, f"{NAME}-later", f"{NAME}-half", f"%DLQ%{GROUP}", "%RETRY%again"]
    topics += ["rmq_sys_wheel_timer", "RMQ_SYS_TRANS_HALF_TOPIC", "SCHEDULE_TOPIC_XXXX"]
    queries = (
        "", "format=json", "by=key&key=KEYMARK&topic={topic}", "by=key&key=KEYMARK",
        "topic={topic}&since=all", "topic={topic}&since=all&view=json&fields=a&format=json",
        "topic={topic}&since=all&contains=BODYMARK", "by=id&id=SENT0", "q=SENT0", "q=KEYMARK",
        "by=offset&topic={topic}", "by=failed", "by=slowest&format=json", "key=KEYMARK", "view=hex",
        "from={topic}:0:0", "with={topic}:0:0", "with=SENT0&format=json",
        "format=ndjson&topic={topic}&since=all", "format=xlsx", "body=all",
        "topic={topic}&key=KEYMARK&format=json", "offset=0", "state=all&format=json",
        "topic={topic}&filter=SQL92: own = 'PROPERTYMARK'&since=all",
    )  # fmt: skip
    named = {"queue": "0", "offset": "0", "report": "latency", "job": "lag", "message": "SENT0"}
    for route in router.routes:
        path = getattr(route, "path", "")
        if "GET" not in (getattr(route, "methods", None) or ()) or path in ENDLESS:
            continue
        path = re.sub(r":path\}", "}", path)
        for id in next((ids[f] for f in ids if path.startswith(f)), [""]):
            for group in (GROUP, "again"):
                for topic in topics if "{topic}" in path else topics[:1]:
                    here = filled(path, named | {"id": id, "group": group, "name": "ann"})
                    here = here.replace("{topic}", topic.replace("%", "%25"))
                    asked = queries if path.startswith(OF_MESSAGES) else queries[:2]
                    found += [f"{here}?{query.replace('{topic}', topic)}" for query in asked]
    for topic in topics:
        found += [f"/api/v1/topics/{topic.replace('%', '%25')}/messages",
                  f"/api/v1/topics/{topic.replace('%', '%25')}/messages/0/0",
                  f"/api/v1/topics/{topic.replace('%', '%25')}/search?contains=BODYMARK",
                  f"/messages?topic={topic}&since=all"]  # fmt: skip
    found += [f"/api/v1/messages/{id}" for id in ("SENT0", "WAIT0", "HALF0")]
    found += ["/api/v1/search?q=KEYMARK", "/api/v1/search?q=SENT0"]
    return list(dict.fromkeys(found))


def marks_in(answer: httpx.Response, path: str) -> list[str]:
    """The marks in an answer, but for those that the address itself names."""
    text = answer.text + answer.content.hex()
    asked = [mark for mark in MARKS if mark in path]
    texts = [*MARKS, *(mark.encode().hex() for mark in MARKS), "Qk9EWU1BUks", "42 4f 44 59"]
    return [mark for mark in texts if mark in text and mark not in asked
            and not any(mark == one.encode().hex() for one in asked)]  # fmt: skip


async def test_nothing_shows_a_message_to_whom_may_not_read_it(
    site: tuple[App, dict[str, str]],
) -> None:
    app, words = site
    paths = reads(words)
    leaks: list[str] = []
    async with client_of(app, WATCHER) as http:
        for path in paths:
            answer = await http.get(path, headers={"accept": "text/html, application/json"})
            if answer.status_code >= 500:
                leaks.append(f"GET {path}: {answer.status_code}")
            leaks += [f"GET {path}: {mark}" for mark in marks_in(answer, path)]
    assert not leaks, "\n".join(leaks[:80])


@pytest.mark.parametrize("person", UNREAD, ids=lambda person: person.name)
async def test_no_operation_gives_a_body_to_whom_may_not_read_it(
    site: tuple[App, dict[str, str]], person: Person
) -> None:
    app, words = site
    paths = [path for path in reads(words) if path.startswith("/api/")]
    paths += [f"/messages/{NAME}/0/0", f"/dlq/{GROUP}/0", f"/topics/{NAME}/messages", "/scheduled"]
    leaks: list[str] = []
    async with client_of(app, person) as http:
        for path in paths:
            answer = await http.get(path)
            leaks += [f"GET {path}: {mark}" for mark in marks_in(answer, path)]
    assert not leaks, "\n".join(leaks)


async def test_whoever_may_read_messages_sees_them_at_the_same_doors(
    site: tuple[App, dict[str, str]],
) -> None:
    app, words = site
    shown = set()
    async with client_of(app, VIEWER) as http:
        for path in reads(words):
            if not path.startswith((*OF_MESSAGES, "/api/", "/topics/", "/dlq/")):
                continue
            answer = await http.get(path, headers={"accept": "text/html, application/json"})
            assert answer.status_code < 500, f"GET {path}: {answer.text}"
            if "BODYMARK" in answer.text and "BODYMARK" not in path:
                shown.add(re.sub(r"[?].*", "", path).replace(NAME, "t"))
    for path in (
        "/api/v1/topics/t/messages", "/api/v1/topics/t/messages/0/0", "/api/v1/messages/SENT0",
        "/api/v1/topics/t/messages/by-key", "/api/v1/groups/billing/dead-letters",
        "/api/v1/groups/billing/dead-letters/0", "/api/v1/scheduled", "/api/v1/search",
        "/messages", "/messages/export", "/messages/t/0/0", "/messages/t/0/0/raw",
        "/messages/t/0/0/compare",
        "/topics/t/messages", "/tail", "/dlq/billing/0", "/dlq/billing/0/raw",
        "/dlq/billing/export", "/scheduled", "/transactions",
    ):  # fmt: skip
        assert path in shown, f"{path} shows nothing of the marker: {sorted(shown)}"


async def test_a_page_says_which_right_is_missing_and_shows_the_rest(
    site: tuple[App, dict[str, str]],
) -> None:
    app, _ = site
    async with client_of(app, WATCHER) as http:
        page = (await http.get(f"/messages/{NAME}/0/0")).text
        assert "You do not have permission to read message bodies of this topic." in page
        assert f"read_messages:topic:{NAME}" in page
        assert "SENT0" in page
        as_part = {"hx-request": "true", "hx-request-type": "partial"}
        as_part["hx-target"] = "div#message-drawer"
        drawer = (await http.get(f"/messages/{NAME}/0/0", headers=as_part)).text
        assert f"read_messages:topic:{NAME}" in drawer
        assert "<html" not in drawer
        assert "SENT0" in drawer
        assert not [mark for mark in MARKS if mark in drawer]
        letter = (await http.get(f"/dlq/{GROUP}/0")).text
        assert f"read_messages:group:{GROUP}" in letter
        assert "no stock" in letter, "what its consumer said is no part of the message"
        dead = (await http.get(f"/api/v1/groups/{GROUP}/dead-letters")).json()["items"]
        assert dead[0]["message"]["missing_right"] == f"read_messages:group:{GROUP}"
        refused = await http.get(f"/api/v1/topics/{NAME}/messages")
        assert refused.status_code == 403
        assert f"read_messages:topic:{NAME}" in json.dumps(refused.json())


async def test_comparing_needs_the_right_to_read_both_messages(
    site: tuple[App, dict[str, str]],
) -> None:
    app, _ = site
    reader = Person("reads", "admin", (), "viewer", ("read_messages:topic:*",), True, "ann")
    async with client_of(app, reader) as http:
        path = f"/messages/{NAME}/0/0/compare"
        beside = await http.get(f"{path}?with={NAME}:0:1")
        assert (beside.status_code, "BODYMARK" in beside.text) == (200, True)
        for other in (f"%DLQ%{GROUP}:0:0", f"%DLQ%{GROUP}:0:1"):
            refused = await http.get(path, params={"with": other})
            assert (refused.status_code, marks_in(refused, "")) == (403, [])


async def test_whoever_may_consume_gets_bodies_by_consuming_alone(
    site: tuple[App, dict[str, str]],
) -> None:
    app, _ = site
    patterns = ("consume:topic:*", "consume:group:*")
    consumer = Person("eats", "admin", (), "operator", patterns, True, "ann")
    async with client_of(app, consumer) as http:
        got = await http.post("/api/v1/groups/again/receive", json={"topic": NAME})
        assert "BODYMARK" in got.text
        pulled = await http.get(f"/api/v1/topics/{NAME}/messages?group=again")
        assert "BODYMARK" in pulled.text
        assert (await http.get(f"/api/v1/topics/{NAME}/messages")).status_code == 403


async def test_the_live_stream_conceals_what_may_not_be_read(
    site: tuple[App, dict[str, str]],
) -> None:
    app, _ = site
    messaging = app.app.services.messaging
    for role, patterns, is_shown in (
        (Role.VIEWER, (), False),
        (Role.OPERATOR, ("produce:topic:*",), False),
        (Role.VIEWER, ("read_messages:topic:*",), True),
    ):
        tail = await Tail.begin(messaging, [NAME], "*", mark="0-0-0", now_ms=0)
        batch = await tail.read()
        assert batch.messages
        event = _event(Principal("w", (Grant(role, patterns),)), batch, UTC_ZONE.rules)
        assert (b"BODYMARK" in event) is is_shown
        assert (b"KEYMARK" in event) is is_shown
