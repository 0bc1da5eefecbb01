"""Everything that SQL keeps, through a real server: over SQLite, over PostgreSQL, without any."""

import io
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from app import users
from tests.app.conftest import URL, App, Starter
from tests.app.test_serve import ROOT, serving
from tests.patience import until
from tests.postgres import PASSWORD as DATABASE_PASSWORD
from tests.postgres import Cluster

ADMIN_PASSWORD = "correct horse battery"
SECRET = "Tr0ub4dor-and-3"
LIMIT_S = 60.0
RULE = {"name": "billing is behind", "kind": "lag", "group_pattern": "billing", "threshold": 0}


def kitemq(*arguments: str, typed: str = "") -> subprocess.CompletedProcess[str]:
    """Run the command line as people do."""
    return subprocess.run(
        [sys.executable, "-m", "kitemq", *arguments],
        cwd=ROOT,
        input=typed,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )


def add_admin(where: list[str]) -> None:
    """Make the first user before there is a server."""
    words = ("users", "add", "ann", "--role", "admin", "--password-stdin")
    added = kitemq(*words, *where, typed=f"{ADMIN_PASSWORD}\n")
    assert (added.returncode, added.stdout) == (0, "user ann (admin) is added\n"), added.stderr


@contextmanager
def logged_in(url: str) -> Iterator[httpx.Client]:
    """A browser in which ann has logged in."""
    with httpx.Client(base_url=url, timeout=LIMIT_S, headers={"origin": url}) as browser:
        form = {"name": "ann", "password": ADMIN_PASSWORD, "next": "/audit"}
        answer = browser.post("/login", data=form)
        assert (answer.status_code, answer.headers["location"]) == (303, "/audit")
        yield browser


def ok(answer: httpx.Response) -> Any:
    """The JSON of an answer that must be a good one."""
    assert answer.is_success, answer.text
    return answer.json()


def send_and_take(browser: httpx.Client, body: str) -> None:
    """One message through the engine: sent, received, acknowledged."""
    ok(browser.post("/api/v1/topics/orders/messages", json={"body": body}))
    got = ok(browser.post("/api/v1/groups/billing/receive", json={"topic": "orders"}))
    (delivery,) = got["deliveries"]
    assert delivery["body"] == body
    ok(browser.post("/api/v1/groups/billing/ack", json={"receipts": [delivery["receipt"]]}))


@pytest.mark.databases
def test_people_changes_and_alerts_are_kept_by_a_server_and_its_command_line(
    tmp_path: Path, url: str
) -> None:
    data = tmp_path / "data"
    where = ["--data", str(data), "--database-url", url]
    add_admin(where)
    with serving(data, "--database-url", url) as (_, base), logged_in(base) as browser:
        send_and_take(browser, "x")
        ok(browser.post("/api/v1/topics", json={"name": "payments"}))
        ok(browser.post("/api/v1/alerts/rules", json=RULE))
        made = kitemq("tokens", "add", "ci", "--owner", "ann", *where)
        assert made.returncode == 0, made.stderr
        token = {"Authorization": f"Bearer {made.stdout.strip()}"}
        until(
            lambda: httpx.get(f"{base}/api/v1/me", headers=token).status_code == 200,
            limit_s=LIMIT_S,
        )
        page = browser.get("/audit")
        assert page.status_code == 200
        for action in ("user.create", "login", "topic.create", "alert_rule.create", "token.create"):
            assert action in page.text
        assert "billing is behind" in browser.get("/alerts").text
    with serving(data, "--database-url", url) as (_, base), logged_in(base) as browser:
        assert len(ok(browser.get("/api/v1/sessions"))["items"]) == 2
        (rule,) = ok(browser.get("/api/v1/alerts/rules"))["items"]
        assert rule["name"] == RULE["name"]


def test_messages_flow_while_postgresql_is_gone_and_the_console_says_what_is_missing(
    tmp_path: Path, postgres: Cluster
) -> None:
    with postgres.database() as url:
        where = ["--data", str(tmp_path), "--database-url", url]
        add_admin(where)
        with serving(tmp_path, "--database-url", url) as (_, base), logged_in(base) as browser:
            ok(browser.post("/api/v1/alerts/rules", json=RULE))
            postgres.kill()
            send_and_take(browser, "while it is gone")
            refused = browser.post("/api/v1/topics", json={"name": "payments"})
            assert (refused.status_code, refused.json()["code"]) == (503, "audit_unavailable")
            assert browser.get("/api/v1/topics/payments").status_code == 404
            for what in ("audit", "alerts", "views"):
                page = browser.get(f"/{what}")
                assert page.status_code == 503, what
                assert "cannot be read" in page.text
                assert DATABASE_PASSWORD not in page.text
            for path in ("/", "/topics", "/groups/billing", "/access"):
                assert browser.get(path).status_code == 200, path
            assert "<strong>database</strong>: " in browser.get("/engine").text
            assert "connection" in ok(browser.get("/readyz"))["problems"]["database"]

            postgres.start()
            ok(browser.post("/api/v1/topics", json={"name": "payments"}))
            assert ok(browser.get("/readyz"))["problems"] == {}
            assert "topic.create" in browser.get("/audit").text
            assert "<strong>database</strong>" not in browser.get("/engine").text


