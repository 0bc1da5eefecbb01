"""The text form of the frames: JSON that a person can type into a browser or `wscat`.

One text message is one frame. `op` is its name in lower case, `id` the request number (0 if
absent); offsets, positions and receipts are texts, as in the REST interface. Small on purpose: who
wants speed speaks the binary frames, which carry the same things.
"""

import base64
import re
from typing import Any

import msgspec

from kitemq.protocol.batches import (
    NOT_GIVEN,
    TO_DEAD_LETTERS,
    AckFrame,
    DeliverFrame,
    ExtendFrame,
    NackFrame,
    Receipt,
    ReleaseFrame,
    ResultCode,
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
    WelcomeFrame,
)
from kitemq.protocol.json_values import SMALL_BYTES, VALUES_MAX, has_too_many_values
from kitemq.protocol.properties import split_properties
from kitemq.protocol.sends import DurabilityCode, Number, SentFrame, TextMessage, frame_of
from kitemq.protocol.stream import UnreadableFrame
from kitemq.protocol.transactions import (
    DECISIONS,
    CheckFrame,
    ChecksUnwantedFrame,
    ChecksWantedFrame,
    DecidedFrame,
    DecideFrame,
)

RECEIPT = re.compile(r"(.*):([0-9]+):([0-9]+):([0-9a-f]+)", re.DOTALL)
COMPRESSED_FLAG = 1  # of the system flag: the body could not be decompressed
CREDIT_DEFAULT = 16
INVISIBLE_MS_DEFAULT = 60_000
JSON = "application/json"
JSON_TYPES = frozenset({JSON, "application/problem+json"})


class _Op(msgspec.Struct, tag_field="op"):
    id: Number = 0

    def frame(self) -> Frame:
        raise NotImplementedError


class _HelloOp(_Op, tag="hello"):
    client: str = ""

    def frame(self) -> Frame:
        return HelloFrame(self.client)


class _SendOp(_Op, tag="send", kw_only=True):
    topic: str
    messages: list[TextMessage]
    queue: Number = -1
    durability: str = ""

    def frame(self) -> Frame:
        return frame_of(self.topic, self.messages, self.queue, self.durability)


class _SubscribeOp(_Op, tag="subscribe", kw_only=True):
    group: str
    topics: dict[str, str]
    credit: Number = CREDIT_DEFAULT
    invisible_ms: Number = INVISIBLE_MS_DEFAULT

    def frame(self) -> Frame:
        return SubscribeFrame(self.group, self.topics, self.credit, self.invisible_ms)


class _CreditOp(_Op, tag="credit", kw_only=True):
    subscription: Number
    count: Number

    def frame(self) -> Frame:
        return CreditFrame(self.subscription, self.count)


class _UnsubscribeOp(_Op, tag="unsubscribe", kw_only=True):
    subscription: Number

    def frame(self) -> Frame:
        return UnsubscribeFrame(self.subscription)


class _CallOp(_Op, tag="call", kw_only=True):
    method: str = "GET"
    path: str
    json: msgspec.Raw = msgspec.Raw(b"")

    def frame(self) -> Frame:
        body = bytes(self.json)
        return CallFrame(self.method, self.path, JSON if body else "", body)


class _ChecksWantedOp(_Op, tag="checks_wanted", kw_only=True):
    group: str

    def frame(self) -> Frame:
        return ChecksWantedFrame(self.group)


class _ChecksUnwantedOp(_Op, tag="checks_unwanted", kw_only=True):
    wanted: Number

    def frame(self) -> Frame:
        return ChecksUnwantedFrame(self.wanted)


class _DecideOp(_Op, tag="decide", kw_only=True):
    transaction_id: str
    decision: str
    group: str = ""
    is_check: bool = False

    def frame(self) -> Frame:
        codes = {name: code for code, name in DECISIONS.items()}
        if self.decision not in codes:
            raise ProtocolError(f"decision {self.decision!r} is unknown; say {', '.join(codes)}")
        return DecideFrame(self.transaction_id, codes[self.decision], self.group, self.is_check)


class _SettleOp(_Op, kw_only=True):
    group: str
    receipts: list[str]

    def parsed(self) -> list[Receipt]:
        return [parse_receipt(text) for text in self.receipts]


class _AckOp(_SettleOp, tag="ack"):
    def frame(self) -> Frame:
        return AckFrame(self.group, self.parsed())


class _ReleaseOp(_SettleOp, tag="release"):
    def frame(self) -> Frame:
        return ReleaseFrame(self.group, self.parsed())


class _NackOp(_SettleOp, tag="nack", kw_only=True):
    delay_ms: Number = NOT_GIVEN
    delay_level: Number = NOT_GIVEN
    to_dead_letters: bool = False
    error: str = ""

    def frame(self) -> Frame:
        count = len(self.receipts)
        return NackFrame(
            self.group,
            self.parsed(),
            [self.delay_ms] * count,
            [TO_DEAD_LETTERS if self.to_dead_letters else self.delay_level] * count,
            [self.error] * count,
        )


class _ExtendOp(_SettleOp, tag="extend", kw_only=True):
    invisible_ms: Number = INVISIBLE_MS_DEFAULT

    def frame(self) -> Frame:
        return ExtendFrame(self.group, self.parsed(), self.invisible_ms)


