"""A connection, as those see it who answer its calls."""

from dataclasses import dataclass, field

from app.grpc.connection_bytes import ConnectionBytes


@dataclass(eq=False)
class GrpcConnection:
    """Where a connection comes from, where it was accepted, whether it is encrypted.

    `ended_s` is when it ended, by the monotonic clock; None while it is open. `bytes` counts what
    its requests hold.
    """

    client: str  # "127.0.0.1:52100"
    server: str
    is_tls: bool
    bytes: ConnectionBytes
    ended_s: float | None = None
    host: str = field(init=False)  # "127.0.0.1", "::1": what bounds by address count by

    def __post_init__(self) -> None:
        self.host = self.client.rpartition(":")[0].strip("[]")
