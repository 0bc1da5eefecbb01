"""Redis Streams: XADD, and XREADGROUP with XACK, in RESP 2.

The server writes every command to its append-only file; `everysec` brings that to disk once per
second (our `stored`), `always` before it answers (our `flushed`).
"""

import re
import shutil
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

from bench.load import LoadError, Taken
from bench.process import Process, answers

READ_COUNT = 256
READS_AHEAD = 2  # commands on the road, so that the server never waits for us
MIN_ENTRY_BYTES = 30  # about what an entry takes beside its body
BLOCK_MS = 5000
BINARY = "redis-server"


def command(*words: str | bytes) -> bytes:
    """One command as an array of bulk strings."""
    parts = [b"*%d\r\n" % len(words)]
    for word in words:
        text = word.encode() if isinstance(word, str) else word
        parts.append(b"$%d\r\n%b\r\n" % (len(text), text))
    return b"".join(parts)


class RedisServer(Process):
    """`redis-server` with an append-only file and no snapshots."""

    def __init__(self, data: Path, fsync: str) -> None:
        super().__init__(data)
        self.name = f"Redis {fsync}"
        self._fsync = fsync

    def command(self) -> Sequence[str]:
        words = (
            f"{BINARY} --port {self.port} --bind 127.0.0.1 --appendonly yes "
            f"--appendfsync {self._fsync} --daemonize no --loglevel warning"
        )
        return [*words.split(), "--save", "", "--dir", str(self.data)]

    def is_ready(self) -> bool:
        return answers(self.port, command("PING"), b"+PONG")


def is_installed() -> bool:
    """Whether there is a `redis-server` to compare with."""
    return shutil.which(BINARY) is not None


class RedisClient:
    """A connection is ready once it answers PING."""

    def __init__(self, setup: bytes = b"", replies: int = 0) -> None:
        self._setup = setup
        self._replies = replies + 1

    def greeting(self) -> bytes:
        return self._setup + command("PING")

    def is_welcome(self, data: bytes) -> bool:
        refuse_errors(data)
        return data.count(b"\r\n") >= self._replies


class RedisSend(RedisClient):
    """XADD of one field per message; commands that go together are pipelined."""

    per_request = 1

    def __init__(self, stream: str, body: bytes) -> None:
        super().__init__()
        self._command = command("XADD", stream, "*", "b", body)
        self._half = 0

    def requests(self, count: int) -> bytes:
        return self._command * count

    def answers(self, data: bytes) -> int:
        refuse_errors(data)  # an answer is an id as a bulk string: two lines
        whole, self._half = divmod(self._half + data.count(b"\n"), 2)
        return whole


class RedisTake(RedisClient):
    """XREADGROUP of many; the next one travels with the XACK of what the last one brought."""

    def __init__(self, stream: str, group: str, body_bytes: int, *, blocks: bool = False) -> None:
        super().__init__(command("XGROUP", "CREATE", stream, group, "0", "MKSTREAM"), 1)
        self._stream = stream
        self._group = group
        # A read that waits holds up every command behind it: then only one may be on the road.
        self._reads_ahead = 1 if blocks else READS_AHEAD
        self._read = command(
            *("XREADGROUP", "GROUP", group, "bench", "COUNT", str(READ_COUNT)),
            *(("BLOCK", str(BLOCK_MS)) if blocks else ()),
            *("STREAMS", stream, ">"),
        )
        self._entry = re.compile(
            rb"\*2\r\n(\$\d+\r\n\d+-\d+\r\n)\*2\r\n\$1\r\nb\r\n\$%d\r\n.{%d}\r\n"
            % (body_bytes, body_bytes),
            re.DOTALL,
        )
        name = stream.encode()
        self._head = re.compile(
            rb"\*1\r\n\*2\r\n\$%d\r\n%b\r\n\*(\d+)\r\n" % (len(name), re.escape(name))
        )
        self._entry_bytes = body_bytes + MIN_ENTRY_BYTES
        self._ack_head = b"*%d\r\n" + command("XACK", stream, group).partition(b"\r\n")[2]
        self._rest = b""
        self._settled = 0

    def begin(self) -> bytes:
        return self._read * self._reads_ahead

    def take(self, data: bytes) -> Taken:
        data = self._rest + data
        delivered, replies, at = 0, [], 0
        self._settled = 0
        while (step := self._step(data, at)) is not None:
            at, ids = step
            if ids is None:
                continue
            if ids:
                delivered += len(ids)
                replies.append(self._ack_head % (len(ids) + 3))
                replies += ids
            replies.append(self._read)
        self._rest = data[at:]
        return Taken(delivered, self._settled, b"".join(replies))

    def _step(self, data: bytes, at: int) -> tuple[int, list[bytes] | None] | None:
        """Where the answer at `at` ends, and its ids as bulk strings (None for an XACK's)."""
        kind = data[at : at + 1]
        line_end = data.find(b"\r\n", at)
        if line_end < 0:
            return None
        if kind == b":":
            self._settled += int(data[at + 1 : line_end])
            return line_end + 2, None
        if data[at : at + 3] == b"*-1":  # nothing there
            return line_end + 2, []
        refuse_errors(data[at:line_end])
        head = self._head.match(data, at)
        if head is None:
            return None
        count, end = int(head[1]), head.end()
        if len(data) - end < count * self._entry_bytes:
            return None
        entries = list(islice(self._entry.finditer(data, end), count))
        return (entries[-1].end(), [one[1] for one in entries]) if len(entries) == count else None


def refuse_errors(data: bytes) -> None:
    """Raise LoadError where an answer is an error."""
    for sign in (b"-ERR", b"-OOM", b"-MISCONF", b"-NOGROUP", b"-LOADING"):
        if sign in data:
            raise LoadError(data[data.index(sign) :][:200].decode(errors="replace"))
