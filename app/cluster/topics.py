"""Topics of a cluster: names, settings, queues with their offsets; making and deleting them."""

import asyncio

import msgspec

from app.cluster.errors import ClusterError, ClusterRefused, ClusterUnreachable
from app.cluster.link import ClusterLink, command_of
from app.cluster.routes import (
    BrokerQueues,
    ClusterQueue,
    TopicRoute,
    decoded,
    decoded_aside,
    queue_of,
)
from protocol.remoting.codes import RequestCode, ResponseCode
from protocol.remoting.loose_json import standard_json

READ_WRITE = 6
LOOK_AGAIN_S = 0.1  # a broker tells the name servers of a new topic at once
LOOKS_MAX = 150
TABLE_PAGE = 10_000  # some 3 MB
TYPE_ATTRIBUTE = "message.type"
NO_TOPIC_CONFIG = (
    ResponseCode.TOPIC_NOT_EXIST,
    ResponseCode.REQUEST_CODE_NOT_SUPPORTED,
    ResponseCode.SYSTEM_ERROR,
)


class _NameList(msgspec.Struct, rename="camel"):
    topic_list: list[str] = []


class QueueOffsets(msgspec.Struct, frozen=True, rename="camel"):
    """What a queue keeps; `last_update_timestamp` is 0 while it has had no message."""

    min_offset: int = 0
    max_offset: int = 0
    last_update_timestamp: int = 0


class _TopicStats(msgspec.Struct, rename="camel"):
    offset_table: dict[str, QueueOffsets] = {}


class BrokerTopic(msgspec.Struct, frozen=True, rename="camel"):
    """A topic as one broker has it."""

    read_queue_nums: int = 0
    write_queue_nums: int = 0
    perm: int = READ_WRITE
    attributes: dict[str, str] = {}

    @property
    def kind(self) -> str:
        """Its message type; "" where the broker knows none."""
        return self.attributes.get(TYPE_ATTRIBUTE, "")

    def on(self, broker: str) -> BrokerQueues:
        """The same as the name servers would tell it of that broker."""
        return BrokerQueues(broker, self.read_queue_nums, self.write_queue_nums, self.perm)


class _TopicTable(msgspec.Struct, rename="camel"):
    topic_config_table: dict[str, BrokerTopic] = {}
    data_version: dict[str, int] = {}


