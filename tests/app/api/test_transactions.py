"""Transactions at the endpoints: deciding, listing, and the three ways of being asked."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from websockets.sync.client import ClientConnection, connect

from app.services.transactions import LiveProducers
from tests.app.conftest import App, Starter
from tests.live import LiveServer
from tests.patience import until as wait_until

pytestmark = pytest.mark.anyio

WAIT_S = 10.0


async def begin(app: App, *bodies: str, group: str = "g", **fields: object) -> list[str]:
    """Send half messages to `t`; their ids."""
    sent = await app.send("t", *bodies, transaction_group=group, **fields)
    return [message["message_id"] for message in sent]


async def decide(app: App, name: str, verb: str, status: int = 200, query: str = "") -> Any:
    answer = await app.http.post(f"/api/v1/transactions/{name}/{verb}{query}")
    assert answer.status_code == status, answer.text
    return answer.json()


async def until(is_true: Callable[[], bool]) -> None:
    async with asyncio.timeout(WAIT_S):
        while not is_true():
            await asyncio.sleep(0.005)


async def test_a_message_is_seen_only_after_its_commit(running: App) -> None:
    await running.post("/topics", {"name": "t", "type": "TRANSACTION"}, 201)
    first, second = await begin(running, "a", "b", tag="x")
    assert await running.receive("consumers", "t", max=10) == []
    done = await decide(running, first, "commit")
    assert (done["state"], done["topic"], done["offset"]) == ("committed", "t", "0")
    assert await decide(running, first, "commit") == done
    assert (await decide(running, second, "rollback"))["state"] == "rolled_back"
    (delivery,) = await running.receive("consumers", "t", max=10)
    assert (delivery["message_id"], delivery["body"]) == (first, "a")
    found = await running.get(f"/messages/{first}")
    assert {item["topic"] for item in found["items"]} == {"t", "RMQ_SYS_TRANS_HALF_TOPIC"}


async def test_the_opposite_decision_is_a_409_that_says_what_was_decided(running: App) -> None:
    first, second = await begin(running, "a", "b")
    await decide(running, first, "commit")
    await decide(running, second, "rollback")
    assert (await decide(running, first, "rollback", 409))["code"] == "transaction_committed"
    assert (await decide(running, second, "commit", 409))["code"] == "transaction_rolled_back"
    missing = await decide(running, "NOBODYS", "commit", 404)
    assert missing["code"] == "transaction_not_found"
    assert (await decide(running, first, "unknown"))["state"] == "committed"


async def test_a_raw_body_can_be_a_half_message(running: App) -> None:
    answer = await running.http.post(
        "/api/v1/topics/t/messages",
        content=b"\xff",
        headers={"KiteMQ-Transaction-Group": "g", "Content-Type": "application/octet-stream"},
    )
    name = answer.json()["messages"][0]["message_id"]
    assert (await running.get(f"/transactions/{name}"))["message"]["body"] == "/w=="


async def test_what_cannot_be_a_transaction_names_the_field(running: App) -> None:
    await running.post("/topics", {"name": "plain"}, 201)
    new = {"body": "a", "transaction_group": "g"}
    refused = await running.post("/topics/plain/messages", new, 409)
    assert (refused["code"], refused["errors"][0]["field"]) == (
        "wrong_message_type",
        "transaction_group",
    )
    delayed = await running.post("/topics/t/messages", {**new, "delay_level": 3}, 422)
    assert delayed["errors"][0]["field"] == "delay_level"
    immune = await running.post("/topics/t/messages", {**new, "check_immunity_s": 90_000}, 422)
    assert immune["errors"][0]["field"] == "check_immunity_s"


async def test_undecided_transactions_are_listed_by_page_and_group(running: App) -> None:
    ids = await begin(running, *"abc")
    await begin(running, "x", group="other")
    page = await running.get("/transactions?group=g&limit=2")
    assert [item["transaction_id"] for item in page["items"]] == ids[:2]
    assert page["total"] == 4
    item = page["items"][0]
    assert (item["state"], item["topic"], item["checks"], item["offset"]) == (
        "pending",
        "t",
        0,
        None,
    )
    assert item["next_check_ms"] == running.clock.now_ms() + 6000
    assert (await running.get(f"/transactions/{item['half_offset_id']}"))["transaction_id"] == ids[
        0
    ]
    page = await running.get(f"/transactions?group=g&after={page['next']}")
    assert [item["transaction_id"] for item in page["items"]] == ids[2:]


async def test_a_poller_gets_a_check_once_and_answers_it(running: App) -> None:
    (name,) = await begin(running, "a", tag="x")
    running.advance(6)
    (check,) = (await running.post("/transactions/checks", {"group": "g"}))["checks"]
    assert (check["transaction_id"], check["number"]) == (name, 1)
    assert (check["message"]["topic"], check["message"]["body"]) == ("t", "a")
    assert (await running.post("/transactions/checks", {"group": "g"}))["checks"] == []
    await decide(running, name, "commit", query="?by=check")
    running.advance(60)
    assert (await running.post("/transactions/checks", {"group": "g"}))["checks"] == []
    assert len(await running.receive("consumers", "t")) == 1


async def test_an_operator_decides_or_resumes_what_was_given_up_and_is_audited(
    running: App,
) -> None:
    first, second = await begin(running, "a", "b")
    for _ in range(17):
        running.advance(30)
    page = await running.get("/transactions?given_up=true")
    assert [item["state"] for item in page["items"]] == ["given_up"] * 2
    assert (await decide(running, second, "resume"))["state"] == "pending"
    done = await decide(running, first, "commit", query="?by=operator")
    assert done["state"] == "committed"
    await decide(running, second, "commit")
    trail = (await running.get("/audit?object_kind=transaction"))["items"]
    assert [(entry["action"], entry["object_name"]) for entry in trail] == [
        ("transaction.commit", first),
        ("transaction.resume", second),
    ]
    assert json.loads(trail[0]["after_json"])["state"] == "committed"
    assert (await running.get("/transactions?given_up=true"))["items"] == []


async def test_a_commit_into_a_flushed_topic_answers_once_it_is_flushed(start: Starter) -> None:
    async with start(durability="flushed", flush_interval_s=0.01) as app:
        flusher = app.app.services.host.broker._store._flusher
        sending = asyncio.create_task(begin(app, "a"))
        await _tick_until(app, sending.done)
        (name,) = sending.result()
        flushed = flusher.flushed
        deciding = asyncio.create_task(decide(app, name, "commit"))
        await _tick_until(app, deciding.done)
        assert deciding.result()["state"] == "committed"
        assert flusher.flushed > flushed


async def _tick_until(app: App, is_true: Callable[[], bool]) -> None:
    async with asyncio.timeout(WAIT_S):
        while not is_true():
            app.advance(0.01)
            await asyncio.sleep(0.002)


# -- callbacks ----------------------------------------------------------------------------------


class Producer:
    """A program with an HTTP server of its own; remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []
        self.answer = b'{"decision": "commit"}'
        self.status = b"200 OK"
        self.wait_s = 0.0
        self.url = ""
        self.serving: list[asyncio.Task[Any]] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self.serving.append(task)
        try:
            await self._serve(reader, writer)
        except (asyncio.CancelledError, asyncio.IncompleteReadError, ConnectionError):
            pass  # the caller has gone, or the test has
        finally:
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        length = next(
            int(line.split(b":")[1])
            for line in head.split(b"\r\n")
            if line.lower().startswith(b"content-length")
        )
        self.asked.append(json.loads(await reader.readexactly(length)))
        await asyncio.sleep(self.wait_s)
        writer.write(
            b"HTTP/1.1 %s\r\nContent-Length: %d\r\nLocation: %s\r\nConnection: close\r\n\r\n"
            % (self.status, len(self.answer), self.url.encode())
        )
        writer.write(self.answer)
        await writer.drain()


