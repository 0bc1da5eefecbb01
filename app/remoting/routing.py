"""A name server's answers: all topics on one broker at one address, of a standby its leader's."""

from typing import TYPE_CHECKING, Any

from app.eager import eager
from app.remoting.call import RemotingCall, json_body
from app.remoting.errors import ErrorResponse, RemotingRefusal
from app.security.access import Action, Kind
from engine.broker import REPLY_TOPIC, TopicConfig
from engine.errors import TopicNotFound
from protocol.remoting.codes import ResponseCode

if TYPE_CHECKING:
    from app.remoting.backend import BrokerPlace, RemotingBackend

# Producers take this topic's route for one that does not exist yet.
TEMPLATE_TOPIC = "TBW102"
READ_WRITE = 6
INHERITED = 1  # by the topics that are created from the template
CLIENT_TRACE_TOPIC = "RMQ_SYS_TRACE_TOPIC"


@eager
async def get_route(backend: "RemotingBackend", call: RemotingCall) -> ErrorResponse:
    """The queues of a topic and where its broker is; TOPIC_NOT_EXIST where there is none.

    A topic that does not exist gets no route: its producer then asks for that of TBW102, which
    exists while topics are created at their first message.
    """
    name = call.topic(Action.READ)
    topic = await _topic(backend, name)
    place = backend.place(call.connection)
    queues = {
        "brokerName": place.name,
        "perm": topic.permission,
        "readQueueNums": topic.read_queues,
        "topicSysFlag": 0,
        "writeQueueNums": topic.write_queues,
    }
    return ErrorResponse(
        body=json_body(
            {
                "brokerDatas": [_broker(place)],
                "filterServerTable": {},
                "queueDatas": [queues],
            }
        )
    )


def get_cluster_info(backend: "RemotingBackend", call: RemotingCall) -> ErrorResponse:
    """The one broker of the one cluster."""
    call.require(Action.READ, Kind.SERVER)
    place = backend.place(call.connection)
    return ErrorResponse(
        body=json_body(
            {
                "brokerAddrTable": {place.name: _broker(place)},
                "clusterAddrTable": {place.cluster: [place.name]},
            }
        )
    )


async def _topic(backend: "RemotingBackend", name: str) -> TopicConfig:
    messaging, settings = backend.messaging, backend.settings
    if name == TEMPLATE_TOPIC:
        if not settings.auto_create_topics:
            raise RemotingRefusal(
                ResponseCode.TOPIC_NOT_EXIST, "topics are not created at their first use"
            )
        queues = settings.default_queues
        permission = READ_WRITE | INHERITED
        return TopicConfig(name, read_queues=queues, write_queues=queues, permission=permission)
    try:
        verb = messaging.plan_topic if name == CLIENT_TRACE_TOPIC else messaging.topic
        return await verb(name)
    except TopicNotFound:
        if name == REPLY_TOPIC:  # the engine makes it at the first reply
            return TopicConfig(name, read_queues=1, write_queues=1, permission=READ_WRITE)
        raise RemotingRefusal(
            ResponseCode.TOPIC_NOT_EXIST,
            f"No topic route info in name server for the topic: {name}",
        ) from None


def _broker(place: "BrokerPlace") -> dict[str, Any]:
    return {
        "brokerAddrs": {"0": place.address},
        "brokerName": place.name,
        "cluster": place.cluster,
        "enableActingMaster": False,
    }
