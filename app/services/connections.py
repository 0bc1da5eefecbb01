"""Who is connected right now, by WebSocket or gRPC; the door says so, the console shows it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass(frozen=True)
class Connected:
    """An open connection: the name that its client goes by, and from where since when."""

    client: str
    address: str
    since_ms: int
    door: str = "WebSocket"
    about: str = ""  # what the client tells of itself


class Connections:
    """The open connections of one server; the gate bounds how many there can be."""

    def __init__(self) -> None:
        self._open: dict[int, tuple[Callable[[], str], str, int]] = {}
        self._opened = 0
        self._others: list[Callable[[], list[Connected]]] = []

    @contextmanager
    def opened(self, client: Callable[[], str], address: str, since_ms: int) -> Iterator[None]:
        """A connection is open for as long as the context is held; `client` names it as of now."""
        self._opened += 1
        number = self._opened
        self._open[number] = (client, address, since_ms)
        try:
            yield
        finally:
            del self._open[number]

    def add_door(self, connected: Callable[[], list[Connected]]) -> Callable[[], None]:
        """Another door lists its own; what is returned takes it out again."""
        self._others.append(connected)
        return lambda: self._others.remove(connected)

    @property
    def count(self) -> int:
        return len(self.all())

    def all(self) -> list[Connected]:
        """All of them, the oldest first."""
        found = [
            Connected(client(), address, since_ms)
            for client, address, since_ms in self._open.values()
        ]
        for connected in self._others:
            found += connected()
        return sorted(found, key=lambda each: each.since_ms)
