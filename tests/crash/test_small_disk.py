"""A disk that is really full: sends are refused with the reason, and taken again later."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from kitemq import Client, KiteError
from tests.crash.process import ServerProcess
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
            client.send("t", [{"body": body, "queue": 0}])
        except KiteError as error:
            return accepted, error
        accepted.append(body)


def heads(client: Client) -> list[str]:
    """The numbers of all bodies that can be read, in order."""
    found: list[str] = []
    offset = 0
    while True:
        page = client.pull("t", 0, offset)
        found += [message["body"].split(":")[0] for message in page["messages"]]
        if int(page["next_offset"]) <= offset:
            return found
        offset = int(page["next_offset"])


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
        received = client.receive("g", "t", max=10, invisible_s=60)
        assert [item["body"].split(":")[0] for item in received] == numbers[:10]
        results = client.ack("g", [item["receipt"] for item in received])
        assert {result["result"] for result in results} == {"done"}
    server.kill()
    server.start()
    assert server.verify() == ""
    with server.client() as client:
        assert heads(client) == numbers


def is_taken(client: Client, body: str) -> bool:
    try:
        client.send("t", [{"body": body, "queue": 0}])
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
