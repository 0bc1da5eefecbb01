"""Frames of `/ws/v1`, and their only encoder and decoder.

A binary WebSocket message holds one or more frames back to back; each begins with the same nine
bytes (`HEADER`):

| field   | bytes | note                                                                       |
|---------|-------|----------------------------------------------------------------------------|
| type    | 1     | `TYPE` of the classes here and in `batches`                                |
| request | 4     | chosen by the client; the answer repeats it. For SUBSCRIBE it also names   |
|         |       | the subscription, and every DELIVER carries it                             |
| size    | 4     | bytes of payload that follow                                               |

All integers are big-endian; "text" is a u16 length and UTF-8; columns are told in
`columns`. A client's types are below 64, a server's from 64 on. Frames that carry messages
or receipts are in `batches`; this module holds the small ones.
"""

import struct
from typing import ClassVar, Self

import msgspec

from kitemq.protocol.columns import ProtocolError, put_text, take_byte, take_text

VERSION = 1
STANDBY_HEADER = "kitemq-standby"  # of every HTTP answer of a standby, the upgrade included
COUNT_MAX = 4096  # messages or receipts in one frame
TOPICS_MAX = 255  # topics named by one frame

HEADER = struct.Struct(">BII")  # type, request, payload bytes
assert HEADER.size == 9


class Frame(msgspec.Struct, frozen=True, gc=False):
    """Base of all frames; a subclass sets `TYPE` and its two directions."""

    TYPE: ClassVar[int] = 0

    def payload(self) -> bytes:
        """The bytes after the header; raises ProtocolError for values that do not fit."""
        raise NotImplementedError

    @classmethod
    def parse(cls, data: bytes, at: int) -> Self:
        """The frame whose payload is `data` from `at` to its very end; raises ProtocolError."""
        raise NotImplementedError


def encode(request: int, frame: Frame) -> bytes:
    """The whole frame: header and payload; raises ProtocolError for values that do not fit."""
    try:
        payload = frame.payload()
        return HEADER.pack(frame.TYPE, request, len(payload)) + payload
    except struct.error as error:
        raise ProtocolError(f"a number of {type(frame).__name__} does not fit its width") from error


def ended(data: bytes, at: int) -> None:
    """Raise ProtocolError unless `at` is the end of the frame's bytes."""
    if at != len(data):
        raise ProtocolError(f"{len(data) - at} bytes too many at the end of a frame")


def unpack(layout: struct.Struct, data: bytes, at: int) -> tuple[int, ...]:
    """The fixed fields at `at`; raises ProtocolError where the frame is too short for them."""
    if at + layout.size > len(data):
        raise ProtocolError("a frame ends within its fixed fields")
    return layout.unpack_from(data, at)


HELLO = struct.Struct(">H")  # protocol version
WELCOME = struct.Struct(">HIIIH")  # version, frame, count, bytes in flight, subscriptions
SUBSCRIBE = struct.Struct(">IIB")  # credit, invisible ms, number of topics
CREDIT = struct.Struct(">II")  # subscription, how many more
UNSUBSCRIBE = struct.Struct(">I")  # subscription
ERROR = struct.Struct(">I")  # retry after ms
assert (HELLO.size, WELCOME.size, SUBSCRIBE.size) == (2, 16, 9)
assert (CREDIT.size, UNSUBSCRIBE.size, ERROR.size) == (8, 4, 4)


class HelloFrame(Frame, frozen=True):
    """Identifies the client; the first frame of one that wants to resume. Answer: WELCOME.

    | version u16 | client text |

    The same `client` after a lost connection finds its deliveries again. An older connection of the
    same client is closed with code 4001. Empty: the server chooses a name.
    """

    TYPE = 1
    client: str
    version: int = VERSION

    def payload(self) -> bytes:
        return HELLO.pack(self.version) + put_text(self.client)

    @classmethod
    def parse(cls, data: bytes, at: int) -> Self:
        (version,) = unpack(HELLO, data, at)
        client, at = take_text(data, at + HELLO.size)
        ended(data, at)
        return cls(client, version)


class WelcomeFrame(Frame, frozen=True):
    """The server's limits on this connection.

    | version u16 | frame bytes max u32 | count max u32 | bytes in flight max u32 |
    | subscriptions max u16 | client text | server text |
    """

    TYPE = 65
    client: str
    server: str
    frame_bytes_max: int
    count_max: int
    inflight_bytes_max: int
    subscriptions_max: int
    version: int = VERSION

    def payload(self) -> bytes:
        limits = (self.frame_bytes_max, self.count_max, self.inflight_bytes_max)
        head = WELCOME.pack(self.version, *limits, self.subscriptions_max)
        return head + put_text(self.client) + put_text(self.server)

    @classmethod
    def parse(cls, data: bytes, at: int) -> Self:
        version, frame_bytes, count, inflight, subscriptions = unpack(WELCOME, data, at)
        client, at = take_text(data, at + WELCOME.size)
        server, at = take_text(data, at)
        ended(data, at)
        return cls(client, server, frame_bytes, count, inflight, subscriptions, version)


