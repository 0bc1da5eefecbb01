"""One call: its principal, connection, client id and deadline."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from app.db.rows import CLIENT_ADDRESS, Actor, actor_at
from app.grpc import workarounds
from app.grpc.codes import GrpcRefusal
from app.grpc.connection import GrpcConnection
from app.grpc.names import check_namespace, inner
from app.security.access import Action, Kind, Principal, require
from protocol.rocketmq.numbers import ClientLanguage, Code

CLIENT_CHARS_MAX = 255
TEXT_CHARS_MAX = 64


@dataclass
class GrpcCall:
    """A call as its handler sees it; `limit_s` is None without a deadline."""

    principal: Principal
    origin: GrpcConnection
    client: str
    metadata: Mapping[str, str]
    limit_s: float | None = None
    namespace: str = field(init=False)

    def __post_init__(self) -> None:
        CLIENT_ADDRESS.set(self.origin.host)
        self.namespace = check_namespace(self.metadata.get("x-mq-namespace", ""))

    @property
    def actor(self) -> Actor:
        """The caller's name for the audit trail."""
        return actor_at(
            self.principal.audit_name(self.origin.client), self.header("x-mq-request-id")
        )

    @property
    def language(self) -> str:
        """The client's language from the headers, such as "PYTHON"."""
        return self.header("x-mq-language")

    @property
    def speaks(self) -> ClientLanguage:
        return workarounds.language_of(self.language)

    @property
    def version(self) -> str:
        """The version of the client's library, such as "5.2.0"; "" if not sent."""
        return self.header("x-mq-client-version")

    def header(self, name: str) -> str:
        """A header's text, cut to TEXT_CHARS_MAX; "" if not sent or not printable."""
        text = self.metadata.get(name, "")[:TEXT_CHARS_MAX]
        return text if text.isprintable() else ""

    def topic(self, resource: Any, action: Action) -> str:
        """The topic of a resource, after a check of the caller's right.

        Raises GrpcRefusal without a name, RightMissing. The engine checks the name itself.
        """
        name = inner(resource, self.namespace)
        if not resource.name:
            raise GrpcRefusal(Code.ILLEGAL_TOPIC, "the request names no topic")
        self.require(action, Kind.TOPIC, name)
        return name

    def group(self, resource: Any, action: Action) -> str:
        """The consumer group of a resource; like `topic`."""
        name = inner(resource, self.namespace)
        if not resource.name:
            raise GrpcRefusal(Code.ILLEGAL_CONSUMER_GROUP, "the request names no consumer group")
        self.require(action, Kind.GROUP, name)
        return name

    def require(self, action: Action, kind: Kind, name: str) -> None:
        """Raise RightMissing or ServerReadOnly unless the caller has this right."""
        if self.principal.is_open and not self.principal.is_read_only:
            return
        require(self.principal, action, kind, name)


def client_of(metadata: Mapping[str, str]) -> str:
    """The client id; raises GrpcRefusal if it is missing or invalid."""
    client = metadata.get("x-mq-client-id", "")
    if not client:
        raise GrpcRefusal(Code.CLIENT_ID_REQUIRED, "the header x-mq-client-id is missing")
    if len(client) > CLIENT_CHARS_MAX or not client.isprintable():
        raise GrpcRefusal(
            Code.CLIENT_ID_REQUIRED,
            f"x-mq-client-id is longer than {CLIENT_CHARS_MAX} characters or not printable",
        )
    return client
