"""A RocketMQ cluster as the data source needs it: how far queues go, and the records of one queue.

The name servers say where the brokers are; each queue is read from its own broker, from a slave
while its master is away. What may pass by itself is tried again for `PATIENCE_S`; everything else
is raised at once. Queues bear the numbers that KiteMQ gives them before a cluster.
"""

import os
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from types import TracebackType
from typing import NamedTuple, TypeVar

import msgspec

from analytics.errors import Refused, ServerFailed
from analytics.records import LogRecords
from analytics.server import PATIENCE_S, TIMEOUT_S, WAIT_MAX_S, WAIT_MIN_S, QueueBounds
from engine.topic.names import is_system_topic
from protocol.remoting.codes import PullFlag, RequestCode, ResponseCode
from protocol.remoting.frames import Command, FrameError, FrameReader, encode
from protocol.remoting.loose_json import standard_json
from protocol.remoting.routes import (
    ORDER_NAME,
    ORDER_NAMESPACE,
    ORDER_SEPARATOR,
    READ,
    ClusterBroker,
    ClusterInfo,
    TopicRoute,
)
from protocol.remoting.signature import ACCESS_KEY, SIGNATURE, sign

READER = "TOOLS_CONSUMER"  # a group that every broker has
PULL_MAX = 160
PULL_BYTES_MAX = 4 * 1024 * 1024
CHUNK_BYTES = 8 * 1024 * 1024  # of records that are made columns together
FRAME_BYTES_MAX = 16 * 1024 * 1024  # Apache's own limit
CONNECT_S = 5.0
RECEIVE_BYTES = 256 * 1024
LANGUAGE = "PYTHON"
TABLE_PAGE = 10_000  # topics or groups of one answer
AGAIN = frozenset({ResponseCode.SYSTEM_BUSY, ResponseCode.SERVICE_NOT_AVAILABLE})
# There is nothing (yet), or the offset lies outside of what the queue keeps.
EMPTY = frozenset(
    {
        ResponseCode.PULL_NOT_FOUND,
        ResponseCode.PULL_RETRY_IMMEDIATELY,
        ResponseCode.PULL_OFFSET_MOVED,
    }
)
T = TypeVar("T")
Shape = TypeVar("Shape", bound=msgspec.Struct)


@dataclass(frozen=True)
class ClusterAccess:
    """Which cluster, by its name servers, and as whom; the keys never show in a text of it."""

    name_servers: tuple[str, ...]
    access_key: str = field(default="", repr=False)
    secret_key: str = field(default="", repr=False)

    def sign(self, command: Command) -> None:
        """Put the signature on a request, where there is a key."""
        if self.access_key:
            command.fields[ACCESS_KEY] = self.access_key
            command.fields[SIGNATURE] = sign(command, self.secret_key)


def access_of(given: Mapping[str, str]) -> ClusterAccess | None:
    """The cluster that options name, by keys of the environment too; None for none, Refused."""
    servers = tuple(each.strip() for each in (given.get("rocketmq") or "").split(";"))
    if not any(servers):
        return None
    for each in servers:
        host, _, port = each.rpartition(":")
        if not (host and port.isdecimal()):
            raise Refused(
                f"{each!r} is no name server", "give HOST:PORT;HOST:PORT", field="rocketmq"
            )
    keys = [
        given.get(option) or os.environ.get(variable) or ""
        for option, variable in (
            ("accessKey", "ROCKETMQ_ACCESS_KEY"),
            ("secretKey", "ROCKETMQ_SECRET_KEY"),
        )
    ]
    if bool(keys[0]) != bool(keys[1]):
        raise Refused("accessKey and secretKey need each other", "give both", field="secretKey")
    return ClusterAccess(servers, *keys)


class BrokerQueue(NamedTuple):
    """A queue by its broker and the number that it has there."""

    broker: str
    queue: int


class _BrokerTopic(msgspec.Struct, rename="camel"):
    read_queue_nums: int = 0
    perm: int = READ


class _BrokerGroup(msgspec.Struct, rename="camel"):
    consume_enable: bool = True
    notify_consumer_ids_changed_enable: bool = True


class _TopicPage(msgspec.Struct, rename="camel"):
    topic_config_table: dict[str, _BrokerTopic] = {}
    data_version: dict[str, int] = {}


class _GroupPage(msgspec.Struct, rename="camel"):
    subscription_group_table: dict[str, _BrokerGroup] = {}
    data_version: dict[str, int] = {}


Page = TypeVar("Page", _TopicPage, _GroupPage)


class _RangeKey(msgspec.Struct, rename="camel"):
    queue_id: int


