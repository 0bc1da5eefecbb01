"""`kitemq server`: checks, freezing and thawing, a bundle; as a person and as a script see it."""

import zipfile
from pathlib import Path

import pytest

from kitemq import Client
from kitemq.cli import main
from tests.kitemq.test_cli import OK, REFUSED, documents, inside
from tests.live import LiveServer


def test_a_server_is_frozen_and_thawed(
    server: LiveServer, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, __ = inside(server, capsys, "server", "freeze", "--reason", "a move")
    assert code == OK
    (state,) = documents(out)
    assert (state["read_only"], state["reason"]) == (True, "a move")
    code, __, err = inside(server, capsys, "topics", "create", "frozen")
    assert code == REFUSED
    assert "read_only" in err
    code, __, err = inside(server, capsys, "server", "freeze", "--reason", " ")
    assert code == REFUSED
    assert "reason" in err
    code, out, __ = inside(server, capsys, "server", "thaw")
    assert code == OK
    assert inside(server, capsys, "topics", "create", "thawed")[0] == OK


def test_checks_are_printed_and_a_sound_server_ends_with_0(
    server: LiveServer, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, __ = inside(server, capsys, "server", "checks")
    found = {row["code"]: row["outcome"] for row in documents(out)}
    assert found["database"] == found["engine"] == "ok"
    assert code == OK


def test_brokers_are_those_of_a_cluster(
    server: LiveServer, capsys: pytest.CaptureFixture[str]
) -> None:
    """The embedded engine is one; `tests/rocketmq/test_serve.py` has Apache's."""
    code, __, err = inside(server, capsys, "server", "brokers")
    assert code == REFUSED
    assert "not_supported" in err


def test_the_help_of_serve_has_an_example_before_a_cluster(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["serve", "--help"]) == OK
    assert "kitemq serve --rocketmq" in " ".join(capsys.readouterr().out.split())


def test_a_bundle_becomes_a_file_and_replaces_none_unasked(
    server: LiveServer, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "bundle.zip"
    code, out, __ = inside(server, capsys, "server", "bundle", str(path))
    assert code == OK
    (row,) = documents(out)
    assert row["bytes"] == path.stat().st_size
    with zipfile.ZipFile(path) as archive:
        assert archive.namelist()[0] == "manifest.json"
    code, __, err = inside(server, capsys, "server", "bundle", str(path))
    assert code == REFUSED
    assert "--force" in err
    assert inside(server, capsys, "server", "bundle", str(path), "--force")[0] == OK
    code, __, err = inside(server, capsys, "server", "bundle", str(tmp_path / "no" / "b.zip"))
    assert code == REFUSED


def test_the_client_asks_what_somebody_may_do(server: LiveServer) -> None:
    with Client(server.url) as client:
        found = client.access.check(role="viewer", action="produce", name="orders")
        assert [item.allowed for item in found.items] == [False, False]
        assert not client.server.read_only().read_only
