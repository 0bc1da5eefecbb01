"""Receivers made while the server runs: whom a rule notifies, when, in which form, and secretly."""

import asyncio
import base64
import json
import logging
import ssl
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from app.db.alert_rows import ReceiverRow
from app.grpc.certificate import CERTIFICATE_FILE, KEY_FILE, make_own
from app.services.alerts.events import signature
from app.services.alerts.quiet_hours import quiet_until_ms
from engine.clock import SystemClock
from tests.app.conftest import App, Starter
from tests.receivers import LIMIT_S, HookServer, hook_server, smtp_server

pytestmark = [pytest.mark.anyio, pytest.mark.databases]

SECRET = "a key that both sides know"
PASSWORD = "correct horse"
RULE = {"kind": "lag", "group_pattern": "billing", "threshold": 0, "for_s": 0}
MAIL = {
    "name": "mail", "kind": "email", "smtp_host": "127.0.0.1", "smtp_security": "none",
    "mail_from": "kitemq@example.org", "mail_to": ["ann@example.org", "bob@example.org"],
}  # fmt: skip


@pytest.fixture
def hook() -> Iterator[HookServer]:
    with hook_server() as server:
        yield server


async def add(app: App, hook: HookServer, **fields: object) -> Any:
    given = {"name": "on call", "kind": "webhook", "url": hook.url}
    return await app.post("/alerts/receivers", given | fields, 201)


async def settled(app: App, count: int = 1) -> list[Any]:
    """The deliveries, the oldest first, once `count` are there and none waits any more."""
    app.clock.set_ms(SystemClock().now_ms())
    async with asyncio.timeout(LIMIT_S):
        while True:
            items = (await app.get("/alerts/deliveries"))["items"]
            if len(items) >= count and all(item["result"] != "waiting" for item in items):
                return list(reversed(items))
            await asyncio.sleep(0.02)


async def fire(app: App, name: str = "behind", **fields: object) -> Any:
    """A rule that fires for billing, evaluated; its id."""
    made = await app.post("/alerts/rules", RULE | {"name": name} | fields, 201)
    await app.send("orders", "x")
    await app.receive("billing", "orders", max=1, invisible_ms=3_600_000)
    await app.app.services.alerts.evaluate()
    return made["id"]


async def test_a_receiver_is_notified_signed_and_its_secrets_are_never_shown(
    running: App, hook: HookServer, caplog: pytest.LogCaptureFixture
) -> None:
    made = await add(running, hook, signing_secret=SECRET)
    assert (made["address"], made["has_signing_secret"]) == (hook.url.partition("/hook")[0], True)
    await fire(running)
    (delivery,) = await settled(running)
    assert (delivery["result"], delivery["receiver"], delivery["status"]) == (
        "delivered",
        "on call",
        200,
    )
    ((headers, body),) = hook.got
    assert headers["kitemq-signature"] == signature(SECRET, headers["kitemq-timestamp"], body)
    assert json.loads(body)["event"] == "firing"
    changed = {"group_s": 5}
    await running.http.patch(f"/api/v1/alerts/receivers/{made['id']}", json=changed)
    texts = [
        json.dumps(await running.get(path))
        for path in ("/alerts/receivers", f"/alerts/receivers/{made['id']}", "/audit?limit=200")
    ]
    texts += [(await running.http.get(f"/alerts{at}")).text for at in ("", "/receivers/1")]
    for text in (*texts, caplog.text):
        assert "token=hidden" not in text
        assert SECRET not in text


async def test_a_rule_notifies_the_receivers_that_it_names_and_without_names_all(
    start: Starter, hook: HookServer
) -> None:
    with hook_server() as other, hook_server() as fixed:
        async with start(alert_webhooks=(fixed.url,)) as app:
            first = await add(app, hook, name="first")
            await add(app, other, name="second")
            await add(app, other, name="off", enabled=False)
            await fire(app, "one", receivers=[first["id"]])
            assert [item["receiver"] for item in await settled(app)] == ["first"]
            await fire(app, "all")
            names = {item["receiver"] for item in (await settled(app, 4))[1:]}
            assert names == {"first", "second", fixed.url.partition("/hook")[0]}
            listed = (await app.get("/alerts/receivers"))["items"]
            assert [item["id"] is None for item in listed] == [True, False, False, False]
        assert [body["rule"]["name"] for body in fixed.bodies] == ["all"]