class _QueueRange(msgspec.Struct, rename="camel"):
    min_offset: int = 0
    max_offset: int = 0


class _QueueTable(msgspec.Struct, rename="camel"):
    offset_table: dict[str, _QueueRange] = {}


class _OwnTopics(msgspec.Struct, rename="camel"):
    topic_list: list[str] = []


class _Away(Exception):
    """Nobody answers there just now."""


class _Connection:
    """A connection to one address; one request after the other."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self._address = address
        self._reader = FrameReader(frame_bytes_max=FRAME_BYTES_MAX)
        try:
            self._socket = socket.create_connection((host.strip("[]"), int(port)), CONNECT_S)
            self._socket.settimeout(TIMEOUT_S)
        except (OSError, ValueError) as error:
            raise _Away(f"{address}: {error}") from None

    def ask(self, command: Command) -> Command:
        try:
            self._socket.sendall(encode(command))
            while True:
                for answer in self._reader.frames():
                    if answer.is_answer and answer.opaque == command.opaque:
                        return answer
                data = self._socket.recv(RECEIVE_BYTES)
                if not data:
                    raise _Away(f"{self._address} closed the connection")
                self._reader.add(data)
        except (OSError, FrameError) as error:
            raise _Away(f"{self._address}: {error}") from None

    def close(self) -> None:
        self._socket.close()


class BrokerClient:
    """Connections to the name servers and brokers that are needed; closed by `with`."""

    def __init__(self, access: ClusterAccess, *, patience_s: float = PATIENCE_S) -> None:
        self._access = access
        self._patience_s = patience_s
        self._connections: dict[str, _Connection] = {}
        self._numbers = count(1)
        self._known: dict[str, ClusterBroker] = {}
        self._away: set[str] = set()  # addresses that are tried last
        self.places: dict[int, BrokerQueue] = {}  # of the topic that `ends` was asked of

    def __enter__(self) -> "BrokerClient":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for connection in self._connections.values():
            connection.close()

    def ends(self, topic: str, has_queue: Callable[[int], bool]) -> dict[int, QueueBounds]:
        """By number, of the queues that are wanted. Refused where there is no such topic."""
        route = self._patient(lambda: self._route(topic))
        order = self._patient(self._order)
        places = {}
        for each in route.queue_datas:
            if each.broker_name not in order:
                raise not_numbered(each.broker_name)
            index = order.index(each.broker_name)
            for queue in range(each.read_queue_nums * bool(each.perm & READ)):
                places[queue * len(order) + index] = BrokerQueue(each.broker_name, queue)
        self.places = {number: place for number, place in places.items() if has_queue(number)}
        return {
            number: QueueBounds(
                self._offset(topic, place, RequestCode.GET_MIN_OFFSET),
                self._offset(topic, place, RequestCode.GET_MAX_OFFSET),
            )
            for number, place in sorted(self.places.items())
        }

    def order(self) -> list[str]:
        """The brokers whose queues have numbers, in the order of these."""
        return self._patient(self._order)

    def registered(self) -> list[str]:
        """The brokers that a member of is there."""
        brokers = self._patient(self._brokers)
        return sorted(name for name, each in brokers.items() if each.broker_addrs)

    def topics(self, broker: str) -> dict[str, int]:
        """How many queues can be read of each topic on a broker, its own topics left out."""
        code = RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER
        answer = self._patient(partial(self._first, broker, code, {}))
        is_told = answer.code == ResponseCode.SUCCESS
        own = _decoded(answer.body, _OwnTopics).topic_list if is_told else []
        topics: dict[str, _BrokerTopic] = {}
        for page in self._pages(broker, RequestCode.GET_ALL_TOPIC_CONFIG, "Topic", _TopicPage):
            topics |= page.topic_config_table
        return {
            name: each.read_queue_nums * bool(each.perm & READ)
            for name, each in topics.items()
            if name not in own or is_system_topic(name)
        }

    def groups(self, broker: str) -> set[str]:
        """The consumer groups of a broker, without those that stand for retry topics of POP."""
        groups: dict[str, _BrokerGroup] = {}
        code = RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG
        for page in self._pages(broker, code, "Group", _GroupPage):
            groups |= page.subscription_group_table
        return {
            name
            for name, each in groups.items()
            if each.consume_enable or each.notify_consumer_ids_changed_enable
        }

    def bounds(self, topic: str, broker: str) -> dict[int, QueueBounds]:
        """What the queues of a topic on a broker keep; Refused where it has no such topic."""
        ask = partial(self._first, broker, RequestCode.GET_TOPIC_STATS_INFO, {"topic": topic})
        answer = _checked(self._patient(ask))
        table = _decoded(standard_json(answer.body), _QueueTable).offset_table
        numbers = {msgspec.json.decode(key, type=_RangeKey).queue_id: key for key in table}
        return {
            number: QueueBounds(max(0, table[key].min_offset), table[key].max_offset)
            for number, key in sorted(numbers.items())
        }

    def first_since(self, topic: str, place: BrokerQueue, at_ms: int) -> int:
        """About the first offset that was stored at or after a time; the end without one."""
        more = {"timestamp": str(at_ms), "boundaryType": "LOWER"}
        return self._offset(topic, place, RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, more)

    def records(
        self, topic: str, place: BrokerQueue, start: int, end: int, tag: str | None
    ) -> "Iterator[tuple[LogRecords, int]]":
        """Records of the offsets `start` to `end` - 1, and how many of them are gone.

        Only those of a tag if one is named; but brokers compare hashes, or take the tag for an
        expression of several: a record of another tag may be among them.
        """
        at, held, missing = start, bytearray(), 0
        while at < end:
            answer = self._patient(partial(self._pull, topic, place, at, tag))
            following = int(answer.fields["nextBeginOffset"])
            if answer.code == ResponseCode.PULL_OFFSET_MOVED:
                missing = min(following, end) - at
            held += answer.body
            at = following
            if len(held) >= CHUNK_BYTES or at >= end or missing:
                yield _records(bytes(held), end), missing
                held, missing = bytearray(), 0

    # -- requests -------------------------------------------------------------------------------

    def _route(self, topic: str) -> TopicRoute:
        fields = {"topic": topic, "acceptStandardJsonOnly": "true"}
        answer = self._ask_name_server(RequestCode.GET_ROUTEINFO_BY_TOPIC, fields)
        if answer.code == ResponseCode.TOPIC_NOT_EXIST:
            raise Refused(f"the cluster has no topic {topic!r}", field="topic")
        return _decoded(_checked(answer).body, TopicRoute)

    def _order(self) -> list[str]:
        """The order of the brokers; without one that which a first server would make of all."""
        fields = {"namespace": ORDER_NAMESPACE, "key": ORDER_NAME}
        for address in self._access.name_servers:  # each has values of its own
            try:
                answer = self._ask(address, RequestCode.GET_KV_CONFIG, fields)
            except _Away:
                continue
            if answer.code == ResponseCode.SUCCESS and answer.fields.get("value"):
                return answer.fields["value"].split(ORDER_SEPARATOR)
        return sorted(self._brokers())

    def _brokers(self) -> dict[str, ClusterBroker]:
        answer = _checked(self._ask_name_server(RequestCode.GET_BROKER_CLUSTER_INFO, {}))
        return _decoded(standard_json(answer.body), ClusterInfo).broker_addr_table

    def _pages(
        self, broker: str, code: RequestCode, what: str, shape: type[Page]
    ) -> Iterator[Page]:
        """A table of a broker, TABLE_PAGE in an answer; brokers before 5.4 give all at once."""
        count, version = 0, ""
        while True:
            fields = {
                f"{what.lower()}Seq": str(count),
                f"max{what}Num": str(TABLE_PAGE),
                "dataVersion": version,
            }
            answer = _checked(self._patient(partial(self._first, broker, code, fields)))
            page = _decoded(answer.body, shape)
            yield page
            size = len(msgspec.structs.astuple(page)[0])
            count += size
            if not size or count >= int(answer.fields.get(f"total{what}Num", 0)):
                return
            version = msgspec.json.encode(page.data_version).decode()

    def _first(self, broker: str, code: RequestCode, fields: dict[str, str]) -> Command:
        return next(self._answers(broker, code, fields))

    def _offset(
        self, topic: str, place: BrokerQueue, code: RequestCode, more: dict[str, str] | None = None
    ) -> int:
        fields = {"topic": topic, "queueId": str(place.queue), **(more or {})}
        answer = self._patient(partial(self._first, place.broker, code, fields))
        return int(_checked(answer).fields["offset"])

    def _pull(self, topic: str, place: BrokerQueue, offset: int, tag: str | None) -> Command:
        fields = {
            "consumerGroup": READER,
            "topic": topic,
            "queueId": str(place.queue),
            "queueOffset": str(offset),
            "maxMsgNums": str(PULL_MAX),
            "sysFlag": str(int(PullFlag.SUBSCRIPTION)),
            "commitOffset": "0",
            "suspendTimeoutMillis": "0",
            "subscription": tag if tag and _is_expression(tag) else "*",
            "subVersion": "0",
            "expressionType": "TAG",
            "maxMsgBytes": str(PULL_BYTES_MAX),
        }
        for answer in self._answers(place.broker, RequestCode.PULL_MESSAGE, fields):
            if answer.code not in EMPTY:
                _checked(answer)
            if int(answer.fields.get("nextBeginOffset", offset)) > offset:
                return answer
        # A slave may lack the last messages for a moment.
        raise _Away(f"broker {place.broker} does not give offset {offset} of queue {place.queue}")

    def _answers(self, broker: str, code: RequestCode, fields: dict[str, str]) -> Iterator[Command]:
        """The answers of a broker's master and slaves; _Away if none gives one."""
        known, failure = self._broker(broker).broker_addrs, None
        is_answered = False
        for member in sorted(known, key=lambda each: (known[each] in self._away, each)):
            try:
                answer = self._ask(known[member], code, fields)
            except _Away as error:
                failure = error
                self._away.add(known[member])
            else:
                is_answered = True
                yield answer
        if not is_answered:
            raise failure or _Away(f"broker {broker} has no member just now")

    def _broker(self, name: str) -> ClusterBroker:
        if name not in self._known:
            self._known = self._brokers()
        if name not in self._known:
            raise _Away(f"broker {name} is not registered at the name servers")
        return self._known[name]

    def _ask_name_server(self, code: RequestCode, fields: dict[str, str]) -> Command:
        """The answer of the first name server that gives one."""
        failures = []
        for address in self._access.name_servers:
            try:
                return self._ask(address, code, fields)
            except _Away as error:
                failures.append(str(error))
        raise _Away(f"no name server answers: {'; '.join(failures)}")

    def _ask(self, address: str, code: RequestCode, fields: dict[str, str]) -> Command:
        command = Command(code, next(self._numbers), fields=dict(fields), language=LANGUAGE)
        self._access.sign(command)
        connection = self._connections.get(address)
        if connection is None:
            connection = self._connections[address] = _Connection(address)
        try:
            answer = connection.ask(command)
        except _Away:
            connection.close()
            del self._connections[address]
            raise
        if answer.code in AGAIN:
            raise _Away(f"{address} is busy: {answer.remark[:500]}")
        return answer

    def _patient(self, work: Callable[[], T]) -> T:
        """What `work` gives, tried again while nobody answers; ServerFailed once patience ends."""
        until_s, wait_s = time.monotonic() + self._patience_s, WAIT_MIN_S
        while True:
            try:
                return work()
            except _Away as failure:
                if time.monotonic() + wait_s > until_s:
                    remedy = "do its brokers run? see the option `rocketmq`"
                    raise ServerFailed(str(failure), remedy) from None
            self._known.clear()
            self._away.clear()
            time.sleep(wait_s)
            wait_s = min(2 * wait_s, WAIT_MAX_S)


