"""The running server's switches and what it tells of itself: read-only, log, checks, a bundle."""

import contextlib
import io
import json
import logging
import os
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from app.services import self_checks, support
from app.services.log_levels import LINE_CHARS_MAX, LINES_MAX, LogRing
from app.services.read_only import FILE
from app.services.settings_view import secrets_of
from app.services.support import GONE, PART_BYTES_MAX, Part, pack, redacted
from app.settings import Settings, load, origins
from tests.app.conftest import URL, App, Starter
from tests.app.security.test_access import PASSWORD, bearer, log_in, token_of, with_admin

pytestmark = pytest.mark.anyio

FROZEN = {"read_only": True, "reason": "moving to another disk"}
SECRETS = {
    "webhook": "hook-path-7f3a",
    "webhook_user": "hook-user-secret",
    "signing": "signing-key-91",
    "oidc": "oidc-secret-77",
    "admin": "admin-pass-55",
    "body": "body-of-a-message-33",
    "key": "order-key-44",
}


async def put(app: App, path: str, body: object, status: int = 200) -> Any:
    answer = await app.http.put(f"/api/v1{path}", json=body)
    assert answer.status_code == status, answer.text
    return answer.json()


# -- read-only ------------------------------------------------------------------------------------


@pytest.mark.databases
async def test_a_frozen_server_refuses_every_change_until_it_is_thawed(running: App) -> None:
    await running.post("/topics", {"name": "a"}, 201)
    state = await put(running, "/read-only", FROZEN)
    assert (state["read_only"], state["reason"]) == (True, FROZEN["reason"])
    for path, body in (
        ("/topics", {"name": "b"}),
        ("/topics/a/messages", {"body": "x"}),
        ("/groups/g/receive", {"topic": "a"}),
    ):
        assert (await running.post(path, body, 403))["code"] == "read_only"
    assert (await running.get("/topics"))["total"] == 1
    thawed = await put(running, "/read-only", {"read_only": False})
    assert not thawed["read_only"]
    await running.post("/topics/a/messages", {"body": "x"}, 201)
    trail = (await running.get("/audit?object_kind=server"))["items"]
    assert [item["action"] for item in trail] == ["server.thaw", "server.freeze"]
    assert json.loads(trail[1]["after_json"])["reason"] == FROZEN["reason"]
    assert json.loads(trail[0]["before_json"])["is_on"]


async def test_the_switch_outlives_a_restart_and_every_page_says_who_and_why(
    start: Starter,
) -> None:
    async with start() as app:
        await with_admin(app)
        await put(app, "/read-only", FROZEN)
    async with start() as app:
        assert (await log_in(app.http, "ann")).status_code == 303  # logging in goes on
        app.http.headers["origin"] = URL
        for path in ("/", "/topics", "/engine", "/engine/control", "/help"):
            html = (await app.http.get(path)).text
            assert "Enabled by ann: moving to another disk." in html, path
        assert (await app.post("/topics", {"name": "b"}, 403))["code"] == "read_only"
        await put(app, "/read-only", {"read_only": False})
    async with start() as app:
        await log_in(app.http, "ann")
        app.http.headers["origin"] = URL
        await app.post("/topics", {"name": "b"}, 201)


async def test_a_switch_that_cannot_be_read_is_on(start: Starter, tmp_path: Path) -> None:
    async with start():
        pass
    (tmp_path / "data" / FILE).write_bytes(b"\x00 not whole")
    async with start() as app:
        assert (await app.post("/topics", {"name": "b"}, 403))["code"] == "read_only"
        assert FILE in (await app.get("/read-only"))["reason"]
        await put(app, "/read-only", {"read_only": False})
        await app.post("/topics", {"name": "b"}, 201)


async def test_the_setting_holds_the_server_whatever_the_switch_says(start: Starter) -> None:
    async with start(read_only=True) as app:
        problem = await put(app, "/read-only", {"read_only": False}, 409)
        assert problem["code"] == "held_by_setting"
        state = await app.get("/read-only")
        assert (state["read_only"], state["by_setting"]) == (True, True)


