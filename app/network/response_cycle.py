"""uvicorn's cycle of request and response, with a shorter way for answers of known length.

uvicorn checks each header of each answer by two regular expressions. Here a header that was checked
before is taken from a cache, and the head is written without looking at it again.
"""

from functools import lru_cache
from http import HTTPStatus
from typing import Any, NamedTuple

from uvicorn.protocols.http.httptools_impl import (
    HEADER_RE,
    HEADER_VALUE_RE,
    STATUS_LINE,
    RequestResponseCycle,
)

LINES_MAX = 512  # headers in the cache; most answers have the same ones but for their length
# Where a head has one of these, or no length, uvicorn decides how the answer ends.
SPECIAL = frozenset({b"connection", b"transfer-encoding"})
LENGTH = b"content-length"


class ResponseCycle(RequestResponseCycle):
    """One request of an `HttpConnection`, and its answer."""

    async def send(self, message: Any) -> None:
        if (
            self.response_started
            or self.disconnected
            or self.flow.write_paused
            or message["type"] != "http.response.start"
            or not self._begin(message["status"], message.get("headers") or ())
        ):
            await super().send(message)

    def _begin(self, status: int, headers: Any) -> bool:
        """Write the head of an answer whose length is known; False where it is not."""
        if not self.keep_alive or self.default_headers or self.scope["method"] == "HEAD":
            return False
        head = head_of(status, headers)
        if head is None:
            return False
        self.response_started = True
        self.waiting_for_100_continue = False
        self.chunked_encoding = False
        self.expected_content_length = head.body_bytes
        self.transport.write(head.content)
        return True


class AnswerHead(NamedTuple):
    """Status line and headers as they are sent, and the length of the body."""

    content: bytes
    body_bytes: int


def head_of(status: int, headers: Any) -> AnswerHead | None:
    """The head of an answer whose length is known and after which the connection goes on.

    None for any other, of which uvicorn decides how it ends. RuntimeError for what is no header.
    """
    body_bytes = 0 if status == HTTPStatus.NO_CONTENT else -1
    lines = [STATUS_LINE[status]]
    for name, value in headers:
        if name == LENGTH:
            body_bytes = int(value)
        elif name in SPECIAL:
            return None
        lines.append(_line(name, value))
    if body_bytes < 0:
        return None
    lines.append(b"\r\n")
    return AnswerHead(b"".join(lines), body_bytes)


@lru_cache(maxsize=LINES_MAX)
def _line(name: bytes, value: bytes) -> bytes:
    """A header as it is sent; raises RuntimeError where a character would end it."""
    if HEADER_RE.search(name):
        raise RuntimeError("Invalid HTTP header name.")
    if HEADER_VALUE_RE.search(value):
        raise RuntimeError("Invalid HTTP header value.")
    return b"%s: %s\r\n" % (name.lower(), value)