class SubscribeFrame(Frame, frozen=True):
    """Begin a push of a group's messages. Answer: SUBSCRIBED, then DELIVER while there is credit.

    | credit u32 | invisible ms u32 | topics u8 | group text |
    | for each topic: name text, filter text |

    `credit` messages may come at once; CREDIT allows more. Each stays invisible to others for
    `invisible_ms` unless it is settled or extended.
    """

    TYPE = 3
    group: str
    topics: dict[str, str]
    credit: int
    invisible_ms: int

    def payload(self) -> bytes:
        if len(self.topics) > TOPICS_MAX:
            raise ProtocolError(f"a subscription names at most {TOPICS_MAX} topics")
        head = SUBSCRIBE.pack(self.credit, self.invisible_ms, len(self.topics))
        pairs = [put_text(name) + put_text(tags) for name, tags in self.topics.items()]
        return b"".join((head, put_text(self.group), *pairs))

    @classmethod
    def parse(cls, data: bytes, at: int) -> Self:
        credit, invisible_ms, count = unpack(SUBSCRIBE, data, at)
        group, at = take_text(data, at + SUBSCRIBE.size)
        topics = {}
        for _ in range(count):
            name, at = take_text(data, at)
            topics[name], at = take_text(data, at)
        ended(data, at)
        return cls(group, topics, credit, invisible_ms)


class CreditFrame(Frame, frozen=True):
    """Allow `count` more messages on a subscription; no answer. | subscription u32 | count u32 |"""

    TYPE = 4
    subscription: int
    count: int

    def payload(self) -> bytes:
        return CREDIT.pack(self.subscription, self.count)

    @classmethod
    def parse(cls, data: bytes, at: int) -> Self:
        subscription, count = unpack(CREDIT, data, at)
        ended(data, at + CREDIT.size)
        return cls(subscription, count)


class UnsubscribeFrame(Frame, frozen=True):
    """End a push; what was delivered can still be settled. Answer: RESULT. | subscription u32 |"""

    TYPE = 9
    subscription: int

    def payload(self) -> bytes:
        return UNSUBSCRIBE.pack(self.subscription)

    @classmethod
    def parse(cls, data: bytes, at: int) -> Self:
        (subscription,) = unpack(UNSUBSCRIBE, data, at)
        ended(data, at + UNSUBSCRIBE.size)
        return cls(subscription)


class ErrorFrame(Frame, frozen=True):
    """A request was turned down as a whole; nothing of it was done.

    | retry after ms u32 | code text | detail text | field text | remedy text |

    `code` is API (engine/errors.py draws them). `retry_after_ms` above 0 means: the same again
    after that wait. With the request number of a subscription it says that the push has ended.
    """

    TYPE = 70
    code: str
    detail: str
    field: str = ""
    remedy: str = ""
    retry_after_ms: int = 0

    def payload(self) -> bytes:
        texts = (self.code, self.detail, self.field, self.remedy)
        return ERROR.pack(self.retry_after_ms) + b"".join(map(put_text, texts))

    @classmethod
    def parse(cls, data: bytes, at: int) -> Self:
        (retry_after_ms,) = unpack(ERROR, data, at)
        at += ERROR.size
        texts = []
        for _ in range(4):
            text, at = take_text(data, at)
            texts.append(text)
        ended(data, at)
        return cls(texts[0], texts[1], texts[2], texts[3], retry_after_ms)


def take_topics(data: bytes, at: int) -> tuple[list[str], int]:
    """A topic table: u8 count, then that many texts; and where it ends."""
    count = take_byte(data, at)
    at += 1
    topics = []
    for _ in range(count):
        topic, at = take_text(data, at)
        topics.append(topic)
    return topics, at


def put_topics(topics: list[str]) -> bytes:
    """A topic table."""
    if len(topics) > TOPICS_MAX:
        raise ProtocolError(f"one frame names at most {TOPICS_MAX} topics")
    return bytes((len(topics),)) + b"".join(map(put_text, topics))


def check_count(count: int, count_max: int = COUNT_MAX) -> None:
    if count > count_max:
        raise ProtocolError(f"a frame of {count} entries; at most {count_max} are allowed")
