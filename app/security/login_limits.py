"""Limits failed logins by name and address, and by name over all addresses.

An attempt counts before its password is verified, so that parallel attempts count too. After a few
failures, each further one doubles the wait of this name at this address; other users of the
address do not wait. A name that fails from many addresses also waits everywhere except at
addresses where its user has logged in before, so that nobody can lock a user out. No wait is longer
than a minute.

The counts are bounded; the least recently used goes first. Names without a user have counts of
their own, so that made-up names never displace those of users.
"""

import ipaddress
from collections import OrderedDict
from dataclasses import dataclass, replace
from functools import lru_cache

FREE_FAILURES = 5
WAIT_MAX_S = 60.0
FORGET_AFTER_S = 3600.0
KEYS_MAX = 10_000  # of each kind of count
NAME_CHARS_MAX = 65  # one more than a user's name can have
IPV6_PREFIX_BITS = 64  # what one customer of a provider is given


@dataclass
class FailureCount:
    count: int = 0
    last_s: float = 0.0
    until_s: float = 0.0


class FailureCounts:
    """Failure counts by key; times are monotonic seconds."""

    def __init__(self, wait_max_s: float = WAIT_MAX_S, keys_max: int = KEYS_MAX) -> None:
        self._wait_max_s = wait_max_s
        self._keys_max = keys_max
        self._failures: OrderedDict[str, FailureCount] = OrderedDict()

    def __len__(self) -> int:
        return len(self._failures)

    def wait_s(self, key: str, now_s: float) -> float:
        """Seconds until the next attempt of `key` is allowed; 0 if it is allowed now."""
        failures = self._failures.get(key)
        return max(0.0, failures.until_s - now_s) if failures is not None else 0.0

    def failed(self, key: str, now_s: float) -> bool:
        """Count a failure; True if `key` has to wait from now on."""
        failures = self._failures.pop(key, None)
        if failures is None or now_s - failures.last_s > FORGET_AFTER_S:
            failures = FailureCount()
        failures.count += 1
        failures.last_s = now_s
        over = failures.count - FREE_FAILURES
        if over >= 0:
            failures.until_s = now_s + min(self._wait_max_s, 2.0 ** min(over, 30))
        self._failures[key] = failures
        while len(self._failures) > self._keys_max:
            self._failures.popitem(last=False)
        return over >= 0

    def forgive(self, key: str) -> None:
        """Undo the latest failure: its password was not verified."""
        failures = self._failures.get(key)
        if failures is not None:
            failures.count -= 1
            failures.until_s = 0.0

    def succeeded(self, key: str) -> None:
        """Forget earlier failures."""
        self._failures.pop(key, None)


@dataclass(frozen=True)
class LoginAttempt:
    """One login attempt, as it is counted."""

    name: str
    network: str  # the client's address; for IPv6 its /64 network
    is_user: bool  # whether there is a user of that name
    is_usual: bool  # whether that user has logged in from there before

    @property
    def pair(self) -> str:
        return f"{self.network} {self.name}"


class LoginLimits:
    """Decides which attempts may be verified; used on the event loop's thread only."""

    def __init__(self, keys_max: int = KEYS_MAX) -> None:
        self._keys_max = keys_max
        # By whether there is a user of that name.
        self._pairs = {is_user: FailureCounts(keys_max=keys_max) for is_user in (True, False)}
        self._names = {is_user: FailureCounts(keys_max=keys_max) for is_user in (True, False)}
        self._usual: OrderedDict[str, None] = OrderedDict()  # pairs that have logged in

    def __len__(self) -> int:
        counted = (*self._pairs.values(), *self._names.values())
        return sum(map(len, counted)) + len(self._usual)

    def attempt(
        self, name: str, address: str, *, is_user: bool, is_usual: bool = False
    ) -> LoginAttempt:
        """A new attempt; `is_usual` if the user is known to log in from this address."""
        attempt = LoginAttempt(name[:NAME_CHARS_MAX], network_of(address), is_user, is_usual)
        return replace(attempt, is_usual=is_usual or attempt.pair in self._usual)

    def wait_s(self, attempt: LoginAttempt, now_s: float) -> float:
        """Seconds that the attempt has to wait; 0 if it may be verified."""
        by_pair = self._pairs[attempt.is_user].wait_s(attempt.pair, now_s)
        if attempt.is_usual:
            return by_pair
        return max(by_pair, self._names[attempt.is_user].wait_s(attempt.name, now_s))

    def count(self, attempt: LoginAttempt, now_s: float) -> bool:
        """Count the attempt before it is verified; True if the next one has to wait."""
        is_limited = self._pairs[attempt.is_user].failed(attempt.pair, now_s)
        if attempt.is_usual:
            return is_limited
        return self._names[attempt.is_user].failed(attempt.name, now_s) or is_limited

    def forgive(self, attempt: LoginAttempt) -> None:
        """Undo `count` for an attempt that was not verified."""
        self._pairs[attempt.is_user].forgive(attempt.pair)
        if not attempt.is_usual:
            self._names[attempt.is_user].forgive(attempt.name)

    def succeeded(self, attempt: LoginAttempt) -> None:
        """The password was right: forget failures and remember the address as usual."""
        self._pairs[attempt.is_user].succeeded(attempt.pair)
        self._names[attempt.is_user].succeeded(attempt.name)
        self._usual.pop(attempt.pair, None)
        self._usual[attempt.pair] = None
        while len(self._usual) > self._keys_max:
            self._usual.popitem(last=False)


@lru_cache(maxsize=4096)
def network_of(address: str) -> str:
    """The unit that is counted: an IPv4 address, or the /64 network of an IPv6 address."""
    try:
        parsed = ipaddress.ip_address(address.strip("[]").partition("%")[0])
    except ValueError:
        return address
    if isinstance(parsed, ipaddress.IPv4Address):
        return str(parsed)
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return str(ipaddress.ip_network((int(parsed), IPV6_PREFIX_BITS), strict=False))
