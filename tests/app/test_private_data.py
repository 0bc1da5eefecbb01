"""The data directory is its owner's alone, also one that an earlier version left open."""

import logging
import os
import signal
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from app.private_data import tighten
from app.security.private_files import write_private
from engine.store.files import OsFiles
from tests.app.test_serve import LIMIT_S, ROOT, ask, url_of

OPEN_UMASK = 0


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


def open_paths(data: Path) -> list[str]:
    """What others than the owner have a right to, with its mode."""
    found = [data, *data.rglob("*")]
    return [f"{path} {mode_of(path):o}" for path in found if mode_of(path) & 0o077]


def run_server(data: Path) -> str:
    """Start with an umask that gives everybody everything, use it, stop; what it logged."""
    command = [sys.executable, "-m", "app.serve", "--data", str(data), "--port", "0"]
    environ = {name: value for name, value in os.environ.items() if not name.startswith("KITEMQ_")}
    with tempfile.TemporaryFile("w+") as said:
        with subprocess.Popen(
            command, cwd=ROOT, env=environ, stderr=subprocess.PIPE, text=True, umask=OPEN_UMASK
        ) as process:
            assert process.stderr is not None
            try:
                url = url_of(process, said.write)
                ask(f"{url}/api/v1/topics/t/messages", {"messages": [{"body": "x"}]})
                ask(f"{url}/api/v1/topics", {"name": f"of-{os.urandom(4).hex()}"})  # is audited
                process.send_signal(signal.SIGTERM)
                said.write(process.stderr.read())
                process.wait(LIMIT_S)
            finally:
                process.kill()
        said.seek(0)
        return said.read()


def test_whatever_a_server_writes_is_its_owners_alone(tmp_path: Path) -> None:
    data = tmp_path / "above" / "data"
    run_server(data)
    names = {path.name for path in data.rglob("*")}
    assert {"commitlog", "kitemq.db", "grpc_tls.key", "access_keys.key", "open.lag"} <= names
    assert open_paths(data) == []


def test_a_directory_that_others_may_read_is_closed_at_the_start_and_the_log_says_so(
    tmp_path: Path,
) -> None:
    data = tmp_path / "data"
    run_server(data)
    for path in [data, *data.rglob("*")]:
        path.chmod(0o755 if path.is_dir() else 0o644)
    said = run_server(data)
    assert open_paths(data) == []
    assert "were open to others; now they are not" in said
    assert "open to others" not in run_server(data)


def test_a_start_that_was_broken_off_is_finished_by_the_next(tmp_path: Path) -> None:
    inside = tmp_path / "data" / "commitlog" / "0"
    inside.parent.mkdir(parents=True)
    inside.touch()
    inside.chmod(0o644)
    inside.parent.chmod(0o755)
    inside.parent.parent.chmod(0o700)  # it came as far as here
    assert tighten(tmp_path / "data") == 2
    assert open_paths(tmp_path / "data") == []


def test_what_is_not_ours_in_the_directory_keeps_its_mode(tmp_path: Path) -> None:
    data, other = tmp_path / "data", tmp_path / "elsewhere"
    data.mkdir(mode=0o755)
    other.touch()
    other.chmod(0o644)
    (data / "notes.txt").touch()
    (data / "notes.txt").chmod(0o644)
    (data / "commitlog").symlink_to(other)
    tighten(data)
    assert mode_of(data / "notes.txt") == 0o644
    assert mode_of(other) == 0o644


def test_a_directory_that_all_users_share_keeps_its_mode(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o1777)
    assert tighten(shared) == 0
    assert mode_of(shared) == 0o1777


def test_what_cannot_be_closed_is_named_and_no_reason_to_stop(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = tmp_path / "data"
    data.mkdir()
    data.chmod(0o755)

    def refuse(path: Path, mode: int) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(Path, "chmod", refuse)
    with caplog.at_level(logging.WARNING):
        assert tighten(data) == 0
    assert "stay open to others" in caplog.text
    assert "Operation not permitted" in caplog.text


def test_files_of_the_engine_are_private_whatever_the_umask_is(tmp_path: Path) -> None:
    before = os.umask(OPEN_UMASK)
    try:
        files = OsFiles()
        files.make_directory(tmp_path / "a" / "b")
        files.open(tmp_path / "a" / "b" / "file", create=True).close()
        lock = files.lock(tmp_path / "a" / "lock")
        write_private(tmp_path / "a" / "key", b"key")
    finally:
        os.umask(before)
    assert lock is not None
    lock.close()
    assert open_paths(tmp_path / "a") == []


def test_the_command_line_makes_private_files_whatever_the_umask_is(tmp_path: Path) -> None:
    data = tmp_path / "data"
    words = ["users", "add", "root", "--role", "admin", "--password-stdin", "--data", str(data)]
    subprocess.run(
        [sys.executable, "-m", "kitemq", *words],
        cwd=ROOT,
        input="correct horse battery\n",
        text=True,
        check=True,
        umask=OPEN_UMASK,
        timeout=LIMIT_S,
    )
    assert (data / "kitemq.db").exists()
    assert open_paths(data) == []
