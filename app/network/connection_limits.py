"""Limits connections: in total, by address, and by open files, over all ports.

A connection takes a slot before anything else and releases it when its socket is closed. Refusals
are counted by reason, and each reason is logged at most once a minute.
"""

import logging
from collections import Counter
from collections.abc import Callable

from app.connection_settings import ConnectionSettings
from app.network.open_files import FileShares
from app.security.login_limits import network_of

log = logging.getLogger("kitemq.network")

# Reasons, as in the metric kitemq_connections_refused_total.
IN_ALL = "connections_max"
BY_ADDRESS = "address_connections_max"
NO_FILES = "open_files"
SHORT_OF_FILES = "no_file_left"
HEADER_TIMEOUT = "header_timeout"
HEADER_SIZE = "header_size"
MALFORMED = "malformed"
PIPELINED = "pipelined"
BODY_TIMEOUT = "body_timeout"
SLOW_READER = "slow_reader"
UNREAD = "unread_bytes_max"
TLS = "tls_handshake"
REASONS = (
    IN_ALL,
    BY_ADDRESS,
    NO_FILES,
    SHORT_OF_FILES,
    HEADER_TIMEOUT,
    HEADER_SIZE,
    MALFORMED,
    PIPELINED,
    BODY_TIMEOUT,
    SLOW_READER,
    UNREAD,
    TLS,
)
CROWDED = 0.9  # of what is permitted
LOG_EACH_S = 60.0  # between two lines of the log for one reason


class ConnectionRefusals:
    """Counts refused and ended connections by reason; logs each reason once a minute."""

    def __init__(self, clock_s: Callable[[], float]) -> None:
        self._clock_s = clock_s
        self.counts: Counter[str] = Counter(dict.fromkeys(REASONS, 0))
        self._last_logs: dict[str, tuple[float, int]] = {}  # time and count of the last log line

    def note(self, reason: str, address: str) -> None:
        """A connection from `address` was refused or ended for `reason`."""
        self.counts[reason] += 1
        now_s, count = self._clock_s(), self.counts[reason]
        last_s, last_count = self._last_logs.get(reason, (now_s - LOG_EACH_S, 0))
        if now_s - last_s >= LOG_EACH_S:
            self._last_logs[reason] = now_s, count
            log.warning(
                "%d connections were refused or closed (%s), the last one from %s",
                count - last_count,
                reason,
                address,
            )


class ConnectionSlot:
    """The slot of a connection; call `release` once its socket is closed, again does nothing."""

    __slots__ = ("_key", "_limits", "address")

    def __init__(self, limits: "ConnectionLimits", address: str, key: str) -> None:
        self._limits: ConnectionLimits | None = limits
        self.address = address
        self._key = key

    def release(self) -> None:
        limits, self._limits = self._limits, None
        if limits is not None:
            limits.give(self._key)


class ConnectionLimits:
    """The counts of all ports; used on the event loop's thread only."""

    def __init__(
        self,
        settings: ConnectionSettings,
        shares: FileShares,
        clock_s: Callable[[], float],
        *,
        is_trusted: Callable[[str], bool] = lambda address: False,
    ) -> None:
        """`is_trusted` tells whether an address is a proxy, which many clients share."""
        self._settings = settings
        self._is_trusted = is_trusted
        self.shares = shares
        self.files_max = shares.connections  # for connections; fewer if other files need more
        self.count = 0
        self._counts: Counter[str] = Counter()  # connections by address
        self.refusals = ConnectionRefusals(clock_s)

    @property
    def count_max(self) -> int:
        """The limit of connections."""
        return min(self._settings.connections_max, self.files_max)

    @property
    def address_count_max(self) -> int:
        """The limit of connections of one address."""
        return max(1, min(self._settings.address_connections_max, self.files_max // 2))

    def state(self) -> tuple[bool, str]:
        """Whether connections are well below the limit, and the figures as a sentence."""
        shares = self.shares
        text = (
            f"{self.count:,} of {self.count_max:,} are open, one address may have "
            f"{self.address_count_max:,}; of {shares.files_max:,} files that may be open "
            f"{shares.reserved:,} are reserved"
        )
        return self.count < self.count_max * CROWDED, text

    def take(self, address: str) -> ConnectionSlot | None:
        """A slot for a connection from `address`; None if it has to be closed."""
        key = self._key(address)
        if reason := self._refusal(key):
            self.refusals.note(reason, address)
            return None
        self.count += 1
        if key:
            self._counts[key] += 1
        return ConnectionSlot(self, address, key)

    def give(self, key: str) -> None:
        """Release a slot."""
        self.count -= 1
        if key:
            self._counts[key] -= 1
            if not self._counts[key]:
                del self._counts[key]

    def make_room(self, others: int) -> None:
        """Lower the limit if `others`, the open files of no connection, are many."""
        limit = self.shares.files_max
        self.files_max = min(self.shares.connections, max(1, limit - others - limit // 16))

    def _key(self, address: str) -> str:
        return "" if self._is_trusted(address) else network_of(address)

    def _refusal(self, key: str) -> str:
        settings = self._settings
        if key and self._counts[key] >= self.address_count_max:
            return BY_ADDRESS
        if self.count >= settings.connections_max:
            return IN_ALL
        return NO_FILES if self.count >= self.files_max else ""