@pytest.mark.parametrize("reason", ["", "   ", "x" * 201])
async def test_freezing_needs_a_reason_that_fits(running: App, reason: str) -> None:
    problem = await put(running, "/read-only", {"read_only": True, "reason": reason}, 422)
    assert problem["errors"][0]["field"] == "reason"
    assert not (await running.get("/read-only"))["read_only"]


async def test_a_switch_that_cannot_be_kept_says_so_and_changes_nothing(
    running: App, tmp_path: Path
) -> None:
    (tmp_path / "data" / f"{FILE}.part").mkdir()
    problem = await put(running, "/read-only", FROZEN, 503)
    assert problem["code"] == "switch_not_kept"
    assert not (await running.get("/read-only"))["read_only"]
    await running.post("/topics", {"name": "a"}, 201)
    (entry,) = (await running.get("/audit?action=server.freeze"))["items"]
    assert entry["result"] == "switch_not_kept"


async def test_the_console_switches_and_says_what_is_missing(running: App) -> None:
    form = {"read_only": "on", "reason": ""}
    headers = {"origin": URL}
    path = "/engine/control/read-only"
    wrong = await running.http.post(path, data=form, headers=headers)
    assert wrong.status_code == 422
    assert "It is not said why" in wrong.text
    on = await running.http.post(path, data=form | {"reason": "a move"}, headers=headers)
    assert on.headers["location"] == "/engine/control?done=frozen"
    html = (await running.http.get("/engine/control")).text
    assert "a move" in html
    off = await running.http.post(path, data={"read_only": "off"}, headers=headers)
    assert off.headers["location"] == "/engine/control?done=thawed"
    assert 'id="read-only"' not in (await running.http.get("/topics")).text


# -- the log --------------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def _levels_stay() -> Iterator[None]:
    before = {name: logging.getLogger(name).level for name in ("kitemq", "kitemq.alerts")}
    yield
    assert before == {name: logging.getLogger(name).level for name in before}


async def test_a_level_is_changed_until_the_end_and_audited(start: Starter) -> None:
    async with start() as app:
        changed = await put(app, "/loggers/kitemq.alerts", {"level": "debug"})
        assert (changed["level"], changed["changed"]) == ("debug", True)
        assert logging.getLogger("kitemq.alerts").isEnabledFor(logging.DEBUG)
        (entry,) = (await app.get("/audit?object_kind=logger"))["items"]
        assert json.loads(entry["before_json"]) == {"level": ""}
        assert json.loads(entry["after_json"]) == {"level": "debug"}
        back = await put(app, "/loggers/kitemq.alerts", {"level": ""})
        assert not back["changed"]
        await put(app, "/loggers/kitemq.alerts", {"level": "error"})


@pytest.mark.parametrize(
    ("name", "level", "status"),
    [("kitemq.alerts", "loud", 422), ("kitemq.nobody", "info", 404), ("sqlalchemy", "debug", 404)],
)
async def test_only_levels_and_parts_that_there_are_can_be_chosen(
    running: App, name: str, level: str, status: int
) -> None:
    await put(running, f"/loggers/{name}", {"level": level}, status)
    form = {"name": name, "level": level}
    headers = {"origin": URL}
    answer = await running.http.post("/engine/control/log-level", data=form, headers=headers)
    assert answer.status_code == status


def test_the_ring_keeps_the_newest_lines_and_cuts_long_ones() -> None:
    ring = LogRing()
    for number in range(LINES_MAX + 10):
        text = "x" * 10 * LINE_CHARS_MAX if number == LINES_MAX else f"line {number}"
        ring.handle(logging.makeLogRecord({"msg": text, "name": "kitemq", "levelname": "INFO"}))
    lines = ring.lines()
    assert (len(lines), ring.count) == (LINES_MAX, LINES_MAX + 10)
    assert lines[0].endswith("line 10")
    assert max(map(len, lines)) < LINE_CHARS_MAX + 100


