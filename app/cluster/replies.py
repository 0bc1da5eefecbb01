"""Replies of a cluster: sends them to a broker, which pushes each to the client that waits for it.

A broker finds that client by the name of its heartbeats (`half_messages.py`), so a requester sends
them to all masters. What it pushes it stores, too, whether the client took it or not.
"""

from collections.abc import Callable

from app.cluster.errors import ClusterRefused
from app.cluster.link import ClusterLink
from app.cluster.messages import NewClusterMessage
from app.cluster.routes import ClusterQueue
from app.cluster.sending import send_fields
from engine.message import StoredMessage
from protocol.remoting.codes import RequestCode, ResponseCode
from protocol.remoting.frames import Command

NOT_STORED = "broker unable to service"  # of a broker that has just started


class ClusterReplies:
    """The verbs for replies."""

    def __init__(self, link: ClusterLink) -> None:
        self._link = link

    def listen(self, take: Callable[[StoredMessage], bool]) -> None:
        """Pass pushed replies to `take`, which says at once whether somebody waited for one."""

        def on_push(address: str, command: Command) -> int:
            try:
                is_taken = take(_pushed(address, command))
            except (KeyError, ValueError):
                return ResponseCode.SYSTEM_ERROR
            return ResponseCode.SUCCESS if is_taken else ResponseCode.SYSTEM_ERROR

        self._link.pool.on_requests[RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT] = on_push

    def close(self) -> None:
        """Take no replies any more."""
        self._link.pool.on_requests.pop(RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT, None)

    async def send(self, queue: ClusterQueue, reply: NewClusterMessage) -> bool:
        """Store a reply, and whether its requester took it."""
        fields, body = send_fields(queue.topic, [reply], is_batch=False)
        answer = await self._link.ask(
            queue.broker,
            RequestCode.SEND_REPLY_MESSAGE,
            fields | {"queueId": queue.queue},
            body=body,
            allowed=(ResponseCode.SYSTEM_ERROR,),
        )
        if NOT_STORED in answer.remark:
            raise ClusterRefused(answer.remark, ResponseCode.SERVICE_NOT_AVAILABLE)
        return answer.code == ResponseCode.SUCCESS


def _pushed(address: str, command: Command) -> StoredMessage:
    """A reply as its broker pushes it, before it has a place: queue, offset and position are 0."""
    fields = command.fields
    return StoredMessage(
        topic=fields["topic"],
        queue=0,
        offset=0,
        position=0,
        size_bytes=len(command.body),
        body=command.body,
        property_block=fields["properties"].encode(),
        flag=int(fields.get("flag", "0")),
        sys_flag=int(fields.get("sysFlag", "0")),
        attempt=1,
        born_ms=int(fields["bornTimestamp"]),
        born_host=fields.get("bornHost", ""),
        stored_ms=int(fields["storeTimestamp"]),
        store_host=fields.get("storeHost", address),
    )
