"""Consumer groups of a cluster: settings, clients, offsets and lag."""

import asyncio
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from app.cluster.errors import ClusterUnreachable
from app.cluster.link import ClusterLink, Fields, number
from app.cluster.routes import ClusterQueue, decoded, decoded_aside, queue_of
from protocol.remoting.codes import RequestCode, ResponseCode
from protocol.remoting.loose_json import standard_json
from protocol.remoting.running_info import ReadQueue, read_queues

TABLE_PAGE = 10_000  # some 4 MB
# A group with one of these names is the broker's own.
SYSTEM_PREFIX = "CID_"
SYSTEM_GROUPS = frozenset(
    {
        "DEFAULT_CONSUMER",
        "TOOLS_CONSUMER",
        "SELF_TEST_C_GROUP",
        "FILTERSRV_CONSUMER",
        "DEFAULT_PRODUCER",
    }
)


class ClusterGroup(msgspec.Struct, frozen=True, rename="camel"):
    """The settings of a group, by RocketMQ's names."""

    group_name: str
    consume_enable: bool = True
    consume_from_min_enable: bool = True
    consume_broadcast_enable: bool = True
    consume_message_orderly: bool = False
    retry_queue_nums: int = 1
    retry_max_times: int = 16
    broker_id: int = 0
    which_broker_when_consume_slowly: int = 1
    notify_consumer_ids_changed_enable: bool = True

    @property
    def is_system(self) -> bool:
        """Whether it is one of the brokers' own, or `for_retries` made it."""
        is_named = self.group_name in SYSTEM_GROUPS or self.group_name.startswith(SYSTEM_PREFIX)
        is_dumb = not (self.consume_enable or self.notify_consumer_ids_changed_enable)
        return is_named or is_dumb


class WholeClusterGroup(ClusterGroup, frozen=True, rename="camel"):
    """With settings that RocketMQ's proxy and brokers alone read: a change of others keeps them."""

    group_retry_policy: dict[str, Any] | UnsetType = UNSET
    group_sys_flag: int | UnsetType = UNSET
    consume_timeout_minute: int | UnsetType = UNSET
    subscription_data_set: list[Any] | UnsetType | None = UNSET


def for_retries(topic: str) -> ClusterGroup:
    """The group that a broker asks for where a client sends to a retry topic of POP.

    Nobody consumes as it: the messages belong to the group whose retries they are.
    """
    name = topic.removeprefix("%RETRY%")
    return ClusterGroup(name, consume_enable=False, notify_consumer_ids_changed_enable=False)


class _GroupTable(msgspec.Struct, rename="camel"):
    subscription_group_table: dict[str, ClusterGroup] = {}
    data_version: dict[str, int] = {}


# Topic to queue to the next message that the group gets.
GroupOffsets = dict[str, dict[int, int]]


class _OffsetTable(msgspec.Struct, rename="camel"):
    offset_table: dict[str, dict[int, int]] = {}


class _QueueName(msgspec.Struct, rename="camel"):
    queue_id: int


class _TimeSpan(msgspec.Struct, rename="camel"):
    message_queue: _QueueName
    min_time_stamp: int = 0
    delay_time: int = 0


class _TimeSpans(msgspec.Struct, rename="camel"):
    consume_time_span_set: list[_TimeSpan] = []


class ClusterProgress(msgspec.Struct, frozen=True):
    """How far a group is in a queue: `committed` is the next message that it gets."""

    committed: int
    max_offset: int

    @property
    def lag(self) -> int:
        """Messages that it has not consumed."""
        return max(0, self.max_offset - self.committed)


class _QueueProgress(msgspec.Struct, rename="camel"):
    broker_offset: int = 0
    consumer_offset: int = 0


class _ConsumeStats(msgspec.Struct, rename="camel"):
    offset_table: dict[str, _QueueProgress] = {}


class ClusterConsumer(msgspec.Struct, frozen=True, rename="camel"):
    """A client that is connected as a consumer of a group."""

    client_id: str
    client_addr: str = ""
    language: str = ""
    version: int = 0
    broker: str = ""  # one that it is connected to


class ClusterSubscription(msgspec.Struct, frozen=True, rename="camel"):
    """A subscription of a group to a topic, as the last heartbeat had it."""

    sub_string: str = "*"
    expression_type: str = "TAG"