# -- self-checks ----------------------------------------------------------------------------------


async def test_a_port_that_a_network_reaches_without_tls_is_a_warning(start: Starter) -> None:
    given = {"host": "0.0.0.0", "admin_password": "correct horse battery"}
    async with start(**given) as app:
        (found,) = [c for c in await app.app.services.self_checks.run() if c.code == "exposure"]
        assert found.outcome == "warning"
        assert found.detail == (
            "a network reaches HTTP on 0.0.0.0 and gRPC on 0.0.0.0 and RocketMQ's TCP protocol on "
            "0.0.0.0 without TLS"
        )


async def test_a_sound_server_finds_nothing_and_says_when(running: App) -> None:
    found = (await running.get("/self-checks"))["items"]
    outcomes = {item["code"]: item["outcome"] for item in found}
    assert outcomes.pop("event_loop") in ("ok", "warning")  # as busy as the machine is
    assert set(outcomes.values()) == {"ok"}, found
    assert {item["at_ms"] for item in found} == {running.clock.now_ms()}
    html = (await running.http.get("/engine")).text
    assert 'id="check-database"' in html


async def test_a_check_that_fails_says_so_here_and_on_the_page(
    running: App, tmp_path: Path
) -> None:
    await running.get("/self-checks")
    checks = running.app.services.self_checks
    checks._data = tmp_path / "gone"
    (item,) = [i for i in (await running.get("/self-checks"))["items"] if i["code"] == "disk"]
    assert item["outcome"] == "ok"  # fresh, so nothing was checked again
    running.clock.advance(11)
    found = {item["code"]: item for item in (await running.get("/self-checks"))["items"]}
    assert found["data_directory"]["outcome"] == "failed"
    assert "No such file" in found["data_directory"]["detail"]
    html = (await running.http.get("/engine")).text
    assert "No such file" in html