def test_a_server_that_starts_without_its_postgresql_lets_nobody_in_until_it_is_there(
    tmp_path: Path, postgres: Cluster
) -> None:
    with postgres.database() as url:
        where = ["--data", str(tmp_path), "--database-url", url]
        add_admin(where)
        postgres.kill()
        with serving(tmp_path, "--database-url", url) as (_, base):
            refused = httpx.get(f"{base}/api/v1/topics")
            assert (refused.status_code, refused.json()["code"]) == (503, "people_unavailable")
            postgres.start()
            until(lambda: httpx.get(f"{base}/api/v1/topics").status_code == 401, limit_s=LIMIT_S)
            with logged_in(base) as browser:
                send_and_take(browser, "x")


# -- secrets ------------------------------------------------------------------------------------


@pytest.mark.anyio
@pytest.mark.databases
async def test_no_page_and_no_answer_tells_a_secret_of_the_settings(start: Starter) -> None:
    secrets = {
        "admin_password": SECRET,
        "alert_webhook_secret": SECRET,
        "alert_webhooks": (f"http://127.0.0.1:9/{SECRET}",),
    }
    async with start(**secrets) as app:
        await log_in_as_admin(app)
        shown = ["/engine?settings=all", "/engine?settings=all&format=json", "/alerts", "/settings"]
        shown += ["/api/v1/system", "/api/v1/alerts", "/readyz", "/metrics", "/access"]
        for path in shown:
            answer = await app.http.get(path)
            assert answer.status_code == 200, path
            assert SECRET not in answer.text, path
            assert DATABASE_PASSWORD not in answer.text, path
        twin = (await app.http.get("/engine?settings=all&format=json")).json()
        values = {row["name"]: row["value"] for row in twin["settings"]}
        assert values["alert_webhook_secret"] == values["admin_password"]
        assert values["admin_password"] == "hidden: secret"
        assert values["alert_webhooks"] == "http://127.0.0.1:9/…"


async def log_in_as_admin(app: App) -> None:
    form = {"name": "admin", "password": SECRET, "next": "/"}
    answer = await app.http.post("/login", data=form, headers={"origin": URL})
    assert answer.status_code == 303


# -- how far a server may be reached --------------------------------------------------------------


def test_a_server_with_users_listens_wherever_it_is_told(tmp_path: Path) -> None:
    where = ["--data", str(tmp_path)]
    refused = kitemq("serve", *where, "--host", "0.0.0.0", "--port", "0")
    assert refused.returncode == 2
    assert "kitemq users add" in refused.stderr
    add_admin(where)
    with serving(tmp_path, "--host", "0.0.0.0") as (_, url):
        local = url.replace("0.0.0.0", "127.0.0.1")
        assert httpx.get(f"{local}/api/v1/topics").status_code == 401
        with logged_in(local) as browser:
            send_and_take(browser, "x")


def test_an_open_server_on_a_network_is_what_somebody_asked_for(tmp_path: Path) -> None:
    options = ("--host", "0.0.0.0", "--allow-open", "true")
    with serving(tmp_path, *options) as (_, url):
        local = url.replace("0.0.0.0", "127.0.0.1")
        assert ok(httpx.get(f"{local}/api/v1/topics"))["total"] == 0
        assert "no login" in httpx.get(local).text


def test_a_server_whose_users_cannot_be_known_stays_off_the_network(tmp_path: Path) -> None:
    gone = f"postgresql+psycopg://ann:{SECRET}@/kitemq?host={tmp_path}"
    options = ("--host", "0.0.0.0", "--port", "0", "--set", f"database_url={gone}")
    refused = kitemq("serve", "--data", str(tmp_path / "data"), *options)
    assert refused.returncode == 1
    assert "the database does not answer" in refused.stderr
    assert SECRET not in refused.stderr
    assert "Traceback" not in refused.stderr


def test_users_are_added_changed_and_deleted_from_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(*words: str, typed: str = ADMIN_PASSWORD) -> tuple[int, str]:
        monkeypatch.setattr(sys, "stdin", io.StringIO(f"{typed}\n"))
        code = users.main([*words, "--data", str(tmp_path)])
        said = capsys.readouterr()
        return code, said.out + said.err

    add = ("users", "add", "bob", "--password-stdin")
    code, said = run(*add, "--role", "viewer")
    assert (code, "the first user must be an admin" in said) == (2, True)
    assert run("users", "add", "ann", "--role", "admin", "--password-stdin")[0] == 0
    code, said = run(*add, typed="short")
    assert (code, "password" in said) == (2, True)
    assert run(*add, "--role", "operator", "--allow", "produce:topic:orders-*")[0] == 0
    code, said = run(*add)
    assert (code, "already" in said) == (2, True)
    assert run("users", "change", "bob", "--disable")[0] == 0
    _, said = run("users", "list")
    assert said.splitlines() == ["ann admin", "bob operator produce:topic:orders-* (switched off)"]
    code, said = run("users", "delete", "ann")
    assert (code, "last admin" in said) == (2, True)
    assert run("users", "delete", "bob")[0] == 0
    assert run("users", "delete", "bob") == (2, "kitemq: there is no user 'bob'; check the name\n")
    assert run("users", "list") == (0, "ann admin\n")
