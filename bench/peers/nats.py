"""NATS JetStream with file storage: acknowledged publishing, and a pull consumer.

JetStream answers once a message is written to its file; it syncs in the background every two
minutes, so it is a peer of `stored` only.
"""

import itertools
import json
import re
import shutil
from collections.abc import Sequence

from bench.load import LoadError, Taken
from bench.process import Process, answers

BINARY = "nats-server"
READ_COUNT = 256
READS_AHEAD = 2
PULL_EXPIRES_NS = 20_000_000_000
NUMBERS = itertools.count(1)
CONNECT = b'CONNECT {"verbose":false,"pedantic":false,"headers":true,"no_responders":true}\r\n'
MESSAGE = re.compile(rb"MSG (\S+) (\S+) (?:(\S+) )?(\d+)\r\n")
HEADERED = re.compile(rb"HMSG (\S+) (\S+) (?:(\S+) )?(\d+) (\d+)\r\n")


class NatsServer(Process):
    """`nats-server` with JetStream on files."""

    name = "NATS JetStream"

    def command(self) -> Sequence[str]:
        return f"{BINARY} -a 127.0.0.1 -p {self.port} -js -sd {self.data}".split()

    def is_ready(self) -> bool:
        return answers(self.port, b"", b'"jetstream":true')


def is_installed() -> bool:
    """Whether there is a `nats-server` to compare with."""
    return shutil.which(BINARY) is not None


def publish(subject: str, body: bytes, reply: str = "") -> bytes:
    """A PUB."""
    return f"PUB {subject} {reply}{' ' if reply else ''}{len(body)}\r\n".encode() + body + b"\r\n"


Ask = tuple[str, dict[str, object]]  # a subject of JetStream's own interface, and its question


def create_stream(name: str) -> Ask:
    """Make the stream `name` for the subject `name`; the same again changes nothing."""
    config: dict[str, object] = {"name": name, "subjects": [name], "storage": "file"}
    return f"STREAM.CREATE.{name}", config


def create_consumer(stream: str, name: str) -> Ask:
    """Make a durable pull consumer with one acknowledgement per message."""
    config = {
        "durable_name": name,
        "ack_policy": "explicit",
        "deliver_policy": "all",
        "max_ack_pending": 65_536,
    }
    return f"CONSUMER.DURABLE.CREATE.{stream}.{name}", {"stream_name": stream, "config": config}


class NatsClient:
    """A connection with an inbox of its own; ready once its stream (and consumer) exist."""

    def __init__(self, *setup: Ask) -> None:
        self._setup = setup
        self._inbox = f"_INBOX.bench{next(NUMBERS)}"

    def greeting(self) -> bytes:
        parts = [CONNECT, f"SUB {self._inbox}.> 1\r\n".encode()]
        for subject, question in self._setup:
            text = json.dumps(question).encode()
            parts.append(publish(f"$JS.API.{subject}", text, f"{self._inbox}.setup"))
        return b"".join(parts)

    def is_welcome(self, data: bytes) -> bool:
        refuse_errors(data)
        return data.count(b'"type":"io.nats.jetstream.api') >= len(self._setup) and data.endswith(
            b"}\r\n"
        )


class NatsSend(NatsClient):
    """PUB with a reply inbox: each message is answered with its number in the stream."""

    per_request = 1

    def __init__(self, stream: str, body: bytes) -> None:
        super().__init__(create_stream(stream))
        self._publish = publish(stream, body, f"{self._inbox}.sent")

    def requests(self, count: int) -> bytes:
        return self._publish * count

    def answers(self, data: bytes) -> int:
        refuse_errors(data)
        return data.count(b"}")


class NatsTake(NatsClient):
    """Pulls of many messages, each message acknowledged, the acknowledgements in one write."""

    def __init__(self, stream: str, name: str) -> None:
        super().__init__(create_stream(stream), create_consumer(stream, name))
        question = json.dumps({"batch": READ_COUNT, "expires": PULL_EXPIRES_NS}).encode()
        subject = f"$JS.API.CONSUMER.MSG.NEXT.{stream}.{name}"
        self._pull = publish(subject, question, f"{self._inbox}.pulled")
        self._asked = 0
        self._rest = b""

    def begin(self) -> bytes:
        self._asked = READ_COUNT * READS_AHEAD
        return self._pull * READS_AHEAD

    def take(self, data: bytes) -> Taken:
        data = self._rest + data
        replies, at = [], 0
        while match := MESSAGE.match(data, at):
            end = match.end() + int(match[4]) + 2
            if end > len(data):
                break
            at = end
            replies.append(b"PUB %b 0\r\n\r\n" % match[3])
        self._rest = data[at:]
        self._refuse_rest()
        count = len(replies)
        self._asked -= count
        if self._asked <= READ_COUNT * (READS_AHEAD - 1):
            replies.append(self._pull)
            self._asked += READ_COUNT
        return Taken(count, count, b"".join(replies))

    def _refuse_rest(self) -> None:
        """A status (HMSG) ends a pull early, which a figure must not hide."""
        refuse_errors(self._rest[:100])
        if HEADERED.match(self._rest):
            raise LoadError(self._rest[:200].decode(errors="replace"))


def refuse_errors(data: bytes) -> None:
    """Raise LoadError where an answer is an error."""
    for sign in (b"-ERR", b'"error":'):
        if sign in data:
            raise LoadError(data[:300].decode(errors="replace"))
