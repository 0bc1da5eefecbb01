"""Classic clients for the console and REST: list, query and disconnect them by name."""

import json

from app.remoting.clients import RemotingClient, RemotingClients
from app.remoting.errors import RemotingRefusal
from app.services.connections import ClientFacts, Connected, Processed
from engine.errors import Busy, Refused
from engine.message import StoredMessage
from protocol.remoting.codes import RequestCode

ENDPOINT = "TCP"
NOT_A_CONSUMER = "only consumers tell what their threads do; this one produces"
NOT_OFFERED = "classic clients are not asked to process single messages"
JSTACK = '"jstack":'


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
            why_no_verify=NOT_OFFERED,
        )

    async def stack(self, client: str, timeout_s: float) -> str:
        """The client's thread dump; raises Busy if it is not reachable, TimeoutError."""
        known_client = self._clients.find(client)
        group = next(iter(known_client.consumers), "") if known_client is not None else ""
        if known_client is None or not group:
            raise Busy("the client is gone", field="client", remedy="ask again when it is back")
        fields = {"consumerGroup": group, "clientId": known_client.name, "jstackEnable": "true"}
        code = RequestCode.GET_CONSUMER_RUNNING_INFO
        try:
            answer = await known_client.connection.ask(code, fields, timeout_s)
        except RemotingRefusal as error:
            raise Busy(error.text, field="client", remedy="ask again in a moment") from error
        return _stack_in(answer.body.decode("utf-8", "replace"))

    async def verify(
        self, client: str, group: str, message: StoredMessage, timeout_s: float
    ) -> Processed:
        """Not offered."""
        raise Refused(NOT_OFFERED, field="client")

    def disconnect(self, client: str) -> int:
        """Close the client's connection, which others may share; returns the number closed."""
        known_client = self._clients.find(client)
        if known_client is None:
            return 0
        known_client.connection.close()
        return 1


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
