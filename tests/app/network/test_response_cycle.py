"""Answers leave as uvicorn writes them, byte by byte, by the short way and by its own."""

import asyncio
import logging
from typing import Any

import pytest
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from app.network.response_cycle import ResponseCycle

JSON = (b"content-type", b"application/json")
LENGTH = (b"content-length", b"2")
HEADS = [
    (201, [JSON, LENGTH, (b"cache-control", b"no-store")]),
    (200, [(b"Content-Length", b"2"), (b"X-Odd", b"caf\xe9")]),
    (200, [JSON]),  # chunked
    (200, [LENGTH, (b"connection", b"close")]),
    (200, [(b"transfer-encoding", b"chunked")]),
    (204, []),
    (404, [LENGTH, LENGTH]),
]


class Transport(asyncio.Transport):
    def __init__(self) -> None:
        super().__init__()
        self.written = b""
        self.is_closed = False

    def write(self, data: Any) -> None:
        self.written += data

    def close(self) -> None:
        self.is_closed = True


def answered(
    kind: type[RequestResponseCycle], head: Any, *, method: str = "POST", keep_alive: bool = True
) -> tuple[bytes, bool, bool]:
    """What an answer of two bytes writes, and whether the connection and the answer ended."""

    async def story() -> tuple[bytes, bool, bool]:
        transport = Transport()
        cycle = kind(
            scope={"type": "http", "method": method},  # type: ignore[typeddict-item]
            transport=transport,
            flow=FlowControl(transport),
            logger=logging.getLogger("test"),
            access_logger=logging.getLogger("test"),
            access_log=False,
            default_headers=[],
            message_event=asyncio.Event(),
            expect_100_continue=False,
            keep_alive=keep_alive,
            on_response=lambda: None,
        )
        status, headers = head
        await cycle.send({"type": "http.response.start", "status": status, "headers": headers})
        body = b"" if status == 204 else b"{}"
        await cycle.send({"type": "http.response.body", "body": body, "more_body": False})
        return transport.written, transport.is_closed, cycle.response_complete

    return asyncio.run(story())


@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("method", ["POST", "HEAD"])
@pytest.mark.parametrize("keep_alive", [True, False])
def test_the_short_way_writes_the_same_bytes(head: Any, method: str, *, keep_alive: bool) -> None:
    of_uvicorn, ours = (
        answered(kind, head, method=method, keep_alive=keep_alive)
        for kind in (RequestResponseCycle, ResponseCycle)
    )
    assert ours == of_uvicorn


@pytest.mark.parametrize(
    "header", [(b"x-name", b"a\r\nset-cookie: b"), (b"x-name", b"a\0"), (b"x name", b"a")]
)
def test_a_header_that_would_break_the_answer_is_refused(header: tuple[bytes, bytes]) -> None:
    for _ in range(2):  # an error is not taken from the cache as an answer
        with pytest.raises(RuntimeError, match="Invalid HTTP header"):
            answered(ResponseCycle, (200, [LENGTH, header]))
