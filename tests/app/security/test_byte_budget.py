"""The budget of bytes: shares, the reserve for small requests, eviction; and REST under it."""

import asyncio
import gc
import socket
import weakref
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from app.security.byte_budget import (
    SMALL_BYTES,
    BudgetExceeded,
    ByteBudget,
    ByteLimits,
    ByteReservation,
    RefusalReason,
)
from app.security.request_limits import RequestLimits
from app.settings import SettingsError, load
from tests.app.conftest import App, Starter
from tests.live import LiveServer
from tests.patience import until

KIB, MIB = 1024, 1024 * 1024
SEND = "/api/v1/topics/orders/messages"


def budget_of(all_max: int, address_max: int = 0, caller_max: int = 0) -> ByteBudget:
    return ByteBudget(
        ByteLimits(
            all_max=all_max,
            address_max=address_max or all_max,
            caller_max=caller_max or all_max,
            connection_max=all_max,
        )
    )


def never() -> None:
    raise AssertionError("it was evicted")


def whole(budget: ByteBudget, address: str, size_bytes: int, caller: str = "") -> ByteReservation:
    """A request that has arrived, and is not evicted."""
    hold = budget.reserve(address, caller, never)
    hold.settle()
    hold.take(size_bytes)
    return hold


def refused(hold: ByteReservation, size_bytes: int) -> RefusalReason:
    with pytest.raises(BudgetExceeded) as raised:
        hold.take(size_bytes)
    return raised.value.reason


# -- the budget itself -----------------------------------------------------------------------------


def test_an_address_holds_no_more_than_its_share_and_others_go_on() -> None:
    budget = budget_of(10 * MIB, address_max=4 * MIB)
    held = whole(budget, "a", 4 * MIB)
    assert refused(budget.reserve("a", "", never), MIB) is RefusalReason.ADDRESS
    whole(budget, "b", 4 * MIB)
    held.close()
    whole(budget, "a", 4 * MIB)
    assert budget.refused == {RefusalReason.ADDRESS: 1}


def test_a_caller_holds_no_more_than_its_share_from_many_addresses() -> None:
    budget = budget_of(10 * MIB, caller_max=4 * MIB)
    whole(budget, "a", 3 * MIB, "ann/ci")
    assert refused(budget.reserve("b", "ann/ci", never), 2 * MIB) is RefusalReason.CALLER
    whole(budget, "b", 2 * MIB, "ann/other")


def test_small_requests_that_are_counted_together_stay_within_each_limit() -> None:
    budget = budget_of(10 * MIB, address_max=4 * MIB, caller_max=2 * MIB)
    assert budget.take_whole("a", "ann/ci", 2 * MIB)
    assert not budget.take_whole("a", "ann/ci", 1)
    assert budget.take_whole("a", "", 2 * MIB)
    assert not budget.take_whole("a", "", 1)
    assert budget.used_bytes == 4 * MIB
    budget.give_small("a", "ann/ci", 2 * MIB)
    budget.give_small("a", "", 2 * MIB)
    assert (budget.used_bytes, budget.most_of_one_address) == (0, 0)