@asynccontextmanager
async def producing() -> AsyncIterator[Producer]:
    producer = Producer()
    server = await asyncio.start_server(producer.serve, "127.0.0.1", 0)
    producer.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/check"
    try:
        yield producer
    finally:
        server.close()
        for task in producer.serving:
            task.cancel()
        await asyncio.gather(*producer.serving, return_exceptions=True)


async def register(app: App, url: str, status: int = 200, **fields: object) -> Any:
    answer = await app.http.put("/api/v1/transactions/callbacks/g", json={"url": url, **fields})
    assert answer.status_code == status, answer.text
    return answer.json()


@pytest.mark.parametrize(
    ("decision", "state"), [("commit", "committed"), ("rollback", "rolled_back")]
)
async def test_a_callback_decides_by_its_answer(running: App, decision: str, state: str) -> None:
    async with producing() as producer:
        producer.answer = json.dumps({"decision": decision}).encode()
        await register(running, producer.url)
        (name,) = await begin(running, "a")
        running.advance(6)
        transactions = running.app.services.host.broker.transactions
        await until(lambda: transactions.count == 0)
        assert (await running.get(f"/transactions/{name}"))["state"] == state
        (asked,) = producer.asked
        assert (asked["transaction_id"], asked["producer_group"], asked["number"]) == (name, "g", 1)
        assert (asked["message"]["topic"], asked["message"]["body"]) == ("t", "a")


