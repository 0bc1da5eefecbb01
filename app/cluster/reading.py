"""Reads messages and offsets of a cluster's queues without consuming them.

A broker's master answers. Where it says that its slave should be read, or does not answer, a pull
goes to a slave until the master answers otherwise.
"""

import msgspec

from app.cluster.errors import ClusterError, ClusterRefused, ClusterUnreachable
from app.cluster.link import ClusterLink, Fields, number
from app.cluster.messages import ClusterMessage, messages_of, with_key
from app.cluster.routes import MASTER, TIMEOUT_S, ClusterQueue
from engine.host import unpack_host
from protocol.remoting.codes import PullFlag, RequestCode, ResponseCode
from protocol.remoting.frames import Command

READER = "TOOLS_CONSUMER"  # a group that every broker has
PULL_MAX = 160
READ_COUNT = 32  # that most brokers give at once
PULL_BYTES_MAX = 4 * 1024 * 1024
WAIT_S_MAX = 30.0
KEY_MAX = 64
OFFSET_ID_BYTES = (16, 28)  # of IPv4, of IPv6
TIME_MAX = (1 << 63) - 1
# There is nothing (yet), or the offset lies outside of what the queue keeps.
PULL_ANSWERS = (
    ResponseCode.PULL_NOT_FOUND,
    ResponseCode.PULL_RETRY_IMMEDIATELY,
    ResponseCode.PULL_OFFSET_MOVED,
)


class ClusterPage(msgspec.Struct, frozen=True):
    """Messages of a queue; pull again from `next_offset`. `code` and `remark` say why none came."""

    messages: list[ClusterMessage]
    next_offset: int
    min_offset: int
    max_offset: int
    code: int = ResponseCode.SUCCESS
    remark: str = ""


