"""Topics of a cluster: names, settings, queues with their offsets; making and deleting them."""

import asyncio

import msgspec

from app.cluster.errors import ClusterError, ClusterRefused, ClusterUnreachable
from app.cluster.link import ClusterLink, command_of
from app.cluster.routes import ClusterQueue, TopicRoute, decoded, queue_of
from protocol.remoting.codes import RequestCode, ResponseCode
from protocol.remoting.loose_json import standard_json

READ_WRITE = 6
LOOK_AGAIN_S = 0.1  # a broker tells the name servers of a new topic at once
LOOKS_MAX = 150
TYPE_ATTRIBUTE = "message.type"
NO_TOPIC_CONFIG = (
    ResponseCode.TOPIC_NOT_EXIST,
    ResponseCode.REQUEST_CODE_NOT_SUPPORTED,
    ResponseCode.SYSTEM_ERROR,
)


class _NameList(msgspec.Struct, rename="camel"):
    topic_list: list[str] = []


class _QueueOffsets(msgspec.Struct, rename="camel"):
    min_offset: int = 0
    max_offset: int = 0


class _TopicStats(msgspec.Struct, rename="camel"):
    offset_table: dict[str, _QueueOffsets] = {}


class _TopicSettings(msgspec.Struct, rename="camel"):
    attributes: dict[str, str] = {}


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
            settings = decoded(standard_json(answer.body), _TopicSettings)
            return settings.attributes.get(TYPE_ATTRIBUTE, "")
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
        self, topic: str, queues: int, *, permission: int = READ_WRITE, kind: str = "NORMAL"
    ) -> None:
        """Make a topic with so many queues on each master, or change it to that.

        Returns once the name server has its queues on every one of them. `kind` is the message
        type: NORMAL, FIFO, DELAY or TRANSACTION.
        """
        fields = {
            "topic": topic,
            "defaultTopic": "TBW102",
            "readQueueNums": queues,
            "writeQueueNums": queues,
            "perm": permission,
            "topicFilterType": "SINGLE_TAG",
            "topicSysFlag": 0,
            "order": False,
            "attributes": "" if await self.exists(topic) else f"+message.type={kind}",
        }
        asked = await self._link.ask_masters(RequestCode.UPDATE_AND_CREATE_TOPIC, fields)
        for _ in range(LOOKS_MAX):
            if await self._is_on(topic, set(asked), queues):
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
        offsets = {}
        for broker in (await self.route(topic)).brokers:
            answer = await self._link.ask(
                broker, RequestCode.GET_TOPIC_STATS_INFO, {"topic": topic}
            )
            stats = decoded(standard_json(answer.body), _TopicStats)
            for key, each in stats.offset_table.items():
                offsets[queue_of(key)] = each.min_offset, each.max_offset
        return offsets

    async def _is_on(self, topic: str, brokers: set[str], queues: int) -> bool:
        if not await self.exists(topic):
            return False
        datas = (await self.route(topic)).queue_datas
        return brokers <= {each.broker_name for each in datas if each.write_queue_nums >= queues}
