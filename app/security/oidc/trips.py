"""A login under way: what ties the browser that left to the browser that comes back.

A signed cookie carries a number, where to go afterwards, and until when; state, nonce and PKCE
verifier are derived from the number with a key that never leaves the process. So the server keeps
nothing for those who leave and never come back. A restart ends what is under way.
"""

import hashlib
import hmac
import secrets
from base64 import urlsafe_b64decode, urlsafe_b64encode

import msgspec

from engine.clock import Clock

LIVES_S = 600
KEY_BYTES = 32
ID_BYTES = 24
THEN_CHARS_MAX = 2000  # so that the cookie stays within a browser's 4096
COOKIE_CHARS_MAX = 4096


class Trip(msgspec.Struct, frozen=True):
    """One way to the provider and back; `then` is a path on this server."""

    id: str
    then: str
    ends_ms: int


class Trips:
    """Makes trips and knows them again."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._key = secrets.token_bytes(KEY_BYTES)

    def begin(self, then: str) -> Trip:
        """A new trip, which has to be over within `LIVES_S`."""
        then = then if len(then) <= THEN_CHARS_MAX else "/"
        ends_ms = self._clock.now_ms() + LIVES_S * 1000
        return Trip(secrets.token_urlsafe(ID_BYTES), then, ends_ms)

    def cookie(self, trip: Trip) -> str:
        """What the browser keeps."""
        payload = _text(msgspec.json.encode(trip))
        return f"{payload}.{self._sign('cookie', payload)}"

    def read(self, cookie: str) -> Trip | None:
        """The trip of a cookie; None where this process did not sign it, or too long ago."""
        payload, _, signature = cookie[:COOKIE_CHARS_MAX].rpartition(".")
        if not hmac.compare_digest(signature.encode(), self._sign("cookie", payload).encode()):
            return None
        trip = msgspec.json.decode(
            urlsafe_b64decode(payload + "=" * (-len(payload) % 4)), type=Trip
        )
        return trip if trip.ends_ms > self._clock.now_ms() else None

    def state(self, trip: Trip) -> str:
        return self._sign("state", trip.id)

    def nonce(self, trip: Trip) -> str:
        return self._sign("nonce", trip.id)

    def verifier(self, trip: Trip) -> str:
        """PKCE's secret: 43 characters."""
        return self._sign("verifier", trip.id)

    def _sign(self, what: str, text: str) -> str:
        mac = hmac.new(self._key, f"{what}:{text}".encode("utf-8", "surrogateescape"), "sha256")
        return _text(mac.digest())


def challenge(verifier: str) -> str:
    """What PKCE shows of the verifier (S256)."""
    return _text(hashlib.sha256(verifier.encode()).digest())


def _text(data: bytes) -> str:
    return urlsafe_b64encode(data).rstrip(b"=").decode()
