"""How often a password may be guessed: counted by name and address, and by name over all addresses.

A guess counts before it is verified, so that guesses sent in parallel count as well. Each failure
past a few doubles the wait of its name at its address; other users of that address never wait.
A name that fails from many addresses waits as well, except at an address where its user has logged
in before: so nobody can lock a user out of the usual place. Every wait has a limit of a minute.

What is remembered is bounded, and the longest unused is forgotten first. Names without a user are
counted apart, so that made-up names never push out the counts of real ones.
"""

import ipaddress
from collections import OrderedDict
from dataclasses import dataclass
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
    """Counts failures under keys; times are those of a monotonic clock."""

    def __init__(self, wait_max_s: float = WAIT_MAX_S, keys_max: int = KEYS_MAX) -> None:
        self._wait_max_s = wait_max_s
        self._keys_max = keys_max
        self._failures: OrderedDict[str, FailureCount] = OrderedDict()

    def __len__(self) -> int:
        return len(self._failures)

    def wait_s(self, key: str, now_s: float) -> float:
        """How long `key` has to wait before its next attempt; 0 where it may try."""
        found = self._failures.get(key)
        return max(0.0, found.until_s - now_s) if found is not None else 0.0

    def failed(self, key: str, now_s: float) -> bool:
        """Count a failure; whether `key` has to wait from now on."""
        found = self._failures.pop(key, None)
        if found is None or now_s - found.last_s > FORGET_AFTER_S:
            found = FailureCount()
        found.count += 1
        found.last_s = now_s
        over = found.count - FREE_FAILURES
        if over >= 0:
            found.until_s = now_s + min(self._wait_max_s, 2.0 ** min(over, 30))
        self._failures[key] = found
        while len(self._failures) > self._keys_max:
            self._failures.popitem(last=False)
        return over >= 0

    def forgive(self, key: str) -> None:
        """Take back the latest failure: what was counted has not been tried."""
        found = self._failures.get(key)
        if found is not None:
            found.count -= 1
            found.until_s = 0.0

    def succeeded(self, key: str) -> None:
        """Forget what failed before."""
        self._failures.pop(key, None)


@dataclass(frozen=True)
class LoginAttempt:
    """One attempt to log in, as it is counted."""

    name: str
    network: str  # the address that it comes from; of IPv6 its network
    is_user: bool  # whether there is a user of that name
    is_usual: bool  # whether that user has logged in from there before

    @property
    def pair(self) -> str:
        return f"{self.network} {self.name}"


class LoginLimits:
    """Decides which attempts may be verified; on the event loop's thread only."""

    def __init__(self, keys_max: int = KEYS_MAX) -> None:
        self._keys_max = keys_max
        # By whether there is a user of that name.
        self._pairs = {known: FailureCounts(keys_max=keys_max) for known in (True, False)}
        self._names = {known: FailureCounts(keys_max=keys_max) for known in (True, False)}
        self._usual: OrderedDict[str, None] = OrderedDict()  # pairs that have logged in

    def __len__(self) -> int:
        counted = (*self._pairs.values(), *self._names.values())
        return sum(map(len, counted)) + len(self._usual)

    def guess(
        self, name: str, address: str, *, is_user: bool, is_usual: bool = False
    ) -> LoginAttempt:
        """The attempt as it is counted; `is_usual` where a login from there is known otherwise."""
        network = network_of(address)
        made = LoginAttempt(name[:NAME_CHARS_MAX], network, is_user, is_usual)
        return (
            made
            if is_usual or made.pair not in self._usual
            else LoginAttempt(made.name, network, is_user, is_usual=True)
        )

    def wait_s(self, guess: LoginAttempt, now_s: float) -> float:
        """How long the attempt has to wait; 0 where it may be verified."""
        by_pair = self._pairs[guess.is_user].wait_s(guess.pair, now_s)
        if guess.is_usual:
            return by_pair
        return max(by_pair, self._names[guess.is_user].wait_s(guess.name, now_s))

    def count(self, guess: LoginAttempt, now_s: float) -> bool:
        """Count the attempt, before it is verified; whether the next one has to wait."""
        is_limited = self._pairs[guess.is_user].failed(guess.pair, now_s)
        if guess.is_usual:
            return is_limited
        return self._names[guess.is_user].failed(guess.name, now_s) or is_limited

    def forgive(self, guess: LoginAttempt) -> None:
        """The attempt was not verified after all."""
        self._pairs[guess.is_user].forgive(guess.pair)
        if not guess.is_usual:
            self._names[guess.is_user].forgive(guess.name)

    def succeeded(self, guess: LoginAttempt) -> None:
        """The password fitted: forget what failed, and know the address from now on."""
        self._pairs[guess.is_user].succeeded(guess.pair)
        self._names[guess.is_user].succeeded(guess.name)
        self._usual.pop(guess.pair, None)
        self._usual[guess.pair] = None
        while len(self._usual) > self._keys_max:
            self._usual.popitem(last=False)


@lru_cache(maxsize=4096)
def network_of(address: str) -> str:
    """What stands for one sender: an IPv4 address, or the /64 network of an IPv6 one."""
    try:
        parsed = ipaddress.ip_address(address.strip("[]"))
    except ValueError:
        return address
    if isinstance(parsed, ipaddress.IPv4Address):
        return str(parsed)
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return str(ipaddress.ip_network((int(parsed), IPV6_PREFIX_BITS), strict=False))
