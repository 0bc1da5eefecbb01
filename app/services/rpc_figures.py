"""Counters of the gRPC endpoint, read by metrics and console."""

from collections import Counter
from dataclasses import dataclass, field


@dataclass
class RpcFigures:
    """Counters begin at 0 with the server; the others are as of now."""

    calls: Counter[tuple[str, str]] = field(default_factory=Counter)  # by method and code
    connections: int = 0
    connections_refused: int = 0
    polls: int = 0  # receives and pulls that wait
    clients: int = 0
    streams: int = 0  # open telemetry streams
    leases: int = 0  # deliveries of push consumers that are renewed
