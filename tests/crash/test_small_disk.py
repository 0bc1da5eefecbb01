"""A disk that is really full: sends are refused with the reason, and taken again later."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from kitemq import Client, KiteError
from kitemq.model.produce import NewMessage
from tests.crash.process import START_TIMEOUT_S, ServerProcess
from tests.patience import until

pytestmark = pytest.mark.crash

BODY = "x" * 50_000
SEGMENT_BYTES = 1 << 20


@pytest.fixture
def server(small_disk: Path) -> Iterator[ServerProcess]:
    # Retention would make room on so small a disk: here it is to be really full.
    process = ServerProcess(small_disk / "data", segment_bytes=SEGMENT_BYTES, disk_enough_bytes=0)
    try:
        yield process
    finally:
        process.kill()


def send_until_refused(client: Client) -> tuple[list[str], KiteError]:
    accepted: list[str] = []
    while True:
        body = f"{len(accepted)}:{BODY}"
        try:
            client.messages.send("t", [NewMessage(body, queue=0)])
        except KiteError as error:
            return accepted, error
        accepted.append(body)


def heads(client: Client) -> list[str]:
    """The numbers of all bodies that can be read, in order."""
    found: list[str] = []
    offset = 0
    while True:
        page = client.messages.pull("t", 0, offset)
        found += [message.body.split(":")[0] for message in page.messages]
        if int(page.next_offset) <= offset:
            return found
        offset = int(page.next_offset)


def test_a_full_disk_refuses_sends_and_keeps_everything_else_going(
    server: ServerProcess, small_disk: Path
) -> None:
    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes(8 << 20))
    server.start()
    with server.client() as client:
        accepted, error = send_until_refused(client)
        assert error.code == "disk_full", error
        assert len(accepted) > 50
        numbers = [str(number) for number in range(len(accepted))]
        assert heads(client) == numbers, "reads go on, and nothing of the refused one shows"
        ballast.unlink()
        until(lambda: is_taken(client, f"{len(accepted)}:after"))
        numbers.append(str(len(accepted)))
        received = client.deliveries.receive("g", "t", max=10, invisible_s=60)
        assert [item.body.split(":")[0] for item in received] == numbers[:10]
        results = client.deliveries.ack("g", [item.receipt for item in received])
        assert {result.result for result in results} == {"done"}
    server.kill()
    server.start()
    assert server.verify() == ""
    with server.client() as client:
        assert heads(client) == numbers


def is_taken(client: Client, body: str) -> bool:
    try:
        client.messages.send("t", [NewMessage(body, queue=0)])
    except KiteError as error:
        if error.code == "disk_full":
            return False
        raise
    return True


def test_a_kill_on_a_full_disk_loses_nothing(server: ServerProcess, small_disk: Path) -> None:
    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes(1 << 20))
    server.start()
    with server.client() as client:
        accepted, _ = send_until_refused(client)
    server.kill()
    ballast.unlink()  # a start writes a little, too
    server.start()
    with server.client() as client:
        assert heads(client) == [str(number) for number in range(len(accepted))]
    assert server.verify() == ""


def fill_up(path: Path) -> None:
    """Take the last byte of the disk."""
    with path.open("wb", buffering=0) as file:
        for size in (1 << 20, 4096, 1):
            try:
                while True:
                    file.write(bytes(size))
            except OSError:
                continue


def people(data: Path, *words: str) -> str:
    """What `kitemq users` or `kitemq tokens` prints."""
    command = [sys.executable, "-m", "kitemq", *words, "--data", str(data)]
    done = subprocess.run(
        command, input="correct horse battery\n", text=True, capture_output=True, check=True
    )
    return done.stdout.strip()


@pytest.mark.parametrize("is_killed", [False, True])
def test_a_start_on_a_full_disk_reads_without_a_stack_and_heals_by_itself(
    server: ServerProcess,
    small_disk: Path,
    is_killed: bool,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    people(server.data, "users", "add", "root", "--role", "admin", "--password-stdin")
    token = people(server.data, "tokens", "add", "ci", "--owner", "root", "--role", "admin")
    monkeypatch.setenv("KITEMQ_TOKEN", token.split()[-1])
    server.start()
    numbers = [str(number) for number in range(20)]
    with server.client() as client:
        client.messages.send(
            "t", [NewMessage(f"{number}:{BODY[:900]}", queue=0) for number in numbers]
        )
    server.kill() if is_killed else server.stop()
    ballast = small_disk / "ballast"
    fill_up(ballast)
    server.start()
    with server.client() as client:
        assert heads(client) == numbers
        _, error = send_until_refused(client)
        assert error.code == "disk_full"
        with pytest.raises(KiteError):
            client.topics.create("new")
        assert httpx.get(f"{server.url}/login").status_code == 200
        assert httpx.get(f"{server.url}/healthz").status_code == 200
        ballast.unlink()
        until(lambda: is_taken(client, "20:after"))
        until(lambda: is_created(client, "new"))
    said = capfd.readouterr().err
    assert "Traceback" not in said
    assert said.count("has no room: everything can be read") == 1
    server.kill()
    server.start()
    with server.client() as client:
        assert heads(client)[:20] == numbers


def is_created(client: Client, name: str) -> bool:
    try:
        client.topics.create(name)
    except KiteError:
        return False
    return True


def test_a_start_with_nothing_to_read_on_a_full_disk_is_one_sentence(small_disk: Path) -> None:
    fill_up(small_disk / "ballast")
    data = small_disk / "data"
    for _ in range(2):
        assert sentence(data).count("\n") == 1
        assert "No space left on device" in sentence(data)


def sentence(data: Path) -> str:
    """What a server says that does not start, but that it stops."""
    command = [sys.executable, "-m", "kitemq", "serve", "--data", str(data), "--port", "0"]
    done = subprocess.run(
        [*command, "--set", "grpc_listen=off", "--set", "remoting_listen=off"],
        text=True,
        capture_output=True,
        check=False,
        timeout=START_TIMEOUT_S,
    )
    assert done.returncode == 1
    return done.stderr


def test_a_data_directory_that_cannot_be_used_is_one_sentence_with_path_and_remedy(
    tmp_path: Path, small_disk: Path
) -> None:
    (tmp_path / "file").touch()
    said = sentence(tmp_path / "file")
    assert said.count("\n") == 1
    assert str(tmp_path / "file") in said
    assert "choose a directory" in said
    said = sentence(tmp_path / "file" / "below")
    assert said.count("\n") == 1
    assert "choose a directory" in said
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    said = sentence(small_disk / "data")
    assert said.count("\n") == 1
    assert "mount the disk for writing" in said