class ClusterTopics:
    """The verbs for topics."""

    def __init__(self, link: ClusterLink) -> None:
        self._link = link

    async def names(self) -> list[str]:
        """All topics that the name servers know, those of the system included."""
        answer = await self._link.routes.ask(
            command_of(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, {})
        )
        return sorted(decoded(answer.body, _NameList).topic_list)

    async def route(self, topic: str) -> TopicRoute:
        """Its brokers and queues; ClusterRefused where there is none."""
        return await self._link.routes.route(topic)

    async def kind(self, topic: str) -> str:
        """The message type of a topic; "" where its brokers know none."""
        failure: ClusterError = ClusterUnreachable(f"no broker has {topic}")
        for broker in (await self.route(topic)).brokers:
            try:
                answer = await self._link.ask(
                    broker,
                    RequestCode.GET_TOPIC_CONFIG,
                    {"topic": topic},
                    allowed=NO_TOPIC_CONFIG,
                )
            except ClusterUnreachable as error:
                failure = error
                continue
            if answer.code != ResponseCode.SUCCESS:
                return ""
            return decoded(standard_json(answer.body), BrokerTopic).kind
        raise failure

    async def exists(self, topic: str) -> bool:
        """Whether it has a route."""
        self._link.routes.forget(topic)
        try:
            await self._link.routes.route(topic)
        except ClusterRefused as error:
            if error.answer != ResponseCode.TOPIC_NOT_EXIST:
                raise
            return False
        return True

    async def create(
        self,
        topic: str,
        queues: int,
        *,
        read_queues: int = 0,
        permission: int = READ_WRITE,
        kind: str = "NORMAL",
    ) -> None:
        """Make a topic with so many queues on each master, or change it to that.

        Returns once the name server has its queues on every one of them. `kind` is the message
        type: NORMAL, FIFO, DELAY or TRANSACTION; without one it takes any message. There are as
        many `read_queues` unless given.
        """
        reads = read_queues or queues
        is_typed = kind and not await self.exists(topic)
        fields = {
            "topic": topic,
            "defaultTopic": "TBW102",
            "readQueueNums": reads,
            "writeQueueNums": queues,
            "perm": permission,
            "topicFilterType": "SINGLE_TAG",
            "topicSysFlag": 0,
            "order": False,
            "attributes": f"+message.type={kind}" if is_typed else "",
        }
        asked = await self._link.ask_masters(RequestCode.UPDATE_AND_CREATE_TOPIC, fields)
        for _ in range(LOOKS_MAX):
            if await self._is_on(topic, set(asked), reads, queues):
                return
            await asyncio.sleep(LOOK_AGAIN_S)
        raise ClusterUnreachable(
            f"the name servers do not know {topic} on all brokers after {LOOKS_MAX / 10:g} s",
            remedy="look whether the brokers reach the name servers",
        )

    async def delete(self, topic: str) -> None:
        """Delete a topic with its messages, on all masters and name servers."""
        await self._link.ask_masters(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": topic})
        await self._link.routes.ask_all(
            command_of(RequestCode.DELETE_TOPIC_IN_NAMESRV, {"topic": topic})
        )
        self._link.routes.forget(topic)

    async def offsets(self, topic: str) -> dict[ClusterQueue, tuple[int, int]]:
        """The first offset that each queue keeps and the one that its next message gets."""
        return {
            queue: (each.min_offset, each.max_offset)
            for broker in (await self.route(topic)).brokers
            for queue, each in (await self.queues_on(broker, topic)).items()
        }

    async def queues_on(self, broker: str, topic: str) -> dict[ClusterQueue, QueueOffsets]:
        """What the queues of a topic on one broker keep; none where the broker has it not."""
        answer = await self._link.ask(
            broker,
            RequestCode.GET_TOPIC_STATS_INFO,
            {"topic": topic},
            allowed=(ResponseCode.TOPIC_NOT_EXIST,),
        )
        if answer.code != ResponseCode.SUCCESS:
            return {}
        table = decoded(standard_json(answer.body), _TopicStats).offset_table
        return {queue_of(key): each for key, each in table.items()}

    async def table(self, broker: str) -> dict[str, BrokerTopic]:
        """All topics of one broker, TABLE_PAGE in an answer where it can; never waits for others.

        Brokers of before 5.4 answer with all of them at once.
        """
        topics: dict[str, BrokerTopic] = {}
        version = ""
        while True:
            fields = {"topicSeq": len(topics), "maxTopicNum": TABLE_PAGE, "dataVersion": version}
            answer = await self._link.ask(broker, RequestCode.GET_ALL_TOPIC_CONFIG, fields)
            page = await decoded_aside(answer.body, _TopicTable)
            is_over = not page.topic_config_table.keys() - topics.keys()
            topics |= page.topic_config_table
            if is_over or len(topics) >= int(answer.fields.get("totalTopicNum", 0)):
                return topics
            version = msgspec.json.encode(page.data_version).decode()

    async def system_names(self, broker: str) -> set[str]:
        """The topics of a broker's own, those named as itself and its cluster among them."""
        answer = await self._link.ask(
            broker,
            RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER,
            {},
            allowed=(ResponseCode.REQUEST_CODE_NOT_SUPPORTED,),
        )
        if answer.code != ResponseCode.SUCCESS:
            return set()
        return set(decoded(answer.body, _NameList).topic_list)

    async def _is_on(self, topic: str, brokers: set[str], reads: int, writes: int) -> bool:
        if not await self.exists(topic):
            return False
        return brokers <= {
            each.broker_name
            for each in (await self.route(topic)).queue_datas
            if (each.read_queue_nums, each.write_queue_nums) == (reads, writes)
        }
