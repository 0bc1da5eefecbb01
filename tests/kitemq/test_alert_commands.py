"""`kitemq alerts`: receivers made from files with secrets, changed, tested; rules and history."""

from pathlib import Path

import pytest

from kitemq import Client
from tests.kitemq.test_cli import OK, REFUSED, documents, inside
from tests.live import LiveServer
from tests.receivers import hook_server


def test_a_receiver_is_made_from_files_changed_tested_and_deleted(
    server: LiveServer, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    with hook_server() as hook:
        url, secret = tmp_path / "url", tmp_path / "secret"
        url.write_text(f"{hook.url}\n")
        secret.write_text("a key\n")
        files = ("--url-file", str(url), "--signing-secret-file", str(secret))
        quiet = ("--quiet-day", "sat", "--quiet-day", "sun", "--group-s", "30")
        words = ("create-receiver", "on-call", "webhook", *files, *quiet)
        code, out, err = inside(server, capsys, "alerts", *words)
        assert code == OK, err
        (made,) = documents(out)
        assert (made["quiet_days"], made["group_s"], made["has_signing_secret"]) == (
            ["sat", "sun"],
            30,
            True,
        )
        assert "token=hidden" not in out
        change = ("change-receiver", made["id"], "--rename", "team", "--no-enabled")
        code, out, err = inside(server, capsys, "alerts", *change)
        assert code == OK, err
        (changed,) = documents(out)
        assert (changed["name"], changed["enabled"], changed["group_s"]) == ("team", False, 30)
        assert inside(server, capsys, "alerts", "test-receiver", made["id"])[0] == OK
        with Client(server.url) as client:
            delivery = next(client.alerts.deliveries(limit=1))
        assert (delivery.event, delivery.receiver) == ("test", "team")
        code, out, __ = inside(server, capsys, "alerts", "receivers")
        assert [row["name"] for row in documents(out)] == ["team"]
        assert inside(server, capsys, "alerts", "delete-receiver", made["id"], "--yes")[0] == OK
        code, out, __ = inside(server, capsys, "alerts", "receivers")
        assert documents(out) == []


def test_a_wrong_option_and_a_missing_file_are_named(
    server: LiveServer, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    words = ("alerts", "create-receiver", "x", "webhook", "--url-file", str(tmp_path / "none"))
    code, __, err = inside(server, capsys, *words)
    assert code == REFUSED
    assert "--url-file" in err
    code, __, err = inside(
        server, capsys, "alerts", "create-receiver", "x", "email", "--smtp-port", "0"
    )
    assert code == REFUSED
    assert "--smtp-port" in err


def test_states_rules_and_history_are_printed(
    server: LiveServer, capsys: pytest.CaptureFixture[str]
) -> None:
    with Client(server.url) as client:
        rule = client.alerts.create_rule("printed", "disk", threshold=100)
    code, out, __ = inside(server, capsys, "alerts", "rules")
    assert (code, [row["name"] for row in documents(out)]) == (OK, ["printed"])
    code, out, __ = inside(server, capsys, "alerts", "states")
    assert (code, [row["rule_id"] for row in documents(out)]) == (OK, [rule.id])
    code, out, __ = inside(server, capsys, "alerts", "history", rule.id)
    assert (code, documents(out)) == (OK, [])
    assert inside(server, capsys, "alerts", "history", "999")[0] == REFUSED
    with Client(server.url) as client:
        client.alerts.delete_rule(rule.id)
