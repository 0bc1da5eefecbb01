"""The generator's side of each protocol, byte by byte: a wrong count would be a wrong figure."""

import pytest

from bench.clients.rest import RestSend
from bench.clients.websocket import SocketSend, SocketTake, masked
from bench.load import LoadError
from bench.peers.nats import NatsSend, NatsTake
from bench.peers.redis import RedisSend, RedisTake, command
from kitemq.protocol.batches import AckFrame, DeliverFrame, ResultFrame
from kitemq.protocol.frames import CreditFrame, ErrorFrame, encode
from kitemq.protocol.sends import SendFrame, SentFrame
from kitemq.protocol.stream import CLIENT_FRAMES, iter_frames


def from_server(*frames: bytes) -> bytes:
    """One unmasked WebSocket message."""
    payload = b"".join(frames)
    assert len(payload) < 1 << 16
    size = len(payload)
    head = bytes((0x82, size)) if size < 126 else b"\x82\x7e" + size.to_bytes(2, "big")
    return head + payload


def from_client(data: bytes) -> list[object]:
    """The frames of messages that the generator wrote (their mask is zero)."""
    frames = []
    while data:
        size, start = data[1] & 0x7F, 6
        if size == 126:
            size, start = int.from_bytes(data[2:4], "big"), 8
        frames += [frame for _, frame in iter_frames(data[start : start + size], CLIENT_FRAMES)]
        data = data[start + size :]
    return frames


def bytewise(data: bytes) -> list[bytes]:
    return [data[at : at + 1] for at in range(len(data))]


SENT = encode(1, SentFrame(1, [0], [0], [0], [""]))


def test_each_message_of_a_socket_send_has_an_id_of_its_own():
    client = SocketSend(1, "orders", b"body", per_request=2)
    first, second = from_client(client.requests(2))
    assert isinstance(first, SendFrame)
    assert isinstance(second, SendFrame)
    assert len({*first.message_ids(), *second.message_ids()}) == 4


def test_socket_answers_are_counted_however_they_are_cut():
    client = SocketSend(1, "orders", b"body")
    data = from_server(SENT, SENT) + from_server(SENT)
    assert sum(map(client.answers, bytewise(data))) == 3


def test_an_error_frame_ends_the_run():
    client = SocketSend(1, "orders", b"body")
    with pytest.raises(LoadError, match="busy"):
        client.answers(from_server(encode(1, ErrorFrame("busy", "wait"))))


def test_a_delivery_is_acknowledged_with_its_own_receipts_and_its_credit_returned():
    receipts = [("orders", 0, 7, 70), ("orders", 1, 8, 71)]
    zeros = [0, 0]
    deliver = DeliverFrame(
        receipts, [1, 1], zeros, zeros, zeros, zeros, zeros, zeros, [b"", b""], [b"a", b"b"]
    )
    taken = SocketTake(1, "orders", "g").take(from_server(encode(1, deliver)))
    assert (taken.delivered, taken.settled) == (2, 0)
    assert from_client(taken.reply) == [CreditFrame(1, 2), AckFrame("g", receipts)]


def test_a_stale_acknowledgement_ends_the_run():
    client = SocketTake(1, "orders", "g")
    assert client.take(from_server(encode(2, ResultFrame([0, 0], [0, 0])))).settled == 2
    with pytest.raises(LoadError, match="stale"):
        client.take(from_server(encode(2, ResultFrame([0, 2], [0, 0]))))


@pytest.mark.parametrize("size", [1, 125, 126, 65_535, 65_536])
def test_a_masked_message_states_its_length(size):
    message = masked(b"x" * size)
    assert message.endswith(b"\0\0\0\0" + b"x" * size)
    assert len(message) - size == (6 if size < 126 else 8 if size < 65_536 else 14)


def test_http_answers_are_counted_however_they_are_cut():
    client = RestSend(1, "orders", b"body")
    answer = b"HTTP/1.1 201 Created\r\nContent-Length: 2\r\n\r\n{}"
    assert sum(map(client.answers, bytewise(answer * 2))) == 2


def test_an_http_error_ends_the_run():
    with pytest.raises(LoadError, match="503"):
        RestSend(1, "orders", b"body").answers(b"HTTP/1.1 503 X\r\ncontent-length: 0\r\n\r\n")


def test_redis_answers_are_counted_however_they_are_cut():
    client = RedisSend("s", b"body")
    assert sum(map(client.answers, bytewise(b"$3\r\n1-0\r\n" * 3))) == 3


def test_redis_entries_are_acknowledged_by_their_ids():
    client = RedisTake("s", "g", 1)
    entries = b"".join(
        b"*2\r\n" + command(name)[4:] + b"*2\r\n$1\r\nb\r\n$1\r\nx\r\n" for name in ("1-0", "22-0")
    )
    reply = b"*1\r\n*2\r\n$1\r\ns\r\n*2\r\n" + entries
    parts = [client.take(part) for part in (reply[:30], reply[30:] + b":2\r\n")]
    assert [part.delivered for part in parts] == [0, 2]
    assert parts[1].settled == 2
    assert parts[1].reply.startswith(command("XACK", "s", "g", "1-0", "22-0"))


def test_nats_messages_are_acknowledged_each():
    client = NatsTake("s", "c")
    client.begin()
    data = b"MSG _INBOX.x 1 $JS.ACK.s.c.1 2\r\nhi\r\n"
    taken = [client.take(part) for part in bytewise(data)]
    assert sum(part.delivered for part in taken) == 1
    assert taken[-1].reply == b"PUB $JS.ACK.s.c.1 0\r\n\r\n"


def test_a_nats_error_ends_the_run():
    with pytest.raises(LoadError, match="no space"):
        NatsSend("s", b"body").answers(b'MSG _INBOX.x 1 30\r\n{"error":{"description":"no space"}}')
