"""The text twin says the same as the frames."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kitemq.protocol import text
from kitemq.protocol.batches import (
    NOT_GIVEN,
    TO_DEAD_LETTERS,
    AckFrame,
    DeliverFrame,
    ExtendFrame,
    NackFrame,
    ReleaseFrame,
    ResultFrame,
    SubscribedFrame,
)
from kitemq.protocol.calls import AnswerFrame, CallFrame
from kitemq.protocol.columns import ProtocolError
from kitemq.protocol.frames import (
    CreditFrame,
    ErrorFrame,
    Frame,
    HelloFrame,
    SubscribeFrame,
    UnsubscribeFrame,
)
from kitemq.protocol.sends import DurabilityCode, SendFrame, SentFrame
from kitemq.protocol.stream import UnreadableFrame

RECEIPT = ("t", 1, 2, 255)


@pytest.mark.parametrize(
    ("request_text", "frame"),
    [
        ('{"op":"hello","client":"me"}', HelloFrame("me")),
        ('{"op":"credit","subscription":2,"count":3}', CreditFrame(2, 3)),
        ('{"op":"unsubscribe","subscription":2}', UnsubscribeFrame(2)),
        ('{"op":"call","path":"/api/v1/topics?q=a"}', CallFrame("GET", "/api/v1/topics?q=a")),
        ('{"op":"call","method":"POST","path":"/p","json":{"a": [1]}}',
         CallFrame("POST", "/p", "application/json", b'{"a": [1]}')),
        ('{"op":"subscribe","group":"g","topics":{"t":"a"}}',
         SubscribeFrame("g", {"t": "a"}, 16, 60_000)),
        ('{"op":"ack","group":"g","receipts":["t:1:2:ff"]}', AckFrame("g", [RECEIPT])),
        ('{"op":"release","group":"g","receipts":["t:1:2:ff"]}', ReleaseFrame("g", [RECEIPT])),
        ('{"op":"extend","group":"g","receipts":["t:1:2:ff"],"invisible_ms":5}',
         ExtendFrame("g", [RECEIPT], 5)),
        ('{"op":"nack","group":"g","receipts":["t:1:2:ff"],"error":"e","delay_ms":7}',
         NackFrame("g", [RECEIPT], [7], [NOT_GIVEN], ["e"])),
        ('{"op":"nack","group":"g","receipts":["t:1:2:ff"],"to_dead_letters":true}',
         NackFrame("g", [RECEIPT], [NOT_GIVEN], [TO_DEAD_LETTERS], [""])),
        ('{"op":"send","topic":"t","messages":[{"body":"x","keys":["a","b"]}],"durability":"flushed"}',
         SendFrame("t", [b"x"], [""], ["a b"], [""], [{}], [0], [0], [0],
                   durability=DurabilityCode.FLUSHED)),
        ('{"op":"send","topic":"t","messages":[{"body":"x","delay_ms":5},{"body":"y"}]}',
         SendFrame("t", [b"x", b"y"], [""] * 2, [""] * 2, [""] * 2, [{}] * 2, [0] * 2, [0] * 2,
                   [0] * 2, delay_ms=[5, 0])),
    ],
)  # fmt: skip
def test_each_request_is_its_frame(request_text: str, frame: Frame) -> None:
    assert text.parse(request_text) == (0, frame)


@pytest.mark.parametrize(
    ("frame", "document"),
    [
        (AnswerFrame(200, "application/json", b'{"a":[1]}'),
         {"op": "answer", "id": 3, "status": 200, "json": {"a": [1]}}),
        (AnswerFrame(204, "", b""), {"op": "answer", "id": 3, "status": 204}),
        (AnswerFrame(200, "text/plain", b"hi"),
         {"op": "answer", "id": 3, "status": 200, "content_type": "text/plain",
          "body": "hi", "encoding": "utf-8"}),
        (SentFrame(1, [0], [5], [9], ["M"]),
         {"op": "sent", "id": 3, "durability": "stored", "messages":
          [{"message_id": "M", "queue": 0, "offset": "5", "position": "9"}]}),
        (ResultFrame([0, 2], [7, 0]),
         {"op": "result", "id": 3, "results":
          [{"result": "done", "invisible_until_ms": 7}, {"result": "stale"}]}),
        (SubscribedFrame([RECEIPT]), {"op": "subscribed", "id": 3, "held": ["t:1:2:ff"]}),
        (ErrorFrame("busy", "d", "f", "r", 5),
         {"op": "error", "id": 3, "code": "busy", "detail": "d", "field": "f", "remedy": "r",
          "retry_after_ms": 5}),
        (DeliverFrame([RECEIPT], [1], [6], [4], [5], [9], [0], [0], [b"TAGS\x01a\x02"], [b"\xff"]),
         {"op": "deliver", "subscription": 3, "messages":
          [{"receipt": "t:1:2:ff", "attempt": 1, "invisible_until_ms": 6, "topic": "t", "queue": 1,
            "offset": "2", "born_ms": 4, "stored_ms": 5, "properties": {"TAGS": "a"},
            "body": "/w==", "encoding": "base64"}]}),
    ],
)  # fmt: skip
def test_each_answer_is_its_document(frame: Frame, document: dict[str, object]) -> None:
    assert json.loads(text.render(3, frame)) == document


def test_a_clients_frame_is_no_answer() -> None:
    with pytest.raises(ProtocolError):
        text.render(1, HelloFrame("me"))


@given(st.text())
def test_any_text_is_a_request_or_unreadable(given_text: str) -> None:
    assert isinstance(text.parse(given_text)[1], (Frame, UnreadableFrame))


@given(st.text(), st.integers(0), st.integers(0), st.integers(0))
def test_a_receipt_comes_back_as_it_was(topic: str, queue: int, offset: int, serial: int) -> None:
    assert text.parse_receipt(text.receipt_text((topic, queue, offset, serial))) == (
        topic, queue, offset, serial,
    )  # fmt: skip


@pytest.mark.parametrize(
    "receipt",
    [
        "",
        "t:0:0",
        "t:-1:0:5",
        "t:0:-1:5",
        "t:0:0:-5",
        "t:+1:0:5",
        "t: 1:0:5",
        "t:1_0:0:5",
        "t:\u0661:0:5",
        "t:0:0:\u0661",
        "t:0:0:0x5",
        "t:0:0:5\n",
        "t:0:0:",
        f"t:0:{'9' * 5000}:5",
    ],
)
def test_what_no_server_wrote_is_no_receipt(receipt: str) -> None:
    with pytest.raises(ProtocolError):
        text.parse_receipt(receipt)


@pytest.mark.parametrize("number", [0, 2**31, 2**63 - 1, 2**63, 2**64])
def test_a_receipt_of_any_size_is_read(number: int) -> None:
    expected = ("t:1", number, number, number)
    assert text.parse_receipt(text.receipt_text(expected)) == expected