@pytest.mark.parametrize(
    ("answer", "status"),
    [
        (b'{"decision": "unknown"}', b"200 OK"),
        (b'{"decision": "perhaps"}', b"200 OK"),
        (b"no json", b"200 OK"),
        (b"x" * 10_000, b"200 OK"),
        (b'{"decision": "commit"}', b"500 Oh"),
        (b'{"decision": "commit"}', b"302 Found"),
    ],
)
async def test_an_answer_that_decides_nothing_is_asked_for_again(
    running: App, answer: bytes, status: bytes
) -> None:
    async with producing() as producer:
        producer.answer, producer.status = answer, status
        await register(running, producer.url)
        (name,) = await begin(running, "a")
        caller = running.app.services.transactions._caller
        for number in (1, 2):
            running.advance(30)
            await until(lambda number=number: len(producer.asked) == number)  # type: ignore[misc]
            await until(lambda: not caller._tasks)
        assert (await running.get(f"/transactions/{name}"))["state"] == "pending"


async def test_a_callback_that_is_slow_or_gone_harms_nobody(running: App) -> None:
    async with producing() as producer:
        producer.wait_s = 30
        await register(running, producer.url, timeout_ms=50)
        await begin(running, "a")
        running.advance(6)
        caller = running.app.services.transactions._caller
        await until(lambda: len(producer.asked) == 1 and not caller._tasks)
    running.advance(30)
    await until(lambda: not caller._tasks)
    assert (await running.get("/transactions"))["total"] == 1