async def test_a_rule_cannot_name_what_is_no_receiver_and_a_named_one_cannot_be_deleted(
    running: App, hook: HookServer
) -> None:
    problem = await running.post("/alerts/rules", RULE | {"name": "r", "receivers": ["9"]}, 404)
    assert problem["errors"][0]["field"] == "receivers"
    made = await add(running, hook)
    rule = await running.post("/alerts/rules", RULE | {"name": "r", "receivers": [made["id"]]}, 201)
    path = f"/api/v1/alerts/receivers/{made['id']}"
    assert (await running.http.delete(path)).status_code == 409
    rule_path = f"/api/v1/alerts/rules/{rule['id']}"
    assert (await running.http.patch(rule_path, json={"receivers": []})).json()["receivers"] == []
    assert (await running.http.delete(path)).status_code == 204
    assert (await running.get("/alerts/receivers"))["items"] == []


async def test_the_history_of_a_rule_says_who_was_notified_or_why_not(
    running: App, hook: HookServer
) -> None:
    with hook_server() as broken:
        broken.statuses = [404]
        await add(running, hook, name="good")
        await add(running, broken, name="gone")
        rule_id = await fire(running)
        await settled(running, 2)
    (change,) = (await running.get(f"/alerts/rules/{rule_id}/history"))["items"]
    assert (change["before"], change["after"], change["subject"]) == ("ok", "firing", "billing")
    outcomes = {each["receiver"]: each["error"] for each in change["deliveries"]}
    assert outcomes == {"good": "", "gone": "the answer was 404"}
    page = (await running.http.get(f"/alerts/rules/{rule_id}")).text
    assert "the answer was 404" in page


async def test_alerts_of_a_rule_within_the_time_are_one_message(
    running: App, hook: HookServer
) -> None:
    await add(running, hook, group_s=60)
    await running.send("orders", "x")
    for group in ("billing", "bills"):
        await running.receive(group, "orders", max=1, invisible_ms=3_600_000)
    await running.post("/alerts/rules", RULE | {"name": "behind", "group_pattern": "bil*"}, 201)
    await running.app.services.alerts.evaluate()
    await running.post("/alerts/rules", RULE | {"name": "other"}, 201)
    running.advance(10)
    await running.app.services.alerts.evaluate()
    assert hook.got == []
    running.advance(60)
    running.app.services.alerts.receivers.notifier.wake()
    deliveries = await settled(running, 3)
    assert len({each["message_id"] for each in deliveries}) == 2
    group, alone = hook.bodies
    assert (group["event"], group["total"], group["text"]) == (
        "group",
        2,
        "behind: 2 firing, 0 resolved",
    )
    assert [each["subject"] for each in group["alerts"]] == ["billing", "bills"]
    assert (alone["event"], alone["rule"]["name"]) == ("firing", "other")
    assert hook.got[0][0]["kitemq-delivery"] == group["id"]


async def test_quiet_hours_hold_what_is_not_critical_until_they_end(
    running: App, hook: HookServer
) -> None:
    days = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"]
    made = await add(running, hook, quiet_days=days, quiet_from="00:00", quiet_to="00:00")
    await fire(running, "warns")
    await fire(running, "critical", severity="critical")
    running.clock.set_ms(SystemClock().now_ms())
    running.app.services.alerts.receivers.notifier.wake()
    async with asyncio.timeout(LIMIT_S):
        while len(hook.got) < 1:
            await asyncio.sleep(0.02)
    assert [body["rule"]["name"] for body in hook.bodies] == ["critical"]
    held = (await running.get("/alerts/deliveries"))["items"][-1]
    assert (held["result"], held["attempts"], held["next_ms"] % 86_400_000) == ("waiting", 0, 0)
    path = f"/api/v1/alerts/receivers/{made['id']}"
    await running.http.patch(path, json={"quiet_days": []})
    await settled(running, 2)
    assert [body["rule"]["name"] for body in hook.bodies] == ["critical", "warns"]


@pytest.mark.parametrize(
    ("at", "zone", "until"),
    [
        ("2026-11-27T21:59", "UTC", None),  # a Friday
        ("2026-11-27T22:00", "UTC", "2026-11-28T07:00"),
        ("2026-11-28T06:59", "UTC", "2026-11-28T07:00"),
        ("2026-11-28T07:00", "UTC", None),
        ("2026-11-28T23:00", "UTC", None),  # they do not begin on Saturdays
        ("2026-11-27T21:30", "Europe/Berlin", "2026-11-28T06:00"),
        ("2026-11-27T20:30", "Europe/Berlin", None),
    ],
)
def test_quiet_hours_begin_on_their_days_and_end_on_the_next(
    at: str, zone: str, until: str | None
) -> None:
    receiver = ReceiverRow(name="r", kind="webhook", quiet_days=("fri",), quiet_zone=zone)
    assert quiet_until_ms(receiver, "warning", _ms(at)) == (_ms(until) if until else 0)
    assert quiet_until_ms(receiver, "critical", _ms(at)) == 0


