"""Counters of the endpoint for classic clients, read by metrics and console."""

from collections import Counter
from dataclasses import dataclass, field


@dataclass
class RemotingFigures:
    """Counters begin at 0 with the server; the others are as of now."""

    requests: Counter[tuple[int, int]] = field(default_factory=Counter)  # by request, response code
    connections: int = 0
    polls: int = 0  # pulls that wait
    clients: int = 0
