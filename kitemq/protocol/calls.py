"""CALL and ANSWER: any operation of the REST interface over the same WebSocket.

The body is the rest of the frame. Method, path and what comes back are those of `docs/rest.md`.
"""

import struct
from typing import Self

from kitemq.protocol.columns import put_text, take_text
from kitemq.protocol.frames import Frame, unpack

ANSWER = struct.Struct(">H")  # status
assert ANSWER.size == 2


class CallFrame(Frame, frozen=True):
    """One request of the REST interface. Answer: ANSWER, whatever its status; ERROR where it could
    not be made at all.

    | method text | path text | content type text | body |

    `path` is written as in a request line, with its query string: "/api/v1/topics/orders?x=y".
    `content_type` is that of the body; empty without one.
    """

    TYPE = 10
    method: str
    path: str
    content_type: str = ""
    body: bytes = b""

    def payload(self) -> bytes:
        head = map(put_text, (self.method, self.path, self.content_type))
        return b"".join((*head, self.body))

    @classmethod
    def parse(cls, data: bytes, at: int) -> Self:
        method, at = take_text(data, at)
        path, at = take_text(data, at)
        content_type, at = take_text(data, at)
        return cls(method, path, content_type, data[at:])


class AnswerFrame(Frame, frozen=True):
    """The operation's answer, as over HTTP.

    | status u16 | content type text | body |

    A status of 400 and more comes with a problem document (RFC 9457).
    """

    TYPE = 71
    status: int
    content_type: str
    body: bytes

    def payload(self) -> bytes:
        return ANSWER.pack(self.status) + put_text(self.content_type) + self.body

    @classmethod
    def parse(cls, data: bytes, at: int) -> Self:
        (status,) = unpack(ANSWER, data, at)
        content_type, at = take_text(data, at + ANSWER.size)
        return cls(status, content_type, data[at:])