_DECODER = msgspec.json.Decoder(
    _HelloOp
    | _SendOp
    | _SubscribeOp
    | _CreditOp
    | _UnsubscribeOp
    | _CallOp
    | _ChecksWantedOp
    | _ChecksUnwantedOp
    | _DecideOp
    | _AckOp
    | _ReleaseOp
    | _NackOp
    | _ExtendOp
)


def parse(text: str) -> tuple[int, Frame | UnreadableFrame]:
    """Request number and frame of one text message, or an `UnreadableFrame`."""
    if len(text) > SMALL_BYTES // 4 and has_too_many_values(text.encode("utf-8", "replace")):
        return 0, UnreadableFrame(0, f"a text frame holds at most {VALUES_MAX} values")
    try:
        op = _DECODER.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        return 0, UnreadableFrame(0, f"no request of this interface: {str(error)[:500]}")
    try:
        return op.id, op.frame()
    except (ProtocolError, UnicodeEncodeError) as error:
        return op.id, UnreadableFrame(op.id, str(error))


def render(request: int, frame: Frame) -> str:
    """A server's frame as text."""
    return msgspec.json.encode(_fields(request, frame)).decode()


def _fields(request: int, frame: Frame) -> dict[str, Any]:
    match frame:
        case SentFrame():
            return {"op": "sent", "id": request, **_sent_fields(frame)}
        case DeliverFrame():
            return {"op": "deliver", "subscription": request, "messages": _messages(frame)}
        case ResultFrame():
            return {"op": "result", "id": request, "results": _results(frame)}
        case SubscribedFrame():
            receipts = [receipt_text(receipt) for receipt in frame.held]
            return {"op": "subscribed", "id": request, "held": receipts}
        case AnswerFrame():
            return {"op": "answer", "id": request, "status": frame.status, **_answered(frame)}
        case CheckFrame():
            return {"op": "check", "wanted": request, **_check(frame)}
        case ErrorFrame() | WelcomeFrame() | DecidedFrame():
            name = type(frame).__name__.removesuffix("Frame").lower()
            return {"op": name, "id": request, **msgspec.structs.asdict(frame)}
    raise ProtocolError(f"{type(frame).__name__} is no frame of a server")


def parse_receipt(text: str) -> Receipt:
    """`topic:queue:offset:serial`, the serial in hex; raises ProtocolError.

    The numbers are plain ASCII digits without a sign, as `receipt_text` writes them. They may be
    of any size: whether a receipt names anything is for the engine to say.
    """
    match = RECEIPT.fullmatch(text)
    try:
        if match is None:
            raise ValueError("not the form of a receipt")
        topic, queue, offset, serial = match.groups()
        return topic, int(queue), int(offset), int(serial, 16)
    except ValueError:
        raise ProtocolError(f"{text[:100]!r} is no receipt; send it back as it came") from None


def receipt_text(receipt: Receipt) -> str:
    """The text form of a receipt, the same as in the REST interface."""
    topic, queue, offset, serial = receipt
    return f"{topic}:{queue}:{offset}:{serial:x}"


def _sent_fields(frame: SentFrame) -> dict[str, Any]:
    rows = zip(frame.queues, frame.offsets, frame.positions, frame.ids, strict=True)
    return {
        "durability": DurabilityCode(frame.durability).name.lower(),
        "messages": [
            {"message_id": name, "queue": queue, "offset": str(offset), "position": str(position)}
            for queue, offset, position, name in rows
        ],
    }


def _results(frame: ResultFrame) -> list[dict[str, Any]]:
    rows = zip(frame.results, frame.invisible_until_ms, strict=True)
    return [
        {"result": ResultCode(result).name.lower(), **({"invisible_until_ms": ms} if ms else {})}
        for result, ms in rows
    ]


def _messages(frame: DeliverFrame) -> list[dict[str, Any]]:
    texts = []
    for index, receipt in enumerate(frame.receipts):
        body, encoding = _text_body(frame.bodies[index])
        texts.append(
            {
                "receipt": receipt_text(receipt),
                "attempt": frame.attempts[index],
                "invisible_until_ms": frame.invisible_until_ms[index],
                "topic": receipt[0],
                "queue": receipt[1],
                "offset": str(receipt[2]),
                "born_ms": frame.born_ms[index],
                "stored_ms": frame.stored_ms[index],
                "properties": split_properties(frame.properties[index]),
                "body": body,
                "encoding": encoding,
                **({"is_compressed": True} if frame.sys_flags[index] & COMPRESSED_FLAG else {}),
            }
        )
    return texts


def _check(frame: CheckFrame) -> dict[str, Any]:
    body, encoding = _text_body(frame.body)
    fields = msgspec.structs.asdict(frame)
    properties = split_properties(frame.properties)
    return {**fields, "properties": properties, "body": body, "encoding": encoding}


def _answered(frame: AnswerFrame) -> dict[str, Any]:
    """The document of an answer as `json`; anything else as `body`, as in a delivered message."""
    if frame.content_type in JSON_TYPES:
        return {"json": msgspec.Raw(frame.body)}
    if not frame.body:
        return {}
    body, encoding = _text_body(frame.body)
    return {"content_type": frame.content_type, "body": body, "encoding": encoding}


def _text_body(body: bytes) -> tuple[str, str]:
    try:
        return body.decode(), "utf-8"
    except UnicodeDecodeError:
        return base64.b64encode(body).decode(), "base64"