def not_numbered(broker: str) -> Refused:
    """The refusal of messages whose queues have no numbers."""
    return Refused(
        f"broker {broker!r} joined the cluster after its queues were numbered",
        "take the topic off it, or number all queues anew (docs/clusters.md)",
        field="topic",
    )


def _records(data: bytes, end: int) -> LogRecords:
    """The records of answers one behind the other, without those from `end` on."""
    starts, at = [], 0
    while at < len(data):
        starts.append(at)
        at += max(int.from_bytes(data[at : at + 4], "big"), 4)
    records = LogRecords(data, starts, first_position=None)
    records.keep(records.offset() < end)
    return records


def _is_expression(tag: str) -> bool:
    """Whether a broker that takes a tag for an expression of tags looks for just this one."""
    return tag.strip() == tag and "||" not in tag


def _checked(answer: Command) -> Command:
    """An answer that is no refusal."""
    if answer.code == ResponseCode.SUCCESS:
        return answer
    remark = (answer.remark or f"code {answer.code}").partition("\n")[0][:500]
    if answer.code == ResponseCode.NO_PERMISSION:
        raise Refused(f"the cluster says: {remark}", "give a key that may read", field="accessKey")
    if answer.code == ResponseCode.TOPIC_NOT_EXIST:
        raise Refused(f"the cluster says: {remark}", field="topic")
    raise ServerFailed(f"the cluster says: {remark}")


def _decoded(body: bytes, kind: type[Shape]) -> Shape:
    try:
        return msgspec.json.decode(body, type=kind, strict=False)
    except msgspec.DecodeError as error:
        raise ServerFailed(
            f"an answer that is no {kind.__name__}: {error}",
            "is this a RocketMQ cluster of 4.9.4 or newer?",
        ) from None