async def test_calls_under_way_are_bounded_and_the_rest_is_left_to_pollers(
    running: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.services.callbacks.CALLS_MAX", 1)
    monkeypatch.setattr("app.services.callbacks.WAITING_MAX", 1)
    async with producing() as producer:
        producer.wait_s = 30
        await register(running, producer.url)
        await begin(running, *"abcde")
        running.advance(6)
        polled = (await running.post("/transactions/checks", {"group": "g"}))["checks"]
        assert len(polled) == 3


async def test_callbacks_are_kept_listed_and_audited(start: Starter) -> None:
    async with start() as app:
        kept = await register(app, "https://example.org/check", timeout_ms=100)
        assert kept == {
            "group": "g",
            "url": "https://example.org/check",
            "timeout_ms": 100,
            "live_producers": 0,
        }
        for url in ("ftp://example.org", "http://u:p@example.org", "example.org", "http://a b/"):
            refused = await register(app, url, 422)
            assert refused["errors"][0]["field"] == "url"
    async with start() as app:
        assert await app.get("/transactions/callbacks/g") == kept
        assert (await app.get("/transactions/callbacks"))["items"] == [kept]
        gone = await app.http.delete("/api/v1/transactions/callbacks/g")
        assert gone.status_code == 204
        await app.get("/transactions/callbacks/g", 404)
        trail = (await app.get("/audit?object_kind=transaction_callback"))["items"]
        assert [entry["action"] for entry in trail] == [
            "transaction_callback.delete",
            "transaction_callback.set",
        ]


# -- live producers -----------------------------------------------------------------------------


def test_live_producers_are_asked_in_turn_and_who_has_no_room_is_passed_over() -> None:
    producers, asked = LiveProducers(), []
    has_room = {"a": True, "b": True, "c": False}

    def asker(name: str) -> Callable[[Any], bool]:
        return lambda _: has_room[name] and (asked.append(name) or True)

    asks = {name: asker(name) for name in "abc"}
    message = type("Message", (), {"is_compressed": False})
    check: Any = type("Check", (), {"producer_group": "g", "message": message})
    assert producers.ask(check) is False
    for ask in asks.values():
        producers.enter("g", ask)
    assert [producers.ask(check) for _ in range(4)] == [True] * 4
    assert asked == ["a", "b", "a", "b"]
    producers.leave("g", asks["a"])
    has_room["b"] = False
    assert producers.ask(check) is False
    producers.leave("g", asks["b"])
    producers.leave("g", asks["c"])
    assert producers.count("g") == 0


@pytest.fixture
def server(tmp_path: Path) -> Iterator[LiveServer]:
    live = LiveServer(
        tmp_path / "data", transaction_timeout_s=0.05, transaction_check_interval_s=0.3
    )
    live.start()
    try:
        yield live
    finally:
        live.stop()


class Peer:
    """A live producer that speaks the text form."""

    def __init__(self, socket: ClientConnection) -> None:
        self.socket = socket
        self.unheard: list[Any] = []  # such as a check that came before the answer to its send

    def say(self, **fields: Any) -> None:
        self.socket.send(json.dumps(fields))

    def hear(self, op: str) -> Any:
        for number, frame in enumerate(self.unheard):
            if frame["op"] == op:
                return self.unheard.pop(number)
        while True:
            heard = json.loads(self.socket.recv(WAIT_S))
            if heard["op"] == op:
                return heard
            assert heard["op"] != "error", heard
            self.unheard.append(heard)

    def begin(self, body: str, group: str = "g") -> str:
        document = {"body": body, "transaction_group": group}
        self.say(op="call", id=1, method="POST", path="/api/v1/topics/t/messages", json=document)
        return str(self.hear("answer")["json"]["messages"][0]["message_id"])


def test_a_live_producer_is_asked_over_its_connection_and_answers(server: LiveServer) -> None:
    with connect(server.socket_url) as socket:
        peer = Peer(socket)
        peer.say(op="checks_wanted", id=7, group="g")
        peer.hear("result")
        name = peer.begin("a")
        check = peer.hear("check")
        assert (check["wanted"], check["transaction_id"], check["number"]) == (7, name, 1)
        assert (check["topic"], check["body"], check["group"]) == ("t", "a", "g")
        peer.say(op="decide", id=8, transaction_id=name, decision="commit", is_check=True)
        assert peer.hear("decided") == {"op": "decided", "id": 8, "state": "committed"}
        peer.say(op="decide", id=9, transaction_id=name, decision="rollback")
        refused = json.loads(socket.recv(WAIT_S))
        assert (refused["op"], refused["id"], refused["code"]) == (
            "error",
            9,
            "transaction_committed",
        )


def test_another_live_producer_of_the_group_answers_for_one_that_died(server: LiveServer) -> None:
    with connect(server.socket_url) as socket:
        mine = Peer(socket)
        mine.say(op="checks_wanted", id=1, group="g")
        mine.hear("result")
        with connect(server.socket_url) as dying:
            other = Peer(dying)
            other.say(op="checks_wanted", id=1, group="g")
            name = other.begin("a")
        check = mine.hear("check")
        assert check["transaction_id"] == name
        mine.say(op="decide", id=2, transaction_id=name, decision="rollback", group="g")
        assert mine.hear("decided")["state"] == "rolled_back"


def test_who_comes_late_is_asked_what_was_waiting_and_who_leaves_is_not_asked(
    server: LiveServer,
) -> None:
    with connect(server.socket_url) as socket:
        peer = Peer(socket)
        name = peer.begin("a")

        def is_waiting() -> bool:
            return bool(server.broker.transactions._checker._waiting)

        wait_until(lambda: server.call(is_waiting), "the check did not begin")
        peer.say(op="checks_wanted", id=3, group="g")
        assert peer.hear("check")["transaction_id"] == name
        peer.say(op="checks_unwanted", id=4, wanted=3)
        peer.hear("result")
        producers = server.app.services.transactions.producers  # type: ignore[union-attr]
        assert server.call(lambda: producers.count("g")) == 0


def test_a_wish_for_checks_that_cannot_be_is_refused(server: LiveServer) -> None:
    with connect(server.socket_url) as socket:
        peer = Peer(socket)
        for fields, code in (
            ({"op": "checks_wanted", "id": 1, "group": ""}, "invalid"),
            (
                {"op": "decide", "id": 2, "transaction_id": "x", "decision": "commit"},
                "transaction_not_found",
            ),
        ):
            peer.say(**fields)
            assert json.loads(socket.recv(WAIT_S))["code"] == code
        peer.say(op="checks_wanted", id=5, group="g")
        peer.hear("result")
        peer.say(op="checks_wanted", id=5, group="h")
        assert json.loads(socket.recv(WAIT_S))["code"] == "conflict"


async def test_the_console_tells_when_a_transaction_began_and_when_it_was_given_up(
    running: App,
) -> None:
    begun_ms = running.clock.now_ms()
    (name,) = await begin(running, "a")
    assert (await rows(running, "pending"))[0]["begun_ms"] == begun_ms
    for _ in range(17):
        running.advance(30)
    (row,) = await rows(running, "given_up")
    assert row["begun_ms"] == begun_ms
    assert row["given_up_ms"] == begun_ms + 16 * 30_000
    page = (await running.http.get("/transactions?kind=given_up")).text
    assert ">Given up</th>" in page
    await decide(running, name, "resume")
    (row,) = await rows(running, "pending")
    assert (row["begun_ms"], row["given_up_ms"]) == (begun_ms, None)


async def rows(app: App, kind: str) -> Any:
    return (await app.http.get(f"/transactions?kind={kind}&format=json")).json()["rows"]
