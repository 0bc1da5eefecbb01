"""One attack from beginning to end: what is asked of the server before, during and after it.

`withstand` runs an attack beside the traffic of others and checks what each attack has to leave
intact: the latency and success of others, the memory of the server, and its files. An attack is a
function that gets an `Attacker` and returns when `attacker.is_over`; its connections come from
127.0.0.3, and are closed after it.
"""

import os
import socket
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from tests.attack.target import FILES_MAX, Sample, Target
from tests.attack.traffic import Book, Traffic
from tests.patience import until

# For what a module attacks, which its tests share between them. Without the variable a single test
# gets it all when it is run alone.
ATTACK_S = float(os.environ.get("ATTACK_SECONDS", "40"))
SOURCE = "127.0.0.3"
# What 99 of 100 calls of others may take, in milliseconds, on a quiet machine of two cores.
# `make attack` sets it; elsewhere the machine has other work, and the time is printed alone.
P99_MS_MAX = float(os.environ.get("ATTACK_P99_MS", "inf"))
# What an attack may cost while it lasts, and what of it may stay: Python's allocator keeps some.
GROWTH_MIB_MAX = 384.0
LEFT_MIB_MAX = 96.0
WARM_UP_S = 2.0
RETURN_TIMEOUT_S = 40.0
CONNECT_TIMEOUT_S = 5.0


@dataclass(frozen=True)
class Outcome:
    """What an attack did to others and to the server."""

    book: Book
    before: Sample
    peak: Sample
    after: Sample

    def __str__(self) -> str:
        calls = sum(len(times) for times in self.book.ms.values())
        return (
            f"{calls} calls of others: p99 {self.book.p99_ms():.0f} ms, worst "
            f"{self.book.worst_ms():.0f} ms, {self.book.failure_count} failed; resident MiB "
            f"{self.before.resident_mib:.0f} before, {self.peak.resident_mib:.0f} at most, "
            f"{self.after.resident_mib:.0f} after; {self.peak.files} files at most"
        )


class Share:
    """How long one attack lasts; the test that runs sets it."""

    seconds = ATTACK_S


share = Share()


class Attacker:
    """Opens connections from an address of its own, until the time is over."""

    def __init__(self, target: Target, attack_s: float) -> None:
        self.target = target
        self._end_s = time.monotonic() + attack_s
        self._links: list[socket.socket] = []

    @property
    def is_over(self) -> bool:
        return time.monotonic() >= self._end_s

    @property
    def left_s(self) -> float:
        """Seconds until it is over."""
        return max(0.0, self._end_s - time.monotonic())

    def connect(self, port: int | None = None, *, source: str = SOURCE) -> socket.socket:
        """A connection to the HTTP port (or to `port`), which is closed after the attack."""
        where = ("127.0.0.1", port or self.target.port)
        link = socket.create_connection(where, CONNECT_TIMEOUT_S, source_address=(source, 0))
        self._links.append(link)
        return link

    def drop(self, link: socket.socket) -> None:
        """Close a connection before the end."""
        with suppress(ValueError):
            self._links.remove(link)
        link.close()

    def rest(self, most_s: float) -> None:
        """Wait so long, or until it is over."""
        time.sleep(min(most_s, self.left_s))

    def close(self) -> None:
        while self._links:
            self._links.pop().close()


def withstand(
    target: Target,
    attack: Callable[[Attacker], None],
    *,
    attack_s: float | None = None,
    growth_mib_max: float = GROWTH_MIB_MAX,
    left_mib_max: float = LEFT_MIB_MAX,
) -> Outcome:
    """Attack `target` while others go on; check what it has to leave intact.

    It lasts `attack_s`, or this test's share of its module's time.

    Others: no call fails, and 99 of 100 stay within ATTACK_P99_MS where it is set. Memory: it grows
    by no more than `growth_mib_max`, and all but `left_mib_max` of that comes back after the
    attack. Files: they stay below the limit, and return. The outcome is printed, and returned for
    more checks.
    """
    traffic = Traffic(target)
    with traffic:
        time.sleep(WARM_UP_S)
        before = target.sample()
        target.forget_peak()
        attacker = Attacker(target, share.seconds if attack_s is None else attack_s)
        try:
            attack(attacker)
        finally:
            attacker.close()
    peak = target.peak
    after = _returned(target, before, left_mib_max)
    outcome = Outcome(traffic.book, before, peak, after)
    sys.stdout.write(f"{outcome}\n")
    _check(outcome, growth_mib_max, left_mib_max)
    return outcome


def _returned(target: Target, before: Sample, left_mib_max: float) -> Sample:
    """The figures once memory and files came back, or at the end of the time for that."""

    def is_back() -> bool:
        now = target.sample()
        is_small = now.resident_mib <= before.resident_mib + left_mib_max
        return is_small and now.files <= before.files + 16

    with suppress(AssertionError):
        until(is_back, limit_s=RETURN_TIMEOUT_S)
    return target.sample()


def _check(outcome: Outcome, growth_mib_max: float, left_mib_max: float) -> None:
    book, before, peak, after = outcome.book, outcome.before, outcome.peak, outcome.after
    assert book.failure_count == 0, book.failures
    missing = sorted(book.sent - book.got)
    assert not missing, f"{len(missing)} messages are missing: {missing[:20]}"
    assert book.p99_ms() < P99_MS_MAX, outcome
    assert peak.resident_mib - before.resident_mib <= growth_mib_max, outcome
    assert after.resident_mib - before.resident_mib <= left_mib_max, outcome
    assert peak.files < FILES_MAX, outcome
    assert after.files <= before.files + 16, outcome
