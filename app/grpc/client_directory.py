"""The door's clients as the console and REST see them: known by name, asked, sent away."""

from collections.abc import Callable, Iterator
from typing import Any

from google.protobuf.json_format import MessageToDict

from app.grpc.backend import GrpcBackend
from app.grpc.clients import GrpcClient
from app.grpc.codes import GrpcRefusal
from app.grpc.shapes import to_wire
from app.grpc.telemetry import ask_stack, ask_verify
from app.services import bodies
from app.services.connections import (
    NO_LISTENER,
    NO_STREAM,
    ClientFacts,
    Connected,
    Processed,
)
from engine.errors import Busy
from engine.message import StoredMessage
from protocol.rocketmq.numbers import ClientType, Code

DOOR = "gRPC"
SETTINGS_BYTES_MAX = 16 * 1024  # that are spelled out
SETTINGS_MAX = 100
VALUE_CHARS_MAX = 200


class GrpcClientDirectory:
    """Answers `Connections` for the gRPC door; `end` ends the connection from an address."""

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
        """What one of them told of itself."""
        found = self._backend.clients.find(client)
        if found is None:
            return None
        clock = self._backend.host.clock
        silent_ms = round((clock.monotonic_s() - found.seen_s) * 1000)
        why_not = "" if found.stream is not None else NO_STREAM
        return ClientFacts(
            DOOR,
            found.address,
            found.since_ms,
            clock.now_ms() - silent_ms,
            found.language,
            found.version,
            kind_of(found),
            found.user,
            is_open=found.stream is not None,
            polls=found.polls,
            told=found.told,
            settings=list(_settings(found.settings)),
            topics=sorted(found.asks),
            groups={group: dict(topics) for group, topics in sorted(found.groups.items())},
            why_no_stack=why_not,
            why_no_verify=why_not or ("" if found.is_push else NO_LISTENER),
        )

    async def stack(self, client: str, timeout_s: float) -> str:
        """What its threads do; Busy where it cannot be asked just now, TimeoutError."""
        try:
            return await ask_stack(self._backend, self._get(client), timeout_s)
        except GrpcRefusal as error:
            raise _busy(error) from error

    async def verify(
        self, client: str, group: str, message: StoredMessage, timeout_s: float
    ) -> Processed:
        """Let a push consumer process a message; Busy where it cannot be asked, TimeoutError."""
        found = self._get(client)
        await bodies.decompress([message])
        wire = to_wire(message, found.namespace)
        try:
            status = await ask_verify(self._backend, found, wire, timeout_s)
        except GrpcRefusal as error:
            raise _busy(error) from error
        known = status.code in set(Code)
        return Processed(Code(status.code).name if known else str(status.code), status.message)

    def disconnect(self, client: str) -> int:
        """End its stream and forget it; its connection too, unless other clients share it."""
        clients = self._backend.clients
        found = clients.find(client)
        if found is None:
            return 0
        has_stream = found.stream is not None
        clients.disconnect(found)
        is_shared = any(each.address == found.address for each in clients.all())
        is_ended = not is_shared and self._end(found.address)
        return int(has_stream or is_ended)

    def _get(self, client: str) -> GrpcClient:
        found = self._backend.clients.find(client)
        if found is None:
            raise Busy("the client is gone", field="client", remedy="ask again when it is back")
        return found


def kind_of(client: GrpcClient) -> str:
    """What a client is, in words; "" where it never said."""
    if client.kind is ClientType.CLIENT_TYPE_UNSPECIFIED:
        return ""
    return client.kind.name.lower().replace("_", " ")


def _busy(error: GrpcRefusal) -> Busy:
    busy = Busy(str(error), field="client", remedy="ask again in a moment")
    busy.code = "client_not_reachable"
    return busy


def _settings(settings: Any) -> Iterator[tuple[str, str]]:
    """What a client reported, as names and values; the first hundred."""
    if settings is None:
        return
    size_bytes = settings.ByteSize()
    if size_bytes > SETTINGS_BYTES_MAX:
        yield "settings", f"{size_bytes:,} bytes: too many to be shown"
        return
    told = MessageToDict(settings, preserving_proto_field_name=True)
    for number, (name, value) in enumerate(_flat("", told)):
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
