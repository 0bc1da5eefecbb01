"""Consumer groups of a cluster: settings, clients, offsets and lag."""

import msgspec

from app.cluster.errors import ClusterUnreachable
from app.cluster.link import ClusterLink, Fields, number
from app.cluster.routes import ClusterQueue, decoded, queue_of
from protocol.remoting.codes import RequestCode, ResponseCode
from protocol.remoting.loose_json import standard_json

# Whoever has one of these is a group of the broker's own.
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


class _GroupTable(msgspec.Struct, rename="camel"):
    subscription_group_table: dict[str, ClusterGroup] = {}


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


class _Consumers(msgspec.Struct, rename="camel"):
    connection_set: list[ClusterConsumer] = []


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
        return [
            groups[name]
            for name in sorted(groups)
            if name not in SYSTEM_GROUPS and not name.startswith(SYSTEM_PREFIX)
        ]

    async def find(self, name: str) -> ClusterGroup | None:
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
                    return decoded(standard_json(answer.body), ClusterGroup)
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
        """The clients that are connected; those that receive by POP without a heartbeat are not."""
        answers = await self._link.ask_masters(
            RequestCode.GET_CONSUMER_CONNECTION_LIST,
            {"consumerGroup": name},
            allowed=(ResponseCode.CONSUMER_NOT_ONLINE,),
        )
        clients: dict[str, ClusterConsumer] = {}
        for answer in answers.values():
            if answer.code == ResponseCode.SUCCESS:
                connected = decoded(answer.body, _Consumers).connection_set
                clients |= {each.client_id: each for each in connected}
        return [clients[name] for name in sorted(clients)]

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

    async def commit(self, name: str, queue: ClusterQueue, offset: int) -> None:
        """Set the next message that the group gets from a queue, backwards too."""
        fields = {
            "consumerGroup": name,
            "topic": queue.topic,
            "queueId": queue.queue,
            "commitOffset": offset,
        }
        await self._link.ask(queue.broker, RequestCode.UPDATE_CONSUMER_OFFSET, fields)

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