def _ms(text: str) -> int:
    return round(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)


async def test_chats_get_their_own_form_and_no_links_of_others(
    running: App, hook: HookServer
) -> None:
    await add(running, hook, name="chat", kind="slack")
    await add(running, hook, name="team", kind="teams")
    await running.post("/alerts/rules", RULE | {"name": "<!channel> [a](b)"}, 201)
    await fire(running, "plain", enabled=False)
    await running.app.services.alerts.evaluate()
    await settled(running, 2)
    slack, teams = sorted(hook.bodies, key=lambda body: "attachments" in body and "type" in body)
    assert "<!channel>" not in slack["text"]
    assert "&lt;!channel&gt;" in slack["attachments"][0]["text"]
    assert slack["attachments"][0]["color"] == "#e08a00"
    card = teams["attachments"][0]["content"]
    assert (teams["type"], card["type"]) == ("message", "AdaptiveCard")
    assert r"\[a\](b)" in card["body"][1]["text"]


async def test_a_mail_goes_to_every_recipient(running: App) -> None:
    async with smtp_server() as server:
        await running.post("/alerts/receivers", MAIL | {"smtp_port": server.port}, 201)
        await fire(running)
        (delivery,) = await settled(running)
    assert (delivery["result"], delivery["error"]) == ("delivered", "")
    (mail,) = server.mails
    assert server.recipients == ["ann@example.org", "bob@example.org"]
    assert mail["subject"].startswith("[KiteMQ")
    assert "behind fires for billing: 1 unread" in mail["subject"]
    assert mail["message-id"].startswith(f"<{delivery['message_id']}@")
    assert "Rule: behind (lag, more than 0 messages, warning)" in mail.get_content()


