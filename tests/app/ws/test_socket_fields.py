"""Every documented field of every frame, in both encodings, against a real server.

The cases are made from the frames' own shapes: a field that is added without an example here, or
without a word in docs/websocket.md, fails a test.
"""

import itertools
import json
import logging
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest
from websockets.sync.client import ClientConnection, connect

from kitemq.protocol import batches, calls, frames, sends, text, transactions
from kitemq.protocol.columns import ProtocolError
from kitemq.protocol.stream import CLIENT_FRAMES, SERVER_FRAMES, iter_frames
from tests.live import LiveServer

WAIT_S = 30.0
TOPIC, GROUP, PRODUCERS = "fields", "readers", "producers"
SOON_MS = (int(time.time()) + 86_400) * 1000  # nothing is due while the test runs
DOCUMENT = Path(__file__).parents[3] / "docs" / "websocket.md"
INTERNAL = "internal_error"
SILENT = (frames.CreditFrame,)  # has no answer


class Peer:
    """Speaks frames or text over one connection."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket
        self._numbers = itertools.count(1)

    def ask(self, frame: frames.Frame) -> frames.Frame:
        """The answer to a binary frame, or to the next one where it has none."""
        number = next(self._numbers)
        self._socket.send(frames.encode(number, frame))
        if isinstance(frame, SILENT):
            return self.ask(frames.UnsubscribeFrame(999))
        while True:
            data = self._socket.recv(WAIT_S)
            assert isinstance(data, bytes)
            for request, answer in iter_frames(data, SERVER_FRAMES):
                if request == number:
                    assert isinstance(answer, frames.Frame), answer
                    return answer

    def tell(self, op: dict[str, Any]) -> dict[str, Any]:
        """The answer to a text frame, or to the next one where it has none."""
        number = next(self._numbers)
        self._socket.send(json.dumps(op | {"id": number}))
        if op["op"] == "credit":
            op, number = {"op": "unsubscribe", "subscription": 999}, next(self._numbers)
            self._socket.send(json.dumps(op | {"id": number}))
        while True:
            answer: dict[str, Any] = json.loads(self._socket.recv(WAIT_S))
            if answer.get("id") in (number, 0):  # 0 where not even the number could be read
                return answer


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    with LiveServer(tmp_path_factory.mktemp("fields") / "data") as live:
        yield live


@pytest.fixture
def peer(server: LiveServer) -> Iterator[Peer]:
    with connect(server.socket_url, max_size=None, compression=None, close_timeout=1) as socket:
        yield Peer(socket)


def send(**changes: Any) -> sends.SendFrame:
    columns: dict[str, Any] = {
        "topic": TOPIC, "bodies": [b"a", b"b"], "tags": [""] * 2, "keys": [""] * 2,
        "groups": [""] * 2, "properties": [{}] * 2, "delay_levels": [0] * 2, "flags": [0] * 2,
        "born_ms": [0] * 2,
    }  # fmt: skip
    return sends.SendFrame(**columns | changes)


# -- what each field may hold: a frame of the least, and values that are taken ---------------------

RECEIPT = (TOPIC, 0, 0, 77)  # of a hand-out that is over: the answer is "stale"
DECISION = {"transaction_id": "7F00000100002A9F0000000000000000", "decision": 1}
BINARY: dict[type[frames.Frame], tuple[frames.Frame, dict[str, list[Any]]]] = {
    frames.HelloFrame: (frames.HelloFrame(""), {"client": ["field-client"], "version": [1]}),
    sends.SendFrame: (
        send(),
        {
            "topic": [TOPIC, "another"],
            "bodies": [[b"\n", b"\x00\xff"]],
            "tags": [["paid", ""], ["paid", "paid"]],
            "keys": [["k1 k2", ""]],
            "groups": [["lane", ""], ["lane", "lane"]],
            "properties": [[{"a": "1"}, {}], [{"a": "1"}, {"a": "1"}]],
            "delay_levels": [[3, 0], [3, 3]],
            "flags": [[7, -1]],
            "born_ms": [[1, 2]],
            "durability": [0, 1, 2],
            "queue": [-1, 0],
            "id_prefix": ["0123456789ABCDEF01234567"],
            "id_first": [5],
            "delay_ms": [[5000, 0], [0, 5000], [5000, 5000]],
            "deliver_at_ms": [[SOON_MS, 0], [0, SOON_MS], [SOON_MS, SOON_MS]],
        },
    ),
    frames.SubscribeFrame: (
        frames.SubscribeFrame(GROUP, {TOPIC: "*"}, 0, 60_000),
        {
            "group": [GROUP], "topics": [{TOPIC: "a || b"}, {TOPIC: "SQL92:a = 1"}],
            "credit": [0, 5], "invisible_ms": [10, 60_000],
        },
    ),
    frames.CreditFrame: (frames.CreditFrame(999, 1), {"subscription": [999], "count": [0, 65_536]}),
    batches.AckFrame: (
        batches.AckFrame(GROUP, []),
        {"group": [GROUP], "receipts": [[], [RECEIPT]]},
    ),
    batches.ReleaseFrame: (
        batches.ReleaseFrame(GROUP, []),
        {"group": [GROUP], "receipts": [[], [RECEIPT]]},
    ),
    batches.NackFrame: (
        batches.NackFrame(GROUP, [RECEIPT], [-1], [-1], ["why"]),
        {
            "group": [GROUP], "receipts": [[RECEIPT]], "delay_ms": [[-1], [0], [5000]],
            "delay_levels": [[-1], [0], [3], [batches.TO_DEAD_LETTERS]], "errors": [["no stock"]],
        },
    ),
    batches.ExtendFrame: (
        batches.ExtendFrame(GROUP, [RECEIPT], 60_000),
        {"group": [GROUP], "receipts": [[], [RECEIPT]], "invisible_ms": [10, 60_000]},
    ),
    frames.UnsubscribeFrame: (frames.UnsubscribeFrame(999), {"subscription": [999]}),
    calls.CallFrame: (
        calls.CallFrame("GET", "/api/v1/topics"),
        {
            "method": ["GET", "DELETE"], "path": ["/api/v1/topics?q=a"],
            "content_type": ["application/json"], "body": [b"{}"],
        },
    ),
    transactions.ChecksWantedFrame: (
        transactions.ChecksWantedFrame(PRODUCERS), {"group": [PRODUCERS]}
    ),
    transactions.ChecksUnwantedFrame: (transactions.ChecksUnwantedFrame(999), {"wanted": [999]}),
    transactions.DecideFrame: (
        transactions.DecideFrame(**DECISION),
        {
            "transaction_id": [DECISION["transaction_id"]], "decision": [1, 2, 3],
            "group": ["", PRODUCERS], "is_check": [True, False],
        },
    ),
}  # fmt: skip
TEXT: dict[str, tuple[dict[str, Any], dict[str, list[Any]]]] = {
    "hello": ({}, {"client": ["", "text-client"]}),
    "send": (
        {"topic": TOPIC, "messages": [{"body": "a"}, {"body": "b"}]},
        {
            "topic": [TOPIC], "messages": [[{"body": "a"}]], "queue": [-1, 0],
            "durability": ["", "stored", "flushed"],
        },
    ),
    "subscribe": (
        {"group": GROUP, "topics": {TOPIC: "*"}, "credit": 0},
        {
            "group": [GROUP], "topics": [{TOPIC: "a || b"}, {TOPIC: "SQL92:a = 1"}],
            "credit": [0, 5], "invisible_ms": [10, 60_000],
        },
    ),
    "credit": (
        {"subscription": 999, "count": 1}, {"subscription": [999], "count": [0, 65_536]}
    ),
    "unsubscribe": ({"subscription": 999}, {"subscription": [999]}),
    "call": (
        {"path": "/api/v1/topics"},
        {"path": ["/api/v1/topics?q=a"], "method": ["GET", "DELETE"], "json": [{}, None]},
    ),
    "checks_wanted": ({"group": PRODUCERS}, {"group": [PRODUCERS]}),
    "checks_unwanted": ({"wanted": 999}, {"wanted": [999]}),
    "decide": (
        DECISION | {"decision": "commit"},
        {
            "transaction_id": [DECISION["transaction_id"]],
            "decision": ["commit", "rollback", "unknown"],
            "group": ["", PRODUCERS], "is_check": [True, False],
        },
    ),
    "ack": ({"group": GROUP, "receipts": []}, {"group": [GROUP], "receipts": [["fields:0:0:4d"]]}),
    "release": (
        {"group": GROUP, "receipts": []}, {"group": [GROUP], "receipts": [["fields:0:0:4d"]]}
    ),
    "nack": (
        {"group": GROUP, "receipts": ["fields:0:0:4d"]},
        {
            "group": [GROUP], "receipts": [["fields:0:0:4d"]], "delay_ms": [-1, 0, 5000],
            "delay_level": [-1, 0, 3], "to_dead_letters": [True, False], "error": ["no stock"],
        },
    ),
    "extend": (
        {"group": GROUP, "receipts": ["fields:0:0:4d"]},
        {"group": [GROUP], "receipts": [["fields:0:0:4d"]], "invisible_ms": [10, 60_000]},
    ),
}  # fmt: skip
MESSAGE: dict[str, list[Any]] = {
    "body": [" ", "ü\u0000"], "encoding": ["utf-8"], "tag": ["paid"], "keys": [["k1", "k2"]],
    "message_group": ["lane"], "properties": [{"a": "1"}], "delay_level": [3], "delay_ms": [5000],
    "deliver_at_ms": [SOON_MS], "flag": [7, -1], "born_ms": [1],
}  # fmt: skip
OPS = {kind.__struct_config__.tag: kind for kind in get_args(text._DECODER.type)}
HOSTILE: dict[type, list[Any]] = {
    int: [-1, 0, 2**31 - 1, 2**31, 2**32 - 1, 2**63 - 1, -(2**63)],
    str: ["", "\x00", "\x01\x02", "%DLQ%x", "../..", "ü" * 9000, "\u202e"],
    bytes: [b"", b"\xff" * 10, b"{" * 5000],
    bool: [True],
}
BIG = [2**63, 10**30, 10**400, 1e300, "text", None, [[[]]], {"a": {}}]  # which text can say


def binary_cases() -> Iterator[Any]:
    for kind, (base, examples) in BINARY.items():
        for name, values in examples.items():
            for index, value in enumerate(values):
                yield pytest.param(base, name, value, id=f"{kind.__name__}-{name}-{index}")


def text_cases() -> Iterator[Any]:
    for op, (base, examples) in TEXT.items():
        for name, values in examples.items():
            for index, value in enumerate(values):
                yield pytest.param(op, base | {name: value}, id=f"{op}-{name}-{index}")
    send_base = TEXT["send"][0]
    for name, values in MESSAGE.items():
        for index, value in enumerate(values):
            plain = {"body": "a"}
            with_it = plain | {name: value}
            for place, messages in (
                ("alone", [with_it]), ("first", [with_it, plain]), ("last", [plain, with_it]),
            ):  # fmt: skip
                number = f"{index}-{place}"
                yield pytest.param(
                    "send", send_base | {"messages": messages}, id=f"send-messages.{name}-{number}"
                )


def test_every_field_of_every_frame_has_an_example() -> None:
    assert set(BINARY) == set(CLIENT_FRAMES.values())
    for kind, (_, examples) in BINARY.items():
        assert set(examples) == set(kind.__struct_fields__), kind
    assert set(TEXT) == set(OPS)
    for op, (_, examples) in TEXT.items():
        assert set(examples) == set(OPS[op].__struct_fields__) - {"id"}, op
    assert set(MESSAGE) == set(sends.TextMessage.__struct_fields__)


def test_every_field_of_every_text_frame_is_documented() -> None:
    rows = {}
    for line in DOCUMENT.read_text().split("| op | fields")[1].splitlines():
        cells = line.split("|")
        if len(cells) == 4 and cells[1].strip().startswith("`"):
            for name in cells[1].replace("`", "").split(","):
                rows[name.strip()] = cells[2]
    assert set(rows) == set(OPS)
    for op, kind in OPS.items():
        for name in set(kind.__struct_fields__) - {"id"}:
            assert f"`{name}`" in rows[op], (op, name)
    for name in sends.TextMessage.__struct_fields__:
        assert f"`{name}`" in rows["send"], name


@pytest.mark.parametrize(("base", "name", "value"), list(binary_cases()))
def test_every_field_of_every_binary_frame_is_taken(
    peer: Peer, base: frames.Frame, name: str, value: Any
) -> None:
    frame = msgspec.structs.replace(base, **{name: value})
    answer = peer.ask(frame)
    if isinstance(answer, frames.ErrorFrame):
        assert answer.code == "transaction_not_found", answer


@pytest.mark.parametrize(("op", "fields"), list(text_cases()))
def test_every_field_of_every_text_frame_is_taken(
    peer: Peer, op: str, fields: dict[str, Any]
) -> None:
    answer = peer.tell({"op": op, **fields})
    if answer["op"] == "error":  # nobody holds a transaction of that id
        assert (op, answer["code"]) == ("decide", "transaction_not_found"), answer


@pytest.mark.parametrize("kind", BINARY, ids=lambda kind: kind.__name__)
def test_no_number_or_text_in_a_binary_frame_is_an_internal_error(
    peer: Peer, kind: type[frames.Frame], caplog: pytest.LogCaptureFixture
) -> None:
    base, examples = BINARY[kind]
    for name, (value, *_) in examples.items():
        if name == "receipts" or kind is frames.HelloFrame:
            continue  # hostile receipts are the simulation's; a name may replace this connection
        for hostile in _hostile(value):
            frame = msgspec.structs.replace(base, **{name: hostile})
            try:
                frames.encode(1, frame)
            except (ProtocolError, ValueError):
                continue  # cannot be said in this encoding
            answer = peer.ask(frame)
            assert getattr(answer, "code", "") != INTERNAL, (name, hostile)
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


@pytest.mark.parametrize("op", TEXT)
def test_no_value_in_a_text_frame_is_an_internal_error(
    peer: Peer, op: str, caplog: pytest.LogCaptureFixture
) -> None:
    base, examples = TEXT[op]
    asked = [
        base | {name: hostile}
        for name, (value, *_) in examples.items()
        for hostile in [*_hostile(value), *BIG]
        if (op, name) != ("hello", "client")
    ]
    if op == "send":
        asked += [
            base | {"messages": [{"body": "a"} | {name: hostile}, {"body": "b"}]}
            for name, (value, *_) in MESSAGE.items()
            for hostile in [*_hostile(value), *BIG]
        ]
    for fields in asked:
        answer = peer.tell({"op": op, **fields})
        assert answer.get("code") != INTERNAL, str(fields)[:200]
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


@pytest.mark.parametrize("field", ["delay_ms", "deliver_at_ms"])
def test_a_message_sent_as_text_waits_as_long_as_it_says(
    server: LiveServer, peer: Peer, field: str
) -> None:
    topic = f"waiting-{field.replace('_', '-')}"
    value = 60_000_000 if field == "delay_ms" else SOON_MS
    answer = peer.tell(
        {
            "op": "send",
            "topic": topic,
            "messages": [{"body": "late", field: value}, {"body": "now"}],
        }
    )
    assert answer["op"] == "sent", answer
    peer.tell({"op": "subscribe", "group": topic, "topics": {topic: "*"}, "credit": 5})
    delivered = json.loads(peer._socket.recv(WAIT_S))
    assert [message["body"] for message in delivered["messages"]] == ["now"]


def _hostile(value: Any) -> list[Any]:
    """Values of the same kind that no honest client sends."""
    if isinstance(value, list):
        inner = _hostile(value[0]) if value else []
        return [[each, *value[1:]] for each in inner]
    if isinstance(value, dict):
        texts = HOSTILE[str]
        return [{key: "1"} for key in texts] + [{key: each} for key in value for each in texts]
    return HOSTILE[type(value)]