async def test_a_disk_that_hangs_holds_one_thread_however_often_one_looks(
    running: App, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(self_checks, "LIMIT_S", 0.05)
    checks = running.app.services.self_checks
    checks._data = tmp_path
    fifo = tmp_path / self_checks.PROBE
    os.mkfifo(fifo)  # to open it for writing takes until somebody reads
    begun: list[int] = []
    write = checks._write_probe

    def counted() -> None:
        begun.append(1)
        write()

    vars(checks)["_write_probe"] = counted
    try:
        for __ in range(3):
            running.clock.advance(11)
            found = {item["code"]: item for item in (await running.get("/self-checks"))["items"]}
            assert "no result within" in found["data_directory"]["detail"]
    finally:
        reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
        with contextlib.suppress(OSError):
            await checks._probe
        os.close(reader)
    assert len(begun) == 1


# -- settings and the bundle ----------------------------------------------------------------------


def test_the_place_of_each_setting_is_known_and_the_later_wins(tmp_path: Path) -> None:
    config = tmp_path / "kitemq.toml"
    config.write_text('retry_max = 3\nport = 9000\nenvironment = "test"\n')
    environ = {"KITEMQ_PORT": "9001", "KITEMQ_SERVER": "http://x", "KITEMQ_LOG_LEVEL": "debug"}
    overrides = {"log_level": "error"}
    assert load(overrides, config=config, environ=environ).port == 9001
    assert origins(overrides, config=config, environ=environ) == {
        "retry_max": f"file {config}",
        "port": "environment",
        "environment": f"file {config}",
        "log_level": "command line",
    }


async def test_the_page_shows_what_differs_and_who_set_it(start: Starter) -> None:
    async with start(retry_max=7) as app:
        app.app.services.origins = {"retry_max": "environment"}
        twin = (await app.http.get("/engine?settings=different&format=json")).json()
        rows = {row["name"]: row for row in twin["settings"]}
        assert rows["retry_max"]["source"] == "environment"
        assert rows["data"]["source"] == "program"
        assert "port" not in rows  # a key setting, at its default
        assert all(row["is_set"] for row in rows.values())


async def bundle_of(app: App) -> dict[str, str]:
    answer = await app.http.get("/api/v1/support-bundle")
    assert answer.status_code == 200, answer.text
    with zipfile.ZipFile(io.BytesIO(answer.content)) as archive:
        return {name: archive.read(name).decode() for name in archive.namelist()}


async def test_a_bundle_has_what_helps_and_none_of_the_secrets(start: Starter) -> None:
    secrets = SECRETS
    hook = f"https://{secrets['webhook_user']}@127.0.0.1:9/{secrets['webhook']}"
    given = {
        "alert_webhooks": (hook,),
        "alert_webhook_secret": secrets["signing"],
        "oidc_client_secret": secrets["oidc"],
        "admin_password": secrets["admin"],
        "environment": "staging",
    }
    async with start(**given) as app:
        await log_in(app.http, "admin", secrets["admin"])
        app.http.headers["origin"] = URL
        token = await token_of(app, "admin")
        (row,) = (await app.get("/tokens"))["items"]
        people = app.app.services.user_directory
        (kept,) = people.tokens()
        pair = await app.app.services.access_keys.key_pair(kept.secret_hash)
        await app.post("/topics", {"name": "orders"}, 201)
        await app.send("orders", secrets["body"], keys=[secrets["key"]])
        await put(app, "/read-only", FROZEN)
        log = logging.getLogger("kitemq")
        log.error("sent Authorization: Bearer %s, cookie=%s", token, app.http.cookies)
        log.error("told %s with %s, as %s", hook, secrets["signing"], pair[1])
        files = await bundle_of(app)
        session = next(iter(app.http.cookies.values()))
        password_hash = people.user("admin").password_hash
    assert next(iter(files)) == "manifest.json"
    listed = {file["name"] for file in json.loads(files["manifest.json"])["files"]}
    assert listed == set(files) - {"manifest.json"}
    assert '"orders"' in files["topics.json"]
    assert "kitemq_" in files["metrics.txt"]
    assert "[redacted]" in files["log.txt"]
    assert "told " in files["log.txt"]
    assert "MainThread" in files["threads.txt"]
    parsed = {name: json.loads(text) for name, text in files.items() if name.endswith(".json")}
    assert parsed["versions.json"]["msgspec"]
    assert parsed["engine.json"]["read_only"]["by"] == ""
    text = "\n".join(files.values())
    hidden = [
        *secrets.values(),
        pair[1],
        token,
        session,
        password_hash,
        kept.secret_hash,
        row["prefix"],
    ]
    assert [secret for secret in hidden if secret in text] == []


@pytest.mark.parametrize(
    "line",
    [
        "Authorization: Basic aGlkZGVuMTIz",
        "authorization: MQv2-HMAC-SHA1 Credential=K/cn, Signature=hidden123",
        "Cookie: a=1; other=hidden123",
        "(b'cookie', b'other=hidden123')",
        "{'password': 'a hidden123'}",
        '{"detail": "{\\"client_secret\\": \\"a hidden123\\"}"}',
        "access_token=hidden123&x=1",
        "api-key: hidden123",
        "the callback of g: https://hooks.example/done?sig=hidden123: ReadTimeout",
        "postgresql://kite:a@hidden123@db.example/kite",
        "it said eyJhbGciOiJIUzI1NiJ9.hidden123.aGlkZGVuMTIz",
    ],
)
def test_what_looks_like_a_secret_is_none_in_the_archive(line: str) -> None:
    text = redacted(f"before\n{line}\nafter\n", ())
    assert "hidden123" not in text
    assert "aGlkZGVuMTIz" not in text
    assert text.startswith("before\n")
    assert text.endswith("\nafter\n")
    assert GONE in text


def test_what_is_no_secret_stays() -> None:
    text = """{
  "name": "admin_password",
  "hidden": "password",
  "cookie": "",
  "value": "https://hooks.example/…",
  "tokens": 3
}"""
    assert redacted(text, ()) == text


def test_a_databases_password_is_a_secret_however_it_is_written() -> None:
    url = "postgresql+psycopg://kite:p%40ss-word@db.example:5432/kite?sslpassword=other-9"
    settings = Settings(database_url=url, data=Path("x"))
    secrets = secrets_of(settings)
    parts = [Part("log.txt", "", f"{url} and p@ss-word and other-9\n", newest_last=True)]
    data = pack(parts, secrets, made_at="", version="", environment="")
    text = zipfile.ZipFile(io.BytesIO(data)).read("log.txt").decode()
    assert "ss-word" not in text
    assert "other-9" not in text
    assert "db.example" in text


def test_a_part_is_cut_to_its_limit_at_a_line_and_the_manifest_says_so() -> None:
    lines = "".join(f"line {number:06}\n" for number in range(200_000))
    parts = [Part("first.txt", "", lines), Part("last.txt", "", lines, newest_last=True)]
    data = pack(parts, (), made_at="", version="", environment="")
    archive = zipfile.ZipFile(io.BytesIO(data))
    first, last = archive.read("first.txt"), archive.read("last.txt")
    assert first.startswith(b"line 000000\n")
    assert last.endswith(b"line 199999\n")
    assert last.startswith(b"line ")
    for kept in (first, last):
        assert len(kept) <= PART_BYTES_MAX
        assert kept.endswith(b"\n")
    manifest = json.loads(archive.read("manifest.json"))
    assert [file["cut_bytes"] for file in manifest["files"]] == [
        len(lines) - len(first),
        len(lines) - len(last),
    ]


async def test_a_bundle_is_audited_and_for_admins_only(running: App) -> None:
    await with_admin(running)
    await running.post("/users", {"name": "otto", "password": PASSWORD, "role": "operator"}, 201)
    token = await token_of(running, "otto")
    async with httpx.AsyncClient(transport=running.http._transport, base_url=URL) as http:
        answer = await http.get("/api/v1/support-bundle", headers=bearer(token))
        assert answer.status_code == 403
        page = (await http.get("/engine", headers=bearer(token))).text
        assert "read:control" in page
        assert "/api/v1/support-bundle" not in page
    await bundle_of(running)
    (entry,) = (await running.get("/audit?action=support.bundle"))["items"]
    assert entry["actor"] == "ann"
    assert "/api/v1/support-bundle" in (await running.http.get("/engine")).text


def test_a_pattern_is_given_one_line_at_a_time_and_no_more_than_is_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A search keeps the event loop waiting for as long as it goes on."""
    given: list[int] = []

    class Counted:
        def sub(self, instead: str, text: str) -> str:
            given.append(len(text))
            return text

    monkeypatch.setattr(support, "PATTERNS", ((Counted(), ""),))
    line = "x" * 999
    parts = [
        Part("log.txt", "newest", f"{line}\n" * 4_000, newest_last=True),
        Part("metrics.txt", "oldest", f"{line}\n" * 4_000),
    ]
    pack(parts, (), made_at="", version="", environment="")
    assert max(given) == len(line)
    assert sum(given) <= 2 * PART_BYTES_MAX


def test_a_secret_at_the_cut_of_a_long_line_is_not_cut_in_two() -> None:
    text = "a " * (PART_BYTES_MAX // 2 - 4) + "kite_0123456789abcdef rest"
    archive = pack([Part("x.txt", "", text)], (), made_at="", version="", environment="")
    with zipfile.ZipFile(io.BytesIO(archive)) as packed:
        assert b"kite_0" not in packed.read("x.txt")