async def test_the_login_goes_over_tls_only_and_a_refused_one_is_given_up_without_its_password(
    running: App, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    make_own(tmp_path, "localhost")
    certificate, key = tmp_path / CERTIFICATE_FILE, tmp_path / KEY_FILE
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    login = {"smtp_username": "kite", "smtp_password": PASSWORD, "smtp_security": "starttls"}
    async with smtp_server(tls=context, password=PASSWORD) as server:
        place = {"smtp_host": "localhost", "smtp_port": server.port}
        made = await running.post("/alerts/receivers", MAIL | login | place, 201)
        await running.post(f"/alerts/receivers/{made['id']}/test", None, 202)
        (delivery,) = await settled(running)
        assert (delivery["result"], delivery["error"]) == ("delivered", "")
        assert (server.logins, server.was_tls) == ([("kite", PASSWORD)], [True])
        server.password = "another"
        await running.post(f"/alerts/receivers/{made['id']}/test", None, 202)
        (_, failed) = await settled(running, 2)
    assert (failed["result"], failed["attempts"]) == ("failed", 1)
    assert failed["error"].startswith("535 no such login")
    shown = json.dumps(await running.get("/alerts/receivers")) + json.dumps(failed) + caplog.text
    assert PASSWORD not in shown
    assert base64.b64encode(f"\0kite\0{PASSWORD}".encode()).decode() not in shown


async def test_a_stored_password_is_not_sent_to_another_server(running: App) -> None:
    login = {"smtp_username": "kite", "smtp_password": PASSWORD, "smtp_port": 25}
    made = await running.post("/alerts/receivers", MAIL | login, 201)
    path = f"/api/v1/alerts/receivers/{made['id']}"
    for moved in ({"smtp_host": "127.0.0.2"}, {"smtp_port": 26}, {"smtp_username": "eve"}):
        answer = await running.http.patch(path, json=moved)
        assert answer.status_code == 422
        assert answer.json()["errors"][0]["field"] == "smtp_password"
    again = {"smtp_host": "127.0.0.2", "smtp_password": "new"}
    answer = await running.http.patch(path, json=again)
    assert (answer.status_code, answer.json()["smtp_host"]) == (200, "127.0.0.2")


async def test_recipients_that_a_server_refuses_are_named_and_the_mail_is_not_repeated(
    running: App,
) -> None:
    async with smtp_server(refusals={"bob@example.org": "450 mailbox busy"}) as server:
        await running.post("/alerts/receivers", MAIL | {"smtp_port": server.port}, 201)
        await fire(running)
        (delivery,) = await settled(running)
    assert (delivery["result"], delivery["attempts"]) == ("failed", 1)
    assert delivery["error"] == "not accepted for all: bob@example.org: 450 mailbox busy"
    assert server.recipients == ["ann@example.org"]


async def test_a_mail_server_that_says_nothing_does_not_hold_the_sender(
    running: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.services.alerts.mail.TIMEOUT_S", 0.2)
    monkeypatch.setattr("app.services.alerts.mail.STEP_S", LIMIT_S + 5)
    async with smtp_server(is_silent=True) as server:
        await running.post("/alerts/receivers", MAIL | {"smtp_port": server.port}, 201)
        await running.post("/alerts/receivers/1/test", None, 202)
        async with asyncio.timeout(LIMIT_S):
            while not (item := (await running.get("/alerts/deliveries"))["items"][0])["attempts"]:
                await asyncio.sleep(0.02)
            await server.hung_up.wait()  # and its thread is free
    assert (item["result"], item["error"]) == ("waiting", "the mail server took longer than 0.2 s")


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"name": " "}, "name"),
        ({"kind": "pigeon"}, "kind"),
        ({"url": "ftp://example.org/"}, "url"),
        ({"url": "https://user:word@example.org/"}, "url"),
        ({"url": "http://169.254.169.254/latest"}, "url"),
        ({"quiet_days": ["someday"]}, "quiet_days"),
        ({"quiet_from": "24:00"}, "quiet_from"),
        ({"quiet_zone": "Nowhere/Land"}, "quiet_zone"),
        ({"group_s": 10_000}, "group_s"),
        (MAIL | {"smtp_host": ""}, "smtp_host"),
        (MAIL | {"smtp_host": "169.254.169.254"}, "smtp_host"),
        (MAIL | {"smtp_port": 0}, "smtp_port"),
        (MAIL | {"mail_to": []}, "mail_to"),
        (MAIL | {"mail_to": ["ann@example.org\nBcc: eve@example.org"]}, "mail_to"),
        (MAIL | {"mail_from": "nobody"}, "mail_from"),
        (MAIL | {"smtp_password": "alone"}, "smtp_username"),
        (
            MAIL | {"smtp_host": "mail.example.org", "smtp_username": "u", "smtp_password": "p"},
            "smtp_security",
        ),
    ],
)
async def test_a_receiver_that_makes_no_sense_is_refused_at_its_field(
    running: App, fields: dict[str, object], field: str
) -> None:
    given = {"name": "r", "kind": "webhook", "url": "https://hooks.example.org/x"} | fields
    problem = await running.post("/alerts/receivers", given, 422)
    assert problem["errors"][0]["field"].partition("[")[0] == field
    assert (await running.get("/alerts/receivers"))["items"] == []


async def test_receivers_come_back_after_a_restart_and_what_waited_for_them_is_sent(
    start: Starter, hook: HookServer
) -> None:
    async with start() as app:
        await add(app, hook)
        await app.app.services.alerts.stop()  # as if the process had died before sending
        await fire(app)
        assert hook.got == []
    async with start() as app:
        await app.app.services.alerts.evaluate()
        await settled(app)
    assert [body["event"] for body in hook.bodies] == ["firing"]


async def test_a_deleted_receiver_gets_nothing_more_and_the_history_says_why(
    running: App, hook: HookServer
) -> None:
    made = await add(running, hook, group_s=3600)
    await fire(running)
    answer = await running.http.delete(f"/api/v1/alerts/receivers/{made['id']}")
    assert answer.status_code == 204
    (item,) = (await running.get("/alerts/deliveries"))["items"]
    assert (item["result"], item["error"]) == ("failed", "the receiver was deleted")
    running.advance(7200)
    assert hook.got == []


async def test_no_log_has_the_secrets_of_a_row() -> None:
    row = ReceiverRow(
        name="r", kind="webhook", url="https://h/token", signing_secret=SECRET,
        smtp_password=PASSWORD,
    )  # fmt: skip
    logging.getLogger("kitemq.alerts").info("%s", row)
    for secret in ("token", SECRET, PASSWORD):
        assert secret not in repr(row)