def test_a_small_request_is_taken_while_large_ones_fill_everything() -> None:
    budget = budget_of(8 * MIB)
    whole(budget, "a", 8 * MIB)
    whole(budget, "b", SMALL_BYTES)
    assert refused(budget.reserve("c", "", never), SMALL_BYTES + 1) is RefusalReason.ALL
    for _ in range(MIB // SMALL_BYTES - 1):
        whole(budget, "c", SMALL_BYTES)
    assert refused(budget.reserve("d", "", never), 1) is RefusalReason.ALL
    assert budget.used_bytes == 9 * MIB  # the bound of everything: an eighth more


def test_who_holds_the_most_loses_an_unfinished_request_to_who_holds_less() -> None:
    budget = budget_of(8 * MIB)
    ended: list[str] = []
    for number, size_bytes in enumerate((2 * MIB, 3 * MIB, 2 * MIB)):
        budget.reserve("a", "", lambda number=number: ended.append(f"a{number}")).take(size_bytes)
    whole(budget, "b", MIB)
    small = budget.reserve("b", "", never)
    small.take(MIB)
    assert ended == ["a1"]
    assert budget.refused == {RefusalReason.EVICTED: 1}


def test_nobody_wins_room_by_asking_for_more_than_others_hold() -> None:
    budget = budget_of(8 * MIB)
    for address in ("a", "b"):
        budget.reserve(address, "", never).take(4 * MIB)
    assert refused(budget.reserve("c", "", never), 4 * MIB) is RefusalReason.ALL


def test_what_is_given_back_twice_counts_once() -> None:
    budget = budget_of(8 * MIB)
    hold = whole(budget, "a", MIB, "ann")
    hold.name("bob")
    hold.close()
    hold.close()
    hold.give(MIB)
    assert (budget.used_bytes, budget.most_of_one_address) == (0, 0)
    whole(budget, "a", 8 * MIB, "bob")


def test_a_share_smaller_than_one_request_is_refused_at_the_start(tmp_path: Path) -> None:
    for name in ("inflight_address_bytes_max", "inflight_caller_bytes_max"):
        with pytest.raises(SettingsError, match=name):
            load({"data": str(tmp_path), name: "1000"}, environ={})


# -- over REST -------------------------------------------------------------------------------------


@pytest.fixture
def server(tmp_path: Path) -> Iterator[LiveServer]:
    server = LiveServer(tmp_path / "data", request_bytes_max=2 * MIB, inflight_bytes_max=4 * MIB)
    server.start()
    yield server
    server.stop()


@contextmanager
def begun(
    server: LiveServer, length: int | None, sent: bytes = b"", source: str = "127.0.0.1"
) -> Iterator[socket.socket]:
    """A send of which so much has been sent; without a length it is chunked."""
    framing = "Transfer-Encoding: chunked" if length is None else f"Content-Length: {length}"
    head = f"POST {SEND} HTTP/1.1\r\nHost: 127.0.0.1\r\n{framing}\r\n\r\n".encode()
    where = ("127.0.0.1", server.port)
    with closing(socket.create_connection(where, 30, source_address=(source, 0))) as link:
        link.sendall(head + sent)
        yield link


def held(server: LiveServer) -> int:
    assert server.app is not None
    budget = server.app.services.request_limits.budget
    return int(server.call(lambda: budget.used_bytes))


def status_of(link: socket.socket) -> int:
    return int(link.recv(4096).split(b" ", 2)[1])


def test_a_body_that_is_only_announced_holds_nothing(server: LiveServer) -> None:
    links = [begun(server, 2 * MIB) for _ in range(8)]
    for link in links:
        link.__enter__()
    answer = httpx.post(f"{server.url}{SEND}", content=bytes(2 * MIB))
    assert answer.status_code == 201, answer.text
    assert held(server) == 0
    for link in links:
        link.__exit__(None, None, None)


@pytest.mark.parametrize("is_chunked", [False, True])
def test_what_has_arrived_of_a_body_is_held_until_its_connection_ends(
    server: LiveServer, is_chunked: bool
) -> None:
    body = bytes(MIB)
    sent = b"%x\r\n%b\r\n" % (len(body), body) if is_chunked else body
    with begun(server, None if is_chunked else 2 * MIB, sent):
        until(lambda: held(server) == MIB)
    until(lambda: held(server) == 0)


def test_an_address_over_its_share_is_a_429_and_another_one_is_served(server: LiveServer) -> None:
    sent = bytes(2 * MIB - 1)
    with begun(server, 2 * MIB, sent):
        until(lambda: held(server) == len(sent))
        with begun(server, 2 * MIB, bytes(MIB)) as over:
            assert status_of(over) == 429
        small = httpx.post(f"{server.url}{SEND}", content=b"1")
        assert small.status_code == 201, "a small one of the same address is served"
        with begun(server, MIB, bytes(MIB), source="127.0.0.9") as other:
            assert status_of(other) == 201


def test_an_unfinished_body_is_a_503_where_another_address_needs_its_room(
    server: LiveServer,
) -> None:
    sent = bytes(2 * MIB - 1)
    with begun(server, 2 * MIB, sent) as first, begun(server, 2 * MIB, sent, "127.0.0.8"):
        until(lambda: held(server) == 2 * len(sent))
        with begun(server, MIB, bytes(MIB), source="127.0.0.9") as other:
            assert status_of(other) == 201
        assert held(server) == len(sent)
        metrics = httpx.get(f"{server.url}/metrics").text
        assert 'kitemq_request_bytes_refused_total{reason="evicted"} 1' in metrics
        assert f"kitemq_request_bytes_held {len(sent)}" in metrics
        assert f"kitemq_request_bytes_held_by_one_address {len(sent)}" in metrics
        del first


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/login"),
        ("GET", "/healthz"),
        ("GET", "/metrics"),
        ("GET", "/static/style.css"),
        ("GET", "/api/v1/topics"),
    ],
)
async def test_what_needs_no_body_takes_only_a_small_one(
    start: Starter, method: str, path: str
) -> None:
    async with start() as app:
        answer = await app.http.request(method, path, content=bytes(16 * KIB + 1))
        assert (answer.status_code, answer.json()["code"]) == (413, "body_too_large")
        assert "16384" in answer.json()["detail"]
        answer = await app.http.request(method, path, content=bytes(16 * KIB))
        assert answer.status_code != 413


