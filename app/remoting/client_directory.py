"""Classic clients for the console and REST: list, query and disconnect them by name."""

import asyncio
import json
from collections.abc import Iterable

import msgspec

from app.remoting.clients import RemotingClient, RemotingClients
from app.remoting.errors import RemotingRefusal
from app.remoting.records import record_of
from app.services.connections import NO_LISTENER, ClientFacts, Connected, Processed
from app.services.member_queues import member_queues
from engine.errors import Busy
from engine.message import StoredMessage, offset_id
from kitemq.model.members import MemberQueue
from protocol.remoting.codes import RequestCode, ResponseCode
from protocol.remoting.running_info import ALL_QUEUES, ReadQueue, read_queues

ENDPOINT = "TCP"
NOT_A_CONSUMER = "only consumers tell what their threads do; this one produces"
PUSH = "CONSUME_PASSIVELY"
JSTACK = '"jstack":'


class _Directly(msgspec.Struct):
    """A consumer's result of processing a message on request."""

    consumeResult: str = ""
    remark: str | None = None

    @classmethod
    def read(cls, body: bytes) -> "_Directly":
        """The result in an answer; raises Busy if it is none."""
        try:
            return msgspec.json.decode(body, type=cls)
        except msgspec.MsgspecError:
            raise Busy(
                "the client's answer cannot be read", field="client", remedy="ask another client"
            ) from None


class RemotingClientDirectory:
    """Implements `Connections` for classic clients."""

    def __init__(self, clients: RemotingClients) -> None:
        self._clients = clients

    @property
    def count(self) -> int:
        return len(self._clients)

    def connected(self) -> list[Connected]:
        """All clients that are alive."""
        return [
            Connected(
                client=client.name,
                address=client.connection.client,
                since_ms=client.since_ms,
                endpoint=ENDPOINT,
                about=_about(client),
                language=client.language,
                version=client.version,
                is_producer=(
                    not client.consumers if client.producers or client.consumers else None
                ),
            )
            for client in self._clients.all()
        ]

    def find(self, client: str) -> ClientFacts | None:
        """What a client has reported about itself."""
        known_client = self._clients.find(client)
        if known_client is None:
            return None
        return ClientFacts(
            endpoint=ENDPOINT,
            address=known_client.connection.client,
            since_ms=known_client.since_ms,
            seen_ms=known_client.seen_ms,
            language=known_client.language,
            version=known_client.version,
            kind=_kind(known_client),
            user=known_client.user,
            is_open=known_client.connection.is_open,
            polls=known_client.connection.polls,
            topics=sorted(known_client.producers),
            groups={
                group: {each.topic: each.filter for each in consumer.topics.values()}
                for group, consumer in sorted(known_client.consumers.items())
            },
            why_no_stack="" if known_client.consumers else NOT_A_CONSUMER,
            why_no_verify=_why_no_verify(known_client),
        )

    async def stack(self, client: str, timeout_s: float) -> str:
        """The client's thread dump; raises Busy if it is not reachable, TimeoutError."""
        known_client = self._clients.find(client)
        group = next(iter(known_client.consumers), "") if known_client is not None else ""
        if known_client is None or not group:
            raise _gone()
        body = await _running_info(known_client, group, timeout_s, has_stack=True)
        return _stack_in(body.decode("utf-8", "replace"))

    async def queues(self, client: str, group: str, timeout_s: float) -> list[MemberQueue]:
        """The queues that the client reads; raises as `stack`, and Refused if it lists none."""
        known_client = self._clients.find(client)
        if known_client is None:
            raise _gone()
        body = await _running_info(known_client, group, timeout_s)
        host = known_client.connection.backend.host

        def numbers(place: ReadQueue) -> Iterable[int]:
            if place.queue != ALL_QUEUES:
                return (place.queue,)
            return range(host.broker.topic(place.topic).read_queues)

        return member_queues(await asyncio.to_thread(read_queues, body), numbers)

    async def verify(
        self, client: str, group: str, message: StoredMessage, timeout_s: float
    ) -> Processed:
        """Have a push consumer process a message; raises Busy if not reachable, TimeoutError."""
        known_client = self._clients.find(client)
        if known_client is None:
            raise _gone()
        connection = known_client.connection
        address = connection.backend.address(connection)
        fields = {
            "consumerGroup": group,
            "clientId": client,
            "msgId": offset_id(address, message.position),
            "brokerName": connection.backend.settings.broker_name,
            "topic": message.topic,
        }
        try:
            answer = await connection.ask(
                RequestCode.CONSUME_MESSAGE_DIRECTLY, fields, timeout_s, record_of(message, address)
            )
        except RemotingRefusal as error:
            raise Busy(error.text, field="client", remedy="ask again in a moment") from error
        if answer.code != ResponseCode.SUCCESS:
            return Processed("", answer.remark)
        result = _Directly.read(answer.body)
        return Processed(result.consumeResult, result.remark or "")

    def disconnect(self, client: str) -> int:
        """Close the client's connection, which others may share; returns the number closed."""
        known_client = self._clients.find(client)
        if known_client is None:
            return 0
        known_client.connection.close()
        return 1


async def _running_info(
    client: RemotingClient, group: str, timeout_s: float, *, has_stack: bool = False
) -> bytes:
    fields = {
        "consumerGroup": group,
        "clientId": client.name,
        "jstackEnable": str(has_stack).lower(),
    }
    code = RequestCode.GET_CONSUMER_RUNNING_INFO
    try:
        return (await client.connection.ask(code, fields, timeout_s)).body
    except RemotingRefusal as error:
        raise Busy(error.text, field="client", remedy="ask again in a moment") from error


def _gone() -> Busy:
    return Busy("the client is gone", field="client", remedy="ask again when it is back")


def _why_no_verify(client: RemotingClient) -> str:
    kinds = {each.consume_type for each in client.consumers.values()}
    if not kinds:
        return NOT_A_CONSUMER
    return "" if PUSH in kinds else NO_LISTENER


def _stack_in(text: str) -> str:
    """The stacks in a consumer's running information, whose maps by queue are no JSON."""
    _, mark, rest = text.partition(JSTACK)
    if not mark:
        return ""
    try:
        stack, _ = json.JSONDecoder().raw_decode(rest.lstrip())
    except ValueError:
        return ""
    return stack if isinstance(stack, str) else ""


def _kind(client: RemotingClient) -> str:
    if client.consumers and client.producers:
        return "consumer and producer"
    if client.consumers:
        return "consumer"
    return "producer" if client.producers else ""


def _about(client: RemotingClient) -> str:
    language = f"{client.language} {client.version}".strip()
    return ", ".join(part for part in (language, _kind(client)) if part)