class ClusterReads:
    """The verbs for reading."""

    def __init__(self, link: ClusterLink) -> None:
        self._link = link
        self._member: dict[str, int] = {}  # by broker: whom it said to read

    async def pull(
        self,
        queue: ClusterQueue,
        offset: int,
        *,
        count_max: int = 32,
        tags: str = "*",
        is_sql: bool = False,
        group: str = READER,
        wait_s: float = 0.0,
        bytes_max: int = PULL_BYTES_MAX,
        is_from_master: bool = False,
    ) -> ClusterPage:
        """Messages from `offset` on, at most 160 (32 of most brokers); waits up to `wait_s` (30).

        `tags` are joined by `||`, or an SQL92 expression. The broker compares hashes of tags, so a
        message of another tag may be among them. Slaves may lack the last messages:
        `is_from_master` asks none of them.
        """
        wait_s = min(wait_s, WAIT_S_MAX)
        fields = {
            "consumerGroup": group,
            "topic": queue.topic,
            "queueId": queue.queue,
            "queueOffset": offset,
            "maxMsgNums": max(1, min(count_max, PULL_MAX)),
            "sysFlag": int(PullFlag.SUBSCRIPTION | (PullFlag.SUSPEND if wait_s else 0)),
            "commitOffset": 0,
            "suspendTimeoutMillis": round(wait_s * 1000),
            "subscription": tags,
            "subVersion": 0,
            "expressionType": "SQL92" if is_sql else "TAG",
            "maxMsgBytes": bytes_max,
        }
        members = [MASTER] if is_from_master else self._members(queue.broker)
        answer = await self._pull(queue.broker, members, fields, TIMEOUT_S + wait_s * 2)
        self._member[queue.broker] = int(answer.fields.get("suggestWhichBrokerId", MASTER))
        return ClusterPage(
            messages_of(answer.body, queue.broker) if answer.code == ResponseCode.SUCCESS else [],
            number(answer, "nextBeginOffset"),
            number(answer, "minOffset"),
            number(answer, "maxOffset"),
            answer.code,
            answer.remark,
        )

    async def min_offset(self, queue: ClusterQueue) -> int:
        """The first offset that the queue keeps."""
        return await self._offset(queue, RequestCode.GET_MIN_OFFSET, {})

    async def max_offset(self, queue: ClusterQueue) -> int:
        """The offset that the queue's next message gets."""
        return await self._offset(queue, RequestCode.GET_MAX_OFFSET, {})

    async def offset_at(self, queue: ClusterQueue, time_ms: int) -> int:
        """The offset of the first message that was stored at or after a time."""
        fields = {"timestamp": time_ms, "boundaryType": "LOWER"}
        return await self._offset(queue, RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, fields)

    async def by_offset_id(self, offset_id: str) -> ClusterMessage:
        """The message that lies where its offset id says; ClusterRefused if it does not."""
        host, position = _place_of(offset_id)
        address = unpack_host(host)
        for name, broker in (await self._link.routes.brokers()).items():
            if address in broker.broker_addrs.values():
                answer = await self._link.ask_at(
                    address, RequestCode.VIEW_MESSAGE_BY_ID, {"offset": position}
                )
                return messages_of(answer.body, name)[0]
        raise ClusterRefused(
            f"offset_id: no broker of the cluster listens at {address}",
            ResponseCode.QUERY_NOT_FOUND,
            remedy="take the id from this cluster",
        )

    async def by_key(
        self,
        topic: str,
        key: str,
        *,
        begin_ms: int = 0,
        end_ms: int = TIME_MAX,
        is_id: bool = False,
        broker: str = "",
    ) -> list[ClusterMessage]:
        """Up to 64 messages of each broker, or of one, that carry a key, oldest first.

        With `is_id` the key is the message id.
        """
        messages: list[ClusterMessage] = []
        brokers = [broker] if broker else (await self._link.routes.route(topic)).brokers
        for name in brokers:
            messages += await self.named(
                name, topic, key, begin_ms=begin_ms, end_ms=end_ms, is_id=is_id
            )
        return sorted(with_key(messages, topic, key), key=lambda each: each.stored_ms)

    async def named(
        self, broker: str, topic: str, key: str, *, begin_ms: int, end_ms: int, is_id: bool = False
    ) -> list[ClusterMessage]:
        """Up to 64 that a broker's index names for a key's hash, the newest of those until a time.

        The index knows times to a second: later ones of that second may be among them.
        """
        fields = {
            "topic": topic,
            "key": key,
            "maxNum": KEY_MAX,
            "beginTimestamp": begin_ms,
            "endTimestamp": end_ms,
            "_UNIQUE_KEY_QUERY": is_id,
        }
        answer = await self._link.ask(
            broker, RequestCode.QUERY_MESSAGE, fields, allowed=(ResponseCode.QUERY_NOT_FOUND,)
        )
        is_there = answer.code == ResponseCode.SUCCESS
        return messages_of(answer.body, broker) if is_there else []

    async def _offset(self, queue: ClusterQueue, code: RequestCode, more: Fields) -> int:
        fields = {"topic": queue.topic, "queueId": queue.queue, **more}
        return number(await self._link.ask(queue.broker, code, fields), "offset")

    def _members(self, broker: str) -> list[int]:
        """Whom to read: who the broker said, else the master, else a slave."""
        suggested = self._member.get(broker, MASTER)
        return list(dict.fromkeys((suggested, MASTER, *self._link.routes.slaves(broker))))

    async def _pull(
        self, broker: str, members: list[int], fields: Fields, timeout_s: float
    ) -> Command:
        """The answer of the first member that gives one."""
        failure = ClusterUnreachable(f"broker {broker} has no member just now")
        for member in members:
            try:
                return await self._link.ask(
                    broker,
                    RequestCode.PULL_MESSAGE,
                    fields,
                    timeout_s=timeout_s,
                    member=member,
                    allowed=PULL_ANSWERS,
                )
            except ClusterUnreachable as error:
                failure = error
        raise failure


def _place_of(offset_id: str) -> tuple[bytes, int]:
    """The host and the position that an offset id is made of."""
    try:
        data = bytes.fromhex(offset_id)
    except ValueError:
        data = b""
    if len(data) not in OFFSET_ID_BYTES:
        raise ClusterError(
            f"offset_id: {offset_id[:80]!r} is none", remedy="it has 32 or 56 hexadecimal digits"
        )
    return data[:-8], int.from_bytes(data[-8:], "big")
