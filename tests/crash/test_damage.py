"""Torn tails and flipped bytes in a real server's files."""

from pathlib import Path

import pytest

from kitemq import Client
from kitemq.model.produce import NewMessage, StoredAt
from tests.crash.process import ServerProcess

pytestmark = pytest.mark.crash


def fill(client: Client, count: int) -> list[StoredAt]:
    stored = []
    for number in range(count):
        sent = client.messages.send(
            "t", [NewMessage(f"body {number}", queue=0, keys=(f"k{number}",))]
        )
        stored += sent.messages
    return stored


def bodies(client: Client) -> list[str]:
    found: list[str] = []
    offset = 0
    while True:
        page = client.messages.pull("t", 0, offset)
        found += [message.body for message in page.messages]
        if int(page.next_offset) <= offset:
            return found
        offset = int(page.next_offset)


def segment(server: ServerProcess) -> Path:
    return server.data / "commitlog" / f"{0:020d}"


def damage(server: ServerProcess, position: int, data: bytes) -> None:
    with segment(server).open("r+b") as file:
        file.seek(position)
        file.write(data)


def end_of_log(server: ServerProcess, last_position: int) -> int:
    data = segment(server).read_bytes()
    return last_position + int.from_bytes(data[last_position : last_position + 4], "big")


def forget_checkpoint(server: ServerProcess) -> None:
    """As if the crash had come before the first one: the whole log is read again."""
    (server.data / "checkpoint").unlink(missing_ok=True)


def test_a_torn_tail_is_cut_and_the_server_goes_on(server: ServerProcess) -> None:
    server.start()
    with server.client() as client:
        stored = fill(client, 20)
    server.kill()
    end = end_of_log(server, int(stored[-1].position))
    forget_checkpoint(server)
    damage(server, end - 20, bytes(20))
    server.start()
    assert server.verify() == ""
    with server.client() as client:
        assert bodies(client) == [f"body {number}" for number in range(19)]
        assert client.messages.find_by_key("t", "k19") == []
        assert len(client.messages.find_by_key("t", "k18")) == 1
        again = client.messages.send("t", [NewMessage("again", queue=0)]).messages[0]
        assert (again.offset, again.position) == ("19", stored[-1].position)


def test_a_flipped_byte_costs_one_message_and_is_told(server: ServerProcess) -> None:
    server.start()
    with server.client() as client:
        stored = fill(client, 20)
    server.kill()
    forget_checkpoint(server)
    damage(server, int(stored[7].position) + 89, b"\xff")
    assert "CRC" in server.verify()
    server.start()
    with server.client() as client:
        expected = [f"body {number}" for number in range(20) if number != 7]
        assert bodies(client) == expected
        received = [
            item.body
            for _ in range(3)
            for item in client.deliveries.receive("g", "t", max=100, invisible_s=60)
        ]
        assert received == expected
        assert client.messages.send("t", [NewMessage("next", queue=0)]).messages[0].offset == "20"