@pytest.mark.anyio
async def test_the_largest_length_that_can_be_written_is_a_413(start: Starter) -> None:
    async with start() as app:
        for length, status in (("9" * 6000, 413), ("0" * 6000 + "2", 201), ("-1", 400)):
            headers = {"content-length": length}
            answer = await app.http.post(SEND, content=b"{}", headers=headers)
            assert answer.status_code == status, length[:9]


@pytest.mark.anyio
async def test_a_refused_request_leaves_nothing_for_the_collector(start: Starter) -> None:
    """Its error knows its frames, they know its scope: with the body, all would stay for long."""

    class Receiver:
        async def __call__(self) -> dict[str, Any]:
            return {"type": "http.request", "body": b"{", "more_body": False}

    async with start() as app:
        answers: list[dict[str, Any]] = []
        gc.collect()
        gc.disable()
        try:
            watched = await asked(app, Receiver(), answers.append)
            assert answers[0]["status"] == 400
            assert watched() is None
        finally:
            gc.enable()


async def asked(
    app: App, receive: Any, answer: Callable[[dict[str, Any]], None]
) -> "weakref.ref[Any]":
    """Send one request whose body `receive` gives; what tells whether that is still there."""

    async def send(message: dict[str, Any]) -> None:
        answer(message)

    headers = [
        (b"host", b"127.0.0.1:8080"),
        (b"content-length", b"1"),
        (b"content-type", b"application/json"),
    ]
    scope = {
        "type": "http", "http_version": "1.1", "method": "POST", "path": "/api/v1/topics",
        "raw_path": b"/api/v1/topics", "query_string": b"", "headers": headers,
        "client": ("127.0.0.1", 5), "server": ("127.0.0.1", 8080), "scheme": "http",
    }  # fmt: skip
    await asyncio.ensure_future(app.app(scope, receive, send))
    return weakref.ref(receive)


def load_of(budget: ByteBudget) -> RequestLimits:
    return RequestLimits(budget, client_requests_max=100, requests_max=100, request_bytes_max=5000)


def test_small_bodies_that_are_announced_fill_an_eighth_at_most() -> None:
    load = load_of(budget_of(80_000))
    assert load.take_small(b"5000") == 5000
    assert load.take_small(b"5000") == 5000
    assert load.used_bytes == 10_000
    assert load.take_small(b"1") == 0  # from here on bodies count as they arrive
    for _ in range(2):
        load.enter("a")
        load.leave("a", 5000)
    assert load.used_bytes == 0
    assert load.take_small(b"0005") == 5


@pytest.mark.parametrize(
    "length", [b"", b"0", b"-1", b"+5", b" 5", b"5_0", b"x", b"5001", b"10000"]
)
def test_only_a_plain_small_length_is_counted_from_the_start(length: bytes) -> None:
    load = load_of(budget_of(MIB))
    assert load.take_small(length) == 0
    assert load.used_bytes == 0
