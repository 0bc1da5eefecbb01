"""A connection as the handlers of its calls see it."""

from dataclasses import dataclass, field


@dataclass(eq=False)
class GrpcConnection:
    """A connection's addresses, and whether it is encrypted.

    `ended_s` is its end in monotonic seconds, None while open.
    """

    client: str  # "127.0.0.1:52100"
    server: str
    is_tls: bool
    ended_s: float | None = None
    host: str = field(init=False)  # "127.0.0.1", "::1": the key of limits by address

    def __post_init__(self) -> None:
        self.host = self.client.rpartition(":")[0].strip("[]")
