"""Webhooks against a real server on the loopback: signed, in order, repeated, bounded."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator

import pytest

from app.db.alert_rows import DeliveryRow, StateChanges
from app.db.worker import DatabaseWorker
from app.services.alerts.events import DELIVERED, FAILED, WAITING, Teller, signature
from app.services.alerts.notifier import Notifier, settle
from app.services.alerts.receivers import by_setting
from app.services.alerts.webhook import PostOutcome, host_of
from app.services.targets import Targets
from app.settings import Settings
from engine.clock import SystemClock
from tests.app.conftest import Starter
from tests.receivers import LIMIT_S, HookServer, hook_server

pytestmark = [pytest.mark.anyio, pytest.mark.databases]

SECRET = "a key that both sides know"
NOW_MS = 1_700_000_000_000


@pytest.fixture
def receiver() -> Iterator[HookServer]:
    with hook_server() as server:
        yield server


@pytest.fixture
async def database(url: str) -> AsyncIterator[DatabaseWorker]:
    worker = DatabaseWorker(url)
    yield worker
    await worker.close()


async def add(database: DatabaseWorker, url: str, *names: str) -> None:
    """Rows that wait to be told, as an evaluation writes them."""
    teller = Teller(by_setting(Settings(alert_webhooks=(url,))), "test")
    now_ms = SystemClock().now_ms()
    rows = tuple(row for name in names for row in teller.test(name, now_ms))
    await database.run(lambda db: db.alerts.apply(StateChanges(deliveries=rows)))


async def until_settled(database: DatabaseWorker) -> list[DeliveryRow]:
    """The deliveries, the oldest first, once none waits any more."""
    async with asyncio.timeout(LIMIT_S):
        while True:
            rows = await database.run(lambda db: db.alerts.deliveries(200))
            if rows and all(row.result != WAITING for row in rows):
                return rows[::-1]
            await asyncio.sleep(0.02)


def hooks(database: DatabaseWorker, url: str, secret: str = "") -> Notifier:
    settings = Settings(alert_webhooks=(url,), alert_webhook_secret=secret)
    return Notifier(
        database,
        SystemClock(),
        by_setting(settings),
        targets=Targets(Settings()),
        backoff_s=(0.01, 0.02, 0.03),
    )


async def test_a_refused_event_is_sent_again_until_it_is_accepted(
    database: DatabaseWorker, receiver: HookServer
) -> None:
    receiver.statuses = [500, 503, 204]
    await add(database, receiver.url, "one")
    webhooks = hooks(database, receiver.url)
    webhooks.start()
    (row,) = await until_settled(database)
    await webhooks.stop()
    assert (row.result, row.attempts, row.status) == (DELIVERED, 3, 204)
    assert receiver.ids == ["one", "one", "one"]


async def test_sending_again_has_an_end(database: DatabaseWorker, receiver: HookServer) -> None:
    receiver.statuses = [500]
    await add(database, receiver.url, "one")
    webhooks = hooks(database, receiver.url)
    webhooks.start()
    (row,) = await until_settled(database)
    await webhooks.stop()
    assert (row.result, row.attempts, row.status) == (FAILED, 4, 500)
    assert row.error == "the answer was 500"
    assert len(receiver.got) == 4


async def test_what_the_receiver_will_never_take_is_given_up_and_the_next_is_sent(
    database: DatabaseWorker, receiver: HookServer
) -> None:
    receiver.statuses = [404, 200]
    await add(database, receiver.url, "one", "two")
    webhooks = hooks(database, receiver.url)
    webhooks.start()
    rows = await until_settled(database)
    await webhooks.stop()
    assert [(row.event_id, row.result, row.attempts) for row in rows] == [
        ("one", FAILED, 1),
        ("two", DELIVERED, 1),
    ]


async def test_events_keep_their_order_over_failures(
    database: DatabaseWorker, receiver: HookServer
) -> None:
    receiver.statuses = [500, 200]
    await add(database, receiver.url, "firing", "resolved")
    webhooks = hooks(database, receiver.url)
    webhooks.start()
    await until_settled(database)
    await webhooks.stop()
    assert receiver.ids == ["firing", "firing", "resolved"]


async def test_nobody_there_is_a_failure_with_its_reason(database: DatabaseWorker) -> None:
    url = "http://127.0.0.1:9/hook"
    await add(database, url, "one")
    webhooks = hooks(database, url)
    webhooks.start()
    (row,) = await until_settled(database)
    await webhooks.stop()
    assert (row.result, row.status) == (FAILED, None)
    assert "ConnectError" in row.error


async def test_a_signed_body_can_be_checked_by_who_knows_the_key(
    database: DatabaseWorker, receiver: HookServer
) -> None:
    await add(database, receiver.url, "one")
    webhooks = hooks(database, receiver.url, SECRET)
    webhooks.start()
    await until_settled(database)
    await webhooks.stop()
    ((headers, body),) = receiver.got
    assert headers["kitemq-signature"] == signature(SECRET, headers["kitemq-timestamp"], body)
    assert headers["kitemq-delivery"] == json.loads(body)["id"] == "one"
    assert headers["content-type"] == "application/json"


async def test_an_event_is_kept_once_for_an_address(
    database: DatabaseWorker, receiver: HookServer
) -> None:
    from app.db.rows import DatabaseError

    await add(database, receiver.url, "one")
    with pytest.raises(DatabaseError):
        await add(database, receiver.url, "one")


async def test_more_than_can_wait_are_dropped_and_say_so(
    database: DatabaseWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.db.alert_store.WAITING_MAX", 2)
    await add(database, "http://127.0.0.1:9/", "one", "two", "three")
    rows = await database.run(lambda db: db.alerts.deliveries(10))
    assert [row.result for row in rows] == ["dropped", WAITING, WAITING]
    assert "waited already" in rows[0].error


async def test_history_is_cut_at_its_limit(
    database: DatabaseWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.db.alert_store.HISTORY_MAX", 3)
    for number in range(5):
        await add(database, "http://127.0.0.1:9/", str(number))
    rows = await database.run(lambda db: db.alerts.deliveries(10))
    assert [row.event_id for row in rows] == ["4", "3", "2"]


async def test_what_waits_goes_on_after_a_restart_and_says_what_fires(
    start: Starter, receiver: HookServer
) -> None:
    async with start(alert_webhooks=("http://127.0.0.1:9/", receiver.url)) as app:
        await app.app.services.alerts.stop()  # as if the process had died before sending
        made = {"name": "behind", "kind": "lag", "threshold": 0, "for_s": 0}
        await app.post("/alerts/rules", made, 201)
        await app.send("orders", "x")
        await app.receive("billing", "orders", max=1)
        await app.app.services.alerts.evaluate()
        assert receiver.got == []
    async with start(alert_webhooks=(receiver.url,), environment="staging") as app:
        app.clock.set_ms(SystemClock().now_ms())
        async with asyncio.timeout(LIMIT_S):
            while not receiver.got:
                await asyncio.sleep(0.02)
        body = json.loads(receiver.got[0][1])
        assert (body["event"], body["subject"], body["value"]) == ("firing", "billing", 1)
        assert body["rule"]["name"] == "behind"
        assert "orders" not in body["text"]
        await app.get("/alerts")
        rows = await app.app.services.alerts.deliveries(10)
        (abandoned,) = [row for row in rows if row.url == "http://127.0.0.1:9/"]
        assert (abandoned.result, abandoned.attempts) == (FAILED, 0)


@pytest.mark.parametrize("status", [301, 400, 401, 404, 410])
def test_a_final_refusal_is_not_repeated(status: int) -> None:
    assert PostOutcome(status, "no").is_final


@pytest.mark.parametrize("status", [None, 408, 425, 429, 500, 502])
def test_what_may_pass_is_tried_again(status: int | None) -> None:
    assert not PostOutcome(status, "no").is_final


def test_waits_between_attempts_grow() -> None:
    row = Teller(by_setting(Settings(alert_webhooks=("http://h/",))), "").test("one", NOW_MS)[0]
    waits = []
    for _ in range(4):
        row = settle(row, PostOutcome(500, "no"), NOW_MS, (5, 30, 120))
        waits.append((row.result, row.next_ms - NOW_MS))
    assert waits[:3] == [(WAITING, 5_000), (WAITING, 30_000), (WAITING, 120_000)]
    assert row.result == FAILED


def test_an_address_is_shown_without_what_may_be_secret() -> None:
    assert host_of("https://u:p@hooks.example.org:8443/T0/B1?token=x") == (
        "https://hooks.example.org:8443"
    )
