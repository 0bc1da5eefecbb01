"""What the engine did since the start, counted from its events, and how fast over a minute.

Totals are counters for `/metrics`. A copy of them is kept every ten seconds, seven in all, so that
a rate is the difference over about the last minute, as RocketMQ's own statistics have it.
"""

from collections import deque
from collections.abc import Callable

from engine.clock import Clock
from engine.events import (
    Acked,
    Appended,
    CorruptRecord,
    Dead,
    Delivered,
    Event,
    Released,
    Retried,
    SendRefused,
)

NAMES_MAX = 20_000
ROLL_S = 10.0
ROLLS = 7

Key = tuple[str, ...]


class Counter:
    """Totals by label values, at most `NAMES_MAX` of them; later ones are counted as "other"."""

    def __init__(self) -> None:
        self.totals: dict[Key, int] = {}
        self._rolls: deque[dict[Key, int]] = deque([{}], maxlen=ROLLS)

    def add(self, key: Key, amount: int = 1) -> None:
        totals = self.totals
        if key not in totals and len(totals) >= NAMES_MAX:
            key = ("other",) * len(key)
        totals[key] = totals.get(key, 0) + amount

    def roll(self) -> None:
        """Keep a copy of the totals; the oldest copy goes."""
        self._rolls.append(dict(self.totals))

    def since_oldest(self, key: Key) -> int:
        """How much was added since the oldest copy."""
        return self.totals.get(key, 0) - self._rolls[0].get(key, 0)


class Stats:
    """Listens to the engine; `roll` is called every `ROLL_S` seconds."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._rolled_s: deque[float] = deque([clock.monotonic_s()], maxlen=ROLLS)
        self.messages_in = Counter()  # topic
        self.bytes_in = Counter()  # topic
        self.messages_out = Counter()  # topic, group
        self.acked = Counter()  # topic, group
        self.retried = Counter()  # group
        self.dead = Counter()  # group, reason
        self.refused = Counter()  # code
        self.released = Counter()
        self.corrupt = Counter()
        self._counters = [item for item in vars(self).values() if isinstance(item, Counter)]
        self._hearers: dict[type[Event], Callable[..., None]] = {
            Appended: self._appended,
            Delivered: lambda e: self.messages_out.add((e.topic, e.group), len(e.offsets)),
            Acked: lambda e: self.acked.add((e.topic, e.group), len(e.offsets)),
            Retried: lambda e: self.retried.add((e.group,)),
            Dead: lambda e: self.dead.add((e.group, e.reason)),
            SendRefused: lambda e: self.refused.add((e.code,)),
            Released: lambda _: self.released.add(()),
            CorruptRecord: lambda _: self.corrupt.add(()),
        }

    def hear(self, event: Event) -> None:
        """Count one event."""
        hearer = self._hearers.get(type(event))
        if hearer is not None:
            hearer(event)

    def roll(self) -> None:
        """Move the window of the rates on."""
        self._rolled_s.append(self._clock.monotonic_s())
        for counter in self._counters:
            counter.roll()

    def rate(self, counter: Counter, key: Key) -> float:
        """Per second, over about the last minute."""
        span_s = self._clock.monotonic_s() - self._rolled_s[0]
        return counter.since_oldest(key) / span_s if span_s > 0 else 0.0

    def total_rate(self, counter: Counter) -> float:
        """Per second over about the last minute, all labels together."""
        return sum(self.rate(counter, key) for key in counter.totals)

    def _appended(self, event: Appended) -> None:
        key = (event.topic,)
        self.messages_in.add(key, event.count)
        self.bytes_in.add(key, event.size_bytes)
