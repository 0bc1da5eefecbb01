"""What the clients of the soak know for sure, and what it proves about the server.

Every message has a body of its own and is sent once. It is *accepted* when its answer came,
*acknowledged* when the answer to its acknowledgement said done, *unsure* when that answer was lost
with the server. Bodies begin with the name of their kind: "plain 7", "delayed 3 1700000000000".
"""

import time
from dataclasses import dataclass, field

DRAIN_S = 120.0  # without an acknowledgement, after the last message was sent


@dataclass
class Ledger:
    """Filled by all clients, on one event loop; `wrong` says what may never happen."""

    accepted: set[str] = field(default_factory=set)
    acknowledged_s: dict[str, float] = field(default_factory=dict)
    unsure: set[str] = field(default_factory=set)
    came_back: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    rolled_back: set[str] = field(default_factory=set)
    dead: set[str] = field(default_factory=set)
    in_order: dict[str, list[str]] = field(default_factory=dict)  # by message group, accepted
    kills: int = 0
    memory_mib_max: float = 0.0
    ready_s_max: float = 0.0
    # Accepted, and neither settled nor maybe settled nor a dead letter.
    missing: set[str] = field(default_factory=set)
    is_sending: bool = True
    drained_by_s: float = field(default_factory=lambda: time.monotonic() + DRAIN_S)

    def end_sending(self) -> None:
        """From now on the consumers drain what is left."""
        self.is_sending, self.drained_by_s = False, time.monotonic() + DRAIN_S

    def is_draining(self) -> bool:
        """Whether a consumer still has something to do."""
        return self.is_sending or (time.monotonic() < self.drained_by_s and bool(self.missing))

    def accept(self, body: str, message_group: str = "") -> None:
        """The server said that it has this message."""
        self.accepted.add(body)
        # Its acknowledgement can be faster than the answer to its producer.
        if not (body in self.acknowledged_s or body in self.unsure or body in self.dead):
            self.missing.add(body)
        if message_group:
            self.in_order.setdefault(message_group, []).append(body)

    def deliver(self, bodies: list[str], asked_s: float) -> None:
        """These arrived together, asked for at `asked_s`; notes each that should not have."""
        now_ms = time.time_ns() // 1_000_000
        for at, body in enumerate(bodies):
            if self.acknowledged_s.get(body, asked_s) < asked_s:
                self.came_back.append(body)
            if body in self.rolled_back:
                self.wrong.append(f"{body!r} was rolled back and came")
            if body.startswith("delayed ") and now_ms < int(body.split()[2]):
                self.wrong.append(f"{body!r} came at {now_ms}, before its time")
            if body.startswith("fifo "):
                self._check_order(body, bodies[:at])

    def acknowledge(self, body: str) -> None:
        """The server said that the group is done with this message."""
        self.acknowledged_s.setdefault(body, time.monotonic())
        self._settle(body)

    def bury(self, bodies: list[str]) -> None:
        """These are dead letters."""
        self.dead.update(bodies)
        self._count_off(bodies)

    def doubt(self, bodies: list[str]) -> None:
        """Whether these are acknowledged is unknown: the answer was lost with the server."""
        self.unsure.update(bodies)
        for body in bodies:
            self._settle(body)

    def report(self) -> str:
        """All figures in one line."""
        return (
            f"{self.kills} kills, {len(self.accepted):,} accepted, "
            f"{len(self.acknowledged_s):,} acknowledged, {len(self.dead):,} dead letters, "
            f"{len(self.rolled_back):,} rolled back, {len(self.unsure):,} unsure, "
            f"{len(self.missing):,} missing, "
            f"{len(self.came_back):,} back after their acknowledgement, "
            f"{len(self.wrong):,} out of order, early or rolled back, "
            f"{self.memory_mib_max:.0f} MiB at most, ready after {self.ready_s_max:.1f} s at most"
        )

    @property
    def is_clean(self) -> bool:
        """Whether the server did nothing that it may not do."""
        return not (self.missing or self.came_back or self.wrong)

    def _check_order(self, body: str, before: list[str]) -> None:
        """Of a message group, everything accepted earlier is settled, or came just before."""
        group, number = body.split()[1:3]
        for other in self.in_order.get(group, ()):
            if int(other.split()[2]) >= int(number):
                return
            if other not in before:
                self.wrong.append(f"{body!r} came before {other!r} was settled")
                return

    def _settle(self, body: str) -> None:
        self._count_off([body])
        if body.startswith("fifo "):
            waiting = self.in_order.get(body.split()[1], [])
            if body in waiting:
                waiting.remove(body)

    def _count_off(self, bodies: list[str]) -> None:
        if not self.missing.isdisjoint(bodies):
            self.missing.difference_update(bodies)
            self.drained_by_s = time.monotonic() + DRAIN_S
