"""gRPC clients for the console and REST: list, query and disconnect them by name."""

from collections.abc import Callable, Iterator
from typing import Any

from google.protobuf.json_format import MessageToDict

from app.administration import TAKES_ALL, queues_untold
from app.grpc.backend import GrpcBackend
from app.grpc.clients import GrpcClient
from app.grpc.codes import GrpcRefusal
from app.grpc.shapes import to_wire
from app.grpc.telemetry import ask_stack, ask_verify
from app.services import bodies
from app.services.connections import NO_LISTENER, NO_STREAM, ClientFacts, Connected, Processed
from engine.errors import Busy
from engine.message import StoredMessage
from kitemq.model.conversion import convert
from kitemq.model.members import MemberQueue
from protocol.rocketmq.numbers import ClientType, Code

ENDPOINT = "gRPC"
SETTINGS_BYTES_MAX = 16 * 1024  # larger settings are not listed
SETTINGS_MAX = 100
VALUE_CHARS_MAX = 200


class GrpcClientDirectory:
    """Implements `Connections` for gRPC; `end` ends the connection from an address."""

    def __init__(self, backend: GrpcBackend, end: Callable[[str], bool]) -> None:
        self._backend = backend
        self._end = end

    @property
    def count(self) -> int:
        return len(self._backend.clients)

    def connected(self) -> list[Connected]:
        """All clients that are alive."""
        return self._backend.clients.connected()

    def find(self, client: str) -> ClientFacts | None:
        """What a client has reported about itself."""
        grpc_client = self._backend.clients.find(client)
        if grpc_client is None:
            return None
        clock = self._backend.host.clock
        silent_ms = round((clock.monotonic_s() - grpc_client.seen_s) * 1000)
        why_not = "" if grpc_client.stream is not None else NO_STREAM
        return convert(
            grpc_client,
            ClientFacts,
            endpoint=ENDPOINT,
            seen_ms=clock.now_ms() - silent_ms,
            kind=kind_of(grpc_client),
            is_open=grpc_client.stream is not None,
            settings=list(_settings(grpc_client.settings)),
            topics=sorted(grpc_client.asks),
            groups={group: dict(topics) for group, topics in sorted(grpc_client.groups.items())},
            why_no_stack=why_not,
            why_no_verify=why_not or ("" if grpc_client.is_push else NO_LISTENER),
        )

    async def stack(self, client: str, timeout_s: float) -> str:
        """The client's thread dump; raises Busy if it is not reachable, TimeoutError."""
        try:
            return await ask_stack(self._backend, self._get(client), timeout_s)
        except GrpcRefusal as error:
            raise _busy(error) from error

    async def verify(
        self, client: str, group: str, message: StoredMessage, timeout_s: float
    ) -> Processed:
        """Have a push consumer process a message; raises Busy if not reachable, TimeoutError."""
        grpc_client = self._get(client)
        await bodies.decompress([message])
        wire = to_wire(message, grpc_client.namespace)
        try:
            status = await ask_verify(self._backend, grpc_client, wire, timeout_s)
        except GrpcRefusal as error:
            raise _busy(error) from error
        is_standard = status.code in set(Code)
        return Processed(
            Code(status.code).name if is_standard else str(status.code), status.message
        )

    async def queues(self, client: str, group: str, timeout_s: float) -> list[MemberQueue]:
        """Refused: the client has none of its own."""
        raise queues_untold(TAKES_ALL)

    def disconnect(self, client: str) -> int:
        """End the client's stream, and its connection unless other clients share it."""
        clients = self._backend.clients
        grpc_client = clients.find(client)
        if grpc_client is None:
            return 0
        has_stream = grpc_client.stream is not None
        clients.disconnect(grpc_client)
        is_shared = any(each.address == grpc_client.address for each in clients.all())
        is_ended = not is_shared and self._end(grpc_client.address)
        return int(has_stream or is_ended)

    def _get(self, client: str) -> GrpcClient:
        grpc_client = self._backend.clients.find(client)
        if grpc_client is None:
            raise Busy("the client is gone", field="client", remedy="ask again when it is back")
        return grpc_client


def kind_of(client: GrpcClient) -> str:
    """The client's type in words; "" if it has not reported one."""
    if client.kind is ClientType.CLIENT_TYPE_UNSPECIFIED:
        return ""
    return client.kind.name.lower().replace("_", " ")


def _busy(error: GrpcRefusal) -> Busy:
    remedy = "ask again in a moment"
    return Busy(str(error), field="client", remedy=remedy, code="client_not_reachable")


def _settings(settings: Any) -> Iterator[tuple[str, str]]:
    """The first 100 settings that a client has reported, as names and values."""
    if settings is None:
        return
    size_bytes = settings.ByteSize()
    if size_bytes > SETTINGS_BYTES_MAX:
        yield "settings", f"{size_bytes:,} bytes: too many to be shown"
        return
    values = MessageToDict(settings, preserving_proto_field_name=True)
    for number, (name, value) in enumerate(_flat("", values)):
        if number >= SETTINGS_MAX:
            yield "…", f"only the first {SETTINGS_MAX} are shown"
            return
        yield name, value[:VALUE_CHARS_MAX]


def _flat(name: str, value: Any) -> Iterator[tuple[str, str]]:
    """Nested values with their path, as "subscription.group.name"."""
    if isinstance(value, dict):
        for key, child in value.items():
            yield from _flat(f"{name}.{key}" if name else key, child)
    elif isinstance(value, list):
        for index, child in enumerate(value):
            yield from _flat(f"{name}[{index}]", child)
    else:
        yield name, str(value)
