"""KiteMQ over REST: requests written beforehand, one unanswered per connection."""

import json

from bench.load import LoadError

HEAD_END = b"\r\n\r\n"
LENGTH = b"content-length:"


class RestSend:
    """POST of one message as its raw body, or of a JSON batch."""

    def __init__(
        self,
        port: int,
        topic: str,
        body: bytes,
        *,
        per_request: int = 0,
        durability: str = "stored",
    ) -> None:
        """`per_request` 0 sends the raw body of one message, else a JSON batch of so many."""
        self.per_request = max(per_request, 1)
        path = f"/api/v1/topics/{topic}/messages"
        if per_request:
            batch = {"messages": [{"body": body.decode()}] * per_request, "durability": durability}
            self._request = _post(port, path, "application/json", json.dumps(batch).encode())
        else:
            self._request = _post(port, path, "application/octet-stream", body, durability)
        self._rest = b""

    def greeting(self) -> bytes:
        return b""

    def is_welcome(self, data: bytes) -> bool:
        return True

    def requests(self, count: int) -> bytes:
        return self._request * count

    def answers(self, data: bytes) -> int:
        data = self._rest + data if self._rest else data
        count = 0
        while (end := _answer_end(data)) is not None:
            if not data.startswith(b"HTTP/1.1 2"):
                raise LoadError(data[:1000].decode(errors="replace"))
            count += 1
            data = data[end:]
        self._rest = data
        return count


def _answer_end(data: bytes) -> int | None:
    """Where the answer that `data` begins with ends; None while it is not whole."""
    head_end = data.find(HEAD_END)
    if head_end < 0:
        return None
    head = data[:head_end].lower()
    at = head.index(LENGTH) + len(LENGTH)
    line_end = head.find(b"\r\n", at)
    length = int(head[at:] if line_end < 0 else head[at:line_end])
    end = head_end + len(HEAD_END) + length
    return end if end <= len(data) else None


def _post(port: int, path: str, media_type: str, body: bytes, durability: str = "") -> bytes:
    lines = [
        f"POST {path} HTTP/1.1",
        f"Host: 127.0.0.1:{port}",
        f"Content-Type: {media_type}",
        f"Content-Length: {len(body)}",
    ]
    if durability:
        lines.append(f"KiteMQ-Durability: {durability}")
    return "\r\n".join(lines).encode() + HEAD_END + body