class ClusterConsumers(msgspec.Struct, frozen=True, rename="camel"):
    """The clients of a group, and what the last of their heartbeats subscribed to."""

    connection_set: list[ClusterConsumer] = []
    subscription_table: dict[str, ClusterSubscription] = {}


class ClusterGroups:
    """The verbs for groups and their offsets."""

    def __init__(self, link: ClusterLink) -> None:
        self._link = link

    async def all(self) -> list[ClusterGroup]:
        """All groups by name, without those of the brokers' own."""
        answers = await self._link.ask_masters(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, {})
        groups: dict[str, ClusterGroup] = {}
        for answer in answers.values():
            groups |= decoded(answer.body, _GroupTable).subscription_group_table
        return [groups[name] for name in sorted(groups) if not groups[name].is_system]

    async def find(self, name: str) -> WholeClusterGroup | None:
        """The settings of a group as the first master has them that knows it; None for no group.

        ClusterUnreachable where none that answers knows it, and one does not answer.
        """
        failure: ClusterUnreachable | None = None
        for broker in await self._link.masters():
            try:
                answer = await self._link.ask(
                    broker,
                    RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG,
                    {"group": name},
                    allowed=(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,),
                )
            except ClusterUnreachable as error:
                failure = error
            else:
                if answer.code == ResponseCode.SUCCESS:
                    return decoded(standard_json(answer.body), WholeClusterGroup)
        if failure is not None:
            raise failure
        return None

    async def create(self, group: ClusterGroup) -> None:
        """Make a group on all masters, or change its settings to these."""
        body = msgspec.json.encode(group)
        await self._link.ask_masters(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, {}, body=body)

    async def delete(self, name: str) -> None:
        """Delete a group with its offsets."""
        fields = {"groupName": name, "cleanOffset": True}
        await self._link.ask_masters(RequestCode.DELETE_SUBSCRIPTIONGROUP, fields)

    async def consumers(self, name: str) -> list[ClusterConsumer]:
        """The clients that are connected; those that receive by POP without a heartbeat are not.

        ClusterUnreachable while a master does not answer.
        """
        return (await self.connected(name)).connection_set

    async def connected(self, name: str, *, is_partial: bool = False) -> ClusterConsumers:
        """The same by client id, with what they subscribe to.

        With `is_partial` as the masters that answer know it: clients send their heartbeats to
        every broker, so one that is away takes no member along.
        """
        ask = self._link.ask_present if is_partial else self._link.ask_masters
        answers = await ask(
            RequestCode.GET_CONSUMER_CONNECTION_LIST,
            {"consumerGroup": name},
            allowed=(ResponseCode.CONSUMER_NOT_ONLINE,),
        )
        clients: dict[str, ClusterConsumer] = {}
        topics: dict[str, ClusterSubscription] = {}
        for broker, answer in answers.items():
            if answer.code == ResponseCode.SUCCESS:
                connected = decoded(answer.body, ClusterConsumers)
                clients |= {
                    each.client_id: replace(each, broker=broker)
                    for each in connected.connection_set
                }
                topics |= connected.subscription_table
        return ClusterConsumers([clients[name] for name in sorted(clients)], topics)

    async def queues(self, name: str, client: ClusterConsumer) -> list[ReadQueue] | None:
        """The queues that a client reads, which its broker asks of it; None where it lists none."""
        fields = {"consumerGroup": name, "clientId": client.client_id, "jstackEnable": False}
        code = RequestCode.GET_CONSUMER_RUNNING_INFO
        answer = await self._link.ask(client.broker, code, fields)
        return await asyncio.to_thread(read_queues, answer.body)

    async def table(self, broker: str) -> dict[str, ClusterGroup]:
        """All groups of one broker, TABLE_PAGE in an answer where it can."""
        groups: dict[str, ClusterGroup] = {}
        version = ""
        while True:
            fields = {"groupSeq": len(groups), "maxGroupNum": TABLE_PAGE, "dataVersion": version}
            answer = await self._link.ask(
                broker, RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, fields
            )
            page = await decoded_aside(answer.body, _GroupTable)
            is_over = not page.subscription_group_table.keys() - groups.keys()
            groups |= page.subscription_group_table
            if is_over or len(groups) >= int(answer.fields.get("totalGroupNum", 0)):
                return groups
            version = msgspec.json.encode(page.data_version).decode()

    async def offsets(self, broker: str) -> dict[str, GroupOffsets]:
        """How far all groups are on one broker, in the queues where they have committed."""
        answer = await self._link.ask(broker, RequestCode.GET_ALL_CONSUMER_OFFSET, {})
        table = (await decoded_aside(answer.body, _OffsetTable)).offset_table
        groups: dict[str, GroupOffsets] = {}
        for key, queues in table.items():
            topic, _, group = key.rpartition("@")
            groups.setdefault(group, {})[topic] = queues
        return groups

    async def ages(self, name: str, broker: str, topic: str) -> dict[int, tuple[int, int]]:
        """By queue the age of the next message that a group gets, and when the first was stored.

        The age is 0 where there is none; more than can be where the group has no offset.
        """
        answer = await self._link.ask(
            broker, RequestCode.QUERY_CONSUME_TIME_SPAN, {"group": name, "topic": topic}
        )
        spans = decoded(standard_json(answer.body), _TimeSpans).consume_time_span_set
        return {
            each.message_queue.queue_id: (each.delay_time, each.min_time_stamp) for each in spans
        }

    async def progress(self, name: str, topic: str = "") -> dict[ClusterQueue, ClusterProgress]:
        """How far it is in each queue of the topics that it consumes, or of one."""
        answers = await self._link.ask_masters(
            RequestCode.GET_CONSUME_STATS, {"consumerGroup": name, "topic": topic}
        )
        return {
            queue_of(key): ClusterProgress(each.consumer_offset, each.broker_offset)
            for answer in answers.values()
            for key, each in decoded(standard_json(answer.body), _ConsumeStats).offset_table.items()
        }

    async def committed(self, name: str, queue: ClusterQueue) -> int | None:
        """The next message that the group gets from a queue; None where none is committed."""
        return await self._committed(name, queue, is_zero_if_young=False)

    async def is_young(self, name: str, queue: ClusterQueue) -> bool:
        """Whether a group without an offset gets the whole queue, by the broker's own rule.

        `name` is one that never commits.
        """
        return await self._committed(name, queue, is_zero_if_young=True) == 0

    async def send_back(self, broker: str, fields: Fields) -> None:
        """Have a message retried, or given up, as a pushed client does."""
        await self._link.ask(broker, RequestCode.CONSUMER_SEND_MSG_BACK, fields)

    async def commit(self, name: str, queue: ClusterQueue, offset: int) -> bool:
        """Set the next message that the group gets from a queue, backwards too.

        False where the group was reset, and has not read the queue since.
        """
        fields = {
            "consumerGroup": name,
            "topic": queue.topic,
            "queueId": queue.queue,
            "commitOffset": offset,
        }
        answer = await self._link.ask(
            queue.broker,
            RequestCode.UPDATE_CONSUMER_OFFSET,
            fields,
            allowed=(ResponseCode.ILLEGAL_OPERATION,),  # of KiteMQ; Apache says it in a remark
        )
        return answer.code == ResponseCode.SUCCESS and "reset" not in answer.remark

    async def reset(self, name: str, queue: ClusterQueue, offset: int) -> None:
        """The same for consumers that are connected, too: each goes on there when it asks next.

        The broker forgets what it holds for POP, and takes no commit until then.
        """
        fields = {
            "group": name,
            "topic": queue.topic,
            "queueId": queue.queue,
            "offset": offset,
            "timestamp": -1,
            "isForce": True,
        }
        await self._link.ask(queue.broker, RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, fields)

    async def _committed(
        self, name: str, queue: ClusterQueue, *, is_zero_if_young: bool
    ) -> int | None:
        fields = {
            "consumerGroup": name,
            "topic": queue.topic,
            "queueId": queue.queue,
            "setZeroIfNotFound": is_zero_if_young,
        }
        answer = await self._link.ask(
            queue.broker,
            RequestCode.QUERY_CONSUMER_OFFSET,
            fields,
            allowed=(ResponseCode.QUERY_NOT_FOUND,),
        )
        return number(answer, "offset") if answer.code == ResponseCode.SUCCESS else None
