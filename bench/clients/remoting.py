"""KiteMQ's port for classic RocketMQ clients: frames as Java's client writes them, made beforehand.

Java's clients write JSON headers. A request's number and its message id have a fixed width, so that
they are changed in place.
"""

import json
import struct
from typing import Any

from bench.figures import Run
from bench.line import Turn, Work, measured
from bench.load import LoadError, Taken, send_count, send_for, take_all
from bench.server import Server
from protocol.remoting.batches import BatchMessage, encode_batch
from protocol.remoting.codes import PullFlag, RequestCode, ResponseCode

HEAD = struct.Struct(">iI")
SIZE = struct.Struct(">i")
FIRST_OPAQUE = 1_000_000_000  # all have ten digits
ID_PREFIX = "7F0000010BE4C4A1C4A100000000"
ID_DIGITS = 8
CODE = b'"code":'
PULL_COUNT = 32  # as Java's clients ask for


def _port(turn: Turn) -> int:
    """The port of the broker, which with Apache is not that of the name server."""
    process = turn.process
    return process.remoting_port if isinstance(process, Server) else process.port


def sending_frames(body: bytes, *, window: int, batch: int = 1) -> Work:
    """`window` requests unanswered on one connection, each with `batch` messages."""

    async def work(turn: Turn) -> Run:
        turn.process.prepare(turn.topic)
        doors = [RemotingSend(turn.topic, body, per_request=batch)]
        return await measured(
            turn.process, send_for(_port(turn), doors, window, turn.scale.seconds)
        )

    return work


def pulling_frames(body: bytes) -> Work:
    """Pull a backlog of one queue and commit it with the next pull, as push consumers do."""

    async def work(turn: Turn) -> Run:
        turn.process.prepare(turn.topic)
        door = RemotingSend(turn.topic, body, per_request=256)
        messages = await send_count(_port(turn), door, 4, turn.scale.backlog)
        take = RemotingPull(turn.topic)
        return await measured(turn.process, take_all(_port(turn), take, messages))

    return work


class RemotingDoor:
    """Takes answers apart."""

    def __init__(self) -> None:
        self._rest = b""

    def greeting(self) -> bytes:
        return b""

    def is_welcome(self, data: bytes) -> bool:
        return True

    def split(self, data: bytes) -> list[tuple[bytes, bytes]]:
        """Header and body of the whole answers that came by now."""
        data = self._rest + data if self._rest else data
        at, answers = 0, []
        while len(data) - at >= HEAD.size:
            size, word = HEAD.unpack_from(data, at)
            end = at + SIZE.size + size
            if end > len(data):
                break
            body_at = at + HEAD.size + (word & 0xFFFFFF)
            answers.append((data[at + HEAD.size : body_at], data[body_at:end]))
            at = end
        self._rest = data[at:]
        return answers


class RemotingSend(RemotingDoor):
    """SEND_MESSAGE_V2, or SEND_BATCH_MESSAGE of `per_request` messages; an id for each."""

    def __init__(self, topic: str, body: bytes, *, per_request: int = 1) -> None:
        super().__init__()
        self.per_request = per_request
        properties = f"UNIQ_KEY\x01{ID_PREFIX}{0:0{ID_DIGITS}X}\x02WAIT\x01true\x02"
        fields = {
            "a": "bench", "b": topic, "c": "TBW102", "d": "4", "e": "0", "f": "0",
            "g": "1700000000000", "h": "0", "i": properties, "j": "0", "k": "false", "m": "false",
        }  # fmt: skip
        code = RequestCode.SEND_MESSAGE_V2
        if per_request > 1:
            code, fields["i"], fields["m"] = RequestCode.SEND_BATCH_MESSAGE, "", "true"
            body = encode_batch([BatchMessage(0, body, properties)] * per_request)
        self._frame = bytearray(_frame(code, fields, body))
        self._opaque_at = self._frame.index(b"%d" % FIRST_OPAQUE)
        self._ids_at = _places(bytes(self._frame), ID_PREFIX.encode())
        self._next = self._next_id = 0

    def requests(self, count: int) -> bytes:
        parts, frame, at = [], self._frame, self._opaque_at
        for _ in range(count):
            frame[at : at + 10] = b"%d" % (FIRST_OPAQUE + self._next)
            self._next += 1
            for id_at in self._ids_at:
                frame[id_at : id_at + ID_DIGITS] = b"%08X" % self._next_id
                self._next_id += 1
            parts.append(bytes(frame))
        return b"".join(parts)

    def answers(self, data: bytes) -> int:
        answers = self.split(data)
        for header, _ in answers:
            if _code(header) != ResponseCode.SUCCESS:
                raise LoadError(header.decode())
        return len(answers)


class RemotingPull(RemotingDoor):
    """Pulls one queue from its beginning; each pull commits what the one before brought."""

    def __init__(self, topic: str) -> None:
        super().__init__()
        self._fields = {
            "consumerGroup": "bench", "topic": topic, "queueId": "0", "maxMsgNums": str(PULL_COUNT),
            "sysFlag": str(int(PullFlag.COMMIT_OFFSET | PullFlag.SUBSCRIPTION)),
            "suspendTimeoutMillis": "0", "subscription": "*", "subVersion": "1",
            "expressionType": "TAG",
        }  # fmt: skip
        self._unsettled = 0

    def begin(self) -> bytes:
        return self._pull(0)

    def take(self, data: bytes) -> Taken:
        delivered = settled = 0
        reply = b""
        for header, body in self.split(data):
            settled += self._unsettled  # its request committed them
            self._unsettled = _records(body)
            delivered += self._unsettled
            if _code(header) == ResponseCode.SUCCESS:
                reply = self._pull(int(json.loads(header)["extFields"]["nextBeginOffset"]))
            elif _code(header) != ResponseCode.PULL_NOT_FOUND:
                raise LoadError(header.decode())
        return Taken(delivered, settled, reply)

    def _pull(self, offset: int) -> bytes:
        place = {"queueOffset": str(offset), "commitOffset": str(offset)}
        return _frame(RequestCode.PULL_MESSAGE, self._fields | place)


def _frame(code: int, fields: dict[str, str], body: bytes = b"") -> bytes:
    command: dict[str, Any] = {
        "code": int(code), "flag": 0, "language": "JAVA", "opaque": FIRST_OPAQUE,
        "serializeTypeCurrentRPC": "JSON", "version": 479, "extFields": fields,
    }  # fmt: skip
    header = json.dumps(command, separators=(",", ":")).encode()
    return HEAD.pack(4 + len(header) + len(body), len(header)) + header + body


def _code(header: bytes) -> int:
    at = header.index(CODE) + len(CODE)
    return int(header[at : header.index(b",", at)])


def _records(body: bytes) -> int:
    """How many records a pull brought."""
    at = count = 0
    while at < len(body):
        at += SIZE.unpack_from(body, at)[0]
        count += 1
    return count


def _places(data: bytes, prefix: bytes) -> list[int]:
    """Where the number of each message id stands."""
    places, at = [], data.find(prefix)
    while at >= 0:
        places.append(at + len(prefix))
        at = data.find(prefix, at + 1)
    return places
