"""How far standbys have come, and what waits for one of them: the durability `replicated`.

Who serves standbys says when one is in step and what it has. A send that finds none, or waits too
long, is refused or gets `flushed`, as the settings say; its messages stay stored. Readers wait as
long as senders do.
"""

from collections import deque
from collections.abc import Callable

from engine.clock import Clock
from engine.errors import Busy
from engine.message import Durability
from engine.service import IDLE_WAIT_MAX_S, Service

Accepted = Callable[[Durability, Exception | None], None]

NOT_REPLICATED = "not_replicated"
RETRY_S = 0.1  # one that was lost comes back as soon as that
REMEDY = "see to the standby; or set replicated_fallback, or ask for less durability"


class Replicas(Service):
    """`reached` is the position up to which a standby has log and journal."""

    name = "replicas"

    def __init__(
        self,
        clock: Clock,
        *,
        timeout_s: float,
        falls_back: bool,
        show: Callable[[int], None] = lambda position: None,
    ) -> None:
        """`show` is told up to which position readers need wait no longer."""
        super().__init__()
        self._clock, self._timeout_s, self._falls_back = clock, timeout_s, falls_back
        self._show = show
        self._held: deque[tuple[int, float]] = deque()  # from readers, oldest first
        self._waiting: deque[tuple[int, float, Accepted]] = deque()  # oldest first
        self._in_step = 0
        self.reached = 0

    def join(self) -> None:
        """A standby is in step: it has had everything once since it connected."""
        self._in_step += 1

    def leave(self) -> None:
        """One that was in step is gone. Those that wait go on: it may come back in time."""
        self._in_step -= 1

    @property
    def has_standby(self) -> bool:
        """Whether one is in step just now."""
        return self._in_step > 0

    def level(self) -> Durability:
        """What a send that asks for `replicated` can have now; Busy where it is refused."""
        if self._in_step:
            return Durability.REPLICATED
        if self._falls_back:
            return Durability.FLUSHED
        detail = "no standby is in step"
        raise Busy(detail, code=NOT_REPLICATED, remedy=REMEDY, retry_after_s=RETRY_S)

    def hold(self, position: int) -> None:
        """What was stored as REPLICATED ends at `position`: let `show` know when it may be read."""
        self._held.append((position, self._clock.monotonic_s() + self._timeout_s))
        if len(self._held) == 1:
            self.wake()

    def request(self, position: int, done: Accepted) -> None:
        """Call `done` once a standby has all before `position`, or the wait is over."""
        if position <= self.reached:
            done(Durability.REPLICATED, None)
            return
        self._waiting.append((position, self._clock.monotonic_s() + self._timeout_s, done))
        if len(self._waiting) == 1:
            self.wake()

    def report(self, position: int) -> None:
        """A standby has all before `position`."""
        self.reached = max(self.reached, position)
        self._let_read(self._clock.monotonic_s())
        while self._waiting and self._waiting[0][0] <= self.reached:
            self._waiting.popleft()[2](Durability.REPLICATED, None)

    def _let_read(self, now_s: float) -> None:
        shown = 0
        while self._held and (self._held[0][0] <= self.reached or self._held[0][1] <= now_s):
            shown, _ = self._held.popleft()
        if shown:
            self._show(shown)

    def tick(self) -> float:
        """Tell those who waited too long."""
        now_s = self._clock.monotonic_s()
        self._let_read(now_s)
        while self._waiting and self._waiting[0][1] <= now_s:
            done = self._waiting.popleft()[2]
            if self._falls_back:
                done(Durability.FLUSHED, None)
                continue
            detail = f"it is stored here, but no standby had it within {self._timeout_s} s"
            done(Durability.FLUSHED, Busy(detail, code=NOT_REPLICATED, remedy=REMEDY))
        ends_s = [each[0][1] for each in (self._waiting, self._held) if each]
        return min(ends_s, default=now_s + IDLE_WAIT_MAX_S) - now_s
